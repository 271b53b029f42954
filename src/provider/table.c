#include "provider/provider.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "plan/cpu/kernels.h"
#include "plan/pass.h"

#include <math.h>

// The function table; see base/ep_table.h. A tachy_ep_plan is a provider_plan with one more owner.

static void info(const struct tachy_ep_plan *plan, struct tachy_ep_plan_info *to)
{
    const struct provider_plan *p = (const struct provider_plan *)plan;
    struct tachy_plan_info i;
    p->plan->backend->info(p->plan, &i);
    *to = (struct tachy_ep_plan_info){p->nb_in, p->nb_out, i.nodes, i.steps, i.weights, i.arena, i.scratch,
                                       i.shared, i.effort, i.choice_seconds, i.run_ms, i.default_run_ms,
                                       p->plan->backend->name, "", i.on_gpu ? i.noise_error : NAN, i.on_gpu ? i.picture_error : NAN};
    if (i.on_gpu)
        p->plan->backend->about(&(struct tachy_plan_params){.gpu = i.gpu, .precision = i.precision}, to->on,
                                sizeof(to->on));
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
    return p->backend->run(p, (const void *const *)in, (void *const *)out, NULL, end);
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

static int queue(struct tachy_ep_plan *plan, const void *const in[], void *const out[], void *stream)
{
    struct tachy_plan *p = ((struct provider_plan *)plan)->plan;
    return p->backend->queue ? p->backend->queue(p, in, out, stream) : TACHY_ERR_UNSUPPORTED;
}

static int time_runs(struct tachy_ep_plan *plan, const void *const in[], int runs, double *ms)
{
    struct tachy_plan *p = ((struct provider_plan *)plan)->plan;
    return p->backend->time ? p->backend->time(p, in, runs, ms) : TACHY_ERR_UNSUPPORTED;
}

static void step(const struct tachy_ep_plan *p, int i, struct tachy_ep_step *to)
{
    struct tachy_plan_step s;
    const struct tachy_plan *of = ((const struct provider_plan *)p)->plan;
    of->backend->step(of, i, &s);
    *to = (struct tachy_ep_step){s.op, s.name, s.bytes, {s.cost.multiply_adds, s.cost.bytes}};
}

static const char *pass(int i)
{
    int n = 0;
    while (tachy_plan_all_passes[n].name)
        n++;
    return i >= 0 && i < n ? tachy_plan_all_passes[i].name : NULL;
}

// The best of short turns: a turn in which something else ran says nothing about the processor.
static double peak(void)
{
    enum { TURNS = 40, ROUNDS = 20000, A_ROUND = 24 };
    const struct tachy_plan_kernels *kernels = tachy_plan_kernels(tachy_cpu_isa());
    double best = 0;
    volatile float sink = 0;
    for (int i = 0; i < TURNS; i++) {
        uint64_t start = tachy_now_ns();
        sink = sink + kernels->peak(ROUNDS);
        double ns = (double)(tachy_now_ns() - start);
        best = TACHY_MAX(best, (double)ROUNDS * A_ROUND * kernels->width / TACHY_MAX(ns, 1) * 1e9);
    }
    return best;
}

// The best of short turns, as above.
static double bandwidth(size_t bytes)
{
    enum { TURNS = 4, TURN_NS = 2500000 };
    const size_t half = TACHY_MAX(bytes / 2, (size_t)4096);
    char *memory = calloc(2, half);
    double best = 0;
    for (int i = 0; memory && i < TURNS; i++) {
        uint64_t start = tachy_now_ns(), ns = 0;
        double moved = 0;
        for (int way = 0; ns < TURN_NS; way = !way, ns = tachy_now_ns() - start) {
            memcpy(memory + (way ? half : 0), memory + (way ? 0 : half), half);
            __asm__ volatile("" : : "r"(memory) : "memory"); // the copy is not left out
            moved += 2 * (double)half;
        }
        best = TACHY_MAX(best, moved / (double)ns * 1e9);
    }
    free(memory);
    return best;
}

static void why(struct tachy_ep_plan *plan, char *text, size_t size)
{
    struct tachy_plan *p = ((struct provider_plan *)plan)->plan;
    *text = '\0';
    if (p->backend->why)
        p->backend->why(p, text, size);
}

TACHY_API extern const struct tachy_ep_table tachy_ep_table;
const struct tachy_ep_table tachy_ep_table = {
    .version = TACHY_EP_TABLE_VERSION,
    .open = provider_context_open,
    .id = provider_context_id,
    .close = provider_context_release,
    .take = provider_take,
    .failed = provider_failed,
    .nodes = provider_nodes_of,
    .node = provider_node,
    .graph = provider_graph,
    .info = info,
    .input = input,
    .output = output,
    .run = run,
    .release = release,
    .about = about,
    .reference = provider_reference,
    .layers = provider_layers,
    .run_timed = run_timed,
    .step = step,
    .pass = pass,
    .peak = peak,
    .bandwidth = bandwidth,
    .queue = queue,
    .time = time_runs,
    .why = why,
};
