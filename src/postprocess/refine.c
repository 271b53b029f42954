#include "postprocess/mask.h"

// The slope of a fast guided filter (K. He, J. Sun, "Fast Guided Filter", arXiv:1505.00996): in each window a =
// cov(luma, mask) / (var(luma) + EPS), averaged over the windows that hold a pixel. The filter's own offset, mean(mask)
// - a * mean(luma), blurs the mask and lowers the IoU (docs/segment-quality.md). Instead the mask is kept, and only the
// luma detail between mask pixels is added: p = mask + a * (luma - guide), so b = mask - a * guide, with a weighted by
// 4 q (1 - q), q = mask / 255: detail matters where the mask is uncertain.
enum { RADIUS = 1 }; // mask pixels
#define EPS (0.15f * 255 * 0.15f * 255)

// Per column: sums over the rows of the window.
struct columns {
    int32_t *luma, *mask, *product, *square;
};

size_t tachy_refine_scratch(int width, int height)
{
    return (size_t)width * (4 * sizeof(int32_t) + sizeof(float)) +
           (size_t)width * (size_t)height * sizeof(float);
}

// Adds (sign 1) or takes away (sign -1) a row.
static void add_row(struct columns *c, const uint8_t *mask, const uint8_t *guide, int sign, int n)
{
    for (int x = 0; x < n; x++) {
        int m = mask[x], g = guide[x];
        c->luma[x] += sign * g;
        c->mask[x] += sign * m;
        c->product[x] += sign * g * m;
        c->square[x] += sign * g * g;
    }
}

static void fit_row(const struct columns *c, float *a, int n, int rows)
{
    int32_t luma = 0, mask = 0, product = 0, square = 0;
    for (int x = -RADIUS; x < n; x++) { // x is the window's middle
        int in = x + RADIUS, out = x - RADIUS - 1;
        if (in < n)
            luma += c->luma[in], mask += c->mask[in], product += c->product[in],
                square += c->square[in];
        if (out >= 0)
            luma -= c->luma[out], mask -= c->mask[out], product -= c->product[out],
                square -= c->square[out];
        if (x < 0)
            continue;
        int columns = TACHY_MIN(x + RADIUS, n - 1) - TACHY_MAX(x - RADIUS, 0) + 1;
        float k = 1.0f / (float)(rows * columns);
        float ml = (float)luma * k, mm = (float)mask * k;
        a[x] = ((float)product * k - ml * mm) / ((float)square * k - ml * ml + EPS);
    }
}

// Mean over windows of a plane, through column sums recomputed for each row: no error accumulates, and the result does
// not depend on the row's position.
static void mean(float *dst, const float *src, float *column, int w, int h)
{
    for (int y = 0; y < h; y++) {
        int y0 = TACHY_MAX(y - RADIUS, 0), y1 = TACHY_MIN(y + RADIUS, h - 1);
        memcpy(column, src + (ptrdiff_t)y0 * w, (size_t)w * sizeof(float));
        for (int k = y0 + 1; k <= y1; k++)
            for (int x = 0; x < w; x++)
                column[x] += src[(ptrdiff_t)k * w + x];
        for (int x = 0; x < w; x++) {
            int x0 = TACHY_MAX(x - RADIUS, 0), x1 = TACHY_MIN(x + RADIUS, w - 1);
            float sum = 0;
            for (int k = x0; k <= x1; k++)
                sum += column[k];
            dst[(ptrdiff_t)y * w + x] = sum / (float)((x1 - x0 + 1) * (y1 - y0 + 1));
        }
    }
}

static void finish_row(float *a, float *b, const uint8_t *mask, const uint8_t *guide, int n)
{
    for (int x = 0; x < n; x++) {
        float m = (float)mask[x];
        a[x] *= m * (255.0f - m) * (4.0f / 65025.0f);
        b[x] = m - a[x] * (float)guide[x];
    }
}

void tachy_refine_fit(struct tachy_refine *r, const uint8_t *mask, ptrdiff_t stride,
                      const uint8_t *guide, ptrdiff_t guide_stride, void *scratch)
{
    int w = r->width, h = r->height;
    float *slope = scratch, *column = slope + (ptrdiff_t)w * h;
    int32_t *sums = (int32_t *)(void *)(column + w);
    struct columns c = {sums, sums + w, sums + 2 * (ptrdiff_t)w, sums + 3 * (ptrdiff_t)w};
    memset(sums, 0, 4 * (size_t)w * sizeof(int32_t));
    for (int y = -RADIUS; y < h; y++) {
        int in = y + RADIUS, out = y - RADIUS - 1;
        if (in < h)
            add_row(&c, mask + in * stride, guide + in * guide_stride, 1, w);
        if (out >= 0)
            add_row(&c, mask + out * stride, guide + out * guide_stride, -1, w);
        if (y < 0)
            continue;
        int rows = TACHY_MIN(y + RADIUS, h - 1) - TACHY_MAX(y - RADIUS, 0) + 1;
        fit_row(&c, slope + (ptrdiff_t)y * w, w, rows);
    }
    mean(r->a, slope, column, w, h);
    for (int y = 0; y < h; y++)
        finish_row(r->a + (ptrdiff_t)y * w, r->b + (ptrdiff_t)y * w, mask + y * stride,
                   guide + y * guide_stride, w);
}
