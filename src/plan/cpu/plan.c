#include "plan/cpu/plan_parts.h"

#include "base/base.h"

#include <stdlib.h>

struct plan_step *plan_step(struct plan_build *b)
{
    struct tachy_cpu_plan *p = b->plan;
    if (p->nb_steps == p->max_steps) {
        int max = TACHY_MAX(64, 2 * p->max_steps);
        struct plan_step *s = realloc(p->steps, sizeof(*s) * (size_t)max);
        if (!s)
            return NULL;
        p->steps = s;
        p->max_steps = max;
    }
    struct plan_step *s = &p->steps[p->nb_steps++];
    *s = (struct plan_step){.k = b->k, .rows = 1, .weights = -1, .slope = -1};
    s->in.base = s->in2.base = s->out.base = s->add.base = s->scale.base = s->sums.base = NO_BASE;
    return s;
}

ptrdiff_t plan_weights(struct tachy_cpu_plan *p, size_t floats)
{
    size_t size = TACHY_ALIGN(floats, 16), at = p->nb_weights;
    if (size > p->max_weights - at) {
        size_t max = TACHY_ALIGN((at + size) * 3 / 2, 16);
        float *w = tachy_aligned_alloc(max * sizeof(float));
        if (!w)
            return TACHY_ERR_NOMEM;
        if (at)
            memcpy(w, p->weights, at * sizeof(float));
        tachy_aligned_free(p->weights);
        p->weights = w;
        p->max_weights = max;
    }
    if (size)
        memset(p->weights + at, 0, size * sizeof(float));
    p->nb_weights = at + size;
    return (ptrdiff_t)at;
}

void plan_needs_scratch(struct tachy_cpu_plan *p, struct plan_step *s, size_t bytes)
{
    s->scratch = TACHY_MAX(s->scratch, (bytes + sizeof(float) - 1) / sizeof(float));
    p->scratch = TACHY_MAX(p->scratch, s->scratch);
}

// Labels the steps that have none yet as the node's. `cost`: the node's; NULL: none.
static int add_labels(struct tachy_cpu_plan *p, enum tachy_plan_op op, const char *name, const struct tachy_layer_cost *cost)
{
    if (p->nb_steps > p->max_labels) {
        struct plan_label *more = realloc(p->labels, sizeof(*more) * (size_t)p->max_steps);
        if (!more)
            return TACHY_ERR_NOMEM;
        p->labels = more;
        p->max_labels = p->max_steps;
    }
    struct plan_label *l = p->labels;
    while (p->nb_labels < p->nb_steps) {
        l[p->nb_labels] = (struct plan_label){.op = op, .name = tachy_asprintf("%s", name ? name : "")};
        if (!l[p->nb_labels++].name)
            return TACHY_ERR_NOMEM;
        if (cost && p->nb_labels == p->nb_steps)
            l[p->nb_labels - 1].cost = *cost;
    }
    return TACHY_OK;
}

static int add_steps(struct plan_build *b)
{
    const struct tachy_graph *g = b->g;
    int err = TACHY_OK;
    for (int i = 0; i < g->nb_in && err == TACHY_OK; i++)
        if (g->in[i]->dtype != TACHY_F32)
            err = plan_convert_input(b, g->in[i], i);
    for (const struct tachy_node *n = g->first; n && err == TACHY_OK; n = n->next) {
        const char *why = plan_refuses_form(n);
        b->plan->nodes++;
        if (why)
            return tachy_fail(g->log, TACHY_ERR_UNSUPPORTED, "plan: %s %s is not built: %s",
                              tachy_plan_op_name(n->op), n->name ? n->name : "", why);
        err = plan_steps_of(b, n);
        const struct tachy_layer_cost cost = tachy_node_cost(n);
        if (err == TACHY_OK)
            err = add_labels(b->plan, n->op, n->name, &cost);
    }
    for (int i = 0; i < g->nb_out && err == TACHY_OK; i++)
        if (g->out[i]->dtype != TACHY_F32)
            err = plan_convert_output(b, g->out[i], i);
        else if (b->places.ref[g->out[i]->id].base != BASE_INPUTS + g->nb_in + i)
            err = plan_copy_output(b, g->out[i], i);
    return err == TACHY_OK ? add_labels(b->plan, TACHY_OP_TRANSPOSE, "output", NULL) : err;
}

int plan_later(struct plan_build *b, const struct plan_step *s, const struct tachy_conv_weights *w)
{
    struct plan_kernel *k = realloc(b->kernels, sizeof(*k) * (size_t)(b->nb_kernels + 1));
    if (!k)
        return TACHY_ERR_NOMEM;
    b->kernels = k;
    k[b->nb_kernels++] = (struct plan_kernel){(int)(s - b->plan->steps), *w};
    return TACHY_OK;
}

