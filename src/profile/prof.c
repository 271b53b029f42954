#include "profile/prof.h"

#include "base/base.h"

#include <stdlib.h>

static const char *const names[TACHY_STEP_COUNT] = {"decode",      "preprocess", "model",
                                                    "postprocess", "composite",  "encode"};

const char *tachy_step_name(enum tachy_step s)
{
    return (unsigned)s < TACHY_STEP_COUNT ? names[s] : "?";
}

struct tachy_prof *tachy_prof_new(void)
{
    struct tachy_prof *p = tachy_aligned_alloc(sizeof(*p));
    if (p)
        memset((void *)p, 0, sizeof(*p));
    return p;
}

static void bump(_Atomic uint64_t *v, uint64_t by)
{
    atomic_store_explicit(v, atomic_load_explicit(v, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

void tachy_prof_add(struct tachy_prof *p, enum tachy_step step, uint64_t start_ns, uint64_t end_ns,
                    uint64_t wait_ns)
{
    struct tachy_prof_step *s = &p->step[step];
    bump(&s->calls, 1);
    bump(&s->busy_ns, end_ns - start_ns);
    bump(&s->wait_ns, wait_ns);
    tachy_hist_add(&s->busy, end_ns - start_ns);
}

void tachy_prof_read(struct tachy_prof *const *profs, int n, struct tachy_step_stats *steps)
{
    struct tachy_hist *sum = malloc(sizeof(*sum));
    for (int s = 0; s < TACHY_STEP_COUNT; s++) {
        uint64_t calls = 0, busy = 0, wait = 0;
        if (sum)
            memset((void *)sum, 0, sizeof(*sum));
        for (int i = 0; i < n; i++) {
            const struct tachy_prof_step *p = &profs[i]->step[s];
            calls += atomic_load_explicit(&p->calls, memory_order_relaxed);
            busy += atomic_load_explicit(&p->busy_ns, memory_order_relaxed);
            wait += atomic_load_explicit(&p->wait_ns, memory_order_relaxed);
            if (sum)
                tachy_hist_merge(sum, &p->busy);
        }
        steps[s].calls = (int64_t)calls;
        steps[s].busy_s = (double)busy * 1e-9;
        steps[s].wait_s = (double)wait * 1e-9;
        steps[s].p50_ms = sum ? tachy_hist_quantile(sum, 0.50) * 1e-6 : 0;
        steps[s].p95_ms = sum ? tachy_hist_quantile(sum, 0.95) * 1e-6 : 0;
        steps[s].p99_ms = sum ? tachy_hist_quantile(sum, 0.99) * 1e-6 : 0;
    }
    free(sum);
}
