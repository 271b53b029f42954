#pragma once
#include <tachy/run.h>

// What limited a run, from who waited for whom (idle attribution) rather than from how busy
// each was.
struct tachy_verdict_in {
    double held_back_s; // the source's thread waited for room in the pipeline
    double starved_s;   // the sink's thread waited for a result
};

// Sets s->limited_by and s->limited_text from s->seconds, utilisation, workers and steps.
void tachy_verdict(struct tachy_summary *s, const struct tachy_verdict_in *in);
