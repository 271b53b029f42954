#include "base/base.h"
#include "plan/cpu/plan_parts.h"

#include <math.h>

// Operators with up to three operands that broadcast to the output in any number of dimensions, comparisons, integer
// operators, and selection. Operators on pictures and float32 are in steps_math.c.

// Dimensions of one element go, and those that all operands walk through evenly become one.
static void simplify(struct plan_spread *s)
{
    struct plan_spread t = {.how = s->how, .whole = s->whole};
    for (int d = 0; d < s->rank; d++) {
        bool joins = t.rank > 0;
        if (s->dim[d] == 1)
            continue;
        for (int i = 0; i < PLAN_SPREAD && joins; i++)
            joins = t.step[i][t.rank - 1] == s->step[i][d] * s->dim[d];
        int at = joins ? t.rank - 1 : t.rank++;
        t.dim[at] = joins ? t.dim[at] * s->dim[d] : s->dim[d];
        for (int i = 0; i < PLAN_SPREAD; i++)
            t.step[i][at] = s->step[i][d];
    }
    if (!t.rank) {
        t.rank = 1;
        t.dim[0] = 1;
    }
    *s = t;
}

// Steps of an operand along the output's dimensions, 0 if it repeats.
static void set_operand(const struct tachy_value *v, const struct plan_ref *at, const struct tachy_value *y,
                        ptrdiff_t *step)
{
    ptrdiff_t own[TACHY_MAX_RANK] = {0};
    plan_strides(v, &at->v, own);
    for (int d = 0; d < y->rank; d++) {
        int k = d - (y->rank - v->rank);
        step[d] = k < 0 || v->shape[k] == 1 ? 0 : own[k];
    }
}

int plan_steps_spread(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = plan_begin(b, n, &s);
    struct plan_ref *const refs[] = {&s->in, &s->in2, &s->add};
    for (int i = 1; i < n->nb_in && err == TACHY_OK; i++)
        err = plan_operand(b, n->in[i], refs[i]);
    if (err < 0)
        return err;
    struct plan_spread *p = &s->spread;
    p->rank = n->out->rank;
    p->whole = !tachy_is_float(n->out->dtype);
    p->how = n->attr.binary;
    memcpy(p->dim, n->out->shape, sizeof(p->dim));
    plan_strides(n->out, &s->out.v, p->step[0]);
    for (int i = 0; i < n->nb_in; i++)
        set_operand(n->in[i], refs[i], n->out, p->step[1 + i]);
    simplify(p);
    if (n->op == TACHY_OP_BINARY)
        s->act = plan_act(&n->attr.act);
    s->run = n->op == TACHY_OP_SELECT ? plan_run_select : plan_run_spread;
    s->rows = p->rank > 1 ? (int)p->dim[0] : 1;
    return TACHY_OK;
}

// One line of the last dimension: pointers and steps of the output and the operands.
struct line {
    float *y;
    const float *x[3];
    ptrdiff_t step[PLAN_SPREAD];
    int64_t n;
};

