#pragma once
#include <stddef.h>
#include <stdint.h>

// dst[i] = |a[i] - b[i]| of n samples (dst may be NULL); the sum of the differences. Samples of 16 bits
// hold value << shift, and the sum is of values.
uint64_t tachy_ref_absdiff8(uint8_t *dst, const uint8_t *a, const uint8_t *b, int n);
uint64_t tachy_ref_absdiff16(uint16_t *dst, const uint16_t *a, const uint16_t *b, int shift, int n);
