#pragma once
#include "base/base.h"

#include <tachy/frame.h>
#include <tachy/result.h>

// Text that grows. {0} is empty.
struct tachy_text {
    char *p;
    size_t len, cap;
    bool failed; // out of memory; what follows is dropped
};
void tachy_text_add(struct tachy_text *t, const char *fmt, ...) TACHY_PRINTF(2, 3); // numbers and short names: 255 bytes
void tachy_text_put(struct tachy_text *t, const char *s, size_t n); // unchanged, of any length
void tachy_text_char(struct tachy_text *t, char c);
// A number with as few digits as give the same float back; JSON has no NaN and no infinity, so they are null.
void tachy_text_number(struct tachy_text *t, float v);
// In quotes, with JSON's escapes.
void tachy_text_string(struct tachy_text *t, const char *s);
// A cell of a CSV file, quoted as RFC 4180 says if it needs quotes.
void tachy_text_cell(struct tachy_text *t, const char *s);
void tachy_text_free(struct tachy_text *t);

// A picture of alpha for masks as text; pixels >= 128 belong to the mask.
struct tachy_bits {
    uint8_t *p;
    ptrdiff_t stride;
    int w, h;
};
struct tachy_buf;
// COCO's compressed run lengths, column by column, with JSON escapes. `within`: the position of b in a picture with
// these extents, which has no mask outside b; NULL: b is the picture. `runs`: scratch.
int tachy_rle(struct tachy_text *t, const struct tachy_bits *b, const struct tachy_rect *within, struct tachy_buf *runs);

// `,"values":{"name":1.5}`; nothing if n is 0.
void tachy_values_json(struct tachy_text *t, const struct tachy_named v[], int n);
// The findings for a frame as a JSON object in one line without newline (docs/results.md). `head`: the frame without
// pixels. `time_s`: NaN if unknown.
void tachy_regions_json(struct tachy_text *t, const tachy_frame *head, const struct tachy_result *r, double time_s);
// A row of values with commas for each region; the first line of a file names the columns. With newlines.
extern const char tachy_regions_csv_columns[];
void tachy_regions_csv(struct tachy_text *t, const tachy_frame *head, const struct tachy_region *regions, int nb,
                       double time_s);
// As above, for a task whose frames have values: one row per frame. A value that is not finite is left empty.
void tachy_values_csv_columns(struct tachy_text *t, const struct tachy_named v[], int n);
void tachy_values_csv(struct tachy_text *t, const tachy_frame *head, const struct tachy_named v[], int n, double time_s);
