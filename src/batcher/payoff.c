#include "batcher/payoff.h"

#include "base/base.h"

enum { ONES = 64, RUNS = 4 }; // the first ones are cold; single ones cost no frame its time

void tachy_payoff_add(struct tachy_payoff *p, bool several, uint64_t ns)
{
    uint64_t *least = several ? &p->run_ns : &p->one_ns;
    int *count = several ? &p->runs : &p->ones;
    *least = *count ? TACHY_MIN(*least, ns) : ns;
    *count = TACHY_MIN(*count + 1, several ? RUNS : ONES);
}

bool tachy_payoff_alone(const struct tachy_payoff *p, int most)
{
    return most == 1 || p->ones < ONES || (tachy_payoff_known(p) && p->run_ns > p->one_ns * (uint64_t)most);
}

bool tachy_payoff_known(const struct tachy_payoff *p) { return p->runs == RUNS && p->ones == ONES; }
