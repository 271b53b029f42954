#pragma once
#include "base/cepstrum.h"
#include "model/family.h"
#include "stage/infer_priv.h"
#include "sync/sync.h"

// How a face's lips fit the sound by two networks as SyncNet's (Chung and Zisserman 2016): one makes a vector of five pictures of the
// face, the other one of the sound beside them. Pictures are those of a grid of TACHY_LIPS_RATE a second.

// The stage's; {0}: there are no networks.
struct lips_params {
    struct tachy_family family;
    struct tachy_engine_setup setup;
    const struct tachy_log *log;
    int lags;        // frames of the grid, to either side
    int rotation;    // of the frames, set by start()
    bool flip;
    float (*cepstra)[TACHY_CEPSTRA]; // of the input's sound, 100 a second; `nb` of them, room for `room`
    int nb, room;
};
// Reads the settings and the card that they name.
int lips_read(struct lips_params *p, struct tachy_stage *st, const tachy_settings *s);
void lips_free(struct lips_params *p);
// The next cepstrum.
int lips_hear(struct lips_params *p, const uint8_t *bytes);

// A stream's networks. `p` must outlive them.
struct lips;
int lips_open(struct lips **l, const struct lips_params *p);
void lips_close(struct lips **l);

// A face of the stream. {0} has not been seen.
struct lips_face {
    float *crop;      // of the last five pictures, channel by channel
    int64_t last;     // number of the last picture
    int seen;         // pictures in a row up to that one, 5 at most
    struct lips_row {
        int64_t first; // number of its first picture
        float distance[TACHY_LIPS_CURVE];
    } *row;           // of the window in hand
    int nb, room;
    int64_t all;      // rows so far
    double sum[TACHY_LIPS_CURVE];
};
// A frame that shows the face from..to seconds.
int lips_see(struct lips *l, struct lips_face *f, const tachy_frame *frame, const struct tachy_region *r, double from, double to);
// Rows that begin before number `first` of TACHY_SYNC_RATE a second go.
void lips_forget(struct lips_face *f, int first);
// Of the rows in the n values from `first` on, or of all that there ever were. False: there are none.
bool lips_window(const struct lips *l, const struct lips_face *f, int first, int n, struct tachy_sync_peak *peak);
bool lips_all(const struct lips *l, const struct lips_face *f, struct tachy_sync_peak *peak);
void lips_face_close(struct lips_face *f);
