#pragma once
#include "base/base.h"
#include "base/sound.h"

// Whether a mouth moves as the sound says (docs/avsync.md). All signals have TACHY_SYNC_RATE values a second; value i lies in
// the middle of its 10 ms, from the zero of the file's times.

enum {
    TACHY_SYNC_RATE = 100,
    TACHY_SYNC_LAGS = 100, // furthest lag that is tried, to either side
    TACHY_SYNC_CURVE = 2 * TACHY_SYNC_LAGS + 1,
    TACHY_SYNC_VOICES = 2, // signals of a sound
};

// How loud a sound is, and how loud its voice. {0} is empty.
struct tachy_heard {
    float *signal[TACHY_SYNC_VOICES]; // n values each
    int n, room;
};
// The next value, of a picture of the sound (base/sound.h). TACHY_ERR_NOMEM; TACHY_ERR_LIMIT: it is longer than a day.
int tachy_heard_add(struct tachy_heard *h, const uint8_t level[TACHY_SOUND_BANDS]);
// All values are there: slow changes are taken out of them.
int tachy_heard_end(struct tachy_heard *h);
void tachy_heard_close(struct tachy_heard *h);

// Takes out what changes faster than `fast` values or more slowly than `slow`, by means under a Hann window, in place. 0:
// nothing. TACHY_ERR_NOMEM.
int tachy_sync_band(float *v, int n, int fast, int slow);

// How far a mouth was open.
struct tachy_mouth {
    double time; // seconds
    float open;  // gap of the lips over the distance of the eyes
};
// A mouth in the n values from number `first` on, which it fills by straight lines between its frames. `m`: in order of time.
// False: it is seen in less than half of them, or does not move. TACHY_ERR_NOMEM.
int tachy_sync_mouth(const struct tachy_mouth *m, int nb, int first, int n, float *to, bool *seen);

// The normalised correlation of a mouth's values, of which the first is number `first`, with the sound that is
// `i - TACHY_SYNC_LAGS` values later: curve[i], -1..1, the mean over the sound's signals. 0 where less than half of the mouth
// or less than a second has sound.
void tachy_sync_curve(const struct tachy_heard *h, const float *mouth, int first, int n, double curve[TACHY_SYNC_CURVE]);

// The peak of a curve.
struct tachy_sync_peak {
    double offset_ms;   // the sound is so much later than the picture
    double fit;         // the correlation there; of lips, the distance
    double confidence;  // height over the curve's median, times the root of the seconds: those of signals that have nothing to
                        // do with each other become lower with that root (Bartlett 1946)
};
// The middle one of n values, an odd number.
double tachy_sync_median(const double *v, int n);
// `seconds`: of the mouth.
struct tachy_sync_peak tachy_sync_peak(const double curve[TACHY_SYNC_CURVE], double seconds);

// By two networks (stage/lips.h). Pictures i..i + 4 of TACHY_LIPS_RATE a second are beside cepstra 4i..4i + 19 of TACHY_SYNC_RATE.
enum {
    TACHY_LIPS_RATE = 25,
    TACHY_LIPS_FRAMES = 5,
    TACHY_LIPS_STEP = TACHY_SYNC_RATE / TACHY_LIPS_RATE,
    TACHY_LIPS_CEPSTRA = TACHY_LIPS_FRAMES * TACHY_LIPS_STEP,
    TACHY_LIPS_LAGS = 50, // furthest lag that can be asked for, to either side, pictures
    TACHY_LIPS_CURVE = 2 * TACHY_LIPS_LAGS + 1,
};
// The Euclidean distance of two vectors of n numbers. `sound` NULL: of zeros.
float tachy_lips_distance(const float *lips, const float *sound, int n);
// sum[i]: of so many rows, the distance to the sound that is `i - lags` pictures later. The offset is a whole number of pictures,
// `confidence` the median less the minimum.
struct tachy_sync_peak tachy_lips_peak(const double *sum, int lags, int64_t rows);
