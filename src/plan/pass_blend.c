#include "plan/pass_parts.h"

// A gated unit's new state (1 - z) h + z c, as exporters write it: h + z (c - h) is one chain of functions of single numbers.

struct blend {
    struct tachy_value *h, *c, *z;
};

static bool is_binary(const struct tachy_node *n, enum tachy_plan_binary of)
{
    return n && n->op == TACHY_OP_BINARY && n->attr.binary == of && !n->attr.act.act && n->out->dtype == TACHY_F32;
}

static bool is_one(const struct tachy_value *v)
{
    bool one = v->data && v->dtype == TACHY_F32;
    for (int64_t i = 0; one && i < tachy_value_elements(v); i++)
        one = ((const float *)v->data)[i] == 1;
    return one;
}

// The product of `rest` = 1 - z and h, and that of z and c.
static bool find_in(const struct tachy_node *rest, struct tachy_value *h, const struct tachy_node *product, struct blend *b)
{
    if (!is_binary(rest, TACHY_PLAN_SUB) || !is_one(rest->in[0]) || !tachy_value_same_shape(rest->out, rest->in[1]))
        return false;
    for (int i = 0; i < 2; i++)
        if (product->in[i] == rest->in[1]) {
            *b = (struct blend){h, product->in[1 - i], rest->in[1]};
            return tachy_value_same_shape(b->h, b->z) && tachy_value_same_shape(b->c, b->z);
        }
    return false;
}

static bool find(const struct tachy_node *n, struct blend *b)
{
    if (n->op != TACHY_OP_BINARY || n->attr.binary != TACHY_PLAN_ADD || n->out->dtype != TACHY_F32)
        return false;
    for (int i = 0; i < 2; i++) {
        const struct tachy_node *kept = pass_maker(n->in[i], n), *taken = pass_maker(n->in[1 - i], n);
        if (!is_binary(kept, TACHY_PLAN_MUL) || !is_binary(taken, TACHY_PLAN_MUL))
            return false;
        for (int k = 0; k < 2; k++)
            if (find_in(pass_maker(kept->in[k], kept), kept->in[1 - k], taken, b))
                return true;
    }
    return false;
}

static bool blends(const struct tachy_node *n)
{
    struct blend b = {0};
    return find(n, &b);
}

static int rewrite(struct tachy_graph *g, struct tachy_node *n)
{
    struct blend b = {0};
    find(n, &b);
    const struct tachy_plan_attr minus = {.binary = TACHY_PLAN_SUB}, times = {.binary = TACHY_PLAN_MUL};
    struct tachy_value *v = pass_put(g, n, TACHY_OP_BINARY, &minus, (struct tachy_value *[]){b.c, b.h}, 2, b.z->rank, b.z->shape);
    v = pass_put(g, n, TACHY_OP_BINARY, &times, (struct tachy_value *[]){v, b.z}, 2, b.z->rank, b.z->shape);
    if (!v)
        return TACHY_ERR_NOMEM;
    tachy_node_set_input(n, 0, v);
    tachy_node_set_input(n, 1, b.h);
    return TACHY_OK;
}

int tachy_plan_blend(struct tachy_graph *g)
{
    int err = pass_each(g, blends, rewrite);
    return err < 0 ? err : tachy_plan_dead(g);
}
