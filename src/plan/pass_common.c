#include "base/base.h"
#include "base/index.h"
#include "base/mix.h"
#include "plan/pass_parts.h"

static bool is_same(const void *graph, const void *node, int id)
{
    const struct tachy_node *a = ((const struct tachy_graph *)graph)->values[id]->made_by, *b = node;
    return a->op == b->op && a->nb_in == b->nb_in && a->out->dtype == b->out->dtype &&
           a->out->rank == b->out->rank && a->out->nhwc == b->out->nhwc &&
           !memcmp(a->out->shape, b->out->shape, sizeof(a->out->shape)) &&
           !memcmp(a->in, b->in, sizeof(struct tachy_value *) * (size_t)a->nb_in) &&
           !memcmp(&a->attr, &b->attr, sizeof(a->attr));
}

static uint64_t hash_of(const struct tachy_node *n)
{
    uint64_t h = tachy_mix((uint64_t)n->op, n->out->shape, sizeof(n->out->shape));
    h = tachy_mix(h, n->in, sizeof(struct tachy_value *) * (size_t)n->nb_in);
    return tachy_mix(h, &n->attr, sizeof(n->attr));
}

int tachy_plan_common(struct tachy_graph *g)
{
    struct tachy_index first = {0}; // ids of what the first node of its kind makes
    int err = TACHY_OK;
    for (struct tachy_node *n = g->first, *next; n && err == TACHY_OK; n = next) {
        next = n->next;
        uint64_t hash = hash_of(n);
        int same = tachy_index_find(&first, hash, is_same, g, n);
        if (same < 0) {
            err = tachy_index_add(&first, hash, n->out->id);
        } else if (!pass_is_output(g, n->out)) { // two outputs of the graph are two tensors
            tachy_graph_replace(g, n->out, g->values[same]);
            tachy_graph_remove(g, n);
        }
    }
    tachy_index_free(&first);
    return err;
}
