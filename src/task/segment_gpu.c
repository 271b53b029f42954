#include "task/segment_gpu.h"

#include "cuda/gpu.h"
#include "cuda/kernels.h"
#include "cuda/places.h"
#include "engine/engine_ops.h"
#include "media/device.h"
#include "postprocess/composite_cuda.h"
#include "postprocess/mask_cuda.h"
#include "preprocess/preprocess_cuda.h"

#include <math.h>
#include <stdlib.h>

// What the card has of an eye's mask. `host` is the eye's own `mask`, which is pinned.
struct segment_gpu_eye {
    struct tachy_gpu *gpu; // reference
    cuda_address mask;
    size_t bytes;
    cuda_event done; // the mask has been copied to the host
    bool pending;    // and that has not been waited for
    bool stale;      // the host's is the true one
};

struct gpu_size {
    struct tachy_preprocess_gpu *preprocess[TACHY_MAX_EYES];
    struct tachy_tensor in, out; // on the card; `out` where the engine runs there
    void *own_in;                // the host's input that pinned memory stands in for
};

struct segment_gpu_worker {
    struct segment_worker *w;
    struct tachy_gpu *gpu;
    const struct tachy_cu *cu;
    const struct tachy_cuda_kernels *kernels;
    cuda_stream stream;
    cuda_event arrived, done;
    struct gpu_size size[SEGMENT_SIZES];
    tachy_composite_cuda *composite;
    tachy_frame_pool *surfaces, *uploads; // composited; copies of the host's frames
    enum tachy_pix upload_format;
    int upload_width, upload_height;
    cuda_address counted;       // uint32_t a frame: the mask's coverage
    uint32_t *counted_host;     // pinned
};

static int failed(struct segment_gpu_worker *g, int status, const char *what)
{
    return tachy_cu_check(g->cu, status, g->w->task->log, what);
}

// ---- The task

int segment_gpu_open(tachy_task *t, struct segment *s)
{
    if (s->refine || s->smooth > 0)
        return tachy_fail(t->log, TACHY_ERR_UNSUPPORTED,
                          "--device cuda: --refine and --smooth are not built for a GPU yet: leave them out "
                          "(--smooth 0), or use --device cpu");
    if (s->nb_states)
        return tachy_fail(t->log, TACHY_ERR_UNSUPPORTED,
                          "--device cuda: recurrent models run with --device cpu only");
    if (s->composite.mode == TACHY_MODE_JSON || s->composite.mode == TACHY_MODE_REPLACE)
        return tachy_fail(t->log, TACHY_ERR_UNSUPPORTED,
                          "--device cuda: mode %s is not built for a GPU yet: use --device cpu",
                          s->composite.mode == TACHY_MODE_JSON ? "json" : "replace");
    int err = tachy_gpu_open(&s->gpu, s->gpu_id, NULL, t->log);
    return err < 0 ? err : tachy_cuda_need(&s->gpu->device, t->log);
}

int segment_gpu_start(tachy_task *t, struct segment *s)
{
    if (s->places || !t->memory)
        return TACHY_OK;
    struct tachy_gpu_places_params p = {
        .fraction = s->gpu_fraction, .vram_most = s->gpu_vram, .log = t->log};
    return tachy_gpu_places_open(&s->places, t->memory, &s->gpu->device, &p);
}

void segment_gpu_close(struct segment *s)
{
    tachy_gpu_places_close(&s->places);
    tachy_gpu_unref(&s->gpu);
}

// ---- An eye's mask

int segment_gpu_ensure_eye(const struct segment *s, struct segment_eye *e, size_t bytes)
{
    const struct tachy_cu *cu = s->gpu->device.cu;
    struct segment_gpu_eye *g = calloc(1, sizeof(*g));
    if (!g)
        return TACHY_ERR_NOMEM;
    e->gpu = g;
    g->gpu = tachy_gpu_ref(s->gpu);
    g->bytes = bytes;
    int err = tachy_device_enter(&g->gpu->device, NULL);
    if (err < 0)
        return err;
    void *host = NULL;
    if (cu->pinned_alloc(&host, bytes, 0) || cu->memory_alloc(&g->mask, bytes) ||
        cu->event_create(&g->done, CUDA_EVENT_BLOCKS))
        err = TACHY_ERR_NOMEM;
    e->mask = host;
    tachy_device_leave(&g->gpu->device);
    return err;
}

void segment_gpu_eye_free(struct segment_eye *e)
{
    struct segment_gpu_eye *g = e->gpu;
    const struct tachy_cu *cu = g->gpu->device.cu;
    if (tachy_device_enter(&g->gpu->device, NULL) == TACHY_OK) {
        if (e->mask)
            cu->pinned_free(e->mask);
        if (g->mask)
            cu->memory_free(g->mask);
        if (g->done)
            cu->event_destroy(g->done);
        tachy_device_leave(&g->gpu->device);
    }
    tachy_gpu_unref(&g->gpu);
    free(g);
    e->gpu = NULL;
    e->mask = NULL;
}

