#include "profile/prof.h"

#include "base/base.h"

#include <math.h>
#include <stdlib.h>

struct tachy_prof *tachy_prof_new(struct tachy_rows *steps)
{
    tachy_ticks_init();
    struct tachy_prof *p = tachy_aligned_alloc(sizeof(*p));
    if (!p)
        return NULL;
    memset((void *)p, 0, sizeof(*p));
    p->steps = steps;
    return p;
}

static uint64_t get(const _Atomic uint64_t *v)
{
    return atomic_load_explicit(v, memory_order_relaxed);
}

static void bump(_Atomic uint64_t *v, uint64_t by)
{
    atomic_store_explicit(v, get(v) + by, memory_order_relaxed);
}

static void raise_to(_Atomic uint64_t *v, uint64_t to)
{
    if (to > get(v))
        atomic_store_explicit(v, to, memory_order_relaxed);
}

void tachy_prof_add(struct tachy_prof *p, int step, struct tachy_prof_item item,
                    uint64_t start, uint64_t end, uint64_t wait)
{
    struct tachy_prof_step *s = &p->step[step];
    // Cores' counters may differ by a few ticks.
    uint64_t busy_ns = end > start ? tachy_ticks_ns(end - start) : 0;
    wait = (int64_t)wait < 0 ? 0 : wait;
    bump(&s->calls, 1);
    bump(&s->busy_ns, busy_ns);
    if (wait)
        bump(&s->wait_ns, tachy_ticks_ns(wait));
    raise_to(&s->max_ns, busy_ns);
    tachy_hist_add(&s->busy, busy_ns);
    if (p->spans)
        tachy_span_add(p->spans, &(struct tachy_span){start, end, wait, item.frame, item.stream,
                                                      (uint32_t)step});
}

void tachy_prof_latency(struct tachy_prof *p, uint64_t ticks)
{
    uint64_t ns = (int64_t)ticks < 0 ? 0 : tachy_ticks_ns(ticks);
    bump(&p->latency_sum_ns, ns);
    raise_to(&p->latency_max_ns, ns);
    tachy_hist_add(&p->latency, ns);
}

// The row of `to` that is row `i` of `from`.
static int row_in(struct tachy_rows *to, const struct tachy_rows *from, int i)
{
    const struct tachy_row *r = &from->row[i];
    return to == from ? i : tachy_rows_add(to, r->name, atomic_load(&r->flags), NULL);
}

void tachy_prof_merge(struct tachy_prof *sum, const struct tachy_prof *p)
{
    for (int i = 0, n = tachy_rows_count(p->steps); i < n; i++) {
        struct tachy_prof_step *to = &sum->step[row_in(sum->steps, p->steps, i)];
        const struct tachy_prof_step *s = &p->step[i];
        if (!get(&s->calls))
            continue;
        bump(&to->calls, get(&s->calls));
        bump(&to->busy_ns, get(&s->busy_ns));
        bump(&to->wait_ns, get(&s->wait_ns));
        raise_to(&to->max_ns, get(&s->max_ns));
        tachy_hist_merge(&to->busy, &s->busy);
    }
    bump(&sum->latency_sum_ns, get(&p->latency_sum_ns));
    raise_to(&sum->latency_max_ns, get(&p->latency_max_ns));
    tachy_hist_merge(&sum->latency, &p->latency);
}

static void take(_Atomic uint64_t *v, uint64_t by)
{
    atomic_store_explicit(v, get(v) - by, memory_order_relaxed);
}

