#pragma once
#include "base/base.h"

#include <tachy/frame.h>

// PQ and HLG to the SDR that models are trained on. docs/preprocess.md has the formulas.

struct tachy_tone;

// True for resolved colours whose transfer is PQ (16) or HLG (18).
bool tachy_tone_needed(struct tachy_color c);

// Tables for one transfer and set of primaries, about 20 KB. TACHY_ERR_NOMEM.
int tachy_tone_open(struct tachy_tone **out, struct tachy_color c);
bool tachy_tone_fits(const struct tachy_tone *t, struct tachy_color c);

// R'G'B' in 0..1 of the HDR signal to R'G'B' in 0..1 of SDR with BT.709 primaries, in place.
void tachy_tone_map(const struct tachy_tone *t, float *r, float *g, float *b, int n);
void tachy_tone_close(struct tachy_tone **t);
