#include "ref/ref_post.h"

#include <math.h>

void tachy_ref_lerp_f32(float *dst, const float *a, const float *b, float frac, int n)
{
    for (int i = 0; i < n; i++)
        dst[i] = a[i] + (b[i] - a[i]) * frac;
}

void tachy_ref_refine(int16_t *dst, const float *a, const float *b, const float *luma,
                      const struct tachy_stretch *t)
{
    for (int i = 0; i < t->n; i++) {
        int k = t->index[i];
        float w = t->weight[i];
        float slope = a[k] + (a[k + 1] - a[k]) * w;
        float offset = b[k] + (b[k + 1] - b[k]) * w;
        float p = (slope * luma[i] + offset) * 128.0f;
        p = p > 0.0f ? p : 0.0f;
        p = p < 32640.0f ? p : 32640.0f;
        dst[i] = (int16_t)lrintf(p);
    }
}
