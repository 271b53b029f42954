#include "profile/verdict.h"

#include "base/base.h"

#include <stdio.h>

// How it is told. A pipeline is as fast as the part that never waits, so the part is found by
// who waits: the source's thread is held back where what follows is slower, the sink's is starved
// where what precedes is, workers are idle on either side's account. What the part spends its
// time on then names the limit. The expected gain comes from the same figures: the seconds a
// frame that each part allows are computed again with the limit taken out (verdict_gain.c).

static const char *const names[TACHY_LIMIT_COUNT] = {
    "none",   "decode", "preprocess", "transfer", "engine",        "postprocess",     "composite",
    "encode", "disk",   "memory",     "thermal",  "one-core-busy", "batch-too-small", "source-rate",
};

const char *tachy_limit_name(enum tachy_limit l)
{
    return (unsigned)l < TACHY_LIMIT_COUNT ? names[l] : "?";
}

// Below these a run tells nothing: filling and draining the pipeline is most of it, or handing
// a frame over costs more than what is done with it.
enum { MIN_FRAMES = 8, MIN_PERIOD_US = 20 };

static enum tachy_limit limit_of_step(enum tachy_step s)
{
    static const enum tachy_limit of[TACHY_STEP_COUNT] = {
        TACHY_LIMIT_DECODE,      TACHY_LIMIT_PREPROCESS, TACHY_LIMIT_ENGINE,
        TACHY_LIMIT_POSTPROCESS, TACHY_LIMIT_COMPOSITE,  TACHY_LIMIT_ENCODE,
    };
    return of[s];
}

static enum tachy_step longest_step(const struct tachy_verdict_in *in)
{
    int best = TACHY_STEP_PREPROCESS;
    for (int s = best + 1; s <= TACHY_STEP_COMPOSITE; s++) {
        bool elsewhere = s == TACHY_STEP_MODEL && in->engine.threads;
        if (!elsewhere && in->step_busy_s[s] > in->step_busy_s[best])
            best = s;
    }
    return (enum tachy_step)best;
}

enum tachy_step tachy_limit_step(enum tachy_limit l, const struct tachy_verdict_in *in)
{
    switch (l) {
    case TACHY_LIMIT_DECODE:
    case TACHY_LIMIT_SOURCE_RATE:
        return TACHY_STEP_DECODE;
    case TACHY_LIMIT_PREPROCESS:
        return TACHY_STEP_PREPROCESS;
    case TACHY_LIMIT_ENGINE:
    case TACHY_LIMIT_BATCH:
    case TACHY_LIMIT_TRANSFER:
        return TACHY_STEP_MODEL;
    case TACHY_LIMIT_POSTPROCESS:
        return TACHY_STEP_POSTPROCESS;
    case TACHY_LIMIT_COMPOSITE:
        return TACHY_STEP_COMPOSITE;
    case TACHY_LIMIT_ENCODE:
        return TACHY_STEP_ENCODE;
    case TACHY_LIMIT_DISK:
        return in->write_s > in->read_s ? TACHY_STEP_ENCODE : TACHY_STEP_DECODE;
    default:
        return longest_step(in);
    }
}

// Shares of the time that each part waited for others, 0..1.
struct waits {
    double held, idle, engine, starved; // engine: of its own threads; 1 without
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

static bool batch_is_small(const struct tachy_verdict_in *in)
{
    double fill = (double)in->batch.items / (double)TACHY_MAX(in->batch.runs, 1);
    // Workers that run the model themselves wait for the whole of it, each for its picture.
    double times = (double)(in->engine.threads ? in->batch.runs : in->batch.items);
    return in->batch.max > 1 && in->batch.runs > 0 && fill < 0.7 * in->batch.max &&
           in->batch.fixed_s * times >= 0.2 * in->step_busy_s[TACHY_STEP_MODEL];
}

// The workers are what all wait for.
static enum tachy_limit limit_of_work(const struct tachy_verdict_in *in)
{
    const struct verdict_stage *w = &in->work;
    enum tachy_step s = longest_step(in);
    bool computes = w->cpu_s + w->queued_s >= 0.8 * w->busy_s;
    if (in->order_s >= 0.8 * in->seconds)
        return TACHY_LIMIT_ONE_CORE;
    if (!in->engine.threads && in->transfer_s >= 0.5 * w->busy_s)
        return TACHY_LIMIT_TRANSFER;
    if (s == TACHY_STEP_MODEL && batch_is_small(in))
        return TACHY_LIMIT_BATCH;
    if (w->threads == 1 && in->cores > 1 && computes)
        return TACHY_LIMIT_ONE_CORE;
    return limit_of_step(s);
}

static enum tachy_limit limit_of_cores(const struct tachy_verdict_in *in)
{
    int best = TACHY_STEP_DECODE;
    for (int s = best + 1; s < TACHY_STEP_COUNT; s++)
        if (verdict_cpu_of(in, (enum tachy_step)s) > verdict_cpu_of(in, (enum tachy_step)best))
            best = s;
    return limit_of_step((enum tachy_step)best);
}

static bool is_hot(const struct tachy_verdict_in *in)
{
    double cpu = in->process_cpu_s;
    return in->throttled > 0 && in->clock_mhz > 0 && in->clock_mhz < 0.9 * in->clock_max_mhz &&
           cpu >= 0.5 * in->seconds;
}

static enum tachy_limit choose(const struct tachy_verdict_in *in)
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
    if (verdict_cores_busy(in))
        return limit_of_cores(in);
    // Everybody waits: for room, and the workers not for a core to go on.
    double late = share(in->work_queued_s, in->seconds * TACHY_MAX(in->work.threads, 1));
    if (w.held >= 0.3 && w.idle - late >= 0.3 && w.engine >= 0.3 && w.starved >= 0.3 &&
        in->order_s < 0.5 * in->seconds)
        return TACHY_LIMIT_MEMORY;
    if (in->engine.threads && w.engine <= TACHY_MIN(w.idle, TACHY_MIN(w.held, w.starved)))
        return in->transfer_s >= 0.5 * in->engine.busy_s ? TACHY_LIMIT_TRANSFER
               : batch_is_small(in)                      ? TACHY_LIMIT_BATCH
                                                         : TACHY_LIMIT_ENGINE;
    if (w.idle <= w.held && w.idle <= w.starved)
        return limit_of_work(in);
    if (in->order_s >= 0.8 * in->seconds)
        return TACHY_LIMIT_ONE_CORE;
    if (w.held <= w.starved)
        return in->read_s >= 0.5 * in->source.busy_s ? TACHY_LIMIT_DISK : TACHY_LIMIT_DECODE;
    return in->write_s >= 0.5 * in->sink.busy_s ? TACHY_LIMIT_DISK : TACHY_LIMIT_ENCODE;
}

void tachy_verdict(struct tachy_verdict *v, const struct tachy_verdict_in *in)
{
    memset(v, 0, sizeof(*v));
    v->limit = choose(in);
    if (v->limit != TACHY_LIMIT_NONE)
        v->expected_gain = verdict_gain(in, v->limit);
    verdict_words(v, in);
}
