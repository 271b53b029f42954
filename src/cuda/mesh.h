#pragma once
#include "cuda/launch.h"
#include "ref/ref_mesh.h"

// Textured triangles into pictures: each pixel from the last triangle, in their order, that covers its
// centre; others stay as they are, or are the first texture's at the same place. Texture: bilinear, edges repeated. Twin:
// ref/ref_mesh.c, the same pixels, and the same bits for bytes.
struct tachy_cuda_texture {
    cuda_address data;
    int64_t row, col, chan, next; // elements from one row, column, channel and picture to the next
    int width, height;
};
struct tachy_cuda_mesh {
    cuda_address corner;   // struct tachy_mesh_corner, `corners` a picture
    cuda_address triangle; // int32_t[3] a triangle, numbers of corners; the same for all pictures
    // Triangles other_from .. other_end - 1 use texture[1], which may be missing if there are none; all others use [0].
    struct tachy_cuda_texture texture[2];
    int other_from, other_end;
    cuda_address dst;     // not the textures' memory
    cuda_address scratch; // width * height * count int32_t
    int64_t row_dst, col_dst, chan_dst, next_dst; // elements; negative ones mirror
    int width, height;         // of dst, at most 16384
    int corners, triangles;    // a triangle that names no corner of these is left out
    int channels;              // 1..4
    int count;                 // pictures, at most 65535
    int type;                  // TACHY_MESH_U8, _F16 or _F32 (ref/ref_mesh.h)
    int fill;                  // 1: pixels that no triangle covers are texture[0]'s, which is as large as dst; 0: they stay
};
TACHY_CUDA_LAUNCHER(mesh, tachy_cuda_mesh)
