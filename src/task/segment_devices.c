#include "task/segment_devices.h"

#include "cuda/kernels.h"
#include "cuda/mem.h"
#include "task/segment_gpu_eye.h"

#include <stdlib.h>

int segment_devices_open(tachy_task *t, struct segment *s)
{
    s->devices = calloc((size_t)TACHY_MAX(s->nb_gpu_ids, 1), sizeof(*s->devices));
    if (!s->devices)
        return TACHY_ERR_NOMEM;
    int err = TACHY_OK;
    for (int i = 0; i < s->nb_gpu_ids; i++)
        pthread_mutex_init(&s->devices[i].running, NULL);
    for (int i = 0; i < s->nb_gpu_ids && err == TACHY_OK; i++) {
        struct segment_device *c = &s->devices[i];
        err = tachy_gpu_open(&c->gpu, s->gpu_ids[i], NULL, t->log);
        if (err < 0)
            return tachy_fail(t->log, err, "--device cuda: GPU %d cannot be used", s->gpu_ids[i]);
        s->nb_devices = t->nb_gpus = i + 1;
        t->gpu[i].ordinal = c->gpu->device.ordinal;
        c->mem = tachy_mem_of_gpu(s->gpu_ids[i]);
        err = tachy_cuda_need(&c->gpu->device, t->log);
    }
    s->gpu = s->devices[0].gpu;
    return err;
}

// What the devices have of a pipeline's memory.
static void leave_memory(struct segment *s)
{
    for (int i = 0; i < s->nb_devices; i++) {
        struct segment_device *c = &s->devices[i];
        segment_gpu_masks_close(&c->masks);
        if (c->memory)
            tachy_memory_give(c->memory, &c->model);
        tachy_memory_close(&c->memory);
    }
    s->memory = NULL;
}

// A share of the GPU has to hold the engines too; what is free does not have them any more.
static int count_model(tachy_task *t, const struct segment *s, struct segment_device *c)
{
    if (!c->model_bytes || !(s->gpu_fraction > 0))
        return TACHY_OK;
    c->memory = tachy_memory_ref(t->memory);
    int err = tachy_memory_reserve(t->memory, &c->model, c->mem, TACHY_MEMORY_TENSORS, c->model_bytes);
    return err < 0 ? tachy_fail(t->log, err, "GPU %d: the model takes %zu MiB there, more than gpu.memory_fraction allows",
                                c->gpu->device.ordinal, c->model_bytes >> 20)
                   : TACHY_OK;
}

int segment_devices_start(tachy_task *t, struct segment *s)
{
    if (s->memory == t->memory)
        return TACHY_OK;
    leave_memory(s); // of the pipeline before
    struct tachy_gpu_mem_params p = {
        .fraction = s->gpu_fraction, .vram_most = s->gpu_vram, .log = t->log};
    int err = TACHY_OK;
    for (int i = 0; i < s->nb_devices && err == TACHY_OK; i++) {
        struct segment_device *c = &s->devices[i];
        err = tachy_gpu_mem_open(t->memory, &c->gpu->device, &p);
        if (err == TACHY_OK)
            err = count_model(t, s, c);
        if (err == TACHY_OK)
            err = segment_gpu_masks_open(&c->masks, t->memory, c->gpu);
    }
    if (err == TACHY_OK)
        s->memory = t->memory;
    return err;
}

void segment_devices_close(struct segment *s)
{
    leave_memory(s);
    for (int i = 0; i < s->nb_devices; i++) {
        tachy_engine_close(&s->devices[i].first);
        tachy_gpu_unref(&s->devices[i].gpu);
    }
    for (int i = 0; s->devices && i < s->nb_gpu_ids; i++)
        pthread_mutex_destroy(&s->devices[i].running);
    free(s->devices);
    s->devices = NULL;
    s->gpu = NULL;
    s->nb_devices = 0;
}

// ---- A worker

