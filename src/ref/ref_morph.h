#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The largest (or smallest) of the pixels at most r rows and columns away, each pixel of a w x h
// picture; what is outside of it does not count. Strides in bytes; src and dst are not the same.
void tachy_ref_morph(uint8_t *dst, ptrdiff_t dst_stride, const uint8_t *src, ptrdiff_t stride, int w, int h, int r,
                     bool largest);
