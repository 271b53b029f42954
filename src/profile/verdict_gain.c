#include "profile/verdict.h"

#include "base/base.h"

// Gain of a run if its limit vanished: seconds per frame of each part, with the limit and without.

// CPU time of threads that are not ours (those of codecs and of the engine) belongs to whoever
// waited for them: shared out by the time that each stage waited and neither computed nor slept
// for a known reason.
static double asleep(const struct verdict_stage *s, double known)
{
    return TACHY_MAX(s->busy_s - s->cpu_s - s->queued_s - known, 0.0);
}

struct foreign {
    double source, work, engine, sink; // s of CPU time
};

static struct foreign foreign_cpu(const struct tachy_verdict_in *in)
{
    double rest = in->process_cpu_s - in->source.cpu_s - in->work.cpu_s - in->sink.cpu_s;
    struct foreign f = {
        .source = asleep(&in->source, in->pace_s + in->read_s),
        .work = asleep(&in->work, in->engine.threads ? 0 : in->transfer_s),
        .engine = asleep(&in->engine, in->transfer_s),
        .sink = asleep(&in->sink, in->write_s),
    };
    double all = f.source + f.work + f.engine + f.sink, scale = all > 0 && rest > 0 ? rest / all : 0;
    return (struct foreign){f.source * scale, f.work * scale, f.engine * scale, f.sink * scale};
}

double verdict_cpu_of(const struct tachy_verdict_in *in, int step)
{
    struct foreign f = foreign_cpu(in);
    if (step == TACHY_STEP_DECODE)
        return in->source.cpu_s + f.source;
    if (step == in->encode)
        return in->sink.cpu_s + f.sink;
    if (step == in->batched)
        return f.engine;
    return in->work.busy_s > 0
               ? (in->work.cpu_s + f.work) * in->step_busy_s[step] / in->work.busy_s
               : 0;
}

static double queued(const struct tachy_verdict_in *in)
{
    return in->source.queued_s + in->work.queued_s + in->sink.queued_s;
}

// Cores that were this process's or nobody's.
static double free_cores(const struct tachy_verdict_in *in)
{
    return TACHY_CLAMP(in->cores - in->other_cpu_s / in->seconds, 0.0, in->cores);
}

// True if its threads want a core all the time.
static bool wants_cores(const struct verdict_stage *s, double seconds)
{
    return s->cpu_s + s->queued_s >= 0.8 * seconds * TACHY_MAX(s->threads, 1);
}

bool verdict_cores_busy(const struct tachy_verdict_in *in)
{
    if (in->process_cpu_s + queued(in) >= 0.85 * in->cores * in->seconds)
        return true;
    // Others' doing: a part wants a core all the time, or half a core's time is waited for. Threads that also wait for each
    // other, as in a short run, want none all the time.
    bool none_free = free_cores(in) - in->process_cpu_s / in->seconds < 0.1 * in->cores;
    return none_free && in->other_cpu_s > 0 &&
           (wants_cores(&in->source, in->seconds) || wants_cores(&in->work, in->seconds) ||
            wants_cores(&in->sink, in->seconds) || queued(in) >= 0.5 * in->seconds);
}

// Cores that this process can have: those it used and those that were idle; if it wanted little and got most of that,
// it would have got more.
static double cores_for(const struct tachy_verdict_in *in, bool cores_busy)
{
    double used = in->process_cpu_s / in->seconds, cores = TACHY_MAX(free_cores(in), used);
    double wanted = in->process_cpu_s + queued(in);
    if (!cores_busy && wanted > 0)
        cores = TACHY_MAX(cores, in->cores * in->process_cpu_s / wanted);
    return TACHY_CLAMP(cores, 0.1, in->cores);
}

// Seconds that a stage takes itself. If the cores are the limit, waiting for one is not the stage's own time; otherwise
// others cause it, and it stays.
static double own(const struct verdict_stage *s, bool cores_busy)
{
    double queued = cores_busy ? s->queued_s : 0;
    return TACHY_MAX(s->busy_s - queued, 0.0) / TACHY_MAX(s->threads, 1);
}

// Seconds a frame that the slowest part allows. `cores`: those that this process can have.
static double bound(const struct tachy_verdict_in *in, double cores, bool cores_busy)
{
    double t = TACHY_MAX(own(&in->source, cores_busy), own(&in->work, cores_busy));
    t = TACHY_MAX(t, TACHY_MAX(own(&in->sink, cores_busy), own(&in->engine, cores_busy)));
    t = TACHY_MAX(t, in->order_s);
    t = TACHY_MAX(t, in->process_cpu_s / cores);
    return t / (double)in->frames;
}

