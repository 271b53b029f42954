#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// A 64-bit digest that tells whether data is the same as before; quick, and no defence against
// somebody who wants two data to have one. In the machine's byte order. Start with any `h`.
static inline uint64_t tachy_mix(uint64_t h, const void *data, size_t size)
{
    const uint64_t k = 0x9e3779b97f4a7c15u;
    const uint8_t *p = data;
    for (; size >= 8; p += 8, size -= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = (h ^ w) * k;
        h ^= h >> 29;
    }
    uint64_t tail = size;
    for (size_t i = 0; i < size; i++)
        tail = tail << 8 | p[i];
    h = (h ^ tail) * k;
    return h ^ h >> 32;
}
