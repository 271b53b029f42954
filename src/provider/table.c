#include "base/ep_table.h"

#include "plan/cpu/accuracy.h"
#include "plan/f64.h"
#include "provider/provider.h"

#include <string.h>

// The function table; see base/ep_table.h. A tachy_ep_plan is a provider_plan with one more owner.

static _Thread_local bool wanted, wanted_reference;
static _Thread_local struct provider_plan *kept;

void provider_keep(struct provider_plan *p)
{
    if (!wanted)
        return;
    provider_plan_close(&kept);
    kept = p ? provider_plan_ref(p) : NULL;
}

bool provider_keeps_reference(void) { return wanted_reference; }

static void want(void)
{
    wanted = true;
    wanted_reference = false;
    provider_plan_close(&kept);
}

static void want_reference(void)
{
    want();
    wanted_reference = true;
}

static struct tachy_ep_plan *take(void)
{
    struct provider_plan *p = kept;
    kept = NULL;
    wanted = wanted_reference = false;
    return (struct tachy_ep_plan *)p;
}

static void info(const struct tachy_ep_plan *plan, struct tachy_ep_plan_info *to)
{
    const struct provider_plan *p = (const struct provider_plan *)plan;
    struct tachy_cpu_plan_info i;
    tachy_cpu_plan_info(p->plan, &i);
    *to = (struct tachy_ep_plan_info){p->nb_in, p->nb_out, i.nodes, i.steps, i.weights, i.arena, i.scratch};
}

static void tensor(const struct provider_tensor *t, struct tachy_ep_tensor *to)
{
    to->rank = t->rank;
    memcpy(to->shape, t->shape, sizeof(to->shape));
}

static void input(const struct tachy_ep_plan *p, int i, struct tachy_ep_tensor *t)
{
    tensor(&((const struct provider_plan *)p)->in[i], t);
}

static void output(const struct tachy_ep_plan *p, int i, struct tachy_ep_tensor *t)
{
    tensor(&((const struct provider_plan *)p)->out[i], t);
}

static int run(struct tachy_ep_plan *p, const float *const in[], float *const out[])
{
    return tachy_cpu_plan_run(((struct provider_plan *)p)->plan, in, out);
}

static void release(struct tachy_ep_plan *plan)
{
    struct provider_plan *p = (struct provider_plan *)plan;
    provider_plan_close(&p);
}

static int reference(const struct tachy_ep_plan *plan, const void *const in[], double *const out[])
{
    const struct tachy_graph *g = ((const struct provider_plan *)plan)->reference;
    struct tachy_f64 *f = NULL;
    int err = g ? tachy_f64_open(&f, g, in) : TACHY_ERR_INVAL;
    for (int i = 0; err == TACHY_OK && i < g->nb_out; i++)
        memcpy(out[i], tachy_f64_value(f, g->out[i]),
               sizeof(double) * (size_t)tachy_value_elements(g->out[i]));
    if (f)
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

static int layers(const struct tachy_ep_plan *plan, const void *const in[],
                  void (*each)(void *user, const struct tachy_ep_layer *layer), void *user)
{
    const struct tachy_graph *g = ((const struct provider_plan *)plan)->reference;
    return g ? tachy_cpu_layer_errors(g, in, layer, &(struct layer_user){each, user}) : TACHY_ERR_INVAL;
}

TACHY_API extern const struct tachy_ep_table tachy_ep_table;
const struct tachy_ep_table tachy_ep_table = {
    TACHY_EP_TABLE_VERSION, want, take, info, input, output, run, release,
    want_reference, reference, layers,
};
