#pragma once
#include <tachy/frame.h>

#ifdef __cplusplus
extern "C" {
#endif

// What a task says about a frame.

// A soft mask: 0 = background, 255 = person. It covers `region` of the frame.
struct tachy_mask {
    const uint8_t *data;
    int width, height; // of the mask, usually the model's size
    ptrdiff_t stride;  // bytes
    struct tachy_rect {
        int x, y, w, h; // frame pixels, as stored (before rotation)
    } region;
};

#define TACHY_MAX_EYES 2

struct tachy_result {
    int64_t frame_id;
    int64_t pts;
    int eyes;                                // 1, or 2 for a stereo picture
    struct tachy_mask mask[TACHY_MAX_EYES];  // eye 0 is the left one
    float coverage;                          // share of the frame with alpha >= 0.5, 0..1
    const char *json;                        // mode json: the frame's line without newline,
                                             // see docs/segment.md; else NULL
};

#ifdef __cplusplus
}
#endif
