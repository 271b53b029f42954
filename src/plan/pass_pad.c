#include "base/base.h"
#include "plan/pass.h"

static bool is_frame_of_zeros(const struct tachy_node *n)
{
    const int64_t *before = n->attr.pad.before, *after = n->attr.pad.after;
    return n->op == TACHY_OP_PAD && n->in[0]->rank == 4 && n->attr.pad.value == 0 && !before[0] &&
           !before[1] && !after[0] && !after[1] && before[2] + after[2] + before[3] + after[3] < 1 << 16;
}

// True if a convolution copies each channel to the one of the same number and adds channels of zeros, which is how
// exporters write added channels.
static bool is_widening(const struct tachy_node *n)
{
    static const struct tachy_plan_attr plain = {.conv = {{1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1, {0, 0}, 0, 0}};
    if (n->op != TACHY_OP_CONV || n->attr.act.act || memcmp(&n->attr.conv, &plain.conv, sizeof(plain.conv)) ||
        !n->in[1]->data)
        return false;
    for (int i = 2; i < n->nb_in; i++)
        if (n->in[i])
            return false;
    const float *w = n->in[1]->data;
    int64_t out = n->in[1]->shape[0], in = n->in[1]->shape[1];
    for (int64_t i = 0; i < out * in; i++)
        if (w[i] != (i / in == i % in ? 1.0f : 0.0f))
            return false;
    return out > in;
}

static void widen(struct tachy_graph *g, struct tachy_node *n)
{
    tachy_node_set_inputs(g, n, 1); // fewer cannot fail
    n->op = TACHY_OP_PAD;
    n->attr = (struct tachy_plan_attr){.pad = {.after = {0, n->out->shape[1] - n->in[0]->shape[1], 0, 0}}};
}

int tachy_plan_pad(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (is_widening(n))
            widen(g, n);
        struct tachy_node *conv = is_frame_of_zeros(n) ? tachy_value_user(n->out) : NULL;
        if (!conv || conv->op != TACHY_OP_CONV || conv->in[0] != n->out)
            continue;
        for (int i = 0; i < 2; i++) {
            conv->attr.conv.pad[i] += (int)n->attr.pad.before[2 + i];
            conv->attr.conv.pad[2 + i] += (int)n->attr.pad.after[2 + i];
        }
        tachy_node_set_input(conv, 0, n->in[0]);
        tachy_graph_remove(g, n);
    }
    return TACHY_OK;
}
