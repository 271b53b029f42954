#include "provider/provider.h"

#include "base/base.h"
#include "base/cpu.h"

#include <stdlib.h>

// The function table; see base/ep_table.h. A tachy_ep_plan is a provider_plan with one more owner.

static _Thread_local bool wanted, wanted_reference, wanted_whole;
static _Thread_local struct provider_plan *kept;
static _Thread_local struct tachy_ep_node *recorded;
static _Thread_local int nb_recorded;

bool provider_wanted(void) { return wanted; }

static void drop_nodes(struct tachy_ep_node *nodes, int nb)
{
    for (int i = 0; i < nb; i++) {
        tachy_free((void *)(uintptr_t)nodes[i].op);
        tachy_free((void *)(uintptr_t)nodes[i].name);
    }
    free(nodes);
}

void provider_record(struct tachy_ep_node *nodes, int nb)
{
    drop_nodes(recorded, nb_recorded);
    recorded = nodes;
    nb_recorded = nodes ? nb : 0;
}

void provider_keep(struct provider_plan *p)
{
    if (!wanted)
        return;
    provider_plan_close(&kept);
    kept = p && !p->whole_numbers ? provider_plan_ref(p) : NULL;
}

bool provider_keeps_reference(void) { return wanted_reference; }
bool provider_whole_only(void) { return wanted_whole; }

static void want(void)
{
    wanted = true;
    wanted_reference = wanted_whole = false;
    provider_plan_close(&kept);
    provider_record(NULL, 0);
    provider_want_graphs(false, NULL);
}

static void want_reference(void)
{
    want();
    wanted_reference = true;
}

static void want_graphs(const char *after)
{
    want();
    provider_want_graphs(true, after);
}

static void want_whole(void)
{
    want();
    wanted_whole = true;
}

static struct tachy_ep_plan *take(void)
{
    struct provider_plan *p = kept;
    kept = NULL;
    wanted = wanted_reference = wanted_whole = false;
    provider_end_graphs();
    return (struct tachy_ep_plan *)p;
}

static void info(const struct tachy_ep_plan *plan, struct tachy_ep_plan_info *to)
{
    const struct provider_plan *p = (const struct provider_plan *)plan;
    struct tachy_plan_info i;
    p->plan->backend->info(p->plan, &i);
    *to = (struct tachy_ep_plan_info){p->nb_in, p->nb_out, i.nodes, i.steps, i.weights, i.arena, i.scratch,
                                       i.shared, i.effort, i.choice_seconds, i.run_ms, i.default_run_ms,
                                       p->plan->backend->name};
}

static void tensor(const struct provider_tensor *t, struct tachy_ep_tensor *to)
{
    to->name = t->name;
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

static int run_timed(struct tachy_ep_plan *plan, const float *const in[], float *const out[], uint64_t *end)
{
    struct tachy_plan *p = ((struct provider_plan *)plan)->plan;
    return p->backend->run(p, (const void *const *)in, (void *const *)out, end);
}

static int run(struct tachy_ep_plan *p, const float *const in[], float *const out[])
{
    return run_timed(p, in, out, NULL);
}

static void release(struct tachy_ep_plan *plan)
{
    struct provider_plan *p = (struct provider_plan *)plan;
    provider_plan_close(&p);
}

// "0.1.0" and a space before the kernels' set: what bits may depend on.
static const char *about(void)
{
    static const char *const texts[] = {
        [TACHY_ISA_C] = TACHY_VERSION " c",
        [TACHY_ISA_AVX2] = TACHY_VERSION " avx2",
        [TACHY_ISA_AVX512] = TACHY_VERSION " avx512",
        [TACHY_ISA_NEON] = TACHY_VERSION " neon",
    };
    return texts[tachy_cpu_isa()];
}

static int nodes(void) { return nb_recorded; }

static bool node(int i, struct tachy_ep_node *n)
{
    if (i < 0 || i >= nb_recorded)
        return false;
    *n = recorded[i];
    return true;
}

static int queue(struct tachy_ep_plan *plan, const void *const in[], void *const out[], void *stream)
{
    struct tachy_plan *p = ((struct provider_plan *)plan)->plan;
    return p->backend->queue ? p->backend->queue(p, in, out, stream) : TACHY_ERR_UNSUPPORTED;
}

static void step(const struct tachy_ep_plan *p, int i, struct tachy_ep_step *to)
{
    struct tachy_plan_step s;
    const struct tachy_plan *of = ((const struct provider_plan *)p)->plan;
    of->backend->step(of, i, &s);
    *to = (struct tachy_ep_step){s.op, s.name, s.bytes};
}

TACHY_API extern const struct tachy_ep_table tachy_ep_table;
const struct tachy_ep_table tachy_ep_table = {
    TACHY_EP_TABLE_VERSION, want, take, info, input, output, run, release, about, nodes, node,
    want_reference, provider_reference, provider_layers, run_timed, step, want_whole,
    want_graphs, provider_graph, provider_pass, provider_peak, queue,
};
