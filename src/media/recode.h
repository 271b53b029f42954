#pragma once
#include "media/media.h"

// A picture of Y'CbCr in another matrix and range: its samples become what they are there. Chroma counts as lying in the
// middle of its pixels, where luma needs it; nothing is cut but at the codes' ends. libswscale makes R'G'B' of 8 bits of
// it instead, in the size before it scales, each pixel with the chroma sample that lies next, and leaves the range as it
// is if it does not scale, or if there are more than 8 bits.
//
// `in`: on the host, with planes of chroma, not of RGB. `out`: ours to write, of the same format and size; may be `in`.
// `from` and `to`: resolved. TACHY_ERR_NOMEM.
int tachy_recode_frame(const tachy_frame *in, tachy_frame *out, struct tachy_color from, struct tachy_color to);
