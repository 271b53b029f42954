#include "base/base.h"
#include "plan/graph.h"

#include <math.h>

// Types of values: which operators take and make what, and how large whole numbers can become.

int64_t tachy_dtype_most(enum tachy_dtype t)
{
    switch (t) {
    case TACHY_U8: return 255;
    case TACHY_I8: return 128;
    case TACHY_I32:
    case TACHY_I64: return INT64_MAX;
    default: return 0;
    }
}

void tachy_dtype_limits(enum tachy_dtype t, float *least, float *most)
{
    *least = t == TACHY_U8 ? 0 : t == TACHY_I8 ? -128.0f : t == TACHY_I32 ? -2147483648.0f : -9223372036854775808.0f;
    *most = t == TACHY_U8 ? 255 : t == TACHY_I8 ? 127.0f : t == TACHY_I32 ? 2147483520.0f : 9223371487098961920.0f;
}

double tachy_constant_at(const struct tachy_value *v, int64_t i)
{
    switch (v->dtype) {
    case TACHY_F32: return (double)((const float *)v->data)[i];
    case TACHY_U8: return ((const uint8_t *)v->data)[i];
    case TACHY_I8: return ((const int8_t *)v->data)[i];
    case TACHY_I32: return ((const int32_t *)v->data)[i];
    case TACHY_I64: return (double)((const int64_t *)v->data)[i];
    default: return NAN;
    }
}

int64_t tachy_constant_most(const struct tachy_value *v)
{
    double most = 0;
    int64_t n = tachy_is_half(v->dtype) ? 0 : tachy_value_elements(v);
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(tachy_constant_at(v, i)));
    return most > 1e15 ? INT64_MAX : (int64_t)most;
}

static bool is_float(const struct tachy_value *v) { return tachy_is_float(v->dtype); }

static int64_t of(const struct tachy_node *n, int i) { return n->in[i] ? n->in[i]->most : 0; }

static int64_t plus(int64_t a, int64_t b) { return a > INT64_MAX - b ? INT64_MAX : a + b; }

static int64_t times(int64_t a, int64_t b) { return b && a > INT64_MAX / b ? INT64_MAX : a * b; }

static int64_t most_of_binary(const struct tachy_node *n)
{
    switch (n->attr.binary) {
    case TACHY_PLAN_ADD:
    case TACHY_PLAN_SUB: return plus(of(n, 0), of(n, 1));
    case TACHY_PLAN_MUL: return times(of(n, 0), of(n, 1));
    case TACHY_PLAN_DIV: return of(n, 0);
    case TACHY_PLAN_FMOD:
    case TACHY_PLAN_MOD: return of(n, 1);
    default: return TACHY_MAX(of(n, 0), of(n, 1));
    }
}

// Nothing has been verified yet.
static int64_t most_of_arg(const struct tachy_node *n)
{
    int axis = n->attr.arg.axis;
    return axis >= 0 && axis < n->in[0]->rank ? TACHY_MAX(n->in[0]->shape[axis], 1) - 1 : 0;
}

int64_t tachy_node_most(const struct tachy_node *n)
{
    const enum tachy_plan_act act = n->attr.act.act;
    int64_t most = 0;
    if (is_float(n->out))
        return 0;
    switch (n->op) {
    case TACHY_OP_UNARY:
        if (act == TACHY_PLAN_TRUNC || act == TACHY_PLAN_QUANTIZE)
            return TACHY_MIN(tachy_dtype_most(n->out->dtype), TACHY_PLAN_ANY - 1);
        return act == TACHY_PLAN_ABS ? of(n, 0) : 1;
    case TACHY_OP_BINARY: return tachy_plan_binary_compares(n->attr.binary) ? 1 : most_of_binary(n);
    case TACHY_OP_TOP:
    case TACHY_OP_ARG: return most_of_arg(n);
    case TACHY_OP_SCATTER_EACH:
    case TACHY_OP_SCATTER_ND: return TACHY_MAX(of(n, 0), of(n, 2));
    case TACHY_OP_SELECT: return TACHY_MAX(of(n, 1), of(n, 2));
    case TACHY_OP_CONV_INT8:
    case TACHY_OP_BINARY_INT8:
    case TACHY_OP_TABLE: return tachy_dtype_most(n->out->dtype);
    case TACHY_OP_CONCAT:
        for (int i = 0; i < n->nb_in; i++)
            most = TACHY_MAX(most, of(n, i));
        return most;
    default: return of(n, 0);
    }
}

