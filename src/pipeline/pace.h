#pragma once
#include "base/base.h"

// Reads at a stream's own rate, like FFmpeg's -re: no frame is returned before its time after the first one. A late
// frame is returned at once, and does not delay later ones.

struct tachy_pace {
    bool started;
    uint64_t start_ns; // when the first frame was handed out
    double first_s;    // its time
};

// Sleeps until a frame of time `time_s` is due, or until soon after stop(user) is true; true: it
// is due.
bool tachy_pace_wait(struct tachy_pace *p, double time_s, bool (*stop)(void *user), void *user);
