#pragma once
#include <stddef.h>

// Levels of a pyramid and the search of one patch in them: the inner loops of flow.c.

enum { FLOW_PATCH = 8, FLOW_PAD = 16 };
#define FLOW_STRIDE(width) TACHY_ALIGN((width) + 2 * FLOW_PAD, 16) // of a level

// Two pictures of one size as floats, 0..255. Rows are `stride` apart, and FLOW_PAD pixels around repeat the edges.
struct flow_level {
    int width, height;
    ptrdiff_t stride;
    float *here, *there; // pixel (0, 0)
};

struct flow_vector {
    float u, v;
};

// One level's search: each patch begins at the flow of the coarser level or at what its neighbours found, and each pixel
// takes the weighted mean of the vectors of the patches that cover it.
struct flow_search {
    const struct flow_level *level;
    int coarse_width, coarse_height;        // 0: there is no coarser level
    const float *coarse_u, *coarse_v;       // dense
    struct flow_vector *grid;               // room for one vector per patch
    float *u, *v, *weight;                  // out, dense; weight: scratch
};

void flow_search_run(const struct flow_search *s);
