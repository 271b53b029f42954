#pragma once
#include "cuda/abi.h"

// Declares a kernel's launcher, for C and for .cu files. Launchers are called through the table in cuda/kernels.h.
#ifdef __cplusplus
#define TACHY_CUDA_LAUNCHER(name, type) \
    extern "C" int tachy_cuda_run_##name(const struct type *a, cuda_stream stream);
#else
#define TACHY_CUDA_LAUNCHER(name, type) int tachy_cuda_run_##name(const struct type *a, cuda_stream stream);
#endif
