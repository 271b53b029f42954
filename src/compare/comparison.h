#pragma once
#include "compare/judge.h"

// Result of a comparison: one or two mattes, each against the truth.
struct tachy_comparison {
    char *file[2], *against;
    int nb;              // judged: 1 or 2
    int64_t frames, room;
    int width, height;   // of the first frame
    double (*figures[2])[TACHY_MATTE_METRICS]; // of each frame; NaN: the metric says nothing about it
    double ghosting[2];  // over all pixels of all frames; NaN: there is none
};

// True if x is worse than y; NaN is never worse.
bool tachy_matte_worse(enum tachy_matte_metric metric, double x, double y);
// Mean over the frames that have the figure; of ghosting, over the pixels. NaN: none has it.
double tachy_comparison_mean(const tachy_comparison *c, int which, enum tachy_matte_metric m);
// The frame with the worst figure; -1: none has one.
int64_t tachy_comparison_worst(const tachy_comparison *c, int which, enum tachy_matte_metric m);
