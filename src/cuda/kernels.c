#include "cuda/kernels.h"

const struct tachy_cuda_kernels *tachy_cuda_kernels(void)
{
#if TACHY_CUDA
#define LAUNCHER(name, type) .name = tachy_cuda_run_##name,
    static const struct tachy_cuda_kernels all = {TACHY_CUDA_KERNELS(LAUNCHER)};
    return &all;
#else
    return NULL;
#endif
}
