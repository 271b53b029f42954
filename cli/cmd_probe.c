#include "cli.h"

#include <stdlib.h>
