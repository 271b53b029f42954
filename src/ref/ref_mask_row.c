#include "ref/ref_post.h"

#include <math.h>
#include <string.h>

void tachy_ref_prob(uint8_t *dst, const float *p, int n)
{
    for (int i = 0; i < n; i++) {
        float v = p[i] * 255.0f;
        v = v > 0.0f ? v : 0.0f; // false for NaN
        v = v < 255.0f ? v : 255.0f;
        dst[i] = (uint8_t)lrintf(v);
    }
}

// exp(x) for x <= 87: 2^n * exp(r) with |r| <= ln 2 / 2, exp(r) by its Taylor series to r^6
// (relative error below 2e-7, far below the 1 / 510 that matters here).
static float exp_approx(float x)
{
    x = x < 87.0f ? x : 87.0f; // NaN becomes 87
    x = x > -87.0f ? x : -87.0f;
    int n = (int)lrintf(x * 1.44269504f);
    float fn = (float)n;
    float r = (x - fn * 0.693359375f) - fn * -2.12194440e-4f; // ln 2 in two parts
    float p = r * (1.0f / 720.0f) + (1.0f / 120.0f);
    p = p * r + (1.0f / 24.0f);
    p = p * r + (1.0f / 6.0f);
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    int32_t bits = (n + 127) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof(scale));
    return p * scale;
}

void tachy_ref_exp_sum(float *sum, const float *x, const float *y, int n)
{
    for (int i = 0; i < n; i++)
        sum[i] += exp_approx(y ? x[i] - y[i] : -x[i]);
}

void tachy_ref_recip(float *v, int n)
{
    for (int i = 0; i < n; i++)
        v[i] = 1.0f / v[i];
}
