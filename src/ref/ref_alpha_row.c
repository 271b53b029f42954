#include "ref/ref_post.h"

void tachy_ref_lerp_u8(int16_t *dst, const uint8_t *a, const uint8_t *b, int frac, int n)
{
    for (int i = 0; i < n; i++)
        dst[i] = (int16_t)(a[i] * 128 + tachy_mulhrs((b[i] - a[i]) * 128, frac));
}

void tachy_ref_lerp_i16(int16_t *dst, const int16_t *a, const int16_t *b, int frac, int n)
{
    for (int i = 0; i < n; i++)
        dst[i] = (int16_t)(a[i] + tachy_mulhrs(b[i] - a[i], frac));
}

static int16_t sample(const int16_t *src, const struct tachy_stretch *t, int i)
{
    const int16_t *s = src + t->index[i];
    return (int16_t)(s[0] + tachy_mulhrs(s[1] - s[0], t->frac[i]));
}

void tachy_ref_stretch(int16_t *dst, const int16_t *src, const struct tachy_stretch *t)
{
    for (int i = 0; i < t->n; i++)
        dst[i] = sample(src, t, i);
}

static uint8_t curve(int p, const struct tachy_curve *c)
{
    int d = p + 16384 - c->low;
    d = d < 0 ? 0 : d > c->width ? c->width : d;
    uint32_t a = ((uint32_t)d << c->shift) * c->gain >> 16;
    return (uint8_t)((a + 64) >> 7);
}

void tachy_ref_curve(uint8_t *dst, const int16_t *p, const struct tachy_curve *c, int n)
{
    for (int i = 0; i < n; i++)
        dst[i] = curve(p[i], c);
}

void tachy_ref_alpha(uint8_t *dst, const int16_t *src, const struct tachy_stretch *t,
                     const struct tachy_curve *c)
{
    for (int i = 0; i < t->n; i++)
        dst[i] = curve(sample(src, t, i), c);
}

void tachy_ref_narrow8(uint8_t *dst, const int16_t *src, int n)
{
    for (int i = 0; i < n; i++)
        dst[i] = (uint8_t)((src[i] + 64) >> 7);
}

void tachy_ref_narrow16(uint16_t *dst, const int16_t *src, int shift, int n)
{
    for (int i = 0; i < n; i++)
        dst[i] = (uint16_t)(((src[i] + 16) >> 5) << shift);
}
