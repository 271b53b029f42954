#include "plan/cpu/vec/vec_act.h"
#include "plan/cpu/vec/vec_names.h"

// One or two tensors, element by element.

// A loop for each kind of activation: the choice is made once, not for each vector.
#define UNARY(KIND, CALL)                                                                          \
    case KIND:                                                                                     \
        for (; i + VW <= n; i += VW) {                                                             \
            const VF v = vload(x + i);                                                             \
            vstore(y + i, CALL);                                                                   \
        }                                                                                          \
        break;

// Four vectors at a time of x / (1 + e^-ax), or of 1 / (1 + e^-x). Returns how many floats.
#define SIGMOID_LOAD(k, c) const VF v##k = vload(x + i + (k) * VW), x##k = scaled ? vmul(v##k, c) : v##k;
#define SIGMOID_STORE(k, c) vstore(y + i + (k) * VW, vdiv(swish ? v##k : c, under##k));

static inline __attribute__((always_inline)) int sigmoids(float *y, const float *x, int n, VF a, bool scaled, bool swish)
{
    int i = 0;
    for (; i + 4 * VW <= n; i += 4 * VW) {
        FOUR_VECTORS(SIGMOID_LOAD, a)
        SIGMOID_UNDER(FOUR_VECTORS)
        FOUR_VECTORS(SIGMOID_STORE, vset1(1))
    }
    return i;
}

void ISA_NAME(tachy_unary)(float *y, const float *x, int n, const struct tachy_act *act)
{
    const VF a = vset1(act->a), b = vset1(act->b);
    int i = 0;
    if (act->kind == TACHY_ACT_SIGMOID)
        i = sigmoids(y, x, n, a, false, false);
    else if (act->kind == TACHY_ACT_SWISH)
        i = act->a == 1 ? sigmoids(y, x, n, a, false, true) : sigmoids(y, x, n, a, true, true);
    switch (act->kind) {
        UNARY(TACHY_ACT_NONE, v)
        UNARY(TACHY_ACT_CLIP, vclip(v, a, b))
        UNARY(TACHY_ACT_HSIGMOID, vhsigmoid(v, a, b))
        UNARY(TACHY_ACT_HSWISH, vmul(v, vhsigmoid(v, a, b)))
        UNARY(TACHY_ACT_LEAKY, vprelu(v, a))
        UNARY(TACHY_ACT_SIGMOID, vsigmoid(v))
        UNARY(TACHY_ACT_SWISH, vswish(v, a))
        UNARY(TACHY_ACT_TANH, vtanh(v))
        UNARY(TACHY_ACT_GELU, vact_long(TACHY_ACT_GELU, v, 0))
        UNARY(TACHY_ACT_GELU_TANH, vgelu_tanh(v))
        UNARY(TACHY_ACT_ELU, velu(v, a))
        UNARY(TACHY_ACT_MISH, vmish(v))
        UNARY(TACHY_ACT_LEVELS, vlevels(v, a, b))
    default:
        for (; i + VW <= n; i += VW)
            vstore(y + i, vact(act, vload(x + i), a));
    }
    if (i < n)
        vstore_n(y + i, vact(act, vload_n(x + i, n - i), a), n - i);
}

VARRAY_FUNCTION
static VF vpow(VF a, VF b)
{
    float x[VW], y[VW];
    vstore(x, a);
    vstore(y, b);
    for (int i = 0; i < VW; i++)
        x[i] = powf(x[i], y[i]);
    return vload(x);
}

static inline VF apply(enum tachy_binary_kind kind, VF a, VF b)
{
    switch (kind) {
    case TACHY_BINARY_ADD: return vadd(a, b);
    case TACHY_BINARY_SUB: return vsub(a, b);
    case TACHY_BINARY_MUL: return vmul(a, b);
    case TACHY_BINARY_DIV: return vdiv(a, b);
    case TACHY_BINARY_MIN: return vsmaller(a, b);
    case TACHY_BINARY_MAX: return vlarger(a, b);
    default: return vpow(a, b);
    }
}

static inline VF operand(const float *p, int channel, int i, int n)
{
    return channel ? vload_upto(p + i, n) : vbroadcast(p);
}

// `kind` is a constant where this is inlined.
static inline __attribute__((always_inline)) void pixels(const struct tachy_binary_row *r,
                                                         enum tachy_binary_kind kind)
{
    const float *a = r->a.p, *b = r->b.p, *c = r->c.p;
    float *y = r->y;
    for (int p = 0; p < r->pixels; p++) {
        for (int i = 0; i < r->channels; i += VW) {
            int n = r->channels - i < VW ? r->channels - i : VW;
            VF v = apply(kind, operand(a, r->a.channel, i, n), operand(b, r->b.channel, i, n));
            if (c)
                v = vadd(v, operand(c, r->c.channel, i, n));
            if (r->act->kind != TACHY_ACT_NONE)
                v = vact(r->act, v, r->act->slope ? vload_upto(r->act->slope + i, n) : v);
            vstore_upto(y + i, v, n);
        }
        a += r->a.step, b += r->b.step, y += r->y_step;
        c = c ? c + r->c.step : NULL;
    }
}

void ISA_NAME(tachy_binary)(const struct tachy_binary_row *r)
{
    switch (r->kind) {
    case TACHY_BINARY_ADD: pixels(r, TACHY_BINARY_ADD); break;
    case TACHY_BINARY_MUL: pixels(r, TACHY_BINARY_MUL); break;
    default: pixels(r, r->kind); break;
    }
}
