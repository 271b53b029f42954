#include "task/segment_gpu_eye.h"

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

enum { HELD = 4 };

struct gpu_size {
    struct tachy_preprocess_gpu *preprocess[TACHY_MAX_EYES];
    struct tachy_tensor in, out; // on the card; `out` where the engine runs there
    void *own_in;                // the host's input that pinned memory stands in for
    struct tachy_block in_block, out_block, pinned;
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
    // Frames that the pipeline lets go of while the GPU may still read them.
    struct gpu_held {
        tachy_frame *frame;
        cuda_event read;
    } held[HELD];
    int next_held;
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

static void close_memory(struct segment *s)
{
    segment_gpu_masks_close(&s->masks);
    tachy_gpu_places_close(&s->places);
    s->memory = NULL;
}

int segment_gpu_start(tachy_task *t, struct segment *s)
{
    if (s->memory == t->memory)
        return TACHY_OK;
    close_memory(s); // of the pipeline before
    struct tachy_gpu_places_params p = {
        .fraction = s->gpu_fraction, .vram_most = s->gpu_vram, .log = t->log};
    int err = tachy_gpu_places_open(&s->places, t->memory, &s->gpu->device, &p);
    if (err == TACHY_OK)
        err = segment_gpu_masks_open(&s->masks, t->memory);
    if (err == TACHY_OK)
        s->memory = t->memory;
    return err;
}

void segment_gpu_close(struct segment *s)
{
    close_memory(s);
    tachy_gpu_unref(&s->gpu);
}

// ---- A worker

static int tensor_on_gpu(struct segment_gpu_worker *g, struct tachy_tensor *t, struct tachy_block *b)
{
    size_t bytes = tachy_tensor_bytes(t);
    t->place = TACHY_DEVICE;
    t->device = g->gpu->device.ordinal;
    int err = tachy_memory_take(g->w->task->memory, b, TACHY_DEVICE, TACHY_MEMORY_TENSORS, bytes);
    t->data = b->data;
    if (err < 0)
        return tachy_fail(g->w->task->log, err, "GPU %d has no %zu bytes left for the model's tensors", t->device, bytes);
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
        err = tensor_on_gpu(g, &size->in, &size->in_block);
    if (err < 0 || tachy_engine_on_device(e->engine))
        return err < 0 ? err : tensor_on_gpu(g, &size->out, &size->out_block);
    size->out.data = NULL;
    err = tachy_memory_take(g->w->task->memory, &size->pinned, TACHY_PINNED, TACHY_MEMORY_TENSORS,
                            tachy_tensor_bytes(&size->in));
    if (err < 0)
        return tachy_fail(g->w->task->log, err, "there is no pinned memory left for the model's input");
    size->own_in = t->in[t->picture].data;
    t->in[t->picture].data = size->pinned.data;
    return TACHY_OK;
}

static void close_size(struct segment_gpu_worker *g, int i)
{
    struct gpu_size *size = &g->size[i];
    struct segment_tensors *t = &g->w->size[i].tensors;
    for (int eye = 0; eye < TACHY_MAX_EYES; eye++)
        tachy_preprocess_gpu_close(&size->preprocess[eye]);
    if (size->own_in)
        t->in[t->picture].data = size->own_in;
    tachy_memory_give(g->w->task->memory, &size->in_block);
    tachy_memory_give(g->w->task->memory, &size->out_block);
    tachy_memory_give(g->w->task->memory, &size->pinned);
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
    for (int i = 0; i < HELD && err == TACHY_OK; i++)
        err = failed(g, g->cu->event_create(&g->held[i].read, CUDA_EVENT_BLOCKS), "an event");
    for (int i = 0; i < SEGMENT_SIZES && err == TACHY_OK; i++)
        if (g->w->size[i].engine)
            err = open_size(g, i);
    struct tachy_composite_cuda_params cp = {
        .composite = s->composite, .memory = g->w->task->memory, .cu = g->cu};
    if (err == TACHY_OK)
        err = tachy_composite_cuda_open(&g->composite, &cp);
    if (err == TACHY_OK)
        err = tachy_frame_pool_open_gpu(&g->surfaces, g->gpu, s->out.format, s->out.width, s->out.height);
    if (err == TACHY_OK)
        tachy_frame_pool_account(g->surfaces, g->w->task->memory);
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
    for (int i = 0; i < HELD; i++) {
        tachy_frame_unref(&g->held[i].frame);
        if (in && g->held[i].read)
            g->cu->event_destroy(g->held[i].read);
    }
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
        if (err == TACHY_OK)
            tachy_frame_pool_account(g->uploads, g->w->task->memory);
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

// Keeps the frame until what has been queued so far is done. Of the frames before, those that are done
// with go back; where as many as there are places are still read, the oldest is waited for.
static int hold(struct segment_gpu_worker *g, tachy_frame *f)
{
    struct gpu_held *place = &g->held[g->next_held++ % HELD];
    for (int i = 0; i < HELD; i++) {
        struct gpu_held *h = &g->held[i];
        if (h->frame && (g->cu->event_query(h->read) == CUDA_OK || h == place)) {
            int err = h == place ? failed(g, g->cu->event_wait(h->read), "preprocess") : TACHY_OK;
            if (err < 0)
                return err;
            tachy_frame_unref(&h->frame);
        }
    }
    place->frame = tachy_frame_ref(f);
    return failed(g, g->cu->event_record(place->read, g->stream), "an event");
}

// The picture has been preprocessed and will not be composited.
static int let_go(struct segment_gpu_worker *g, struct tachy_item *item, int eye)
{
    struct segment_item *si = item->priv;
    if (segment_keeps_input(g->w->s))
        return TACHY_OK;
    if (eye == g->w->task->eyes - 1)
        tachy_frame_unref(&si->on_gpu); // the pool's next user is on this stream
    return item->in->place == TACHY_DEVICE ? hold(g, item->in) : TACHY_OK;
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
    err = tachy_preprocess_gpu_run(size->preprocess[eye], &picture, 1, &size->in, &w->placement);
    return err < 0 ? err : let_go(g, item, eye);
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

// A step of a worker with the GPU's context current.
static int with_gpu(struct segment_worker *w, struct tachy_item *item, int eye,
                    int (*step)(struct segment_gpu_worker *g, struct tachy_item *item, int eye))
{
    struct tachy_device *d = &w->gpu->gpu->device;
    int err = tachy_device_enter(d, w->task->log);
    if (err < 0)
        return err;
    err = step(w->gpu, item, eye);
    tachy_device_leave(d);
    return err;
}

int segment_gpu_preprocess(struct segment_worker *w, struct tachy_item *item, int eye)
{
    return with_gpu(w, item, eye, preprocess);
}

int segment_gpu_model(struct segment_worker *w, struct tachy_item *item, int eye)
{
    return with_gpu(w, item, eye, model);
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
    const tachy_frame *f = &item->head;
    int err = item->in ? frame_of(g, item, &f) : TACHY_OK;
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
    const tachy_frame *in = tachy_item_head(item);
    item->result.coverage = (float)*g->counted_host / (float)((double)in->width * in->height);
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
