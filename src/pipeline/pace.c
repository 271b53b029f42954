#include "pipeline/pace.h"

#include "base/clock.h"

static const uint64_t SLICE = 50000000; // between looks at stop(), ns

bool tachy_pace_wait(struct tachy_pace *p, double time_s, bool (*stop)(void *user), void *user)
{
    uint64_t now = tachy_now_ns();
    if (!p->started)
        *p = (struct tachy_pace){true, now, time_s};
    double after = TACHY_MAX(time_s - p->first_s, 0.0);
    uint64_t due = p->start_ns + (uint64_t)(after * 1e9);
    for (; now < due; now = tachy_now_ns()) {
        if (stop(user))
            return false;
        tachy_sleep_until(TACHY_MIN(due, now + SLICE));
    }
    return true;
}
