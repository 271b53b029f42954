#pragma once
#include "media/media.h"

// Converts a Y'CbCr picture to another matrix and range. Where luma needs chroma, chroma is taken to lie in the middle
// of its pixels; values are clamped only at the end of the code range. libswscale instead goes through 8-bit R'G'B',
// before it scales, with the nearest chroma sample for each pixel, and keeps the range if it does not scale or if there
// are more than 8 bits.
//
// `in`: on the host, with chroma planes, not RGB. `out`: writable, of the same format and size; may be `in`. `from` and
// `to`: resolved. TACHY_ERR_NOMEM.
int tachy_recode_frame(const tachy_frame *in, tachy_frame *out, struct tachy_color from, struct tachy_color to);
