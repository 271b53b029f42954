#include "preprocess/signature.h"

#if defined(__aarch64__)
#include <arm_neon.h>

// tachy_ref_signature() with groups of 8 pixels. As signature_avx2.c, rows four together.

#define INLINE static inline __attribute__((always_inline))

enum { TOGETHER = 4 };

// Two groups.
INLINE uint32x2_t gray8(const uint8_t *p, ptrdiff_t stride, int rows)
{
    uint16x8_t v = vdupq_n_u16(0);
    for (int y = 0; y < rows; y++)
        v = vpadalq_u8(v, vld1q_u8(p + y * stride));
    return vmovn_u64(vpaddlq_u32(vpaddlq_u16(v)));
}

// One group.
INLINE uint32_t gray10(const uint8_t *p, ptrdiff_t stride, int rows, int16x8_t shift)
{
    uint16x8_t v = vdupq_n_u16(0);
    for (int y = 0; y < rows; y++) { // 4 * 1023 fits
        uint16x8_t w = vshlq_u16(vreinterpretq_u16_u8(vld1q_u8(p + y * stride)), shift);
        v = vaddq_u16(v, vandq_u16(w, vdupq_n_u16(1023)));
    }
    return vaddlvq_u16(v);
}

INLINE uint32_t weighted(uint8x8_t a, uint8x8_t b, uint8x8_t c, const uint8_t w[3])
{
    uint16x8_t v = vmull_u8(a, vdup_n_u8(w[0])); // the weights add up to 128, so 16 bits do
    v = vmlal_u8(v, b, vdup_n_u8(w[1]));
    v = vmlal_u8(v, c, vdup_n_u8(w[2]));
    return vaddlvq_u16(v);
}

INLINE uint32_t rgb(const uint8_t *p, ptrdiff_t stride, int rows, int step, const uint8_t w[3])
{
    uint32_t sum = 0;
    for (int y = 0; y < rows; y++, p += stride) {
        if (step == 3) {
            uint8x8x3_t v = vld3_u8(p);
            sum += weighted(v.val[0], v.val[1], v.val[2], w);
        } else {
            uint8x8x4_t v = vld4_u8(p);
            sum += weighted(v.val[0], v.val[1], v.val[2], w);
        }
    }
    return sum;
}

// `rows` and `step` are constants where this is called.
INLINE void rows_together(uint32_t *sum, const uint8_t *p, ptrdiff_t stride, int rows, int step,
                          int n, const struct tachy_signature_pixel *how)
{
    const int16x8_t shift = vdupq_n_s16((int16_t)-how->shift);
    const ptrdiff_t bytes = (ptrdiff_t)TACHY_SIGNATURE_GROUP * step;
    int i = 0;
    for (; step == 1 && i + 2 <= n; i += 2)
        vst1_u32(sum + i, vadd_u32(vld1_u32(sum + i), gray8(p + i * bytes, stride, rows)));
    for (; step == 2 && i < n; i++)
        sum[i] += gray10(p + i * bytes, stride, rows, shift);
    for (; step > 2 && i < n; i++)
        sum[i] += rgb(p + i * bytes, stride, rows, step, how->weight);
    tachy_ref_signature(sum + i, p + i * bytes, stride, rows, n - i, TACHY_SIGNATURE_GROUP, how);
}

INLINE void all_rows(uint32_t *sum, const uint8_t *p, ptrdiff_t stride, int rows, int step, int n,
                     const struct tachy_signature_pixel *how)
{
    for (; rows >= TOGETHER; rows -= TOGETHER, p += TOGETHER * stride)
        rows_together(sum, p, stride, TOGETHER, step, n, how);
    for (; rows > 0; rows--, p += stride)
        rows_together(sum, p, stride, 1, step, n, how);
}

void tachy_signature_neon(uint32_t *sum, const uint8_t *p, ptrdiff_t stride, int rows, int n,
                          const struct tachy_signature_pixel *how)
{
    if (how->step == 1)
        all_rows(sum, p, stride, rows, 1, n, how);
    else if (how->step == 2)
        all_rows(sum, p, stride, rows, 2, n, how);
    else if (how->step == 3)
        all_rows(sum, p, stride, rows, 3, n, how);
    else
        all_rows(sum, p, stride, rows, 4, n, how);
}
#endif
