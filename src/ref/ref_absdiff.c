#include "ref/ref_absdiff.h"

uint64_t tachy_ref_absdiff8(uint8_t *dst, const uint8_t *a, const uint8_t *b, int n)
{
    uint64_t sum = 0;
    for (int i = 0; i < n; i++) {
        uint8_t d = (uint8_t)(a[i] > b[i] ? a[i] - b[i] : b[i] - a[i]);
        sum += d;
        if (dst)
            dst[i] = d;
    }
    return sum;
}

uint64_t tachy_ref_absdiff16(uint16_t *dst, const uint16_t *a, const uint16_t *b, int shift, int n)
{
    uint64_t sum = 0;
    for (int i = 0; i < n; i++) {
        uint16_t d = (uint16_t)(a[i] > b[i] ? a[i] - b[i] : b[i] - a[i]);
        sum += (uint64_t)(d >> shift);
        if (dst)
            dst[i] = d;
    }
    return sum;
}
