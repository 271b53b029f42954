#include "profile/verdict.h"

#include "base/base.h"
#include "base/options.h"

#include <stdio.h>

// The verdict as sentences. A remedy names options of the command if there are any.

static double percent(double s, double of) { return of > 0 ? 100 * s / of : 0; }

static double cores_percent(const struct tachy_verdict_in *in)
{
    return percent(in->process_cpu_s, in->seconds * in->cores);
}

static double idle_percent(const struct tachy_verdict_in *in)
{
    double all = in->seconds * TACHY_MAX(in->work.threads, 1);
    return percent(TACHY_MAX(all - in->work.busy_s, 0.0), all);
}

static const char *plural(int n) { return n == 1 ? "" : "s"; }

// "decoding", "encoding", "preprocess"; a model's step is "the model".
static const char *gerund(const struct tachy_verdict *v, const struct tachy_verdict_in *in)
{
    return v->limit == TACHY_LIMIT_DECODE   ? "decoding"
           : v->limit == TACHY_LIMIT_ENCODE ? "encoding"
           : v->limit == TACHY_LIMIT_ENGINE ? "the model"
                                            : in->steps->row[v->step].name;
}

// A step of the workers, or whatever took most of busy cores.
static void words_of_step(struct tachy_verdict *v, const struct tachy_verdict_in *in)
{
    const size_t n = sizeof(v->words);
    const char *name = gerund(v, in);
    char cores[32];
    if (in->cores <= 2)
        snprintf(cores, sizeof(cores), in->cores == 1 ? "The core is" : "Both cores are");
    else
        snprintf(cores, sizeof(cores), "All %d cores are", in->cores);
    if (v->limit == TACHY_LIMIT_DECODE && verdict_source_leads(in))
        snprintf(v->words, n, "Bottleneck: decoding. It was busy %.0f %% of the time, and there was room for its frames.",
                 percent(in->source.busy_s, in->seconds * TACHY_MAX(in->source.threads, 1)));
    else if (verdict_cores_busy(in))
        snprintf(v->words, n, "Bottleneck: %s. %s busy; this run uses %.0f %% of the CPU, %s %.0f %% of that.", name, cores,
                 cores_percent(in), name, percent(verdict_cpu_of(in, v->step), in->process_cpu_s));
    else if (v->limit == TACHY_LIMIT_DECODE)
        snprintf(v->words, n, "Bottleneck: decoding. The workers waited for frames %.0f %% of the time.", idle_percent(in));
    else if (v->limit == TACHY_LIMIT_ENCODE)
        snprintf(v->words, n, "Bottleneck: encoding. It was busy %.0f %% of the time, and finished frames waited for it.",
                 percent(in->sink.busy_s, in->seconds));
    else if (v->step == in->batched)
        snprintf(v->words, n, "Bottleneck: the model. It was busy %.0f %% of the time, and frames waited for it.",
                 percent(in->engine.busy_s, in->seconds * in->engine.threads));
    else
        snprintf(v->words, n, "Bottleneck: %s. Frames waited for the %d worker%s, which were idle %.0f %% of the time.", name,
                 in->work.threads, plural(in->work.threads), idle_percent(in));
}

static void words_of_disk(char *t, size_t n, const struct tachy_verdict_in *in)
{
    if (in->write_s > in->read_s)
        snprintf(t, n, "Bottleneck: the disk. Writing the output took %.0f %% of the time, and finished frames waited.",
                 percent(in->write_s, in->seconds));
    else
        snprintf(t, n, "Bottleneck: the disk. Reading the input took %.0f %% of the time, and the workers waited.",
                 percent(in->read_s, in->seconds));
}

static bool short_of_memory(const struct tachy_verdict_in *in)
{
    return in->major_faults > 0 && in->memory_stall_s >= 0.1 * in->seconds;
}

static void words_of_memory(char *t, size_t n, const struct tachy_verdict_in *in)
{
    if (short_of_memory(in))
        snprintf(t, n, "Bottleneck: memory. Everything stood still %.0f %% of the time for lack of it.",
                 percent(in->memory_stall_s, in->seconds));
    else
        snprintf(t, n, "Bottleneck: frames in flight. The input was held back %.0f %% of the time while the workers waited "
                 "%.0f %%: too few frames fit.", percent(in->held_back_s, in->seconds), idle_percent(in));
}

static bool in_order(const struct tachy_verdict_in *in) { return in->order_s >= 0.8 * in->seconds; }

static void words_of_one_core(char *t, size_t n, const struct tachy_verdict_in *in)
{
    if (in_order(in))
        snprintf(t, n, "Bottleneck: frame order. What goes frame by frame took %.0f %% of the time, one worker at a time.",
                 percent(in->order_s, in->seconds));
    else
        snprintf(t, n, "Bottleneck: one worker. It carries every frame and was busy %.0f %% of the time; there are %d cores.",
                 percent(in->work.busy_s, in->seconds), in->cores);
}

