#include "base/base.h"
#include "pipeline/run_priv.h"
#include "profile/verdict.h"

#include <stdio.h>

// Collects a run's figures for the verdict (profile/verdict.h). All count from its start.

// A thread's figures are of its whole life: outside of its steps it computes next to nothing, but
// it waits for a core when it is woken up as well.
static void within(struct verdict_stage *s)
{
    s->cpu_s = TACHY_MIN(s->cpu_s, s->busy_s);
    s->queued_s = TACHY_MIN(s->queued_s, s->busy_s - s->cpu_s);
}

static void read_stages(struct tachy_verdict_in *in, const struct run *r, const struct tachy_summary *s)
{
    const tachy_pipeline *p = r->pipeline;
    for (int i = 0; i < s->nb_steps; i++)
        in->step_busy_s[i] = s->steps[i].busy_s;
    in->source = (struct verdict_stage){.threads = s->decoders, .busy_s = s->steps[TACHY_STEP_DECODE].busy_s};
    in->work = (struct verdict_stage){.threads = s->workers, .busy_s = pipeline_work_s(r->pipeline) - r->work_before_s};
    in->sink = (struct verdict_stage){.threads = 1, .busy_s = s->steps[r->encode].busy_s};
    for (int i = 0; i < r->readers.nb; i++)
        tachy_prof_thread_read(r->readers.profs[i], &in->source.cpu_s, &in->source.queued_s);
    tachy_prof_thread_read(r->sink_prof, &in->sink.cpu_s, &in->sink.queued_s);
    pipeline_threads(p, &in->work.cpu_s, &in->work.queued_s);
    in->transfer_s = pipeline_transfer_s(r->stream) - r->transfer_before_s;
    in->order_s = pipeline_order_s(r->stream);
    in->read_s = TACHY_MIN(in->read_s, in->source.busy_s); // opening reads as well
    in->work_queued_s = in->work.queued_s;
    within(&in->source);
    within(&in->work);
    within(&in->sink);
}

static void read_system(struct tachy_verdict_in *in, const struct tachy_system *before)
{
    struct tachy_system now;
    tachy_system_read(&now, NULL);
    in->memory_stall_s = (double)(now.memory_stall_us - before->memory_stall_us) * 1e-6;
    double all = (double)(now.cpu_ms - before->cpu_ms) * 1e-3, own = in->process_cpu_s;
    if (now.cores > 0) // as many of the others' as on any core
        in->other_cpu_s = TACHY_MAX(all - own, 0.0) * TACHY_MIN(in->cores, now.cores) / now.cores;
    in->major_faults = now.major_faults - before->major_faults;
    in->throttled = now.throttled - before->throttled;
    in->clock_mhz = now.clock_mhz;
    in->clock_max_mhz = now.clock_max_mhz;
}

static void read_batches(struct tachy_verdict_in *in, const tachy_stream *s)
{
    struct pipeline_batch_use b;
    if (!s->bind->batcher)
        return;
    pipeline_batch_use(s->bind->batcher, &b);
    in->batched = b.step;
    in->engine = (struct verdict_stage){.threads = in->work.threads, .busy_s = in->step_busy_s[b.step]};
    in->batch.max = b.max;
    in->batch.runs = b.runs;
    in->batch.items = b.items;
    in->batch.run_s = b.run_s;
    in->batch.fixed_s = b.runs ? b.run_s / (double)b.runs : 0;
}

// Seconds in which reading was held back: it waited for room, or the input had ended.
static void read_held_back(struct tachy_verdict_in *in, const struct run_readers *r)
{
    uint64_t end = atomic_load(&r->end_ns);
    in->ended_s = end ? (double)(tachy_now_ns() - end) * 1e-9 : 0;
    in->held_back_s = (double)tachy_ticks_ns(atomic_load(&r->push_ticks)) * 1e-9 / TACHY_MAX(atomic_load(&r->active), 1) + in->ended_s;
}

void run_verdict(const struct run *r, double paused_s, double cpu_s, struct tachy_summary *s)
{
    struct tachy_verdict_in in = {
        .steps = r->pipeline->steps,
        .encode = r->encode,
        .batched = -1,
        .seconds = s->seconds > 0 ? s->seconds : 1e-9,
        .frames = s->frames,
        .cores = s->cores,
        .sheds = live_stream_policy(r->live),
        .starved_s = TACHY_MAX((double)tachy_ticks_ns(atomic_load(&r->starved_ticks)) * 1e-9 - paused_s, 0.0),
        .pace_s = (double)r->p->source->pace_ns * 1e-9,
        .read_s = (double)r->p->source->read_ns * 1e-9,
        .write_s = (double)r->p->sink->write_ns * 1e-9,
        .process_cpu_s = cpu_s,
        .more_decoders = run_readers_could_be_more(&r->readers),
        .cut_short = run_readers_are_cut_short(&r->readers),
        .nvdec = atomic_load(&r->p->source->nvdec),
        .decode_engines = s->decode_engines,
        .faster_output = r->p->sink->faster,
        .every_nth = r->p->source->params.every_nth,
        .max_bytes = r->p->max_bytes,
    };
    read_held_back(&in, &r->readers);
    read_stages(&in, r, s);
    read_system(&in, &r->before);
    read_batches(&in, r->stream);
    tachy_verdict(&s->verdict, &in);
}
