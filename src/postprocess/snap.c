#include "postprocess/snap.h"

enum { RADIUS = 2, SIDE = 2 * RADIUS + 1 };
#define REGULAR (0.001f * 255 * 255) // variance of luma below which a pixel's surroundings are without detail

static float sum_at(const float *in, int x, int w)
{
    return (in[TACHY_MAX(x - 2, 0)] + in[TACHY_MIN(x + 2, w - 1)]) +
           (in[TACHY_MAX(x - 1, 0)] + in[TACHY_MIN(x + 1, w - 1)]) + in[x];
}

// Sums along rows; inside, where no edge is near, in a loop that a compiler makes vectors of.
static void sum_row(float *restrict out, const float *restrict in, int w)
{
    for (int x = 0; x < TACHY_MIN(RADIUS, w); x++)
        out[x] = sum_at(in, x, w);
    for (int x = RADIUS; x < w - RADIUS; x++)
        out[x] = (in[x - 2] + in[x + 2]) + (in[x - 1] + in[x + 1]) + in[x];
    for (int x = TACHY_MAX(w - RADIUS, 0); x < w; x++)
        out[x] = sum_at(in, x, w);
}

// Means of SIDE x SIDE pixels, in place. `rows`: a plane.
static void box(float *restrict p, int w, int h, float *restrict rows)
{
    for (int y = 0; y < h; y++)
        sum_row(rows + (ptrdiff_t)y * w, p + (ptrdiff_t)y * w, w);
    for (int y = 0; y < h; y++) {
        const float *row[SIDE];
        float *out = p + (ptrdiff_t)y * w;
        for (int i = 0; i < SIDE; i++)
            row[i] = rows + (ptrdiff_t)TACHY_CLAMP(y + i - RADIUS, 0, h - 1) * w;
        for (int x = 0; x < w; x++)
            out[x] = ((row[0][x] + row[4][x]) + (row[1][x] + row[3][x]) + row[2][x]) * (1.0f / (SIDE * SIDE));
    }
}

void tachy_snap(float *mask, const uint8_t *guide, int width, int height, float *scratch)
{
    ptrdiff_t n = (ptrdiff_t)width * height;
    float *g = scratch, *m = g + n, *gg = m + n, *gm = gg + n, *rows = gm + n, *slope = rows + n, *offset = slope + n;
    for (ptrdiff_t i = 0; i < n; i++) {
        g[i] = guide[i];
        m[i] = mask[i];
        gg[i] = g[i] * g[i];
        gm[i] = g[i] * m[i];
    }
    float *means[] = {g, m, gg, gm};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(means); i++)
        box(means[i], width, height, rows);
    for (ptrdiff_t i = 0; i < n; i++) {
        slope[i] = (gm[i] - g[i] * m[i]) / (TACHY_MAX(gg[i] - g[i] * g[i], 0.0f) + REGULAR);
        offset[i] = m[i] - slope[i] * g[i];
    }
    box(slope, width, height, rows);
    box(offset, width, height, rows);
    for (ptrdiff_t i = 0; i < n; i++)
        mask[i] = TACHY_CLAMP(slope[i] * (float)guide[i] + offset[i], 0.0f, 255.0f);
}
