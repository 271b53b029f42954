#pragma once
#include "cuda/rates.h"
#include "profile/profile.h"

// The GPU part of a profile. Three sources, one clock: events around the work that a stage enqueues (always), NVML's
// sensors in a thread (if there is a driver), CUPTI's record of every kernel and copy (on request).

// Events of one CUDA stream, used by the thread that enqueues on it, with the device's context
// current. Nothing waits for the GPU but open and close: begin and end record an event each, and
// what has finished is read later. A NULL timer is off.
struct tachy_gpu_timer;

struct tachy_gpu_timer_params {
    struct tachy_profile *profile; // NULL: *out becomes NULL, which is no error
    struct tachy_device *device;   // retained; must outlive the timer
    cuda_stream stream;
    int depth;   // intervals that may be unfinished; 0: 256
    bool copies; // its intervals are copies between host and GPU: a lane of their own kind, and no
                 // part of the derived figures
};
int tachy_gpu_timer_open(struct tachy_gpu_timer **out, const struct tachy_gpu_timer_params *p);

// The work of one interval, for the derived figures; 0: not counted.
struct tachy_gpu_work {
    double bytes;         // that had to move: each input read once, each output written once
    double ops;           // a multiplication and an addition are two
    enum tachy_rate rate; // which of the matmul rates the operations are held against
};

// Work enqueued between begin and end belongs to `step` of `item`. If `depth` intervals are unfinished already, this
// one is counted as dropped and not measured.
void tachy_gpu_timer_begin(struct tachy_gpu_timer *t, int step,
                           struct tachy_prof_item item);
// `work` may be NULL.
void tachy_gpu_timer_end(struct tachy_gpu_timer *t, const struct tachy_gpu_work *work);
// Waits for what is enqueued, takes it in and frees the timer.
void tachy_gpu_timer_close(struct tachy_gpu_timer **t);
