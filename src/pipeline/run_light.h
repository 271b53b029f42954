#pragma once
#include "pipeline/light.h"
#include "pipeline/pipeline.h"

// The light ratio of a run: measured before and after it (--calibrate), since the machine's speed drifts, or taken from
// an earlier run. With several GPUs each is measured while the others idle.
struct run_light {
    const struct tachy_run_params *p;
    const struct tachy_video_info *input, *output; // of the stream
    struct tachy_rows *steps;   // the pipeline's
    int group;                   // of its frames that a worker takes at once
    int nb;                      // GPUs; 1 if there is one or none
    int gpu[TACHY_MAX_GPUS];     // CUDA's ordinals
    struct tachy_light *samples; // of each; NULL: nothing is measured
};

// Call it before the run, with all fields except `samples` zero or set by it. Failures are logged, and nothing is
// measured then.
void run_light_begin(struct run_light *l, const struct tachy_run_params *p, const tachy_stream *s);
// Behind it, fills in the summary's light figures; its frames, GPUs and fps are known.
void run_light_end(struct run_light *l, struct tachy_summary *sum);
void run_light_close(struct run_light *l);
