#pragma once
#include <stdint.h>

// Greedy suppression of boxes that overlap a better one of the same class. Boxes are x0, y0, x1, y1.

// 1: the intersection is more than `most` of the union. Boxes of no area never overlap.
int tachy_ref_overlap(const float a[4], const float b[4], float most);
// Numbers of the boxes that stay, best first, at most `limit`; how many. Equal scores: in their order;
// boxes with a score that is not more than `least` (NaN too) are left out. `classes` may be NULL.
int tachy_ref_nms(int32_t *kept, const float (*box)[4], const float *score, const int32_t *classes, int n, float most,
                  float least, int limit);
