#include "pipeline/verdict.h"

#include "base/base.h"

#include <stdio.h>

static enum tachy_step busiest(const struct tachy_summary *s, int from, int to)
{
    int best = from;
    for (int i = from; i <= to; i++)
        if (s->steps[i].busy_s > s->steps[best].busy_s)
            best = i;
    return (enum tachy_step)best;
}

void tachy_verdict(struct tachy_summary *s, const struct tachy_verdict_in *in)
{
    double wall = s->seconds > 0 ? s->seconds : 1;
    double source_busy = s->steps[TACHY_STEP_DECODE].busy_s / (wall * TACHY_MAX(in->decoders, 1));
    double sink_busy = s->steps[TACHY_STEP_ENCODE].busy_s / wall;
    double work = 0, all = 0;
    for (int i = TACHY_STEP_PREPROCESS; i <= TACHY_STEP_COMPOSITE; i++)
        work += s->steps[i].busy_s;
    for (int i = 0; i < TACHY_STEP_COUNT; i++)
        all += s->steps[i].busy_s;
    double workers_busy = s->workers ? work / (wall * s->workers) : 0;
    char *t = s->limited_text;
    size_t n = sizeof(s->limited_text);

    if (s->utilisation >= 0.85) {
        s->limited_by = busiest(s, TACHY_STEP_DECODE, TACHY_STEP_ENCODE);
        snprintf(t, n,
                 "all %d cores are busy (%.0f %%); %s takes most of it, %.0f %% of the steps' time",
                 s->cores, 100 * s->utilisation, tachy_step_name(s->limited_by),
                 100 * s->steps[s->limited_by].busy_s / (all > 0 ? all : 1));
    } else if (source_busy >= 0.8 && in->held_back_s < 0.15 * wall) {
        s->limited_by = TACHY_STEP_DECODE;
        snprintf(
            t, n,
            "decode: its thread was busy %.0f %% of the time and the workers waited for frames",
            100 * source_busy);
    } else if (sink_busy >= 0.7 && in->starved_s < 0.25 * wall) {
        s->limited_by = TACHY_STEP_ENCODE;
        snprintf(t, n,
                 "encode: the sink was busy %.0f %% of the time and finished frames waited for it",
                 100 * sink_busy);
    } else {
        s->limited_by = busiest(s, TACHY_STEP_PREPROCESS, TACHY_STEP_COMPOSITE);
        snprintf(t, n, "%s: the %d workers were busy %.0f %% of the time",
                 tachy_step_name(s->limited_by), s->workers, 100 * workers_busy);
    }
}
