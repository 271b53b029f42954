#pragma once
#include "plan/cpu/vec/vec.h"

#include "ref/ref_plan.h"

// Activations of one vector. The relative error of exp, tanh, erf and functions built on them is a few 2^-24 unless the
// result is tiny. exp reduces to |r| <= ln 2 / 2 and sums its Taylor series to r^7; tanh and erf near zero are the
// minimax polynomials of Cephes (tanhf, erff; S. L. Moshier), erf elsewhere formula 7.1.26 of Abramowitz and Stegun
// (1.5e-7 absolute).

// exp(x) / 2^n, for the n that is returned too
static inline VF vexp_part(VF x, VF *whole)
{
    VF n = *whole = vround(vmul(x, vset1(1.44269504f)));
    VF r = vfma(n, vset1(-0.693145751953125f), x); // ln 2, the upper bits
    r = vfma(n, vset1(-1.428606765330187e-06f), r);
    VF p = vfma(r, vset1(1.0f / 5040), vset1(1.0f / 720));
    p = vfma(p, r, vset1(1.0f / 120));
    p = vfma(p, r, vset1(1.0f / 24));
    p = vfma(p, r, vset1(1.0f / 6));
    p = vfma(p, r, vset1(0.5f));
    return vfma(vmul(r, r), p, vadd(r, vset1(1.0f)));
}

static inline VF vexp(VF x)
{
    VF n, p = vexp_part(vmin(vset1(89.0f), vmax(vset1(-104.0f), x)), &n);
    VF half = vround(vmul(n, vset1(0.5f))); // in two steps: subnormal and overflowing results
    return vmul(vmul(p, vexp2i(half)), vexp2i(vsub(n, half)));
}

// exp(x) with x clamped to -87..87, if that takes one step.
static inline VF vexp_cut(VF x)
{
    VF n, p = vexp_part(vmin(vset1(87.0f), vmax(vset1(-87.0f), x)), &n);
    return vscale2(p, n);
}

// under = 1 + 2^t, t = -x / ln 2, with x clamped as above: 2^t is 2^n 2^-r for an integer n and |r| <= 1/2. The series
// is fitted to 2^-r with a relative error of 2e-9. EACH(M, c) expands to M(k, c) for several vectors k: a single one
// would stall on each result for longer than a processor looks ahead. Named variables, as in vec_finish.h.
#define U_CUT(k, c) const VF cut##k = vmin(vset1(c), vmax(vset1(-(c)), x##k));
#define U_WHOLE(k, c) const VF whole##k = vfma(cut##k, vset1(-(c)), vset1(VPOW2_ZERO)); // the sum rounds
#define U_PART(k, c) VF r##k = vfma(cut##k, vset1(c), vsub(whole##k, vset1(VPOW2_ZERO)));
#define U_REST(k, c) r##k = vfma(cut##k, vset1(c), r##k);
#define U_FIRST(k, c) VF p##k = vset1(c);
#define U_NEXT(k, c) p##k = vfma(p##k, r##k, vset1(c));
#define U_UNDER(k, c) const VF under##k = vfma(p##k, vpow2(whole##k), vset1(c));
#define SIGMOID_UNDER(EACH)                                                                        \
    EACH(U_CUT, 87.0f)                                                                             \
    EACH(U_WHOLE, 1.44269504f) /* 1 / ln 2 */                                                      \
    EACH(U_PART, 1.44269504f)                                                                      \
    EACH(U_REST, 1.925963e-8f) /* what the float 1 / ln 2 lacks */                                 \
    EACH(U_FIRST, 1.535336e-4f)                                                                    \
    EACH(U_NEXT, -1.3398874e-3f)                                                                   \
    EACH(U_NEXT, 9.618437e-3f)                                                                     \
    EACH(U_NEXT, -5.5503324e-2f)                                                                   \
    EACH(U_NEXT, 0.24022648f)                                                                      \
    EACH(U_NEXT, -0.6931472f)                                                                      \
    EACH(U_NEXT, 1)                                                                                \
    EACH(U_UNDER, 1)
#define ONE_VECTOR(M, c) M(0, c)
#define FOUR_VECTORS(M, c) M(0, c) M(1, c) M(2, c) M(3, c)

static inline VF vsigmoid_under(VF x0)
{
    SIGMOID_UNDER(ONE_VECTOR)
    return under0;
}

static inline VF vsigmoid(VF x) { return vdiv(vset1(1), vsigmoid_under(x)); }
static inline VF vswish(VF x, VF a) { return vdiv(x, vsigmoid_under(vmul(x, a))); }

static inline VF vtanh(VF x)
{
    VF a = vabs(x), z = vmul(x, x);
    VF p = vfma(z, vset1(-5.70498872745e-3f), vset1(2.06390887954e-2f));
    p = vfma(p, z, vset1(-5.37397155531e-2f));
    p = vfma(p, z, vset1(1.33314422036e-1f));
    p = vfma(p, z, vset1(-3.33332819422e-1f));
    VF small = vfma(vmul(p, z), x, x);
    VF e = vexp_cut(vadd(a, a));
    VF large = vsub(vset1(1), vdiv(vset1(2), vadd(e, vset1(1))));
    return vselect_lt(a, vset1(0.625f), small, vcopysign(large, x));
}