int plan_keep(struct tachy_cpu_plan *p, struct plan_packed *k)
{
    for (int i = 0; i < p->nb_packed; i++)
        if (p->packed[i] == k) {
            plan_packed_unref(&k); // once is enough
            return TACHY_OK;
        }
    struct plan_packed **list = realloc(p->packed, sizeof(*list) * (size_t)(p->nb_packed + 1));
    if (!list) {
        plan_packed_unref(&k);
        return TACHY_ERR_NOMEM;
    }
    p->packed = list;
    list[p->nb_packed++] = k;
    return TACHY_OK;
}

int tachy_cpu_plan_open(struct tachy_cpu_plan **out, const struct tachy_graph *g,
                        const struct tachy_plan_params *params)
{
    struct tachy_cpu_plan *p = calloc(1, sizeof(*p));
    *out = NULL;
    if (!p)
        return TACHY_ERR_NOMEM;
    p->base.backend = &tachy_plan_cpu;
    pthread_mutex_init(&p->lock, NULL);
    p->nb_in = g->nb_in;
    p->nb_out = g->nb_out;
    p->threads = params && params->threads > 1 ? params->threads : 1;
    struct plan_build b = {.plan = p, .g = g, .k = tachy_plan_kernels(tachy_cpu_isa()),
                           .trial = params && params->trial, .direct = params && params->direct};
    p->guard = params ? (enum tachy_guard)params->guard : TACHY_GUARD_NONE;
    struct plan_place_rules rules = {.own_bases = p->guard != TACHY_GUARD_NONE,
                                     .joins = params && params->apart ? NULL : plan_joins};
    int err = plan_place(&b.places, g, &rules);
    if (err == TACHY_OK) {
        p->arena = b.places.arena;
        p->values = b.places.values;
        // Rounded up so that threads do not write into one cache line.
        p->nb_bases = TACHY_ALIGN(BASE_INPUTS + g->nb_in + g->nb_out + b.places.nb_own, 8);
        err = p->guard ? plan_guard_open(p, g, &b.places) : TACHY_OK;
    }
    if (err == TACHY_OK)
        err = add_steps(&b);
    if (err == TACHY_OK)
        err = plan_choose(&b, params ? params : &(struct tachy_plan_params){0});
    free(b.kernels);
    for (int i = 0; i < p->nb_steps; i++)
        p->steps[i].split = plan_worth_splitting(&p->steps[i]);
    plan_place_free(&b.places);
    if (err < 0)
        tachy_cpu_plan_close(&p);
    *out = p;
    return err;
}

void tachy_cpu_plan_close(struct tachy_cpu_plan **pp)
{
    struct tachy_cpu_plan *p = *pp;
    *pp = NULL;
    if (!p)
        return;
    while (p->idle) {
        struct plan_workspace *w = p->idle;
        p->idle = w->next;
        plan_workspace_free(w);
    }
    for (int i = 0; i < p->nb_packed; i++)
        plan_packed_unref(&p->packed[i]);
    free(p->packed);
    free(p->choice.text);
    for (int i = 0; i < p->nb_deconvs; i++)
        free(p->deconvs[i]);
    free(p->deconvs);
    for (int i = 0; i < p->nb_labels; i++)
        tachy_free(p->labels[i].name);
    free(p->labels);
    free(p->steps);
    free(p->sizes);
    tachy_aligned_free(p->weights);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

const char *tachy_cpu_plan_choice(const struct tachy_cpu_plan *p) { return p->choice.text; }

void tachy_cpu_plan_info(const struct tachy_cpu_plan *p, struct tachy_plan_info *info)
{
    size_t packed = 0, shared = 0;
    for (int i = 0; i < p->nb_packed; i++) {
        packed += plan_packed_size(p->packed[i]);
        shared += plan_packed_owners(p->packed[i]) > 1 ? plan_packed_size(p->packed[i]) : 0;
    }
    *info = (struct tachy_plan_info){
        .steps = p->nb_steps,
        .nodes = p->nodes,
        .weights = p->nb_weights * sizeof(float) + packed,
        .shared = shared,
        .arena = p->arena * sizeof(float),
        .scratch = p->scratch * sizeof(float),
        .values = p->values * sizeof(float),
        .effort = p->choice.effort,
        .choice_seconds = p->choice.seconds,
        .run_ms = p->choice.run_ms,
        .default_run_ms = p->choice.default_run_ms,
    };
}
