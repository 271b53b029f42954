#pragma once
#include "base/base.h"
#include "cluster/dots.h"

// Distances of many pairs at once. Products in 32 bits say which pairs may be nearer than a limit, with a proven margin for their
// rounding; only those are measured. What is measured is in double precision and has the same bits on every processor.

struct cluster_space {
    const float *point; // n rows of `size`, the caller's
    int n, size;
    tachy_dots *dots;
    // Products are of (point - mean) * scale: no number overflows, and a common offset costs no precision.
    double *mean, scale;
    float *half; // half the square of a scaled point's length, less the margin
};

int cluster_space_open(struct cluster_space *s, const float *point, int n, int size); // TACHY_ERR_NOMEM; then close as well
void cluster_space_close(struct cluster_space *s);

// Packs the points number[0..count-1] side by side for tachy_dots; the last one fills the rest of `lanes`.
void cluster_pack(const struct cluster_space *s, const int32_t *number, int count, int lanes, float *to);

// Points i and j can be nearer than `limit` (squared) only if !(dot <= cluster_threshold(s, i, limit) + half[j]); no sum is NaN.
float cluster_threshold(const struct cluster_space *s, int i, double limit);

// Squared Euclidean distance.
double cluster_distance(const struct cluster_space *s, int i, int j);
