#include "ref/ref_argmax.h"

int tachy_ref_argmax(const float *v, int64_t step, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (v[i * step] > v[best * step])
            best = i;
    return best;
}
