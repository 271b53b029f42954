#include "batcher/backoff.h"

#include "base/base.h"

enum { LONGEST = 64 }; // times the first quiet time

void tachy_backoff_init(struct tachy_backoff *b, int most, uint64_t quiet_ns)
{
    *b = (struct tachy_backoff){
        .most = TACHY_MAX(most, 1),
        .now = TACHY_MAX(most, 1),
        .quiet_ns = quiet_ns,
        .first_quiet_ns = quiet_ns,
    };
}

bool tachy_backoff_shortage(struct tachy_backoff *b, int tried, uint64_t now_ns)
{
    b->shortages++;
    if (tried > b->now)
        return true;
    // The retry with more failed: wait longer before the next one.
    if (b->grown)
        b->quiet_ns = TACHY_MIN(b->quiet_ns * 2, b->first_quiet_ns * LONGEST);
    b->grown = false;
    b->since_ns = now_ns;
    if (b->now == 1)
        return false;
    b->now = TACHY_MAX(TACHY_MIN(b->now, tried) / 2, 1);
    return true;
}

bool tachy_backoff_ok(struct tachy_backoff *b, uint64_t now_ns)
{
    if (b->now == b->most || now_ns - b->since_ns < b->quiet_ns)
        return false;
    b->now = TACHY_MIN(b->now * 2, b->most);
    b->since_ns = now_ns;
    b->grown = true;
    if (b->now == b->most)
        b->quiet_ns = TACHY_MAX(b->quiet_ns / 2, b->first_quiet_ns);
    return true;
}
