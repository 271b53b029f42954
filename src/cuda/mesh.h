#pragma once
#include "cuda/launch.h"
#include "ref/ref_mesh.h"

// Textured triangles into pictures: each pixel from the last triangle, in their order, that covers its
// centre; others stay as they are. Texture: bilinear, edges repeated. Twin: ref/ref_mesh.c, the same
// pixels, and the same bits for bytes.
struct tachy_cuda_mesh {
    cuda_address corner;   // struct tachy_mesh_corner, `corners` a picture
    cuda_address triangle; // int32_t[3] a triangle, numbers of corners; the same for all pictures
    cuda_address texture, dst; // not the same memory
    cuda_address scratch;      // width * height * count int32_t
    int64_t row_src, col_src, chan_src, next_src; // elements
    int64_t row_dst, col_dst, chan_dst, next_dst;
    int width_src, height_src; // of the texture
    int width, height;         // of dst, at most 16384
    int corners, triangles;    // a triangle that names no corner of these is left out
    int channels;              // 1..4
    int count;                 // pictures, at most 65535
    int type;                  // TACHY_WARP_U8, _F16 or _F32 (ref/ref_warp.h)
};
TACHY_CUDA_LAUNCHER(mesh, tachy_cuda_mesh)
