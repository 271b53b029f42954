#pragma once
#include "base/base.h"

// What a JPEG picture says of itself in front of its first scan (ITU-T T.81, B.2).
struct jpeg_head {
    int process; // 0: baseline, 1: extended, 2: progressive, ...
    int bits;    // of a sample
    int width, height, components;
    uint8_t name[4], sampling[4]; // of each component; factor across in the upper half, down in the lower
    int transform;       // Adobe's colour transform; -1: not said
};

// False: there is no frame header, or it is damaged.
bool jpeg_head_read(struct jpeg_head *h, const uint8_t *data, size_t size);
