#include "plan/cpu/choice.h"

#include "base/base.h"
#include "base/mix.h"
#include "base/store.h"

#include <stdlib.h>

// Chooses the kernel for each convolution: the default, an earlier choice, or the fastest here (choice_time.c). Weights
// are packed for that kernel.

static struct plan_step *step_of(const struct choice *c, int member)
{
    return &c->b->plan->steps[c->b->kernels[member].step];
}

const struct plan_step *choice_timed_step(const struct choice *c, int member)
{
    const struct plan_step *s = step_of(c, member);
    return s->run == plan_run_nothing ? s + 1 : s;
}

static bool same(const struct choice_group *g, const struct plan_step *s)
{
    return g->scaled == (s->scale.base != NO_BASE) && !memcmp(&g->shape, &s->conv.s, sizeof(g->shape));
}

static int find_groups(struct choice *c)
{
    size_t n = (size_t)TACHY_MAX(c->b->nb_kernels, 1);
    c->members = calloc(n, sizeof(*c->members));
    c->groups = calloc(n, sizeof(*c->groups));
    if (!c->members || !c->groups)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < c->b->nb_kernels; i++) {
        const struct plan_step *s = step_of(c, i);
        int k = 0;
        while (k < c->nb_groups && !same(&c->groups[k], s))
            k++;
        c->members[i].group = k;
        if (k < c->nb_groups)
            continue;
        struct choice_group *g = &c->groups[c->nb_groups++];
        g->shape = s->conv.s;
        g->scaled = s->scale.base != NO_BASE;
        g->nb = tachy_conv_variants(&g->shape, c->b->k->isa, g->v);
    }
    return TACHY_OK;
}

struct plan_packed *plan_pack(const struct tachy_conv *c, const struct tachy_conv_weights *w)
{
    size_t size = tachy_conv_packed_size(c);
    void *data = tachy_aligned_alloc(size);
    if (!data)
        return NULL;
    tachy_conv_pack(c, w, data);
    return plan_packed_share(data, size);
}

int choice_pack(struct choice *c, int member, int i)
{
    struct choice_member *m = &c->members[member];
    struct tachy_conv conv;
    if (m->packed[i])
        return TACHY_OK;
    tachy_conv_setup(&conv, &c->groups[m->group].shape, &c->groups[m->group].v[i]);
    m->packed[i] = plan_pack(&conv, &c->b->kernels[member].w);
    return m->packed[i] ? TACHY_OK : TACHY_ERR_NOMEM;
}

void choice_use(struct choice *c, int group, int i)
{
    const struct choice_group *g = &c->groups[group];
    for (int k = 0; k < c->b->nb_kernels; k++) {
        if (c->members[k].group != group)
            continue;
        struct plan_step *s = step_of(c, k);
        tachy_conv_setup(&s->conv, &g->shape, &g->v[i]);
        s->packed = plan_packed_data(c->members[k].packed[i]);
    }
}

// The plan holds the weights of the kernels that were chosen.
static int settle(struct choice *c)
{
    struct tachy_cpu_plan *p = c->b->plan;
    int err = TACHY_OK;
    for (int k = 0; k < c->b->nb_kernels && err == TACHY_OK; k++)
        err = choice_pack(c, k, c->groups[c->members[k].group].chosen);
    for (int g = 0; g < c->nb_groups && err == TACHY_OK; g++)
        choice_use(c, g, c->groups[g].chosen);
    for (int k = 0; k < c->b->nb_kernels && err == TACHY_OK; k++) {
        struct choice_member *m = &c->members[k];
        const struct choice_group *g = &c->groups[m->group];
        struct plan_packed *kept = m->packed[g->chosen];
        m->packed[g->chosen] = NULL;
        struct plan_step *s = step_of(c, k);
        struct plan_step *timed = &p->steps[choice_timed_step(c, k) - p->steps];
        plan_needs_scratch(p, timed, plan_joined_band(timed) + tachy_conv_scratch_size(&s->conv, g->scaled));
        err = plan_keep(p, kept);
    }
    return err;
}

static void choice_free(struct choice *c)
{
    for (int k = 0; c->members && k < c->b->nb_kernels; k++)
        for (int i = 0; i < TACHY_CONV_VARIANTS_MAX; i++)
            plan_packed_unref(&c->members[k].packed[i]);
    free(c->members);
    free(c->groups);
}

int plan_choose(struct plan_build *b, const struct tachy_plan_params *params)
{
    struct choice c = {.b = b};
    struct plan_choice *about = &b->plan->choice;
    int effort = params->guard ? 0 : TACHY_CLAMP(params->effort, 0, 3);
    if (params->trial)
        return TACHY_OK;
    int err = find_groups(&c);
    bool known = !err && params->choice && choice_parse(&c, about, params->choice, effort);
    if (!err && !known && effort > 0)
        err = choice_time(&c, about, effort, TACHY_MAX(params->parts, 1));
    if (!err)
        err = settle(&c);
    if (!err && !(about->text = choice_print(&c, about)))
        err = TACHY_ERR_NOMEM;
    choice_free(&c);
    return err;
}

int tachy_cpu_plan_key(const struct tachy_graph *g, char *key)
{
    uint64_t digest[2];
    int err = tachy_graph_digest(g, digest);
    char *machine = tachy_asprintf("%s, %s, f32, tachy %s", tachy_cpu_name(), tachy_isa_name(tachy_cpu_isa()),
                                   TACHY_VERSION);
    if (!err && !machine)
        err = TACHY_ERR_NOMEM;
    for (int i = 0; i < 2 && !err; i++)
        digest[i] = tachy_mix(digest[i], machine, strlen(machine));
    if (!err)
        tachy_store_key(digest, key);
    tachy_free(machine);
    return err;
}
