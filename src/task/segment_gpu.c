#include "task/segment_gpu_priv.h"

#include "media/device.h"
#include "postprocess/mask_cuda.h"

// A frame of the host's, on the card.
static int upload(struct segment_gpu_worker *g, const tachy_frame *f, tachy_frame **out)
{
    int err = tachy_frame_pool_get_like(&g->uploads, g->gpu, g->w->task->memory, f, out);
    if (err < 0)
        return err;
    segment_gpu_copies(g, TACHY_STEP_PREPROCESS);
    err = tachy_frame_copy_planes(*out, f, &g->gpu->device, g->stream, false, g->w->task->log);
    segment_gpu_copies_end(g);
    if (err < 0)
        tachy_frame_unref(out); // another try must not take it for a copy
    return err;
}

int segment_gpu_follow(struct segment_gpu_worker *g, cuda_stream to, cuda_stream from)
{
    int err = segment_gpu_failed(g, g->cu->event_record(g->arrived, from), "an event");
    return err < 0 ? err : segment_gpu_failed(g, g->cu->stream_wait_event(to, g->arrived, 0), "an event");
}

int segment_gpu_frame_of(struct segment_gpu_worker *g, struct tachy_item *item, const tachy_frame **out)
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
    if (si->gpu.behind == g && si->gpu.behind_id == item->result.frame_id)
        return TACHY_OK;
    int err = segment_gpu_follow(g, g->stream, item->in->stream);
    si->gpu.behind = err == TACHY_OK ? g : NULL;
    si->gpu.behind_id = item->result.frame_id;
    return err;
}

int segment_gpu_let_go(struct segment_gpu_worker *g, struct tachy_item *item, int eye)
{
    struct segment_item *si = item->priv;
    if (segment_keeps_input(g->w->s))
        return TACHY_OK;
    tachy_frame *f = item->in->place == TACHY_DEVICE ? item->in : si->on_gpu;
    int err = segment_gpu_flight_keep(g->flight, f);
    if (eye == g->w->task->eyes - 1)
        tachy_frame_unref(&si->on_gpu);
    if (err < 0 || segment_gpu_flight_kept(g->flight) < 2) // the first goes with the next step's
        return err;
    return segment_gpu_flight_mark(g->flight, NULL);
}

int segment_gpu_queue_preprocess(struct segment_gpu_worker *g, struct tachy_item *item, int eye)
{
    struct segment_worker *w = g->w;
    const tachy_frame *f;
    int err = segment_gpu_frame_of(g, item, &f);
    if (err < 0)
        return err;
    tachy_frame part = segment_region_of(f, &w->s->region[eye]);
    part.color = tachy_color_resolve(part.color, part.format, item->in->width, item->in->height);
    struct tachy_preprocess_picture picture = {
        .frame = &part, .view = {.rotation = w->s->rotation, .flip = w->s->flip}};
    struct segment_gpu_size *size = &g->size[w->last];
    segment_gpu_kernels(g, TACHY_STEP_PREPROCESS);
    err = tachy_preprocess_gpu_run(size->preprocess[eye], &picture, 1, &size->in, &w->placement);
    segment_gpu_kernels_end(g, segment_gpu_bytes(&part) + (double)tachy_tensor_bytes(&size->in));
    return err;
}

static int preprocess(struct segment_gpu_worker *g, struct tachy_item *item, int eye)
{
    int err = segment_gpu_queue_preprocess(g, item, eye);
    return err < 0 || segment_needs_guide(g->w->s) ? err : segment_gpu_let_go(g, item, eye);
}

// The model's picture to the host, and there when it returns.
static int fetch_to(struct segment_gpu_worker *g, void *to)
{
    const struct segment_gpu_size *size = &g->size[g->w->last];
    cuda_address from = (cuda_address)(uintptr_t)size->in.data;
    segment_gpu_copies(g, TACHY_STEP_MODEL);
    int err = segment_gpu_failed(g, g->cu->copy_to_host_async(to, from, tachy_tensor_bytes(&size->in), g->stream),
                                 "a copy");
    segment_gpu_copies_end(g);
    if (err == TACHY_OK)
        err = segment_gpu_failed(g, g->cu->event_record(g->done, g->stream), "an event");
    return err < 0 ? err : segment_gpu_failed(g, g->cu->event_wait(g->done), "preprocess");
}

