#pragma once
#include "cuda/launch.h"

// Non-maximum suppression of a batch of pictures' boxes. The same boxes as the twin ref/ref_nms.c.
enum { TACHY_CUDA_NMS_BOXES = 32768 };
struct tachy_cuda_nms {
    cuda_address box;     // float[4] per box: x0, y0, x1, y1; `boxes` per picture, picture after picture
    cuda_address score;   // float
    cuda_address classes; // int32_t; 0: all are of one class
    cuda_address kept;    // int32_t, `limit` a picture: numbers of the boxes that stay, best first; the rest -1
    cuda_address found;   // int32_t a picture: how many stay
    cuda_address scratch; // tachy_cuda_nms_scratch() bytes, aligned to 16
    int boxes;            // 1..32768
    int count;            // pictures, at most 65535
    int limit;            // 1 and more
    float most;           // share of the union above which the lower one goes
    float least;          // boxes with a score up to this, or NaN, are left out
};
TACHY_CUDA_LAUNCHER(nms, tachy_cuda_nms)

static inline uint64_t tachy_cuda_nms_words(int boxes) { return ((uint64_t)boxes + 63) / 64; }
// 134 MiB per picture for 32768 boxes, 136 KiB for 1000.
static inline uint64_t tachy_cuda_nms_scratch(int boxes, int count)
{
    uint64_t n = tachy_cuda_nms_words(boxes) * 64;
    return (uint64_t)count * n * (tachy_cuda_nms_words(boxes) * 8 + 16 + 4 + 4 + 4);
}
