#pragma once
#include "stage/stage_ops.h"

// Temporal smoothing of the masks, on the host: --smooth. Masks that a device made are brought here and go back.

extern const struct tachy_stage_ops tachy_stage_smooth;
// After it: the same from frames to come, --look-ahead.
extern const struct tachy_stage_ops tachy_stage_look_ahead;
extern const struct tachy_stage_ops tachy_stage_despeckle; // despeckle.c, before it
