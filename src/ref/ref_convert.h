#pragma once
#include <stdbool.h>
#include <stdint.h>

// R'G'B' of full range to and from Y'CbCr 4:2:0 with interleaved chroma (NV12, P010), in whole numbers.
// R'G'B' is interleaved bytes, or planes of floats of 0..1 (outside of it they are cut, NaN is 0), which
// go through whole numbers of 0..TACHY_RGB_WHITE: a float of n / 255 gives what the byte n gives.

enum tachy_rgb_type { TACHY_RGB_BYTES3, TACHY_RGB_BYTES4, TACHY_RGB_F16, TACHY_RGB_F32 };
enum {
    TACHY_RGB_WHITE = 255 * 64,
    TACHY_YUV_TO_RGB_SHIFT = 20,
};

// The numbers of one matrix, range and depth; tachy_yuv_codes_of() makes them.
struct tachy_yuv_codes {
    int bits;         // of Y'CbCr: 8 bits, or 10 in the upper bits of words
    int centre, top;  // chroma lies between two columns; in the upper of two rows
    // To Y'CbCr: luma is (luma . rgb + luma_add) >> luma_shift of bytes; chroma is computed from 16 times the mean of
    // the surrounding pixels, weighted 1 2 1 (or 0 2 2 if it lies between two) across and down.
    int32_t luma[3], cb[3], cr[3]; // luma: -32768..32767
    int32_t luma_add, chroma_add[2]; // of Cb, of Cr
    int luma_shift, chroma_shift;
    // To R'G'B': y * Y + weights . (16 times the chroma between its neighbours) + add, all times
    // 2^TACHY_YUV_TO_RGB_SHIFT of a byte.
    int32_t y, r_cr, g_cb, g_cr, b_cb;
    int32_t r_add, g_add, b_add;
};

// `matrix`, `full` (range) and `chroma_loc` as in struct tachy_color, all of them known; bits 8 or 10.
// false: the matrix has no luma weights.
bool tachy_yuv_codes_of(struct tachy_yuv_codes *k, int bits, int matrix, bool full, int chroma_loc);

// From 8-bit Y'CbCr to another matrix, range and depth (8 or 10), with chroma between two columns and rows:
// tachy_ref_rgb_to_yuv() then takes bytes of luma, Cb and Cr as R, G and B. Intermediate values are not clamped.
struct tachy_yuv_side {
    int matrix;
    bool full;
};
void tachy_yuv_codes_between(struct tachy_yuv_codes *k, const struct tachy_yuv_side *from,
                             const struct tachy_yuv_side *to, int bits);

// Pictures on the host. Rows of bytes or planes may have any address and distance (bytes).
struct tachy_rgb_picture {
    enum tachy_rgb_type type;
    bool blue_first;    // of bytes: B G R (A). Alpha is written 255 and not read
    uint8_t *plane[3];  // bytes: plane[0]; floats: R, G, B
    int64_t stride;
};
struct tachy_yuv_picture {
    uint8_t *luma, *chroma;
    int64_t luma_stride, chroma_stride;
};

void tachy_ref_rgb_to_yuv(const struct tachy_yuv_codes *k, const struct tachy_rgb_picture *rgb,
                          const struct tachy_yuv_picture *yuv, int width, int height);
void tachy_ref_yuv_to_rgb(const struct tachy_yuv_codes *k, const struct tachy_yuv_picture *yuv,
                          const struct tachy_rgb_picture *rgb, int width, int height);
