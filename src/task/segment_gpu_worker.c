#include "task/segment_gpu_priv.h"

#include "engine/engine_ops.h"
#include "media/device.h"

#include <stdlib.h>

// What segment keeps on a GPU: of the task and of each of its workers.

int segment_gpu_open(tachy_task *t, struct segment *s)
{
    const tachy_engine *e = s->net[SEGMENT_FULL].first;
    if (!tachy_engine_on_device(e) && (!s->provider || !strcmp(s->provider, "auto")))
        tachy_msg(t->log, TACHY_LOG_INFO,
                  "--device cuda: the model stays on the CPU, because no provider of this build runs it on a GPU; "
                  "--provider cuda-ort does, with the ONNX Runtime that `pip download onnxruntime-gpu` brings");
    int err = segment_devices_open(t, s);
    return err < 0 ? err : segment_gpu_model_spread(t, s);
}

bool segment_gpu_runs_model(const struct segment *s) { return tachy_engine_on_device(s->net[SEGMENT_FULL].first); }

int segment_gpu_start(tachy_task *t, struct segment *s)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(s->in.format);
    struct tachy_composite_params p = s->composite;
    if (p.mode == TACHY_MODE_JSON) // made of a mask
        p.mode = TACHY_MODE_MASK;
    if (!tachy_composite_cuda_takes(&p, s->in.format))
        return tachy_fail(t->log, TACHY_ERR_UNSUPPORTED,
                          "--device cuda does not take pictures of %s: use --device cpu", d ? d->name : "this format");
    return segment_devices_start(t, s);
}

void segment_gpu_close(struct segment *s) { segment_devices_close(s); }

// ---- A worker

// `n` of them one behind the other.
static int tensors_on_gpu(struct segment_gpu_worker *g, struct tachy_tensor *t, struct tachy_block *b, int n)
{
    size_t bytes = tachy_tensor_bytes(t) * (size_t)n;
    t->mem = TACHY_DEVICE;
    t->device = g->gpu->device.ordinal;
    int err = tachy_memory_take(g->w->task->memory, b, g->device->mem, TACHY_MEMORY_TENSORS, bytes);
    t->data = b->data;
    if (err == TACHY_ERR_NOMEM)
        return tachy_fail(g->w->task->log, err, "GPU %d has no %zu bytes left for the model's tensors: close what else "
                          "uses it, or use fewer workers", t->device, bytes);
    if (err < 0)
        return err;
    int status = g->cu->fill_async(tachy_cu_address(t->data), 0, bytes, g->stream);
    return segment_gpu_failed(g, status, "clearing a tensor");
}

static size_t rounded(const struct tachy_tensor *t) { return TACHY_ALIGN(tachy_tensor_bytes(t), (size_t)SEGMENT_GPU_ALIGN); }

// All of an engine that runs on the device, in one block but for the picture and the mask, which are there.
static int rest_on_gpu(struct segment_gpu_worker *g, const struct segment_tensors *t, struct segment_gpu_size *size)
{
    struct tachy_tensor *rest[2 * TACHY_MAX_IO], whole = {.dtype = TACHY_U8, .rank = 1};
    int n = 0;
    memcpy(size->all_in, t->in, sizeof(t->in));
    memcpy(size->all_out, t->out, sizeof(t->out));
    for (int i = 0; i < t->nb_in; i++)
        if (i != t->picture)
            rest[n++] = &size->all_in[i];
    for (int i = 0; i < t->nb_out; i++)
        if (i != t->mask)
            rest[n++] = &size->all_out[i];
    for (int i = 0; i < n; i++)
        whole.shape[0] += (int64_t)rounded(rest[i]);
    int err = whole.shape[0] ? tensors_on_gpu(g, &whole, &size->rest, 1) : TACHY_OK;
    uint8_t *data = whole.data;
    for (int i = 0; i < n && err == TACHY_OK; i++) {
        rest[i]->data = data;
        rest[i]->mem = TACHY_DEVICE;
        rest[i]->device = whole.device;
        data += rounded(rest[i]);
    }
    size->all_in[t->picture] = size->in;
    size->all_out[t->mask] = size->out;
    return err;
}

// The model's picture goes to the device's memory; the host's copy of it, for an engine that runs there,
// is pinned.
static int open_size(struct segment_gpu_worker *g, int i)
{
    struct segment_engine *e = &g->w->size[i];
    struct segment_gpu_size *size = &g->size[i];
    struct segment_tensors *t = &e->tensors;
    struct tachy_preprocess_params pp = e->net->card->in;
    pp.log = g->w->task->log;
    if (pp.fit == TACHY_FIT_CROP)
        pp.fit = TACHY_FIT_STRETCH; // the region has been cropped already
    int err = TACHY_OK;
    for (int eye = 0; eye < g->w->task->eyes && err == TACHY_OK; eye++)
        err = tachy_preprocess_gpu_open(&size->preprocess[eye], &pp, &g->gpu->device, g->stream);
    size->in = t->in[t->picture];
    size->out = t->out[t->mask];
    int pictures = segment_gpu_group(g->w->s);
    if (err == TACHY_OK)
        err = tensors_on_gpu(g, &size->in, &size->in_block, pictures);
    if (err == TACHY_OK && tachy_engine_on_device(e->engine)) {
        err = tensors_on_gpu(g, &size->out, &size->out_block, pictures);
        if (err == TACHY_OK)
            err = rest_on_gpu(g, t, size);
        return err < 0 ? err : segment_gpu_model_engine(g, i);
    }
    if (err < 0)
        return err;
    size->out.data = NULL;
    if (g->device != g->w->s->devices)
        return TACHY_OK; // the first device's serves all
    err = tachy_memory_take(g->w->task->memory, &size->pinned, TACHY_PINNED, TACHY_MEMORY_TENSORS,
                            tachy_tensor_bytes(&size->in));
    if (err == TACHY_ERR_NOMEM)
        return tachy_fail(g->w->task->log, err, "there is no pinned memory left for the model's input: use fewer workers");
    if (err < 0)
        return err;
    size->own_in = t->in[t->picture].data;
    t->in[t->picture].data = size->pinned.data;
    return TACHY_OK;
}

