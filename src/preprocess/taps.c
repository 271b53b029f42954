#include "preprocess/plan.h"

#include <math.h>

int tachy_growing_need(struct tachy_growing *m, size_t size)
{
    if (m->size >= size)
        return TACHY_OK;
    tachy_growing_free(m);
    m->p = tachy_aligned_alloc(size);
    if (!m->p)
        return TACHY_ERR_NOMEM;
    m->size = size;
    return TACHY_OK;
}

void tachy_growing_free(struct tachy_growing *m)
{
    tachy_aligned_free(m->p);
    *m = (struct tachy_growing){0};
}

// Overlaps below this share of a sample come from rounding of the positions.
static const double SLIVER = 1e-6;

// Written out because the C library's floor(), fmin() and the like are calls on a plain x86-64,
// and a view that follows something is new in every frame.
static inline double clamp(double v, double lo, double hi) { return TACHY_CLAMP(v, lo, hi); }

static inline double floor_of(double v) // within the range of int64_t
{
    double whole = (double)(int64_t)v;
    return whole > v ? whole - 1 : whole;
}

// The samples that output i takes: its first one, and how many.
static int span(const struct tachy_axis *a, int i, int *start)
{
    double from = a->origin + i * a->step, to = from + a->step, last = a->samples - 1;
    if (fabs(a->step) > 1) {
        double lo = floor_of(TACHY_MIN(from, to) + SLIVER);
        double hi = -floor_of(SLIVER - TACHY_MAX(from, to)) - 1;
        *start = (int)clamp(lo, 0, last);
        return (int)clamp(hi, *start, last) - *start + 1;
    }
    double centre = clamp((from + to) / 2 - 0.5, 0, last);
    *start = (int)(centre + SLIVER);
    return centre - *start > SLIVER ? 2 : 1;
}

// Share of sample `j` in output i. The edge samples stand for everything beyond the edge.
static double share(const struct tachy_axis *a, int i, int j, int start, int count)
{
    double from = a->origin + i * a->step, to = from + a->step;
    if (fabs(a->step) > 1) {
        double lo = TACHY_MIN(from, to), hi = TACHY_MAX(from, to);
        double left = j == 0 ? lo : TACHY_MAX(lo, (double)j);
        double right = j == a->samples - 1 ? hi : TACHY_MIN(hi, j + 1.0);
        return TACHY_MAX(right - left, 0.0);
    }
    if (count == 1)
        return 1;
    double second = clamp((from + to) / 2 - 0.5, 0, a->samples - 1) - start;
    return j == start ? 1 - second : second;
}

// Into t->start and t->count, and what follows from them.
static void build_spans(struct tachy_taps *t, const struct tachy_axis *a)
{
    t->outputs = a->outputs;
    t->max = 1;
    t->lo = a->samples;
    t->hi = 0;
    for (int i = 0; i < a->outputs; i++) {
        int start, count = span(a, i, &start);
        t->start[i] = start;
        t->count[i] = count;
        t->max = TACHY_MAX(t->max, count);
        t->lo = TACHY_MIN(t->lo, start);
        t->hi = TACHY_MAX(t->hi, start + count);
    }
    t->block = t->max <= 2 ? 2 : t->max <= 4 ? 4 : 8;
    t->blocks = (t->max + t->block - 1) / t->block;
}

static void place_weight(struct tachy_taps *t, int lanes, int i, int k, int weight)
{
    int group = TACHY_TAPS_GROUP(lanes), b = k / t->block;
    size_t base = ((size_t)(i / group) * (size_t)t->blocks + (size_t)b) * (size_t)(group * t->block);
    t->vweight[base + (size_t)tachy_taps_place(t->block, lanes, i % group, k % t->block)] =
        (int16_t)weight;
}

// Integer weights are differences of the rounded running sum, so that their own sum is exact
// and the error of neighbours cancels. A sample between the first one and the last is inside of the output.
static void fill_output(struct tachy_taps *t, const struct tachy_axis *a, int lanes, int i)
{
    const int start = t->start[i], count = t->count[i];
    const double first = share(a, i, start, start, count);
    const double last = count > 1 ? share(a, i, start + count - 1, start, count) : 0;
    double total = first, running = 0;
    for (int k = 1; k < count - 1; k++)
        total += 1;
    const double part = 1 / (total + last);
    float *weight = t->weight + (size_t)i * (size_t)t->max;
    uint32_t *w16 = t->w16 ? t->w16 + (size_t)i * (size_t)t->max : NULL;
    long before = 0, top = w16 ? 65535 : 32767;
    for (int k = 0; k < count; k++) {
        double w = (k == 0 ? first : k == count - 1 ? last : 1) * part;
        running += w;
        weight[k] = (float)w;
        long sum = k == count - 1 ? top : lrint(running * (double)top), v = sum - before;
        before = sum;
        if (w16)
            w16[k] = 0x10001u * (uint32_t)v;
        else if (t->vweight)
            place_weight(t, lanes, i, k, (int)v);
    }
    if (t->vstart)
        t->vstart[i] = start - t->lo;
}

// Memory for the outputs' first samples and counts, at its begin, and `more` bytes; what the first ones were is lost if it
// grows.
static int need(struct tachy_taps *t, struct tachy_growing *m, size_t ints, size_t more)
{
    int err = tachy_growing_need(m, 2 * ints + more);
    t->start = m->p;
    t->count = err < 0 ? NULL : (int32_t *)((uint8_t *)m->p + ints);
    return err;
}

int tachy_taps_build(struct tachy_taps *t, struct tachy_growing *m, const struct tachy_axis *a,
                     bool columns, int lanes)
{
    *t = (struct tachy_taps){0};
    const size_t n = (size_t)a->outputs, ints = TACHY_ALIGN(n * sizeof(int32_t), (size_t)64);
    int err = need(t, m, ints, 0);
    if (err < 0)
        return err;
    build_spans(t, a);
    size_t max = (size_t)t->max, padded = TACHY_ALIGN(n, (size_t)TACHY_LINE_ROUND);
    bool vector = columns && lanes;
    size_t floats = TACHY_ALIGN(n * max * sizeof(float), (size_t)64);
    size_t rows = columns ? 0 : TACHY_ALIGN(n * max * sizeof(uint32_t), (size_t)64);
    size_t vstart = vector ? padded * sizeof(int32_t) : 0;
    size_t vweight = vector ? padded * (size_t)(t->block * t->blocks) * sizeof(int16_t) : 0;
    size_t more = floats + rows + vstart + vweight, before = m->size;
    err = need(t, m, ints, more);
    if (err < 0)
        return err;
    if (m->size != before)
        build_spans(t, a);
    uint8_t *p = (uint8_t *)m->p + 2 * ints;
    memset(p, 0, more);
    t->weight = (float *)p;
    p += floats;
    if (!columns)
        t->w16 = (uint32_t *)p;
    if (vector) {
        t->vweight = (int16_t *)(p + rows);
        t->vstart = (int32_t *)(p + rows + vweight);
    }
    for (int i = 0; i < a->outputs; i++)
        fill_output(t, a, lanes, i);
    return TACHY_OK;
}
