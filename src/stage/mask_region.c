#include "stage/mask_region.h"

#include <math.h>
#include <stdlib.h>

enum { NAMED = 3 };

// ---- Maps

int mask_map_open(struct mask_map *m, int width, int height)
{
    size_t size = (size_t)width * (size_t)height;
    *m = (struct mask_map){
        .width = width, .height = height, .v = malloc(size * sizeof(*m->v)),
        .row = malloc((size_t)TACHY_MAX(width, height) * sizeof(*m->row)), .scratch = malloc(2 * size * sizeof(*m->scratch)),
    };
    return m->v && m->row && m->scratch ? TACHY_OK : TACHY_ERR_NOMEM;
}

void mask_map_close(struct mask_map *m)
{
    free(m->v);
    free(m->row);
    free(m->scratch);
    *m = (struct mask_map){0};
}

int mask_axes_open(struct mask_axes *a, const struct mask_map *m, int rotation, int width, int height)
{
    bool side = rotation == 90 || rotation == 270;
    int err = tachy_logits_axis_open(&a->x, side ? m->height : m->width, width);
    return err < 0 ? err : tachy_logits_axis_open(&a->y, side ? m->width : m->height, height);
}

void mask_axes_close(struct mask_axes *a)
{
    tachy_logits_axis_close(&a->x);
    tachy_logits_axis_close(&a->y);
}

bool mask_map_count(struct mask_map *m, const float *mask, const struct mask_axes *a, int rotation, bool flip, int mend, float offset,
                    struct mask_found *f)
{
    f->at = (struct tachy_logits){.v = m->v, .width = a->x.from, .height = a->y.from};
    tachy_logits_turn(m->v, mask, m->width, m->height, rotation, flip);
    if (mend)
        tachy_logits_mend(m->v, f->at.width, f->at.height, mend, m->scratch);
    tachy_logits_count(&f->at, &a->x, &a->y, offset, m->row, &f->c);
    if (!f->c.mask)
        return false;
    f->stability = (float)f->c.sure / (float)f->c.maybe;
    return true;
}

// ---- Regions

// The points that asked, not the corners of a box.
static bool add_points(const struct mask_found *f, struct tachy_region *r, struct tachy_regions *list)
{
    const struct prompt *p = &f->prompt;
    struct tachy_point *points = tachy_regions_alloc(list, sizeof(*points) * (size_t)TACHY_MAX(p->nb, 1));
    if (!points)
        return false;
    r->points = points;
    for (int i = 0; i < p->nb; i++)
        if (p->label[i] <= PROMPT_IN)
            points[r->nb_points++] = (struct tachy_point){.x = (float)(f->part.x + p->at[i][0] * f->part.w),
                                                          .y = (float)(f->part.y + p->at[i][1] * f->part.h), .score = (float)p->label[i]};
    return true;
}

struct tachy_region *mask_region_add(struct tachy_regions *list, const struct mask_found *f, const struct mask_axes *a,
                                     const struct mask_map *m, double presence)
{
    struct tachy_region *r = tachy_regions_add(list);
    struct tachy_named *v = tachy_regions_alloc(list, NAMED * sizeof(*v));
    int width = f->c.x1 - f->c.x0 + 1, height = f->c.y1 - f->c.y0 + 1;
    uint8_t *mask = tachy_regions_alloc(list, (size_t)width * (size_t)height);
    if (!r || !v || !mask)
        return NULL;
    tachy_logits_paint(&f->at, &a->x, &a->y, &f->c, m->row, mask);
    if (f->prompt.of) {
        r->label = f->prompt.of->label;
        r->class_id = f->prompt.of->class_id;
    }
    r->mask = (struct tachy_mask){mask, width, height, width, {f->part.x + f->c.x0, f->part.y + f->c.y0, width, height}};
    r->x = r->mask.region.x + width / 2.0;
    r->y = r->mask.region.y + height / 2.0;
    r->w = width;
    r->h = height;
    r->score = f->score;
    v[r->nb_values++] = (struct tachy_named){"stability", (double)f->stability};
    v[r->nb_values++] = (struct tachy_named){"area", (double)f->c.mask};
    if (!isnan(presence))
        v[r->nb_values++] = (struct tachy_named){"presence", presence};
    r->values = v;
    return add_points(f, r, list) ? r : NULL;
}
