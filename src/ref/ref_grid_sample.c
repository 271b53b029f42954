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
    return a->outside == TACHY_GRID_ZEROS ? -1 : i < 0 ? 0 : a->size - 1; // one past the end at most
}

void tachy_ref_grid_axis(const struct tachy_grid_axis *a, float at, int index[2], float *second)
{
    float size = (float)a->size;
    float v = a->align ? (at + 1) / 2 * (size - 1) : ((at + 1) * size - 1) / 2;
    v = bring_in(a, fminf(fmaxf(v, -TACHY_GRID_FAR), TACHY_GRID_FAR));
    float whole = a->mode == TACHY_GRID_NEAREST ? rintf(v) : floorf(v);
    int i = (int)whole;
    index[0] = existing(a, i);
    index[1] = a->mode == TACHY_GRID_NEAREST ? index[0] : existing(a, i + 1);
    *second = a->mode == TACHY_GRID_NEAREST ? 0 : v - whole;
}

float tachy_ref_grid_sample(const float *src, const int64_t step[], const struct tachy_grid_axis axis[],
                            const float at[], int dims)
{
    int index[3][2];
    float second[3], sum = 0;
    for (int d = 0; d < dims; d++)
        tachy_ref_grid_axis(&axis[d], at[d], index[d], &second[d]);
    for (int corner = 0; corner < 1 << dims; corner++) {
        float weight = 1;
        int64_t from = 0;
        bool zero = false;
        for (int d = 0; d < dims; d++) {
            int k = corner >> d & 1;
            zero |= index[d][k] < 0;
            weight *= k ? second[d] : 1 - second[d];
            from += index[d][k] * step[d];
        }
        if (!zero && weight != 0)
            sum += weight * src[from];
    }
    return sum;
}
