#pragma once
#include <math.h>
#include <stdint.h>

// Sound as pictures: one for each frame, a grey row of the levels of frequency bands around the frame's time. The source
// makes them (source_sound.c), and animate reads them.

enum { TACHY_SOUND_BANDS = 32 }; // width of such a picture; its height is 1

// Lower edge of band i, Hz; i = TACHY_SOUND_BANDS: the upper edge of the last one. The bands have equal widths on
// O'Shaughnessy's mel scale, from 60 to 8000 Hz.
static inline double tachy_sound_edge(int i)
{
    const double low = log(1 + 60 / 700.), high = log(1 + 8000 / 700.);
    return 700 * (exp(low + (high - low) * i / TACHY_SOUND_BANDS) - 1);
}

// A full-scale sine has power 1 in its band and level 255; 0 is 96 dB below, and all that is weaker.
static inline uint8_t tachy_sound_level(double power)
{
    double level = 255 + 255 / 96. * 10 * log10(power > 1e-12 ? power : 1e-12);
    return level < 0 ? 0 : level > 255 ? 255 : (uint8_t)(level + 0.5);
}
static inline double tachy_sound_power(uint8_t level) { return level ? pow(10, (level / 255. - 1) * 9.6) : 0; }
