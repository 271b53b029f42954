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

// Of a region, where it is; nothing that it points to outlives its frame.
static struct tachy_region place_of(const struct tachy_region *r)
{
    return (struct tachy_region){.x = r->x, .y = r->y, .w = r->w, .h = r->h, .angle = r->angle, .class_id = r->class_id,
                                 .score = r->score, .track = -1};
}

void tachy_follow_detected(struct tachy_follow *f, const struct tachy_follow_params *p,
                           const struct tachy_region *found, int nb)
{
    f->since = 0;
    for (int i = 0; i < nb && f->nb < TACHY_MIN(p->most, TACHY_MAX_FOLLOWED); i++) {
        struct tachy_region crop = found[i];
        tachy_region_crop(&crop, &p->detected);
        if (!is_followed(f, p, &crop))
            f->thing[f->nb++] = (struct tachy_followed){.id = f->next_id++, .crop = place_of(&crop)};
    }
}

// The upright box around the points that are finite; false: there are none.
static bool box_around(struct tachy_region *r)
{
    float x0 = INFINITY, y0 = INFINITY, x1 = -INFINITY, y1 = -INFINITY;
    for (int i = 0; i < r->nb_points; i++) { // NaN is neither less nor more
        const struct tachy_point *p = &r->points[i];
        x0 = p->x < x0 ? p->x : x0, x1 = p->x > x1 ? p->x : x1;
        y0 = p->y < y0 ? p->y : y0, y1 = p->y > y1 ? p->y : y1;
    }
    r->x = ((double)x0 + x1) / 2, r->y = ((double)y0 + y1) / 2;
    r->w = (double)x1 - x0, r->h = (double)y1 - y0;
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
    const struct tachy_one_euro_turn turn = tachy_one_euro_turn(&p->calm, seconds, unit);
    for (int i = 0; i < nb; i++) {
        points[i].x = (float)tachy_one_euro_step(&p->calm, &turn, &t->calm[2 * i], points[i].x);
        points[i].y = (float)tachy_one_euro_step(&p->calm, &turn, &t->calm[2 * i + 1], points[i].y);
    }
    return TACHY_OK;
}

// Whether the region overlaps the frame and has a plausible size.
static bool is_in_frame(const struct tachy_follow_params *p, const struct tachy_region *r)
{
    const double w = p->width, h = p->height;
    return !p->width || (fabs(r->x - w / 2) < (w + r->w) / 2 && fabs(r->y - h / 2) < (h + r->h) / 2 &&
                         fmax(r->w, r->h) <= 4 * fmax(w, h));
}

bool tachy_follow_update(struct tachy_follow *f, const struct tachy_follow_params *p, int i, struct tachy_region *r,
                         struct tachy_point *points, double seconds, int *err)
{
    struct tachy_followed *t = &f->thing[i];
    if (!(r->score >= TACHY_DEF(p->threshold, 0.5f)) || !box_around(r) || !is_in_frame(p, r)) {
        t->id = -1;
        return false;
    }
    struct tachy_region crop = *r;
    tachy_region_crop(&crop, &p->followed);
    t->crop = place_of(&crop);
    r->track = t->id;
    if (p->told && p->told < r->nb_points) {
        r->nb_points = p->told;
        if (!box_around(r)) {
            t->id = -1;
            return false;
        }
    }
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

// ---- As bytes: the struct, then the filters' states of each thing

static size_t calm_bytes(const struct tachy_followed *t) { return 2 * (size_t)t->nb_points * sizeof(*t->calm); }

int tachy_follow_save(const struct tachy_follow *f, void **data, size_t *size)
{
    struct tachy_follow plain = *f;
    *size = sizeof(plain);
    for (int i = 0; i < f->nb; i++) {
        *size += calm_bytes(&f->thing[i]);
        plain.thing[i].calm = NULL;
    }
    char *to = *data = malloc(*size);
    if (!to)
        return TACHY_ERR_NOMEM;
    memcpy(to, &plain, sizeof(plain));
    to += sizeof(plain);
    for (int i = 0; i < f->nb; i++) {
        if (f->thing[i].nb_points)
            memcpy(to, f->thing[i].calm, calm_bytes(&f->thing[i]));
        to += calm_bytes(&f->thing[i]);
    }
    return TACHY_OK;
}

static int load_calm(struct tachy_followed *t, const char **from, size_t *left)
{
    size_t n = t->nb_points < 0 ? SIZE_MAX : calm_bytes(t);
    t->calm = NULL;
    if (n > *left)
        return TACHY_ERR_FORMAT;
    if (n && !(t->calm = malloc(n)))
        return TACHY_ERR_NOMEM;
    if (n)
        memcpy(t->calm, *from, n);
    *from += n;
    *left -= n;
    return TACHY_OK;
}

int tachy_follow_load(struct tachy_follow *f, const void *data, size_t size)
{
    const char *from = (const char *)data + sizeof(*f);
    if (size < sizeof(*f))
        return TACHY_ERR_FORMAT;
    memcpy(f, data, sizeof(*f));
    size -= sizeof(*f);
    int err = f->nb < 0 || f->nb > TACHY_MAX_FOLLOWED ? TACHY_ERR_FORMAT : TACHY_OK, n = err < 0 ? 0 : f->nb;
    for (f->nb = 0; f->nb < n && err == TACHY_OK; f->nb++)
        err = load_calm(&f->thing[f->nb], &from, &size);
    if (err == TACHY_OK && size)
        err = TACHY_ERR_FORMAT;
    if (err < 0)
        tachy_follow_free(f);
    return err;
}
