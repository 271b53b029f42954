#pragma once
#include "media/media.h"

// Turns pictures upright, for files that cannot say how a player should turn them.

// True if a format's pixels can be moved one by one in this rotation (degrees clockwise).
bool tachy_turn_takes(enum AVPixelFormat f, int rotation);

// *out is a new picture: `in` mirrored left to right if `flipped`, then turned clockwise by 0,
// 90, 180 or 270 degrees; times and properties are those of `in`.
int tachy_turn(const AVFrame *in, int rotation, bool flipped, AVFrame **out);
