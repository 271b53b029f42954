#pragma once
#include "base/base.h"

// Dense optical flow between two pictures of luma: where what is at each pixel of the one is in the other.
//
// Every build and every instruction set gives the same bits. One object is used by one thread at a time.
typedef struct tachy_flow tachy_flow;

enum { TACHY_FLOW_FINEST = 64, FLOW_LEVELS_MOST = 24 };

enum tachy_flow_detail {
    // For masks: the search ends at a level whose longer side has at most TACHY_FLOW_FINEST pixels, and the flow is
    // interpolated from there.
    TACHY_FLOW_MASK,
    // For pictures: it ends at half their size, and each level's flow is refined (variational.h).
    TACHY_FLOW_PICTURE,
};

// Pictures of 1..65535 pixels along each axis. If an axis has fewer than eight, the flow is 0 everywhere.
// TACHY_ERR_INVAL, TACHY_ERR_NOMEM: *out is NULL. Free *out with tachy_flow_close().
int tachy_flow_open(tachy_flow **out, int width, int height, enum tachy_flow_detail detail);

// Pixel (x, y) of `here` is at (x + u, y + v) of `there`, in pixels. u and v are the caller's: width * height each, dense.
// Rows of both pictures are dense, too.
void tachy_flow_run(tachy_flow *f, const uint8_t *here, const uint8_t *there, float *u, float *v);

void tachy_flow_close(tachy_flow **f);

// ---- For the CUDA form (flow_cuda.h)

// Number of levels to search, starting after *finest halvings of the picture; 0: it is smaller than a patch, and the
// flow is 0.
int flow_levels(int width, int height, enum tachy_flow_detail detail, int *finest);
// A plane of the finest level, without gaps, at the pictures' size and in their pixels: of every `every`-th pixel of every such
// row, from the first one on. `row`: scratch, a row of the level.
void flow_stretch(const float *from, int finest, int width, int height, int every, float *row, float *to);
