#include "base/base.h"
#include "base/cpu.h"
#include "plan/cpu/plan.h"

#include <stdio.h>

// The processor as one back end among others.

static struct tachy_cpu_plan *of(struct tachy_plan *p) { return (struct tachy_cpu_plan *)p; }
static const struct tachy_cpu_plan *const_of(const struct tachy_plan *p) { return (const struct tachy_cpu_plan *)p; }

static const struct tachy_plan_pass *passes(const struct tachy_plan_params *p)
{
    return p && p->precision == TACHY_PLAN_INT8 ? tachy_plan_int8_passes : tachy_plan_all_passes;
}

static int key(const struct tachy_graph *g, const struct tachy_plan_params *p, char *to)
{
    return tachy_cpu_plan_key(g, to);
}

static void about(const struct tachy_plan_params *p, char *text, size_t size)
{
    snprintf(text, size, "%s %s", tachy_cpu_name(), tachy_isa_name(tachy_cpu_isa()));
}

static int open_plan(struct tachy_plan **out, const struct tachy_graph *g, const struct tachy_plan_params *params)
{
    struct tachy_cpu_plan *p;
    int err = tachy_cpu_plan_open(&p, g, params);
    *out = (struct tachy_plan *)p;
    return err;
}

static void close_plan(struct tachy_plan *p)
{
    struct tachy_cpu_plan *c = of(p);
    tachy_cpu_plan_close(&c);
}

static void info(const struct tachy_plan *p, struct tachy_plan_info *to) { tachy_cpu_plan_info(const_of(p), to); }

static const char *choice(const struct tachy_plan *p) { return tachy_cpu_plan_choice(const_of(p)); }

static void step(const struct tachy_plan *p, int i, struct tachy_plan_step *to)
{
    tachy_cpu_plan_step(const_of(p), i, to);
}

static int run(struct tachy_plan *p, const void *const in[], void *const out[], const struct tachy_plan_helpers *helpers,
               uint64_t *end)
{
    return tachy_cpu_plan_run_by(of(p), (const float *const *)in, (float *const *)out, helpers, end);
}

const struct plan_backend tachy_plan_cpu = {
    .name = "cpu",
    .refuses = tachy_cpu_refuses,
    .passes = passes,
    .key = key,
    .about = about,
    .open = open_plan,
    .close = close_plan,
    .info = info,
    .choice = choice,
    .step = step,
    .run = run,
};
