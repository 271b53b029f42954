#pragma once
#include "base/base.h"
#include "ref/ref_tone.h"

#include <tachy/tensor.h>

// The kernels of preprocess and the tables that they read. A plan (src/preprocess) fills the
// tables once; each version (plain C here, AVX2, AVX-512, NEON) implements the same kernels
// over them.

// For one axis of one plane: the samples that each output takes, and their weights. Samples outside the plane have been
// folded onto its edge, so start[i] .. start[i] + count[i] - 1 always exist.
struct tachy_taps {
    int outputs;
    int max;        // taps of the widest output, >= 1
    int lo, hi;     // samples that any output uses: [lo, hi)
    int32_t *start; // [outputs]
    int32_t *count; // [outputs], 1..max
    float *weight;  // [outputs][max], sum 1, 0 past count
    uint32_t *w16;  // the same in 16 bits, sum 65535, in both halves; NULL for columns

    // Columns for the vector versions: int16 weights, sum 32767, in blocks that one vector
    // takes; see tachy_taps_block(). NULL for rows and for the plain C version.
    int block;       // samples that a block spans: 2, 4 or 8
    int blocks;      // per output
    int32_t *vstart; // [outputs rounded up to 16], relative to lo
    int16_t *vweight;
};

// Outputs that one group of vweight holds: 4 for each 128-bit lane.
#define TACHY_TAPS_GROUP(lanes) (4 * (lanes))
// Place of output `o` (0 .. 4 * lanes - 1 of its group), tap `t` (0 .. block - 1) in a
// group's block of weights. block 2: outputs in order. block 4: vector m of 2 holds outputs
// 4 * lane + 2m and + 2m + 1. block 8: vector m of 4 holds output 4 * lane + m.
static inline int tachy_taps_place(int block, int lanes, int o, int t)
{
    int lane = o / 4, i = o % 4;
    if (block == 2)
        return o * 2 + t;
    if (block == 4)
        return ((i / 2) * lanes + lane) * 8 + (i % 2) * 4 + t;
    return (i * lanes + lane) * 8 + t;
}

// How to compute lines of one plane.
struct tachy_pre_plane {
    struct tachy_taps x, y;
    int components;  // samples a pixel position: 1, 2, 3, 4
    int used;        // of them: the first 1, 2 or 3 in memory (alpha last is left out)
    int bytes;       // a sample: 1, 2
    int bits, shift; // sample = (word >> shift) & (2^bits - 1)
};

// Colour, normalisation and store: out[c] = clamp(m[c] . in + off[c], lo[c], hi[c]).
struct tachy_pre_finish {
    int inputs;        // 1 or 3 lines
    int channels;      // 1 or 3
    float m[3][3], off[3], lo[3], hi[3];
    enum tachy_dtype dtype; // TACHY_F32, TACHY_F16, TACHY_U8, TACHY_I8 (rounded to nearest)
    bool planar;       // each channel into its own dst; else interleaved into dst[0]
};

// A line of a rotated picture: pixel i is sampled at (u + i * du, v + i * dv) of three grids
// of w * h values (cell centres at integers), coordinates clamped to the grid.
struct tachy_pre_grid {
    const float *plane[3];
    int planes;
    ptrdiff_t stride; // floats
    int w, h;
};
struct tachy_pre_step {
    double u, v, du, dv;
};

// Lines have room for their outputs rounded up to 16; any value may be written to the rest, which must be finite
// wherever it is read.
#define TACHY_LINE_ROUND 16

struct tachy_pre_kernels {
    const char *name;
    int lanes;     // 128-bit lanes of a vector: layout of vweight; 0: plain C, none
    int taps_max;  // taps on either axis that the kernel takes; 0: any
    // Output line `line` of a plane into used lines out[] of x.outputs values, in 8-bit code
    // units (0..255.75 for 10 bit), in the order of memory. `scratch`:
    // tachy_pre_scratch(plane) bytes, 64-byte aligned.
    void (*line)(const struct tachy_pre_plane *p, const uint8_t *data, ptrdiff_t stride, int line,
                 void *scratch, float *const out[3]);
    void (*bilinear)(const struct tachy_pre_grid *g, const struct tachy_pre_step *s, int n,
                     float *const out[3]);
    void (*finish)(const struct tachy_pre_finish *f, const float *const in[3], int n,
                   void *const dst[3]);
    void (*tone)(const struct tachy_tone *t, float *r, float *g, float *b, int n);
};

extern const struct tachy_pre_kernels tachy_ref_preprocess;

// Bytes of scratch that line() of any version needs for this plane.
size_t tachy_pre_scratch(const struct tachy_pre_plane *p);

// IEEE 754 binary16 of a float, rounded to nearest even; too large becomes infinity.
static inline uint16_t tachy_ref_half(float v)
{
    union {
        float f;
        uint32_t u;
    } in = {.f = v}, magic;
    uint16_t sign = (uint16_t)(in.u >> 16 & 0x8000);
    in.u &= 0x7fffffff;
    if (in.u > 0x7f800000) // NaN
        return (uint16_t)(sign | 0x7e00);
    if (in.u >= 0x477ff000) // 65520 and above
        return (uint16_t)(sign | 0x7c00);
    if (in.u < 0x38800000) { // below 2^-14: subnormal; adding 0.5 rounds to multiples of 2^-24
        magic.f = 0.5f;
        in.f += magic.f;
        return (uint16_t)(sign | (uint16_t)(in.u - magic.u));
    }
    uint32_t odd = in.u >> 13 & 1;
    return (uint16_t)(sign | (uint16_t)((in.u - 0x38000000 + 0xfff + odd) >> 13));
}
// And back, exactly.
static inline float tachy_ref_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exp = half >> 10 & 31, frac = half & 1023;
    if (exp == 0) { // zero and subnormal: frac * 2^-24
        float f = (float)frac * 0x1p-24f;
        return sign ? -f : f;
    }
    union {
        uint32_t u;
        float f;
    } v = {sign | (exp == 31 ? 0x7f800000u | frac << 13 : (exp + 112) << 23 | frac << 13)};
    return v.f;
}

// bfloat16 of a float, the upper half of its bits, rounded to nearest even; NaN stays NaN. And back, exactly.
static inline uint16_t tachy_ref_bfloat(float v)
{
    union {
        float f;
        uint32_t u;
    } bits = {v};
    return v != v ? 0x7fff : (uint16_t)((bits.u + 0x7fff + (bits.u >> 16 & 1)) >> 16);
}
static inline float tachy_ref_bfloat_float(uint16_t bfloat)
{
    union {
        uint32_t u;
        float f;
    } v = {(uint32_t)bfloat << 16};
    return v.f;
}