static float modulo(float a, float b)
{
    float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// Adjacent elements, and one number for the whole line, get separate loops, which the compiler vectorises. It does so
// for two ordered comparisons, but not for one for equality.
#define LOOP(A, B, Y, EXPR)                                                                        \
    for (int64_t i = 0; i < n; i++) {                                                              \
        const float a = p[A], b = q[B];                                                            \
        y[Y] = (float)(EXPR);                                                                      \
    }
#define EACH(EXPR)                                                                                 \
    if (dense && sb == 1)                                                                          \
        LOOP(i, i, i, EXPR)                                                                        \
    else if (dense && !sb)                                                                         \
        LOOP(i, 0, i, EXPR)                                                                        \
    else                                                                                           \
        LOOP(i *sa, i *sb, i *sy, EXPR)                                                            \
    break

static void scalar_line(const struct line *l, enum tachy_plan_binary how, bool whole)
{
    const float *p = l->x[0], *q = l->x[1];
    const ptrdiff_t sy = l->step[0], sa = l->step[1], sb = l->step[2];
    const bool dense = sy == 1 && sa == 1;
    const int64_t n = l->n;
    float *y = l->y;
    switch (how) {
    case TACHY_PLAN_ADD: EACH(a + b);
    case TACHY_PLAN_SUB: EACH(a - b);
    case TACHY_PLAN_MUL: EACH(a * b);
    case TACHY_PLAN_DIV:
        if (whole) {
            EACH(truncf(a / b));
        }
        EACH(a / b);
    case TACHY_PLAN_MIN: EACH(a < b || a != a ? a : b);
    case TACHY_PLAN_MAX: EACH(a > b || a != a ? a : b);
    case TACHY_PLAN_POW: EACH(powf(a, b));
    case TACHY_PLAN_FMOD: EACH(fmodf(a, b));
    case TACHY_PLAN_MOD: EACH(modulo(a, b));
    case TACHY_PLAN_EQUAL: EACH((a >= b) & (a <= b));
    case TACHY_PLAN_LESS: EACH(a < b);
    case TACHY_PLAN_LESS_EQUAL: EACH(a <= b);
    case TACHY_PLAN_GREATER: EACH(a > b);
    case TACHY_PLAN_GREATER_EQUAL: EACH(a >= b);
    case TACHY_PLAN_AND: EACH((a > 0) & (b > 0)); // truth values are not negative
    case TACHY_PLAN_OR: EACH((a > 0) | (b > 0));
    case TACHY_PLAN_XOR: EACH((a > 0) ^ (b > 0));
    case TACHY_PLAN_BINARIES: break;
    }
}

static bool vector_line(const struct plan_step *s, const struct line *l)
{
    static const enum tachy_binary_kind kinds[] = {
        [TACHY_PLAN_ADD] = TACHY_BINARY_ADD, [TACHY_PLAN_SUB] = TACHY_BINARY_SUB,
        [TACHY_PLAN_MUL] = TACHY_BINARY_MUL, [TACHY_PLAN_DIV] = TACHY_BINARY_DIV,
        [TACHY_PLAN_MIN] = TACHY_BINARY_MIN, [TACHY_PLAN_MAX] = TACHY_BINARY_MAX,
        [TACHY_PLAN_POW] = TACHY_BINARY_POW,
    };
    if (s->spread.how > TACHY_PLAN_POW || s->spread.whole || l->step[0] != 1 || l->step[1] > 1 ||
        l->step[1] < 0 || l->step[2] > 1 || l->step[2] < 0)
        return false;
    struct tachy_binary_row row = {.kind = kinds[s->spread.how], .act = &s->act, .y = l->y, .pixels = 1,
                                   .a = {l->x[0], 0, (int)l->step[1]}, .b = {l->x[1], 0, (int)l->step[2]},
                                   .channels = (int)l->n};
    s->k->binary(&row);
    return true;
}

static void binary_line(const struct plan_step *s, const struct line *l)
{
    if (vector_line(s, l))
        return;
    scalar_line(l, s->spread.how, s->spread.whole);
    for (int64_t i = 0; i < l->n && s->act.kind != TACHY_ACT_NONE; i++)
        s->k->unary(&l->y[i * l->step[0]], &l->y[i * l->step[0]], 1, &s->act);
}

static void select_line(const struct plan_step *s, const struct line *l)
{
    const float *c = l->x[0], *p = l->x[1], *q = l->x[2];
    const ptrdiff_t sy = l->step[0], sc = l->step[1], sp = l->step[2], sq = l->step[3];
    const int64_t n = l->n;
    float *y = l->y;
    (void)s;
    if (sy == 1 && sc == 1 && sp == 1 && sq == 1) {
        for (int64_t i = 0; i < n; i++) {
            const float a = p[i], b = q[i]; // both are read, so that no branch is left
            y[i] = c[i] != 0 ? a : b;
        }
        return;
    }
    for (int64_t i = 0; i < n; i++)
        y[i * sy] = c[i * sc] != 0 ? p[i * sp] : q[i * sq];
}

static void run_lines(const struct plan_step *s, const struct plan_run *r, int row0, int row1,
                      void (*each)(const struct plan_step *, const struct line *))
{
    const struct plan_spread *p = &s->spread;
    int last = p->rank - 1;
    int64_t index[TACHY_MAX_RANK] = {0}, end = last ? row1 : 1;
    struct line l = {plan_at(&s->out, r).data, {plan_at(&s->in, r).data, plan_at(&s->in2, r).data, plan_at(&s->add, r).data},
                     {p->step[0][last], p->step[1][last], p->step[2][last], p->step[3][last]}, p->dim[last]};
    struct line first = l;
    index[0] = last ? row0 : 0;
    while (index[0] < end) {
        ptrdiff_t at[PLAN_SPREAD] = {0};
        for (int d = 0; d < last; d++)
            for (int i = 0; i < PLAN_SPREAD; i++)
                at[i] += index[d] * p->step[i][d];
        l.y = first.y + at[0];
        for (int i = 0; i < 3; i++)
            l.x[i] = first.x[i] ? first.x[i] + at[1 + i] : NULL;
        each(s, &l);
        int d = last - 1;
        for (; d > 0 && ++index[d] == p->dim[d]; d--)
            index[d] = 0;
        index[0] += d <= 0;
    }
}

void plan_run_spread(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    run_lines(s, r, row0, row1, binary_line);
}

void plan_run_select(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    run_lines(s, r, row0, row1, select_line);
}
