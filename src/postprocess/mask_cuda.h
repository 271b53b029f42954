#pragma once
#include "cuda/kernels.h"
#include "postprocess/mask.h"

// tachy_mask_from_tensor() for a tensor in GPU memory, with the same bits, into rows of `stride` bytes, queued on
// `stream`: `count` contiguous dense pictures of the tensor's shape, at most TACHY_CUDA_PROB_EACH, each to its `dst`.
// The device's context must be current to the thread. TACHY_ERR_MISMATCH: the shape or type does not fit the spec;
// TACHY_ERR_EXTERNAL, logged.
int tachy_mask_from_tensor_cuda(const struct tachy_mask_spec *spec, const struct tachy_tensor *t,
                                const struct tachy_placement *pl, int rotation, bool flip, const cuda_address dst[],
                                int64_t stride, int count, const struct tachy_cu *cu, cuda_stream stream,
                                const struct tachy_log *log);