int segment_gpu_settle(struct segment_eye *e)
{
    struct segment_gpu_eye *g = e->gpu;
    if (!g || !g->pending)
        return TACHY_OK;
    g->pending = false;
    return g->gpu->device.cu->event_wait(g->done) == CUDA_OK ? TACHY_OK : TACHY_ERR_EXTERNAL;
}

void segment_gpu_touched(struct segment_eye *e)
{
    if (e->gpu)
        e->gpu->stale = true;
}

// ---- A worker

static int tensor_on_gpu(struct segment_gpu_worker *g, struct tachy_tensor *t)
{
    size_t bytes = tachy_tensor_bytes(t);
    t->place = TACHY_DEVICE;
    t->device = g->gpu->device.ordinal;
    t->data = tachy_gpu_alloc(g->gpu, bytes);
    if (!t->data)
        return tachy_fail(g->w->task->log, TACHY_ERR_NOMEM,
                          "GPU %d has no %zu bytes left for the model's tensors", t->device, bytes);
    return failed(g, g->cu->fill((cuda_address)(uintptr_t)t->data, 0, bytes), "clearing a tensor");
}

// The model's picture goes to the card's memory; the host's copy of it, for an engine that runs there,
// is pinned.
static int open_size(struct segment_gpu_worker *g, int i)
{
    struct segment_engine *e = &g->w->size[i];
    struct gpu_size *size = &g->size[i];
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
    if (err == TACHY_OK)
        err = tensor_on_gpu(g, &size->in);
    if (err < 0 || tachy_engine_on_device(e->engine))
        return err < 0 ? err : tensor_on_gpu(g, &size->out);
    size->out.data = NULL;
    size->own_in = t->in[t->picture].data;
    void *pinned = NULL;
    err = failed(g, g->cu->pinned_alloc(&pinned, tachy_tensor_bytes(&size->in), 0), "pinned memory");
    t->in[t->picture].data = err < 0 ? size->own_in : pinned;
    return err;
}

static void close_size(struct segment_gpu_worker *g, int i)
{
    struct gpu_size *size = &g->size[i];
    struct segment_tensors *t = &g->w->size[i].tensors;
    for (int eye = 0; eye < TACHY_MAX_EYES; eye++)
        tachy_preprocess_gpu_close(&size->preprocess[eye]);
    tachy_gpu_free(g->gpu, size->in.data);
    tachy_gpu_free(g->gpu, size->out.data);
    if (size->own_in && t->in[t->picture].data != size->own_in) {
        g->cu->pinned_free(t->in[t->picture].data);
        t->in[t->picture].data = size->own_in;
    }
}

static int open_all(struct segment_gpu_worker *g)
{
    const struct segment *s = g->w->s;
    void *counted = NULL;
    int err = failed(g, g->cu->stream_create(&g->stream, CUDA_STREAM_OWN_ORDER), "a stream");
    if (err == TACHY_OK)
        err = failed(g, g->cu->event_create(&g->arrived, CUDA_EVENT_ORDERS), "an event");
    if (err == TACHY_OK)
        err = failed(g, g->cu->event_create(&g->done, CUDA_EVENT_BLOCKS), "an event");
    if (err == TACHY_OK)
        err = failed(g, g->cu->memory_alloc(&g->counted, sizeof(uint32_t)), "memory on the GPU");
    if (err == TACHY_OK)
        err = failed(g, g->cu->pinned_alloc(&counted, sizeof(uint32_t), 0), "pinned memory");
    g->counted_host = counted;
    for (int i = 0; i < SEGMENT_SIZES && err == TACHY_OK; i++)
        if (g->w->size[i].engine)
            err = open_size(g, i);
    struct tachy_composite_cuda_params cp = {
        .composite = s->composite, .memory = g->w->task->memory, .cu = g->cu};
    if (err == TACHY_OK)
        err = tachy_composite_cuda_open(&g->composite, &cp);
    if (err == TACHY_OK)
        err = tachy_frame_pool_open_gpu(&g->surfaces, g->gpu, s->out.format, s->out.width, s->out.height);
    return err;
}

