#pragma once
#include <stdbool.h>
#include <stdint.h>

// How many items may be worked on together while memory is short: halved at each shortage, doubled
// again after a quiet time, which grows where the larger number failed again soon. Pure logic on a
// clock that the caller reads; guarded by whoever owns it.

struct tachy_backoff {
    int most, now;      // 1 <= now <= most
    uint64_t quiet_ns;  // time without a shortage after which `now` doubles
    uint64_t first_quiet_ns;
    uint64_t since_ns;  // of the last change or shortage
    int64_t shortages;  // that were told
    bool grown;         // the last change was upwards
};

void tachy_backoff_init(struct tachy_backoff *b, int most, uint64_t quiet_ns);
// A shortage while `tried` items were worked on. True: there is less to try with; false: one item
// alone is too much. A shortage of more items than are allowed by now is old news and only counted.
bool tachy_backoff_shortage(struct tachy_backoff *b, int tried, uint64_t now_ns);
// Work went well. True if the number grew.
bool tachy_backoff_ok(struct tachy_backoff *b, uint64_t now_ns);
