#include "plan/cpu/vec/vec_names.h"

#include "base/base.h"

#include <math.h>

// Functions of single numbers that no convolution ends in, conversions between types, and reductions of a line, as
// loops that compilers vectorise: no sum changes its order and no product is fused into one, so every instruction set
// gives the same bits.

// To the nearest whole number, halves to the even one, in operations that become vectors: beyond 2^23
// float32 has no fractions left, so a sum with it has none.
static inline float nearest(float v)
{
    const float whole = 8388608.0f;
    float r = copysignf((fabsf(v) + whole) - whole, v);
    return fabsf(v) < whole ? r : v;
}

// NaN becomes the lower limit.
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

void ISA_NAME(tachy_function)(const struct tachy_plan_act_of *f, const float *restrict x, float *restrict y, int n)
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
    case TACHY_PLAN_TRUNC: EACH(within(truncf(v), a, b) + 0.0f); // no negative zero
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

#define ENTER(TYPE)                                                                                \
    for (int64_t i = 0; i < n; i++)                                                                \
        y[i] = (float)((const TYPE *)x)[i];                                                        \
    break

void ISA_NAME(tachy_enter)(enum tachy_dtype type, const void *x, float *restrict y, int64_t n)
{
    switch (type) {
    case TACHY_U8: ENTER(uint8_t);
    case TACHY_I8: ENTER(int8_t);
    case TACHY_I32: ENTER(int32_t);
    default: ENTER(int64_t);
    }
}

#define LEAVE(TYPE)                                                                             \
    do {                                                                                           \
        TYPE *restrict to = (TYPE *)y + at;                                                        \
        if (step == 1)                                                                             \
            for (int64_t i = 0; i < n; i++)                                                        \
                to[i] = (TYPE)within(x[i], least, most);                                           \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                to[i] = (TYPE)within(x[i * step], least, most);                                    \
    } while (0)

void ISA_NAME(tachy_leave)(enum tachy_dtype type, const float *restrict x, ptrdiff_t step, void *y, int64_t at, int64_t n)
{
    float least, most;
    tachy_dtype_limits(type, &least, &most);
    switch (type) {
    case TACHY_U8: LEAVE(uint8_t); break;
    case TACHY_I8: LEAVE(int8_t); break;
    case TACHY_I32: LEAVE(int32_t); break;
    default: LEAVE(int64_t); break;
    }
}

enum { LANES = 32 };

// In lanes, in the same order whatever the processor.
double ISA_NAME(tachy_total)(const float *x, int64_t n)
{
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += (double)x[i + k];
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    for (; i < n; i++)
        sum += (double)x[i];
    return sum;
}

// One by one, up to the first that is no number.
static float most_slowly(const float *x, int64_t n, bool least)
{
    float most = x[0];
    for (int64_t i = 0; i < n; i++) {
        if (x[i] != x[i])
            return x[i];
        most = (least ? x[i] < most : x[i] > most) ? x[i] : most;
    }
    return most;
}

static inline __attribute__((always_inline)) void turn(const float *x, int vectors, bool least, VF *best, VF *all)
{
    for (int k = 0; k < vectors; k++) {
        const VF v = vload(x + k * VW);
        best[k] = least ? vmin(v, best[k]) : vmax(v, best[k]);
        all[k] = vadd(all[k], v);
    }
}

// In lanes, in the same order on every processor. Comparisons alone would lose NaN, so a sum runs beside them, which
// takes no longer: only if it is NaN can an element be.
static inline __attribute__((always_inline)) float most_of(const float *x, int64_t n, bool least)
{
    enum { VECTORS = LANES / VW };
    float most = x[0], sum = 0, lane[LANES], *to = lane;
    VF best[VECTORS], all[VECTORS];
    int64_t i = 0;
    if (n >= LANES) {
        for (int k = 0; k < VECTORS; k++)
            best[k] = vset1(most), all[k] = vset1(0);
        for (; i + LANES <= n; i += LANES)
            turn(x + i, VECTORS, least, best, all);
        if (i + LANES / 2 <= n) {
            turn(x + i, VECTORS / 2, least, best, all);
            i += LANES / 2;
        }
        for (int k = 1; k < VECTORS; k++)
            all[0] = vadd(all[0], all[k]);
        sum = vsum(all[0]);
        VARRAY_POINTER(to);
        for (int k = 0; k < VECTORS; k++)
            vstore(to + k * VW, best[k]);
        for (int k = 0; k < LANES; k++)
            most = (least ? to[k] < most : to[k] > most) ? to[k] : most;
    }
    for (; i < n; i++) {
        most = (least ? x[i] < most : x[i] > most) ? x[i] : most;
        sum += x[i];
    }
    return sum != sum ? most_slowly(x, n, least) : most;
}

float ISA_NAME(tachy_most)(const float *x, int64_t n, bool least)
{
    return least ? most_of(x, n, true) : most_of(x, n, false);
}
