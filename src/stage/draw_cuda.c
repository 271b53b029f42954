#include "stage/draw.h"
#include "stage/stages.h"

#include "cuda/mem.h"
#include "ref/ref_draw.h"
#include "stage/device_out.h"

#include <stdlib.h>

// Draws the regions over a copy of the picture on the device, which is downloaded when it is pulled.

// The stage's data for a worker on a device.
struct part {
    struct device_painter painter; // first
    struct tachy_shapes shapes; // of the item in hand
    struct tachy_block there;   // the same on the device
};

// ---- A picture

// Queues the shapes over `surface`. The driver has taken them from the host's memory when the copy returns.
static int queue_shapes(struct device_group *p, tachy_frame *surface)
{
    struct device_worker *g = p->g;
    struct part *own = p->part;
    struct tachy_gpu_scratch s = {g->task->memory, g->device->mem, g->cu, g->stream, g->task->log};
    size_t bytes = (size_t)own->shapes.nb * sizeof(*own->shapes.v);
    int err = bytes ? tachy_gpu_scratch_need(&s, &own->there, bytes) : TACHY_OK;
    if (err < 0 || !bytes)
        return err;
    cuda_address there = tachy_cu_address(own->there.data);
    err = device_failed(g, g->cu->copy_to_device_async(there, own->shapes.v, bytes, g->stream), "a copy");
    if (err < 0)
        return err;
    uint8_t *planes[4];
    for (int i = 0; i < 4; i++)
        planes[i] = tachy_frame_writable(surface, i);
    const struct tachy_canvas c = tachy_overlay_canvas(surface, planes, surface->stride);
    struct tachy_cuda_draw k = {.shapes = there, .count = own->shapes.nb, .width = c.width, .height = c.height,
                                .chroma_x = c.chroma_x, .chroma_y = c.chroma_y, .bytes = c.bytes, .shift = c.shift,
                                .nb = c.nb};
    for (int i = 0; i < c.nb; i++) {
        k.component[i] = tachy_cu_address(c.component[i].data);
        k.stride[i] = c.component[i].stride;
        k.step[i] = c.component[i].step;
    }
    return device_failed(g, g->kernels->draw(&k, g->stream), "starting the kernel that draws");
}

static int paint(struct device_group *p, struct tachy_item *item, tachy_frame *surface)
{
    const struct tachy_draw *d = tachy_stage_priv(p->st);
    struct device_worker *g = p->g;
    struct part *own = p->part;
    const tachy_frame *f;
    int err = device_frame_of(p, item, &f);
    if (err == TACHY_OK)
        err = tachy_overlay_shapes(&own->shapes, &d->overlay, f, item->result.regions, item->result.nb_regions);
    if (err < 0)
        return err;
    device_kernels(g);
    err = tachy_frame_copy_planes(surface, f, &g->gpu->device, g->stream, false, g->task->log);
    if (err == TACHY_OK)
        err = queue_shapes(p, surface);
    device_kernels_end(g, 2 * device_bytes(f));
    return err;
}

// ---- The stage

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    st->worker_of = st->task->devices->st->worker_of;
    return tachy_draw_open(st, s);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct tachy_draw *d = tachy_stage_priv(st);
    return device_host_pool(st, &d->pool, video->format, video->width, video->height);
}

static void part_close(void *part)
{
    struct part *p = part;
    device_painter_close(&p->painter);
    tachy_shapes_free(&p->shapes);
    tachy_memory_give(p->painter.g->task->memory, &p->there);
    free(p);
}

static int part_open(struct tachy_stage *st, int batch, void **part)
{
    static const struct device_out none = {0}; // no encoder reads it on the device
    const struct tachy_draw *d = tachy_stage_priv(st);
    const struct tachy_video_info *in = &st->task->in;
    struct device_worker *g = *part;
    struct part *p = *part = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    p->painter = (struct device_painter){.paint = paint, .out = &none, .host = &d->pool};
    int err = device_painter_open(&p->painter, g, in->format, in->width, in->height);
    if (err < 0) {
        part_close(p);
        *part = NULL;
    }
    return err;
}

const struct tachy_stage_ops tachy_stage_draw_cuda = {
    .name = "draw",
    .options = tachy_draw_options,
    .flags = TACHY_STAGE_READS | TACHY_STAGE_WRITES,
    .priv_size = sizeof(struct tachy_draw),
    .item_size = sizeof(struct device_painted),
    .open = open,
    .close = tachy_draw_close,
    .start = start,
    .worker_open = part_open,
    .worker_close = part_close,
    .run = device_painter_run,
    .sync = device_painter_sync,
    .load = device_load,
    .queue = device_painter_queue,
};
