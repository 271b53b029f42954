#include "task/segment_gpu_priv.h"

#include "postprocess/mask_cuda.h"

// The steps of several items at once where a worker only queues: a launch, a copy, an event for all of them where the
// steps one by one (segment_gpu.c) have one each. What comes out is the same. An item that fails does so alone; what
// has been queued for its mask or picture is waited for, since that memory is about to be used again.

enum { MOST = SEGMENT_GPU_GROUP };

// Neighbours of a group that one card's part of the worker has in hand, of one network.
struct part {
    struct segment_gpu_worker *g;
    struct tachy_item *const *items;
    int *err;
    int n, eye;
    cuda_stream behind[2 * MOST]; // that the worker's stream comes after, since this step began
    int nb_behind;
};

static struct segment_item *priv_of(const struct tachy_item *item) { return item->priv; }

static struct segment_eye *eye_of(const struct part *p, int i) { return &priv_of(p->items[i])->eye[p->eye]; }

static const struct segment *task_of(const struct part *p) { return p->g->w->s; }

static const struct tachy_log *log_of(const struct part *p) { return p->g->w->task->log; }

int segment_gpu_group(const struct segment *s)
{
    bool lines = s->composite.mode == TACHY_MODE_JSON; // each is waited for
    return s->gpu && s->only_queues && !lines && !s->nb_states ? MOST : 1;
}

static void fail_all(const struct part *p, int err)
{
    for (int i = 0; i < p->n; i++)
        p->err[i] = p->err[i] < 0 ? p->err[i] : err;
}

// ---- What comes before a step

static int follow(struct part *p, cuda_stream from)
{
    for (int i = 0; i < p->nb_behind; i++)
        if (p->behind[i] == from)
            return TACHY_OK;
    int err = segment_gpu_follow(p->g, p->g->stream, from);
    if (err == TACHY_OK && p->nb_behind < (int)TACHY_ARRAY_SIZE(p->behind))
        p->behind[p->nb_behind++] = from;
    return err;
}

// As segment_gpu_frame_of(). Frames of one decoder are followed once: all of them were on its stream before.
static int frame_of(struct part *p, struct tachy_item *item, const tachy_frame **out)
{
    struct segment_gpu_item *si = &priv_of(item)->gpu;
    bool ours = item->in->place == TACHY_DEVICE && item->in->device == p->g->gpu->device.ordinal;
    bool behind = si->behind == p->g && si->behind_id == item->result.frame_id;
    int err = ours && !behind ? follow(p, item->in->stream) : TACHY_OK;
    if (err == TACHY_OK && ours) {
        si->behind = p->g;
        si->behind_id = item->result.frame_id;
    }
    return err < 0 ? err : segment_gpu_frame_of(p->g, item, out);
}

// ---- Preprocess

// What the pipeline may let go of before the card has read it.
static int keep_frame(struct part *p, struct tachy_item *item)
{
    struct segment_item *si = item->priv;
    if (segment_keeps_input(task_of(p)))
        return TACHY_OK;
    return segment_gpu_flight_keep(p->g->flight, item->in->place == TACHY_DEVICE ? item->in : si->on_gpu);
}

// Pictures of items that follow each other.
struct pictures {
    int n, of[MOST]; // items
    tachy_frame frame[MOST];
    struct tachy_preprocess_picture picture[MOST];
    struct tachy_placement placement[MOST];
};

static int run_preprocess(struct part *p, struct pictures *q, int first, int n)
{
    struct segment_worker *w = p->g->w;
    struct segment_gpu_size *size = &p->g->size[w->last];
    struct tachy_tensor in = segment_gpu_picture(&size->in, priv_of(p->items[q->of[first]])->gpu.picture);
    in.shape[0] = n;
    return tachy_preprocess_gpu_run(size->preprocess[p->eye], &q->picture[first], n, &in, &q->placement[first]);
}

