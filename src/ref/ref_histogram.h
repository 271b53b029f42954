#pragma once
#include <stdint.h>

// Adds n samples to counters by value: bytes to 256, ten bits of words, shifted up by `shift`, to 1024.
void tachy_ref_histogram8(uint32_t *count, const uint8_t *src, int n);
void tachy_ref_histogram16(uint32_t *count, const uint16_t *src, int shift, int n);
