#pragma once
#include "plan/pass.h"

#include <string.h>

// Questions that several passes ask.

static inline struct tachy_value *pass_input(const struct tachy_node *n, int i)
{
    return i < n->nb_in ? n->in[i] : NULL;
}

static inline bool pass_is_output(const struct tachy_graph *g, const struct tachy_value *v)
{
    for (int i = 0; i < g->nb_out; i++)
        if (g->out[i] == v)
            return true;
    return false;
}

// The end of a rewrite: `to`, another node's value, takes the place and the name of what `n` made, and `n` goes.
static inline void pass_rewritten(struct tachy_graph *g, struct tachy_node *n, struct tachy_value *to)
{
    to->name = to->name ? to->name : n->out->name;
    tachy_graph_replace(g, n->out, to);
    tachy_graph_remove(g, n);
}

// Rewrites each node that fits, until one fails; nodes that rewrite() inserts before its own are not visited.
static inline int pass_each(struct tachy_graph *g, bool (*fits)(const struct tachy_node *n),
                            int (*rewrite)(struct tachy_graph *g, struct tachy_node *n))
{
    int err = TACHY_OK;
    for (struct tachy_node *n = g->first, *next; n && err == TACHY_OK; n = next) {
        next = n->next;
        if (fits(n))
            err = rewrite(g, n);
    }
    return err;
}

// Inserts a node before `before` and returns its value. NULL: no memory, or an operand is NULL.
static inline struct tachy_value *pass_put(struct tachy_graph *g, struct tachy_node *before, enum tachy_plan_op op,
                                           const struct tachy_plan_attr *a, struct tachy_value *const in[], int nb_in, int rank,
                                           const int64_t *shape)
{
    for (int i = 0; i < nb_in; i++)
        if (!in[i])
            return NULL;
    struct tachy_value *y = tachy_graph_value(g, NULL, TACHY_F32, rank, shape);
    return y && tachy_graph_node(g, before, op, before->name, a, in, nb_in, y) ? y : NULL;
}

// The node that makes `v`, if only `n` uses it.
static inline struct tachy_node *pass_maker(const struct tachy_value *v, const struct tachy_node *n)
{
    return v && v->made_by && tachy_value_user(v) == n ? v->made_by : NULL;
}

// True if Slice `n` takes adjacent elements of `axis` and all of the other axes.
static inline bool pass_cuts(const struct tachy_node *n, int axis)
{
    bool cuts = n && n->op == TACHY_OP_SLICE;
    for (int d = 0; cuts && d < n->out->rank; d++)
        cuts = n->attr.slice.step[d] == 1 && (d == axis || (!n->attr.slice.start[d] && n->out->shape[d] == n->in[0]->shape[d]));
    return cuts;
}

// True for a mean over the pixels of a picture.
static inline bool pass_is_mean(const struct tachy_node *n)
{
    const bool *axis = n->attr.reduce.axis;
    return n->op == TACHY_OP_REDUCE && n->attr.reduce.how == TACHY_PLAN_MEAN && n->in[0]->rank == 4 &&
           n->out->rank == 4 && !axis[0] && !axis[1] && axis[2] && axis[3];
}

// A depthwise convolution of one tap: x times one number a channel, perhaps plus another.
static inline bool pass_is_tap(const struct tachy_node *n)
{
    if (n->op != TACHY_OP_CONV || n->attr.conv.groups != n->out->shape[1] || n->attr.act.act || !n->in[1]->data ||
        tachy_value_elements(n->in[1]) != n->out->shape[1] ||
        !tachy_value_same_shape(n->in[0], n->out))
        return false;
    for (int i = 2; i < n->nb_in; i++)
        if (n->in[i] && (i > 2 || !n->in[i]->data))
            return false;
    return true;
}

// The value of a constant for channel `c` of the pictures `like`, if it has one number, or one per channel.
static inline bool pass_of_channel(const struct tachy_value *v, const struct tachy_value *like, int64_t c,
                                   float *to)
{
    if (!v->data || v->dtype != TACHY_F32)
        return false;
    int64_t n = tachy_value_elements(v);
    bool channels = v->rank >= 3 && v->rank <= 4 && n == like->shape[1] && v->shape[v->rank - 3] == n;
    if (n != 1 && !channels)
        return false;
    *to = ((const float *)v->data)[n == 1 ? 0 : c];
    return true;
}