void tachy_prof_subtract(struct tachy_prof *sum, const struct tachy_prof *base)
{
    for (int i = 0, n = tachy_rows_count(base->steps); i < n; i++) {
        struct tachy_prof_step *s = &sum->step[i];
        const struct tachy_prof_step *b = &base->step[i];
        take(&s->calls, get(&b->calls));
        take(&s->busy_ns, get(&b->busy_ns));
        take(&s->wait_ns, get(&b->wait_ns));
        tachy_hist_subtract(&s->busy, &b->busy);
        atomic_store(&s->max_ns, (uint64_t)tachy_hist_quantile(&s->busy, 1.0));
    }
    take(&sum->latency_sum_ns, get(&base->latency_sum_ns));
    tachy_hist_subtract(&sum->latency, &base->latency);
    atomic_store(&sum->latency_max_ns, (uint64_t)tachy_hist_quantile(&sum->latency, 1.0));
}

double tachy_histogram_bound(int i)
{
    static const double bounds[TACHY_HISTOGRAM_BOUNDS] = {
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
        0.1,    0.25,    0.5,    1,     2.5,    5,     10,   60};
    return i >= 0 && i < TACHY_HISTOGRAM_BOUNDS ? bounds[i] : 0;
}

void tachy_prof_histogram(const struct tachy_prof *p, int step, struct tachy_histogram *out,
                          double *wait_s)
{
    const struct tachy_hist *h = step < 0 ? &p->latency : &p->step[step].busy;
    double bound_ns[TACHY_HISTOGRAM_BOUNDS];
    for (int i = 0; i < TACHY_HISTOGRAM_BOUNDS; i++)
        bound_ns[i] = tachy_histogram_bound(i) * 1e9;
    // The sum of the buckets: the count of calls may be a few ahead of them.
    out->count = (int64_t)tachy_hist_up_to(h, TACHY_HISTOGRAM_BOUNDS, bound_ns, out->le);
    out->sum_s = (double)get(step < 0 ? &p->latency_sum_ns : &p->step[step].busy_ns) * 1e-9;
    if (wait_s)
        *wait_s = step < 0 ? 0 : (double)get(&p->step[step].wait_ns) * 1e-9;
}

// The middle of a bucket may lie above the largest duration.
static double quantile_ms(const struct tachy_hist *h, double q, double max_ms)
{
    double v = tachy_hist_quantile(h, q) * 1e-6;
    return TACHY_MIN(v, max_ms);
}

int tachy_prof_read(const struct tachy_prof *p, struct tachy_step_stats steps[TACHY_MAX_STEPS])
{
    const int n = tachy_rows_count(p->steps);
    for (int i = 0; i < n; i++) {
        const struct tachy_prof_step *of = &p->step[i];
        struct tachy_step_stats *s = &steps[i];
        memcpy(s->name, p->steps->row[i].name, sizeof(s->name));
        s->calls = (int64_t)get(&of->calls);
        s->busy_s = (double)get(&of->busy_ns) * 1e-9;
        s->wait_s = (double)get(&of->wait_ns) * 1e-9;
        s->max_ms = (double)get(&of->max_ns) * 1e-6;
        s->p50_ms = quantile_ms(&of->busy, 0.50, s->max_ms);
        s->p90_ms = quantile_ms(&of->busy, 0.90, s->max_ms);
        s->p95_ms = quantile_ms(&of->busy, 0.95, s->max_ms);
        s->p99_ms = quantile_ms(&of->busy, 0.99, s->max_ms);
    }
    return n;
}

void tachy_prof_read_latency(const struct tachy_prof *p, struct tachy_latency *out)
{
    out->max_ms = (double)get(&p->latency_max_ns) * 1e-6;
    out->p50_ms = quantile_ms(&p->latency, 0.50, out->max_ms);
    out->p90_ms = quantile_ms(&p->latency, 0.90, out->max_ms);
    out->p95_ms = quantile_ms(&p->latency, 0.95, out->max_ms);
    out->p99_ms = quantile_ms(&p->latency, 0.99, out->max_ms);
    for (int i = 0; i < TACHY_LATENCY_CURVE; i++)
        out->curve_ms[i] = quantile_ms(&p->latency, (double)i / (TACHY_LATENCY_CURVE - 1), out->max_ms);
    out->curve_ms[TACHY_LATENCY_CURVE - 1] = out->max_ms; // exact
}
