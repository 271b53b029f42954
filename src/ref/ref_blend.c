#include "ref/ref_post.h"

void tachy_ref_blend8(uint8_t *dst, const uint8_t *fg, const uint8_t *bg, const uint8_t *alpha,
                      int n)
{
    for (int i = 0; i < n; i++)
        dst[i] = (uint8_t)((fg[i] * alpha[i] + bg[i] * (255 - alpha[i]) + 127) / 255);
}

void tachy_ref_blend16(uint16_t *dst, const uint16_t *fg, const uint16_t *bg, const uint8_t *alpha,
                       int shift, int n)
{
    for (int i = 0; i < n; i++) {
        int f = fg[i] >> shift & 1023, b = bg[i] >> shift & 1023, a = alpha[i];
        int v = (f * a + b * (255 - a) + 127) / 255;
        dst[i] = a == 255 ? fg[i] : a == 0 ? bg[i] : (uint16_t)(v << shift);
    }
}

void tachy_ref_scale(uint8_t *dst, const uint8_t *alpha, int strength, int n)
{
    for (int i = 0; i < n; i++)
        dst[i] = (uint8_t)((alpha[i] * strength + 127) / 255);
}

void tachy_ref_halve(uint8_t *dst, const uint8_t *a, const uint8_t *b, int n)
{
    for (int i = 0; i < n; i++)
        dst[i] = (uint8_t)((a[2 * i] + a[2 * i + 1] + b[2 * i] + b[2 * i + 1] + 2) >> 2);
}

void tachy_ref_spread(uint8_t *dst, const uint8_t *alpha, int times, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < times; k++)
            dst[i * times + k] = alpha[i];
}

int tachy_ref_count(const uint8_t *alpha, int n)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        count += alpha[i] >> 7;
    return count;
}
