#pragma once
#include "cuda/launch.h"

#include <tachy/tensor.h>

// A segmentation network's output to 8-bit masks: probability, sigmoid, softmax or argmax of each
// pixel. The bits are those of tachy_mask_from_tensor() (postprocess/mask.h).
enum {
    TACHY_CUDA_PROB_AS_IS,   // one channel of probabilities 0..1
    TACHY_CUDA_PROB_SIGMOID, // one channel of logits
    TACHY_CUDA_PROB_SOFTMAX, // `channel` of `channels`
    TACHY_CUDA_PROB_ARGMAX,  // the largest channel, the first of equal ones; NaN is never larger
};
enum { TACHY_CUDA_PROB_EACH = 8 };
struct tachy_cuda_prob {
    cuda_address src;       // the value of the first picture's upper left pixel, channel 0
    cuda_address dst;       // where that pixel goes
    int64_t row, col, chan; // elements from value to value in src
    int64_t next_src;       // elements from picture to picture
    int64_t dst_x, dst_y;   // bytes from pixel to pixel and row to row, for turned pictures below 0
    int64_t next_dst;       // bytes
    // That address in each of the pictures, instead of dst and next_dst; 0: not given.
    cuda_address each[TACHY_CUDA_PROB_EACH];
    int width, height;      // pixels, as in src
    int count;              // pictures, at most 65535, with `each` TACHY_CUDA_PROB_EACH
    int channels;           // 1..32
    int channel;            // the one to read; only SOFTMAX also reads the others
    int what;               // TACHY_CUDA_PROB_*
    enum tachy_dtype dtype; // F32, F16 or U8 (0..255 for 0..1)
    int threshold;          // 1..255: 255 if the mask is at least this, else 0; 0: soft
    uint32_t classes;       // ARGMAX: 255 where the channel's bit is set, else 0; 0: its number
};
TACHY_CUDA_LAUNCHER(prob, tachy_cuda_prob)
