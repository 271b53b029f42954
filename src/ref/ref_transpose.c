#include "ref/ref_plan.h"

void tachy_ref_transpose(float *y, ptrdiff_t y_step, const float *x, ptrdiff_t x_step, int rows,
                         int columns)
{
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++)
            y[c * y_step + r] = x[r * x_step + c];
}
