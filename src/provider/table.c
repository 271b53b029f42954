#include "base/ep_table.h"
#include "provider/provider.h"

#include <string.h>

// The function table; see base/ep_table.h. A tachy_ep_plan is a provider_plan with one more owner.

static _Thread_local bool wanted;
static _Thread_local struct provider_plan *kept;

void provider_keep(struct provider_plan *p)
{
    if (!wanted)
        return;
    provider_plan_close(&kept);
    kept = p ? provider_plan_ref(p) : NULL;
}

static void want(void)
{
    wanted = true;
    provider_plan_close(&kept);
}

static struct tachy_ep_plan *take(void)
{
    struct provider_plan *p = kept;
    kept = NULL;
    wanted = false;
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

TACHY_API extern const struct tachy_ep_table tachy_ep_table;
const struct tachy_ep_table tachy_ep_table = {
    TACHY_EP_TABLE_VERSION, want, take, info, input, output, run, release,
};
