#pragma once
#include "base/base.h"

#include <tachy/live.h>

// The controller of mode live: while frames miss their deadline it takes degradation steps, each of which reduces the
// work per frame, and undoes them when there is room again. Pure logic on the caller's clock; no thread, no allocation.
// One thread at a time.
//
// Frames are judged in windows of 250 ms. A window in which over 2 % of the frames missed is bad; one in which none did
// is good. Bad windows for `down_ns`, never a second apart: one step down. They need not be consecutive: at 10 fps a
// window has three frames, so if one frame in six misses, every other window is good. Good windows for the hold time:
// one step up. The hold time is counted from the last step of either kind, so down and up never alternate faster. It is
// `hold_ns` at first, doubles (up to `hold_max_ns`) each time that a step up is undone within it, and returns to
// `hold_ns` once a step up has lasted that long.

struct tachy_controller_params { // {0} except `steps`: defaults
    unsigned steps;       // bits 1 << enum tachy_degrade: what the pipeline can do
    uint64_t down_ns;     // 0: 500 ms
    uint64_t hold_ns;     // 0: 3 s
    uint64_t hold_max_ns; // 0: 60 s
    uint64_t deadline_ns; // for the messages only
    const struct tachy_log *log;
};

struct tachy_controller {
    struct tachy_controller_params p;
    enum tachy_degrade steps[TACHY_DEGRADE_COUNT]; // the declared ones, in order
    int nb_steps, level;                     // steps[0 .. level - 1] are in force
    uint64_t hold_ns;                        // now
    uint64_t changed;                        // last step, or start
    bool went_up;                            // that was one up
    uint64_t window, bad_since, good_since;  // start of the window; 0: the last was not
    uint64_t bad_until;                      // end of the last bad window
    int64_t frames, missed;                  // in the window
    double miss_share;                       // of the last window
    uint64_t counted;                        // up to when degraded[].seconds is
    struct tachy_degraded degraded[TACHY_DEGRADE_COUNT];
};

// `now`: any rising clock in nanoseconds, greater than 0.
void tachy_controller_open(struct tachy_controller *c, const struct tachy_controller_params *p,
                           uint64_t now);
// A frame is through: delivered in time, or `missed` (delivered late, or shed). True: the level
// has changed; `now` must not fall.
bool tachy_controller_frame(struct tachy_controller *c, uint64_t now, bool missed);
bool tachy_controller_has(const struct tachy_controller *c, enum tachy_degrade e);
// The steps in force as bits 1 << enum tachy_degrade.
unsigned tachy_controller_bits(const struct tachy_controller *c);
// How often and how long each step was in force until `now`.
void tachy_controller_stats(struct tachy_controller *c, uint64_t now,
                            struct tachy_degraded out[TACHY_DEGRADE_COUNT]);
