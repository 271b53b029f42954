#include "task/segment_gpu_order.h"

#include "media/device.h"
#include "postprocess/fit_cuda.h"
#include "postprocess/smooth_cuda.h"
#include "task/segment_gpu_eye.h"

#include <stdlib.h>

struct segment_gpu_order {
    const struct segment *s;
    tachy_task *task;
    struct tachy_gpu *gpu; // reference
    const struct tachy_cu *cu;
    cuda_stream stream;
    struct order_eye {
        tachy_smooth_cuda *smooth;
        int width, height;
    } eye[TACHY_MAX_EYES];
    struct order_background {
        tachy_frame_pool *pool, *raw; // raw: of pictures that are fitted there
        tachy_fit_cuda *fit;
        tachy_frame *host, *there; // the last one that was composited there, and its copy
    } background[TACHY_MAX_GPUS]; // a device
};

static int failed(struct segment_gpu_order *o, int status, const char *what)
{
    return tachy_cu_check(o->cu, status, o->task->log, what);
}

int segment_gpu_order_open(struct segment_gpu_order **out, tachy_task *t)
{
    struct segment_gpu_order *o = *out = calloc(1, sizeof(*o));
    if (!o)
        return TACHY_ERR_NOMEM;
    o->s = t->shared;
    o->task = t;
    o->gpu = tachy_gpu_ref(o->s->gpu);
    o->cu = o->gpu->device.cu;
    int err = tachy_device_enter(&o->gpu->device, t->log);
    if (err == TACHY_OK) {
        err = failed(o, o->cu->stream_create(&o->stream, CUDA_STREAM_OWN_ORDER), "a stream");
        tachy_device_leave(&o->gpu->device);
    }
    if (err < 0)
        segment_gpu_order_close(out);
    return err;
}

void segment_gpu_order_close(struct segment_gpu_order **order)
{
    struct segment_gpu_order *o = *order;
    *order = NULL;
    if (!o)
        return;
    bool in = tachy_device_enter(&o->gpu->device, NULL) == TACHY_OK;
    if (in && o->stream)
        o->cu->stream_wait(o->stream);
    for (int e = 0; e < TACHY_MAX_EYES; e++)
        tachy_smooth_cuda_close(&o->eye[e].smooth);
    for (int i = 0; i < TACHY_MAX_GPUS; i++) {
        tachy_frame_unref(&o->background[i].host);
        tachy_frame_unref(&o->background[i].there);
        tachy_frame_pool_close(&o->background[i].pool);
        tachy_frame_pool_close(&o->background[i].raw);
        tachy_fit_cuda_close(&o->background[i].fit);
    }
    if (in && o->stream)
        o->cu->stream_destroy(o->stream);
    if (in)
        tachy_device_leave(&o->gpu->device);
    tachy_gpu_unref(&o->gpu);
    free(o);
}

// ---- Smoothing

// Makes the eye's smoothing one for masks of this size.
static int ensure_smooth(struct segment_gpu_order *o, int eye, int width, int height)
{
    struct order_eye *e = &o->eye[eye];
    if (e->smooth && e->width == width && e->height == height)
        return TACHY_OK;
    int err = e->smooth ? failed(o, o->cu->stream_wait(o->stream), "waiting for a stream") : TACHY_OK;
    tachy_smooth_cuda_close(&e->smooth);
    struct tachy_smooth_cuda_params p = {.width = width, .height = height, .strength = o->s->smooth,
                                         .memory = o->s->memory, .mem = o->s->devices[0].mem, .cu = o->cu, .log = o->task->log};
    e->width = width;
    e->height = height;
    return err < 0 ? err : tachy_smooth_cuda_open(&e->smooth, &p);
}

static int smooth(struct segment_gpu_order *o, struct segment_eye *e, int eye, bool anew)
{
    size_t n = (size_t)e->width * (size_t)e->height;
    int err = segment_gpu_eye_move(e, &o->s->devices[0], true); // the state is there
    if (err < 0)
        return err; // it is where it was, and nothing was queued
    err = ensure_smooth(o, eye, e->width, e->height);
    if (err == TACHY_OK)
        err = segment_gpu_eye_there(e, o->stream, o->task->log);
    if (err == TACHY_OK)
        err = tachy_smooth_cuda_apply(o->eye[eye].smooth, e->gpu->mask, e->gpu->guide, anew, o->stream);
    if (err == TACHY_OK)
        err = failed(o, o->cu->copy_to_host_async(e->mask, e->gpu->mask, n, o->stream), "a copy");
    // Also after a failure: what was queued reads and writes the eye's memory.
    e->gpu->unfetched = false;
    int end = segment_gpu_eye_written(e, o->stream, o->task->log);
    e->gpu->stale = e->gpu->guide_stale = false;
    return err < 0 ? err : end;
}

