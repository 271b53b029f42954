#pragma once
#include "base/base.h"
#include "ref/ref_tone.h"

#include <tachy/frame.h>

// PQ and HLG to the SDR that models are trained on. docs/preprocess.md has the formulas.

// True for resolved colours whose transfer is PQ (16) or HLG (18).
bool tachy_tone_needed(struct tachy_color c);

// Tables for one transfer and set of primaries, about 20 KB. TACHY_ERR_NOMEM.
int tachy_tone_open(struct tachy_tone **out, struct tachy_color c);
bool tachy_tone_fits(const struct tachy_tone *t, struct tachy_color c);

void tachy_tone_close(struct tachy_tone **t);