static void preprocess(struct part *p)
{
    struct segment_gpu_worker *g = p->g;
    const struct segment *s = task_of(p);
    struct pictures q = {0};
    double bytes = 0;
    int at = priv_of(p->items[0])->gpu.picture;
    for (int i = 0; i < p->n; i++) {
        const tachy_frame *f;
        struct tachy_item *item = p->items[i];
        p->err[i] = frame_of(p, item, &f);
        if (p->err[i] == TACHY_OK)
            p->err[i] = keep_frame(p, item);
        if (p->err[i] < 0)
            continue;
        tachy_frame *part = &q.frame[q.n];
        *part = segment_region_of(f, &s->region[p->eye]);
        part->color = tachy_color_resolve(part->color, part->format, item->in->width, item->in->height);
        q.picture[q.n] = (struct tachy_preprocess_picture){part, {.rotation = s->rotation, .flip = s->flip}};
        priv_of(item)->gpu.picture = at + q.n;
        q.of[q.n++] = i;
        bytes += segment_gpu_bytes(part) + (double)tachy_tensor_bytes(&g->size[g->w->last].in);
    }
    segment_gpu_kernels(g, TACHY_STEP_PREPROCESS);
    int err = q.n ? run_preprocess(p, &q, 0, q.n) : TACHY_OK;
    for (int k = 0; k < q.n; k++) {
        bool again = err < 0 && err != TACHY_ERR_EXTERNAL && q.n > 1; // which of them is it?
        p->err[q.of[k]] = again ? run_preprocess(p, &q, k, 1) : err;
        eye_of(p, q.of[k])->placement = q.placement[k];
    }
    segment_gpu_kernels_end(g, bytes);
}

// ---- Model

static void model(struct part *p)
{
    int at[MOST];
    for (int i = 0; i < p->n; i++)
        at[i] = priv_of(p->items[i])->gpu.picture;
    segment_gpu_kernels(p->g, TACHY_STEP_MODEL);
    segment_gpu_run_models(p->g, at, p->n, p->err);
    segment_gpu_kernels_end(p->g, 0);
}

// ---- Masks

// Items first .. first + n - 1, whose masks have one form.
struct masks {
    int n, of[MOST];
    struct segment_eye *eye[MOST];
    struct tachy_placement at;
};

static struct tachy_tensor output_of(const struct part *p, int i)
{
    return segment_gpu_picture(&p->g->size[p->g->w->last].out, priv_of(p->items[i])->gpu.picture);
}

// Room for the mask; what an earlier frame left there has been copied.
static int place_mask(struct part *p, int i, struct tachy_placement *at)
{
    struct segment_worker *w = p->g->w;
    struct segment_eye *e = eye_of(p, i);
    struct tachy_tensor out = output_of(p, i);
    int err = segment_place_mask(w, w->last, p->items[i], p->eye, &out, &e->placement, at);
    return err < 0 ? err : segment_gpu_settle(e);
}

// A launch for each row of masks that lie at one distance, with outputs next to each other.
static int launch_masks(struct part *p, const struct masks *m)
{
    struct segment_worker *w = p->g->w;
    const struct segment *s = w->s;
    int err = TACHY_OK;
    for (int i = 0, last; i < m->n && err == TACHY_OK; i = last) {
        const struct segment_eye *e = m->eye[i];
        int picture = priv_of(p->items[m->of[i]])->gpu.picture;
        int64_t next = i + 1 < m->n ? (int64_t)(m->eye[i + 1]->gpu->mask - e->gpu->mask) : 0;
        for (last = i + 1; last < m->n && priv_of(p->items[m->of[last]])->gpu.picture == picture + last - i &&
                           (int64_t)(m->eye[last]->gpu->mask - e->gpu->mask) == next * (last - i);)
            last++;
        struct tachy_tensor out = output_of(p, m->of[i]);
        err = tachy_mask_from_tensor_cuda(&w->size[w->last].net->spec, &out, &m->at, s->rotation, s->flip, e->gpu->mask,
                                          e->width, last - i, next, p->g->cu, p->g->stream, log_of(p));
    }
    return err;
}

