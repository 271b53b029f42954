#include "postprocess/follow.h"

#include <math.h>
#include <stdlib.h>

static void drop(struct tachy_followed *t)
{
    free(t->calm);
    *t = (struct tachy_followed){.id = -1};
}

void tachy_follow_reset(struct tachy_follow *f)
{
    for (int i = 0; i < f->nb; i++)
        drop(&f->thing[i]);
    f->nb = 0;
    f->since = 0;
}

void tachy_follow_free(struct tachy_follow *f)
{
    tachy_follow_reset(f);
    *f = (struct tachy_follow){0};
}

bool tachy_follow_wants_detector(const struct tachy_follow *f, const struct tachy_follow_params *p)
{
    return !f->nb || (f->nb < p->most && f->since >= TACHY_DEF(p->every, 15));
}

static bool is_followed(const struct tachy_follow *f, const struct tachy_follow_params *p, const struct tachy_region *crop)
{
    for (int i = 0; i < f->nb; i++)
        if (tachy_region_overlap(&f->thing[i].crop, crop) > (double)TACHY_DEF(p->overlap, 0.5f))
            return true;
    return false;
}

void tachy_follow_detected(struct tachy_follow *f, const struct tachy_follow_params *p,
                           const struct tachy_region *found, int nb)
{
    f->since = 0;
    for (int i = 0; i < nb && f->nb < TACHY_MIN(p->most, TACHY_MAX_FOLLOWED); i++) {
        struct tachy_region crop = found[i];
        tachy_region_crop(&crop, &p->detected);
        if (is_followed(f, p, &crop))
            continue;
        crop.points = NULL;
        crop.nb_points = 0;
        f->thing[f->nb++] = (struct tachy_followed){.id = f->next_id++, .crop = crop};
    }
}

// The upright box around the points that are finite; false: there are none.
static bool box_around(struct tachy_region *r)
{
    double x0 = INFINITY, y0 = INFINITY, x1 = -INFINITY, y1 = -INFINITY;
    for (int i = 0; i < r->nb_points; i++) {
        x0 = fmin(x0, r->points[i].x), x1 = fmax(x1, r->points[i].x);
        y0 = fmin(y0, r->points[i].y), y1 = fmax(y1, r->points[i].y);
    }
    r->x = (x0 + x1) / 2, r->y = (y0 + y1) / 2;
    r->w = x1 - x0, r->h = y1 - y0;
    r->angle = 0;
    return isfinite(r->w) && isfinite(r->h) && r->w > 0 && r->h > 0;
}

static int calm(struct tachy_followed *t, const struct tachy_follow_params *p, struct tachy_point *points, int nb,
                double unit, double seconds)
{
    if (!(p->calm.min_cutoff > 0))
        return TACHY_OK;
    if (t->nb_points != nb) {
        free(t->calm);
        t->calm = calloc((size_t)nb * 2, sizeof(*t->calm));
        t->nb_points = t->calm ? nb : 0;
        if (!t->calm)
            return TACHY_ERR_NOMEM;
    }
    for (int i = 0; i < nb; i++) {
        points[i].x = (float)tachy_one_euro_step(&p->calm, &t->calm[2 * i], points[i].x, seconds, unit);
        points[i].y = (float)tachy_one_euro_step(&p->calm, &t->calm[2 * i + 1], points[i].y, seconds, unit);
    }
    return TACHY_OK;
}

bool tachy_follow_update(struct tachy_follow *f, const struct tachy_follow_params *p, int i, struct tachy_region *r,
                         struct tachy_point *points, double seconds, int *err)
{
    struct tachy_followed *t = &f->thing[i];
    if (!(r->score >= TACHY_DEF(p->threshold, 0.5f)) || !box_around(r)) {
        t->id = -1;
        return false;
    }
    t->crop = *r;
    tachy_region_crop(&t->crop, &p->followed);
    t->crop.points = NULL;
    t->crop.nb_points = 0;
    r->track = t->id;
    *err = calm(t, p, points, r->nb_points, TACHY_MAX(r->w, r->h), seconds);
    return *err == TACHY_OK && box_around(r);
}

void tachy_follow_end(struct tachy_follow *f, const struct tachy_follow_params *p)
{
    struct tachy_follow all = *f;
    bool lost = false;
    f->nb = 0;
    f->since++;
    for (int i = 0; i < all.nb; i++) { // the older ones come first
        lost |= all.thing[i].id < 0;
        if (all.thing[i].id < 0 || is_followed(f, p, &all.thing[i].crop))
            drop(&all.thing[i]);
        else
            f->thing[f->nb++] = all.thing[i];
    }
    if (lost) // it may be seen again at once
        f->since = TACHY_DEF(p->every, 15);
}
