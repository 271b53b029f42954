#include "base/base.h"
#include "plan/pass_parts.h"

#include <math.h>

static bool number(const struct tachy_value *v, float *to)
{
    if (!v || !v->data || v->dtype != TACHY_F32 || tachy_value_elements(v) != 1)
        return false;
    *to = *(const float *)v->data;
    return !isnan(*to); // which is no limit and no factor: what is computed with it is NaN
}

static bool near(float a, float b) { return fabsf(a - b) <= 1e-6f * fabsf(b); }

// n is `x how number`: the operand x. Sums and products in either order.
static struct tachy_value *with_number(const struct tachy_node *n, enum tachy_plan_binary how, float *k)
{
    if (!n || n->op != TACHY_OP_BINARY || n->attr.binary != how || n->attr.act.act)
        return NULL;
    if (number(n->in[1], k))
        return n->in[0];
    bool turns = how != TACHY_PLAN_SUB && how != TACHY_PLAN_DIV && how != TACHY_PLAN_POW;
    return turns && number(n->in[0], k) ? n->in[1] : NULL;
}

static bool is_unary(const struct tachy_node *n, enum tachy_plan_act act)
{
    return n && n->op == TACHY_OP_UNARY && n->attr.act.act == act;
}

static void become(struct tachy_graph *g, struct tachy_node *n, enum tachy_plan_act act, float a, float b,
                   struct tachy_value *x)
{
    tachy_node_set_inputs(g, n, 1); // fewer cannot fail
    tachy_node_set_input(n, 0, x);
    n->op = TACHY_OP_UNARY;
    n->attr = (struct tachy_plan_attr){.act = {act, a, b}};
}

// Min and Max with a number, and clips of clips.
static void clips(struct tachy_graph *g, struct tachy_node *n)
{
    float k;
    struct tachy_value *x = with_number(n, TACHY_PLAN_MIN, &k);
    if (x && tachy_value_same_shape(x, n->out)) {
        become(g, n, TACHY_PLAN_CLIP, -INFINITY, k, x);
    } else if ((x = with_number(n, TACHY_PLAN_MAX, &k)) && tachy_value_same_shape(x, n->out)) {
        become(g, n, TACHY_PLAN_CLIP, k, INFINITY, x);
    }
    const struct tachy_node *first = is_unary(n, TACHY_PLAN_CLIP) ? n->in[0]->made_by : NULL;
    struct tachy_plan_act_of *a = &n->attr.act;
    bool relu = is_unary(first, TACHY_PLAN_RELU);
    if (relu || is_unary(first, TACHY_PLAN_CLIP)) {
        float lo = relu ? 0 : first->attr.act.a, hi = relu ? INFINITY : first->attr.act.b;
        if (lo > hi || lo > a->b || hi < a->a) // only one of them matters
            return;
        a->a = TACHY_MAX(a->a, lo);
        a->b = TACHY_MIN(a->b, hi);
        tachy_node_set_input(n, 0, first->in[0]);
    }
    if (is_unary(n, TACHY_PLAN_CLIP) && a->a == 0 && isinf(a->b) && a->b > 0)
        *a = (struct tachy_plan_act_of){TACHY_PLAN_RELU, 0, 0};
}

// v is clip(x + 3, 0, 6): x.
static struct tachy_value *clipped(const struct tachy_value *v)
{
    float k;
    const struct tachy_node *n = v->made_by;
    if (!is_unary(n, TACHY_PLAN_CLIP) || n->attr.act.a != 0 || n->attr.act.b != 6)
        return NULL;
    struct tachy_value *x = with_number(n->in[0]->made_by, TACHY_PLAN_ADD, &k);
    return x && k == 3 && tachy_value_same_shape(x, v) ? x : NULL;
}

// n is `v / 6`: v.
static struct tachy_value *sixth(const struct tachy_node *n)
{
    float k;
    struct tachy_value *v = with_number(n, TACHY_PLAN_MUL, &k);
    if (v && near(k, 1.0f / 6))
        return v;
    v = with_number(n, TACHY_PLAN_DIV, &k);
    return v && k == 6 ? v : NULL;
}

static bool is_product(const struct tachy_node *n)
{
    return n && n->op == TACHY_OP_BINARY && n->attr.binary == TACHY_PLAN_MUL && !n->attr.act.act;
}

static void hard_sigmoid(struct tachy_graph *g, struct tachy_node *n)
{
    struct tachy_value *v = sixth(n), *x = v ? clipped(v) : NULL;
    if (x && tachy_value_same_shape(x, n->out)) {
        become(g, n, TACHY_PLAN_HSIGMOID, 1.0f / 6, 0.5f, x);
        return;
    }
    const struct tachy_node *p = v ? v->made_by : NULL; // (x clip(x + 3)) / 6
    for (int i = 0; i < 2 && is_product(p); i++)
        if (clipped(p->in[i]) == p->in[1 - i] && tachy_value_same_shape(p->in[1 - i], n->out)) {
            become(g, n, TACHY_PLAN_HSWISH, 0, 0, p->in[1 - i]);
            return;
        }
}

// x f(x); also (x / 6) clip(x + 3).
static void swish(struct tachy_graph *g, struct tachy_node *n)
{
    for (int i = 0; i < 2 && is_product(n); i++) {
        struct tachy_value *x = n->in[1 - i], *part = x->made_by ? sixth(x->made_by) : NULL;
        const struct tachy_node *f = n->in[i]->made_by;
        if (part && clipped(n->in[i]) == part && tachy_value_same_shape(part, n->out)) {
            become(g, n, TACHY_PLAN_HSWISH, 0, 0, part);
        } else if (is_unary(f, TACHY_PLAN_SIGMOID) && f->in[0] == x) {
            become(g, n, TACHY_PLAN_SWISH, 0, 0, x);
        } else if (is_unary(f, TACHY_PLAN_HSIGMOID) && f->in[0] == x && near(f->attr.act.a, 1.0f / 6) &&
                   f->attr.act.b == 0.5f) {
            become(g, n, TACHY_PLAN_HSWISH, 0, 0, x);
        }
    }
}

int tachy_plan_activations(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first; n; n = n->next) {
        clips(g, n);
        hard_sigmoid(g, n);
        swish(g, n);
    }
    return tachy_plan_dead(g);
}
