#include "postprocess/smooth_cuda.h"

#include "stage/mask_cuda.h"
#include "stage/smooth.h"

#include <stdlib.h>

// Temporal smoothing on the first device, where the states of all streams are, on a stream of its own for each of them:
// nothing waits on the host. The bytes of a saved state are those of the other form.

struct smooth_cuda {
    struct smooth_state state; // first
    struct task_device *device;
    struct tachy_gpu *gpu; // reference
    const struct tachy_cu *cu;
    cuda_stream stream;
};

static struct smooth_cuda *cuda_of(const struct smooth_state *s) { return (struct smooth_cuda *)(uintptr_t)s; }

static int failed(const struct smooth_cuda *c, int status, const char *what)
{
    return tachy_cu_check(c->cu, status, c->state.st->task->log, what);
}

// ---- A region's smoothing ----

static int eye_open(struct smooth_state *s, struct smooth_eye *e)
{
    struct smooth_cuda *c = cuda_of(s);
    const tachy_task *t = s->st->task;
    tachy_smooth_cuda *smooth = e->smooth;
    int err = smooth ? failed(c, c->cu->stream_wait(c->stream), "waiting for a stream") : TACHY_OK;
    tachy_smooth_cuda_close(&smooth);
    struct tachy_smooth_cuda_params p = {.width = e->width, .height = e->height, .strength = smooth_of(s)->strength,
                                         .memory = t->devices->memory, .mem = c->device->mem, .cu = c->cu, .log = t->log};
    err = err < 0 ? err : tachy_smooth_cuda_open(&smooth, &p);
    e->smooth = smooth;
    return err;
}

static size_t eye_size(const void *smooth) { return tachy_smooth_cuda_state_size(smooth); }

static int eye_save(const struct smooth_state *s, const struct smooth_eye *e, void *data)
{
    struct smooth_cuda *c = cuda_of(s);
    int err = tachy_device_enter(&c->gpu->device, s->st->task->log);
    if (err < 0)
        return err;
    err = tachy_smooth_cuda_save(e->smooth, data, c->stream);
    tachy_device_leave(&c->gpu->device);
    return err;
}

static int eye_load(struct smooth_state *s, struct smooth_eye *e, const void *data, size_t size)
{
    return tachy_smooth_cuda_load(e->smooth, data, size, cuda_of(s)->stream);
}

// ---- A stream's state ----

static void state_close(void *state)
{
    struct smooth_cuda *c = state;
    bool in = tachy_device_enter(&c->gpu->device, NULL) == TACHY_OK;
    if (in && c->stream)
        c->cu->stream_wait(c->stream);
    for (int i = 0; i < TACHY_MAX_EYES; i++)
        tachy_smooth_cuda_close(&(tachy_smooth_cuda *){c->state.eye[i].smooth});
    if (in && c->stream)
        c->cu->stream_destroy(c->stream);
    if (in)
        tachy_device_leave(&c->gpu->device);
    tachy_gpu_unref(&c->gpu);
    free(c);
}

static int state_open(struct tachy_stage *st, void **state)
{
    static const struct smooth_form there = {eye_open, eye_size, eye_save, eye_load};
    struct smooth_cuda *c = *state = calloc(1, sizeof(*c));
    if (!c)
        return TACHY_ERR_NOMEM;
    c->state.st = st;
    c->state.form = &there;
    c->device = st->task->devices->list;
    c->gpu = tachy_gpu_ref(c->device->gpu);
    c->cu = c->gpu->device.cu;
    int err = tachy_device_enter(&c->gpu->device, st->task->log);
    if (err == TACHY_OK) {
        err = failed(c, c->cu->stream_create(&c->stream, CUDA_STREAM_OWN_ORDER), "a stream");
        tachy_device_leave(&c->gpu->device);
    }
    if (err < 0) {
        state_close(c);
        *state = NULL;
    }
    return err;
}

static int state_load(void *state, const void *data, size_t size)
{
    struct smooth_cuda *c = state;
    int err = tachy_device_enter(&c->gpu->device, c->state.st->task->log);
    if (err < 0)
        return err;
    err = smooth_load(state, data, size);
    tachy_device_leave(&c->gpu->device);
    return err;
}

// ---- Items ----

static int smooth(struct smooth_cuda *c, struct tachy_mask_eye *e, int region, bool anew)
{
    const struct tachy_log *log = c->state.st->task->log;
    size_t n = (size_t)e->width * (size_t)e->height;
    int err = mask_there_move(e, c->device, true); // the state is there
    if (err < 0)
        return err; // it is where it was, and nothing was queued
    err = smooth_ensure(&c->state, &c->state.eye[region], e->width, e->height);
    if (err == TACHY_OK)
        err = mask_there_ready(e, c->stream, log);
    if (err == TACHY_OK)
        err = tachy_smooth_cuda_apply(c->state.eye[region].smooth, e->there->mask, e->there->guide, anew, c->stream);
    if (err == TACHY_OK)
        err = failed(c, c->cu->copy_to_host_async(e->mask, e->there->mask, n, c->stream), "a copy");
    // Also after a failure: what was queued reads and writes the eye's memory.
    e->there->unfetched = false;
    int end = mask_there_written(e, c->stream, log);
    e->there->stale = e->there->guide_stale = false;
    return err < 0 ? err : end;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct smooth_cuda *c = state;
    struct tachy_item *item = pieces[0].item;
    for (int i = 0; i < st->task->eyes && err[0] == TACHY_OK; i++) {
        struct tachy_mask_eye *e = tachy_mask_eye(smooth_of(&c->state)->masks, item, i);
        err[0] = tachy_device_enter(&c->gpu->device, st->task->log);
        if (err[0] < 0)
            return;
        err[0] = smooth(c, e, i, item->anew);
        item->result.mask[i].data = e->mask;
        tachy_device_leave(&c->gpu->device);
    }
}

static bool load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    for (int i = 0; i < st->task->eyes; i++)
        l->to_host += (double)item->result.mask[i].width * item->result.mask[i].height;
    return device_load(st, NULL, false, l);
}

const struct tachy_stage_ops tachy_stage_smooth_cuda = {
    .name = "smooth",
    .flags = TACHY_STAGE_ORDERED,
    .step = "postprocess",
    .remedy = "leave out what goes frame by frame (--smooth=0)",
    .priv_size = sizeof(struct smooth),
    .open = smooth_open,
    .run = run,
    .state_open = state_open,
    .state_close = state_close,
    .state_save = smooth_save,
    .state_load = state_load,
    .load = load,
};
