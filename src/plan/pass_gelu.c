#include "base/base.h"
#include "plan/pass_parts.h"

#include <math.h>

// Gelu in both forms, and Mish, out of the operators that exporters write. A product is looked at as
// its factors, whatever their order.

enum { FACTORS = 4 };

static bool number(const struct tachy_value *v, float *to)
{
    if (!v->data || v->dtype != TACHY_F32 || tachy_value_elements(v) != 1)
        return false;
    *to = *(const float *)v->data;
    return true;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-4 * fabs(b); }

static const struct tachy_node *plain(const struct tachy_value *v, enum tachy_plan_binary how)
{
    const struct tachy_node *n = v->made_by;
    return n && n->op == TACHY_OP_BINARY && n->attr.binary == how && !n->attr.act.act ? n : NULL;
}

static const struct tachy_value *operand_of(const struct tachy_value *v, enum tachy_plan_act act)
{
    const struct tachy_node *n = v->made_by;
    return n && n->op == TACHY_OP_UNARY && n->attr.act.act == act ? n->in[0] : NULL;
}

struct product {
    double number;
    struct tachy_value *factor[FACTORS];
    int nb;
};

// The factors of `v`; quotients by a number are factors as well. `depth`: products looked through.
static void factors(struct tachy_value *v, int depth, struct product *p)
{
    float k;
    const struct tachy_node *times = depth ? plain(v, TACHY_PLAN_MUL) : NULL;
    const struct tachy_node *over = depth ? plain(v, TACHY_PLAN_DIV) : NULL;
    if (number(v, &k)) {
        p->number *= (double)k;
    } else if (times) {
        factors(times->in[0], depth - 1, p);
        factors(times->in[1], depth - 1, p);
    } else if (over && number(over->in[1], &k)) {
        factors(over->in[0], depth - 1, p);
        p->number /= (double)k;
    } else if (p->nb < FACTORS) {
        p->factor[p->nb++] = v;
    } else {
        p->number = NAN; // more than any pattern has
    }
}

static struct product product_of(struct tachy_value *v, int depth)
{
    struct product p = {1, {NULL}, 0};
    factors(v, depth, &p);
    return p;
}

// v = a + 1: a.
static const struct tachy_value *one_less(const struct tachy_value *v)
{
    float k;
    const struct tachy_node *n = plain(v, TACHY_PLAN_ADD);
    for (int i = 0; n && i < 2; i++)
        if (number(n->in[i], &k) && k == 1)
            return n->in[1 - i];
    return NULL;
}

// v = k x.
static bool is_multiple(struct tachy_value *v, const struct tachy_value *x, double k)
{
    struct product p = product_of(v, 1);
    return p.nb == 1 && p.factor[0] == x && near(p.number, k);
}

// v = k x^3.
static bool is_cube(struct tachy_value *v, const struct tachy_value *x, double k)
{
    float power;
    struct product p = product_of(v, 3);
    const struct tachy_node *pow = p.nb == 1 ? plain(p.factor[0], TACHY_PLAN_POW) : NULL;
    bool cube = pow ? pow->in[0] == x && number(pow->in[1], &power) && power == 3
                    : p.nb == 3 && p.factor[0] == x && p.factor[1] == x && p.factor[2] == x;
    return cube && near(p.number, k);
}

// v = sqrt(2 / pi) (x + 0.044715 x^3).
static bool is_tanh_operand(struct tachy_value *v, const struct tachy_value *x)
{
    struct product p = product_of(v, 1);
    const struct tachy_node *sum = p.nb == 1 && near(p.number, 0.7978845608) ? plain(p.factor[0], TACHY_PLAN_ADD) : NULL;
    for (int i = 0; sum && i < 2; i++)
        if (sum->in[i] == x && is_cube(sum->in[1 - i], x, 0.044715))
            return true;
    return false;
}

// The activation that x times `v` is, with the factor before it; NONE: not a known one.
static enum tachy_plan_act act_of(const struct tachy_value *v, const struct tachy_value *x, double number)
{
    const struct tachy_value *part = one_less(v), *u;
    if (part && near(number, 0.5)) {
        if ((u = operand_of(part, TACHY_PLAN_ERF)) && is_multiple((struct tachy_value *)u, x, 0.7071067812))
            return TACHY_PLAN_GELU;
        if ((u = operand_of(part, TACHY_PLAN_TANH)) && is_tanh_operand((struct tachy_value *)u, x))
            return TACHY_PLAN_GELU_TANH;
    }
    u = operand_of(v, TACHY_PLAN_TANH);
    u = u ? operand_of(u, TACHY_PLAN_SOFTPLUS) : NULL;
    return u == x && u && number == 1 ? TACHY_PLAN_MISH : TACHY_PLAN_NONE;
}

static void become(struct tachy_graph *g, struct tachy_node *n, enum tachy_plan_act act, struct tachy_value *x)
{
    tachy_node_set_inputs(g, n, 1); // fewer cannot fail
    tachy_node_set_input(n, 0, x);
    n->op = TACHY_OP_UNARY;
    n->attr = (struct tachy_plan_attr){.act = {act, 0, 0}};
}

int tachy_plan_gelu(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first; n; n = n->next) {
        if (!plain(n->out, TACHY_PLAN_MUL) && !plain(n->out, TACHY_PLAN_DIV))
            continue;
        struct product p = product_of(n->out, 2);
        for (int i = 0; i < 2 && p.nb == 2; i++) {
            enum tachy_plan_act act = act_of(p.factor[i], p.factor[1 - i], p.number);
            if (act && tachy_value_same_shape(p.factor[1 - i], n->out)) {
                become(g, n, act, p.factor[1 - i]);
                break;
            }
        }
    }
    return tachy_plan_dead(g);
}
