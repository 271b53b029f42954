#include "stage/mask_region.h"

#include <math.h>

enum { NAMED = 3 };

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

struct tachy_region *mask_region_add(struct tachy_regions *list, const struct mask_found *f, const struct mask_axes *a, float *row,
                                     double presence)
{
    struct tachy_region *r = tachy_regions_add(list);
    struct tachy_named *v = tachy_regions_alloc(list, NAMED * sizeof(*v));
    int width = f->c.x1 - f->c.x0 + 1, height = f->c.y1 - f->c.y0 + 1;
    uint8_t *mask = tachy_regions_alloc(list, (size_t)width * (size_t)height);
    if (!r || !v || !mask)
        return NULL;
    tachy_logits_paint(&f->at, &a->x, &a->y, &f->c, row, mask);
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
