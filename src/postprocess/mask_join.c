#include "postprocess/mask_priv.h"

#include <math.h>

// A part's mask in the mask of the whole frame: bilinear, and faded in from those of its edges that lie inside the frame,
// so that a network which ends there leaves no step.

enum { FADE = 16 }; // of the part's extent: the width of a fade

static int fade(const struct mask_axis *a, double inside)
{
    double width = (double)a->extent / FADE, near = 1;
    if (a->from > 0)
        near = TACHY_MIN(near, inside / width);
    if (a->from + a->extent < a->frame)
        near = TACHY_MIN(near, (a->extent - inside) / width);
    return (int)lrint(near * MASK_ONE);
}

struct mask_sample mask_sample_at(const struct mask_axis *a, int i)
{
    double inside = (i + 0.5) * a->frame / a->whole - a->from;
    double at = TACHY_CLAMP(inside * a->n / a->extent - 0.5, 0, a->n - 1);
    int first = TACHY_MIN((int)at, TACHY_MAX(a->n - 2, 0));
    return (struct mask_sample){first, (int)lrint((at - first) * MASK_ONE), fade(a, inside)};
}

void mask_span(const struct mask_axis *a, int *first, int *end)
{
    double scale = (double)a->whole / a->frame;
    *first = (int)TACHY_CLAMP(ceil(a->from * scale - 0.5), 0, a->whole);
    *end = (int)TACHY_CLAMP(ceil((a->from + a->extent) * scale - 0.5), *first, a->whole);
}

// Rows of the part at the whole's width, each made once: two neighbours are between what is in memory.
struct rows {
    const struct tachy_mask *part;
    const struct mask_sample *across;
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
        const struct mask_sample *s = &r->across[x];
        to[x] = (uint8_t)((from[s->at] * (MASK_ONE - s->frac) + from[s->at + next] * s->frac + MASK_ONE / 2) / MASK_ONE);
    }
    r->held[y & 1] = y;
    return to;
}

// In 16 bits throughout, so that compilers make vectors of it.
static void join_row(uint8_t *restrict to, const uint8_t *restrict above, const uint8_t *restrict below,
                     const uint16_t *restrict weight, int n, int frac, int most)
{
    uint16_t lower = (uint16_t)frac, upper = (uint16_t)(MASK_ONE - frac), limit = (uint16_t)most;
    for (int x = 0; x < n; x++) {
        uint16_t v = (uint16_t)(above[x] * upper + below[x] * lower + MASK_ONE / 2) / MASK_ONE;
        uint16_t w = weight[x] < limit ? weight[x] : limit;
        to[x] = (uint8_t)((uint16_t)(to[x] * (uint16_t)(MASK_ONE - w) + v * w + MASK_ONE / 2) / MASK_ONE);
    }
}

void tachy_mask_join(uint8_t *whole, int width, int height, int frame_width, int frame_height, const struct tachy_mask *part)
{
    struct mask_sample across[TACHY_MASK_JOINED];
    uint16_t weight[TACHY_MASK_JOINED];
    const struct tachy_rect *r = &part->region;
    const struct mask_axis ax = {r->x, r->w, part->width, frame_width, width}, ay = {r->y, r->h, part->height, frame_height, height};
    int x0, x1, y0, y1;
    mask_span(&ax, &x0, &x1);
    mask_span(&ay, &y0, &y1);
    for (int x = x0; x < x1; x++) {
        across[x - x0] = mask_sample_at(&ax, x);
        weight[x - x0] = (uint16_t)across[x - x0].weight;
    }
    struct rows rows = {.part = part, .across = across, .n = x1 - x0, .held = {-1, -1}};
    for (int y = y0; y < y1; y++) {
        struct mask_sample down = mask_sample_at(&ay, y);
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
