#pragma once
#include "cuda/abi.h"

#include <stddef.h>

// Declares a kernel's launcher. Launchers are called through the table in cuda/nn/kernels.h.
#ifdef __cplusplus
#define TACHY_NN_LAUNCHER(name, type) extern "C" int tachy_nn_run_##name(const struct type *a, cuda_stream stream);
#else
#define TACHY_NN_LAUNCHER(name, type) int tachy_nn_run_##name(const struct type *a, cuda_stream stream);
#endif
