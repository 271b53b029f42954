#pragma once
#include "cuda/device.h"

// Measures how many frames per second a GPU completes of one kind of work when nothing else limits it: many parallel
// streams, everything queued before the first starts, so that neither the host nor a single stream's order holds it up.
struct tachy_gpu_load {
    // Queues the work of `frames` frames on the lane's stream and does not wait; the device's context is
    // current.
    int (*queue)(void *user, int lane);
    int frames; // 0: 1
    void *user;
    const cuda_stream *streams; // one per lane, with nothing else on them
    int lanes;
};

// *fps: the rate with the number of lanes that gives the most, *best. Tries 1, 2, 4, ... lanes until another step gains
// nothing; *best > 0: only that number. Takes some milliseconds each, on the calling thread. 0 if the work takes no
// time that events can measure. Failures are logged, also those of `queue`.
int tachy_gpu_saturate(double *fps, int *best, struct tachy_device *d, const struct tachy_gpu_load *load,
                       const struct tachy_log *log);
