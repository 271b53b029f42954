#include "ref/ref_dot_half.h"

#include "base/half.h"

float tachy_ref_dot_half(const uint16_t *a, const float *b, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += tachy_half_to_float(a[i]) * b[i];
    return sum;
}
