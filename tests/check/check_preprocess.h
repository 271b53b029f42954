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

// Where the gamut matrix of PQ and HLG subtracts large numbers, the result is dark, and there a code value is very
// little light. Such values may differ by the amount of light that corresponds to the tolerance in code values where
// the curves are steepest: PQ at 1000 cd/m2 has 63 times the light of white per unit, the tone curve divides it by 5,
// the gamut matrix multiplies by 1.7.
#define CHECK_LIGHT_A_CODE (63.0 / 5 * 1.7 / 255)
