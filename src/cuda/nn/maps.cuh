#pragma once
// Tensors as TMA wants them described, on the host.
#include "cuda/nn/hopper.cuh"
#include "cuda/nn/tensor.cuh"

typedef CUresult (*encode_fn)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                              const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                              CUtensorMapFloatOOBfill);
static encode_fn encoder(void)
{
    static encode_fn found;
    void *fn = NULL;
    cudaDriverEntryPointQueryResult result;
    if (!found && cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &fn, 12000, cudaEnableDefault, &result) == cudaSuccess)
        found = (encode_fn)fn;
    return found;
}

// Describes a tensor of 16-bit elements with up to five dimensions, innermost first, from which boxes are fetched: box
// elements per dimension, step apart. Strides count elements; the innermost is 1. Rows of 64 or 32 elements are swizzled;
// others lie dense.
static bool encode(CUtensorMap *map, cuda_address data, int rank, const int64_t *size, const int64_t *stride, const int *box, const int *step)
{
    cuuint64_t sizes[5], strides[4];
    cuuint32_t boxes[5], steps[5];
    for (int d = 0; d < rank; d++) {
        sizes[d] = (cuuint64_t)size[d], boxes[d] = (cuuint32_t)(box[d] * step[d]), steps[d] = (cuuint32_t)step[d];
        if (d)
            strides[d - 1] = (cuuint64_t)stride[d] * 2;
    }
    const CUtensorMapSwizzle swizzle = box[0] == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : box[0] == 32 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_NONE;
    encode_fn fn = encoder();
    return fn && fn(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, (cuuint32_t)rank, at<void>(data), sizes, strides, boxes, steps,
                    CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}
