#include "plan/cpu/vec/vec.h"
#include "plan/cpu/vec/vec_names.h"

// Pooling: the sum or the maximum of a window; sums over many pixels.

enum { SIDE = 4 }; // vectors side by side, whose sums or maxima do not wait for each other

// A window's `vectors` vectors, the last of `n` channels; `scale` 0: the maximum. All but x and y are constants
// where this is inlined, and the size.
static inline __attribute__((always_inline)) void window(float *y, const float *x, ptrdiff_t row, ptrdiff_t pixel,
                                                         int rows, int columns, int vectors, int n, float scale,
                                                         bool sum)
{
    VF v[SIDE];
    for (int k = 0; k < vectors; k++)
        v[k] = vset1(sum ? 0 : -INFINITY);
    for (int i = 0; i < rows; i++, x += row) {
        const float *p = x;
        for (int j = 0; j < columns; j++, p += pixel)
            for (int k = 0; k < vectors; k++) {
                VF in = vload_upto(p + k * VW, n);
                v[k] = sum ? vadd(v[k], in) : vlarger(v[k], in);
            }
    }
    for (int k = 0; k < vectors; k++)
        vstore_upto(y + k * VW, sum ? vmul(v[k], vset1(scale)) : v[k], n);
}

static inline __attribute__((always_inline)) void windows(float *y, const float *x, ptrdiff_t row, ptrdiff_t pixel,
                                                          int rows, int columns, int channels, float scale, bool sum)
{
    int c = 0;
    for (; c + SIDE * VW <= channels; c += SIDE * VW)
        window(y + c, x + c, row, pixel, rows, columns, SIDE, VW, scale, sum);
    for (; c + VW <= channels; c += VW)
        window(y + c, x + c, row, pixel, rows, columns, 1, VW, scale, sum);
    if (c < channels)
        window(y + c, x + c, row, pixel, rows, columns, 1, channels - c, scale, sum);
}

void ISA_NAME(tachy_pool_window)(float *y, const float *x, ptrdiff_t row, ptrdiff_t pixel,
                                 int rows, int columns, int channels, float scale)
{
    if (scale != 0)
        windows(y, x, row, pixel, rows, columns, channels, scale, true);
    else
        windows(y, x, row, pixel, rows, columns, channels, 0, false);
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
