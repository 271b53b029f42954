#pragma once
#include "base/base.h"

#include <stdatomic.h>
#include <tachy/live.h>

// Decides which frames of a live run are shed, and counts them. Times are nanoseconds on one increasing clock of the
// caller's; a frame's deadline travels with it. Thread-safety: any thread may ask and count; one thread at a time
// reports work.

struct tachy_shed {
    _Atomic uint64_t max_latency; // 0: none
    _Atomic int64_t counts[TACHY_SHED_STAGES][TACHY_SHED_COUNT];
    _Atomic int64_t late; // delivered after the deadline
    // Mean time from the begin of a stage to the frame written, and when that was last known.
    _Atomic uint64_t work[TACHY_SHED_STAGES], known[TACHY_SHED_STAGES];
};

#define TACHY_NO_DEADLINE UINT64_MAX

void tachy_shed_open(struct tachy_shed *s, uint64_t max_latency_ns);
uint64_t tachy_shed_deadline(const struct tachy_shed *s, uint64_t arrived);
// A frame went from the begin of `stage` to written in `ns`.
void tachy_shed_work(struct tachy_shed *s, enum tachy_shed_stage stage, uint64_t ns, uint64_t now);
// True if a frame with this deadline shall be shed before `stage`: because it is late, or, if `whole` (it needs all of
// the stage's work), because it would be. A mean that has not been renewed for a while loses weight, so that a slow
// phase does not shed forever. Does not count.
bool tachy_shed_due(const struct tachy_shed *s, enum tachy_shed_stage stage, uint64_t deadline,
                    uint64_t now, bool whole, enum tachy_shed_reason *reason);
// Nanoseconds that a frame with this deadline has beyond the work from `stage` on; INT64_MAX: it has no deadline.
int64_t tachy_shed_left(const struct tachy_shed *s, enum tachy_shed_stage stage, uint64_t deadline, uint64_t now);
void tachy_shed_count(struct tachy_shed *s, enum tachy_shed_stage stage, enum tachy_shed_reason reason);
void tachy_shed_read(const struct tachy_shed *s, struct tachy_live_stats *out);
