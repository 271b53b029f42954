#include "profile/verdict.h"

#include "base/base.h"

#include <stdio.h>

// Method: a pipeline is as fast as the part that never waits, so that part is found by who waits. The source's thread
// is held back if the parts after it are slower, the sink's is starved if those before it are, and workers are idle
// because of either. The main activity of the part then names the limit. The expected gain comes from the same figures:
// the seconds per frame of each part are recomputed without the limit (verdict_gain.c).

static const char *const names[TACHY_LIMIT_COUNT] = {
    "none", "decode", "stage",   "transfer",      "engine",          "encode",
    "disk", "memory", "thermal", "one-core-busy", "batch-too-small", "source-rate",
};

const char *tachy_limit_name(enum tachy_limit l)
{
    return (unsigned)l < TACHY_LIMIT_COUNT ? names[l] : "?";
}

// Below these a run tells nothing: filling and draining the pipeline is most of it, or handing
// a frame over costs more than what is done with it.
enum { MIN_FRAMES = 8, MIN_PERIOD_US = 20 };

static bool has_flag(const struct tachy_verdict_in *in, int step, unsigned flag)
{
    return tachy_rows_has(in->steps, step, flag);
}

bool verdict_is_work(const struct tachy_verdict_in *in, int step)
{
    return step != TACHY_STEP_DECODE && step != in->encode && step != in->batched;
}

static enum tachy_limit limit_of_step(const struct tachy_verdict_in *in, int step)
{
    return step == TACHY_STEP_DECODE                 ? TACHY_LIMIT_DECODE
           : step == in->encode                      ? TACHY_LIMIT_ENCODE
           : has_flag(in, step, TACHY_STEP_MODEL) ? TACHY_LIMIT_ENGINE
                                                     : TACHY_LIMIT_STAGE;
}

// The longest of the workers' steps with one of the flags; -1: there is none.
static int longest_with(const struct tachy_verdict_in *in, unsigned flags)
{
    int best = -1;
    for (int s = 0, n = tachy_rows_count(in->steps); s < n; s++)
        if (verdict_is_work(in, s) && (!flags || has_flag(in, s, flags)) &&
            (best < 0 || in->step_busy_s[s] > in->step_busy_s[best]))
            best = s;
    return best;
}

static int longest_step(const struct tachy_verdict_in *in)
{
    return TACHY_MAX(longest_with(in, 0), (int)TACHY_STEP_DECODE);
}

// The step of the model that limits.
static int model_step(const struct tachy_verdict_in *in)
{
    int step = in->batched >= 0 ? in->batched : longest_with(in, TACHY_STEP_MODEL);
    return step >= 0 ? step : longest_step(in);
}

// The step of a limit, if the choice does not give one.
static int step_of(enum tachy_limit l, const struct tachy_verdict_in *in)
{
    switch (l) {
    case TACHY_LIMIT_DECODE:
    case TACHY_LIMIT_SOURCE_RATE:
        return TACHY_STEP_DECODE;
    case TACHY_LIMIT_ENGINE:
    case TACHY_LIMIT_BATCH:
    case TACHY_LIMIT_TRANSFER:
        return model_step(in);
    case TACHY_LIMIT_ENCODE:
        return in->encode;
    case TACHY_LIMIT_DISK:
        return in->write_s > in->read_s ? in->encode : TACHY_STEP_DECODE;
    default:
        return longest_step(in);
    }
}

// Shares of the time that each part waited for others, 0..1.
struct waits {
    double held, idle, engine, starved; // engine: with its own threads; 1 without
};

static double share(double s, double of) { return of > 0 ? TACHY_CLAMP(s / of, 0.0, 1.0) : 0; }

static struct waits waits_of(const struct tachy_verdict_in *in)
{
    return (struct waits){
        .held = share(in->held_back_s, in->seconds),
        .idle = 1 - share(in->work.busy_s, in->seconds * TACHY_MAX(in->work.threads, 1)),
        .engine = 1 - share(in->engine.busy_s, in->seconds * TACHY_MAX(in->engine.threads, 1)),
        .starved = share(in->starved_s, in->seconds),
    };
}

bool verdict_source_leads(const struct tachy_verdict_in *in)
{
    const struct verdict_stage *s = &in->source, *w = &in->work;
    const struct waits is = waits_of(in);
    const double reading = TACHY_MAX(in->seconds - in->ended_s, 0.0), asleep = w->busy_s - w->cpu_s - w->queued_s;
    return (is.idle <= is.held || verdict_cores_busy(in)) && in->process_cpu_s < 0.85 * in->cores * in->seconds &&
           asleep >= 0.3 * w->busy_s && !in->sheds && in->ended_s <= 0.15 * in->seconds &&
           s->busy_s - s->queued_s >= 0.9 * reading * TACHY_MAX(s->threads, 1);
}