static void set_words(struct tachy_verdict *v, const struct tachy_verdict_in *in)
{
    char *t = v->words;
    const size_t n = sizeof(v->words);
    switch (v->limit) {
    case TACHY_LIMIT_NONE:
        snprintf(t, n, "Bottleneck: unknown. The run was too short, or its frames too quick, to tell.");
        break;
    case TACHY_LIMIT_TRANSFER:
        snprintf(t, n, "Bottleneck: copies. Copies to and from the device took %.0f %% of the workers' time.",
                 percent(in->transfer_s, in->work.busy_s));
        break;
    case TACHY_LIMIT_DISK:
        words_of_disk(t, n, in);
        break;
    case TACHY_LIMIT_MEMORY:
        words_of_memory(t, n, in);
        break;
    case TACHY_LIMIT_THERMAL:
        snprintf(t, n, "Bottleneck: heat. The processor runs at %.0f of %.0f MHz to stay cool.", in->clock_mhz,
                 in->clock_max_mhz);
        break;
    case TACHY_LIMIT_ONE_CORE:
        words_of_one_core(t, n, in);
        break;
    case TACHY_LIMIT_BATCH:
        snprintf(t, n, "Bottleneck: small batches. A run of the model had %.1f of %d pictures.",
                 (double)in->batch.items / (double)TACHY_MAX(in->batch.runs, 1), in->batch.max);
        break;
    case TACHY_LIMIT_SOURCE_RATE:
        snprintf(t, n, "Keeping up: the input delivers %.4g fps.", (double)in->frames / in->seconds);
        break;
    default:
        words_of_step(v, in);
    }
}

// "if encoding cost nothing": what the expected gain supposes.
static void set_without(struct tachy_verdict *v, const struct tachy_verdict_in *in)
{
    static const char *const names[TACHY_LIMIT_COUNT] = {
        [TACHY_LIMIT_TRANSFER] = "if copies cost nothing", [TACHY_LIMIT_DISK] = "if the disk cost no time",
        [TACHY_LIMIT_MEMORY] = "with enough memory",       [TACHY_LIMIT_THERMAL] = "at full clock",
        [TACHY_LIMIT_ONE_CORE] = "if all cores shared it", [TACHY_LIMIT_BATCH] = "with full batches",
    };
    if (names[v->limit])
        snprintf(v->without, sizeof(v->without), "%s", names[v->limit]);
    else if (v->limit != TACHY_LIMIT_NONE && v->limit != TACHY_LIMIT_SOURCE_RATE)
        snprintf(v->without, sizeof(v->without), "if %s cost nothing", gerund(v, in));
}

// Text in brackets that begins with a dash is an option to add to the command unchanged; bench/verdict does so.
static void advise(struct tachy_verdict *v, const char *fmt, ...) TACHY_PRINTF(2, 3);
static void advise(struct tachy_verdict *v, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(v->remedy, sizeof(v->remedy), fmt, ap);
    va_end(ap);
}

// `cheaper`: what the stage or the sink knows; NULL: nothing. Fewer frames always cost less.
static void advise_less(struct tachy_verdict *v, const struct tachy_verdict_in *in, const char *cheaper, const char *or)
{
    if (cheaper)
        advise(v, "%s", cheaper);
    else
        advise(v, "fewer frames (--every-nth %d)%s", 2 * TACHY_MAX(in->every_nth, 1), or);
}

// More of what works side by side, while cores are idle.
static void advise_workers(struct tachy_verdict *v, const struct tachy_verdict_in *in)
{
    int n = in->work.threads < in->cores ? in->cores : 2 * in->work.threads;
    advise(v, "more workers (--workers %d)", TACHY_MIN(n, TACHY_THREADS_MAX));
}

static void advise_decoding(struct tachy_verdict *v, const struct tachy_verdict_in *in)
{
    enum { SESSIONS = 2 }; // that keep an engine busy
    int n = TACHY_MIN(in->cores, in->decode_engines ? SESSIONS * in->decode_engines : TACHY_THREADS_MAX);
    if (verdict_cores_busy(in) && !verdict_source_leads(in))
        advise(v, "an input that is cheaper to decode");
    else if (in->more_decoders && in->source.threads < n)
        advise(v, "more decoders side by side (--decoders %d)", n);
    else if (in->nvdec)
        advise(v, in->cut_short ? "several decoders side by side, which --max-frames rules out" : "an input that is cheaper to decode");
    else
        advise(v, "more decoder threads (--decode-threads %d)", n);
}

static void advise_memory(struct tachy_verdict *v, const struct tachy_verdict_in *in)
{
    if (!short_of_memory(in))
        advise(v, "more frames in flight (--max-memory %lld)", 4 * TACHY_DEF((long long)in->max_bytes >> 20, 160));
    else if (in->work.threads > 1)
        advise(v, "fewer workers (--workers %d), or more memory", in->work.threads / 2);
    else
        advise(v, "more memory");
}

