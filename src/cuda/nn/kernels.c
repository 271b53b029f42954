#include "cuda/nn/kernels.h"

const struct tachy_nn_kernels *tachy_nn_kernels(void)
{
#if TACHY_CUDA
    static const struct tachy_nn_kernels all = {
#define KERNEL(name, type) .name = tachy_nn_run_##name,
#include "cuda/nn/kernels.inc"
#undef KERNEL
        .depthwise_parts = tachy_nn_depthwise_parts,
        .grid_sample = tachy_cuda_run_grid_sample,
    };
    return &all;
#else
    return NULL;
#endif
}
