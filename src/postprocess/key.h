#pragma once
#include "postprocess/buf.h"
#include "postprocess/kernels.h"

#include <tachy/frame.h>

// A chroma keyer: computes from a pixel's chroma how much of it is not the screen, at the frame's own size and in its
// own pixel format.
//
// Colour difference (P. Vlahos, US 3595987), for a key of any hue, on chroma (F. van den Bergh and V. Lalioti,
// "Software chroma keying in an immersive virtual environment", South African Computer Journal 24, 1999). The chroma
// plane is turned so that the screen lies on the positive x axis at x = strength; then
// share of the screen = (x - |z| * tan 30 degrees) / strength,
// alpha = (1 - share - black) / (white - black), 0..1.
// Chroma of grey is 0, so a pixel that is a grey and 1 - a screen gets alpha a exactly. The angle is that of the
// classic G - max(R, B). Subsampled chroma is interpolated linearly to luma's size, at the stream's siting.

// A colour: luma 0..1, chroma -0.5..0.5.
struct tachy_ycbcr {
    float y, u, v;
};

enum tachy_key_hue { TACHY_KEY_ANY, TACHY_KEY_GREEN, TACHY_KEY_BLUE };

// The usual colour of screens of this hue (not ANY); `matrix`: H.273.
struct tachy_ycbcr tachy_key_screen(enum tachy_key_hue hue, int matrix);

enum { TACHY_KEY_COLORS = 8 };
#define TACHY_KEY_NARROW 0.57735027f // tan 30 degrees

struct tachy_chroma_key {
    struct tachy_ycbcr color[TACHY_KEY_COLORS]; // of the screen
    int nb_colors; // 0: nothing is screen
    float black;   // alpha up to this is 0; 0..1
    float white;   // alpha from this on is 1; black < white <= 1
    bool shadows;  // a shadow on the screen is kept as black that is so much opaque; else it counts as screen
};

// The colour in the chroma of a frame with these tags. False: it is grey, so no screen differs from people by it.
bool tachy_key_color_of(struct tachy_ycbcr *c, uint32_t rgba, const tachy_frame *like);

// Finds the screen at the left, right and upper border of a frame: the most frequent hue among saturated pixels, and a
// strength that 85 % of them have. False: less than a quarter of the border looks alike. Reads about 20,000 pixels.
// TACHY_ERR_NOMEM.
int tachy_key_find(struct tachy_ycbcr *c, enum tachy_key_hue hue, const tachy_frame *f, bool *found);

// Produces a frame's rows of alpha in order. Use one object per thread; {0} is valid.
struct tachy_key_rows {
    const struct tachy_chroma_key *key;
    const tachy_frame *frame;
    struct tachy_key_axis axis[TACHY_KEY_COLORS];
    bool centre, top; // of chroma, struct tachy_chroma_site
    struct tachy_buf rows;
    int held[2]; // which rows of chroma are in memory; -1: none
};
// TACHY_ERR_NOMEM. Key and frame must live until the last row.
int tachy_key_begin(struct tachy_key_rows *r, const struct tachy_chroma_key *key, const tachy_frame *f);
// Alpha of row y, frame->width bytes.
void tachy_key_row(struct tachy_key_rows *r, const struct tachy_post_kernels *k, int y, uint8_t *alpha);
void tachy_key_free(struct tachy_key_rows *r);
