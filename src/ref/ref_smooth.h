#pragma once
// Constants of the temporal smoothing of masks (postprocess/smooth.c says what they do), shared with
// the CUDA version.
#define TACHY_SMOOTH_CALM 2.0f
#define TACHY_SMOOTH_MOVING 6.0f
#define TACHY_SMOOTH_HOLD 0.4f