static int fetch_input(struct segment_gpu_worker *g, struct tachy_item *item, int eye)
{
    const struct segment_tensors *t = &g->w->size[g->w->last].tensors;
    return fetch_to(g, t->in[t->picture].data);
}

static int batch_input(struct segment_gpu_worker *g, struct tachy_item *item, int eye)
{
    int err = preprocess(g, item, eye);
    return err < 0 ? err : fetch_to(g, ((struct segment_item *)item->priv)->eye[eye].in);
}

static int model(struct segment_gpu_worker *g, struct tachy_item *item, int eye)
{
    struct segment_worker *w = g->w;
    struct segment_engine *e = &w->size[w->last];
    struct segment_gpu_size *size = &g->size[w->last];
    struct segment_tensors *t = &e->tensors;
    if (size->out.data) {
        segment_gpu_kernels(g, TACHY_STEP_MODEL);
        int err = item->state ? segment_gpu_state_run(g, segment_state_gpu(item->state), eye) : segment_gpu_run_model(g);
        segment_gpu_kernels_end(g, 0);
        return err;
    }
    int err = fetch_input(g, item, eye);
    return err < 0 ? err : tachy_engine_run(e->engine, t->in, t->out);
}

// The engine's output on the card to the eye's mask there.
static int mask_on_gpu(struct segment_gpu_worker *g, struct segment_eye *e, const struct tachy_mask_spec *spec,
                       const struct tachy_placement *pl)
{
    const struct segment *s = g->w->s;
    size_t bytes = (size_t)e->width * (size_t)e->height;
    const struct tachy_tensor *out = &g->size[g->w->last].out;
    segment_gpu_kernels(g, TACHY_STEP_POSTPROCESS);
    int err = tachy_mask_from_tensor_cuda(spec, out, pl, s->rotation, s->flip, e->gpu->mask,
                                          e->width, 1, 0, g->cu, g->stream, g->w->task->log);
    segment_gpu_kernels_end(g, (double)(tachy_tensor_bytes(out) + bytes));
    e->gpu->unfetched = true;
    g->made = e;
    return err < 0 ? err : segment_gpu_eye_written(e, g->stream, g->w->task->log);
}

int segment_gpu_mask(struct segment_worker *w, struct segment_eye *e, const struct tachy_mask_spec *spec,
                     const struct tachy_tensor *out, const struct tachy_placement *pl)
{
    struct segment_gpu_worker *g = w->gpu;
    int err = segment_gpu_settle(e); // of the frame before, where nobody looked at its mask
    if (err == TACHY_OK)
        err = segment_gpu_eye_move(e, g->card, false);
    if (err < 0)
        return err;
    segment_cards_end(w);
    e->gpu->from_host = !g->size[w->last].out.data || out->data == e->out; // of a batch: the host's
    e->gpu->stale = e->gpu->from_host;
    e->gpu->guide_stale = e->gpu->unfetched = false;
    if (e->gpu->from_host)
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
    segment_gpu_works_at(w->gpu, item);
    err = step(w->gpu, item, eye);
    tachy_device_leave(d);
    return err;
}

int segment_gpu_preprocess(struct segment_worker *w, struct tachy_item *item, int eye)
{
    int err = segment_cards_begin(w, item);
    segment_cards_count(w);
    return err < 0 ? err : with_gpu(w, item, eye, preprocess);
}

int segment_gpu_model(struct segment_worker *w, struct tachy_item *item, int eye)
{
    return with_gpu(w, item, eye, model);
}

int segment_gpu_fetch_input(struct segment_worker *w, struct tachy_item *item, int eye)
{
    return with_gpu(w, item, eye, fetch_input);
}

