#pragma once
#include "inpaint/carry.h"

#include <tachy/result.h>

// Which parts of a frame a network of a fixed size sees to fill holes: one window around each small hole, with the picture around it;
// tiles that overlap over what is too large for that.

struct fill_window {
    struct tachy_rect r; // frame pixels; leaves the frame if that is smaller
    int fade_x, fade_y;  // of a tile: pixels from its edge over which it gives way to its neighbours; 0: it is alone
    int hole;            // number of the hole that it is for
};

struct fill_windows {
    struct fill_window *window; // nb of them, those of a hole one after the other
    int nb, room;
    int *hole;                  // of each point of the rest, the number of its hole; -1: it is not of the rest
};

// Windows of width x height pixels; larger ones of the same shape, which the network sees shrunk, if a hole does not fit and is so deep
// that tiles would lie inside of it. Fills the zeroed `w`, which is to be freed also on failure. TACHY_ERR_NOMEM.
int fill_windows_of(struct fill_windows *w, const struct carry_rest *rest, int width, int height);
void fill_windows_free(struct fill_windows *w);
// What a pixel of the frame weighs in a window, above 0 inside of it; 0 outside.
float fill_window_weight(const struct fill_window *w, int x, int y);