int segment_gpu_order_smooth(struct segment_gpu_order *o, struct tachy_item *item, int eye)
{
    struct segment_eye *e = &((struct segment_item *)item->priv)->eye[eye];
    int err = tachy_device_enter(&o->gpu->device, o->task->log);
    if (err < 0)
        return err;
    err = smooth(o, e, eye, item->anew);
    item->result.mask[eye].data = e->mask;
    tachy_device_leave(&o->gpu->device);
    return err;
}

void segment_gpu_order_size(const struct segment_gpu_order *o, int eye, int *width, int *height, size_t *bytes)
{
    const struct order_eye *e = &o->eye[eye];
    *width = e->smooth ? e->width : 0;
    *height = e->smooth ? e->height : 0;
    *bytes = e->smooth ? tachy_smooth_cuda_state_size(e->smooth) : 0;
}

int segment_gpu_order_save(struct segment_gpu_order *o, int eye, void *data)
{
    int err = tachy_device_enter(&o->gpu->device, o->task->log);
    if (err < 0)
        return err;
    err = tachy_smooth_cuda_save(o->eye[eye].smooth, data, o->stream);
    tachy_device_leave(&o->gpu->device);
    return err;
}

int segment_gpu_order_load(struct segment_gpu_order *o, int eye, int width, int height, const void *data, size_t size)
{
    int err = tachy_device_enter(&o->gpu->device, o->task->log);
    if (err < 0)
        return err;
    err = ensure_smooth(o, eye, width, height);
    size_t n = err < 0 ? 0 : tachy_smooth_cuda_state_size(o->eye[eye].smooth);
    if (err == TACHY_OK)
        err = size < n ? TACHY_ERR_FORMAT : tachy_smooth_cuda_load(o->eye[eye].smooth, data, n, o->stream);
    tachy_device_leave(&o->gpu->device);
    return err;
}

// ---- The picture behind

bool segment_gpu_order_fits(const struct segment *s, const tachy_frame *f)
{
    const struct tachy_video_info *in = &s->in;
    return tachy_fit_cuda_takes(f, &(tachy_frame){.format = in->format, .width = in->width, .height = in->height,
                                                  .color = in->color});
}

// A picture as it was decoded: it is copied to the device, and brought to the stream's format and size there.
static int fit_background(struct segment_gpu_order *o, const struct segment_device *c, struct order_background *b)
{
    const tachy_frame *host = b->host;
    tachy_frame *raw = NULL;
    int err = TACHY_OK;
    if (!b->fit)
        err = tachy_fit_cuda_open(&b->fit, &(struct tachy_fit_cuda_params){.memory = o->s->memory, .mem = c->mem,
                                                                           .cu = o->cu, .log = o->task->log});
    if (err == TACHY_OK)
        err = tachy_frame_pool_get_like(&b->raw, c->gpu, o->s->memory, host, &raw);
    if (err < 0)
        return err;
    cuda_stream stream = b->there->stream; // that of all frames of the device's pools, so of what `raw` is next
    err = tachy_frame_copy_planes(raw, host, &c->gpu->device, stream, false, o->task->log);
    if (err == TACHY_OK)
        err = tachy_fit_cuda_run(b->fit, raw, b->there, stream);
    tachy_frame_unref(&raw);
    return err;
}

static int copy_background(struct segment_gpu_order *o, const struct segment_device *c, struct order_background *b)
{
    const struct tachy_video_info *in = &o->s->in;
    const tachy_frame *host = b->host;
    int err = TACHY_OK;
    if (!b->pool) { // all of them are as the stream's frames
        err = tachy_frame_pool_open_gpu(&b->pool, c->gpu, in->format, in->width, in->height);
        if (err == TACHY_OK)
            tachy_frame_pool_account(b->pool, o->s->memory);
    }
    if (err == TACHY_OK)
        err = tachy_frame_pool_get(b->pool, &b->there);
    if (err < 0)
        return err;
    b->there->color = in->color;
    if (host->format != in->format || host->width != in->width || host->height != in->height ||
        memcmp(&host->color, &in->color, sizeof(in->color)))
        return fit_background(o, c, b);
    // On the stream that the frame says it is written on, for who reads it.
    return tachy_frame_copy_planes(b->there, host, &c->gpu->device, b->there->stream, false, o->task->log);
}

int segment_gpu_order_background(struct segment_gpu_order *o, const struct tachy_item *item, tachy_frame *host,
                                 tachy_frame **out)
{
    struct segment_device *c;
    *out = NULL;
    int err = segment_devices_of(o->s, o->task, item, &c);
    if (err < 0)
        return err;
    struct order_background *b = &o->background[c - o->s->devices];
    if (host != b->host) {
        err = tachy_device_enter(&c->gpu->device, o->task->log);
        if (err < 0)
            return err;
        tachy_frame_unref(&b->there);
        tachy_frame_unref(&b->host);
        b->host = tachy_frame_ref(host);
        err = copy_background(o, c, b);
        tachy_device_leave(&c->gpu->device);
        if (err < 0) {
            tachy_frame_unref(&b->there);
            tachy_frame_unref(&b->host);
            return err;
        }
    }
    *out = tachy_frame_ref(b->there);
    return TACHY_OK;
}
