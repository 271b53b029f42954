#pragma once
#include <stddef.h>
#include <stdint.h>

// A w x h mask under three box filters of 2 r + 1 pixels along its rows and three down its columns
// (tachy_ref_box3_row, _cols), edges repeated, in 8.7; r: 1..19. Strides in bytes; dst may be src.
// `tmp`: 8 * w * h words.
void tachy_ref_feather(uint8_t *dst, ptrdiff_t dst_stride, const uint8_t *src, ptrdiff_t stride, int w, int h, int r,
                       int32_t *tmp);
