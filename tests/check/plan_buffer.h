#pragma once
#include "check.h"
#include "ref/ref_plan.h"

#include <math.h>
#include <stdlib.h>

// Tensors of random layout: a view of n x h x w x c. Gaps between pixels and rows hold NaN in inputs (so that reading
// them shows) and a guard in outputs. The memory begins and ends with the view.

static const float plan_guard = -12345.5f;

struct plan_buffer {
    float *mem;
    size_t floats;
    struct tachy_view v;
};

static inline struct plan_buffer plan_buffer_new(struct check *c, int n, int h, int w, int ch,
                                                 float fill)
{
    struct plan_buffer b = {0};
    int pixel = ch + (check_range(c, 0, 2) ? 0 : check_range(c, 0, 9));
    int row = w * pixel + (check_range(c, 0, 2) ? 0 : check_range(c, 0, 9));
    b.floats = (size_t)(n * h - 1) * (size_t)row + (size_t)(w - 1) * (size_t)pixel + (size_t)ch;
    b.mem = check_alloc(b.floats * sizeof(float), sizeof(float));
    for (size_t i = 0; i < b.floats; i++)
        b.mem[i] = fill;
    b.v = (struct tachy_view){b.mem, pixel, row, (ptrdiff_t)h * row, n, h, w, ch};
    return b;
}

static inline float *plan_at(const struct plan_buffer *b, int i)
{
    return tachy_view_at(&b->v, i / (b->v.h * b->v.w), i / b->v.w % b->v.h, i % b->v.w);
}

static inline int plan_pixels(const struct plan_buffer *b) { return b->v.n * b->v.h * b->v.w; }

static inline struct plan_buffer plan_buffer_out(struct check *c, int n, int h, int w, int ch)
{
    return plan_buffer_new(c, n, h, w, ch, plan_guard);
}

// Values of -1..1.
static inline struct plan_buffer plan_buffer_in(struct check *c, int n, int h, int w, int ch)
{
    struct plan_buffer b = plan_buffer_new(c, n, h, w, ch, NAN);
    for (int i = 0; i < plan_pixels(&b); i++)
        for (int k = 0; k < ch; k++)
            plan_at(&b, i)[k] = check_float(c, -1, 1);
    return b;
}

// The same layout, not written yet.
static inline struct plan_buffer plan_buffer_like(const struct plan_buffer *b)
{
    struct plan_buffer r = *b;
    r.mem = check_alloc(b->floats * sizeof(float), sizeof(float));
    r.v.data = r.mem + (b->v.data - b->mem);
    for (size_t i = 0; i < b->floats; i++)
        r.mem[i] = plan_guard;
    return r;
}

// x * scale + shift
static inline void plan_buffer_map(struct plan_buffer *b, float scale, float shift)
{
    for (int i = 0; i < plan_pixels(b); i++)
        for (int k = 0; k < b->v.c; k++)
            plan_at(b, i)[k] = plan_at(b, i)[k] * scale + shift;
}

static inline void plan_buffer_free(struct plan_buffer *b) { check_free(b->mem); }

// True if no guard has changed: nothing outside the view was written (no result equals the guard).
static inline bool plan_buffer_clean(const struct plan_buffer *b)
{
    size_t beside = 0;
    for (size_t i = 0; i < b->floats; i++)
        beside += b->mem[i] == plan_guard;
    return beside + (size_t)plan_pixels(b) * (size_t)b->v.c == b->floats;
}

// Largest difference; INFINITY if only one of the two is NaN, or for a write outside the view.
static inline double plan_buffer_difference(const struct plan_buffer *got,
                                            const struct plan_buffer *want)
{
    double worst = 0;
    for (int i = 0; i < plan_pixels(got); i++)
        for (int k = 0; k < got->v.c; k++) {
            float a = plan_at(got, i)[k], b = plan_at(want, i)[k];
            double d = a == b || (a != a && b != b) ? 0 : fabs((double)a - (double)b);
            worst = d <= worst ? worst : d == d ? d : INFINITY;
        }
    return plan_buffer_clean(got) ? worst : INFINITY;
}

// Freed with check_free().
static inline float *plan_floats(struct check *c, int n, float lo, float hi)
{
    float *p = check_alloc((size_t)n * sizeof(float), sizeof(float));
    for (int i = 0; i < n; i++)
        p[i] = check_float(c, lo, hi);
    return p;
}
