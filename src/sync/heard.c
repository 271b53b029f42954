#include "sync/sync.h"

#include <math.h>
#include <stdlib.h>

// Signals of a sound, each the root of an amplitude: a voice twice as loud does not open the mouth twice as far. Loudness: of all
// bands. Voice: of 100 to 3000 Hz, where vowels are, less what hiss there is above.

enum {
    FAST = 15, SLOW = 201, // values that the signals keep what is between
    MOST = 24 * 3600 * TACHY_SYNC_RATE,
};

int tachy_sync_band(float *v, int n, int fast, int slow)
{
    const int width[2] = {fast, slow};
    float *mean = malloc((size_t)TACHY_MAX(n, 1) * sizeof(*mean));
    if (!mean)
        return TACHY_ERR_NOMEM;
    for (int k = 0; k < 2; k++) {
        for (int i = 0, half = width[k] / 2; i < n && width[k]; i++) {
            double sum = 0, weights = 0;
            for (int j = TACHY_MAX(i - half, 0); j <= TACHY_MIN(i + half, n - 1); j++) {
                double w = 1 + cos(M_PI * (j - i) / (half + 1));
                sum += w * (double)v[j];
                weights += w;
            }
            mean[i] = (float)(sum / weights);
        }
        for (int i = 0; i < n && width[k]; i++)
            v[i] = k ? v[i] - mean[i] : mean[i];
    }
    free(mean);
    return TACHY_OK;
}

static int grow(struct tachy_heard *h)
{
    int room = TACHY_MAX(4096, 2 * h->room);
    for (int k = 0; k < TACHY_SYNC_VOICES; k++) {
        float *grown = realloc(h->signal[k], (size_t)room * sizeof(*grown));
        if (!grown)
            return TACHY_ERR_NOMEM;
        h->signal[k] = grown;
    }
    h->room = room;
    return TACHY_OK;
}

int tachy_heard_add(struct tachy_heard *h, const uint8_t level[TACHY_SOUND_BANDS])
{
    double all = 0, voice = 0;
    for (int b = 0; b < TACHY_SOUND_BANDS; b++) {
        double power = tachy_sound_power(level[b]);
        all += power;
        voice += tachy_sound_edge(b) >= 100 && tachy_sound_edge(b + 1) <= 3000 ? power : 0;
    }
    int err = h->n == MOST ? TACHY_ERR_LIMIT : h->n == h->room ? grow(h) : TACHY_OK;
    if (err < 0)
        return err;
    h->signal[0][h->n] = (float)sqrt(sqrt(all));
    h->signal[1][h->n++] = all > 0 ? (float)(sqrt(sqrt(voice)) * voice / all) : 0;
    return TACHY_OK;
}

int tachy_heard_end(struct tachy_heard *h)
{
    int err = TACHY_OK;
    for (int k = 0; k < TACHY_SYNC_VOICES && err == TACHY_OK; k++)
        err = tachy_sync_band(h->signal[k], h->n, FAST, SLOW);
    return err;
}

void tachy_heard_close(struct tachy_heard *h)
{
    free(h->signal[0]);
    free(h->signal[1]);
    *h = (struct tachy_heard){0};
}
