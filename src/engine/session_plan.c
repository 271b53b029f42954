#include "engine/session.h"

#include <stdio.h>
#include <stdlib.h>

// The plan that libtachy_ep.so has made of a session.

// Counts the nodes and puts the first that are left to ONNX Runtime into words.
static void read_nodes(struct tachy_session *s, const struct tachy_ep_context *context)
{
    struct tachy_ep_node n;
    char one[200];
    s->nb_nodes = s->table->nodes(context);
    for (int i = 0; s->table->node(context, i, &n); i++) {
        if (!n.why)
            continue;
        s->nb_left++;
        snprintf(one, sizeof(one), "%.40s%s%.40s (%.100s)", n.op, *n.name ? " " : "", n.name, n.why);
        tachy_session_say_left(s, one);
    }
}

static int index_of(const struct tachy_io *io, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(io[i].name, name))
            return i;
    return -1;
}

// Finds the plan's inputs or outputs among the model's, which get the plan's shapes. False: one is
// not the model's, or of another type than the plan's.
static bool match(const struct tachy_session *s, bool input, int count, struct tachy_io *io, int n, int *map)
{
    for (int i = 0; i < count; i++) {
        struct tachy_ep_tensor t;
        (input ? s->table->input : s->table->output)(s->plan, i, &t);
        int at = i < TACHY_MAX_IO ? index_of(io, n, t.name) : -1;
        if (at < 0 || io[at].spec.dtype != TACHY_F32 || io[at].spec.rank != t.rank)
            return false;
        map[i] = at;
        memcpy(io[at].spec.shape, t.shape, sizeof(int64_t) * (size_t)t.rank);
    }
    return true;
}

int tachy_session_show_plan(struct tachy_session *s, const struct tachy_ep_table *table,
                            struct tachy_ep_context *context, const struct tachy_session_look *l, int err)
{
    struct tachy_ep_plan *plan = table->take(context);
    if (err == TACHY_OK)
        err = l->see(l, s, table, context, plan);
    table->release(plan);
    return err;
}

void tachy_session_take_plan(struct tachy_session *s, const struct tachy_ep_table *table,
                             struct tachy_ep_context *context, int err)
{
    struct tachy_ep_plan_info info = {0};
    s->table = table;
    s->plan = table->take(context);
    read_nodes(s, context);
    if (!s->plan)
        return;
    table->info(s->plan, &info);
    s->nb_plan_in = info.nb_in;
    s->nb_plan_out = info.nb_out;
    // An output that the plan does not write (a constant, an input handed through) is the session's.
    if (err == TACHY_OK && info.nb_out == s->n_out && match(s, true, info.nb_in, s->in, s->n_in, s->plan_in) &&
        match(s, false, info.nb_out, s->out, s->n_out, s->plan_out))
        return;
    table->release(s->plan);
    s->plan = NULL;
}
