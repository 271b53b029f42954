#include "stage/device_out.h"

enum {
    // FFmpeg's encoder registers each surface once and remembers 64; beyond that it gives up old ones. Beside NVDEC
    // there are 32 of finished pictures and about 20 of the encoder's; software decoders let more pictures wait.
    MOST_OUT = 56,
};

int device_host_pool(const struct tachy_stage *st, tachy_frame_pool **pool, enum tachy_pix format, int width, int height)
{
    tachy_frame_pool_close(pool);
    int err = tachy_frame_pool_open_mem(pool, st->task->devices->list[0].gpu, TACHY_PINNED, format, width, height);
    if (err == TACHY_OK)
        tachy_frame_pool_account(*pool, st->task->memory);
    return err;
}

int device_pool(const struct device_worker *g, tachy_frame_pool **pool, enum tachy_pix format, int width, int height)
{
    int err = tachy_frame_pool_open_gpu(pool, g->gpu, format, width, height);
    if (err == TACHY_OK)
        tachy_frame_pool_account(*pool, g->task->memory);
    return err;
}

void device_out_close(struct device_out *o) { tachy_frame_pool_close(&o->surfaces); }

int device_out_open(struct device_out *o, struct tachy_stage *st, const struct tachy_surface_spec *spec)
{
    const struct task_device *device = device_with(st->task->devices, spec->device);
    device_out_close(o);
    o->spec = *spec;
    int err = device ? tachy_surface_pool_open(&o->surfaces, device->gpu, spec) : TACHY_OK;
    if (o->surfaces)
        tachy_frame_pool_account(o->surfaces, st->task->memory);
    return err;
}

int device_out_get(const struct device_out *o, const struct task_device *device, tachy_frame_pool *host, tachy_frame **out)
{
    bool there = o->surfaces && device->gpu->device.ordinal == o->spec.device && tachy_frame_pool_out(o->surfaces) < MOST_OUT;
    return there ? tachy_surface_get(o->surfaces, out) : tachy_frame_pool_get(host, out);
}

// ---- Painters

int device_painter_open(struct device_painter *t, struct device_worker *g, enum tachy_pix format, int width, int height)
{
    t->g = g;
    return device_pool(g, &t->surfaces, format, width, height);
}

void device_painter_close(struct device_painter *t) { tachy_frame_pool_close(&t->surfaces); }

static int paint_one(struct device_group *p, struct tachy_item *item)
{
    const struct device_painter *t = p->part;
    struct device_worker *g = p->g;
    tachy_frame *own = NULL;
    int err = device_out_get(t->out, g->device, *t->host, &item->out);
    if (err == TACHY_OK && item->out->mem != TACHY_DEVICE)
        err = tachy_frame_pool_get(t->surfaces, &own);
    if (err == TACHY_OK)
        err = t->paint(p, item, own ? own : item->out);
    if (err == TACHY_OK && own) {
        device_copies(g);
        err = tachy_frame_copy_planes(item->out, own, &g->gpu->device, g->stream, false, g->task->log);
        device_copies_end(g);
    }
    tachy_frame_unref(&own); // who gets it next writes to it on this stream
    if (item->out)
        tachy_item_name(item, item->out->color);
    int kept = p->st->flags & TACHY_STAGE_READS ? device_keep_read(p, item) : TACHY_OK;
    tachy_frame_unref(&device_item_of(g->task->devices, item)->frame);
    return err < 0 ? err : kept;
}

static void paint_all(struct device_group *p)
{
    uint64_t part = 0;
    for (int i = 0; i < p->n; i++)
        p->err[i] = paint_one(p, p->items[i]);
    int end = device_flight_mark(p->g->flight, &part); // also after failures: what was queued reads the frames
    device_fail_all(p, end);
    for (int i = 0; i < p->n; i++) {
        struct device_painted *own = tachy_stage_item(p->st, p->items[i]);
        *own = (struct device_painted){p->g->flight, part};
        if (p->err[i] < 0 && end == TACHY_OK)
            device_flight_wait(p->g->flight, part);
        p->items[i]->pending = p->err[i] == TACHY_OK;
    }
}

void device_painter_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    device_run_where_it_is(worker, st, pieces, n, err, paint_all);
}

int device_painter_sync(struct tachy_stage *st, struct tachy_item *item)
{
    const struct device_painted *own = tachy_stage_item(st, item);
    item->pending = false;
    return device_flight_wait(own->flight, own->part);
}

static void queue_group(struct device_group *p)
{
    const struct device_painter *t = p->part;
    for (int i = 0; i < p->n; i++) {
        tachy_frame *surface = NULL;
        p->err[i] = tachy_frame_pool_get(t->surfaces, &surface);
        if (p->err[i] == TACHY_OK)
            p->err[i] = t->paint(p, p->items[i], surface);
        tachy_frame_unref(&surface);
    }
}

int device_painter_queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n)
{
    return device_queue(worker, st, items, n, 1, queue_group);
}