static void close_size(struct segment_gpu_worker *g, int i)
{
    struct segment_gpu_size *size = &g->size[i];
    struct segment_tensors *t = &g->w->size[i].tensors;
    for (int eye = 0; eye < TACHY_MAX_EYES; eye++)
        tachy_preprocess_gpu_close(&size->preprocess[eye]);
    tachy_engine_close(&size->own_engine);
    if (size->own_in)
        t->in[t->picture].data = size->own_in;
    tachy_memory_give(g->w->task->memory, &size->in_block);
    tachy_memory_give(g->w->task->memory, &size->out_block);
    tachy_memory_give(g->w->task->memory, &size->rest);
    tachy_memory_give(g->w->task->memory, &size->pinned);
}

// Times for the profile, where there is one.
static int open_times(struct segment_gpu_worker *g)
{
    struct tachy_gpu_timer_params p = {
        .profile = g->w->task->profile, .device = &g->gpu->device, .stream = g->stream};
    int err = tachy_gpu_timer_open(&g->kernel_times, &p);
    p.copies = true;
    return err < 0 ? err : tachy_gpu_timer_open(&g->copy_times, &p);
}

static int open_all(struct segment_gpu_worker *g)
{
    const struct segment *s = g->w->s;
    int err = segment_gpu_failed(g, g->cu->stream_create(&g->stream, CUDA_STREAM_OWN_ORDER), "a stream");
    if (err == TACHY_OK)
        err = open_times(g);
    if (err == TACHY_OK)
        err = segment_gpu_failed(g, g->cu->event_create(&g->arrived, CUDA_EVENT_ORDERS), "an event");
    if (err == TACHY_OK)
        err = segment_gpu_failed(g, g->cu->event_create(&g->done, CUDA_EVENT_BLOCKS), "an event");
    if (err == TACHY_OK)
        err = segment_gpu_flight_open(&g->flight, g->gpu, g->stream, g->w->task->log);
    for (int i = 0; i < SEGMENT_SIZES && err == TACHY_OK; i++)
        if (g->w->size[i].engine)
            err = open_size(g, i);
    struct tachy_composite_cuda_params cp = {
        .composite = s->composite, .memory = g->w->task->memory, .mem = g->device->mem, .cu = g->cu};
    bool json = s->composite.mode == TACHY_MODE_JSON; // the host writes its line from the alpha
    if (json)
        cp.composite.mode = TACHY_MODE_MASK;
    if (err == TACHY_OK)
        err = tachy_composite_cuda_open(&g->composite, &cp);
    if (err == TACHY_OK)
        err = tachy_frame_pool_open_gpu(&g->surfaces, g->gpu, json ? TACHY_PIX_GRAY8 : s->out.format, s->out.width, s->out.height);
    if (err == TACHY_OK)
        tachy_frame_pool_account(g->surfaces, g->w->task->memory);
    return err;
}

int segment_gpu_worker_open(struct segment_gpu_worker **out, struct segment_worker *w, struct segment_device *device)
{
    struct segment_gpu_worker *g = calloc(1, sizeof(*g));
    *out = g;
    if (!g)
        return TACHY_ERR_NOMEM;
    g->w = w;
    g->device = device;
    g->gpu = tachy_gpu_ref(device->gpu);
    g->cu = g->gpu->device.cu;
    g->kernels = tachy_cuda_kernels();
    int err = tachy_device_enter(&g->gpu->device, w->task->log);
    if (err < 0)
        return err;
    err = open_all(g);
    tachy_device_leave(&g->gpu->device);
    return err;
}

void segment_gpu_worker_close(struct segment_gpu_worker **worker)
{
    struct segment_gpu_worker *g = *worker;
    *worker = NULL;
    if (!g)
        return;
    bool in = tachy_device_enter(&g->gpu->device, NULL) == TACHY_OK;
    if (in && g->stream)
        g->cu->stream_wait(g->stream);
    tachy_gpu_timer_close(&g->kernel_times);
    tachy_gpu_timer_close(&g->copy_times);
    segment_gpu_flight_close(&g->flight);
    for (int i = 0; i < SEGMENT_SIZES; i++)
        close_size(g, i);
    tachy_memory_give(g->w->task->memory, &g->coefficients);
    tachy_memory_give(g->w->task->memory, &g->luma);
    tachy_composite_cuda_close(&g->composite);
    tachy_frame_pool_close(&g->surfaces);
    tachy_frame_pool_close(&g->uploads);
    if (in && g->arrived)
        g->cu->event_destroy(g->arrived);
    if (in && g->done)
        g->cu->event_destroy(g->done);
    if (in && g->stream)
        g->cu->stream_destroy(g->stream);
    if (in)
        tachy_device_leave(&g->gpu->device);
    tachy_gpu_unref(&g->gpu);
    free(g);
}
