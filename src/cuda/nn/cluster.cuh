#pragma once
#include "cuda/nn/tensor.cuh"

// Blocks in clusters of `cluster` along x, which compute capability 9.0 and later have; 1: plain blocks.
template <typename... A>
static int launch_clusters(void (*kernel)(A...), dim3 grid, int cluster, int threads, int shared, cuda_stream stream, const A &...args)
{
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute size;
    size.id = cudaLaunchAttributeClusterDimension;
    size.val.clusterDim.x = (unsigned)cluster, size.val.clusterDim.y = size.val.clusterDim.z = 1;
    c.gridDim = grid, c.blockDim = dim3((unsigned)threads), c.dynamicSmemBytes = (size_t)shared;
    c.stream = on(stream), c.attrs = &size, c.numAttrs = cluster > 1;
    cudaError_t err = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    return taken(err != cudaSuccess ? err : cudaLaunchKernelEx(&c, kernel, args...));
}
