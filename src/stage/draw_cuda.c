#include "stage/draw.h"
#include "stage/stages.h"

#include "cuda/mem.h"
#include "ref/ref_draw.h"
#include "stage/device.h"

#include <stdlib.h>

// The regions drawn over a copy of the picture on the device, which is fetched when it is pulled.

// What the stage keeps on a worker's part of a device.
struct part {
    struct device_worker *g;
    tachy_frame_pool *surfaces; // drawn
    struct tachy_shapes shapes; // of the item in hand
    struct tachy_block there;   // the same on the device
};

struct draw_item {
    struct device_flight *flight; // where its picture is: part of it
    uint64_t part;
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

// Queues the item's picture into *surface, which is the caller's, also on failure.
static int queue_picture(struct device_group *p, struct tachy_item *item, tachy_frame **surface)
{
    const struct tachy_draw *d = tachy_stage_priv(p->st);
    struct device_worker *g = p->g;
    struct part *own = p->part;
    const tachy_frame *f;
    int err = device_frame_of(p, item, &f);
    if (err == TACHY_OK)
        err = tachy_overlay_shapes(&own->shapes, &d->overlay, f, item->result.regions, item->result.nb_regions);
    if (err == TACHY_OK)
        err = tachy_frame_pool_get(own->surfaces, surface);
    if (err < 0)
        return err;
    device_kernels(g);
    err = tachy_frame_copy_planes(*surface, f, &g->gpu->device, g->stream, false, g->task->log);
    if (err == TACHY_OK)
        err = queue_shapes(p, *surface);
    device_kernels_end(g, 2 * device_bytes(f));
    return err;
}

// What is queued reads the frame, until the flight's next part is done.
static int keep(struct device_group *p, struct tachy_item *item)
{
    struct device_item *di = device_item_of(p->g->task->devices, item);
    int err = device_flight_keep(p->g->flight, item->in);
    if (err == TACHY_OK && di->frame)
        err = device_flight_keep(p->g->flight, di->frame);
    tachy_frame_unref(&di->frame);
    return err;
}

static int draw_one(struct device_group *p, struct tachy_item *item)
{
    const struct tachy_draw *d = tachy_stage_priv(p->st);
    struct device_worker *g = p->g;
    tachy_frame *surface = NULL;
    int err = tachy_frame_pool_get(d->pool, &item->out);
    if (err == TACHY_OK)
        err = queue_picture(p, item, &surface);
    if (err == TACHY_OK) {
        device_copies(g);
        err = tachy_frame_copy_planes(item->out, surface, &g->gpu->device, g->stream, false, g->task->log);
        device_copies_end(g);
    }
    tachy_frame_unref(&surface); // who gets it next writes to it on this stream
    int kept = keep(p, item);
    return err < 0 ? err : kept;
}

static void draw(struct device_group *p)
{
    uint64_t part = 0;
    for (int i = 0; i < p->n; i++)
        p->err[i] = draw_one(p, p->items[i]);
    int end = device_flight_mark(p->g->flight, &part); // also after failures: what was queued reads the frames
    device_fail_all(p, end);
    for (int i = 0; i < p->n; i++) {
        struct draw_item *own = tachy_stage_item(p->st, p->items[i]);
        *own = (struct draw_item){p->g->flight, part};
        if (p->err[i] < 0 && end == TACHY_OK)
            device_flight_wait(p->g->flight, part);
        p->items[i]->pending = p->err[i] == TACHY_OK;
    }
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    device_run_where_it_is(worker, st, pieces, n, err, draw);
}

static int sync(struct tachy_stage *st, struct tachy_item *item)
{
    const struct draw_item *own = tachy_stage_item(st, item);
    item->pending = false;
    return device_flight_wait(own->flight, own->part);
}

// ---- For the light ratio

static void queue_group(struct device_group *p)
{
    for (int i = 0; i < p->n; i++) {
        tachy_frame *surface = NULL;
        p->err[i] = queue_picture(p, p->items[i], &surface);
        tachy_frame_unref(&surface);
    }
}

static int queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n)
{
    return device_queue(worker, st, items, n, 1, queue_group);
}

static bool load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    return device_load(st, worker, true, l);
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
    tachy_frame_pool_close(&d->pool);
    int err = tachy_frame_pool_open_mem(&d->pool, st->task->devices->list[0].gpu, TACHY_PINNED, video->format, video->width,
                                        video->height);
    if (err == TACHY_OK && st->task->memory)
        tachy_frame_pool_account(d->pool, st->task->memory);
    return err;
}

static void part_close(void *part)
{
    struct part *p = part;
    tachy_frame_pool_close(&p->surfaces);
    tachy_shapes_free(&p->shapes);
    tachy_memory_give(p->g->task->memory, &p->there);
    free(p);
}

static int part_open(struct tachy_stage *st, int batch, void **part)
{
    const struct tachy_video_info *in = &st->task->in;
    struct device_worker *g = *part;
    struct part *p = *part = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    p->g = g;
    int err = tachy_frame_pool_open_gpu(&p->surfaces, g->gpu, in->format, in->width, in->height);
    if (err == TACHY_OK)
        tachy_frame_pool_account(p->surfaces, g->task->memory);
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
    .item_size = sizeof(struct draw_item),
    .open = open,
    .close = tachy_draw_close,
    .start = start,
    .worker_open = part_open,
    .worker_close = part_close,
    .run = run,
    .sync = sync,
    .load = load,
    .queue = queue,
};
