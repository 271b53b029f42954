#pragma once
#include "base/base.h"

// Reading at a stream's own rate, as FFmpeg's -re: a frame is handed out no sooner than its time
// after the first one. What comes too late is not waited for, and makes nothing after it late.

struct tachy_pace {
    bool started;
    uint64_t start_ns; // when the first frame was handed out
    double first_s;    // its time
};

// Sleeps until a frame of time `time_s` is due, or until soon after stop(user) is true; true: it
// is due.
bool tachy_pace_wait(struct tachy_pace *p, double time_s, bool (*stop)(void *user), void *user);
