#pragma once
#include "pipeline/recipe.h"
#include "profile/profile.h"

#include <pthread.h>
#include <tachy/run.h>

// The runner: a ring of items in the order of the stream, and workers that take from it
// whatever comes first. An item goes
//   push -> QUEUED -> (worker: preprocess, model, postprocess) -> INFERRED
//        -> (whoever completes the next in order: order) -> ORDERED
//        -> (worker: composite) -> DONE -> pull
// Items are handed out in order, so each queue is only a sequence number: everything below
// it has been taken. All fields are guarded by `lock` unless they say otherwise.

enum item_state {
    ITEM_FREE = 0,
    ITEM_QUEUED,
    ITEM_BUSY, // in a worker
    ITEM_INFERRED,
    ITEM_ORDERED,
    ITEM_DONE,
};

struct pipeline_slot {
    struct tachy_item item; // owned by whoever moved the state to BUSY, else by the lock
    enum item_state state;
    int err; // DONE with an error: the stream ends before this item
};

struct pipeline_worker {
    struct tachy_pipeline *pipeline;
    pthread_t thread;
    bool started;
    void *task_worker;       // the task's; used by this thread only
    struct tachy_prof *prof; // written by this thread only
};

struct tachy_pipeline {
    tachy_task *task;
    const struct tachy_log *log;
    struct tachy_video_info input, output;

    pthread_mutex_t lock;
    pthread_cond_t work;  // workers wait here
    pthread_cond_t space; // push waits here
    pthread_cond_t done;  // pull waits here
    int idle_workers;
    bool push_waits, pull_waits;

    struct pipeline_slot *slots; // item n is in slot n % depth
    int64_t depth;               // one more than may be in flight: the pulled one stays
    int64_t next_push, next_infer, next_order, next_composite, next_pull;
    bool ordering; // one thread is in task->order
    bool ended;    // push(NULL) has been called
    bool closing;
    int err;        // a failure: push refuses from here on
    int64_t err_at; // the first item in order that failed; those behind it are given up
    void *order_state;
    struct tachy_prof *order_prof; // written by the thread that has `ordering`; its samples by
                                   // the thread that has the lock

    struct tachy_profile *profile; // NULL: off
    uint32_t stream;               // of this pipeline's frames in the profile
    size_t in_bytes, out_bytes;    // of a frame
    uint64_t sampled;              // last sample, ticks

    struct pipeline_worker *workers;
    int nb_workers;
};

// When a pulled item came and for how long it had waited to be pulled, in ticks.
struct pipeline_times {
    uint64_t pushed, waited;
};

// As tachy_pipeline_pull(), but returns TACHY_ERR_AGAIN after `timeout_ms` without a result.
// `times` may be NULL.
int tachy_pipeline_pull_timed(tachy_pipeline *p, int timeout_ms, tachy_frame **frame,
                              const struct tachy_result **result, struct pipeline_times *times);

// Items that may be in flight within `max_bytes` (0: default), at least 2.
int64_t tachy_pipeline_depth(const struct tachy_video_info *in, const struct tachy_video_info *out,
                             int workers, int64_t max_bytes);

// Adds what the workers' threads spent on a core and ready without one, in seconds.
void tachy_pipeline_threads(const tachy_pipeline *p, double *cpu_s, double *queued_s);
// Seconds in the ordered part of the task.
double tachy_pipeline_order_s(const tachy_pipeline *p);
