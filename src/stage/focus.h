#pragma once
#include "stage/stage_ops.h"

// Runs before a network of masks: finds people, and sets the parts of the frame that the network sees
// (tachy_item.part). Setting: segment.focus. Left out, with one line in the log, if the settings or the model's card
// say so or a detector is not installed.
extern const struct tachy_stage_ops tachy_stage_focus;
extern const struct tachy_stage_ops tachy_stage_focus_cuda; // leaves itself out, and says so

#define TACHY_FOCUS_DETECTOR "person" // the model card of the detector
