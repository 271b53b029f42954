#include "base/options.h"
#include "postprocess/overlay.h"
#include "stage/animate.h"
#include "stage/stages.h"

#include <stdlib.h>

// The points that the mesh is moved by, drawn over the finished portrait, if somebody asks for them.

struct landmarks {
    struct tachy_stage_dial dial;
};

struct drawer {
    struct tachy_face_placed placed;
    struct tachy_shapes shapes;
    struct tachy_point point[TACHY_FACE_POINTS];
};

static const struct tachy_option options[] = {
    {"animation.landmarks", "landmarks", 0, TACHY_OPT_BOOL, "no", .group = "Animation",
     .help = "draw the face's points over the portrait; can change during a run (key l). On the CPU only"},
    {0},
};

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct landmarks *l = tachy_stage_priv(st);
    l->dial.path = "animation.landmarks";
    atomic_store(&l->dial.value, tachy_settings_bool(s, "animation.landmarks"));
    st->dials = &l->dial;
    st->nb_dials = 1;
    return TACHY_OK;
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    *worker = calloc(1, sizeof(struct drawer));
    return *worker ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void worker_close(void *worker)
{
    struct drawer *d = worker;
    tachy_shapes_free(&d->shapes);
    free(d);
}

static int draw(struct drawer *d, const struct drive_item *of, tachy_frame *out)
{
    static const struct tachy_overlay_params points_only = {.no_names = true, .no_boxes = true};
    const struct tachy_face *face = &of->portrait->face;
    struct tachy_region region = {.w = 2 * face->radius, .h = 2 * face->radius, .class_id = -1, .track = -1, .score = 1, .points = d->point,
                                  .nb_points = face->irises ? TACHY_FACE_POINTS : TACHY_FACE_SKIN};
    tachy_face_place(face, &of->motion, &d->placed);
    for (int i = 0; i < region.nb_points; i++) {
        const struct tachy_mesh_corner *c = &d->placed.corner[i];
        d->point[i] = (struct tachy_point){.x = of->mirrored ? (float)out->width - c->x : c->x, .y = c->y, .score = 1};
    }
    int err = tachy_overlay_shapes(&d->shapes, &points_only, out, &region, 1);
    uint8_t *planes[4];
    for (int i = 0; i < 4 && err == TACHY_OK; i++)
        planes[i] = tachy_frame_writable(out, i);
    if (err == TACHY_OK)
        tachy_overlay_draw(&d->shapes, out, planes, out->stride);
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct landmarks *l = tachy_stage_priv(st);
    const struct tachy_stage *drive = tachy_stage_before(st, "drive");
    for (int i = 0; i < n && atomic_load(&l->dial.value) != 0; i++)
        err[i] = draw(worker, tachy_stage_item(drive, pieces[i].item), pieces[i].item->out);
}

const struct tachy_stage_ops tachy_stage_landmarks = {
    .name = "landmarks",
    .step = "animate",
    .options = options,
    .priv_size = sizeof(struct landmarks),
    .open = open,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
};
