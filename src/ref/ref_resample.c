#include "ref/ref_resample.h"

#include <math.h>
#include <stdlib.h>

// The samples that output i takes of an axis with `scale` samples an output: first, count, and the
// part of each.
static int span(enum tachy_resample how, int src, double scale, int i, int *start, float *weight)
{
    double from = i * scale, to = from + scale, centre = from + scale / 2;
    if (how == TACHY_RESAMPLE_NEAREST) {
        *start = (int)TACHY_CLAMP(floor(centre), 0.0, src - 1.0);
        if (weight)
            weight[0] = 1;
        return 1;
    }
    if (how == TACHY_RESAMPLE_BILINEAR) {
        double place = TACHY_CLAMP(centre - 0.5, 0.0, src - 1.0);
        *start = TACHY_MIN((int)place, TACHY_MAX(src - 2, 0));
        if (weight && src > 1) {
            weight[0] = (float)(1 - (place - *start));
            weight[1] = (float)(place - *start);
        } else if (weight) {
            weight[0] = 1;
        }
        return TACHY_MIN(src, 2);
    }
    *start = TACHY_MIN((int)(from + 1e-9), src - 1);
    int end = (int)TACHY_CLAMP(ceil(to - 1e-9), *start + 1.0, (double)src);
    for (int k = *start; weight && k < end; k++)
        weight[k - *start] = (float)((TACHY_MIN(k + 1.0, to) - TACHY_MAX((double)k, from)) / scale);
    return end - *start;
}

int tachy_resample_make(struct tachy_taps *t, enum tachy_resample how, int src, int outputs)
{
    *t = (struct tachy_taps){.outputs = outputs, .hi = src};
    double scale = (double)src / outputs;
    size_t n = (size_t)outputs;
    t->start = malloc(n * sizeof(t->start[0]));
    t->count = malloc(n * sizeof(t->count[0]));
    for (int i = 0; t->start && t->count && i < outputs; i++) {
        t->count[i] = span(how, src, scale, i, &t->start[i], NULL);
        t->max = TACHY_MAX(t->max, t->count[i]);
    }
    t->weight = calloc(n * (size_t)TACHY_MAX(t->max, 1), sizeof(t->weight[0]));
    if (!t->start || !t->count || !t->weight) {
        tachy_resample_free(t);
        return TACHY_ERR_NOMEM;
    }
    for (int i = 0; i < outputs; i++)
        span(how, src, scale, i, &t->start[i], t->weight + (size_t)i * (size_t)t->max);
    return TACHY_OK;
}

void tachy_resample_free(struct tachy_taps *t)
{
    free(t->start), free(t->count), free(t->weight);
    *t = (struct tachy_taps){0};
}

float tachy_ref_resample(const float *src, ptrdiff_t row, ptrdiff_t col, const struct tachy_taps *down,
                         const struct tachy_taps *across, int y, int x)
{
    const float *wy = down->weight + (size_t)y * (size_t)down->max;
    const float *wx = across->weight + (size_t)x * (size_t)across->max;
    double sum = 0;
    for (int j = 0; j < down->count[y]; j++)
        for (int i = 0; i < across->count[x]; i++) {
            const float *v = src + (down->start[y] + j) * row + (across->start[x] + i) * col;
            sum += (double)wy[j] * (double)wx[i] * (double)*v;
        }
    return (float)sum;
}
