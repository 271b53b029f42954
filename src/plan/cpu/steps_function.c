#include "base/base.h"
#include "plan/cpu/plan_parts.h"

#include <math.h>

// Functions of single numbers that no kernel has, and tensors that enter and leave a plan in
// another type than float32.

int plan_steps_function(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = plan_begin(b, n, &s);
    if (err < 0)
        return err;
    s->function = n->attr.act;
    s->run = plan_run_function;
    s->rows = s->out.v.n * s->out.v.h;
    return TACHY_OK;
}

// To the nearest whole number, halves to the even one, in operations that become vectors: beyond 2^23
// float32 has no fractions left, so a sum with it has none.
static inline float nearest(float v)
{
    const float whole = 8388608.0f;
    float r = copysignf((fabsf(v) + whole) - whole, v);
    return fabsf(v) < whole ? r : v;
}

// What is no number becomes the lower limit.
static inline float within(float v, float low, float high)
{
    const float least = v > low ? v : low;
    return least < high ? least : high;
}

// Two comparisons by order instead of one for equality: those become vectors.
#define EACH(EXPR)                                                                                 \
    for (int i = 0; i < n; i++) {                                                                  \
        const float v = x[i];                                                                      \
        y[i] = (float)(EXPR);                                                                      \
    }                                                                                              \
    break

static void apply(const struct tachy_plan_act_of *f, const float *restrict x, float *restrict y, int n)
{
    const float a = f->a, b = f->b;
    switch (f->act) {
    case TACHY_PLAN_NEG: EACH(-v);
    case TACHY_PLAN_LOG: EACH(logf(v));
    case TACHY_PLAN_SIN: EACH(sinf(v));
    case TACHY_PLAN_COS: EACH(cosf(v));
    case TACHY_PLAN_TAN: EACH(tanf(v));
    case TACHY_PLAN_ASIN: EACH(asinf(v));
    case TACHY_PLAN_ACOS: EACH(acosf(v));
    case TACHY_PLAN_ATAN: EACH(atanf(v));
    case TACHY_PLAN_SINH: EACH(sinhf(v));
    case TACHY_PLAN_COSH: EACH(coshf(v));
    case TACHY_PLAN_ASINH: EACH(asinhf(v));
    case TACHY_PLAN_ACOSH: EACH(acoshf(v));
    case TACHY_PLAN_ATANH: EACH(atanhf(v));
    case TACHY_PLAN_FLOOR: EACH(floorf(v));
    case TACHY_PLAN_CEIL: EACH(ceilf(v));
    case TACHY_PLAN_ROUND: EACH(nearest(v));
    case TACHY_PLAN_TRUNC: EACH(truncf(v));
    case TACHY_PLAN_RECIPROCAL: EACH(1 / v);
    case TACHY_PLAN_SOFTSIGN: EACH(v / (1 + fabsf(v)));
    case TACHY_PLAN_THRESHOLD: EACH(v > a ? v : 0);
    case TACHY_PLAN_SHRINK: EACH(v < -a ? v + b : v > a ? v - b : 0);
    case TACHY_PLAN_IS_NAN: EACH(1.0f - (float)((v >= 0) | (v <= 0)));
    case TACHY_PLAN_IS_INF: EACH(isinf(v) && (v < 0 ? a : b) != 0);
    case TACHY_PLAN_QUANTIZE: EACH(within(nearest(v) + a, b, b + 255));
    case TACHY_PLAN_SIGN: EACH((v > 0 ? 1.0f : 0.0f) - (v < 0 ? 1.0f : 0.0f) + (v != v ? v : 0.0f));
    case TACHY_PLAN_TRUTH: EACH(1.0f - (float)((v >= 0) & (v <= 0)));
    case TACHY_PLAN_NOT: EACH((v >= 0) & (v <= 0));
    default: break; // the kernels'
    }
}

