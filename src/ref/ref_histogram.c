#include "ref/ref_histogram.h"

void tachy_ref_histogram8(uint32_t *count, const uint8_t *src, int n)
{
    for (int i = 0; i < n; i++)
        count[src[i]]++;
}

void tachy_ref_histogram16(uint32_t *count, const uint16_t *src, int shift, int n)
{
    for (int i = 0; i < n; i++)
        count[src[i] >> shift & 1023]++;
}
