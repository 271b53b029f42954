#include "preprocess/tone.h"

#include <math.h>
#include <stdlib.h>

enum {
    TRANSFER_PQ = 16,
    TRANSFER_HLG = 18,
};

// Light is relative to the reference white of ITU-R BT.2408, 203 cd/m2.
static const double WHITE = 203, HLG_PEAK = 1000;

bool tachy_tone_needed(struct tachy_color c)
{
    return c.transfer == TRANSFER_PQ || c.transfer == TRANSFER_HLG;
}

bool tachy_tone_fits(const struct tachy_tone *t, struct tachy_color c)
{
    return t && t->transfer == c.transfer && t->primaries == c.primaries;
}

// SMPTE ST 2084, in cd/m2.
static double pq_light(double e)
{
    const double m1 = 2610.0 / 16384, m2 = 2523.0 / 32, c1 = 107.0 / 128, c2 = 2413.0 / 128,
                 c3 = 2392.0 / 128;
    double p = pow(e, 1 / m2);
    return 10000 * pow(fmax(p - c1, 0) / (c2 - c3 * p), 1 / m1);
}

// Inverse OETF of ITU-R BT.2100 HLG: scene light, 0..1.
static double hlg_scene(double e)
{
    const double a = 0.17883277, b = 1 - 4 * a, c = 0.5 - a * log(4 * a);
    return e <= 0.5 ? e * e / 3 : (exp((e - c) / a) + b) / 12;
}

// OOTF of HLG: factor from scene light of luminance y to light; system gamma 1.2.
static double hlg_ootf(double y) { return HLG_PEAK / WHITE * pow(y, 0.2); }

// sRGB (IEC 61966-2-1). Its straight part near black keeps small errors small.
static double srgb_signal(double light)
{
    return light <= 0.0031308 ? 12.92 * light : 1.055 * pow(light, 1 / 2.4) - 0.055;
}

// fn of 2^-24 .. 1, in equal steps within an octave.
static void power_table(float *table, double (*fn)(double))
{
    for (int i = 0; i <= TACHY_TONE_POWER_STEPS + 1; i++) {
        double mantissa = 1 + (i & ((1 << TACHY_TONE_POWER_BITS) - 1)) / (double)(1 << TACHY_TONE_POWER_BITS);
        table[i] = (float)fn(ldexp(mantissa, (i >> TACHY_TONE_POWER_BITS) - TACHY_TONE_POWER_RANGE));
    }
}

// Linear R, G, B of `primaries` to BT.709; rows from the chromaticities of H.273, D65 white.
static void set_primaries(struct tachy_tone *t)
{
    static const float bt2020[3][3] = {{1.660491f, -0.587641f, -0.072850f},
                                       {-0.124550f, 1.132900f, -0.008349f},
                                       {-0.018151f, -0.100579f, 1.118730f}};
    static const float p3[3][3] = {{1.224940f, -0.224940f, 0.0f},
                                   {-0.042057f, 1.042057f, 0.0f},
                                   {-0.019638f, -0.078636f, 1.098274f}};
    static const float same[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    bool wide = t->primaries == 9, display_p3 = t->primaries == 12;
    memcpy(t->gamut, wide ? bt2020 : display_p3 ? p3 : same, sizeof(t->gamut));
    static const float luma[3][3] = {
        {0.2627f, 0.6780f, 0.0593f}, {0.228975f, 0.691739f, 0.079287f}, {0.2126f, 0.7152f, 0.0722f}};
    memcpy(t->luma, luma[wide ? 0 : display_p3 ? 1 : 2], sizeof(t->luma));
}

int tachy_tone_open(struct tachy_tone **out, struct tachy_color c)
{
    struct tachy_tone *t = *out = calloc(1, sizeof(*t));
    if (!t)
        return TACHY_ERR_NOMEM;
    t->transfer = c.transfer;
    t->primaries = c.primaries;
    t->ootf_needed = c.transfer == TRANSFER_HLG;
    bool pq = c.transfer == TRANSFER_PQ;
    for (int i = 0; i <= TACHY_TONE_SIGNAL_STEPS + 1; i++) {
        double e = fmin(i / (double)TACHY_TONE_SIGNAL_STEPS, 1);
        t->light[i] = (float)(pq ? pq_light(e) / WHITE : hlg_scene(e));
    }
    power_table(t->ootf, hlg_ootf);
    power_table(t->gamma, srgb_signal);
    set_primaries(t);
    return TACHY_OK;
}

void tachy_tone_close(struct tachy_tone **t)
{
    free(*t);
    *t = NULL;
}