void plan_run_function(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct tachy_view in = plan_at(&s->in, r), out = plan_at(&s->out, r);
    bool line = in.pixel == in.c && out.pixel == out.c;
    for (int row = row0; row < row1; row++)
        for (int x = 0; x < (line ? 1 : out.w); x++)
            apply(&s->function, tachy_view_at(&in, row / out.h, row % out.h, x),
                  tachy_view_at(&out, row / out.h, row % out.h, x), line ? out.w * out.c : out.c);
}

// What a graph's input `i` of whole numbers becomes in the arena.
int plan_convert_input(struct plan_build *b, const struct tachy_value *v, int i)
{
    struct plan_step *s = plan_step(b);
    if (!s)
        return TACHY_ERR_NOMEM;
    s->out = b->places.ref[v->id];
    s->in = (struct plan_ref){BASE_INPUTS + i, 0, plan_view(v)};
    s->convert.type = v->dtype;
    s->convert.copy.rank = 1;
    s->convert.copy.dim[0] = tachy_value_elements(v);
    s->run = plan_run_enter;
    return TACHY_OK;
}

// The graph's output `i` of whole numbers, in ONNX's order and its own type.
int plan_convert_output(struct plan_build *b, const struct tachy_value *v, int i)
{
    struct plan_step *s = plan_step(b);
    if (!s)
        return TACHY_ERR_NOMEM;
    int err = plan_operand(b, v, &s->in);
    if (err < 0)
        return err;
    s->out = (struct plan_ref){BASE_INPUTS + b->g->nb_in + i, 0, plan_view(v)};
    s->convert.type = v->dtype;
    struct plan_copy *c = &s->convert.copy;
    c->rank = TACHY_MAX(v->rank, 1);
    memcpy(c->dim, v->shape, sizeof(c->dim));
    plan_strides(v, &s->in.v, c->from);
    if (!v->rank)
        c->dim[0] = 1;
    s->run = plan_run_leave;
    return TACHY_OK;
}

#define ENTER(TYPE)                                                                                \
    for (int64_t i = 0; i < n; i++)                                                                \
        y[i] = (float)((const TYPE *)x)[i];                                                        \
    break

void plan_run_enter(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    const void *x = plan_at(&s->in, r).data;
    float *y = plan_at(&s->out, r).data;
    int64_t n = s->convert.copy.dim[0];
    (void)row0, (void)row1;
    switch (s->convert.type) {
    case TACHY_U8: ENTER(uint8_t);
    case TACHY_I8: ENTER(int8_t);
    case TACHY_I32: ENTER(int32_t);
    default: ENTER(int64_t);
    }
}

static int64_t whole(float v, double most)
{
    return (double)v >= most ? (int64_t)(most - 1024) : (double)v > -most ? (int64_t)v : (int64_t)-most;
}

#define LEAVE(TYPE, EXPR)                                                                          \
    for (int64_t i = 0; i < n; i++) {                                                              \
        const float v = x[i * step];                                                               \
        ((TYPE *)y)[at + i] = (TYPE)(EXPR);                                                        \
    }                                                                                              \
    break

// `n` numbers to the output's elements from `at` on.
static void leave(enum tachy_dtype type, const float *x, ptrdiff_t step, void *y, int64_t at, int64_t n)
{
    switch (type) {
    case TACHY_U8: LEAVE(uint8_t, v);
    case TACHY_I8: LEAVE(int8_t, v);
    case TACHY_I32: LEAVE(int32_t, whole(v, 2147483648.0));
    default: LEAVE(int64_t, whole(v, 9223372036854775808.0));
    }
}

void plan_run_leave(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    const struct plan_copy *c = &s->convert.copy;
    const float *x = plan_at(&s->in, r).data;
    int last = c->rank - 1;
    int64_t index[TACHY_MAX_RANK] = {0}, at = 0;
    ptrdiff_t from = 0, none = 0;
    (void)row0, (void)row1;
    do {
        leave(s->convert.type, x + from, c->from[last], plan_at(&s->out, r).data, at, c->dim[last]);
        at += c->dim[last];
    } while (plan_next(c, last, index, &from, &none));
}
