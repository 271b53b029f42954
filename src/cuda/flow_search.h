#pragma once
#include "cuda/launch.h"

// The search of one level for several pairs of pictures. Twin: flow/patch.c, with the same bits.
//
// A patch starts from the results of its neighbours to the left and above, so patches along a diagonal are searched in
// parallel: a warp takes four rows of patches. Each row stays one patch behind the row above, and each warp waits for
// the one above.
struct tachy_cuda_flow_search {
    cuda_address here, there;        // float: pixel (0, 0) of the first pair's level, TACHY_CUDA_FLOW_PAD pixels around it
    cuda_address coarse_u, coarse_v; // float: of the coarser level, without gaps; 0: there is none
    cuda_address grid;               // float pairs: a vector per patch, (width / 4 + 1) * (height / 4 + 1)
    cuda_address u, v;               // float: the result, without gaps
    cuda_address turns;              // int32_t [1 + count * (height / 16 + 1)], of all pairs: whose turn it is
    int64_t next;                    // bytes from pair to pair, of all but `turns`
    int count, width, height;        // at least 8 x 8 pixels
    int stride;                      // floats, of here and there
    int coarse_width, coarse_height;
};
TACHY_CUDA_LAUNCHER(flow_search, tachy_cuda_flow_search)
