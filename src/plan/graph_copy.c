#include "plan/graph.h"

#include "base/base.h"

static int copy_value(struct tachy_graph *to, const struct tachy_value *v, bool constants)
{
    struct tachy_value *c = tachy_graph_value(to, v->name, v->dtype, v->rank, v->shape);
    if (!c)
        return TACHY_ERR_NOMEM;
    c->nhwc = v->nhwc;
    c->most = v->most;
    c->data = v->data;
    c->quantised = constants ? NULL : v->quantised; // whose numbers are not copied
    if (!v->data || !constants)
        return TACHY_OK;
    size_t size = (size_t)TACHY_MAX(tachy_value_elements(v), 0) * tachy_dtype_size(v->dtype);
    void *data = tachy_graph_alloc(to, size);
    c->data = data;
    if (data && size)
        memcpy(data, v->data, size);
    return data ? TACHY_OK : TACHY_ERR_NOMEM;
}

static int copy_node(struct tachy_graph *to, const struct tachy_node *n)
{
    struct tachy_value **in = tachy_graph_alloc(to, sizeof(*in) * (size_t)n->nb_in);
    for (int i = 0; in && i < n->nb_in; i++)
        in[i] = n->in[i] ? to->values[n->in[i]->id] : NULL;
    return in && tachy_graph_node(to, NULL, n->op, n->name, &n->attr, in, n->nb_in, to->values[n->out->id])
               ? TACHY_OK
               : TACHY_ERR_NOMEM;
}

int tachy_graph_copy(struct tachy_graph **out, const struct tachy_graph *g, bool constants)
{
    int err = tachy_graph_open(out, g->log);
    struct tachy_graph *to = *out;
    for (int i = 0; i < g->nb_values && err == TACHY_OK; i++)
        err = copy_value(to, g->values[i], constants);
    for (const struct tachy_node *n = g->first; n && err == TACHY_OK; n = n->next)
        err = copy_node(to, n);
    for (int i = 0; i < g->nb_in && err == TACHY_OK; i++)
        err = tachy_graph_add_input(to, to->values[g->in[i]->id]);
    for (int i = 0; i < g->nb_out && err == TACHY_OK; i++)
        err = tachy_graph_add_output(to, to->values[g->out[i]->id]);
    if (err < 0)
        tachy_graph_close(out);
    return err;
}
