#pragma once
#include "cuda/launch.h"

enum { TACHY_CUDA_FLOW_SLOPES = 9 };

// The variational refinement of one level for several pairs of pictures. Twin: flow/variational.c, with its bits.
//
// A round's ten sweeps over half the pixels are done in shared memory, on 42 x 42 pixels and the 11 around them that
// they depend on, so a round reads and writes its planes once.
struct tachy_cuda_flow_refine {
    cuda_address here, there;    // float: pixel (0, 0) of the first pair's level, TACHY_CUDA_FLOW_PAD pixels around it
    cuda_address u[3], v[3];     // float, without gaps: u[0], v[0] are the flow to refine, u[1], v[1] the result
    cuda_address slopes;         // float [TACHY_CUDA_FLOW_SLOPES][height][width]: what is made on the way
    int64_t next;                // bytes from pair to pair
    int count, width, height;
    int stride;                  // floats, of here and there
};
TACHY_CUDA_LAUNCHER(flow_refine, tachy_cuda_flow_refine)
