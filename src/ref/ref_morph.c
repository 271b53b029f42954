#include "ref/ref_morph.h"

#include "base/base.h"

void tachy_ref_morph(uint8_t *dst, ptrdiff_t dst_stride, const uint8_t *src, ptrdiff_t stride, int w, int h, int r,
                     bool largest)
{
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            uint8_t best = src[y * stride + x];
            for (int j = TACHY_MAX(y - r, 0); j <= TACHY_MIN(y + r, h - 1); j++)
                for (int i = TACHY_MAX(x - r, 0); i <= TACHY_MIN(x + r, w - 1); i++) {
                    uint8_t v = src[j * stride + i];
                    best = (largest ? v > best : v < best) ? v : best;
                }
            dst[y * dst_stride + x] = best;
        }
}
