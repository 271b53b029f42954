#include "base/options.h"
#include "media/convert.h"
#include "stage/composite.h"
#include "stage/stages.h"

#include <math.h>
#include <stdlib.h>

// The driver to the left of the finished portrait, upright and as high as it.

struct beside {
    tachy_frame_pool *pool;
    int width, height; // of the driver as shown
};

static const struct tachy_option options[] = {
    {"animation.side_by_side", "side-by-side", 0, TACHY_OPT_BOOL, "no", .group = "Animation",
     .help = "show the driver to the left of the portrait, as high as it. On the CPU only"},
    {0},
};

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    return tachy_settings_bool(s, "animation.side_by_side") ? TACHY_OK : TACHY_STAGE_LEFT_OUT;
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct beside *b = tachy_stage_priv(st);
    const struct tachy_video_info *in = &st->task->in;
    double shape = (double)in->width / in->height;
    if (in->sar.num > 0 && in->sar.den > 0)
        shape *= (double)in->sar.num / in->sar.den;
    if (in->rotation % 180)
        shape = 1 / shape;
    b->height = video->height;
    b->width = TACHY_CLAMP((int)lrint(shape * b->height / 2), 1, 8192) * 2; // even, so that chroma of the portrait stays whole
    video->width += b->width;
    return tachy_stage_pool(st, &b->pool, video->format, video->width, video->height);
}

static void close(struct tachy_stage *st)
{
    struct beside *b = tachy_stage_priv(st);
    tachy_frame_pool_close(&b->pool);
}

struct turner {
    struct tachy_convert *convert;
};

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    *worker = calloc(1, sizeof(struct turner));
    return *worker ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void worker_close(void *worker)
{
    struct turner *t = worker;
    tachy_convert_close(&t->convert);
    free(t);
}

// The driver in the size, position and colour of what it is shown in.
static int shown(struct tachy_stage *st, struct turner *t, const tachy_frame *driver, const tachy_frame *like, tachy_frame **out)
{
    const struct beside *b = tachy_stage_priv(st);
    const struct tachy_video_info *in = &st->task->in;
    bool turned = in->rotation % 180;
    const struct tachy_convert_to to = {like->format, turned ? b->height : b->width, turned ? b->width : b->height, like->color};
    tachy_frame *f;
    int err = tachy_convert_frame(&t->convert, driver, &to, &f, st->task->log);
    *out = f;
    if (err < 0 || (!in->rotation && !in->flipped))
        return err;
    err = tachy_picture_turn(f, in->rotation, in->flipped, false, out);
    tachy_frame_unref(&f);
    return err;
}

// `x` is even.
static void put(const tachy_frame *f, tachy_frame *out, int x)
{
    for (int i = 0; i < 3; i++) {
        int width = i ? (f->width + 1) / 2 : f->width, height = i ? (f->height + 1) / 2 : f->height;
        uint8_t *to = tachy_frame_writable(out, i) + (i ? x / 2 : x);
        for (int y = 0; y < height; y++)
            memcpy(to + y * out->stride[i], f->data[i] + y * f->stride[i], (size_t)width);
    }
}

static int join(struct tachy_stage *st, struct turner *t, struct tachy_item *item)
{
    const struct beside *b = tachy_stage_priv(st);
    tachy_frame *driver = NULL, *portrait = item->out, *both = NULL;
    int err = shown(st, t, item->in, portrait, &driver);
    if (err == TACHY_OK)
        err = tachy_frame_pool_get(b->pool, &both);
    if (err == TACHY_OK) {
        put(driver, both, 0);
        put(portrait, both, b->width);
        item->out = both;
        tachy_item_name(item, portrait->color);
        tachy_frame_unref(&portrait);
    }
    tachy_frame_unref(&driver);
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = join(st, worker, pieces[i].item);
}

const struct tachy_stage_ops tachy_stage_beside = {
    .name = "beside",
    .step = "animate",
    .options = options,
    .flags = TACHY_STAGE_READS | TACHY_STAGE_WRITES,
    .priv_size = sizeof(struct beside),
    .open = open,
    .close = close,
    .start = start,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
};
