#include "ref/ref_signature.h"

static uint32_t luma(const uint8_t *p, const struct tachy_signature_pixel *how)
{
    if (how->step == 1)
        return p[0];
    if (how->step == 2)
        return (uint32_t)((p[0] | p[1] << 8) >> how->shift & 1023);
    return (uint32_t)(how->weight[0] * p[0] + how->weight[1] * p[1] + how->weight[2] * p[2]);
}

void tachy_ref_signature(uint32_t *sum, const uint8_t *p, ptrdiff_t stride, int rows, int n,
                         int group, const struct tachy_signature_pixel *how)
{
    for (int y = 0; y < rows; y++, p += stride)
        for (int i = 0; i < n; i++)
            for (int x = i * group; x < (i + 1) * group; x++)
                sum[i] += luma(p + (ptrdiff_t)x * how->step, how);
}