static int fetch_tensor(struct segment_gpu_worker *g, const struct tachy_tensor *from, void *to)
{
    cuda_address at = (cuda_address)(uintptr_t)from->data;
    return segment_gpu_failed(g, g->cu->copy_to_host_async(to, at, tachy_tensor_bytes(from), g->stream), "a copy");
}

int segment_gpu_fetch_tensors(struct segment_worker *w)
{
    struct segment_gpu_worker *g = w->gpu;
    const struct segment_gpu_size *size = &g->size[w->last];
    const struct segment_tensors *t = &w->size[w->last].tensors;
    if (!size->out.data)
        return TACHY_OK; // they are the engine's own
    int err = tachy_device_enter(&g->gpu->device, w->task->log);
    if (err < 0)
        return err;
    for (int i = 0; i < t->nb_in && err == TACHY_OK; i++)
        err = fetch_tensor(g, &size->all_in[i], t->own_in[i]);
    for (int i = 0; i < t->nb_out && err == TACHY_OK; i++)
        err = fetch_tensor(g, &size->all_out[i], t->own_out[i]);
    if (err == TACHY_OK)
        err = segment_gpu_failed(g, g->cu->stream_wait(g->stream), "waiting for a stream");
    tachy_device_leave(&g->gpu->device);
    return err == TACHY_OK && g->made ? segment_gpu_settle(g->made) : err;
}

int segment_gpu_batch_input(struct segment_worker *w, struct tachy_item *item, int eye)
{
    w->last = SEGMENT_FULL;
    int err = segment_cards_begin(w, item);
    segment_cards_count(w);
    return err < 0 ? err : with_gpu(w, item, eye, batch_input);
}

int segment_gpu_masks_there(struct segment_gpu_worker *g, struct tachy_item *item, struct tachy_result *there)
{
    struct segment_item *si = item->priv;
    int err = TACHY_OK;
    *there = item->result;
    for (int i = 0; i < there->eyes && err == TACHY_OK; i++) {
        struct segment_eye *e = &si->eye[i];
        err = segment_gpu_eye_move(e, g->card, true); // where it was taken over from another frame
        if (err == TACHY_OK)
            err = segment_gpu_eye_there(e, g->stream, g->w->task->log);
        item->result.mask[i].data = e->mask;
        there->mask[i].data = (const uint8_t *)(uintptr_t)e->gpu->mask;
    }
    return err;
}

int segment_gpu_laid(struct segment_gpu_worker *g, const struct tachy_item *item, const tachy_frame *f,
                     const struct tachy_result *there, tachy_frame *surface, struct tachy_refine refine[TACHY_MAX_EYES],
                     struct tachy_composite_cuda_item *of)
{
    const struct segment_item *si = item->priv;
    bool fine = g->w->s->refine;
    int err = fine ? segment_gpu_fit(g, item, refine) : TACHY_OK;
    if (err < 0)
        return err;
    *of = (struct tachy_composite_cuda_item){.in = f, .result = there, .refine = fine ? refine : NULL,
                                             .background = si->background, .counted = si->eye[0].gpu->counted};
    for (int i = 0; i < tachy_pix_desc(surface->format)->planes; i++) {
        of->data[i] = tachy_frame_writable(surface, i);
        of->stride[i] = surface->stride[i];
    }
    return TACHY_OK;
}

int segment_gpu_lay(struct segment_gpu_worker *g, const struct tachy_item *item, const tachy_frame *f,
                    const struct tachy_result *there, tachy_frame *surface)
{
    const tachy_frame *background = ((const struct segment_item *)item->priv)->background;
    struct tachy_refine refine[TACHY_MAX_EYES];
    struct tachy_composite_cuda_item of;
    int err = background ? segment_gpu_follow(g, g->stream, background->stream) : TACHY_OK;
    if (err == TACHY_OK)
        err = segment_gpu_laid(g, item, f, there, surface, refine, &of);
    return err < 0 ? err : tachy_composite_cuda_run(g->composite, &of, 1, g->stream);
}

