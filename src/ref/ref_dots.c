#include "ref/ref_dots.h"

#include <string.h>

void tachy_ref_dots(const float *a, const float *b, int n, float *out)
{
    for (int r = 0; r < TACHY_DOTS_ROWS; r++) {
        float sum[TACHY_DOTS_LANES] = {0};
        for (int k = 0; k < n; k++)
            for (int l = 0; l < TACHY_DOTS_LANES; l++)
                sum[l] += a[k * TACHY_DOTS_ROWS + r] * b[k * TACHY_DOTS_LANES + l];
        memcpy(out + r * TACHY_DOTS_LANES, sum, sizeof(sum));
    }
}