static int make_guides(struct part *p, const struct masks *m)
{
    int err = TACHY_OK;
    for (int i = 0; i < m->n && err == TACHY_OK; i++) {
        const tachy_frame *f;
        struct tachy_item *item = p->items[m->of[i]];
        err = frame_of(p, item, &f);
        if (err == TACHY_OK)
            err = segment_gpu_queue_guide(p->g, item, f, p->eye);
    }
    return err;
}

static int make_masks(struct part *p, const struct masks *m)
{
    int err = segment_gpu_eyes_together(m->eye, m->n, p->g->card);
    for (int i = 0; i < m->n; i++) {
        struct segment_gpu_eye *e = m->eye[i]->gpu;
        p->items[m->of[i]]->result.mask[p->eye].data = m->eye[i]->mask;
        e->from_host = e->stale = e->guide_stale = false;
        e->unfetched = true;
    }
    if (err == TACHY_OK)
        err = launch_masks(p, m);
    return err == TACHY_OK && segment_needs_guide(task_of(p)) ? make_guides(p, m) : err;
}

static bool alike(const struct masks *m, const struct segment_eye *e, const struct tachy_placement *at)
{
    return !m->n || (e->width == m->eye[0]->width && e->height == m->eye[0]->height && !memcmp(at, &m->at, sizeof(*at)));
}

static void flush_masks(struct part *p, struct masks *m)
{
    int err = m->n ? make_masks(p, m) : TACHY_OK;
    for (int i = 0; i < m->n; i++)
        p->err[m->of[i]] = err;
    m->n = 0;
}

// The masks are part of the flight; so are the frames that this step and the ones before have read.
static void mark_masks(struct part *p)
{
    uint64_t part = 0;
    int err = segment_gpu_flight_mark(p->g->flight, &part);
    fail_all(p, err);
    for (int i = 0; i < p->n; i++) {
        struct segment_item *si = priv_of(p->items[i]);
        if (p->err[i] == TACHY_OK)
            segment_gpu_eye_flies(eye_of(p, i), p->g->stream, p->g->flight, part);
        else if (err == TACHY_OK)
            segment_gpu_flight_wait(p->g->flight, part);
        if (!segment_keeps_input(task_of(p)) && p->eye == p->g->w->task->eyes - 1)
            tachy_frame_unref(&si->on_gpu);
    }
    segment_gpu_flight_tidy(p->g->flight);
}

static void postprocess(struct part *p)
{
    struct masks m = {0};
    struct tachy_placement at;
    segment_gpu_kernels(p->g, TACHY_STEP_POSTPROCESS);
    double bytes = 0;
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
    segment_gpu_kernels_end(p->g, bytes);
    segment_cards_end(p->g->w);
    mark_masks(p);
}

// ---- Composite

// What the composites of a part read and write.
struct composites {
    int n, of[MOST]; // items
    struct tachy_result there[MOST];
    struct tachy_refine refine[TACHY_MAX_EYES];
    tachy_frame *surface[MOST], *own[MOST]; // written; of the worker's, NULL where it is the item's picture
    struct tachy_composite_cuda_item item[MOST];
};

// The stream comes behind the masks that other workers make, once for each of these.
static int follow_masks(struct part *p)
{
    int err = TACHY_OK;
    for (int i = 0; i < p->n && err == TACHY_OK; i++) {
        struct segment_gpu_eye *e = priv_of(p->items[i])->eye[0].gpu;
        uint64_t last = 0;
        if (!e->flight || e->by == p->g->stream || e->card != p->g->card)
            continue;
        struct segment_gpu_flight *f = e->flight;
        for (int k = i; k < p->n; k++)
            for (int eye = 0; eye < p->items[k]->result.eyes; eye++) {
                const struct segment_gpu_eye *o = priv_of(p->items[k])->eye[eye].gpu;
                last = o->flight == f ? TACHY_MAX(last, o->part) : last;
            }
        err = segment_gpu_flight_follow(f, last, p->g->stream);
        for (int k = i; k < p->n && err == TACHY_OK; k++)
            for (int eye = 0; eye < p->items[k]->result.eyes; eye++) {
                struct segment_gpu_eye *o = priv_of(p->items[k])->eye[eye].gpu;
                o->by = o->flight == f ? p->g->stream : o->by;
            }
    }
    return err;
}

