#include "postprocess/follow.h"

#include <math.h>

void tachy_follow_reset(struct tachy_follow *f)
{
    f->nb = 0;
    f->since = 0;
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

// A region's position; copies nothing that points into its frame.
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

// True if the region overlaps the frame and has a plausible size.
static bool is_in_frame(const struct tachy_follow_params *p, const struct tachy_region *r)
{
    const double w = p->width, h = p->height;
    return !p->width || (fabs(r->x - w / 2) < (w + r->w) / 2 && fabs(r->y - h / 2) < (h + r->h) / 2 &&
                         fmax(r->w, r->h) <= 4 * fmax(w, h));
}

bool tachy_follow_update(struct tachy_follow *f, const struct tachy_follow_params *p, int i, struct tachy_region *r)
{
    struct tachy_followed *t = &f->thing[i];
    bool seen = r->score >= TACHY_DEF(p->threshold, 0.5f) && tachy_region_around(r) && is_in_frame(p, r);
    struct tachy_region crop = *r;
    if (seen && p->told && p->told < r->nb_points) {
        r->nb_points = p->told;
        seen = tachy_region_around(r);
    }
    if (!seen) {
        t->id = -1;
        return false;
    }
    tachy_region_crop(&crop, &p->followed);
    t->crop = place_of(&crop);
    r->track = t->id;
    return true;
}

void tachy_follow_end(struct tachy_follow *f, const struct tachy_follow_params *p)
{
    struct tachy_follow all = *f;
    bool lost = false;
    f->nb = 0;
    f->since++;
    for (int i = 0; i < all.nb; i++) { // the older ones come first
        lost |= all.thing[i].id < 0;
        if (all.thing[i].id >= 0 && !is_followed(f, p, &all.thing[i].crop))
            f->thing[f->nb++] = all.thing[i];
    }
    if (lost) // it may be seen again at once
        f->since = TACHY_DEF(p->every, 15);
}
