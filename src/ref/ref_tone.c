#include "ref/ref_tone.h"

// x in 0..1; below the table's range the straight line to its first entry.
static inline float power_lookup(const float *table, float x)
{
    const uint32_t first = (uint32_t)(127 - TACHY_TONE_POWER_RANGE) << 23;
    const int shift = 23 - TACHY_TONE_POWER_BITS;
    union {
        float f;
        uint32_t u;
    } v = {.f = x};
    if (v.u < first)
        return table[0] * x * (float)(1 << TACHY_TONE_POWER_RANGE);
    uint32_t i = (v.u - first) >> shift;
    float part = (float)(v.u & ((1u << shift) - 1)) * (1.0f / (float)(1 << (23 - TACHY_TONE_POWER_BITS)));
    return table[i] + part * (table[i + 1] - table[i]);
}

static inline float signal_lookup(const float *table, float e)
{
    float at = e * TACHY_TONE_SIGNAL_STEPS;
    int i = (int)at;
    return table[i] + (at - (float)i) * (table[i + 1] - table[i]);
}

// Factor that maps the largest component m, with slope 1 at the knee.
static inline float tone_gain(float m)
{
    if (m <= TACHY_TONE_KNEE)
        return 1;
    const float slope = (TACHY_TONE_PEAK - TACHY_TONE_KNEE) / (1 - TACHY_TONE_KNEE);
    float x = (m - TACHY_TONE_KNEE) / (TACHY_TONE_PEAK - TACHY_TONE_KNEE);
    float mapped = TACHY_TONE_KNEE + (1 - TACHY_TONE_KNEE) * slope * x / (1 + (slope - 1) * x);
    return TACHY_MIN(mapped, 1.0f) / m;
}

void tachy_ref_tone(const struct tachy_tone *t, float *r, float *g, float *b, int n)
{
    for (int i = 0; i < n; i++) {
        float v[3] = {signal_lookup(t->light, r[i]), signal_lookup(t->light, g[i]),
                      signal_lookup(t->light, b[i])};
        float gain = 1;
        if (t->ootf_needed) {
            float y = t->luma[0] * v[0] + t->luma[1] * v[1] + t->luma[2] * v[2];
            gain = power_lookup(t->ootf, TACHY_MIN(y, 1.0f));
        }
        float largest = gain * TACHY_MAX(v[0], TACHY_MAX(v[1], v[2]));
        gain *= tone_gain(largest);
        float *const out[3] = {r, g, b};
        for (int c = 0; c < 3; c++) {
            const float *m = t->gamut[c];
            float light = gain * (m[0] * v[0] + m[1] * v[1] + m[2] * v[2]);
            out[c][i] = power_lookup(t->gamma, TACHY_CLAMP(light, 0.0f, 1.0f));
        }
    }
}
