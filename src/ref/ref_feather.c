#include "ref/ref_feather.h"

#include "ref/ref_post.h"

#include <string.h>

void tachy_ref_feather(uint8_t *dst, ptrdiff_t dst_stride, const uint8_t *src, ptrdiff_t stride, int w, int h, int r,
                       int32_t *tmp)
{
    ptrdiff_t line = 4 * (ptrdiff_t)w;
    int32_t *image = tmp, *spare = tmp + line * h;
    memset(image, 0, (size_t)(line * h) * sizeof(image[0]));
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++)
            image[y * line + 4 * x] = src[y * stride + x] * 128;
        tachy_ref_box3_row(image + y * line, spare, w, r);
    }
    tachy_ref_box3_cols(image, line, spare, 4 * w, h, r);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            dst[y * dst_stride + x] = (uint8_t)((image[y * line + 4 * x] + 64) >> 7);
}
