#include "stage/animate.h"
#include "stage/stages.h"

#include <stdlib.h>
#include <string.h>

// Paints the portrait as the stage `drive` says, on the CPU.

struct animate {
    tachy_frame_pool *pool;
};

void animate_video(const struct drive *d, struct tachy_video_info *video)
{
    const tachy_frame *picture = d->portrait[0]->picture;
    video->format = picture->format;
    video->width = picture->width;
    video->height = picture->height;
    video->color = picture->color;
    video->sar = (struct tachy_rational){1, 1};
    video->rotation = 0;
    video->flipped = false;
    video->stereo = TACHY_STEREO_MONO;
    video->transparent = false;
}

void animate_name(const struct drive_item *of, struct tachy_item *item)
{
    tachy_item_name(item, of->portrait->picture->color);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct animate *a = tachy_stage_priv(st);
    animate_video(tachy_stage_priv(tachy_stage_before(st, "drive")), video);
    return tachy_stage_pool(st, &a->pool, video->format, video->width, video->height);
}

static void close(struct tachy_stage *st)
{
    struct animate *a = tachy_stage_priv(st);
    tachy_frame_pool_close(&a->pool);
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    *worker = malloc(sizeof(struct tachy_face_placed));
    return *worker ? TACHY_OK : TACHY_ERR_NOMEM;
}

void animate_mirror(const struct tachy_face_plane *p)
{
    for (int y = 0; y < p->height; y++) {
        uint8_t *row = p->dst + y * p->stride_dst;
        for (int a = 0, b = p->width - 1; a < b; a++, b--) {
            uint8_t left = row[a];
            row[a] = row[b];
            row[b] = left;
        }
    }
}

struct tachy_face_plane animate_plane(const tachy_frame *portrait, tachy_frame *out, int i)
{
    struct tachy_face_plane p = {
        .src = portrait->data[i], .stride_src = portrait->stride[i],
        .dst = tachy_frame_writable(out, i), .stride_dst = out->stride[i],
        .width = i ? (out->width + 1) / 2 : out->width, .height = i ? (out->height + 1) / 2 : out->height,
        .scale_x = i ? 0.5f : 1, .scale_y = i ? 0.5f : 1};
    for (int y = 0; y < p.height; y++)
        memcpy(p.dst + y * p.stride_dst, p.src + y * p.stride_src, (size_t)p.width);
    return p;
}

static void paint(const struct drive_item *of, const struct tachy_face_placed *placed, tachy_frame *out)
{
    const tachy_frame *from = of->portrait->picture;
    for (int i = 0; i < 3; i++) {
        struct tachy_face_plane p = animate_plane(from, out, i);
        tachy_face_paint(&of->portrait->face, placed, &p, of->portrait->mouth[i]);
        if (of->mirrored)
            animate_mirror(&p);
    }
}

static int animate(struct tachy_stage *st, struct tachy_face_placed *placed, struct tachy_item *item)
{
    const struct animate *a = tachy_stage_priv(st);
    const struct drive_item *of = tachy_stage_item(tachy_stage_before(st, "drive"), item);
    int err = tachy_frame_pool_get(a->pool, &item->out);
    if (err < 0)
        return err;
    animate_name(of, item);
    tachy_face_place(&of->portrait->face, &of->motion, placed);
    paint(of, placed, item->out);
    return TACHY_OK;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        if (!pieces[i].item->out) // networks have not painted it
            err[i] = animate(st, worker, pieces[i].item);
}

const struct tachy_stage_ops tachy_stage_animate = {
    .name = "animate",
    .flags = TACHY_STAGE_WRITES,
    .priv_size = sizeof(struct animate),
    .close = close,
    .start = start,
    .worker_open = worker_open,
    .worker_close = free,
    .run = run,
};
