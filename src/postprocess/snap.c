#include "postprocess/snap.h"

#include "base/cpu.h"
#include "ref/ref_smooth.h"

enum { RADIUS = TACHY_SNAP_RADIUS, SIDE = 2 * RADIUS + 1 };

#define INLINE static inline __attribute__((always_inline)) // into the function of each instruction set

INLINE float sum_at(const float *in, int x, int w)
{
    return (in[TACHY_MAX(x - 2, 0)] + in[TACHY_MIN(x + 2, w - 1)]) +
           (in[TACHY_MAX(x - 1, 0)] + in[TACHY_MIN(x + 1, w - 1)]) + in[x];
}

// Sums along rows; the inside, away from edges, in a loop that the compiler vectorises.
INLINE void sum_row(float *restrict out, const float *restrict in, int w)
{
    for (int x = 0; x < TACHY_MIN(RADIUS, w); x++)
        out[x] = sum_at(in, x, w);
    for (int x = RADIUS; x < w - RADIUS; x++)
        out[x] = (in[x - 2] + in[x + 2]) + (in[x - 1] + in[x + 1]) + in[x];
    for (int x = TACHY_MAX(w - RADIUS, RADIUS); x < w; x++)
        out[x] = sum_at(in, x, w);
}

// Means of SIDE x SIDE pixels, in place. `rows`: a plane.
INLINE void box(float *restrict p, int w, int h, float *restrict rows)
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

// Removes the soft foot that the filter leaves beside an edge, and the soft shoulder.
INLINE float without_foot(float p)
{
    const float foot = 255 * TACHY_SNAP_FOOT, knee = 255 * TACHY_SNAP_KNEE, slope = knee / (knee - foot);
    float low = TACHY_MAX((p - foot) * slope, 0.0f), high = 255 - TACHY_MAX((255 - p - foot) * slope, 0.0f);
    return p < knee ? low : p > 255 - knee ? high : p;
}

INLINE void snap(const struct tachy_snap *s)
{
    int w = s->width, h = s->height;
    ptrdiff_t n = (ptrdiff_t)w * h;
    float *g = s->scratch, *m = g + n, *gg = m + n, *gm = gg + n, *mm = gm + n, *rows = mm + n;
    for (ptrdiff_t i = 0; i < n; i++) {
        g[i] = s->guide[i];
        m[i] = s->mask[i];
        gg[i] = g[i] * g[i];
        gm[i] = g[i] * m[i];
        mm[i] = m[i] * m[i];
    }
    float *means[] = {g, m, gg, gm, mm};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(means); i++)
        box(means[i], w, h, rows);
    float *slope = gm, *offset = gg, *spread = mm;
    for (ptrdiff_t i = 0; i < n; i++) {
        float a = (gm[i] - g[i] * m[i]) / (TACHY_MAX(gg[i] - g[i] * g[i], 0.0f) + TACHY_SNAP_REGULAR);
        slope[i] = a;
        offset[i] = m[i] - a * g[i];
        spread[i] = TACHY_MAX(mm[i] - m[i] * m[i], 0.0f);
    }
    box(slope, w, h, rows);
    box(offset, w, h, rows);
    box(spread, w, h, rows);
    for (ptrdiff_t i = 0; i < n; i++) {
        float fit = TACHY_CLAMP(slope[i] * (float)s->guide[i] + offset[i], 0.0f, 255.0f);
        float edge = TACHY_CLAMP((spread[i] - TACHY_SNAP_FAINT) * (1 / (TACHY_SNAP_CLEAR - TACHY_SNAP_FAINT)), 0.0f, 1.0f);
        s->edge[i] = edge;
        s->mask[i] += edge * (without_foot(fit) - s->mask[i]);
    }
}

TACHY_CPU_BEST(snap, const struct tachy_snap *)

void tachy_snap(const struct tachy_snap *s) { snap_best(s); }
