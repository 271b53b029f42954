#pragma once
#include "stage/stage_ops.h"

// Before a network of masks: finds people, and sets the parts of the frame that the network sees (tachy_item.part). Setting:
// segment.focus. Left out where the settings, the model's card or a detector that is not installed say so, with one line in
// the log.
extern const struct tachy_stage_ops tachy_stage_focus;
extern const struct tachy_stage_ops tachy_stage_focus_cuda; // leaves itself out, and says so

#define TACHY_FOCUS_DETECTOR "person" // the model card of the detector
