#pragma once
#include <stdbool.h>
#include <stdint.h>

// Whether one run of a network for several pictures is quicker than a run for each. A run for several has a fixed size and is
// padded, so it takes as long for two as for all. Pure logic on times that the caller measures; the owner's lock guards it.

struct tachy_payoff {
    uint64_t run_ns, one_ns; // least time of a run for several, of one for a single picture
    int runs, ones;          // that were measured, up to where the least is trusted
};

// A run for several pictures, or (not `several`) for one, took `ns`.
void tachy_payoff_add(struct tachy_payoff *p, bool several, uint64_t ns);
// True: each picture is better run alone than up to `most` together. Both are tried first, single ones before.
bool tachy_payoff_alone(const struct tachy_payoff *p, int most);
// Both have been tried.
bool tachy_payoff_known(const struct tachy_payoff *p);
