#pragma once
#include "cuda/abi.h"

#include <stddef.h>

// How a kernel's launcher is declared. The table in cuda/nn/kernels.h is how it is called.
#ifdef __cplusplus
#define TACHY_NN_LAUNCHER(name, type) extern "C" int tachy_nn_run_##name(const struct type *a, cuda_stream stream);
#else
#define TACHY_NN_LAUNCHER(name, type) int tachy_nn_run_##name(const struct type *a, cuda_stream stream);
#endif
