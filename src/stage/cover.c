#include "stage/stages.h"

#include <math.h>
#include <stdlib.h>

// The regions as a mask for a composite: what lies in a region is its background, all else is kept.

enum { MOST = 512 };               // extents of a mask, which the composite brings to the frame's size
static const double GROWN = 1.3;   // a region's extents, so that what it is around is covered

struct cover_item {
    uint8_t *mask;
    int width, height;
};

static int room(struct cover_item *c, int width, int height)
{
    if (c->mask && c->width == width && c->height == height)
        return TACHY_OK;
    tachy_aligned_free(c->mask);
    *c = (struct cover_item){tachy_aligned_alloc((size_t)width * (size_t)height), width, height};
    return c->mask ? TACHY_OK : TACHY_ERR_NOMEM;
}

// Pixels of the mask whose centre is in the grown region become 0. `sx`, `sy`: frame pixels of one.
static void hide(struct cover_item *c, const struct tachy_region *r, double sx, double sy)
{
    double angle = r->angle * 3.14159265358979323846 / 180, cs = cos(angle), sn = sin(angle);
    double w = GROWN * r->w / 2, h = GROWN * r->h / 2, reach = hypot(w, h);
    int y0 = (int)TACHY_CLAMP((r->y - reach) / sy, 0, c->height), y1 = (int)TACHY_CLAMP((r->y + reach) / sy + 1, 0, c->height);
    int x0 = (int)TACHY_CLAMP((r->x - reach) / sx, 0, c->width), x1 = (int)TACHY_CLAMP((r->x + reach) / sx + 1, 0, c->width);
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1; x++) {
            double dx = (x + 0.5) * sx - r->x, dy = (y + 0.5) * sy - r->y;
            if (fabs(cs * dx + sn * dy) <= w && fabs(cs * dy - sn * dx) <= h)
                c->mask[(size_t)y * (size_t)c->width + (size_t)x] = 0;
        }
}

static int cover(struct cover_item *c, struct tachy_item *item)
{
    const tachy_frame *f = tachy_item_head(item);
    struct tachy_result *r = &item->result;
    int err = room(c, TACHY_MIN(f->width, MOST), TACHY_MIN(f->height, MOST));
    if (err < 0)
        return err;
    memset(c->mask, 255, (size_t)c->width * (size_t)c->height);
    for (int i = 0; i < r->nb_regions; i++)
        hide(c, &r->regions[i], (double)f->width / c->width, (double)f->height / c->height);
    r->eyes = 1;
    r->mask[0] = (struct tachy_mask){c->mask, c->width, c->height, c->width, {0, 0, f->width, f->height}};
    return TACHY_OK;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = cover(tachy_stage_item(st, pieces[i].item), pieces[i].item);
}

static void item_close(void *item) { tachy_aligned_free(((struct cover_item *)item)->mask); }

const struct tachy_stage_ops tachy_stage_cover = {
    .name = "cover",
    .item_size = sizeof(struct cover_item),
    .run = run,
    .item_close = item_close,
};
