#pragma once
#include <tachy/gpu.h>

// As tachy_gpus_asked(), but whether or not anything is to be on a GPU.
int tachy_gpus_named(const tachy_settings *s, int ids[TACHY_MAX_GPUS], int *n, const struct tachy_log *log);