static bool batch_is_small(const struct tachy_verdict_in *in)
{
    double fill = (double)in->batch.items / (double)TACHY_MAX(in->batch.runs, 1);
    // Workers that run the model themselves wait for the whole of it, each for its picture.
    double times = (double)(in->engine.threads ? in->batch.runs : in->batch.items);
    return in->batch.max > 1 && in->batch.runs > 0 && fill < 0.7 * in->batch.max &&
           in->batch.fixed_s * times >= 0.2 * in->step_busy_s[model_step(in)];
}

// The workers are what all wait for.
static enum tachy_limit limit_of_work(const struct tachy_verdict_in *in, int *step)
{
    const struct verdict_stage *w = &in->work;
    int s = longest_step(in);
    bool computes = w->cpu_s + w->queued_s >= 0.8 * w->busy_s;
    if (in->order_s >= 0.8 * in->seconds)
        return TACHY_LIMIT_ONE_CORE;
    if (!in->engine.threads && in->transfer_s >= 0.5 * w->busy_s)
        return TACHY_LIMIT_TRANSFER;
    if (has_flag(in, s, TACHY_STEP_MODEL) && batch_is_small(in))
        return TACHY_LIMIT_BATCH;
    if (w->threads == 1 && in->cores > 1 && computes)
        return TACHY_LIMIT_ONE_CORE;
    *step = s;
    return limit_of_step(in, s);
}

static enum tachy_limit limit_of_cores(const struct tachy_verdict_in *in, int *step)
{
    *step = TACHY_STEP_DECODE;
    for (int s = 1, n = tachy_rows_count(in->steps); s < n; s++)
        if (verdict_cpu_of(in, s) > verdict_cpu_of(in, *step))
            *step = s;
    return limit_of_step(in, *step);
}

static enum tachy_limit limit_of_source(const struct tachy_verdict_in *in)
{
    return in->read_s >= 0.5 * in->source.busy_s ? TACHY_LIMIT_DISK : TACHY_LIMIT_DECODE;
}

static bool is_hot(const struct tachy_verdict_in *in)
{
    double cpu = in->process_cpu_s;
    return in->throttled > 0 && in->clock_mhz > 0 && in->clock_mhz < 0.9 * in->clock_max_mhz &&
           cpu >= 0.5 * in->seconds;
}

// *step: whose it is, set by those that find the limit by its step.
static enum tachy_limit choose(const struct tachy_verdict_in *in, int *step)
{
    struct waits w = waits_of(in);
    double period = in->seconds / (double)TACHY_MAX(in->frames, 1);
    if (in->frames < MIN_FRAMES || period * 1e6 < MIN_PERIOD_US)
        return TACHY_LIMIT_NONE;
    if (in->major_faults > 0 && in->memory_stall_s >= 0.1 * in->seconds)
        return TACHY_LIMIT_MEMORY;
    if (is_hot(in))
        return TACHY_LIMIT_THERMAL;
    if (in->pace_s >= 0.5 * in->source.busy_s && in->pace_s >= 0.3 * in->seconds && w.held < 0.3)
        return TACHY_LIMIT_SOURCE_RATE;
    if (verdict_source_leads(in))
        return limit_of_source(in);
    if (verdict_cores_busy(in))
        return limit_of_cores(in, step);
    // Everybody waits: for room, and the workers not for a core to go on. An encoder that looks ahead takes frames at once
    // and has its time at the end.
    double late = share(in->work_queued_s, in->seconds * TACHY_MAX(in->work.threads, 1));
    if (w.held >= 0.3 && w.idle - late >= 0.3 && w.engine >= 0.3 && w.starved >= 0.3 &&
        in->order_s < 0.5 * in->seconds && in->sink.busy_s < 0.5 * in->seconds)
        return TACHY_LIMIT_MEMORY;
    if (in->engine.threads && w.engine <= TACHY_MIN(w.idle, TACHY_MIN(w.held, w.starved)))
        return in->transfer_s >= 0.5 * in->engine.busy_s ? TACHY_LIMIT_TRANSFER
               : batch_is_small(in)                      ? TACHY_LIMIT_BATCH
                                                         : TACHY_LIMIT_ENGINE;
    if (w.idle <= w.held && w.idle <= w.starved)
        return limit_of_work(in, step);
    if (in->order_s >= 0.8 * in->seconds)
        return TACHY_LIMIT_ONE_CORE;
    if (w.held <= w.starved)
        return limit_of_source(in);
    return in->write_s >= 0.5 * in->sink.busy_s ? TACHY_LIMIT_DISK : TACHY_LIMIT_ENCODE;
}

void tachy_verdict(struct tachy_verdict *v, const struct tachy_verdict_in *in)
{
    memset(v, 0, sizeof(*v));
    v->step = -1;
    v->limit = choose(in, &v->step);
    if (v->step < 0)
        v->step = step_of(v->limit, in);
    const char *name = v->limit == TACHY_LIMIT_STAGE ? in->steps->row[v->step].name : tachy_limit_name(v->limit);
    snprintf(v->name, sizeof(v->name), "%s", name);
    if (v->limit != TACHY_LIMIT_NONE)
        v->expected_gain = verdict_gain(in, v);
    verdict_words(v, in);
}
