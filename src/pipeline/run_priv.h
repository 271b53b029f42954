#pragma once
#include "pipeline/control.h"
#include "pipeline/live_stream.h"
#include "pipeline/readers.h"
#include "pipeline/resume.h"
#include "pipeline/tuner.h"
#include "profile/energy.h"
#include "profile/system.h"
#include "sink/sink_ops.h"

// For run.c; verdict.c reads it.

enum { RUN_DECODED, RUN_WORKED, RUN_WRITTEN, RUN_COUNTS };

// Least squares fit of a count over time. Frames that arrive in bursts, such as batches, do not change its slope.
struct tachy_slope {
    double n, t, i, tt, ti;
};

struct run {
    const struct tachy_run_params *p;
    tachy_pipeline *pipeline;
    tachy_stream *stream;
    struct live_stream *live; // what is pushed and pulled in order goes through it
    struct run_readers readers;
    struct tachy_resume *resume;    // NULL: the output is written in one piece
    struct tachy_prof *sink_prof;   // written by the calling thread
    int encode;                     // the sink's step
    _Atomic int64_t written;        // by the calling thread
    _Atomic uint64_t starved_ticks; // the calling thread waited for results
    _Atomic int64_t damaged;        // known at the end
    _Atomic int64_t returns, returned_bytes; // memory given back, by the calling thread
    _Atomic uint64_t first_ns;      // from the start to the first frame written
    uint64_t start_ns, cpu_start_ns;
    struct control_run controlled;
    bool tunes;                    // `tuner` searches
    struct tachy_tuner tuner;
    struct tachy_slope steady[2][RUN_COUNTS]; // from the first frame written and after the warm-up; the calling thread's
    double steady_from_s;          // since the start; 0: not yet
    double counted_s;              // when they were counted last
    bool cut;                      // the stream was ended after what had been begun
    bool timed_out;                // the time limit has ended reading
    struct tachy_system before; // when the run began
    struct tachy_energy_meter *energy; // NULL: not measured
    uint64_t energy_ns;         // when it was read last
    double work_before_s, transfer_before_s; // the pipeline's then
    struct tachy_gpu_share gpus_before[TACHY_MAX_GPUS]; // the task's then
    int64_t models_before[TACHY_MAX_MODELS];
    struct tachy_summary *sum;
};

// verdict.c. Sets s->verdict; steps, frames, seconds, cores and workers of `s` are
// set. `cpu_s`: the process's since the run began. Any thread.
void run_verdict(const struct run *r, double paused_s, double cpu_s, struct tachy_summary *s);
