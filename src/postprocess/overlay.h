#pragma once
#include "postprocess/regions.h"
#include "ref/ref_draw.h"

#include <tachy/frame.h>

// Regions drawn over a picture: boxes with names, points, in the picture's own pixel format.

// Lines between points of a region, by the points' numbers.
struct tachy_bones {
    const uint8_t (*ends)[2];
    int nb;
};

struct tachy_overlay_params { // {0} is valid
    float line;  // width of lines as a share of the frame's height; 0: 1/360
    float text;  // height of letters as a share of the frame's height; 0: 1/40
    bool no_names, no_boxes, no_points;
    struct tachy_bones bones; // drawn with the points; the text then leaves out values, which are many
};

// Shapes to draw on one frame. Memory is reused from frame to frame.
struct tachy_shapes {
    struct tachy_shape *v;
    int nb, room;
};
void tachy_shapes_free(struct tachy_shapes *s);

// The shapes of the regions, in their order, for a frame like `f` (format, size, colour). The list is emptied first.
// TACHY_ERR_NOMEM.
int tachy_overlay_shapes(struct tachy_shapes *to, const struct tachy_overlay_params *p, const tachy_frame *f,
                         const struct tachy_region *regions, int nb);
// Copies the pixels of a frame into another of its format and size that can be written.
void tachy_overlay_copy(const tachy_frame *in, tachy_frame *out);
// Layout of the sample planes for the format and size of `f`, for callers that draw themselves.
struct tachy_canvas tachy_overlay_canvas(const tachy_frame *f, uint8_t *const data[4], const ptrdiff_t stride[4]);
// Tints what the masks of regions cover, those that have the frame's own pixels, before shapes are drawn.
void tachy_overlay_tint(const struct tachy_region *regions, int nb, const tachy_frame *f, uint8_t *const data[4], const ptrdiff_t stride[4]);
// Draws into planes of the format and size of `f`.
void tachy_overlay_draw(const struct tachy_shapes *s, const tachy_frame *f, uint8_t *const data[4],
                        const ptrdiff_t stride[4]);

int tachy_shapes_add(struct tachy_shapes *to, const struct tachy_shape *s); // TACHY_ERR_NOMEM

// Converts text to lines with the width and colour of `like`: (x, y) is the left end of the base line, `size` the
// height of capitals, in pixels. Non-ASCII characters become a small box. TACHY_ERR_NOMEM.
int tachy_overlay_text(struct tachy_shapes *to, const char *text, const struct tachy_shape *like, float x, float y,
                       float size);
float tachy_overlay_text_width(const char *text, float size);
