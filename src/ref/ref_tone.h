#pragma once
#include "base/base.h"

// Tone mapping of PQ and HLG lines to SDR over tables; docs/preprocess.md has the formulas.

enum {
    TACHY_TONE_SIGNAL_STEPS = 2048, // of the table over the signal, linear in between
    TACHY_TONE_POWER_BITS = 6,      // mantissa bits that index a power table
    TACHY_TONE_POWER_RANGE = 24,    // octaves below 1 that it covers
    TACHY_TONE_POWER_STEPS = TACHY_TONE_POWER_RANGE << TACHY_TONE_POWER_BITS,
};

// Light is relative to reference white. The curve on the largest of R, G, B is straight up to
// the knee and reaches 1 at the peak.
#define TACHY_TONE_KNEE 0.6f
#define TACHY_TONE_PEAK ((float)(1000.0 / 203.0))

struct tachy_tone {
    uint8_t transfer, primaries;
    bool ootf_needed;                            // HLG
    float light[TACHY_TONE_SIGNAL_STEPS + 2];    // signal to light (HLG: to scene light 0..1)
    float ootf[TACHY_TONE_POWER_STEPS + 2];      // HLG: scene luminance to factor to light
    float gamma[TACHY_TONE_POWER_STEPS + 2];     // light to SDR signal
    float gamut[3][3];
    float luma[3];                               // of the signal's primaries
};

// R'G'B' in 0..1 of the HDR signal to R'G'B' in 0..1 of SDR with BT.709 primaries, in place.
// Lines have room for n rounded up to 16; values there must be in 0..1 too.
void tachy_ref_tone(const struct tachy_tone *t, float *r, float *g, float *b, int n);