// Whoever comes behind a mask that the card made of the frame comes behind the frame.
static void frame_is_there(struct part *p, struct tachy_item *item)
{
    struct segment_item *si = item->priv;
    const struct segment_gpu_eye *e = si->eye[0].gpu;
    if (e->stale || e->from_host || item->reuse || e->card != p->g->card)
        return;
    si->gpu.behind = p->g;
    si->gpu.behind_id = item->result.frame_id;
}

static int launch_composites(struct part *p, const struct tachy_composite_cuda_item *items, int n)
{
    return tachy_composite_cuda_run(p->g->composite, items, n, p->g->stream);
}

// Everything but the kernels of the item, which c->item[c->n] takes.
static int begin_composite(struct part *p, int i, struct composites *c)
{
    struct segment_gpu_worker *g = p->g;
    struct tachy_item *item = p->items[i];
    struct segment_item *si = item->priv;
    const tachy_frame *f = &item->head;
    int k = c->n, err = segment_gpu_out_on(g->w->s, g->card, &item->out);
    if (err == TACHY_OK)
        err = segment_gpu_keep(g, item);
    if (err == TACHY_OK)
        err = segment_gpu_masks_there(g, item, &c->there[k]);
    if (err == TACHY_OK && item->in) {
        frame_is_there(p, item);
        err = frame_of(p, item, &f);
    }
    if (err == TACHY_OK && si->background)
        err = follow(p, si->background->stream);
    if (err == TACHY_OK)
        err = segment_gpu_surface_for(g, item->out, &c->own[k], &c->surface[k]);
    if (err < 0)
        return err;
    si->gpu.counted = *si->eye[0].gpu->counted_host; // the card's only grows
    err = segment_gpu_laid(g, item, f, &c->there[k], c->surface[k], c->refine, &c->item[k]);
    if (err == TACHY_OK && g->w->s->refine) // the coefficients are the next item's from here on
        err = launch_composites(p, &c->item[k], 1);
    c->of[k] = i;
    c->n++;
    return err;
}

static void queue_composites(struct part *p, struct composites *c)
{
    const struct segment *s = task_of(p);
    double bytes = 0;
    int all = follow_masks(p);
    segment_gpu_kernels(p->g, TACHY_STEP_COMPOSITE);
    for (int i = 0; i < p->n; i++) {
        p->err[i] = all < 0 ? all : begin_composite(p, i, c);
        bytes += s->out.format && p->err[i] == TACHY_OK ? segment_gpu_bytes(c->surface[c->n - 1]) : 0;
        bytes += segment_keeps_input(s) ? segment_gpu_bytes(tachy_item_head(p->items[i])) : 0;
    }
    int err = c->n && !s->refine ? launch_composites(p, c->item, c->n) : TACHY_OK;
    for (int k = 0; k < TACHY_MIN(c->n, (int)MOST) && err < 0; k++) {
        bool again = err != TACHY_ERR_EXTERNAL && c->n > 1; // which of them is it?
        p->err[c->of[k]] = again ? launch_composites(p, &c->item[k], 1) : err;
    }
    segment_gpu_kernels_end(p->g, bytes);
}

