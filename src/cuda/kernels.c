#include "cuda/kernels.h"

#include <stddef.h>

const struct tachy_cuda_kernels *tachy_cuda_kernels(void)
{
#if TACHY_CUDA
    static const struct tachy_cuda_kernels all = {
#define KERNEL(name, type) .name = tachy_cuda_run_##name,
#include "cuda/kernels.inc"
#undef KERNEL
    };
    return &all;
#else
    return NULL;
#endif
}
