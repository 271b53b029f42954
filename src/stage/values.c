#include "stage/family_net.h"
#include "stage/stages.h"
#include "stage/track.h"

#include <math.h>
#include <stdlib.h>

// Named values of what track has found: what a face does, or the angles of a body's joints. From a frame's own points, so in
// any order. The last stage that changes these regions, so they are taken over here.
//
// A network of a card can tell a face's expression in place of the coefficients by geometry.

struct values {
    struct tachy_family family; // no names: there is no network
    struct tachy_engine_setup setup;
    const struct tachy_log *log;
};

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

// Runs the network; its values follow the head's pose.
static int tell_expression(const struct values *of, struct family_net *net, const struct tachy_region *r, struct tachy_named *v)
{
    const struct tachy_family *f = &of->family;
    float *in = net->in[0].data;
    for (int i = 0; i < f->nb_points; i++) {
        int at = f->point[i];
        if (at >= r->nb_points)
            return tachy_fail(of->log, TACHY_ERR_MISMATCH, "%s: the card takes point %d, and faces have %d points: add --refine-landmarks",
                              f->name, at, r->nb_points);
        in[2 * i] = r->points[at].x;
        in[2 * i + 1] = r->points[at].y;
    }
    int err = tachy_engine_run(net->engine, net->in, net->out);
    for (int i = 0; i < f->nb_names && err == TACHY_OK; i++)
        v[i] = (struct tachy_named){f->names[i], ((const float *)net->out[0].data)[i]};
    return err;
}

// Pose and expression, for faces whose network has a mesh.
static int tell_signs(const struct values *of, struct family_net *net, const struct track *t, struct tachy_region *r,
                      struct tachy_regions *list)
{
    if (!t->kind->signs || r->nb_points < TACHY_FACE_SKIN)
        return TACHY_OK;
    tachy_face_points now;
    int all = net ? TACHY_FACE_POSE + of->family.nb_names : TACHY_FACE_SIGNS;
    struct tachy_named *v = tachy_regions_alloc(list, sizeof(*v) * (size_t)TACHY_MAX(all, TACHY_FACE_SIGNS));
    if (!v)
        return TACHY_ERR_NOMEM;
    track_face_points(r, now);
    tachy_face_signs(v, now, t->follow.width, t->follow.height);
    int err = net ? tell_expression(of, net, r, v + TACHY_FACE_POSE) : TACHY_OK;
    r->values = v;
    r->nb_values = all;
    return err;
}

static struct tachy_regions *all_of(struct tachy_stage *st, const struct tachy_item *item)
{
    return &((struct track_item *)tachy_stage_item(st, item))->all;
}

static int open_net(struct family_net *net, const struct values *v)
{
    int err = family_net_open(net, &v->family, TACHY_ROLE_EXPRESSION, &v->setup, v->log);
    if (err >= 0)
        err = family_net_in(net, NULL, 2 * (int64_t)v->family.nb_points);
    if (err >= 0)
        err = family_net_out(net, NULL, v->family.nb_names);
    return TACHY_MIN(err, TACHY_OK);
}

// Opens the network once, so that a card that cannot be used ends the run before it begins.
static int read_card(struct tachy_stage *st, const char *card, const tachy_settings *s)
{
    struct values *v = tachy_stage_priv(st);
    struct family_net net = {.lent = -1};
    int err = tachy_family_read(&v->family, card, "track", v->log);
    if (err == TACHY_OK)
        err = tachy_engine_setup_read(&v->setup, s);
    v->setup.device = v->setup.precision = NULL; // points are on the host, and few
    if (err == TACHY_OK)
        err = tachy_task_reads(st->task, v->family.file[TACHY_ROLE_EXPRESSION]);
    if (err == TACHY_OK)
        err = open_net(&net, v);
    family_net_close(&net);
    st->flags |= TACHY_STAGE_MODEL;
    tachy_task_describe(st->task, " %s", v->family.name ? v->family.name : "");
    return err;
}

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    const char *card = strcmp(st->task->name, "track") ? NULL : tachy_settings_str(s, "track.expression_card");
    ((struct values *)tachy_stage_priv(st))->log = st->task->log;
    st->item_of = track_of(st)->index;
    return card ? read_card(st, card, s) : TACHY_OK;
}

static void close(struct tachy_stage *st)
{
    struct values *v = tachy_stage_priv(st);
    tachy_engine_setup_free(&v->setup);
    tachy_family_free(&v->family);
}

static void worker_close(void *worker)
{
    family_net_close(worker);
    free(worker);
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    const struct values *v = tachy_stage_priv(st);
    struct family_net *net = *worker = v->family.nb_names ? calloc(1, sizeof(*net)) : NULL;
    if (!v->family.nb_names)
        return TACHY_OK;
    int err = net ? open_net(net, v) : TACHY_ERR_NOMEM;
    if (err < 0 && net) {
        worker_close(net);
        *worker = NULL;
    }
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    const struct track *t = tachy_stage_priv(track_of(st));
    for (int i = 0; i < n; i++) {
        struct tachy_regions *found = all_of(st, pieces[i].item);
        for (int k = 0; k < found->nb && err[i] == TACHY_OK; k++) {
            err[i] = tell_angles(t, &found->v[k], found);
            if (err[i] == TACHY_OK)
                err[i] = tell_signs(tachy_stage_priv(st), worker, t, &found->v[k], found);
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
    .priv_size = sizeof(struct values),
    .open = open,
    .close = close,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
    .copy = copy,
    .copy_save = copy_save,
    .copy_load = copy_load,
};
