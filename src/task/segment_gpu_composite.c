#include "task/segment_gpu_priv.h"

#include "media/device.h"

// The composite of segment on a device, of the items of a part.

enum { MOST = SEGMENT_GPU_GROUP };

static struct segment_item *priv_of(const struct tachy_item *item) { return item->priv; }

// What the composites of a part read and write.
struct composites {
    int n, of[MOST]; // items
    struct tachy_result there[MOST];
    struct tachy_refine refine[TACHY_MAX_EYES];
    tachy_frame *surface[MOST], *own[MOST]; // written; of the worker's, NULL where it is the item's picture
    struct tachy_composite_cuda_item item[MOST];
};

// The stream comes behind the masks that other workers make, once for each of these.
static int follow_masks(struct segment_gpu_part *p)
{
    int err = TACHY_OK;
    for (int i = 0; i < p->n && err == TACHY_OK; i++) {
        struct segment_gpu_eye *e = priv_of(p->items[i])->eye[0].gpu;
        uint64_t last = 0;
        if (!e->flight || e->by == p->g->stream || e->device != p->g->device)
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

// Whoever comes behind a mask that the device made of the frame comes behind the frame.
static void frame_is_there(struct segment_gpu_part *p, struct tachy_item *item)
{
    struct segment_item *si = item->priv;
    const struct segment_gpu_eye *e = si->eye[0].gpu;
    if (e->stale || e->from_host || item->reuse || e->device != p->g->device)
        return;
    si->gpu.behind = p->g;
    si->gpu.behind_id = item->result.frame_id;
}

// What the composite reads is kept until the flight's next part is done.
static int keep(struct segment_gpu_worker *g, struct tachy_item *item)
{
    struct segment_item *si = item->priv;
    tachy_frame *read[] = {item->in, si->on_gpu, si->background};
    int err = TACHY_OK;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(read) && err == TACHY_OK; i++)
        if (read[i])
            err = segment_gpu_flight_keep(g->flight, read[i]);
    return err;
}

// The result with masks on the device in place of the host's; what is queued from here on finds them there.
static int masks_there(struct segment_gpu_worker *g, struct tachy_item *item, struct tachy_result *there)
{
    struct segment_item *si = item->priv;
    int err = TACHY_OK;
    *there = item->result;
    for (int i = 0; i < there->eyes && err == TACHY_OK; i++) {
        struct segment_eye *e = &si->eye[i];
        err = segment_gpu_eye_move(e, g->device, true); // where it was taken over from another frame
        if (err == TACHY_OK)
            err = segment_gpu_eye_there(e, g->stream, g->w->task->log);
        item->result.mask[i].data = e->mask;
        there->mask[i].data = (const uint8_t *)(uintptr_t)e->gpu->mask;
    }
    return err;
}

int segment_gpu_laid(struct segment_gpu_part *p, const struct tachy_item *item, const tachy_frame *f,
                     const struct tachy_result *there, tachy_frame *surface, struct tachy_refine refine[TACHY_MAX_EYES],
                     struct tachy_composite_cuda_item *of)
{
    const struct segment_item *si = item->priv;
    bool fine = p->g->w->s->refine;
    int err = si->background ? segment_gpu_come_after(p, si->background->stream) : TACHY_OK;
    if (err == TACHY_OK && fine)
        err = segment_gpu_fit(p->g, item, refine);
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

static int launch_composites(struct segment_gpu_part *p, const struct tachy_composite_cuda_item *items, int n)
{
    return tachy_composite_cuda_run(p->g->composite, items, n, p->g->stream);
}

// Everything but the kernels of the item, which c->item[c->n] takes.
static int begin_composite(struct segment_gpu_part *p, int i, struct composites *c)
{
    struct segment_gpu_worker *g = p->g;
    struct tachy_item *item = p->items[i];
    struct segment_item *si = item->priv;
    const tachy_frame *f = &item->head;
    int k = c->n, err = segment_gpu_out_on(g->w->s, g->device, &item->out);
    c->own[k] = NULL;
    if (err == TACHY_OK)
        err = keep(g, item);
    if (err == TACHY_OK)
        err = masks_there(g, item, &c->there[k]);
    if (err == TACHY_OK && item->in) {
        frame_is_there(p, item);
        err = segment_gpu_frame_of(p, item, &f);
    }
    if (err == TACHY_OK)
        err = segment_gpu_surface_for(g, item->out, &c->own[k], &c->surface[k]);
    if (err == TACHY_OK)
        err = segment_gpu_laid(p, item, f, &c->there[k], c->surface[k], c->refine, &c->item[k]);
    if (err == TACHY_OK)
        err = segment_gpu_eye_count_from(&si->eye[0], g->stream, g->w->task->log, &si->gpu.counted);
    if (err == TACHY_OK && g->w->s->refine) // the coefficients are the next item's from here on
        err = launch_composites(p, &c->item[k], 1);
    if (err < 0) {
        tachy_frame_unref(&c->own[k]); // who gets it next writes to it on this stream
        return err;
    }
    c->of[c->n++] = i;
    return TACHY_OK;
}

// After those of a part failed: some of its kernels may have run.
static int launch_again(struct segment_gpu_part *p, const struct composites *c, int k)
{
    struct segment_item *si = priv_of(p->items[c->of[k]]);
    segment_gpu_eye_miscounts(&si->eye[0]);
    int err = segment_gpu_eye_count_from(&si->eye[0], p->g->stream, p->g->w->task->log, &si->gpu.counted);
    return err < 0 ? err : launch_composites(p, &c->item[k], 1);
}

static void queue_composites(struct segment_gpu_part *p, struct composites *c)
{
    const struct segment *s = p->g->w->s;
    double bytes = 0;
    int all = follow_masks(p);
    segment_gpu_kernels(p->g, SEGMENT_STEP_COMPOSITE);
    for (int i = 0; i < p->n; i++) {
        p->err[i] = all < 0 ? all : begin_composite(p, i, c);
        bytes += p->err[i] == TACHY_OK ? segment_gpu_bytes(c->surface[c->n - 1]) : 0;
        bytes += segment_keeps_input(s) ? segment_gpu_bytes(tachy_item_head(p->items[i])) : 0;
    }
    int err = c->n && !s->refine ? launch_composites(p, c->item, c->n) : TACHY_OK;
    for (int k = 0; k < TACHY_MIN(c->n, (int)MOST) && err < 0; k++) {
        bool again = err != TACHY_ERR_EXTERNAL && c->n > 1; // which of them is it?
        p->err[c->of[k]] = again ? launch_again(p, c, k) : err;
    }
    segment_gpu_kernels_end(p->g, bytes);
}

// Pictures, masks and counts go to the host, all at once.
static void fetch_composites(struct segment_gpu_part *p, const struct composites *c)
{
    struct tachy_gpu_plane planes[MOST * (4 + TACHY_MAX_EYES)];
    int nb = 0;
    for (int k = 0; k < c->n; k++) {
        struct tachy_item *item = p->items[c->of[k]];
        if (p->err[c->of[k]] < 0)
            continue;
        if (c->surface[k] != item->out)
            nb += tachy_frame_copy_list(item->out, c->surface[k], planes + nb);
        for (int eye = 0; eye < item->result.eyes; eye++)
            nb += segment_gpu_eye_to_fetch(&priv_of(item)->eye[eye], eye == 0, planes + nb);
    }
    segment_gpu_copies(p->g, SEGMENT_STEP_COMPOSITE);
    int err = tachy_gpu_copy(&p->g->gpu->device, planes, nb, p->g->stream, false, p->g->w->task->log);
    segment_gpu_copies_end(p->g);
    for (int k = 0; k < c->n; k++)
        if (p->err[c->of[k]] == TACHY_OK)
            p->err[c->of[k]] = err;
}

// Up to a part of the flight.
static void begun(struct segment_gpu_worker *g, struct tachy_item *item, uint64_t part, int err)
{
    struct segment_item *si = item->priv;
    const tachy_frame *in = tachy_item_head(item);
    tachy_frame_unref(&si->on_gpu);
    si->gpu.part = part;
    si->gpu.flight = g->flight;
    si->gpu.pixels = (double)in->width * in->height;
    item->pending = err == TACHY_OK;
}

void segment_gpu_composite(struct segment_gpu_part *p)
{
    struct composites c;
    uint64_t part = 0;
    c.n = 0;
    queue_composites(p, &c);
    fetch_composites(p, &c);
    int end = segment_gpu_flight_mark(p->g->flight, &part); // also after failures: what was queued reads the frames
    segment_gpu_fail_all(p, end);
    for (int i = 0; i < p->n; i++) {
        if (p->err[i] < 0 && end == TACHY_OK)
            segment_gpu_flight_wait(p->g->flight, part);
        if (p->err[i] < 0)
            segment_gpu_eye_miscounts(&priv_of(p->items[i])->eye[0]);
        begun(p->g, p->items[i], part, p->err[i]);
        if (p->items[i]->out)
            segment_name_out(p->g->w->s, p->items[i]);
    }
    for (int k = 0; k < c.n; k++)
        tachy_frame_unref(&c.own[k]);
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
