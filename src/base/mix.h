#pragma once
#include <stdbool.h>
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

// As above for large data, in 128 bits: four times as fast. h: any initial value, then the digest of the earlier data.
static inline void tachy_mix_wide(uint64_t h[2], const void *data, size_t size)
{
    const uint64_t k = 0x9e3779b97f4a7c15u;
    const uint8_t *p = data;
    size_t tail = size % 32;
    uint64_t lane[4] = {h[0], h[1], ~h[0], ~h[1]};
    for (size_t n = size / 32; n > 0; n--, p += 32) {
        uint64_t w[4];
        memcpy(w, p, 32);
        for (int i = 0; i < 4; i++) {
            lane[i] = (lane[i] ^ w[i]) * k;
            lane[i] ^= lane[i] >> 29;
        }
    }
    lane[1] = tachy_mix(lane[1], p, tail);
    h[0] = tachy_mix(lane[0], &lane[1], 3 * sizeof(lane[0]));
    h[1] = tachy_mix(lane[3] ^ size, lane, 3 * sizeof(lane[0]));
}

// As above over several parts in their order, with another result: for many megabytes, which several threads share. False:
// no memory.
struct tachy_mix_part {
    const void *data;
    size_t size;
};
bool tachy_mix_parts(uint64_t h[2], const struct tachy_mix_part *parts, int nb);
