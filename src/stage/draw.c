#include "stage/draw.h"
#include "stage/stages.h"
#include "stage/track.h"

#include "base/options.h"
#include "base/output_options.h"

#include <stdlib.h>

// The regions over the picture: boxes, names, points.

const struct tachy_option tachy_draw_options[] = {
    {"draw.boxes", "boxes", 0, TACHY_OPT_BOOL, "yes", .group = "Overlay", .help = "draw boxes"},
    {"draw.names", "names", 0, TACHY_OPT_BOOL, "yes", .group = "Overlay", .help = "write names and scores beside the boxes"},
    {"draw.points", "points", 0, TACHY_OPT_BOOL, "yes", .group = "Overlay", .help = "draw points"},
    {"draw.line", "line-width", 0, TACHY_OPT_FLOAT, .max = 0.5, .group = "Overlay",
     .help = "width of lines as a share of the frame height; default: 1/360"},
    {"draw.text", "text-size", 0, TACHY_OPT_FLOAT, .max = 0.5, .group = "Overlay",
     .help = "height of letters as a share of the frame height; default: 1/40"},
    {0},
};

int tachy_draw_open(struct tachy_stage *st, const tachy_settings *s)
{
    struct tachy_draw *d = tachy_stage_priv(st);
    d->overlay = (struct tachy_overlay_params){
        .line = (float)tachy_settings_float(s, "draw.line"),
        .text = (float)tachy_settings_float(s, "draw.text"),
        .no_boxes = !tachy_settings_bool(s, "draw.boxes"),
        .no_names = !tachy_settings_bool(s, "draw.names"),
        .no_points = !tachy_settings_bool(s, "draw.points"),
        .bones = track_bones(st->task),
    };
    return tachy_output_kinds(s) & 1u << TACHY_TEXT_NONE && !tachy_stage_before(st, "white") ? TACHY_OK : TACHY_STAGE_LEFT_OUT;
}

void tachy_draw_close(struct tachy_stage *st)
{
    struct tachy_draw *d = tachy_stage_priv(st);
    tachy_frame_pool_close(&d->pool);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct tachy_draw *d = tachy_stage_priv(st);
    return tachy_stage_pool(st, &d->pool, video->format, video->width, video->height);
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    *worker = calloc(1, sizeof(struct tachy_shapes));
    return *worker ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void worker_close(void *worker)
{
    tachy_shapes_free(worker);
    free(worker);
}

static int draw(const struct tachy_draw *d, struct tachy_shapes *shapes, struct tachy_item *item)
{
    const struct tachy_result *r = &item->result;
    int err = tachy_overlay_shapes(shapes, &d->overlay, item->in, r->regions, r->nb_regions);
    if (err == TACHY_OK)
        err = tachy_frame_pool_get(d->pool, &item->out);
    if (err < 0)
        return err;
    tachy_overlay_copy(item->in, item->out);
    tachy_item_name(item, item->in->color);
    uint8_t *planes[4];
    for (int i = 0; i < 4; i++)
        planes[i] = tachy_frame_writable(item->out, i);
    tachy_overlay_tint(r->regions, r->nb_regions, item->out, planes, item->out->stride);
    tachy_overlay_draw(shapes, item->out, planes, item->out->stride);
    return TACHY_OK;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = draw(tachy_stage_priv(st), worker, pieces[i].item);
}

const struct tachy_stage_ops tachy_stage_draw = {
    .name = "draw",
    .options = tachy_draw_options,
    .flags = TACHY_STAGE_READS | TACHY_STAGE_WRITES,
    .priv_size = sizeof(struct tachy_draw),
    .open = tachy_draw_open,
    .close = tachy_draw_close,
    .start = start,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
};
