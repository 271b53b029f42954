#pragma once
#include <tachy/settings.h>

extern const struct tachy_option tachy_gpu_options[]; // ends with {0}
