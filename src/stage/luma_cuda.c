#include "stage/guide_cuda.h"
#include "stage/pair.h"

#include "cuda/mem.h"
#include "stage/device_out.h"

#include <stddef.h>
#include <stdlib.h>

// The luma of frames on devices, where it stays. A stage that compares it waits for the device before it releases it,
// so a surface that returns to its pool is no longer read.

struct luma_cuda {
    struct tachy_luma_stage luma; // first
    struct task_devices devices;
};

struct luma_item {
    struct tachy_pair pair; // first
    struct device_item device;
};

struct luma_worker {
    struct device_set set; // first
    struct {
        tachy_frame_pool *surfaces; // NULL: no frame of the device came yet
        struct tachy_block luma;    // of a frame of R'G'B'
    } on[TACHY_MAX_GPUS];           // in the order of the task's
};

// ---- The stage

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct luma_cuda *l = tachy_stage_priv(st);
    l->devices.item_at = offsetof(struct luma_item, device);
    l->devices.waits = true;
    int err = tachy_luma_open(st, s);
    if (err == TACHY_OK)
        err = device_read_settings(&l->devices, st, s);
    if (err == TACHY_OK)
        err = device_open(&l->devices);
    if (err == TACHY_OK)
        tachy_task_describe(st->task, " on %s", l->devices.list[0].gpu->device.name);
    return err;
}

static void close(struct tachy_stage *st)
{
    device_close(&((struct luma_cuda *)tachy_stage_priv(st))->devices);
    st->task->devices = NULL;
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct luma_cuda *l = tachy_stage_priv(st);
    int err = tachy_luma_start(st, video);
    st->group = l->luma.pairs;
    return err == TACHY_OK && device_starts_anew(&l->devices) ? device_start(&l->devices) : err;
}

static void worker_close(void *worker)
{
    struct luma_worker *w = worker;
    for (int i = 0; i < TACHY_MAX_GPUS; i++) {
        tachy_frame_pool_close(&w->on[i].surfaces);
        if (w->set.on[i])
            tachy_memory_give(w->set.on[i]->task->memory, &w->on[i].luma);
    }
    device_set_close(&w->set);
    free(w);
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    struct luma_worker *w = *worker = calloc(1, sizeof(*w));
    int err = w ? device_set_open(&w->set, &((struct luma_cuda *)tachy_stage_priv(st))->devices) : TACHY_ERR_NOMEM;
    if (err < 0 && w) {
        worker_close(w);
        *worker = NULL;
    }
    return err;
}

// ---- Frames

static int surface_of(struct device_group *p, tachy_frame **out)
{
    const struct tachy_luma_stage *l = tachy_stage_priv(p->st);
    struct device_worker *g = p->g;
    struct luma_worker *w = (struct luma_worker *)(void *)g->set;
    tachy_frame_pool **pool = &w->on[device_index(g->set->devices, g->device)].surfaces;
    int err = *pool ? TACHY_OK : device_pool(g, pool, TACHY_PIX_GRAY8, l->width, l->height);
    return err < 0 ? err : tachy_frame_pool_get(*pool, out);
}

static int queue_one(struct device_group *p, struct tachy_item *item)
{
    struct device_worker *g = p->g;
    struct luma_worker *w = (struct luma_worker *)(void *)g->set;
    const tachy_frame *f;
    tachy_frame *surface = NULL;
    int err = device_frame_of(p, item, &f);
    if (err == TACHY_OK)
        err = surface_of(p, &surface);
    if (err < 0)
        return err;
    const struct tachy_rect whole = {0, 0, f->width, f->height};
    err = guide_cuda_queue(p, &w->on[device_index(g->set->devices, g->device)].luma, f, &whole, tachy_frame_writable(surface, 0),
                           surface->width, surface->height, surface->stride[0]);
    struct tachy_luma *l = tachy_luma_of_surface(surface, g->stream);
    tachy_pair_set(tachy_stage_item(p->st, item), l);
    return err < 0 ? err : l ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void queue_all(struct device_group *p)
{
    double bytes = 0;
    device_kernels(p->g);
    for (int i = 0; i < p->n; i++) {
        p->err[i] = queue_one(p, p->items[i]);
        bytes += (double)p->items[i]->in->width * p->items[i]->in->height;
    }
    device_kernels_end(p->g, bytes);
}

static void make(struct device_group *p)
{
    queue_all(p);
    for (int i = 0; i < p->n; i++) {
        int kept = device_keep_frame(p, p->items[i]);
        p->err[i] = p->err[i] < 0 ? p->err[i] : kept;
    }
    if (device_flight_kept(p->g->flight))
        device_fail_all(p, device_flight_mark(p->g->flight, NULL));
    device_end(p->g->set);
    device_let_go(p);
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct device_set *set = worker;
    for (int i = 0; i < n; i++) {
        err[i] = device_begin(set, pieces[i].item, NULL);
        device_item_of(set->devices, pieces[i].item)->kind = 0;
        if (err[i] == TACHY_OK)
            device_count(set);
        else
            device_item_of(set->devices, pieces[i].item)->at = NULL;
    }
    device_run(set, st, state, pieces, n, err, false, make);
}

static int queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n)
{
    return device_queue(worker, st, items, n, 1, queue_all);
}

static void item_close(void *item)
{
    tachy_pair_close(item);
    tachy_frame_unref(&((struct luma_item *)item)->device.frame);
}

const struct tachy_stage_ops tachy_stage_luma_cuda = {
    .name = "luma",
    .options = tachy_luma_options,
    .flags = TACHY_STAGE_READS,
    .step = "preprocess",
    .remedy = "compare smaller pictures (--motion-size 320)",
    .priv_size = sizeof(struct luma_cuda),
    .item_size = sizeof(struct luma_item),
    .open = open,
    .close = close,
    .start = start,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
    .item_close = item_close,
    .load = device_load,
    .queue = queue,
};
