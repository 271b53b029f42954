#include "postprocess/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define V TACHY_TARGET_AVX512

// 32 outputs from i on: they span at most 33 inputs, so two overlapping loads and one word
// permutation each put the left and the right inputs in place.
V static inline __m512i stretch32(const int16_t *src, const struct tachy_stretch *t, int i)
{
    const int16_t *s = src + t->index[i];
    __m512i order = _mm512_loadu_si512(t->rel + i);
    __m512i left = _mm512_permutexvar_epi16(order, _mm512_loadu_si512(s));
    __m512i right = _mm512_permutexvar_epi16(order, _mm512_loadu_si512(s + 1));
    __m512i d = _mm512_mulhrs_epi16(_mm512_sub_epi16(right, left), _mm512_loadu_si512(t->frac + i));
    return _mm512_add_epi16(left, d);
}

static struct tachy_stretch rest(const struct tachy_stretch *t, int i)
{
    struct tachy_stretch r = *t;
    r.n -= i;
    r.index += i;
    r.frac += i;
    return r;
}

V static void stretch(int16_t *dst, const int16_t *src, const struct tachy_stretch *t)
{
    int i = 0;
    for (; t->blocks && i + 32 <= t->n; i += 32)
        _mm512_storeu_si512(dst + i, stretch32(src, t, i));
    struct tachy_stretch r = rest(t, i);
    tachy_ref_stretch(dst + i, src, &r);
}

V static void alpha(uint8_t *dst, const int16_t *src, const struct tachy_stretch *t,
                    const struct tachy_curve *c)
{
    __m512i low = _mm512_set1_epi16((short)c->low), width = _mm512_set1_epi16((short)c->width);
    __m512i gain = _mm512_set1_epi16((short)c->gain);
    __m128i shift = _mm_cvtsi32_si128(c->shift);
    int i = 0;
    for (; t->blocks && i + 32 <= t->n; i += 32) {
        __m512i p = _mm512_add_epi16(stretch32(src, t, i), _mm512_set1_epi16(16384));
        p = _mm512_min_epu16(_mm512_subs_epu16(p, low), width);
        p = _mm512_mulhi_epu16(_mm512_sll_epi16(p, shift), gain);
        p = _mm512_srli_epi16(_mm512_add_epi16(p, _mm512_set1_epi16(64)), 7);
        _mm256_storeu_si256((__m256i *)(dst + i), _mm512_cvtepi16_epi8(p));
    }
    struct tachy_stretch r = rest(t, i);
    tachy_ref_alpha(dst + i, src, &r, c);
}

void tachy_post_init_avx512(struct tachy_post_kernels *k)
{
    k->stretch = stretch;
    k->alpha = alpha;
}
#endif