static inline VF verf(VF x)
{
    VF a = vabs(x), z = vmul(x, x);
    VF p = vfma(z, vset1(7.853861353153693e-5f), vset1(-8.010193625184903e-4f));
    p = vfma(p, z, vset1(5.188327685732524e-3f));
    p = vfma(p, z, vset1(-2.685381193529856e-2f));
    p = vfma(p, z, vset1(1.128358514861418e-1f));
    p = vfma(p, z, vset1(-3.761262582423300e-1f));
    p = vfma(p, z, vset1(1.128379165726710f));
    VF t = vdiv(vset1(1), vfma(a, vset1(0.3275911f), vset1(1)));
    VF q = vfma(t, vset1(1.061405429f), vset1(-1.453152027f));
    q = vfma(q, t, vset1(1.421413741f));
    q = vfma(q, t, vset1(-0.284496736f));
    q = vfma(q, t, vset1(0.254829592f));
    VF large = vsub(vset1(1), vmul(vmul(q, t), vexp_cut(vsub(vset1(0), z))));
    return vselect_lt(a, vset1(1), vmul(p, x), vcopysign(large, x));
}

// log(1 + u) for 0 <= u <= 1: 2 atanh(u / (2 + u))
static inline VF vlog1p(VF u)
{
    VF s = vdiv(u, vadd(u, vset1(2))), z = vmul(s, s);
    VF p = vfma(z, vset1(1.0f / 15), vset1(1.0f / 13));
    p = vfma(p, z, vset1(1.0f / 11));
    p = vfma(p, z, vset1(1.0f / 9));
    p = vfma(p, z, vset1(1.0f / 7));
    p = vfma(p, z, vset1(1.0f / 5));
    p = vfma(p, z, vset1(1.0f / 3));
    p = vfma(vmul(p, z), s, s);
    return vadd(p, p);
}

static inline VF velu(VF x, VF a)
{
    VF t = vtanh(vmul(x, vset1(0.5f))); // exp(x) - 1 = 2 t / (1 - t)
    VF e = vdiv(vadd(t, t), vsub(vset1(1), t));
    return vselect_lt(x, vset1(0), vmul(a, e), x);
}

static inline VF vmish(VF x)
{
    VF w = vexp(vmin(vset1(20), x)), n = vmul(w, vadd(w, vset1(2)));
    return vmul(x, vdiv(n, vadd(n, vset1(2))));
}

static inline VF vsoftplus(VF x)
{
    return vadd(vmax(vset1(0), x), vlog1p(vexp(vsub(vset1(0), vabs(x)))));
}

static inline VF vgelu_tanh(VF x)
{
    VF u = vmul(vfma(vmul(x, x), vset1(0.044715f), vset1(1)), vmul(x, vset1(1.5957691216f)));
    return vdiv(x, vsigmoid_under(u));
}

static inline VF vclip(VF x, VF lo, VF hi) { return vmin(hi, vmax(lo, x)); }
static inline VF vhsigmoid(VF x, VF a, VF b) { return vclip(vfma(x, a, b), vset1(0), vset1(1)); }
static inline VF vlevels(VF x, VF a, VF b) { return vmin(vmax(vround(x), a), b); } // NaN: a
static inline VF vprelu(VF x, VF slope)
{
    return vselect_lt(x, vset1(0), vmul(slope, x), x);
}

// Activations too long to be inlined for each accumulator of a tile.
static inline VF vact_long(enum tachy_act_kind kind, VF x, float a)
{
    switch (kind) {
    case TACHY_ACT_SIGMOID: return vsigmoid(x);
    case TACHY_ACT_SWISH: return vswish(x, vset1(a));
    case TACHY_ACT_TANH: return vtanh(x);
    case TACHY_ACT_GELU:
        return vmul(vmul(x, vset1(0.5f)), vadd(vset1(1), verf(vmul(x, vset1(0.70710678f)))));
    case TACHY_ACT_GELU_TANH: return vgelu_tanh(x);
    case TACHY_ACT_ELU: return velu(x, vset1(a));
    case TACHY_ACT_SOFTPLUS: return vsoftplus(x);
    case TACHY_ACT_MISH: return vmish(x);
    case TACHY_ACT_ERF: return verf(x);
    case TACHY_ACT_EXP: return vexp(x);
    case TACHY_ACT_SQRT: return vsqrt(x);
    case TACHY_ACT_ABS: return vabs(x);
    default: return x;
    }
}

// Any activation; `slope` for PRELU.
static inline VF vact(const struct tachy_act *act, VF x, VF slope)
{
    switch (act->kind) {
    case TACHY_ACT_NONE: return x;
    case TACHY_ACT_CLIP: return vclip(x, vset1(act->a), vset1(act->b));
    case TACHY_ACT_HSIGMOID: return vhsigmoid(x, vset1(act->a), vset1(act->b));
    case TACHY_ACT_HSWISH: return vmul(x, vhsigmoid(x, vset1(act->a), vset1(act->b)));
    case TACHY_ACT_LEAKY: return vprelu(x, vset1(act->a));
    case TACHY_ACT_PRELU: return vprelu(x, slope);
    case TACHY_ACT_LEVELS: return vlevels(x, vset1(act->a), vset1(act->b));
    default: return vact_long(act->kind, x, act->a);
    }
}
