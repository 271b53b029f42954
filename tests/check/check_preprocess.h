#pragma once
#include "check_picture.h"

#include <tachy/preprocess.h>

// Random cases of preprocess, for its versions on the CPU and on the GPU.

void check_pre_params(struct check *c, struct tachy_preprocess_params *p);
struct tachy_color check_pre_color(struct check *c);
// use_affine: to be filled by check_pre_affine().
void check_pre_view(struct check *c, const tachy_frame *f, struct tachy_view *v);
void check_pre_affine(struct check *c, const struct tachy_preprocess_params *p, struct tachy_view *v);

// Value of an IEEE 754 binary16.
float check_half_value(uint16_t h);

// Where the gamut matrix of PQ and HLG takes large numbers from each other, what is left is
// dark, and there a code value is next to no light. Such values may differ by the light that
// the tolerance in code values is where the curves are steepest: PQ at 1000 cd/m2 is 63 times
// the light of white a unit, the tone curve brings it to a fifth, the gamut matrix times 1.7.
#define CHECK_LIGHT_A_CODE (63.0 / 5 * 1.7 / 255)
