#pragma once
#include "base/base.h"
#include "base/numeric.h"
#include "profile/gpu_priv.h"
#include "profile/profile.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>

// One thread's place in the profile.
struct tachy_lane {
    enum tachy_lane_kind kind;
    int index; // among those of its kind
    struct tachy_ring *spans, *samples;
    struct tachy_prof *total; // of the threads that have left
    struct tachy_prof *live;  // of the one that has the lane now; NULL: free
};

enum { PROFILE_MAX_LANES = 4096 };

// Single runs of the model's operators, merged from ONNX Runtime's profile.
struct profile_op {
    uint64_t start_ns, end_ns; // CLOCK_MONOTONIC
    uint32_t name;             // index in `ops`
    uint32_t lane;
};

// Totals of one operator of a model.
struct profile_op_sum {
    char *name, *type; // "conv_3", "Conv"
    int64_t calls;
    uint64_t ns;
    uint64_t bytes; // largest output
    uint64_t multiply_adds, moved_bytes; // of one call, the latter of operands and result; 0: not known
};

struct profile_ops {
    struct profile_op_sum *sum;
    size_t n;
    struct profile_op *run; // ring of `capacity`, `count` were added ever
    uint64_t count, capacity;
    int64_t model_runs;
};

struct tachy_profile {
    struct tachy_profile_params params;
    struct tachy_rows steps; // of all lanes
    const struct tachy_log *log;
    struct tachy_tick_anchor start;
    pthread_mutex_t lock; // guards all of the following
    struct tachy_lane *lane[PROFILE_MAX_LANES];
    int nb_lanes;
    struct {
        long tid;
        int lane;
    } * thread; // every thread that has worked in a lane
    size_t nb_threads;
    uint32_t streams;
    int64_t frames;
    double seconds;    // of all runs
    struct tachy_verdict verdict; // of the last run
    int runs, workers;
    json_t *context;    // tachy_profile_describe(); NULL: none
    char *dir, *option; // of the operators' files; made when asked for
    struct profile_ops ops;
    struct profile_gpu gpu;
};

// "source", "worker 0", "order", "sink", "gpu 0", "copy 0"; `buf` is returned.
const char *profile_lane_name(const struct tachy_lane *l, char buf[32]);
const char *profile_kind_name(enum tachy_lane_kind kind);

// Figures for the tables. Under the lock.
struct profile_figures {
    int nb_steps;
    struct tachy_step_stats step[TACHY_LANE_KINDS][TACHY_MAX_STEPS];
    struct tachy_step_stats all[TACHY_MAX_STEPS];
    struct tachy_latency latency;
};
int profile_figures(struct tachy_profile *p, struct profile_figures *f);

// operators.c: takes in what the engines have left in p->dir, and removes it. Under the lock.
void profile_ops_collect(struct tachy_profile *p);
void profile_ops_free(struct profile_ops *ops);
// Operators by time, longest first; free() the array. *total_ns: of all together.
const struct profile_op_sum **profile_ops_sorted(const struct profile_ops *ops, uint64_t *total_ns);
// The array with the largest output first.
void profile_ops_by_bytes(const struct profile_op_sum **sorted, size_t n);
// The kept runs, by lane and time; *n of them; free() the array.
struct profile_op *profile_ops_runs(const struct profile_ops *ops, size_t *n);

// timeline.c, under the lock: [{lane, step, frame, start_ms, end_ms}], spans of some frames from the middle of those that are kept;
// [{seconds, resident_mib, in_flight_mib, frames}], the most of each of up to 200 parts of the time.
json_t *profile_timeline_json(const struct tachy_profile *p);
json_t *profile_memory_json(const struct tachy_profile *p);

// environment.c: {"tachy", "cpu", ...} with the caller's members. Under the lock.
json_t *profile_environment(struct tachy_profile *p);

// A file written under a temporary name.
struct profile_file {
    FILE *f;
    char *path, *part;
    const struct tachy_log *log;
    locale_t before; // of the thread, which writes a decimal point until close
};
int profile_file_open(struct profile_file *o, const char *path, const struct tachy_log *log);
// Renames where everything arrived; else removes it and says why.
int profile_file_close(struct profile_file *o, int err);
// A JSON string with its quotes.
void profile_put_string(FILE *f, const char *text);
