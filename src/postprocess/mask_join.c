#include "postprocess/mask.h"

#include <math.h>

// A part's mask in the mask of the whole frame: bilinear, and faded in from those of its edges that lie inside the frame,
// so that a network which ends there leaves no step.

enum {
    ONE = 256,  // of the fixed-point weights
    FADE = 16,  // of the part's extent: the width of a fade
};

// How a row or column of the whole is made of two neighbours of the part.
struct sample {
    int at, frac;  // the first one, and the weight of the next, 0..ONE
    int weight;    // of the part against what is there, 0..ONE
};

// An axis of both masks: `from` and `extent` are the part's place and size in frame pixels, `frame` the frame's size,
// `n` and `whole` how many samples the two masks have.
struct axis {
    int from, extent, n, frame, whole;
};

static int fade(const struct axis *a, double inside)
{
    double width = (double)a->extent / FADE, near = 1;
    if (a->from > 0)
        near = TACHY_MIN(near, inside / width);
    if (a->from + a->extent < a->frame)
        near = TACHY_MIN(near, (a->extent - inside) / width);
    return (int)lrint(near * ONE);
}

// Of sample i of the whole; its centre lies in the part.
static struct sample sample_at(const struct axis *a, int i)
{
    double inside = (i + 0.5) * a->frame / a->whole - a->from;
    double at = TACHY_CLAMP(inside * a->n / a->extent - 0.5, 0, a->n - 1);
    int first = TACHY_MIN((int)at, TACHY_MAX(a->n - 2, 0));
    return (struct sample){first, (int)lrint((at - first) * ONE), fade(a, inside)};
}

// The samples of the whole whose centres lie in the part: *first .. *end - 1.
static void span(const struct axis *a, int *first, int *end)
{
    double scale = (double)a->whole / a->frame;
    *first = (int)TACHY_CLAMP(ceil(a->from * scale - 0.5), 0, a->whole);
    *end = (int)TACHY_CLAMP(ceil((a->from + a->extent) * scale - 0.5), *first, a->whole);
}

// Rows of the part at the whole's width, each made once: two neighbours are between what is in memory.
struct rows {
    const struct tachy_mask *part;
    const struct sample *across;
    int n;                                // samples of a row
    int held[2];                          // which rows are there; -1: none
    uint8_t row[2][TACHY_MASK_JOINED];
};

static const uint8_t *row_of(struct rows *r, int y)
{
    const uint8_t *from = r->part->data + TACHY_MIN(y, r->part->height - 1) * r->part->stride;
    uint8_t *to = r->row[y & 1];
    int next = r->part->width > 1;
    for (int x = 0; x < r->n && r->held[y & 1] != y; x++) {
        const struct sample *s = &r->across[x];
        to[x] = (uint8_t)((from[s->at] * (ONE - s->frac) + from[s->at + next] * s->frac + ONE / 2) / ONE);
    }
    r->held[y & 1] = y;
    return to;
}

// In 16 bits throughout, so that compilers make vectors of it.
static void join_row(uint8_t *restrict to, const uint8_t *restrict above, const uint8_t *restrict below,
                     const uint16_t *restrict weight, int n, int frac, int most)
{
    uint16_t lower = (uint16_t)frac, upper = (uint16_t)(ONE - frac), limit = (uint16_t)most;
    for (int x = 0; x < n; x++) {
        uint16_t v = (uint16_t)(above[x] * upper + below[x] * lower + ONE / 2) / ONE;
        uint16_t w = weight[x] < limit ? weight[x] : limit;
        to[x] = (uint8_t)((uint16_t)(to[x] * (uint16_t)(ONE - w) + v * w + ONE / 2) / ONE);
    }
}

void tachy_mask_join(uint8_t *whole, int width, int height, int frame_width, int frame_height, const struct tachy_mask *part)
{
    struct sample across[TACHY_MASK_JOINED];
    uint16_t weight[TACHY_MASK_JOINED];
    const struct tachy_rect *r = &part->region;
    const struct axis ax = {r->x, r->w, part->width, frame_width, width}, ay = {r->y, r->h, part->height, frame_height, height};
    int x0, x1, y0, y1;
    span(&ax, &x0, &x1);
    span(&ay, &y0, &y1);
    for (int x = x0; x < x1; x++) {
        across[x - x0] = sample_at(&ax, x);
        weight[x - x0] = (uint16_t)across[x - x0].weight;
    }
    struct rows rows = {.part = part, .across = across, .n = x1 - x0, .held = {-1, -1}};
    for (int y = y0; y < y1; y++) {
        struct sample down = sample_at(&ay, y);
        const uint8_t *above = row_of(&rows, down.at), *below = row_of(&rows, down.at + 1);
        join_row(whole + (ptrdiff_t)y * width + x0, above, below, weight, x1 - x0, down.frac, down.weight);
    }
}

void tachy_mask_joined_size(int frame_width, int frame_height, int *width, int *height)
{
    int by = 1;
    while (TACHY_MAX(frame_width, frame_height) > by * TACHY_MASK_JOINED)
        by++;
    *width = TACHY_MAX(frame_width / by, 1);
    *height = TACHY_MAX(frame_height / by, 1);
}
