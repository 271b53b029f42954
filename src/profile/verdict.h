#pragma once
#include "profile/rows.h"

#include <tachy/verdict.h>

// The rules for struct tachy_verdict, on plain figures, so that each can be tested separately. All times are seconds
// since the run began; 0 if not measured.

// One or several threads that do the same. busy = on a core + waiting for one + waiting for
// something else (a device, a file, other threads).
struct verdict_stage {
    int threads;
    double busy_s;   // in its steps, all threads together
    double cpu_s;    // of that on a core
    double queued_s; // of that ready to run while no core was free
};

struct tachy_verdict_in {
    const struct tachy_rows *steps; // what a step is
    int encode;  // the sink's step
    int batched; // that `engine` runs; -1: there is none
    double seconds;
    int64_t frames;
    int cores;
    struct verdict_stage source, work, sink; // work: for all streams that share the workers
    struct verdict_stage engine; // threads of the model's own, which collect batches; 0 threads:
                                 // the workers run it
    double work_queued_s; // the workers' queued time, also between their steps
    double held_back_s; // the source's thread waited for room, or had no more to read
    double ended_s;     // of that: it had no more to read
    bool sheds;         // the source is never held back: frames that find no room are dropped
    double starved_s;   // the sink's thread waited for a result
    double step_busy_s[TACHY_MAX_STEPS]; // by step, all threads together
    double order_s;       // of the workers' busy time: what goes frame by frame, in the busiest of such parts
    double pace_s;        // of the source's busy time: it waited for its own clock
    double read_s;        // of the source's busy time: reading the input
    double write_s;       // of the sink's busy time: writing the output
    double transfer_s;    // of the time of those that run the model: copies between host and device
    double process_cpu_s; // of all threads, also those of codecs
    double other_cpu_s;   // of other programs on the cores that this one may use
    double memory_stall_s;   // nobody could go on because memory was short
    int64_t major_faults;    // pages that this process had to read back
    double clock_mhz, clock_max_mhz; // now, and what the processor may reach
    int64_t throttled;       // times that it was slowed down to stay cool
    bool more_decoders;      // the input can be decoded by more decoders side by side than it was
    bool cut_short;          // --max-frames leaves one decoder
    bool nvdec;              // a GPU decodes: more threads do not help
    int decode_engines;      // of the GPUs that decode; 0: unknown, or the CPU decodes
    const char *faster_output; // what would make the output cheaper to encode; NULL: nothing that the sink knows
    int every_nth;           // of the input's frames are read; 0: all
    int64_t max_bytes;       // bound of the frames in flight, for the words
    struct {
        int max;             // pictures a run may hold
        int64_t runs, items; // runs of the model, and pictures in them
        double run_s;        // of all runs together
        double fixed_s;      // what one run costs however few pictures it holds; 0: not known
    } batch;
};

// Chooses one limit and fills *v.
void tachy_verdict(struct tachy_verdict *v, const struct tachy_verdict_in *in);

// True if the workers run this step.
bool verdict_is_work(const struct tachy_verdict_in *in, int step);
// True if the source reads all the time and waits for nobody, while the workers look busy because they sleep in their steps: they
// may be waiting for each other's turn on a device.
bool verdict_source_leads(const struct tachy_verdict_in *in);
// verdict_gain.c: CPU time of a step, including that of codec threads.
double verdict_cpu_of(const struct tachy_verdict_in *in, int step);
// True if this process wanted more cores than there are.
bool verdict_cores_busy(const struct tachy_verdict_in *in);
// End-to-end speed-up if the limit v->limit of v->step vanished, >= 1; 0: not known.
double verdict_gain(const struct tachy_verdict_in *in, const struct tachy_verdict *v);
// verdict_words.c: words, evidence and remedy for v->limit, v->step and v->expected_gain.
void verdict_words(struct tachy_verdict *v, const struct tachy_verdict_in *in);
