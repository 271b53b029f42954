#include "postprocess/given.h"

#include "postprocess/mask_priv.h"

#include <math.h>

enum { CHUNK = 256 }; // tensor pixels handled at a time, on the stack

static bool three_channels(const struct tachy_tensor *t, enum tachy_layout layout, struct mask_grid *g)
{
    const struct tachy_mask_spec spec = {.meaning = TACHY_OUT_PROBABILITIES, .channel = 2, .layout = layout};
    return mask_grid_of(&spec, t, g) && g->c == 3;
}

// Whether `fore` is a picture of three channels, float32 or float16, with the extents of the card's input.
static bool fits(const struct tachy_card *card, const struct tachy_tensor *fore)
{
    struct mask_grid g;
    return (fore->dtype == TACHY_F32 || fore->dtype == TACHY_F16) && three_channels(fore, card->out_layout, &g) &&
           g.w == card->in.width && g.h == card->in.height;
}

void tachy_given_size(const struct tachy_card *card, const struct tachy_placement *pl, int rotation, int *width, int *height)
{
    tachy_mask_size(card->in.width, card->in.height, pl, rotation, width, height);
}

// One row of one colour: n <= CHUNK differences. Undoes the card's normalisation of channel c.
static void differ(const struct tachy_preprocess_params *in, int c, const float *fore, const float *picture, bool bytes, int n,
                   int16_t *to)
{
    float std = in->std[c] != 0 ? in->std[c] : 1, scale = in->scale != 0 ? in->scale : 1;
    float gain = std / scale * (bytes ? 255.0f : 1), offset = in->mean[c] / scale;
    for (int i = 0; i < n; i++) {
        float f = fore[i] > 0 ? TACHY_MIN(fore[i], 1.0f) : 0; // NaN is black
        float p = TACHY_CLAMP(picture[i] * gain + offset, 0.0f, 255.0f);
        to[i] = (int16_t)lrintf((255 * f - p) * TACHY_GIVEN_UNIT);
    }
}

int tachy_given_from_tensors(const struct tachy_card *card, const struct tachy_tensor *fore, const struct tachy_tensor *picture,
                             const struct tachy_placement *pl, int rotation, bool flip, int16_t *to)
{
    struct mask_grid f, p;
    if (!fits(card, fore) || !three_channels(fore, card->out_layout, &f) ||
        !three_channels(picture, card->in.layout, &p) || p.w != f.w || p.h != f.h)
        return TACHY_ERR_MISMATCH;
    struct tachy_rect r = mask_cut((int)f.w, (int)f.h, pl);
    bool turned = rotation == 90 || rotation == 270, bytes = picture->dtype == TACHY_U8;
    struct mask_turn turn = mask_turn_back(rotation, flip, r.w, r.h, turned ? r.h : r.w);
    float buf[2][CHUNK];
    int16_t row[CHUNK];
    for (int c = 0; c < 3; c++) {
        int colour = card->in.channels == TACHY_BGR ? 2 - c : c;
        int16_t *plane = to + (ptrdiff_t)colour * r.w * r.h + turn.origin;
        for (int y = 0; y < r.h; y++)
            for (int x = 0; x < r.w; x += CHUNK) {
                int n = TACHY_MIN(CHUNK, r.w - x);
                differ(&card->in, c, mask_grid_row(&f, r.y + y, r.x + x, c, n, buf[0]),
                       mask_grid_row(&p, r.y + y, r.x + x, c, n, buf[1]), bytes, n, row);
                for (int i = 0; i < n; i++)
                    plane[(x + i) * turn.x + y * turn.y] = row[i];
            }
    }
    return TACHY_OK;
}

// ---- Parts ----

static void join_row(int16_t *to, const int16_t *above, const int16_t *below, const struct mask_sample *across, int n,
                     const struct mask_sample *down, int next)
{
    for (int x = 0; x < n; x++) {
        const struct mask_sample *s = &across[x];
        int a = above[s->at] * (MASK_ONE - s->frac) + above[s->at + next] * s->frac;
        int b = below[s->at] * (MASK_ONE - s->frac) + below[s->at + next] * s->frac;
        int v = (int)(((int64_t)a * (MASK_ONE - down->frac) + (int64_t)b * down->frac) / (MASK_ONE * MASK_ONE));
        int w = TACHY_MIN(s->weight, down->weight);
        to[x] = (int16_t)((to[x] * (MASK_ONE - w) + v * w) / MASK_ONE);
    }
}

void tachy_given_join(int16_t *whole, int width, int height, int frame_width, int frame_height, const struct tachy_given *part)
{
    struct mask_sample across[TACHY_MASK_JOINED];
    const struct tachy_rect *r = &part->region;
    const struct mask_axis ax = {r->x, r->w, part->width, frame_width, width}, ay = {r->y, r->h, part->height, frame_height, height};
    int x0, x1, y0, y1, next = part->width > 1;
    mask_span(&ax, &x0, &x1);
    mask_span(&ay, &y0, &y1);
    for (int x = x0; x < x1; x++)
        across[x - x0] = mask_sample_at(&ax, x);
    for (int y = y0; y < y1; y++) {
        struct mask_sample down = mask_sample_at(&ay, y);
        for (int c = 0; c < 3; c++) {
            const int16_t *above = part->v + ((ptrdiff_t)c * part->height + down.at) * part->width;
            const int16_t *below = down.at < part->height - 1 ? above + part->width : above;
            join_row(whole + ((ptrdiff_t)c * height + y) * width + x0, above, below, across, x1 - x0, &down, next);
        }
    }
}

// ---- The frame's rows ----

void tachy_given_row(const struct tachy_given *g, float y, float *rgb[3])
{
    float at = (y - (float)g->region.y) * (float)g->height / (float)g->region.h - 0.5f;
    at = TACHY_CLAMP(at, 0.f, (float)(g->height - 1));
    int first = (int)at;
    float lower = (at - (float)first) / TACHY_GIVEN_UNIT, upper = 1.0f / TACHY_GIVEN_UNIT - lower;
    ptrdiff_t next = first < g->height - 1 ? g->width : 0;
    for (int c = 0; c < 3; c++) {
        const int16_t *above = g->v + ((ptrdiff_t)c * g->height + first) * g->width, *below = above + next;
        float *to = rgb[c];
        for (int x = 0; x < g->width; x++)
            to[x] = (float)above[x] * upper + (float)below[x] * lower;
        to[g->width] = to[g->width - 1];
    }
}
