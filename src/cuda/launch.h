#pragma once
#include "cuda/abi.h"

// How a kernel's launcher is declared, for C and for .cu files. The table in cuda/kernels.h is how it
// is called.
#ifdef __cplusplus
#define TACHY_CUDA_LAUNCHER(name, type) \
    extern "C" int tachy_cuda_run_##name(const struct type *a, cuda_stream stream);
#else
#define TACHY_CUDA_LAUNCHER(name, type) int tachy_cuda_run_##name(const struct type *a, cuda_stream stream);
#endif