// Removes `s` seconds from a stage, with the CPU time in them: `cpu` of the process, of which the stage's own threads
// had their part.
static void take(struct tachy_verdict_in *in, struct verdict_stage *st, double s, double cpu)
{
    double left = st->busy_s > 0 ? TACHY_CLAMP(1 - s / st->busy_s, 0.0, 1.0) : 0;
    in->process_cpu_s = TACHY_MAX(in->process_cpu_s - cpu, 0.0);
    st->busy_s *= left;
    st->queued_s *= left;
    st->cpu_s = cpu > 0 ? TACHY_MAX(st->cpu_s - cpu, 0.0) : TACHY_MIN(st->cpu_s, st->busy_s);
}

// The stage that a step of the workers runs in.
static struct verdict_stage *runs(struct tachy_verdict_in *in, int step)
{
    return step == in->batched ? &in->engine : &in->work;
}

static void take_step(struct tachy_verdict_in *in, int step)
{
    double cpu = verdict_cpu_of(in, step);
    if (step == TACHY_STEP_DECODE)
        take(in, &in->source, in->source.busy_s - in->read_s - in->pace_s, cpu);
    else if (step == in->encode)
        take(in, &in->sink, in->sink.busy_s - in->write_s, cpu);
    else
        take(in, runs(in, step), in->step_busy_s[step], cpu);
    if (tachy_rows_has(in->steps, step, TACHY_STEP_IN_ORDER))
        in->order_s = 0;
}

static void cool(struct tachy_verdict_in *in)
{
    struct verdict_stage *all[] = {&in->source, &in->work, &in->sink};
    double faster = in->clock_mhz / in->clock_max_mhz;
    for (int i = 0; i < 3; i++)
        all[i]->busy_s -= TACHY_MIN(all[i]->cpu_s, all[i]->busy_s) * (1 - faster);
    in->order_s *= faster;
    in->process_cpu_s *= faster;
}

// Makes every run full: the fixed cost of a run is shared by more pictures.
static void fill_batches(struct tachy_verdict_in *in, int step)
{
    double model = in->step_busy_s[step];
    double a = in->batch.fixed_s, n = (double)in->batch.items / (double)in->batch.runs;
    double item = TACHY_MAX(in->batch.run_s / (double)in->batch.items - a / n, 0.0);
    double full = a / in->batch.max + item, now = a / n + item;
    double less = now > 0 ? 1 - TACHY_MIN(full / now, 1.0) : 0;
    take(in, runs(in, step), model * less, verdict_cpu_of(in, step) * less);
}

// All cores for what one thread does: of the workers, or of the ordered part.
static void spread(struct tachy_verdict_in *in)
{
    if (in->order_s >= 0.8 * in->seconds) {
        take(in, &in->work, in->order_s,
             in->work.busy_s > 0 ? in->work.cpu_s * in->order_s / in->work.busy_s : 0);
        in->order_s = 0;
    } else {
        in->work.threads = in->cores;
    }
}

static void remove_limit(struct tachy_verdict_in *in, const struct tachy_verdict *v)
{
    switch (v->limit) {
    case TACHY_LIMIT_SOURCE_RATE:
        take(in, &in->source, in->pace_s, 0);
        break;
    case TACHY_LIMIT_DISK:
        take(in, &in->source, in->read_s, 0);
        take(in, &in->sink, in->write_s, 0);
        break;
    case TACHY_LIMIT_TRANSFER:
        take(in, runs(in, v->step), in->transfer_s, 0);
        break;
    case TACHY_LIMIT_BATCH:
        fill_batches(in, v->step);
        break;
    case TACHY_LIMIT_ONE_CORE:
        spread(in);
        break;
    case TACHY_LIMIT_THERMAL:
        cool(in);
        break;
    case TACHY_LIMIT_MEMORY:
    case TACHY_LIMIT_NONE:
    case TACHY_LIMIT_COUNT:
        break;
    default:
        take_step(in, v->step);
    }
}

double verdict_gain(const struct tachy_verdict_in *in, const struct tachy_verdict *v)
{
    bool busy = verdict_cores_busy(in), source = v->limit == TACHY_LIMIT_DECODE || v->limit == TACHY_LIMIT_DISK;
    if (source && verdict_source_leads(in)) // what the workers could do is not known
        return 0;
    double period = in->seconds / (double)in->frames, cores = cores_for(in, busy);
    double now = bound(in, cores, busy);
    if (v->limit == TACHY_LIMIT_MEMORY) {
        double stall = in->major_faults > 0 ? in->memory_stall_s / in->seconds : 0;
        return stall >= 0.1 ? 1 / (1 - TACHY_MIN(stall, 0.95))
                            : TACHY_MAX(period / TACHY_MAX(now, 1e-9), 1.0);
    }
    struct tachy_verdict_in rest = *in;
    remove_limit(&rest, v);
    // Time that no part explains (hand-overs, filling and draining) stays.
    double next = bound(&rest, cores, busy) + TACHY_MAX(period - now, 0.0);
    return TACHY_MAX(period / TACHY_MAX(next, 1e-9), 1.0);
}
