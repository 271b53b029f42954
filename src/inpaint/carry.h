#pragma once
#include <tachy/frame.h>

// Pixels of a hole, carried from other frames: where each of them was in the frames before and is in those after, until a frame
// shows it.

enum { CARRY_NONE = -1, CARRY_BEFORE = -2 }; // no frame shows it; neither, but the frame before has been filled there

struct carry_point {
    int x, y;       // of the frame with the hole
    float at_x, at_y; // where it is in the frame that was reached; pixel (0, 0) is the middle of the first
    bool lost;      // it has left the picture
    int from;       // number of the frame that shows it, CARRY_NONE or CARRY_BEFORE
    int distance;   // frames to that one
    float from_x, from_y;
};

// Flow from a frame to its neighbour on a grid of width x height over a picture of frame_width x frame_height, in pixels of the grid.
struct carry_flow {
    const float *u, *v;
    int width, height, frame_width, frame_height;
};

// The points of a hole (GRAY8, not 0: hole), in order. `index`: number of each pixel's point, -1 outside of the hole. Returns how many.
int carry_begin(const tachy_frame *hole, struct carry_point *points, int *index);
// Follows all points to the neighbour, from where they were begun or have been brought.
void carry_restart(struct carry_point *points, int n);
void carry_step(struct carry_point *points, int n, const struct carry_flow *f);
// Points that the reached frame shows, and that no nearer one does, are from it.
void carry_look(struct carry_point *points, int n, const tachy_frame *hole, int from, int distance);
// Of points that no frame shows, those inside of the frame before.
void carry_before(struct carry_point *points, int n, int width, int height);

// Writes the points into `out`: from[i] are the frames with those numbers, `before` the finished frame before. Bicubic. Points
// that are from nowhere keep what `out` has.
void carry_write(tachy_frame *out, const struct carry_point *points, int n, const int *index, tachy_frame *const from[],
                 const tachy_frame *before);
// The points that are from nowhere, in the frame that is to be filled.
struct carry_rest {
    tachy_frame *out;
    const struct carry_point *points; // of the whole hole
    int n;
    const int *index;
};
// Fills them by fill.h. TACHY_ERR_NOMEM.
int carry_fill(const struct carry_rest *rest);
// Gives them these colours: R'G'B', 0..1, of each of the `n` points. Chroma that several share is their mean.
void carry_paint(const struct carry_rest *rest, const float (*rgb)[3]);
