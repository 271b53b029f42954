#include "ref/ref_post.h"

#include <math.h>

void tachy_ref_weight(uint8_t *dst, const uint8_t *alpha, int n)
{
    for (int i = 0; i < n; i++)
        dst[i] = (uint8_t)(63 - alpha[i] / 4);
}

void tachy_ref_gather8(int32_t *sum, const uint8_t *src, const uint8_t *weight, int log2, int n)
{
    for (int i = 0; i < n; i++)
        sum[i >> log2] += weight[i] * (src[i] - 128);
}

void tachy_ref_gather16(int32_t *sum, const uint16_t *src, const uint8_t *weight, int log2, int n)
{
    for (int i = 0; i < n; i++)
        sum[i >> log2] += weight[i] * ((src[i] & 1023) - 512);
}

void tachy_ref_gather_weight(int32_t *sum, const uint8_t *weight, int log2, int n)
{
    for (int i = 0; i < n; i++)
        sum[i >> log2] += weight[i];
}

static int clamped(int i, int n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

// One box filter without scaling: dst[i] = sum of src[i - r .. i + r], `step` words apart.
static void box(int32_t *dst, const int32_t *src, ptrdiff_t dst_step, ptrdiff_t src_step, int n,
                int r)
{
    for (int i = 0; i < n; i++) {
        int32_t sum = 0;
        for (int k = -r; k <= r; k++)
            sum += src[clamped(i + k, n) * src_step];
        dst[i * dst_step] = sum;
    }
}

static void box3(int32_t *v, int32_t *tmp, ptrdiff_t step, ptrdiff_t tmp_step, int n, int r)
{
    float inverse = 1.0f / (float)((2 * r + 1) * (2 * r + 1) * (2 * r + 1));
    box(tmp, v, tmp_step, step, n, r);
    box(v, tmp, step, tmp_step, n, r);
    box(tmp, v, tmp_step, step, n, r);
    for (int i = 0; i < n; i++)
        v[i * step] = (int32_t)lrintf((float)tmp[i * tmp_step] * inverse);
}

void tachy_ref_box3_row(int32_t *row, int32_t *tmp, int n, int r)
{
    for (int k = 0; k < 4; k++)
        box3(row + k, tmp + k, 4, 4, n, r);
}

void tachy_ref_box3_cols(int32_t *img, ptrdiff_t stride, int32_t *tmp, int width, int n, int r)
{
    for (int x = 0; x < width; x++)
        box3(img + x, tmp + x, stride, width, n, r);
}

void tachy_ref_divide(int16_t *dst, ptrdiff_t plane, const int32_t *cell, float unit, float middle,
                      float top, int n)
{
    for (int x = 0; x < n; x++, cell += 4) {
        float scale = cell[3] > 0 ? unit / (float)cell[3] : 0.0f;
        for (int c = 0; c < 3; c++) {
            float v = middle + (float)cell[c] * scale;
            v = v > 0.0f ? v : 0.0f;
            v = v < top ? v : top;
            dst[c * plane + x] = (int16_t)lrintf(v);
        }
    }
}
