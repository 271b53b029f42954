#include "plan/cpu/vec/vec.h"
#include "plan/cpu/vec/vec_names.h"

// Rows to columns, a square block in registers at a time.

#if TACHY_VEC == 1 || TACHY_VEC == 2
enum { BLOCK = 8 };

static inline void block(float *y, ptrdiff_t y_step, const float *x, ptrdiff_t x_step)
{
    __m256 r[8], t[8];
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_ps(x + i * x_step);
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(y + i * y_step, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(y + (i + 4) * y_step, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}
#elif TACHY_VEC == 3
enum { BLOCK = 4 };

static inline void block(float *y, ptrdiff_t y_step, const float *x, ptrdiff_t x_step)
{
    float32x4x2_t ab = vtrnq_f32(vld1q_f32(x), vld1q_f32(x + x_step));
    float32x4x2_t cd = vtrnq_f32(vld1q_f32(x + 2 * x_step), vld1q_f32(x + 3 * x_step));
    for (int i = 0; i < 2; i++) {
        vst1q_f32(y + i * y_step, vcombine_f32(vget_low_f32(ab.val[i]), vget_low_f32(cd.val[i])));
        vst1q_f32(y + (i + 2) * y_step, vcombine_f32(vget_high_f32(ab.val[i]), vget_high_f32(cd.val[i])));
    }
}
#else
enum { BLOCK = 4 };

static inline void block(float *y, ptrdiff_t y_step, const float *x, ptrdiff_t x_step)
{
    VF a = vload(x), b = vload(x + x_step), c = vload(x + 2 * x_step), d = vload(x + 3 * x_step);
    for (int i = 0; i < 4; i++)
        vstore(y + i * y_step, (VF){a[i], b[i], c[i], d[i]});
}
#endif

// Blocks of fewer rows or columns.
static inline __attribute__((always_inline)) void narrow(float *y, ptrdiff_t y_step,
                                                         const float *x, ptrdiff_t x_step,
                                                         int rows, int columns)
{
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++)
            y[c * y_step + r] = x[r * x_step + c];
}

// Planes to pixels: few rows, many columns.
static void few_rows(float *y, ptrdiff_t y_step, const float *x, ptrdiff_t x_step, int rows,
                     int columns)
{
    if (rows == 3)
        narrow(y, y_step, x, x_step, 3, columns);
    else if (rows == 4)
        narrow(y, y_step, x, x_step, 4, columns);
    else
        narrow(y, y_step, x, x_step, rows, columns);
}

void ISA_NAME(tachy_transpose)(float *y, ptrdiff_t y_step, const float *x, ptrdiff_t x_step,
                               int rows, int columns)
{
    enum { STRIP = 256 }; // rows whose lines stay in the cache until all of their columns are read
    for (int r0 = 0; r0 < rows; r0 += STRIP) {
        int end = rows - r0 < STRIP ? rows : r0 + STRIP, whole = r0 + (end - r0) / BLOCK * BLOCK;
        int c = 0;
        for (; c + BLOCK <= columns; c += BLOCK)
            for (int r = r0; r < whole; r += BLOCK)
                block(y + c * y_step + r, y_step, x + r * x_step + c, x_step);
        if (c < columns && r0 < whole)
            narrow(y + c * y_step + r0, y_step, x + r0 * x_step + c, x_step, whole - r0,
                   columns - c);
        if (whole < end)
            few_rows(y + whole, y_step, x + whole * x_step, x_step, end - whole, columns);
    }
}
