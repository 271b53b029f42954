#include "task/segment_gpu_priv.h"

#include "media/device.h"
#include "postprocess/mask_cuda.h"

// The steps of segment on a device up to the mask, of one item or, where a worker only queues, of several at once: a
// launch, a copy, an event for all of them. An item that fails does so alone; what has been queued for its mask or
// picture is waited for, since that memory is about to be used again.

enum { MOST = SEGMENT_GPU_GROUP };

static struct segment_item *priv_of(const struct tachy_item *item) { return item->priv; }

static struct segment_eye *eye_of(const struct segment_gpu_part *p, int i)
{
    return &priv_of(p->items[i])->eye[p->eye];
}

int segment_gpu_group(const struct segment *s)
{
    bool lines = s->composite.mode == TACHY_MODE_JSON; // each is waited for
    return s->gpu && s->only_queues && !lines && !s->nb_states ? MOST : 1;
}

// ---- What comes before a step

int segment_gpu_follow(struct segment_gpu_worker *g, cuda_stream to, cuda_stream from)
{
    int err = segment_gpu_failed(g, g->cu->event_record(g->arrived, from), "an event");
    return err < 0 ? err : segment_gpu_failed(g, g->cu->stream_wait_event(to, g->arrived, 0), "an event");
}

int segment_gpu_come_after(struct segment_gpu_part *p, cuda_stream from)
{
    for (int i = 0; i < p->nb_behind; i++)
        if (p->behind[i] == from)
            return TACHY_OK;
    int err = segment_gpu_follow(p->g, p->g->stream, from);
    if (err == TACHY_OK && p->nb_behind < (int)TACHY_ARRAY_SIZE(p->behind))
        p->behind[p->nb_behind++] = from;
    return err;
}

// A frame of the host's, on the device.
static int upload(struct segment_gpu_worker *g, const tachy_frame *f, tachy_frame **out)
{
    int err = tachy_frame_pool_get_like(&g->uploads, g->gpu, g->w->task->memory, f, out);
    if (err < 0)
        return err;
    segment_gpu_copies(g, SEGMENT_STEP_PREPROCESS);
    err = tachy_frame_copy_planes(*out, f, &g->gpu->device, g->stream, false, g->w->task->log);
    segment_gpu_copies_end(g);
    if (err < 0)
        tachy_frame_unref(out); // another try must not take it for a copy
    return err;
}

