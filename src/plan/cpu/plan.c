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

void plan_needs_scratch(struct tachy_cpu_plan *p, size_t bytes)
{
    p->scratch = TACHY_MAX(p->scratch, (bytes + sizeof(float) - 1) / sizeof(float));
}

static int add_steps(struct plan_build *b)
{
    const struct tachy_graph *g = b->g;
    int err = TACHY_OK;
    for (const struct tachy_node *n = g->first; n && err == TACHY_OK; n = n->next) {
        const char *why = tachy_cpu_refuses(n);
        b->plan->nodes++;
        if (why)
            return tachy_fail(g->log, TACHY_ERR_UNSUPPORTED, "plan: %s %s is not built: %s",
                              tachy_plan_op_name(n->op), n->name ? n->name : "", why);
        err = plan_steps_of(b, n);
    }
    for (int i = 0; i < g->nb_out && err == TACHY_OK; i++)
        if (b->places.ref[g->out[i]->id].base != BASE_INPUTS + g->nb_in + i)
            err = plan_copy_output(b, g->out[i], i);
    return err;
}

int tachy_cpu_plan_open(struct tachy_cpu_plan **out, const struct tachy_graph *g,
                        const struct tachy_cpu_plan_params *params)
{
    struct tachy_cpu_plan *p = calloc(1, sizeof(*p));
    *out = NULL;
    if (!p)
        return TACHY_ERR_NOMEM;
    pthread_mutex_init(&p->lock, NULL);
    p->nb_in = g->nb_in;
    p->nb_out = g->nb_out;
    p->threads = params && params->threads > 1 ? params->threads : 1;
    struct plan_build b = {.plan = p, .g = g, .k = tachy_plan_kernels(tachy_cpu_isa())};
    int err = plan_place(&b.places, g);
    if (err == TACHY_OK) {
        p->arena = b.places.arena;
        p->values = b.places.values;
        err = add_steps(&b);
    }
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
    for (int i = 0; i < p->nb_deconvs; i++)
        free(p->deconvs[i]);
    free(p->deconvs);
    free(p->steps);
    tachy_aligned_free(p->weights);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

void tachy_cpu_plan_info(const struct tachy_cpu_plan *p, struct tachy_cpu_plan_info *info)
{
    *info = (struct tachy_cpu_plan_info){
        .steps = p->nb_steps,
        .nodes = p->nodes,
        .weights = p->nb_weights * sizeof(float),
        .arena = p->arena * sizeof(float),
        .scratch = p->scratch * sizeof(float),
        .values = p->values * sizeof(float),
    };
}
