#pragma once
#include "preprocess/signature_cuda.h"

#include <tachy/live.h>

// Decides that a frame is like the last one of its stream and eye that was inferred, so that its
// result can be taken over. Frames are asked about in the order of the stream, by one thread at a
// time; each stream has one of these.

// Largest difference of two frames for TACHY_DEGRADE_ALTERNATE: a larger one is a cut.
#define TACHY_ALTERNATE_MOST 0.35f

struct tachy_frame_skip {
    int eyes;
    enum tachy_stereo stereo;
    float threshold; // 0..1
    const struct tachy_log *log;
    struct tachy_signature_gpu *gpu; // of frames there; NULL: none has come
    bool gpu_fails;                  // such frames are not compared
    struct tachy_frame_skip_eye {
        struct tachy_signature last, now; // of the last one inferred; of the frame asked about
        bool known;                       // `last` is
        bool similar;                     // this frame is within `threshold`
        bool inferred;                    // the frame before this one was
    } eye[TACHY_MAX_EYES];
    _Atomic int64_t similar, alternate; // results taken over, one per eye
};

void tachy_frame_skip_open(struct tachy_frame_skip *s, int eyes, enum tachy_stereo stereo,
                           float threshold, const struct tachy_log *log);
void tachy_frame_skip_close(struct tachy_frame_skip *s);
// Looks at the next frame under `allowed` (bits 1 << TACHY_DEGRADE_SIMILAR and _ALTERNATE; with none, nothing is read)
// and returns the eyes whose results can be reused, as bits 1 << eye. `anew`: the stream restarts here, and earlier
// frames do not count.
unsigned tachy_frame_skip_look(struct tachy_frame_skip *s, const tachy_frame *f, unsigned allowed,
                               bool anew);
// The frame looked at last is processed, reusing the results of `reuse`. Not called if it was shed.
void tachy_frame_skip_take(struct tachy_frame_skip *s, unsigned allowed, unsigned reuse);

// Saves the data that later frames are compared with, as bytes that another process of the same build can load into an
// opened object with as many eyes; free *data with free(). Call it between two frames.
int tachy_frame_skip_save(const struct tachy_frame_skip *s, void **data, size_t *size);
// TACHY_ERR_FORMAT: of another size.
int tachy_frame_skip_load(struct tachy_frame_skip *s, const void *data, size_t size);