static bool is_whole(const struct tachy_value *v) { return !is_float(v); }

// Floats of either width may be mixed: a back end widens and rounds.
static bool alike(const struct tachy_value *a, const struct tachy_value *b)
{
    return a->dtype == b->dtype || (is_float(a) && is_float(b));
}

// Requires one type for all operands, and floats unless `whole` types are allowed.
static const char *all_same(const struct tachy_node *n, bool whole)
{
    for (int i = 0; i < n->nb_in; i++)
        if (n->in[i] && !alike(n->in[i], n->out))
            return "operands of different types";
    return is_float(n->out) || (whole && is_whole(n->out)) ? NULL : "a type other than float32";
}

// Whole numbers stay exact in float32 up to here.
static const char *computed(const struct tachy_node *n)
{
    return is_whole(n->out) && n->out->most > TACHY_PLAN_WHOLE ? "whole numbers that may become too large"
                                                               : NULL;
}

// The type's whole range, with the zero point inside.
static const char *quantize(const struct tachy_node *n)
{
    const float zero = n->attr.act.a, least = n->attr.act.b;
    bool byte = n->out->dtype == TACHY_U8 ? least == 0 : n->out->dtype == TACHY_I8 && least == -128;
    if (!is_float(n->in[0]) || !byte)
        return "a type that numbers are not quantised to";
    return zero >= least && zero <= least + 255 && zero == rintf(zero) ? NULL : "a zero point outside of its type";
}

static const char *unary(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    switch (n->attr.act.act) {
    case TACHY_PLAN_IS_NAN:
    case TACHY_PLAN_IS_INF:
        return is_float(x) && y->dtype == TACHY_U8 ? NULL : "another type than a truth value";
    case TACHY_PLAN_QUANTIZE: return quantize(n);
    case TACHY_PLAN_NOT:
    case TACHY_PLAN_TRUTH: return y->dtype == TACHY_U8 ? NULL : "another type than a truth value";
    case TACHY_PLAN_TRUNC:
        return is_float(x) && (y->dtype == TACHY_I32 || y->dtype == TACHY_I64)
                   ? NULL
                   : "a type that numbers are not cut to";
    case TACHY_PLAN_SIGN:
    case TACHY_PLAN_ABS: return all_same(n, true);
    default: return all_same(n, false);
    }
}

static const char *binary(const struct tachy_node *n)
{
    enum tachy_plan_binary how = n->attr.binary;
    if (!alike(n->in[0], n->in[1]))
        return "operands of different types";
    if (how >= TACHY_PLAN_AND && n->in[0]->dtype != TACHY_U8)
        return "a type other than truth values";
    if (tachy_plan_binary_compares(how))
        return n->out->dtype == TACHY_U8 ? NULL : "another type than a truth value";
    const char *why = all_same(n, how != TACHY_PLAN_POW);
    return why ? why : computed(n);
}

static const char *gather(const struct tachy_node *n)
{
    if (n->in[1]->dtype != TACHY_I32 && n->in[1]->dtype != TACHY_I64)
        return "indices that are no whole numbers";
    return alike(n->in[0], n->out) ? NULL : "operands of different types";
}

static bool is_byte(const struct tachy_value *v) { return v->dtype == TACHY_U8 || v->dtype == TACHY_I8; }

static const char *int8(const struct tachy_node *n)
{
    const struct tachy_value *y = n->out, *added = n->nb_in > 4 ? n->in[4] : NULL;
    bool conv = n->op == TACHY_OP_CONV_INT8;
    if (!is_byte(n->in[0]) || (conv ? !is_byte(y) && !is_float(y) : !is_byte(y) || !is_byte(n->in[1])) ||
        (added && (!is_byte(added) || !is_byte(y))))
        return "operands that are no quantised numbers";
    bool constants = !conv || (n->in[1]->data && n->in[1]->dtype == TACHY_I8 && n->in[2]->data && n->in[2]->dtype == TACHY_F32 &&
                               n->in[3]->data && n->in[3]->dtype == TACHY_I32);
    return constants ? NULL : "weights of another type, or that are not constant";
}

