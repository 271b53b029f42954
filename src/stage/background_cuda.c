#include "stage/background.h"

#include "base/cpu.h"
#include "postprocess/fit_cuda.h"
#include "stage/device.h"

#include <stdlib.h>

// The background picture on the device on which the item is composited. A repeated picture is copied once.

enum { MOST_THREADS = 16 }; // of the decoder: with a device the cores have little else to do

struct pictures {
    struct tachy_stage *st;
    struct background_reader *reader; // the host's
    struct there {
        tachy_frame_pool *pool, *raw; // raw: of pictures that are fitted there
        tachy_fit_cuda *fit;
        tachy_frame *host, *there; // the last one that was composited there, and its copy
    } on[TACHY_MAX_GPUS]; // by device
};

static void state_close(void *state)
{
    struct pictures *p = state;
    background_reader_close(&p->reader);
    for (int i = 0; i < TACHY_MAX_GPUS; i++) {
        tachy_frame_unref(&p->on[i].host);
        tachy_frame_unref(&p->on[i].there);
        tachy_frame_pool_close(&p->on[i].pool);
        tachy_frame_pool_close(&p->on[i].raw);
        tachy_fit_cuda_close(&p->on[i].fit);
    }
    free(p);
}

static int state_open(struct tachy_stage *st, void **state)
{
    struct pictures *p = *state = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    p->st = st;
    int err = background_reader_open(&p->reader, tachy_stage_priv(st), st->task);
    if (err < 0) {
        state_close(p);
        *state = NULL;
    }
    return err;
}

// A picture as it was decoded: it is copied to the device, and brought to the stream's format and size there.
static int fit(const struct pictures *p, const struct task_device *device, struct there *b)
{
    const tachy_task *t = p->st->task;
    const tachy_frame *host = b->host;
    tachy_frame *raw = NULL;
    int err = TACHY_OK;
    if (!b->fit)
        err = tachy_fit_cuda_open(&b->fit, &(struct tachy_fit_cuda_params){.memory = t->devices->memory, .mem = device->mem,
                                                                           .cu = device->gpu->device.cu, .log = t->log});
    if (err == TACHY_OK)
        err = tachy_frame_pool_get_like(&b->raw, device->gpu, TACHY_DEVICE, t->devices->memory, host, &raw);
    if (err < 0)
        return err;
    cuda_stream stream = b->there->stream; // that of all frames of the device's pools, so of what `raw` is next
    err = tachy_frame_copy_planes(raw, host, &device->gpu->device, stream, false, t->log);
    if (err == TACHY_OK)
        err = tachy_fit_cuda_run(b->fit, raw, b->there, stream);
    tachy_frame_unref(&raw);
    return err;
}

static int copy(const struct pictures *p, const struct task_device *device, struct there *b)
{
    const tachy_task *t = p->st->task;
    const struct tachy_video_info *in = &t->in;
    const tachy_frame *host = b->host;
    int err = TACHY_OK;
    if (!b->pool) { // all of them are as the stream's frames
        err = tachy_frame_pool_open_gpu(&b->pool, device->gpu, in->format, in->width, in->height);
        if (err == TACHY_OK)
            tachy_frame_pool_account(b->pool, t->devices->memory);
    }
    if (err == TACHY_OK)
        err = tachy_frame_pool_get(b->pool, &b->there);
    if (err < 0)
        return err;
    b->there->color = in->color;
    if (host->format != in->format || host->width != in->width || host->height != in->height ||
        memcmp(&host->color, &in->color, sizeof(in->color)))
        return fit(p, device, b);
    // On the stream that the frame says it is written on, for who reads it.
    return tachy_frame_copy_planes(b->there, host, &device->gpu->device, b->there->stream, false, t->log);
}

// The host's picture on the device, *out a reference.
static int bring(struct pictures *p, const struct task_device *device, tachy_frame *host, tachy_frame **out)
{
    struct there *b = &p->on[device_index(p->st->task->devices, device)];
    if (host != b->host) {
        int err = tachy_device_enter(&device->gpu->device, p->st->task->log);
        if (err < 0)
            return err;
        tachy_frame_unref(&b->there);
        tachy_frame_unref(&b->host);
        b->host = tachy_frame_ref(host);
        err = copy(p, device, b);
        tachy_device_leave(&device->gpu->device);
        if (err < 0) {
            tachy_frame_unref(&b->there);
            tachy_frame_unref(&b->host);
            return err;
        }
    }
    *out = tachy_frame_ref(b->there);
    return TACHY_OK;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct pictures *p = state;
    const struct tachy_item *item = pieces[0].item;
    tachy_frame **picture = tachy_stage_item(st, item), *host = NULL;
    struct task_device *device;
    tachy_frame_unref(picture);
    err[0] = background_reader_at(p->reader, tachy_item_time(st->task, item), &host);
    if (err[0] == TACHY_OK)
        err[0] = device_of_item(st->task->devices, item, &device);
    if (err[0] == TACHY_OK)
        err[0] = bring(p, device, host, picture);
    tachy_frame_unref(&host);
}

// True if a video's picture can be converted to the stream's format and size on the device.
static bool leaves(const tachy_task *t, const tachy_frame *f)
{
    const struct tachy_video_info *in = &t->in;
    return tachy_fit_cuda_takes(f, &(tachy_frame){.format = in->format, .width = in->width, .height = in->height,
                                                  .color = in->color});
}

static int open(struct tachy_stage *st, const tachy_settings *set)
{
    struct background *b = tachy_stage_priv(st);
    b->threads = TACHY_MIN(tachy_cpu_count(), MOST_THREADS);
    b->leaves = leaves;
    return background_open(st, set);
}

const struct tachy_stage_ops tachy_stage_background_cuda = {
    .name = "background",
    .flags = TACHY_STAGE_ORDERED,
    .step = "postprocess",
    .remedy = "a picture behind people in the place of a video",
    .priv_size = sizeof(struct background),
    .item_size = sizeof(tachy_frame *),
    .open = open,
    .close = background_close,
    .run = run,
    .state_open = state_open,
    .state_close = state_close,
    .state_save = background_save,
    .state_load = background_load,
    .item_close = background_item_close,
};
