#include "ref/ref_grid_sample.h"

#include <math.h>

static float bring_in(const struct tachy_grid_axis *a, float v)
{
    float last = (float)(a->size - 1);
    if (a->outside == TACHY_GRID_BORDER)
        return fminf(fmaxf(v, 0), last);
    if (a->outside == TACHY_GRID_REFLECTION)
        return a->align ? tachy_grid_reflect(v, 0, last) : tachy_grid_reflect(v, -0.5f, last + 0.5f);
    return v;
}

static int existing(const struct tachy_grid_axis *a, int i)
{
    if (i >= 0 && i < a->size)
        return i;
    return a->outside == TACHY_GRID_ZEROS ? -1 : (int)fminf(fmaxf(bring_in(a, (float)i), 0), (float)(a->size - 1));
}

static void cubic_weights(float t, float *w)
{
    const float a = -0.75f;
    float d[4] = {t + 1, t, 1 - t, 2 - t};
    for (int i = 0; i < 4; i++)
        w[i] = i == 0 || i == 3 ? ((a * d[i] - 5 * a) * d[i] + 8 * a) * d[i] - 4 * a
                                : ((a + 2) * d[i] - (a + 3)) * d[i] * d[i] + 1;
}

void tachy_ref_grid_axis(const struct tachy_grid_axis *a, float at, struct tachy_grid_taps *t)
{
    float size = (float)a->size;
    float v = a->align ? (at + 1) / 2 * (size - 1) : ((at + 1) * size - 1) / 2;
    v = fminf(fmaxf(v, -TACHY_GRID_FAR), TACHY_GRID_FAR);
    if (a->mode != TACHY_GRID_CUBIC)
        v = bring_in(a, v);
    float whole = a->mode == TACHY_GRID_NEAREST ? rintf(v) : floorf(v);
    int first = (int)whole - (a->mode == TACHY_GRID_CUBIC);
    *t = (struct tachy_grid_taps){.n = a->mode == TACHY_GRID_NEAREST ? 1 : 2, .weight = {1}};
    if (a->mode == TACHY_GRID_LINEAR)
        t->weight[0] = 1 - (v - whole), t->weight[1] = v - whole;
    if (a->mode == TACHY_GRID_CUBIC) {
        t->n = 4;
        cubic_weights(v - whole, t->weight);
    }
    for (int k = 0; k < t->n; k++)
        t->index[k] = existing(a, first + k);
}

float tachy_ref_grid_sample(const float *src, const int64_t step[], const struct tachy_grid_axis axis[],
                            const float at[], int dims)
{
    struct tachy_grid_taps t[3] = {{.n = 1, .weight = {1}}, {.n = 1, .weight = {1}}, {.n = 1, .weight = {1}}};
    float sum = 0;
    for (int d = 0; d < dims; d++)
        tachy_ref_grid_axis(&axis[d], at[d], &t[d]);
    for (int z = 0; z < t[2].n; z++)
        for (int y = 0; y < t[1].n; y++)
            for (int x = 0; x < t[0].n; x++) {
                float weight = t[0].weight[x] * t[1].weight[y] * t[2].weight[z];
                bool zero = t[0].index[x] < 0 || t[1].index[y] < 0 || t[2].index[z] < 0;
                if (!zero && (weight < 0 || weight > 0))
                    sum += weight * src[t[0].index[x] * step[0] + t[1].index[y] * step[1] +
                                        (dims == 3 ? t[2].index[z] * step[2] : 0)];
            }
    return sum;
}
