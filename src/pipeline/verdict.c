#include "pipeline/verdict.h"

#include "base/base.h"

#include <stdio.h>

static struct verdict_stage stage(double busy_s, int threads)
{
    return (struct verdict_stage){.threads = threads, .busy_s = busy_s};
}

// A thread's figures are of its whole life: outside of its steps it computes next to nothing, but
// it waits for a core when it is woken up as well.
static void within(struct verdict_stage *s)
{
    s->cpu_s = TACHY_MIN(s->cpu_s, s->busy_s);
    s->queued_s = TACHY_MIN(s->queued_s, s->busy_s - s->cpu_s);
}

static void read_stages(struct tachy_verdict_in *in, const struct run_readings *r)
{
    const struct tachy_step_stats *steps = r->sum->steps;
    double work = pipeline_work_s(r->stream->pipeline) - r->work_before_s;
    for (int s = 0; s < TACHY_STEP_COUNT; s++)
        in->step_busy_s[s] = steps[s].busy_s;
    if (r->stream->bind->batcher)
        in->engine = stage(steps[TACHY_STEP_MODEL].busy_s, r->sum->workers);
    in->source = stage(steps[TACHY_STEP_DECODE].busy_s, r->nb_source);
    in->work = stage(work, r->sum->workers);
    in->sink = stage(steps[TACHY_STEP_ENCODE].busy_s, 1);
    for (int i = 0; i < r->nb_source; i++)
        tachy_prof_thread_read(r->source_profs[i], &in->source.cpu_s, &in->source.queued_s);
    tachy_prof_thread_read(r->sink_prof, &in->sink.cpu_s, &in->sink.queued_s);
    pipeline_threads(r->stream->pipeline, &in->work.cpu_s, &in->work.queued_s);
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
    struct pipeline_batch_use b = {0};
    if (s->bind->batcher)
        pipeline_batch_use(s->bind->batcher, &b);
    in->batch.max = b.max;
    in->batch.runs = b.runs;
    in->batch.items = b.items;
    in->batch.run_s = b.run_s;
    in->batch.fixed_s = b.runs ? b.run_s / (double)b.runs : 0;
}

void tachy_run_verdict(struct tachy_summary *s, const struct run_readings *r)
{
    struct tachy_verdict_in in = {
        .seconds = s->seconds > 0 ? s->seconds : 1e-9,
        .frames = s->frames,
        .cores = s->cores,
        .held_back_s = r->held_back_s,
        .starved_s = r->starved_s,
        .pace_s = (double)r->source->pace_ns * 1e-9,
        .read_s = (double)r->source->read_ns * 1e-9,
        .write_s = (double)r->sink->write_ns * 1e-9,
        .process_cpu_s = r->process_cpu_s,
        .more_decoders = r->more_decoders,
        .max_bytes = r->max_bytes,
    };
    read_stages(&in, r);
    read_system(&in, r->before);
    read_batches(&in, r->stream);
    tachy_verdict(&s->verdict, &in);
    s->limited_by = tachy_limit_step(s->verdict.limit, &in);
    snprintf(s->limited_text, sizeof(s->limited_text), "%s", s->verdict.words);
}
