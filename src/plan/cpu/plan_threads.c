#include "base/base.h"
#include "base/clock.h"
#include "plan/cpu/plan_parts.h"

#include <stdatomic.h>
#include <stdlib.h>

// One run: a workspace of the plan's, and all steps in order, on one thread or several: the plan's own, or the caller's
// helpers.

static size_t scratch_floats(const struct tachy_cpu_plan *p)
{
    return TACHY_ALIGN(TACHY_MAX(p->scratch, 16), 16);
}

void plan_workspace_free(struct plan_workspace *w)
{
    if (!w)
        return;
    tachy_team_close(w->team);
    plan_guard_free(w);
    tachy_aligned_free(w->arena);
    tachy_aligned_free(w->scratch);
    free(w);
}

static int alloc_shared(const struct tachy_cpu_plan *p, struct plan_workspace *w)
{
    size_t bases = (size_t)p->nb_bases, threads = (size_t)p->threads;
    w->arena = tachy_aligned_alloc(TACHY_MAX(p->arena, 16) * sizeof(float));
    w->scratch = tachy_aligned_alloc(threads * scratch_floats(p) * sizeof(float));
    if (!w->arena || !w->scratch)
        return TACHY_ERR_NOMEM;
    for (size_t i = 0; i < threads; i++) {
        w->base[i * bases + BASE_ARENA] = w->arena;
        w->base[i * bases + BASE_SCRATCH] = w->scratch + i * scratch_floats(p);
    }
    return TACHY_OK;
}

static struct plan_workspace *workspace_new(const struct tachy_cpu_plan *p)
{
    size_t bases = (size_t)p->nb_bases, threads = (size_t)p->threads;
    struct plan_workspace *w = calloc(1, sizeof(*w) + threads * bases * sizeof(w->base[0]));
    if (!w)
        return NULL;
    w->pieces = p->threads;
    if ((p->guard ? plan_guard_alloc(p, w) : alloc_shared(p, w)) < 0) {
        plan_workspace_free(w);
        return NULL;
    }
    for (size_t i = 0; i < threads; i++)
        w->base[i * bases + BASE_WEIGHTS] = p->weights;
    return w;
}

static void workspace_give(struct tachy_cpu_plan *p, struct plan_workspace *w)
{
    pthread_mutex_lock(&p->lock);
    w->next = p->idle;
    p->idle = w;
    pthread_mutex_unlock(&p->lock);
}

static struct plan_workspace *workspace_take(struct tachy_cpu_plan *p, bool helped)
{
    pthread_mutex_lock(&p->lock);
    struct plan_workspace *w = p->idle;
    if (w)
        p->idle = w->next;
    pthread_mutex_unlock(&p->lock);
    if (!w)
        w = workspace_new(p);
    if (w && !helped && p->threads > 1 && !w->team && !(w->team = tachy_team_open(p->threads))) {
        workspace_give(p, w);
        w = NULL;
    }
    return w;
}

// Handing pieces over costs about a microsecond: a step of some 5 us and less stays whole.
bool plan_worth_splitting(const struct plan_step *s)
{
    enum { MULTIPLIES = 150000, ELEMENTS = 12288 };
    const struct tachy_view *y = &s->out.v;
    int64_t elements = (int64_t)y->n * y->h * y->w * y->c;
    if (s->rows < 2)
        return false;
    if (s->run == plan_run_conv)
        return elements * s->conv.taps >= MULTIPLIES;
    if (s->run == plan_run_joined)
        return elements * (s->conv.taps + s[-1].conv.taps) >= MULTIPLIES;
    if (s->run == plan_run_narrow)
        return elements * s->narrow.s.kh * s->narrow.s.kw * s->narrow.s.cin >= MULTIPLIES;
    if (s->run == plan_run_winograd)
        return true; // only long ones run so
    if (s->run == plan_run_deconv)
        return elements * s->in.v.c >= MULTIPLIES;
    return elements >= ELEMENTS;
}

struct split {
    const struct plan_step *step;
    struct plan_workspace *w;
    size_t bases;
    int pieces;
    atomic_int running, most; // pieces of helpers at the same time: now, and so far
};

static void run_piece(void *user, int place, int piece)
{
    const struct split *t = user;
    struct plan_run run = {t->w->base + (size_t)place * t->bases};
    int64_t rows = t->step->rows;
    int row0 = (int)(rows * piece / t->pieces), row1 = (int)(rows * (piece + 1) / t->pieces);
    if (row1 > row0)
        t->step->run(t->step, &run, row0, row1);
}

