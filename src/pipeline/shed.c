#include "pipeline/shed.h"

enum { WEIGHT = 8 };                        // weight of a new time in the mean: 1 / this
static const uint64_t HALF_LIFE = 250000000; // of a mean that is not renewed, ns

const char *tachy_run_mode_name(enum tachy_run_mode m)
{
    return m == TACHY_RUN_LIVE ? "live" : "all";
}

const char *tachy_shed_stage_name(enum tachy_shed_stage s)
{
    static const char *const names[TACHY_SHED_STAGES] = {"infer", "composite", "sink"};
    return (unsigned)s < TACHY_SHED_STAGES ? names[s] : "?";
}

const char *tachy_shed_reason_name(enum tachy_shed_reason r)
{
    static const char *const names[TACHY_SHED_COUNT] = {"replaced", "late", "hopeless", "target-fps"};
    return (unsigned)r < TACHY_SHED_COUNT ? names[r] : "?";
}

int64_t tachy_live_shed(const struct tachy_live_stats *s)
{
    int64_t sum = 0;
    for (int i = 0; s && i < TACHY_SHED_STAGES; i++)
        for (int r = 0; r < TACHY_SHED_COUNT; r++)
            sum += s->shed[i][r];
    return sum;
}

void tachy_shed_open(struct tachy_shed *s, uint64_t max_latency_ns)
{
    memset(s, 0, sizeof(*s));
    atomic_store(&s->max_latency, max_latency_ns);
}

uint64_t tachy_shed_deadline(const struct tachy_shed *s, uint64_t arrived)
{
    uint64_t most = atomic_load_explicit(&s->max_latency, memory_order_relaxed);
    return most ? arrived + most : TACHY_NO_DEADLINE;
}

void tachy_shed_work(struct tachy_shed *s, enum tachy_shed_stage stage, uint64_t ns, uint64_t now)
{
    uint64_t old = atomic_load_explicit(&s->work[stage], memory_order_relaxed);
    uint64_t mean = old ? old - old / WEIGHT + ns / WEIGHT : ns;
    atomic_store_explicit(&s->work[stage], mean, memory_order_relaxed);
    atomic_store_explicit(&s->known[stage], now, memory_order_relaxed);
}

static uint64_t expected(const struct tachy_shed *s, enum tachy_shed_stage stage, uint64_t now)
{
    uint64_t mean = atomic_load_explicit(&s->work[stage], memory_order_relaxed);
    uint64_t known = atomic_load_explicit(&s->known[stage], memory_order_relaxed);
    uint64_t halves = now > known ? (now - known) / HALF_LIFE : 0;
    return halves < 64 ? mean >> halves : 0;
}

bool tachy_shed_due(const struct tachy_shed *s, enum tachy_shed_stage stage, uint64_t deadline,
                    uint64_t now, bool whole, enum tachy_shed_reason *reason)
{
    if (deadline == TACHY_NO_DEADLINE)
        return false;
    *reason = TACHY_SHED_LATE;
    if (now >= deadline)
        return true;
    *reason = TACHY_SHED_HOPELESS;
    return whole && deadline - now < expected(s, stage, now);
}

int64_t tachy_shed_left(const struct tachy_shed *s, enum tachy_shed_stage stage, uint64_t deadline, uint64_t now)
{
    return deadline == TACHY_NO_DEADLINE ? INT64_MAX : (int64_t)(deadline - now - expected(s, stage, now));
}

void tachy_shed_count(struct tachy_shed *s, enum tachy_shed_stage stage, enum tachy_shed_reason reason)
{
    atomic_fetch_add_explicit(&s->counts[stage][reason], 1, memory_order_relaxed);
}

void tachy_shed_read(const struct tachy_shed *s, struct tachy_live_stats *out)
{
    for (int i = 0; i < TACHY_SHED_STAGES; i++)
        for (int r = 0; r < TACHY_SHED_COUNT; r++)
            out->shed[i][r] = atomic_load_explicit(&s->counts[i][r], memory_order_relaxed);
    out->late = atomic_load_explicit(&s->late, memory_order_relaxed);
    out->max_latency_ms = (double)atomic_load(&s->max_latency) * 1e-6;
}
