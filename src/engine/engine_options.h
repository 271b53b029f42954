#pragma once
#include <tachy/settings.h>

// Which model a task runs, and what runs it. Ends with {0}.
extern const struct tachy_option tachy_model_options[];
