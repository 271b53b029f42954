#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// A frame number written into pixels as black and white blocks, so that a test can tell which
// frame it sees after any encoder: 32 bits, most significant first, in blocks of 8 to 32
// pixels a side, in rows from the top left corner. Block size and blocks a row follow from the
// picture's width. A picture too small for 32 blocks holds the most significant ones that fit,
// so it can be told only up to that.

struct tachy_counter_grid {
    int block, columns, bits; // pixels a side, blocks a row, bits that fit
};

static inline struct tachy_counter_grid tachy_counter_grid(int width, int height)
{
    int block = width / 32 / 8 * 8;
    block = block < 8 ? 8 : block > 32 ? 32 : block;
    int columns = width / block < 32 ? width / block : 32;
    int bits = columns * (height / block);
    return (struct tachy_counter_grid){block, columns, bits < 32 ? bits : 32};
}

// `step`: samples a pixel in the plane (1 luma, 3 RGB24, ...), all are written; `bytes` a
// sample: 1 or 2; `bits` and `shift` as in tachy_pix_desc. Black is 16, white 235 (8 bit).
static inline void tachy_counter_write(uint8_t *plane, ptrdiff_t stride, int width, int height,
                                       int step, int bytes, int bits, int shift, uint32_t number)
{
    struct tachy_counter_grid g = tachy_counter_grid(width, height);
    size_t samples = (size_t)(g.block * step);
    for (int b = 0; b < g.bits; b++) {
        int value = (number >> (31 - b) & 1 ? 235 : 16) << (bits - 8) << shift;
        ptrdiff_t x = (ptrdiff_t)(b % g.columns) * g.block * step * bytes;
        for (int y = 0; y < g.block; y++) {
            uint8_t *row = plane + (ptrdiff_t)(b / g.columns * g.block + y) * stride + x;
            if (bytes == 1) {
                memset(row, value, samples);
                continue;
            }
            for (size_t i = 0; i < samples; i++) {
                row[2 * i] = (uint8_t)value;
                row[2 * i + 1] = (uint8_t)(value >> 8);
            }
        }
    }
}

// Mean of a block's inner part, 0..255.
static inline int tachy_counter_block_mean(const uint8_t *plane, ptrdiff_t stride, int x0, int y0,
                                           int block, int step, int bytes, int bits, int shift)
{
    int64_t sum = 0, n = 0;
    for (int y = y0 + 2; y < y0 + block - 2; y++)
        for (int x = x0 + 2; x < x0 + block - 2; x++, n++) {
            const uint8_t *s = plane + (ptrdiff_t)y * stride + (ptrdiff_t)x * step * bytes;
            int v = bytes == 1 ? s[0] : s[0] | s[1] << 8;
            sum += v >> shift >> (bits - 8);
        }
    return (int)(sum / n);
}

// The number, or -1 if a block is neither black nor white.
static inline int64_t tachy_counter_read(const uint8_t *plane, ptrdiff_t stride, int width,
                                         int height, int step, int bytes, int bits, int shift)
{
    struct tachy_counter_grid g = tachy_counter_grid(width, height);
    uint32_t number = 0;
    for (int b = 0; b < g.bits; b++) {
        int mean = tachy_counter_block_mean(plane, stride, b % g.columns * g.block,
                                            b / g.columns * g.block, g.block, step, bytes, bits,
                                            shift);
        if (mean > 80 && mean < 176)
            return -1;
        number |= (uint32_t)(mean >= 176) << (31 - b);
    }
    return (int64_t)number;
}