// Pictures, masks and counts go to the host.
static void fetch_composites(struct part *p, const struct composites *c)
{
    struct segment_eye *first[MOST];
    int n = 0, of[MOST];
    segment_gpu_copies(p->g, TACHY_STEP_COMPOSITE);
    for (int k = 0; k < c->n; k++) {
        struct tachy_item *item = p->items[c->of[k]];
        int *err = &p->err[c->of[k]];
        if (*err == TACHY_OK)
            *err = segment_gpu_hand_out(p->g, c->surface[k], item->out);
        for (int eye = 1; eye < item->result.eyes && *err == TACHY_OK; eye++)
            *err = segment_gpu_eye_fetch(&priv_of(item)->eye[eye], false, p->g->stream, log_of(p));
        if (*err < 0)
            continue;
        of[n] = c->of[k];
        first[n++] = &priv_of(item)->eye[0];
    }
    int err = segment_gpu_eyes_fetch(first, n, p->g->stream, log_of(p));
    for (int i = 0; i < n && err < 0; i++)
        p->err[of[i]] = err;
    segment_gpu_copies_end(p->g);
}

static void composite(struct part *p)
{
    struct composites c = {0};
    uint64_t part = 0;
    queue_composites(p, &c);
    fetch_composites(p, &c);
    int end = segment_gpu_flight_mark(p->g->flight, &part); // also after failures: what was queued reads the frames
    fail_all(p, end);
    for (int i = 0; i < p->n; i++) {
        if (p->err[i] < 0 && end == TACHY_OK)
            segment_gpu_flight_wait(p->g->flight, part);
        segment_gpu_began(p->g, p->items[i], part, p->err[i]);
        if (p->items[i]->out)
            segment_name_out(task_of(p), p->items[i]);
    }
    for (int k = 0; k < c.n; k++)
        tachy_frame_unref(&c.own[k]);
}

// ---- Who works at which

// The cards of the frames; a frame of the host's goes to the one with the fewest workers at a frame.
static void choose(struct segment_worker *w, struct tachy_item *const items[], int n, int err[])
{
    for (int i = 0; i < n; i++) {
        struct segment_gpu_item *si = &priv_of(items[i])->gpu;
        err[i] = segment_cards_begin(w, items[i]);
        si->at = err[i] < 0 ? NULL : w->gpu;
        si->picture = i;
        si->size = segment_size_of(w, items[i]);
        if (err[i] == TACHY_OK)
            segment_cards_count(w);
    }
}

static void choose_again(struct segment_worker *w, struct tachy_item *const items[], int n, int err[])
{
    for (int i = 0; i < n; i++) {
        struct segment_gpu_item *si = &priv_of(items[i])->gpu;
        err[i] = segment_cards_composite(w, items[i], &si->at);
        si->size = w->last;
        if (err[i] < 0)
            si->at = NULL;
    }
}

static void run_part(struct segment_worker *w, struct part *p, int size, enum tachy_step step)
{
    int err = tachy_device_enter(&p->g->gpu->device, w->task->log);
    if (err < 0) {
        fail_all(p, err);
        return;
    }
    if (step != TACHY_STEP_COMPOSITE) { // which other items' steps may surround
        w->gpu = p->g;
        w->last = size;
    }
    segment_gpu_works_at(p->g, p->items[0]);
    switch (step) {
    case TACHY_STEP_PREPROCESS: preprocess(p); break;
    case TACHY_STEP_MODEL: model(p); break;
    case TACHY_STEP_POSTPROCESS: postprocess(p); break;
    default: composite(p); break;
    }
    tachy_device_leave(&p->g->gpu->device);
}

void segment_gpu_group_step(struct segment_worker *w, enum tachy_step step, struct tachy_item *const items[], int n,
                            int eye, int err[])
{
    if (step == TACHY_STEP_PREPROCESS)
        choose(w, items, n, err);
    else if (step == TACHY_STEP_COMPOSITE)
        choose_again(w, items, n, err);
    for (int i = 0, last; i < n; i = last) {
        const struct segment_gpu_item *si = &priv_of(items[i])->gpu;
        for (last = i + 1; last < n && priv_of(items[last])->gpu.at == si->at && priv_of(items[last])->gpu.size == si->size;)
            last++;
        struct part p = {.g = si->at, .items = items + i, .err = err + i, .n = last - i, .eye = eye};
        if (p.g)
            run_part(w, &p, si->size, step);
    }
}