static void set_remedy(struct tachy_verdict *v, const struct tachy_verdict_in *in)
{
    bool idle = !verdict_cores_busy(in), model = v->limit == TACHY_LIMIT_ENGINE;
    switch (v->limit) {
    case TACHY_LIMIT_DECODE:
        advise_decoding(v, in);
        break;
    case TACHY_LIMIT_ENGINE:
    case TACHY_LIMIT_STAGE:
        if (idle)
            advise_workers(v, in);
        else
            advise_less(v, in, model ? NULL : atomic_load(&in->steps->row[v->step].remedy),
                        model ? ", or a smaller model from tachy model list" : "");
        break;
    case TACHY_LIMIT_ENCODE:
        advise_less(v, in, in->faster_output, "");
        break;
    case TACHY_LIMIT_TRANSFER:
        advise(v, "decoding and encoding on the device, so that frames stay there; smaller inputs");
        break;
    case TACHY_LIMIT_DISK:
        advise(v, in->write_s > in->read_s ? "a faster disk for the output"
                                                  : "a faster disk for the input; copy it to a local disk first");
        break;
    case TACHY_LIMIT_MEMORY:
        advise_memory(v, in);
        break;
    case TACHY_LIMIT_THERMAL:
        advise(v, "better cooling, a higher power limit; a power profile for performance");
        break;
    case TACHY_LIMIT_ONE_CORE:
        if (in_order(in))
            advise_less(v, in, atomic_load(&in->steps->in_order), "");
        else
            advise_workers(v, in);
        break;
    case TACHY_LIMIT_BATCH:
        advise(v, "more pictures at once (--workers %d)", TACHY_MIN(2 * in->batch.max, TACHY_THREADS_MAX));
        break;
    default:;
    }
}

static void add(struct tachy_verdict *v, const char *fmt, ...) TACHY_PRINTF(2, 3);
static void add(struct tachy_verdict *v, const char *fmt, ...)
{
    va_list ap;
    if (v->n_evidence == TACHY_EVIDENCE_MAX)
        return;
    va_start(ap, fmt);
    vsnprintf(v->evidence[v->n_evidence++], sizeof(v->evidence[0]), fmt, ap);
    va_end(ap);
}

static void add_stages(struct tachy_verdict *v, const struct tachy_verdict_in *in)
{
    const struct verdict_stage *s = &in->source;
    double wall = in->seconds;
    add(v, "source: busy %.0f %% (%.0f %% computing, %.0f %% waiting for a core), held back %.0f %%",
        percent(s->busy_s, wall), percent(s->cpu_s, wall), percent(s->queued_s, wall),
        percent(in->held_back_s, wall));
    s = &in->work;
    wall *= TACHY_MAX(s->threads, 1);
    add(v, "%d worker%s: busy %.0f %% (%.0f %% computing, %.0f %% waiting for a core), idle %.0f %%",
        s->threads, plural(s->threads), percent(s->busy_s, wall), percent(s->cpu_s, wall),
        percent(s->queued_s, wall), idle_percent(in));
    s = &in->sink;
    add(v, "sink: busy %.0f %% (%.0f %% computing), waited for results %.0f %%",
        percent(s->busy_s, in->seconds), percent(s->cpu_s, in->seconds),
        percent(in->starved_s, in->seconds));
    add(v, "cores: %.2f of %d busy with this run, %.2f with other programs",
        in->process_cpu_s / in->seconds, in->cores, in->other_cpu_s / in->seconds);
}

// Adds the evidence that is specific to this limit.
static void add_special(struct tachy_verdict *v, const struct tachy_verdict_in *in)
{
    if (v->limit == TACHY_LIMIT_SOURCE_RATE)
        add(v, "the source waited %.0f %% of the time for its own clock",
            percent(in->pace_s, in->seconds));
    if (v->limit == TACHY_LIMIT_DISK)
        add(v, "reading took %.2f s, writing %.2f s", in->read_s, in->write_s);
    if (v->limit == TACHY_LIMIT_THERMAL)
        add(v, "the processor was slowed down %lld times", (long long)in->throttled);
    if (v->limit == TACHY_LIMIT_BATCH)
        add(v, "a run costs %.2f ms beside its pictures; %lld runs held %lld pictures",
            1e3 * in->batch.fixed_s, (long long)in->batch.runs, (long long)in->batch.items);
    if (v->limit == TACHY_LIMIT_MEMORY && in->max_bytes > 0)
        add(v, "frames in flight may take %.0f MiB", (double)in->max_bytes / (1 << 20));
    if (v->limit == TACHY_LIMIT_MEMORY && in->major_faults > 0)
        add(v, "%lld pages were read back from the disk", (long long)in->major_faults);
    if (verdict_is_work(in, v->step))
        add(v, "%s takes %.0f %% of the workers' busy time", in->steps->row[v->step].name,
            percent(in->step_busy_s[v->step], in->work.busy_s));
}

void verdict_words(struct tachy_verdict *v, const struct tachy_verdict_in *in)
{
    set_words(v, in);
    set_remedy(v, in);
    set_without(v, in);
    if (v->limit == TACHY_LIMIT_NONE)
        return;
    add_special(v, in);
    add_stages(v, in);
    double ms = 1e3 * in->seconds / (double)in->frames;
    if (v->expected_gain > 0)
        add(v, "a frame every %.3f ms; without this limit every %.3f ms", ms, ms / v->expected_gain);
    else
        add(v, "a frame every %.3f ms", ms);
}
