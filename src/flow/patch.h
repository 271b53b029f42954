#pragma once
#include <stddef.h>

// Levels of a pyramid and the search of one patch in them: the inner loops of flow.c.

enum { FLOW_PATCH = 8, FLOW_PAD = 16 };

// Two pictures of one size as floats, 0..255. Rows are `stride` apart, and FLOW_PAD pixels around repeat the edges.
struct flow_level {
    int width, height;
    ptrdiff_t stride;
    float *here, *there; // pixel (0, 0)
};

struct flow_vector {
    float u, v;
};

// A patch of `here`, whose upper left pixel is (x, y), with its gradients and the inverse of their Hessian.
struct flow_patch {
    int x, y;
    float value[FLOW_PATCH][FLOW_PATCH], gx[FLOW_PATCH][FLOW_PATCH], gy[FLOW_PATCH][FLOW_PATCH];
    float sum_x, sum_y;  // of the gradients
    float xx, xy, yy;    // of the inverse
};

void flow_patch_of(struct flow_patch *p, const struct flow_level *l, int x, int y);

// Begins at the best of the `n` candidates, and takes Gauss-Newton steps while they bring the patch nearer to what is there.
struct flow_vector flow_patch_search(const struct flow_patch *p, const struct flow_level *l, const struct flow_vector from[],
                                     int n);

// Adds the patch's vector to each pixel that it covers, with the weight 1 / max(1, difference there). Planes are dense.
void flow_patch_spread(const struct flow_patch *p, const struct flow_level *l, struct flow_vector at, float *u, float *v,
                       float *weight);