int segment_gpu_worker_open(struct segment_gpu_worker **out, struct segment_worker *w)
{
    struct segment_gpu_worker *g = calloc(1, sizeof(*g));
    *out = g;
    if (!g)
        return TACHY_ERR_NOMEM;
    g->w = w;
    g->gpu = tachy_gpu_ref(w->s->gpu);
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
    for (int i = 0; i < SEGMENT_SIZES; i++)
        close_size(g, i);
    tachy_composite_cuda_close(&g->composite);
    tachy_frame_pool_close(&g->surfaces);
    tachy_frame_pool_close(&g->uploads);
    if (in && g->counted)
        g->cu->memory_free(g->counted);
    if (in && g->counted_host)
        g->cu->pinned_free(g->counted_host);
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

// ---- The steps

// A frame of the host's, on the card.
static int upload(struct segment_gpu_worker *g, const tachy_frame *f, tachy_frame **out)
{
    int err = TACHY_OK;
    if (!g->uploads || g->upload_format != f->format || g->upload_width != f->width ||
        g->upload_height != f->height) {
        tachy_frame_pool_close(&g->uploads);
        err = tachy_frame_pool_open_gpu(&g->uploads, g->gpu, f->format, f->width, f->height);
        g->upload_format = f->format;
        g->upload_width = f->width;
        g->upload_height = f->height;
    }
    if (err == TACHY_OK)
        err = tachy_frame_pool_get(g->uploads, out);
    return err < 0 ? err : tachy_frame_copy_planes(*out, f, &g->gpu->device, g->stream, false, g->w->task->log);
}

// The item's frame on the card; what is queued from here on comes after it was written.
static int frame_of(struct segment_gpu_worker *g, struct tachy_item *item, const tachy_frame **out)
{
    struct segment_item *si = item->priv;
    if (item->in->place != TACHY_DEVICE) {
        int err = si->on_gpu ? TACHY_OK : upload(g, item->in, &si->on_gpu);
        *out = si->on_gpu;
        return err;
    }
    *out = item->in;
    if (item->in->device != g->gpu->device.ordinal)
        return tachy_fail(g->w->task->log, TACHY_ERR_UNSUPPORTED, "a frame of GPU %d reached a worker of GPU %d",
                          item->in->device, g->gpu->device.ordinal);
    int err = failed(g, g->cu->event_record(g->arrived, item->in->stream), "an event");
    return err < 0 ? err : failed(g, g->cu->stream_wait_event(g->stream, g->arrived, 0), "an event");
}

static int preprocess(struct segment_gpu_worker *g, struct tachy_item *item, int eye)
{
    struct segment_worker *w = g->w;
    const struct tachy_rect *r = &w->s->region[eye];
    const tachy_frame *f;
    int err = frame_of(g, item, &f);
    if (err < 0)
        return err;
    tachy_frame part = segment_region_of(f, r);
    part.color = tachy_color_resolve(part.color, part.format, item->in->width, item->in->height);
    struct tachy_preprocess_picture picture = {
        .frame = &part, .view = {.rotation = w->s->rotation, .flip = w->s->flip}};
    struct gpu_size *size = &g->size[w->last];
    return tachy_preprocess_gpu_run(size->preprocess[eye], &picture, 1, &size->in, &w->placement);
}

static int model(struct segment_gpu_worker *g, struct tachy_item *item, int eye)
{
    struct segment_worker *w = g->w;
    struct segment_engine *e = &w->size[w->last];
    struct gpu_size *size = &g->size[w->last];
    struct segment_tensors *t = &e->tensors;
    if (size->out.data) {
        struct tachy_tensor in[TACHY_MAX_IO], out[TACHY_MAX_IO];
        memcpy(in, t->in, sizeof(in));
        memcpy(out, t->out, sizeof(out));
        in[t->picture] = size->in;
        out[t->mask] = size->out;
        return tachy_engine_run(e->engine, in, out);
    }
    int err = failed(g, g->cu->copy_to_host_async(t->in[t->picture].data, (cuda_address)(uintptr_t)size->in.data,
                                                  tachy_tensor_bytes(&size->in), g->stream), "a copy");
    if (err == TACHY_OK)
        err = failed(g, g->cu->event_record(g->done, g->stream), "an event");
    if (err == TACHY_OK)
        err = failed(g, g->cu->event_wait(g->done), "preprocess");
    return err < 0 ? err : tachy_engine_run(e->engine, t->in, t->out);
}

// The engine's output on the card to the eye's mask, there and on the host.
static int mask_on_gpu(struct segment_gpu_worker *g, struct segment_eye *e, const struct tachy_mask_spec *spec,
                       const struct tachy_placement *pl)
{
    const struct segment *s = g->w->s;
    int err = tachy_mask_from_tensor_cuda(spec, &g->size[g->w->last].out, pl, s->rotation, s->flip, e->gpu->mask,
                                          e->width, g->cu, g->stream, g->w->task->log);
    if (err == TACHY_OK)
        err = failed(g, g->cu->copy_to_host_async(e->mask, e->gpu->mask, (size_t)e->width * (size_t)e->height,
                                                  g->stream), "a copy");
    if (err == TACHY_OK)
        err = failed(g, g->cu->event_record(e->gpu->done, g->stream), "an event");
    e->gpu->pending = err == TACHY_OK;
    return err;
}

int segment_gpu_mask(struct segment_worker *w, struct segment_eye *e, const struct tachy_mask_spec *spec,
                     const struct tachy_tensor *out, const struct tachy_placement *pl)
{
    struct segment_gpu_worker *g = w->gpu;
    int err = segment_gpu_settle(e); // of the frame before, where nobody looked at its mask
    if (err < 0)
        return err;
    e->gpu->stale = !g->size[w->last].out.data;
    if (e->gpu->stale)
        return tachy_mask_from_tensor(spec, out, pl, w->s->rotation, w->s->flip, e->mask, e->width);
    err = tachy_device_enter(&g->gpu->device, w->task->log);
    if (err < 0)
        return err;
    err = mask_on_gpu(g, e, spec, pl);
    tachy_device_leave(&g->gpu->device);
    return err;
}

int segment_gpu_preprocess(struct segment_worker *w, struct tachy_item *item, int eye)
{
    int err = tachy_device_enter(&w->gpu->gpu->device, w->task->log);
    if (err < 0)
        return err;
    err = preprocess(w->gpu, item, eye);
    tachy_device_leave(&w->gpu->gpu->device);
    return err;
}

int segment_gpu_model(struct segment_worker *w, struct tachy_item *item, int eye)
{
    int err = tachy_device_enter(&w->gpu->gpu->device, w->task->log);
    if (err < 0)
        return err;
    err = model(w->gpu, item, eye);
    tachy_device_leave(&w->gpu->gpu->device);
    return err;
}

// The result with masks on the card in place of the host's.
static int masks_there(struct segment_gpu_worker *g, struct tachy_item *item, struct tachy_result *there)
{
    struct segment_item *si = item->priv;
    *there = item->result;
    for (int i = 0; i < there->eyes; i++) {
        struct segment_eye *e = &si->eye[i];
        size_t n = (size_t)e->width * (size_t)e->height;
        int err = e->gpu->stale
                      ? failed(g, g->cu->copy_to_device_async(e->gpu->mask, e->mask, n, g->stream), "a copy")
                      : failed(g, g->cu->stream_wait_event(g->stream, e->gpu->done, 0), "an event");
        if (err < 0)
            return err;
        there->mask[i].data = (const uint8_t *)(uintptr_t)e->gpu->mask;
    }
    return TACHY_OK;
}

static int queue_composite(struct segment_gpu_worker *g, struct tachy_item *item, tachy_frame *surface)
{
    struct tachy_result there;
    const tachy_frame *f;
    int err = frame_of(g, item, &f);
    if (err == TACHY_OK)
        err = masks_there(g, item, &there);
    if (err == TACHY_OK)
        err = failed(g, g->cu->fill_async(g->counted, 0, sizeof(uint32_t), g->stream), "clearing a count");
    if (err < 0)
        return err;
    struct tachy_composite_cuda_item of = {.in = f, .result = &there, .counted = g->counted};
    for (int i = 0; i < tachy_pix_desc(surface->format)->planes; i++) {
        of.data[i] = tachy_frame_writable(surface, i);
        of.stride[i] = surface->stride[i];
    }
    return tachy_composite_cuda_run(g->composite, &of, 1, g->stream);
}

static int composite(struct segment_gpu_worker *g, struct tachy_item *item, tachy_frame *surface, tachy_frame *out)
{
    struct segment_item *si = item->priv;
    int err = queue_composite(g, item, surface);
    if (err == TACHY_OK)
        err = tachy_frame_copy_planes(out, surface, &g->gpu->device, g->stream, false, g->w->task->log);
    if (err == TACHY_OK)
        err = failed(g, g->cu->copy_to_host_async(g->counted_host, g->counted, sizeof(uint32_t), g->stream), "a copy");
    // Also after a failure: what was queued reads the frame.
    int end = failed(g, g->cu->event_record(g->done, g->stream), "an event");
    if (end == TACHY_OK)
        end = failed(g, g->cu->event_wait(g->done), "the picture's work on the GPU");
    tachy_frame_unref(&si->on_gpu);
    for (int i = 0; i < item->result.eyes; i++)
        si->eye[i].gpu->pending = false;
    item->result.coverage = (float)*g->counted_host / (float)((double)item->in->width * item->in->height);
    return err < 0 ? err : end;
}

int segment_gpu_composite(struct segment_worker *w, struct tachy_item *item, tachy_frame *out)
{
    struct segment_gpu_worker *g = w->gpu;
    tachy_frame *surface;
    int err = tachy_device_enter(&g->gpu->device, w->task->log);
    if (err < 0)
        return err;
    err = tachy_frame_pool_get(g->surfaces, &surface);
    if (err == TACHY_OK) {
        err = composite(g, item, surface, out);
        tachy_frame_unref(&surface);
    }
    tachy_device_leave(&g->gpu->device);
    return err;
}
