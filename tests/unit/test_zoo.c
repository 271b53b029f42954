#include "test.h"
TEST_MAIN({0})
