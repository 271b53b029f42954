#include "ref/ref_plan.h"

#include "base/base.h"

#include <math.h>

static double clip(double x, double lo, double hi)
{
    double y = x < lo ? lo : x; // NaN stays
    return y > hi ? hi : y;
}

static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

static double smooth_act(const struct tachy_act *a, double x)
{
    switch (a->kind) {
    case TACHY_ACT_SIGMOID: return 1 / (1 + exp(-x));
    case TACHY_ACT_SWISH: return x / (1 + exp(-(double)a->a * x));
    case TACHY_ACT_TANH: return tanh(x);
    case TACHY_ACT_GELU: return x / 2 * (1 + erf(x * 0.70710678118654752));
    case TACHY_ACT_GELU_TANH:
        return x / 2 * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    case TACHY_ACT_ELU: return x < 0 ? (double)a->a * expm1(x) : x;
    case TACHY_ACT_SOFTPLUS: return softplus(x);
    case TACHY_ACT_MISH: return x * tanh(softplus(x));
    case TACHY_ACT_ERF: return erf(x);
    case TACHY_ACT_EXP: return exp(x);
    case TACHY_ACT_SQRT: return sqrt(x);
    default: return x;
    }
}

double tachy_ref_act(const struct tachy_act *a, double x, double slope)
{
    switch (a->kind) {
    case TACHY_ACT_CLIP: return clip(x, (double)a->a, (double)a->b);
    case TACHY_ACT_HSIGMOID: return clip((double)a->a * x + (double)a->b, 0, 1);
    case TACHY_ACT_HSWISH: return x * clip((double)a->a * x + (double)a->b, 0, 1);
    case TACHY_ACT_LEAKY: return x < 0 ? (double)a->a * x : x;
    case TACHY_ACT_PRELU: return x < 0 ? slope * x : x;
    case TACHY_ACT_ABS: return fabs(x);
    case TACHY_ACT_LEVELS: return isnan(x) ? (double)a->a : clip(nearbyint(x), (double)a->a, (double)a->b);
    default: return smooth_act(a, x);
    }
}
