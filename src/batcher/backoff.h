#pragma once
#include <stdbool.h>
#include <stdint.h>

// Limits the number of items processed together while memory is short: halves it at each shortage, and doubles it after
// a quiet time, which grows if the larger number soon fails again. Pure logic on a clock that the caller reads; the
// owner's lock guards it.

struct tachy_backoff {
    int most, now;      // 1 <= now <= most
    uint64_t quiet_ns;  // time without a shortage after which `now` doubles
    uint64_t first_quiet_ns;
    uint64_t since_ns;  // of the last change or shortage
    int64_t shortages;  // that were told
    bool grown;         // the last change was upwards
};

void tachy_backoff_init(struct tachy_backoff *b, int most, uint64_t quiet_ns);
// Reports a shortage with `tried` items. True: retry with fewer; false: a single item is too much. A shortage with more
// items than the current limit is stale and only counted.
bool tachy_backoff_shortage(struct tachy_backoff *b, int tried, uint64_t now_ns);
// Reports success. True if the limit grew.
bool tachy_backoff_ok(struct tachy_backoff *b, uint64_t now_ns);
