#pragma once
#include "cuda/kernels.h"
#include "flow/flow.h"

// Dense flow of several pairs of pictures at once, on a GPU: the bits of tachy_flow_run() with TACHY_FLOW_PICTURE, at the finest
// level that is searched. Owns nothing: the caller has the memory.
struct flow_cuda {
    int width, height; // of the pictures
    int finest, levels; // as flow_levels() says; levels > 0
    int most;          // pairs
    int64_t there, u, v, slopes, grid, plane, next; // bytes; see flow_cuda.c
    int64_t level[FLOW_LEVELS_MOST];
    size_t bytes;      // of the memory
    size_t first;      // index of the first pair
};

enum { FLOW_CUDA_PAIRS = TACHY_CUDA_FLOW_PICTURES / 2 };

// For up to `most` pairs of 1..FLOW_CUDA_PAIRS. false: the pictures are smaller than a patch, and nothing moves.
bool flow_cuda_plan(struct flow_cuda *f, int width, int height, int most);

// Queues the flow of `count` pairs on `stream`: here[i] and there[i] are luma, rows `stride` bytes apart; `memory` has f->bytes. Returns
// the driver's status. The flow of pair i is at flow_cuda_result(f, memory, i): u, then v, each of the finest level's size.
int flow_cuda_run(const struct flow_cuda *f, const struct tachy_cuda_kernels *k, cuda_address memory, const cuda_address here[],
                  const cuda_address there[], int64_t stride, int count, cuda_stream stream);

static inline cuda_address flow_cuda_result(const struct flow_cuda *f, cuda_address memory, int i)
{
    return memory + f->first + (cuda_address)(i * f->next + f->u);
}
static inline size_t flow_cuda_result_bytes(const struct flow_cuda *f)
{
    return 2 * sizeof(float) * (size_t)(f->width >> f->finest) * (size_t)(f->height >> f->finest);
}
