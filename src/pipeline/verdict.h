#pragma once
#include <tachy/run.h>

// What limited a run, from who waited for whom (idle attribution) rather than from how busy
// each was.
struct tachy_verdict_in {
    int decoders;       // threads that read the source
    double held_back_s; // each of them waited for room in the pipeline, on average
    double starved_s;   // the sink's thread waited for a result
};

// Sets s->limited_by and s->limited_text from s->seconds, utilisation, workers and steps.
void tachy_verdict(struct tachy_summary *s, const struct tachy_verdict_in *in);
