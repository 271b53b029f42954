#include "stage/stages.h"
#include "stage/track.h"

#include <math.h>

// Named values of what track has found: what a face does, or the angles of a body's joints. From a frame's own points, so in
// any order. The last stage that changes these regions, so they are taken over here.

// Degrees between what goes from `at` to the other two, 0..180, in the picture.
static double degrees_at(const struct tachy_point *from, const struct tachy_point *at, const struct tachy_point *to)
{
    double ax = (double)from->x - at->x, ay = (double)from->y - at->y, bx = (double)to->x - at->x, by = (double)to->y - at->y;
    return fabs(atan2(ax * by - ay * bx, ax * bx + ay * by)) * 180 / 3.14159265358979323846;
}

// The kind's angles whose points are all seen.
static int tell_angles(const struct track *t, struct tachy_region *r, struct tachy_regions *list)
{
    struct tachy_named *v = t->kind->nb_angles ? tachy_regions_alloc(list, sizeof(*v) * (size_t)t->kind->nb_angles) : NULL;
    if (t->kind->nb_angles && !v)
        return TACHY_ERR_NOMEM;
    r->values = v;
    for (int i = 0; i < t->kind->nb_angles; i++) {
        const struct track_angle *a = &t->kind->angle[i];
        if (TACHY_MAX(a->from, TACHY_MAX(a->at, a->to)) >= r->nb_points)
            continue;
        const struct tachy_point *from = &r->points[a->from], *at = &r->points[a->at], *to = &r->points[a->to];
        if (from->score >= 0.5f && at->score >= 0.5f && to->score >= 0.5f)
            v[r->nb_values++] = (struct tachy_named){a->name, degrees_at(from, at, to)};
    }
    return TACHY_OK;
}

void track_face_points(const struct tachy_region *r, tachy_face_points to)
{
    memset(to, 0, sizeof(tachy_face_points));
    for (int i = 0; i < TACHY_MIN(r->nb_points, TACHY_FACE_POINTS); i++) {
        to[i][0] = r->points[i].x;
        to[i][1] = r->points[i].y;
        to[i][2] = r->points[i].z;
    }
}

// Facial signs, for faces whose network has a mesh.
static int tell_signs(const struct track *t, struct tachy_region *r, struct tachy_regions *list)
{
    if (!t->kind->signs || r->nb_points < TACHY_FACE_SKIN)
        return TACHY_OK;
    tachy_face_points now;
    struct tachy_named *v = tachy_regions_alloc(list, sizeof(*v) * TACHY_FACE_SIGNS);
    if (!v)
        return TACHY_ERR_NOMEM;
    track_face_points(r, now);
    tachy_face_signs(v, now, t->follow.width, t->follow.height);
    r->values = v;
    r->nb_values = TACHY_FACE_SIGNS;
    return TACHY_OK;
}

static struct tachy_regions *all_of(struct tachy_stage *st, const struct tachy_item *item)
{
    return &((struct track_item *)tachy_stage_item(st, item))->all;
}

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    st->item_of = track_of(st)->index;
    return TACHY_OK;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    const struct track *t = tachy_stage_priv(track_of(st));
    for (int i = 0; i < n; i++) {
        struct tachy_regions *found = all_of(st, pieces[i].item);
        for (int k = 0; k < found->nb && err[i] == TACHY_OK; k++) {
            err[i] = tell_angles(t, &found->v[k], found);
            if (err[i] == TACHY_OK)
                err[i] = tell_signs(t, &found->v[k], found);
        }
    }
}

// ---- Things that later frames take over

static void tell(struct tachy_stage *st, struct tachy_item *item)
{
    item->result.regions = all_of(st, item)->v;
    item->result.nb_regions = all_of(st, item)->nb;
}

static int copy(struct tachy_stage *st, struct tachy_item *to, const struct tachy_item *from, int region)
{
    tachy_regions_clear(all_of(st, to));
    int err = tachy_regions_copy(all_of(st, to), from->result.regions, from->result.nb_regions);
    tell(st, to);
    return err;
}

static int copy_save(struct tachy_stage *st, const struct tachy_item *from, void **data, size_t *size)
{
    return tachy_regions_save(all_of(st, from), 1, data, size);
}

static int copy_load(struct tachy_stage *st, struct tachy_item *to, const void *data, size_t size)
{
    int err = tachy_regions_load(all_of(st, to), 1, data, size);
    tell(st, to);
    return err;
}

const struct tachy_stage_ops tachy_stage_values = {
    .name = "values",
    .flags = TACHY_STAGE_REGIONS,
    .open = open,
    .run = run,
    .copy = copy,
    .copy_save = copy_save,
    .copy_load = copy_load,
};
