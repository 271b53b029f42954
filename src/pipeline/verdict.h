#pragma once
#include "pipeline/pipeline.h"
#include "profile/system.h"
#include "profile/verdict.h"
#include "sink/sink_ops.h"
#include "source/source_ops.h"

// What a run knows about itself for the verdict (profile/verdict.h). All since it began.
struct run_readings {
    const struct tachy_summary *sum; // seconds, frames, steps, cores and workers are set
    const tachy_stream *stream;
    const tachy_source *source;
    const tachy_sink *sink;
    struct tachy_prof *const *source_profs; // one a thread that reads
    int nb_source;
    bool more_decoders; // than nb_source could be had
    struct tachy_prof *sink_prof;
    double held_back_s, starved_s; // a reading thread on average; the sink's
    double process_cpu_s;
    int64_t max_bytes;
    const struct tachy_system *before; // read when the run began
    double work_before_s, transfer_before_s; // pipeline_work_s(), pipeline_transfer_s() then
};

// Sets s->verdict, s->limited_by and s->limited_text. `s` is r->sum.
void tachy_run_verdict(struct tachy_summary *s, const struct run_readings *r);
