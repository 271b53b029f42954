#include "plan/cpu/vec/vec.h"
#include "plan/cpu/vec/vec_names.h"

// Pooling: the sum or the maximum of a window; sums over many pixels.

static VF window(const float *x, ptrdiff_t row, ptrdiff_t pixel, int rows, int columns, int n,
                 bool sum)
{
    VF v = sum ? vset1(0) : vset1(-INFINITY);
    for (int y = 0; y < rows; y++)
        for (int i = 0; i < columns; i++) {
            VF in = vload_upto(x + y * row + i * pixel, n);
            v = sum ? vadd(v, in) : vmax(v, in);
        }
    return v;
}

void ISA_NAME(tachy_pool_window)(float *y, const float *x, ptrdiff_t row, ptrdiff_t pixel,
                                 int rows, int columns, int channels, float scale)
{
    for (int c = 0; c < channels; c += VW) {
        int n = channels - c < VW ? channels - c : VW;
        bool sum = scale != 0;
        VF v = n == VW ? window(x + c, row, pixel, rows, columns, VW, sum)
                       : window(x + c, row, pixel, rows, columns, n, sum);
        vstore_upto(y + c, sum ? vmul(v, vset1(scale)) : v, n);
    }
}

void ISA_NAME(tachy_sum)(float *y, const float *x, int count, ptrdiff_t step, int n, float scale)
{
    const VF s = vset1(scale);
    int i = 0;
    for (; i + 4 * VW <= n; i += 4 * VW) {
        VF a = vset1(0), b = a, c = a, d = a;
        const float *p = x + i;
        for (int k = 0; k < count; k++, p += step) {
            a = vadd(a, vload(p));
            b = vadd(b, vload(p + VW));
            c = vadd(c, vload(p + 2 * VW));
            d = vadd(d, vload(p + 3 * VW));
        }
        vstore(y + i, vmul(a, s));
        vstore(y + i + VW, vmul(b, s));
        vstore(y + i + 2 * VW, vmul(c, s));
        vstore(y + i + 3 * VW, vmul(d, s));
    }
    for (; i < n; i += VW) {
        int part = n - i < VW ? n - i : VW;
        VF a = vset1(0);
        for (int k = 0; k < count; k++)
            a = vadd(a, vload_upto(x + k * step + i, part));
        vstore_upto(y + i, vmul(a, s), part);
    }
}
