#include "ref/ref_warp.h"

#include <math.h>

struct tachy_warp tachy_ref_warp_halve(const struct tachy_warp *w)
{
    struct tachy_warp half = *w;
    half.m[2] *= 0.5f;
    half.m[5] *= 0.5f;
    half.m[6] *= 2;
    half.m[7] *= 2;
    return half;
}

int tachy_ref_warp_at(const struct tachy_warp *w, int x, int y, int width, int height, int column[2], int row[2],
                      float weight[2])
{
    const float *m = w->m, px = (float)x + 0.5f, py = (float)y + 0.5f, far = 1e9f;
    float u = m[0] * px + m[1] * py + m[2], v = m[3] * px + m[4] * py + m[5], d = m[6] * px + m[7] * py + m[8];
    u /= d;
    v /= d;
    // !(...) also for what is no number
    if (!(d > 0) || !(u > -far && u < far) || !(v > -far && v < far))
        u = v = -far;
    if (w->outside == TACHY_WARP_NONE && (u < 0 || v < 0 || u > (float)width || v > (float)height))
        return 0;
    u -= 0.5f;
    v -= 0.5f;
    float left = floorf(u), above = floorf(v);
    for (int k = 0; k < 2; k++) {
        column[k] = tachy_warp_inside(w->outside, (int)left + k, width);
        row[k] = tachy_warp_inside(w->outside, (int)above + k, height);
    }
    weight[0] = u - left;
    weight[1] = v - above;
    return 1;
}

float tachy_ref_warp_mix(const float v[4], const float weight[2])
{
    float a = v[0] + weight[0] * (v[1] - v[0]), b = v[2] + weight[0] * (v[3] - v[2]);
    return a + weight[1] * (b - a);
}
