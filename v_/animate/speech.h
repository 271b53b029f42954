#pragma once
#include "animate/face.h"
#include "base/sound.h"

// How speech opens a mouth, from how loud it is and where its formants are.

// What is remembered of a stream; {0} to begin with.
struct tachy_speech {
    float loudest;     // power of the voice in its loudest frames; 0: nothing was heard
    float open, wide;  // 0..1: how far the mouth is open; -1..1: rounded or spread
};
// The next frame: a picture of the sound (base/sound.h) that stands for so many seconds.
void tachy_speech_hear(struct tachy_speech *s, const uint8_t level[TACHY_SOUND_BANDS], double seconds);
// The face with its mouth as `s` says, in its own pixels: a driver that is the portrait itself.
void tachy_speech_face(const struct tachy_speech *s, const tachy_face_points rest, tachy_face_points now);
