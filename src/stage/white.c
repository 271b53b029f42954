#include "base/output_options.h"
#include "postprocess/composite.h"
#include "stage/stage.h"
#include "stage/stages.h"

// Paints the regions' masks white on black.

struct white {
    struct tachy_video_info out;
    tachy_frame_pool *pool;
};

static const struct tachy_option options[] = {
    {"masks.white", "white", 0, TACHY_OPT_BOOL, "no", .group = "Masks",
     .help = "write a picture or video in which all masks together are white and the rest is black, as `tachy inpaint --hole` reads it"},
    {0},
};

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    bool wanted = tachy_settings_bool(s, "masks.white") && tachy_output_kinds(s) & 1u << TACHY_TEXT_NONE;
    return wanted ? TACHY_OK : TACHY_STAGE_LEFT_OUT;
}

static void white_close(struct tachy_stage *st) { tachy_frame_pool_close(&((struct white *)tachy_stage_priv(st))->pool); }

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct white *w = tachy_stage_priv(st);
    const struct tachy_composite_params mask = {.mode = TACHY_MODE_MASK, .threshold = 0.5f, .log = st->task->log};
    int err = tachy_composite_output(&mask, video, &w->out);
    if (err < 0)
        return err;
    *video = w->out;
    return tachy_stage_pool(st, &w->pool, w->out.format, w->out.width, w->out.height);
}

// Masks have the frame's own pixels.
static void add(const struct tachy_mask *m, uint8_t *to, ptrdiff_t stride)
{
    to += m->region.y * stride + m->region.x;
    for (int y = 0; y < m->height; y++)
        for (int x = 0; x < m->width; x++)
            if (m->data[y * m->stride + x] >= 128)
                to[y * stride + x] = 255;
}

static int paint(const struct white *w, struct tachy_item *item)
{
    int err = tachy_frame_pool_get(w->pool, &item->out);
    if (err < 0)
        return err;
    tachy_item_name(item, w->out.color);
    uint8_t *to = tachy_frame_writable(item->out, 0);
    ptrdiff_t stride = item->out->stride[0];
    for (int y = 0; y < item->out->height; y++)
        memset(to + y * stride, 0, (size_t)item->out->width);
    for (int i = 0; i < item->result.nb_regions; i++)
        if (item->result.regions[i].mask.data)
            add(&item->result.regions[i].mask, to, stride);
    return TACHY_OK;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = paint(tachy_stage_priv(st), pieces[i].item);
}

const struct tachy_stage_ops tachy_stage_white = {
    .name = "white",
    .step = "draw",
    .options = options,
    .flags = TACHY_STAGE_WRITES,
    .priv_size = sizeof(struct white),
    .open = open,
    .close = white_close,
    .start = start,
    .run = run,
};
