#pragma once
#include "cuda/device.h"

// How many frames per second a GPU gets through of one kind of work when nothing else is in its way:
// many streams side by side, everything queued before the first of it begins, so that neither the
// host nor a single stream's order holds it up.
struct tachy_gpu_load {
    // Queues the work of `frames` frames on the lane's stream and does not wait; the device's context is
    // current.
    int (*queue)(void *user, int lane);
    int frames; // 0: 1
    void *user;
    const cuda_stream *streams; // one per lane, with nothing else on them
    int lanes;
};

// *fps: with as many of the lanes as give the most of it, *best. The lanes are tried by 1, 2, 4 ... until
// another try gains nothing; *best > 0: only that many. Some milliseconds each, on the calling thread.
// 0 if the work takes no time that events could tell. Failures are logged, also those of `queue`.
int tachy_gpu_saturate(double *fps, int *best, struct tachy_device *d, const struct tachy_gpu_load *load,
                       const struct tachy_log *log);
