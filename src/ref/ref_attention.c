#include "ref/ref_plan.h"

#include <math.h>

// Scores of query x, in units of the sum of all shares: returns that sum.
static double shares_of(const float *q, const struct tachy_view *k, int n, int h, float scale, double *share)
{
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < k->w; i++) {
        const float *key = tachy_view_at(k, n, h, i);
        share[i] = 0;
        for (int d = 0; d < k->c; d++)
            share[i] += (double)q[d] * (double)key[d];
        share[i] *= (double)scale;
        most = share[i] > most ? share[i] : most;
    }
    for (int i = 0; i < k->w; i++)
        sum += share[i] = exp(share[i] - most);
    return sum;
}

void tachy_ref_attention(const struct tachy_view *q, const struct tachy_view *k, const struct tachy_view *v,
                         const struct tachy_view *out, float scale)
{
    double share[TACHY_REF_ATTENTION_KEYS];
    for (int n = 0; n < q->n; n++)
        for (int h = 0; h < q->h; h++)
            for (int x = 0; x < q->w; x++) {
                double sum = shares_of(tachy_view_at(q, n, h, x), k, n, h, scale, share);
                float *y = tachy_view_at(out, n, h, x);
                for (int c = 0; c < v->c; c++) {
                    double value = 0;
                    for (int i = 0; i < k->w; i++)
                        value += share[i] * (double)tachy_view_at(v, n, h, i)[c];
                    y[c] = (float)(value / sum);
                }
            }
}