int segment_gpu_frame_of(struct segment_gpu_part *p, struct tachy_item *item, const tachy_frame **out)
{
    struct segment_gpu_worker *g = p->g;
    struct segment_item *si = item->priv;
    if (item->in->mem != TACHY_DEVICE) {
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
    int err = segment_gpu_come_after(p, item->in->stream);
    si->gpu.behind = err == TACHY_OK ? g : NULL;
    si->gpu.behind_id = item->result.frame_id;
    return err;
}

// The pipeline may let go of the frame before the device has read it.
static int keep_frame(struct segment_gpu_part *p, struct tachy_item *item)
{
    const struct segment_item *si = item->priv;
    tachy_frame *f = item->in->mem == TACHY_DEVICE ? item->in : si->on_gpu;
    return f && !segment_keeps_input(p->g->w->s) ? segment_gpu_flight_keep(p->g->flight, f) : TACHY_OK;
}

// The last step before the order that reads the frames' pixels has been queued.
static void let_go(struct segment_gpu_part *p)
{
    const struct segment_worker *w = p->g->w;
    for (int i = 0; i < p->n && !segment_keeps_input(w->s) && p->eye == w->task->eyes - 1; i++)
        tachy_frame_unref(&priv_of(p->items[i])->on_gpu);
}

// ---- Preprocess

// Of items that follow each other.
struct pictures {
    int n, of[MOST]; // items
    tachy_frame frame[MOST];
    struct tachy_preprocess_picture picture[MOST];
    struct tachy_placement placement[MOST];
};

static int run_preprocess(struct segment_gpu_part *p, struct pictures *q, int first, int n)
{
    struct segment_gpu_size *size = &p->g->size[p->g->w->last];
    struct tachy_tensor in = segment_gpu_picture(&size->in, priv_of(p->items[q->of[first]])->gpu.picture);
    in.shape[0] = n;
    return tachy_preprocess_gpu_run(size->preprocess[p->eye], &q->picture[first], n, &in, &q->placement[first]);
}

void segment_gpu_queue_preprocess(struct segment_gpu_part *p)
{
    struct segment_worker *w = p->g->w;
    const struct segment *s = w->s;
    struct pictures q;
    double bytes = 0;
    int at = priv_of(p->items[0])->gpu.picture;
    q.n = 0;
    for (int i = 0; i < p->n; i++) {
        const tachy_frame *f;
        struct tachy_item *item = p->items[i];
        p->err[i] = segment_gpu_frame_of(p, item, &f);
        if (p->err[i] < 0)
            continue;
        tachy_frame *part = &q.frame[q.n];
        *part = segment_region_of(f, &s->region[p->eye]);
        part->color = tachy_color_resolve(part->color, part->format, item->in->width, item->in->height);
        q.picture[q.n] = (struct tachy_preprocess_picture){part, {.rotation = s->rotation, .flip = s->flip}};
        priv_of(item)->gpu.picture = at + q.n;
        q.of[q.n++] = i;
        bytes += segment_gpu_bytes(part) + (double)tachy_tensor_bytes(&p->g->size[w->last].in);
    }
    segment_gpu_kernels(p->g, SEGMENT_STEP_PREPROCESS);
    int err = q.n ? run_preprocess(p, &q, 0, q.n) : TACHY_OK;
    for (int k = 0; k < q.n; k++) {
        bool again = err < 0 && err != TACHY_ERR_EXTERNAL && q.n > 1; // which of them is it?
        p->err[q.of[k]] = again ? run_preprocess(p, &q, k, 1) : err;
        w->placement = eye_of(p, q.of[k])->placement = q.placement[k];
    }
    segment_gpu_kernels_end(p->g, bytes);
}

static void preprocess(struct segment_gpu_part *p)
{
    segment_gpu_queue_preprocess(p);
    for (int i = 0; i < p->n; i++) { // also after a failure: what was queued reads the frame
        int err = keep_frame(p, p->items[i]);
        p->err[i] = p->err[i] < 0 ? p->err[i] : err;
    }
    if (!segment_needs_guide(p->g->w->s))
        let_go(p);
    if (p->batch && *p->err == TACHY_OK)
        *p->err = segment_gpu_fetch_input(p->g, p->batch->data);
}

// ---- Model

static void model(struct segment_gpu_part *p)
{
    int at[MOST];
    void *state = p->g->w->state; // then there is one item
    if (!p->g->size[p->g->w->last].out.data) {
        *p->err = segment_gpu_model_of_host(p->g, p->items[0], p->eye);
        return;
    }
    for (int i = 0; i < p->n; i++)
        at[i] = priv_of(p->items[i])->gpu.picture;
    segment_gpu_kernels(p->g, SEGMENT_STEP_MODEL);
    if (state)
        *p->err = segment_gpu_state_run(p->g, segment_state_gpu(state), p->eye);
    else
        segment_gpu_run_models(p->g, at, p->n, p->err);
    segment_gpu_kernels_end(p->g, 0);
}

// ---- Masks

// Of items whose masks have one form.
struct masks {
    int n, of[MOST]; // items
    struct segment_eye *eye[MOST];
    struct tachy_placement at;
};

// What the host has of the item's output; NULL: it is on the device.
static const struct tachy_tensor *host_output(const struct segment_gpu_part *p)
{
    const struct segment_worker *w = p->g->w;
    const struct segment_tensors *t = &w->size[w->last].tensors;
    return p->batch ? p->batch : p->g->size[w->last].out.data ? NULL : &t->out[t->mask];
}

static struct tachy_tensor output_of(const struct segment_gpu_part *p, int i)
{
    const struct tachy_tensor *host = host_output(p);
    return host ? *host : segment_gpu_picture(&p->g->size[p->g->w->last].out, priv_of(p->items[i])->gpu.picture);
}

// Room for the mask; what an earlier frame left there has been copied.
static int place_mask(struct segment_gpu_part *p, int i, struct tachy_placement *at)
{
    struct segment_worker *w = p->g->w;
    struct segment_eye *e = eye_of(p, i);
    struct tachy_tensor out = output_of(p, i);
    int err = segment_place_mask(w, w->last, p->items[i], p->eye, &out, &e->placement, at);
    return err < 0 ? err : segment_gpu_sync(e);
}

int segment_gpu_queue_masks(struct segment_gpu_part *p, const int of[], int n, const struct tachy_placement *at)
{
    struct segment_worker *w = p->g->w;
    const struct segment *s = w->s;
    int err = TACHY_OK;
    for (int i = 0, last; i < n && err == TACHY_OK; i = last) {
        cuda_address to[SEGMENT_GPU_GROUP];
        int picture = priv_of(p->items[of[i]])->gpu.picture;
        for (last = i; last < n && priv_of(p->items[of[last]])->gpu.picture == picture + last - i; last++)
            to[last - i] = eye_of(p, of[last])->gpu->mask;
        struct tachy_tensor out = output_of(p, of[i]);
        err = tachy_mask_from_tensor_cuda(&w->size[w->last].net->spec, &out, at, s->rotation, s->flip, to,
                                          eye_of(p, of[i])->width, last - i, p->g->cu, p->g->stream, w->task->log);
    }
    return err;
}

// A mask that the host made follows its guide to the device.
static int make_guide(struct segment_gpu_part *p, struct tachy_item *item)
{
    struct segment_gpu_worker *g = p->g;
    const struct segment_eye *e = &priv_of(item)->eye[p->eye];
    size_t n = (size_t)e->width * (size_t)e->height;
    const tachy_frame *f;
    int err = segment_gpu_frame_of(p, item, &f);
    if (err == TACHY_OK)
        err = segment_gpu_queue_guide(g, item, f, p->eye);
    if (err == TACHY_OK && e->gpu->stale)
        err = segment_gpu_failed(g, g->cu->copy_to_device_async(e->gpu->mask, e->mask, n, g->stream), "a copy");
    int kept = keep_frame(p, item); // in a batch another worker has made its picture
    e->gpu->stale = e->gpu->stale && err < 0;
    return err < 0 ? err : kept;
}

static int make_masks(struct segment_gpu_part *p, const struct masks *m)
{
    const struct segment_worker *w = p->g->w;
    const struct tachy_tensor *host = host_output(p);
    struct segment_eye *first = m->eye[0];
    int err = TACHY_OK;
    for (int i = 0; i < m->n; i++) {
        struct segment_gpu_eye *e = m->eye[i]->gpu;
        err = err < 0 ? err : segment_gpu_eye_move(m->eye[i], p->g->device, false);
        p->items[m->of[i]]->result.mask[p->eye].data = m->eye[i]->mask;
        e->from_host = e->stale = host;
        e->unfetched = !host;
        e->guide_stale = false;
        p->g->made = m->eye[i];
    }
    if (err == TACHY_OK)
        err = host ? tachy_mask_from_tensor(&w->size[w->last].net->spec, host, &m->at, w->s->rotation, w->s->flip,
                                            first->mask, first->width)
                   : segment_gpu_queue_masks(p, m->of, m->n, &m->at);
    for (int i = 0; i < m->n && segment_needs_guide(w->s) && err == TACHY_OK; i++)
        err = make_guide(p, p->items[m->of[i]]);
    return err;
}

static bool alike(const struct masks *m, const struct segment_eye *e, const struct tachy_placement *at)
{
    const struct segment_eye *as = m->eye[0];
    return !m->n || (e->width == as->width && e->height == as->height && !memcmp(at, &m->at, sizeof(*at)));
}

static void flush_masks(struct segment_gpu_part *p, struct masks *m)
{
    int err = m->n ? make_masks(p, m) : TACHY_OK;
    for (int i = 0; i < m->n; i++)
        p->err[m->of[i]] = err;
    m->n = 0;
}

// The masks are part of the flight; so are the frames that this step and the ones before have read.
static void mark_masks(struct segment_gpu_part *p)
{
    struct segment_gpu_flight *flight = p->g->flight;
    bool queued = !host_output(p) || segment_needs_guide(p->g->w->s);
    if (!queued && segment_gpu_flight_kept(flight) < 2) // the first goes with the next step's
        return;
    uint64_t part = 0;
    int err = segment_gpu_flight_mark(flight, &part);
    segment_gpu_fail_all(p, err);
    for (int i = 0; i < p->n && err == TACHY_OK && queued; i++)
        if (p->err[i] == TACHY_OK)
            segment_gpu_eye_flies(eye_of(p, i), p->g->stream, flight, part);
        else
            segment_gpu_flight_wait(flight, part);
    segment_gpu_flight_tidy(flight);
}

static void postprocess(struct segment_gpu_part *p)
{
    struct masks m = {0};
    struct tachy_placement at;
    double bytes = 0;
    bool on_host = host_output(p);
    if (!on_host)
        segment_gpu_kernels(p->g, SEGMENT_STEP_POSTPROCESS);
    for (int i = 0; i < p->n; i++) {
        p->err[i] = place_mask(p, i, &at);
        if (p->err[i] < 0)
            continue;
        struct segment_eye *e = eye_of(p, i);
        struct tachy_tensor out = output_of(p, i);
        if (!alike(&m, e, &at))
            flush_masks(p, &m);
        m.at = at;
        m.of[m.n] = i;
        m.eye[m.n++] = e;
        bytes += (double)tachy_tensor_bytes(&out) + (double)e->width * e->height;
    }
    flush_masks(p, &m);
    if (!on_host)
        segment_gpu_kernels_end(p->g, bytes);
    segment_devices_end(p->g->w);
    mark_masks(p);
    if (segment_needs_guide(p->g->w->s))
        let_go(p);
}

// ---- Who works at which

// Before the first step of a worker at these items: their devices; a frame of the host's goes to the one with the fewest
// workers at a frame.
static void choose(struct segment_worker *w, enum segment_step step, struct tachy_item *const items[], int n, int err[])
{
    for (int i = 0; i < n; i++) {
        struct segment_gpu_item *si = &priv_of(items[i])->gpu;
        bool last = step == SEGMENT_STEP_COMPOSITE;
        si->at = NULL;
        err[i] = last ? segment_devices_composite(w, items[i], &si->at) : segment_devices_begin(w, items[i]);
        si->size = last ? w->last : segment_size_of(w, items[i]);
        if (last || err[i] < 0)
            continue;
        si->at = w->gpu;
        si->picture = i;
        if (step == SEGMENT_STEP_PREPROCESS)
            segment_devices_count(w);
    }
}

static void run_part(struct segment_worker *w, struct segment_gpu_part *p, int size, enum segment_step step)
{
    int err = tachy_device_enter(&p->g->gpu->device, w->task->log);
    if (err < 0) {
        segment_gpu_fail_all(p, err);
        return;
    }
    if (step != SEGMENT_STEP_COMPOSITE) { // which other items' steps may surround
        w->gpu = p->g;
        w->last = size;
    }
    segment_gpu_works_at(p->g, p->items[0]);
    switch (step) {
    case SEGMENT_STEP_PREPROCESS: preprocess(p); break;
    case SEGMENT_STEP_MODEL: model(p); break;
    case SEGMENT_STEP_POSTPROCESS: postprocess(p); break;
    default: segment_gpu_composite(p); break;
    }
    tachy_device_leave(&p->g->gpu->device);
}

static void run_parts(struct segment_worker *w, enum segment_step step, struct tachy_item *const items[], int n, int eye,
                      const struct tachy_tensor *batch, int err[])
{
    for (int i = 0, last; i < n; i = last) {
        const struct segment_gpu_item *si = &priv_of(items[i])->gpu, *next;
        for (last = i + 1; last < n && (next = &priv_of(items[last])->gpu)->at == si->at && next->size == si->size;)
            last++;
        struct segment_gpu_part p = {.g = si->at, .items = items + i, .err = err + i, .n = last - i, .eye = eye,
                                     .batch = batch};
        if (p.g)
            run_part(w, &p, si->size, step);
    }
}

void segment_gpu_group_step(struct segment_worker *w, enum segment_step step, struct tachy_item *const items[], int n,
                            int eye, int err[])
{
    if (step == SEGMENT_STEP_PREPROCESS || step == SEGMENT_STEP_COMPOSITE)
        choose(w, step, items, n, err);
    run_parts(w, step, items, n, eye, NULL, err);
}

int segment_gpu_step(struct segment_worker *w, enum segment_step step, struct tachy_item *item, int eye)
{
    struct segment_item *si = item->priv;
    int err = TACHY_OK;
    if (step == SEGMENT_STEP_MODEL || step == SEGMENT_STEP_POSTPROCESS) { // of what the worker has from the step before
        si->gpu.at = w->gpu;
        si->gpu.size = w->last;
        si->gpu.picture = 0;
        si->eye[eye].placement = w->placement;
    }
    segment_gpu_group_step(w, step, &item, 1, eye, &err);
    return err;
}

int segment_gpu_batch_step(struct segment_worker *w, enum segment_step step, struct tachy_item *item, int eye,
                           const struct tachy_tensor *batch)
{
    int err = TACHY_OK;
    choose(w, step, &item, 1, &err);
    run_parts(w, step, &item, 1, eye, batch, &err);
    return err;
}