static int queue_composite(struct segment_gpu_worker *g, struct tachy_item *item, tachy_frame *surface)
{
    struct segment_item *si = item->priv;
    struct tachy_result there;
    const tachy_frame *f = &item->head;
    int err = item->in ? segment_gpu_frame_of(g, item, &f) : TACHY_OK;
    if (err == TACHY_OK)
        err = segment_gpu_masks_there(g, item, &there);
    if (err < 0)
        return err;
    si->gpu.counted = *si->eye[0].gpu->counted_host; // the card's only grows
    segment_gpu_kernels(g, TACHY_STEP_COMPOSITE);
    err = segment_gpu_lay(g, item, f, &there, surface);
    segment_gpu_kernels_end(g, (segment_keeps_input(g->w->s) ? segment_gpu_bytes(f) : 0) + segment_gpu_bytes(surface));
    return err;
}

int segment_gpu_keep(struct segment_gpu_worker *g, struct tachy_item *item)
{
    struct segment_item *si = item->priv;
    tachy_frame *read[] = {item->in, si->on_gpu, si->background};
    int err = TACHY_OK;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(read) && err == TACHY_OK; i++)
        if (read[i])
            err = segment_gpu_flight_keep(g->flight, read[i]);
    return err;
}

int segment_gpu_hand_out(struct segment_gpu_worker *g, tachy_frame *surface, tachy_frame *out)
{
    if (surface == out)
        return TACHY_OK;
    return tachy_frame_copy_planes(out, surface, &g->gpu->device, g->stream, false, g->w->task->log);
}

void segment_gpu_began(struct segment_gpu_worker *g, struct tachy_item *item, uint64_t part, int err)
{
    struct segment_item *si = item->priv;
    const tachy_frame *in = tachy_item_head(item);
    tachy_frame_unref(&si->on_gpu);
    si->gpu.part = part;
    si->gpu.flight = g->flight;
    si->gpu.pixels = (double)in->width * in->height;
    item->pending = err == TACHY_OK;
}

static int composite(struct segment_gpu_worker *g, struct tachy_item *item, tachy_frame *surface, tachy_frame *out)
{
    struct segment_item *si = item->priv;
    segment_gpu_works_at(g, item);
    int err = segment_gpu_keep(g, item);
    if (err == TACHY_OK)
        err = queue_composite(g, item, surface);
    segment_gpu_copies(g, TACHY_STEP_COMPOSITE);
    if (err == TACHY_OK)
        err = segment_gpu_hand_out(g, surface, out);
    for (int i = 0; i < item->result.eyes && err == TACHY_OK; i++)
        err = segment_gpu_eye_fetch(&si->eye[i], i == 0, g->stream, g->w->task->log);
    segment_gpu_copies_end(g);
    // Also after a failure: what was queued reads the frame.
    uint64_t part = 0;
    int end = segment_gpu_flight_mark(g->flight, &part);
    if (err < 0 && end == TACHY_OK)
        segment_gpu_flight_wait(g->flight, part);
    err = err < 0 ? err : end;
    segment_gpu_began(g, item, part, err);
    return err;
}

int segment_gpu_finish(struct tachy_item *item)
{
    struct segment_item *si = item->priv;
    int err = segment_gpu_flight_wait(si->gpu.flight, si->gpu.part);
    item->pending = false;
    for (int i = 0; i < item->result.eyes; i++)
        si->eye[i].gpu->pending = false;
    uint32_t counted = *si->eye[0].gpu->counted_host - si->gpu.counted;
    item->result.coverage = (float)counted / (float)si->gpu.pixels;
    return err;
}

int segment_gpu_composite(struct segment_worker *w, struct tachy_item *item, tachy_frame *out)
{
    struct segment_gpu_worker *g;
    tachy_frame *own, *surface;
    int err = segment_cards_composite(w, item, &g);
    if (err == TACHY_OK)
        err = tachy_device_enter(&g->gpu->device, w->task->log);
    if (err < 0)
        return err;
    err = segment_gpu_surface_for(g, out, &own, &surface);
    if (err == TACHY_OK)
        err = composite(g, item, surface, out);
    tachy_frame_unref(&own);
    tachy_device_leave(&g->gpu->device);
    return err;
}
