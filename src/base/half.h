#pragma once
#include <stdint.h>
#include <string.h>

// IEEE 754 binary16 and float32, in plain C: the twin of the instructions that convert them.

static inline float tachy_half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023, bits;
    float f;
    if (e == 31) { // infinite, or no number
        bits = sign | 0x7f800000 | m << 13;
    } else if (e) {
        bits = sign | (e + 112) << 23 | m << 13;
    } else { // below the smallest normal one: m times 2^-24, exactly
        f = (float)m * 0x1p-24f;
        memcpy(&bits, &f, 4);
        bits |= sign;
    }
    memcpy(&f, &bits, 4);
    return f;
}

// To the nearest, halves to the even one; too large: infinite.
static inline uint16_t tachy_float_to_half(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (rest >= 0x47800000)
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) { // the addition rounds at the last bit of a small half
        float v = (f < 0 ? -f : f) + 0.5f;
        memcpy(&bits, &v, 4);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    rest += 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | (rest - (112u << 23)) >> 13);
}
