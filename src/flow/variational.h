#pragma once
#include "flow/patch.h"

// Refines a flow by minimising brightness and gradient constancy plus smoothness, all with robust penalties (Brox, Bruhn,
// Papenberg, Weickert 2004, "High Accuracy Optical Flow Estimation Based on a Theory for Warping"). The linear systems are solved
// by red-black successive over-relaxation, with the pixels of either colour of a row side by side in memory.
//
// Every instruction set gives the same bits.
struct flow_variational;

// For levels of up to width x height pixels. NULL: out of memory. Free with flow_variational_close().
struct flow_variational *flow_variational_open(int width, int height);
// u and v are dense, of the level's size: the displacement of a pixel of `here` to its place in `there`. Works in
// place.
void flow_variational_run(struct flow_variational *r, const struct flow_level *level, float *u, float *v);
void flow_variational_close(struct flow_variational **r);