static void help(void *user, size_t piece)
{
    struct split *t = user;
    int n = atomic_fetch_add(&t->running, 1) + 1, most = atomic_load(&t->most);
    while (n > most && !atomic_compare_exchange_weak(&t->most, &most, n))
        ;
    run_piece(user, (int)piece, (int)piece);
    atomic_fetch_sub(&t->running, 1);
}

// How many helpers there are, nobody says: the next step has twice as many pieces as ran at the same time in this one. So
// few helpers do not get pieces for many cores, and more are noticed. Helpers that sleep take milliseconds to come. If
// nobody does, steps stay whole, which is up to 6 % faster, except one of 16.
static bool asks_helpers(const struct plan_workspace *w) { return w->unhelped % 8192 < 512; }

static void run_split(const struct tachy_cpu_plan *p, struct plan_workspace *w, const struct plan_step *s,
                      const struct tachy_plan_helpers *helpers)
{
    struct split t = {.step = s, .w = w, .bases = (size_t)p->nb_bases, .pieces = helpers ? w->pieces : p->threads};
    if (!helpers) {
        tachy_team_run(w->team, run_piece, &t);
        return;
    }
    helpers->share(helpers->user, help, &t, (size_t)t.pieces);
    w->pieces = TACHY_CLAMP(2 * t.most, 2, p->threads);
    w->unhelped = t.most > 1 ? 0 : w->unhelped + 1;
}

static void run_step(const struct tachy_cpu_plan *p, struct plan_workspace *w, const struct plan_step *s,
                     const struct tachy_plan_helpers *helpers)
{
    struct plan_run run = {w->base};
    if (p->guard)
        plan_guard_step(p, w, s);
    bool splits = p->threads > 1 && s->split;
    if (splits && (!helpers || asks_helpers(w))) {
        run_split(p, w, s, helpers);
        return;
    }
    w->unhelped += splits;
    s->run(s, &run, 0, s->rows);
}

// Sets the caller's tensors for a run; no step writes an input.
static void set_ends(const struct tachy_cpu_plan *p, struct plan_workspace *w, const float *const in[],
                     float *const out[])
{
    for (int t = 0; t < p->threads; t++) {
        float **base = w->base + (size_t)t * (size_t)p->nb_bases + BASE_INPUTS;
        for (int i = 0; i < p->nb_in; i++)
            base[i] = (float *)in[i];
        for (int i = 0; i < p->nb_out; i++)
            base[p->nb_in + i] = out[i];
    }
}

int tachy_cpu_plan_run(struct tachy_cpu_plan *p, const float *const in[], float *const out[])
{
    return tachy_cpu_plan_run_by(p, in, out, NULL, NULL);
}

int tachy_cpu_plan_run_by(struct tachy_cpu_plan *p, const float *const in[], float *const out[],
                          const struct tachy_plan_helpers *helpers, uint64_t *end)
{
    struct plan_workspace *w = workspace_take(p, helpers);
    if (!w)
        return TACHY_ERR_NOMEM;
    if (p->guard)
        plan_guard_begin(p, w, in);
    else
        set_ends(p, w, in, out);
    for (int i = 0; i < p->nb_steps; i++) {
        run_step(p, w, &p->steps[i], helpers);
        if (end)
            end[i] = tachy_now_ns();
    }
    if (p->guard)
        plan_guard_end(p, w, out);
    workspace_give(p, w);
    return TACHY_OK;
}

void tachy_cpu_plan_step(const struct tachy_cpu_plan *p, int i, struct tachy_plan_step *step)
{
    const struct tachy_view *y = &p->steps[i].out.v;
    struct tachy_layer_cost cost = p->steps[i].run == plan_run_nothing ? (struct tachy_layer_cost){0} : p->labels[i].cost;
    if (p->steps[i].run == plan_run_joined) { // computes the step before it too
        cost.multiply_adds += p->labels[i - 1].cost.multiply_adds;
        cost.bytes += p->labels[i - 1].cost.bytes;
    }
    *step = (struct tachy_plan_step){
        tachy_plan_op_name(p->labels[i].op), p->labels[i].name,
        (size_t)y->n * (size_t)y->h * (size_t)y->w * (size_t)y->c * sizeof(float), cost};
}
