#include "base/base.h"
#include "plan/cpu/accuracy.h"
#include "plan/f64.h"
#include "provider/provider.h"

// The function table's view in double precision; see base/ep_table.h.

int provider_reference(const struct tachy_ep_plan *plan, const void *const in[], double *const out[])
{
    const struct tachy_graph *g = ((const struct provider_plan *)plan)->reference;
    struct tachy_f64 *f = NULL;
    int err = g ? tachy_f64_open(&f, g, in, false) : TACHY_ERR_INVAL;
    for (int i = 0; err == TACHY_OK && i < g->nb_out; i++)
        memcpy(out[i], tachy_f64_value(f, g->out[i]),
               sizeof(double) * (size_t)tachy_value_elements(g->out[i]));
    tachy_f64_close(&f);
    return err;
}

struct layer_user {
    void (*each)(void *user, const struct tachy_ep_layer *layer);
    void *user;
};

static void layer(void *user, const struct tachy_layer_error *e)
{
    const struct layer_user *u = user;
    u->each(u->user, &(struct tachy_ep_layer){e->op, e->name, e->elements, e->error});
}

int provider_layers(const struct tachy_ep_plan *plan, const void *const in[],
                    void (*each)(void *user, const struct tachy_ep_layer *layer), void *user)
{
    const struct tachy_graph *g = ((const struct provider_plan *)plan)->reference;
    return g ? tachy_cpu_layer_errors(g, in, layer, &(struct layer_user){each, user}) : TACHY_ERR_INVAL;
}