static const char *scatter(const struct tachy_node *n)
{
    const char *why = gather(n);
    if (!why && !alike(n->in[2], n->out))
        why = "operands of different types";
    bool grows = n->attr.scatter.how == TACHY_PLAN_SCATTER_ADD || n->attr.scatter.how == TACHY_PLAN_SCATTER_MUL;
    return !why && grows && is_whole(n->out) ? "whole numbers that may become too large" : why;
}

static const char *renamed(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    if (alike(x, y) || (is_whole(x) && is_float(y)))
        return NULL;
    return is_whole(x) && is_whole(y) && x->most <= tachy_dtype_most(y->dtype) ? NULL
                                                                               : "a type that does not hold it";
}

// True if input `i` may be rounded to float32: see TACHY_PLAN_ANY.
static bool may_be_any(const struct tachy_node *n, int i)
{
    const enum tachy_plan_act act = n->attr.act.act;
    switch (n->op) {
    case TACHY_OP_RESHAPE:
    case TACHY_OP_CONCAT:
    case TACHY_OP_SLICE:
    case TACHY_OP_TRANSPOSE:
    case TACHY_OP_EXPAND: return true;
    case TACHY_OP_GATHER:
    case TACHY_OP_GATHER_EACH:
    case TACHY_OP_GATHER_ND:
    case TACHY_OP_SCATTER_EACH:
    case TACHY_OP_SCATTER_ND: return i == 0 || tachy_value_elements(n->in[0]) <= TACHY_PLAN_WHOLE;
    case TACHY_OP_SELECT: return i > 0;
    case TACHY_OP_UNARY: return act == TACHY_PLAN_TRUTH || act == TACHY_PLAN_NOT || act == TACHY_PLAN_SIGN;
    case TACHY_OP_BINARY:
        return tachy_plan_binary_compares(n->attr.binary) && n->in[1 - i]->data &&
               n->in[1 - i]->most < TACHY_PLAN_WHOLE;
    default: return false;
    }
}

const char *tachy_node_types_wrong(const struct tachy_node *n)
{
    for (int i = 0; i < n->nb_in; i++) {
        const struct tachy_value *v = n->in[i];
        if (!v || !is_whole(v) || (n->op == TACHY_OP_CONV_INT8 && i == 3)) // biases are added to whole numbers
            continue;
        if (v->data ? v->most > TACHY_PLAN_WHOLE : v->most == TACHY_PLAN_ANY && !may_be_any(n, i))
            return "whole numbers that may be too large";
    }
    switch (n->op) {
    case TACHY_OP_UNARY: return unary(n);
    case TACHY_OP_BINARY: return binary(n);
    case TACHY_OP_SELECT:
        if (n->in[0]->dtype != TACHY_U8)
            return "a condition that is no truth value";
        return alike(n->in[1], n->out) && alike(n->in[2], n->out)
                   ? NULL
                   : "operands of different types";
    case TACHY_OP_GATHER:
    case TACHY_OP_GATHER_EACH:
    case TACHY_OP_GATHER_ND: return gather(n);
    case TACHY_OP_SCATTER_EACH:
    case TACHY_OP_SCATTER_ND: return scatter(n);
    case TACHY_OP_TOP:
    case TACHY_OP_ARG: return n->out->dtype == TACHY_I64 ? NULL : "another type than int64";
    case TACHY_OP_RESHAPE: return renamed(n);
    case TACHY_OP_CONCAT:
    case TACHY_OP_SLICE:
    case TACHY_OP_TRANSPOSE:
    case TACHY_OP_EXPAND: return all_same(n, true);
    case TACHY_OP_CONV_INT8:
    case TACHY_OP_BINARY_INT8: return int8(n);
    case TACHY_OP_TABLE:
        return is_byte(n->in[0]) && alike(n->in[1], n->out) && (is_byte(n->out) || is_float(n->out)) ? NULL : "a type that no table has";
    case TACHY_OP_POOL: return all_same(n, !n->attr.pool.average);
    case TACHY_OP_REDUCE:
        return all_same(n, n->attr.reduce.how == TACHY_PLAN_RMAX || n->attr.reduce.how == TACHY_PLAN_RMIN);
    default: return all_same(n, false);
    }
}