// Its part on a device, opened where it is not there yet.
static int part_on(struct segment_worker *w, const struct segment_device *c, struct segment_gpu_worker **out)
{
    ptrdiff_t i = c - w->s->devices;
    int err = w->gpus[i] ? TACHY_OK : segment_gpu_worker_open(&w->gpus[i], w, &w->s->devices[i]);
    if (err < 0)
        segment_gpu_worker_close(&w->gpus[i]);
    *out = w->gpus[i];
    return err;
}

int segment_devices_open_worker(struct segment_worker *w) { return part_on(w, w->s->devices, &w->gpu); }

void segment_devices_close_worker(struct segment_worker *w)
{
    segment_devices_end(w);
    for (int i = TACHY_MAX_GPUS - 1; i >= 0; i--) // the others use what the first one has
        segment_gpu_worker_close(&w->gpus[i]);
    w->gpu = NULL;
}

// ---- Which device

// NULL, said: it is none of the task's.
static struct segment_device *device_at(const struct segment *s, const tachy_task *t, int device)
{
    for (int i = 0; i < s->nb_devices; i++)
        if (s->devices[i].gpu->device.ordinal == device)
            return &s->devices[i];
    tachy_msg(t->log, TACHY_LOG_ERR, "a frame is on GPU %d, which this task was not opened for", device);
    return NULL;
}

// The first of those that the fewest workers are at.
static struct segment_device *idlest(struct segment *s)
{
    struct segment_device *best = s->devices;
    for (int i = 1; i < s->nb_devices; i++)
        if (atomic_load_explicit(&s->devices[i].busy, memory_order_relaxed) <
            atomic_load_explicit(&best->busy, memory_order_relaxed))
            best = &s->devices[i];
    return best;
}

// Where the picture of an item is already; *out NULL: on the host, or gone.
static int device_with(const struct segment *s, const tachy_task *t, const struct tachy_item *item,
                     struct segment_device **out)
{
    const struct segment_item *si = item->priv;
    const tachy_frame *f = si->on_gpu ? si->on_gpu : item->in;
    bool there = f && f->mem == TACHY_DEVICE;
    *out = there ? device_at(s, t, f->device) : NULL;
    return there && !*out ? TACHY_ERR_UNSUPPORTED : TACHY_OK;
}

int segment_devices_begin(struct segment_worker *w, struct tachy_item *item)
{
    struct segment_device *c;
    segment_devices_end(w); // of an item that failed
    int err = device_with(w->s, w->task, item, &c);
    if (err < 0)
        return err;
    struct segment_gpu_state *state = w->state ? segment_state_gpu(w->state) : NULL;
    if (!c)
        c = w->task->pinned >= 0 ? segment_device_pinned(w->s) : state ? segment_gpu_state_device(state) : idlest(w->s);
    atomic_fetch_add_explicit(&c->busy, 1, memory_order_relaxed);
    w->counted = c;
    return part_on(w, c, &w->gpu);
}

void segment_devices_count(struct segment_worker *w)
{
    if (w->counted)
        atomic_fetch_add_explicit(&w->task->gpu[w->counted - w->s->devices].regions, 1, memory_order_relaxed);
}

void segment_devices_end(struct segment_worker *w)
{
    if (w->counted)
        atomic_fetch_sub_explicit(&w->counted->busy, 1, memory_order_relaxed);
    w->counted = NULL;
}

int segment_devices_of(const struct segment *s, const tachy_task *t, const struct tachy_item *item,
                     struct segment_device **out)
{
    const struct segment_item *si = item->priv;
    int err = device_with(s, t, item, out);
    if (err == TACHY_OK && !*out)
        *out = item->result.eyes && si->eye[0].gpu ? si->eye[0].gpu->device : s->devices;
    return err;
}

int segment_devices_composite(struct segment_worker *w, struct tachy_item *item, struct segment_gpu_worker **out)
{
    struct segment_device *c;
    int err = segment_devices_of(w->s, w->task, item, &c);
    *out = NULL;
    return err < 0 ? err : part_on(w, c, out);
}

struct segment_device *segment_device_pinned(const struct segment *s) { return &s->devices[TACHY_MAX(s->task->pinned, 0)]; }
