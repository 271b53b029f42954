#include "base/base.h"
#include "plan/cpu/plan_parts.h"

#include <stdlib.h>

// A plan whose values, inputs, outputs and scratch lie next to inaccessible pages.

static size_t scratch_bytes(size_t floats) { return TACHY_ALIGN(floats * sizeof(float), (size_t)64); }

static struct plan_size size_of(const struct tachy_value *v)
{
    size_t element = tachy_dtype_size(v->dtype);
    return (struct plan_size){(size_t)tachy_value_elements(v) * element, element};
}

int plan_guard_open(struct tachy_cpu_plan *p, const struct tachy_graph *g, const struct plan_places *places)
{
    int nb = p->nb_in + p->nb_out + places->nb_own;
    p->sizes = calloc((size_t)TACHY_MAX(nb, 1), sizeof(*p->sizes));
    if (!p->sizes)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < p->nb_in; i++)
        p->sizes[p->nb_sizes++] = size_of(g->in[i]);
    for (int i = 0; i < p->nb_out; i++)
        p->sizes[p->nb_sizes++] = size_of(g->out[i]);
    for (int i = 0; i < places->nb_own; i++)
        p->sizes[p->nb_sizes++] = (struct plan_size){places->own[i] * sizeof(float), sizeof(float)};
    return TACHY_OK;
}

int plan_guard_alloc(const struct tachy_cpu_plan *p, struct plan_workspace *w)
{
    w->guarded = calloc((size_t)(p->nb_sizes + p->threads), sizeof(*w->guarded));
    if (!w->guarded)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < p->nb_sizes + p->threads; i++) {
        bool tensor = i < p->nb_sizes;
        size_t bytes = tensor ? p->sizes[i].bytes : scratch_bytes(p->scratch);
        w->guarded[i] = tachy_guard_alloc(bytes, tensor ? p->sizes[i].align : 64, p->guard);
        if (!w->guarded[i])
            return TACHY_ERR_NOMEM;
        w->nb_guarded++;
    }
    for (int t = 0; t < p->threads; t++)
        memcpy(w->base + t * p->nb_bases + BASE_INPUTS, w->guarded, (size_t)p->nb_sizes * sizeof(*w->guarded));
    return TACHY_OK;
}

void plan_guard_free(struct plan_workspace *w)
{
    for (int i = 0; i < w->nb_guarded; i++)
        tachy_guard_free(w->guarded[i]);
    free(w->guarded);
}

// The caller's memory may be NULL if there are no elements.
static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes)
        memcpy(to, from, bytes);
}

void plan_guard_begin(const struct tachy_cpu_plan *p, struct plan_workspace *w, const float *const in[])
{
    for (int i = 0; i < p->nb_in; i++)
        copy(w->guarded[i], in[i], p->sizes[i].bytes);
    for (int i = p->nb_in; i < p->nb_sizes; i++)
        memset(w->guarded[i], 0xff, p->sizes[i].bytes);
}

void plan_guard_end(const struct tachy_cpu_plan *p, struct plan_workspace *w, float *const out[])
{
    for (int i = 0; i < p->nb_out; i++)
        copy(out[i], w->guarded[p->nb_in + i], p->sizes[p->nb_in + i].bytes);
}

void plan_guard_step(const struct tachy_cpu_plan *p, struct plan_workspace *w, const struct plan_step *s)
{
    size_t bytes = scratch_bytes(s->scratch), unused = scratch_bytes(p->scratch) - bytes;
    for (int t = 0; t < p->threads; t++) {
        char *scratch = (char *)w->guarded[p->nb_sizes + t] + (p->guard == TACHY_GUARD_END ? unused : 0);
        memset(scratch, 0xff, bytes);
        w->base[t * p->nb_bases + BASE_SCRATCH] = (float *)(void *)scratch;
    }
}
