#pragma once
#include "compare/judge.h"

// The picture of a comparison: for each metric the frame that is worst by it, with the mattes, the truth and what
// differs, side by side. {0} is an empty sheet.

// One picture of a row, made small.
struct tachy_tile {
    int width, height;
    float *v; // 0..1 of a matte; -1..1 of a difference
};
enum { TACHY_TILES = 5 }; // a, b, truth, a - truth, b - truth

struct tachy_sheet {
    struct {
        int64_t frame;
        double value[2];
        struct tachy_tile tile[TACHY_TILES]; // v is NULL if there is none
    } row[TACHY_MATTE_METRICS];
};

// Adds the frame if it is the worst so far by some metric. `b` may be NULL: only a is measured. TACHY_ERR_NOMEM.
int tachy_sheet_take(struct tachy_sheet *s, int64_t frame, const struct tachy_matte *a, const struct tachy_matte *b,
                     const struct tachy_matte *truth, const double va[TACHY_MATTE_METRICS],
                     const double vb[TACHY_MATTE_METRICS]);
// Draws the sheet as a picture, which is the caller's; `names`: of a, b (NULL: none) and the truth. TACHY_ERR_NOMEM.
int tachy_sheet_draw(tachy_frame **out, const struct tachy_sheet *s, const char *const names[3]);
void tachy_sheet_free(struct tachy_sheet *s);
