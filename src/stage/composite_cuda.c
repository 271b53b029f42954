#include "stage/composite_cuda.h"

#include "cuda/mem.h"
#include "postprocess/composite_cuda.h"
#include "postprocess/refine_cuda.h"
#include "stage/infer_cuda.h"

#include <stdlib.h>

// Composites the output picture on a device; it is downloaded when it is pulled. Edge-guided upsampling is part of
// this: the guide was made with the mask, and the coefficients are computed where they are used.

enum { MOST = DEVICE_GROUP };

// The stage's data for a worker on a device.
struct part {
    struct device_worker *g;
    tachy_composite_cuda *composite;
    tachy_composite *lines;          // mode json
    tachy_frame_pool *surfaces;      // composited
    struct tachy_block coefficients; // refine: a, then b, region by region
};

static struct composite_cuda *stage_of(const struct device_group *p) { return tachy_stage_priv(p->st); }

static struct composite_cuda_item *own_of(const struct device_group *p, const struct tachy_item *item)
{
    return tachy_stage_item(p->st, item);
}

static struct tachy_mask_eye *eye_of(const struct device_group *p, const struct tachy_item *item, int region)
{
    return tachy_mask_eye(stage_of(p)->base.masks, item, region);
}

// ---- Where pictures go ----

// Grey is composited into the luma alone.
static int fill_chroma(struct device_group *p, tachy_frame *surface)
{
    if (surface->format == stage_of(p)->base.out.format)
        return TACHY_OK;
    cuda_address chroma = tachy_cu_address(surface->data[1]);
    size_t bytes = (size_t)surface->stride[1] * (size_t)((surface->height + 1) / 2);
    return device_failed(p->g, p->g->cu->fill_async(chroma, 128, bytes, p->g->stream), "filling a surface");
}

// Grey is composited into the luma only.
// caller's; NULL: it is not. Queues what the composite leaves of it.
static int surface_for(struct device_group *p, tachy_frame *out, tachy_frame **own, tachy_frame **to)
{
    bool there = out->mem == TACHY_DEVICE;
    *own = NULL;
    int err = there ? fill_chroma(p, out) : tachy_frame_pool_get(((struct part *)p->part)->surfaces, own);
    *to = there ? out : *own;
    return err;
}

// ---- Edges ----

static uint8_t *bytes_at(cuda_address a) { return (uint8_t *)(uintptr_t)a; }

// Queues the coefficients of the item's regions, whose masks and guides are on the device already. They are good
// until the next item's.
static int fit(struct device_group *p, const struct tachy_item *item, struct tachy_refine refine[TACHY_MAX_EYES])
{
    struct device_worker *g = p->g;
    struct part *own = p->part;
    struct tachy_gpu_scratch s = {g->task->memory, g->device->mem, g->cu, g->stream, g->task->log};
    size_t all = 0;
    for (int i = 0; i < item->result.eyes; i++)
        all += 2 * (size_t)eye_of(p, item, i)->width * (size_t)eye_of(p, item, i)->height;
    int err = tachy_gpu_scratch_need(&s, &own->coefficients, all * sizeof(float));
    float *at = own->coefficients.data;
    for (int i = 0; i < item->result.eyes && err == TACHY_OK; i++) { // eyes may differ in size
        const struct tachy_mask_eye *e = eye_of(p, item, i);
        size_t n = (size_t)e->width * (size_t)e->height;
        refine[i] = (struct tachy_refine){.a = at, .b = at + n, .width = e->width, .height = e->height};
        at += 2 * n;
        struct tachy_refine_cuda_eye part = {.guide = bytes_at(e->there->guide), .mask = bytes_at(e->there->mask),
                                             .fit = refine[i]};
        struct tachy_refine_cuda of = {.eye = &part, .count = 1, .width = e->width, .height = e->height,
                                       .guide_stride = e->width, .mask_stride = e->width, .log = g->task->log};
        err = tachy_refine_cuda_run(&of, g->cu, g->stream);
    }
    return err;
}

// ---- Composites ----

// What the composites of a part read and write.
struct composites {
    int n, of[MOST]; // items
    struct tachy_result there[MOST];
    struct tachy_refine refine[TACHY_MAX_EYES];
    tachy_frame *surface[MOST], *own[MOST]; // written; of the worker's, NULL if it is the item's picture
    struct tachy_composite_cuda_item item[MOST];
};

// The stream comes behind the masks that other workers make, once for each of these.
static int follow_masks(struct device_group *p)
{
    int err = TACHY_OK;
    for (int i = 0; i < p->n && err == TACHY_OK; i++) {
        struct tachy_mask_there *e = eye_of(p, p->items[i], 0)->there;
        uint64_t last = 0;
        if (!e->flight || e->by == p->g->stream || e->device != p->g->device)
            continue;
        struct device_flight *f = e->flight;
        for (int k = i; k < p->n; k++)
            for (int eye = 0; eye < p->items[k]->result.eyes; eye++) {
                const struct tachy_mask_there *o = eye_of(p, p->items[k], eye)->there;
                last = o->flight == f ? TACHY_MAX(last, o->part) : last;
            }
        err = device_flight_follow(f, last, p->g->stream);
        for (int k = i; k < p->n && err == TACHY_OK; k++)
            for (int eye = 0; eye < p->items[k]->result.eyes; eye++) {
                struct tachy_mask_there *o = eye_of(p, p->items[k], eye)->there;
                o->by = o->flight == f ? p->g->stream : o->by;
            }
    }
    return err;
}

// Whoever comes behind a mask that the device made of the frame comes behind the frame.
static void frame_is_there(struct device_group *p, struct tachy_item *item)
{
    struct device_item *di = device_item_of(p->g->task->devices, item);
    const struct tachy_mask_there *e = eye_of(p, item, 0)->there;
    if (e->stale || e->from_host || item->reuse || e->device != p->g->device)
        return;
    di->behind = p->g;
    di->behind_id = item->result.frame_id;
}

// What the composite reads is kept until the flight's next part is done.
static int keep(struct device_group *p, struct tachy_item *item)
{
    tachy_frame *background = tachy_background_of(&stage_of(p)->base, item);
    int err = device_keep_read(p, item);
    return err == TACHY_OK && background ? device_flight_keep(p->g->flight, background) : err;
}

// The result with masks on the device in place of the host's; what is queued from here on finds them there.
static int masks_there(struct device_group *p, struct tachy_item *item, struct tachy_result *there)
{
    int err = TACHY_OK;
    *there = item->result;
    for (int i = 0; i < there->eyes && err == TACHY_OK; i++) {
        struct tachy_mask_eye *e = eye_of(p, item, i);
        err = mask_there_move(e, p->g->device, true); // where it was taken over from another frame
        if (err == TACHY_OK)
            err = mask_there_ready(e, p->g->stream, p->g->task->log);
        item->result.mask[i].data = e->mask;
        there->mask[i].data = (const uint8_t *)(uintptr_t)e->there->mask;
    }
    return err;
}

// What the composite's kernels take; `refine` has room for the coefficients if there are any.
static int lay(struct device_group *p, const struct tachy_item *item, const tachy_frame *f, const struct tachy_result *there,
               tachy_frame *surface, struct tachy_refine refine[TACHY_MAX_EYES], struct tachy_composite_cuda_item *of)
{
    const struct composite_cuda *c = stage_of(p);
    const tachy_frame *background = tachy_background_of(&c->base, item);
    bool fine = c->base.refines;
    int err = background ? device_come_after(p, background->stream) : TACHY_OK;
    if (err == TACHY_OK && fine)
        err = fit(p, item, refine);
    if (err < 0)
        return err;
    *of = (struct tachy_composite_cuda_item){.in = f, .result = there, .refine = fine ? refine : NULL,
                                             .background = background,
                                             .counted = eye_of(p, item, 0)->there->counted};
    for (int i = 0; i < tachy_pix_desc(surface->format)->planes; i++) {
        of->data[i] = tachy_frame_writable(surface, i);
        of->stride[i] = surface->stride[i];
    }
    return TACHY_OK;
}

static int launch_composites(struct device_group *p, const struct tachy_composite_cuda_item *items, int n)
{
    return tachy_composite_cuda_run(((struct part *)p->part)->composite, items, n, p->g->stream);
}

// Everything but the kernels of the item, which c->item[c->n] takes.
static int begin_composite(struct device_group *p, int i, struct composites *c)
{
    struct device_worker *g = p->g;
    struct tachy_item *item = p->items[i];
    const tachy_frame *f = &item->head;
    int k = c->n, err = device_out_get(&stage_of(p)->surfaces, g->device, stage_of(p)->base.pool, &item->out);
    c->own[k] = NULL;
    if (err == TACHY_OK)
        err = keep(p, item);
    if (err == TACHY_OK)
        err = masks_there(p, item, &c->there[k]);
    if (err == TACHY_OK && item->in) {
        frame_is_there(p, item);
        err = device_frame_of(p, item, &f);
    }
    if (err == TACHY_OK)
        err = surface_for(p, item->out, &c->own[k], &c->surface[k]);
    if (err == TACHY_OK)
        err = lay(p, item, f, &c->there[k], c->surface[k], c->refine, &c->item[k]);
    if (err == TACHY_OK)
        err = mask_there_count_from(eye_of(p, item, 0), g->stream, g->task->log, &own_of(p, item)->counted);
    if (err == TACHY_OK && stage_of(p)->base.refines) // the coefficients are the next item's from here on
        err = launch_composites(p, &c->item[k], 1);
    if (err < 0) {
        tachy_frame_unref(&c->own[k]); // who gets it next writes to it on this stream
        return err;
    }
    c->of[c->n++] = i;
    return TACHY_OK;
}

// After those of a part failed: some of its kernels may have run.
static int launch_again(struct device_group *p, const struct composites *c, int k)
{
    const struct tachy_item *item = p->items[c->of[k]];
    struct tachy_mask_eye *e = eye_of(p, item, 0);
    mask_there_miscounts(e);
    int err = mask_there_count_from(e, p->g->stream, p->g->task->log, &own_of(p, item)->counted);
    return err < 0 ? err : launch_composites(p, &c->item[k], 1);
}

static void queue_composites(struct device_group *p, struct composites *c)
{
    bool refines = stage_of(p)->base.refines, reads = p->st->flags & TACHY_STAGE_READS;
    double bytes = 0;
    int all = follow_masks(p);
    device_kernels(p->g);
    for (int i = 0; i < p->n; i++) {
        p->err[i] = all < 0 ? all : begin_composite(p, i, c);
        bytes += p->err[i] == TACHY_OK ? device_bytes(c->surface[c->n - 1]) : 0;
        bytes += reads ? device_bytes(tachy_item_head(p->items[i])) : 0;
    }
    int err = c->n && !refines ? launch_composites(p, c->item, c->n) : TACHY_OK;
    for (int k = 0; k < TACHY_MIN(c->n, (int)MOST) && err < 0; k++) {
        bool again = err != TACHY_ERR_EXTERNAL && c->n > 1; // which of them is it?
        p->err[c->of[k]] = again ? launch_again(p, c, k) : err;
    }
    device_kernels_end(p->g, bytes);
}

// Pictures, masks and counts go to the host, all at once.
static void fetch_composites(struct device_group *p, const struct composites *c)
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
            nb += mask_there_to_fetch(eye_of(p, item, eye), eye == 0, planes + nb);
    }
    device_copies(p->g);
    int err = tachy_gpu_copy(&p->g->gpu->device, planes, nb, p->g->stream, false, p->g->task->log);
    device_copies_end(p->g);
    for (int k = 0; k < c->n; k++)
        if (p->err[c->of[k]] == TACHY_OK)
            p->err[c->of[k]] = err;
}

// Up to a part of the flight.
static void begun(struct device_group *p, struct tachy_item *item, uint64_t part, int err)
{
    struct composite_cuda_item *own = own_of(p, item);
    const tachy_frame *in = tachy_item_head(item);
    tachy_frame_unref(&device_item_of(p->g->task->devices, item)->frame);
    own->part = part;
    own->flight = p->g->flight;
    own->pixels = (double)in->width * in->height;
    item->pending = err == TACHY_OK;
}

static void composite(struct device_group *p)
{
    struct composites c;
    uint64_t part = 0;
    c.n = 0;
    queue_composites(p, &c);
    fetch_composites(p, &c);
    int end = device_flight_mark(p->g->flight, &part); // also after failures: what was queued reads the frames
    device_fail_all(p, end);
    for (int i = 0; i < p->n; i++) {
        if (p->err[i] < 0 && end == TACHY_OK)
            device_flight_wait(p->g->flight, part);
        if (p->err[i] < 0)
            mask_there_miscounts(eye_of(p, p->items[i], 0));
        begun(p, p->items[i], part, p->err[i]);
        if (p->items[i]->out)
            tachy_composite_name(&stage_of(p)->base, p->items[i]);
    }
    for (int k = 0; k < c.n; k++)
        tachy_frame_unref(&c.own[k]);
}

void composite_cuda_run(struct tachy_stage *st, struct device_set *set, const struct tachy_piece pieces[], int n, int err[])
{
    device_run_where_it_is(set, st, pieces, n, err, composite);
}

int composite_cuda_sync(struct tachy_stage *st, struct tachy_item *item)
{
    const struct composite_cuda *c = tachy_stage_priv(st);
    const struct composite_cuda_item *own = tachy_stage_item(st, item);
    const struct tachy_mask_there *first = tachy_mask_eye(c->base.masks, item, 0)->there;
    int err = device_flight_wait(own->flight, own->part);
    item->pending = false;
    for (int i = 0; i < item->result.eyes; i++)
        tachy_mask_eye(c->base.masks, item, i)->there->pending = false;
    uint32_t counted = *first->counted_host - own->counted;
    item->result.coverage = (float)counted / (float)own->pixels;
    return err;
}

// ---- For the light ratio ----

struct laid {
    struct tachy_result there[MOST];
    tachy_frame *surface[MOST];
    struct tachy_refine refine[TACHY_MAX_EYES];
    struct tachy_composite_cuda_item item[MOST];
};

static int lay_one(struct device_group *p, struct laid *l, int i)
{
    struct tachy_item *item = p->items[i];
    const tachy_frame *f;
    int err = device_frame_of(p, item, &f);
    if (err == TACHY_OK)
        err = tachy_frame_pool_get(((struct part *)p->part)->surfaces, &l->surface[i]);
    if (err < 0)
        return err;
    l->there[i] = item->result;
    for (int r = 0; r < item->result.eyes; r++)
        l->there[i].mask[r].data = bytes_at(eye_of(p, item, r)->there->mask);
    err = lay(p, item, f, &l->there[i], l->surface[i], l->refine, &l->item[i]);
    // The coefficients are the next item's from here on.
    return err < 0 || !stage_of(p)->base.refines ? err : launch_composites(p, &l->item[i], 1);
}

static void queue(struct device_group *p)
{
    struct laid l = {0};
    int err = TACHY_OK;
    for (int i = 0; i < p->n && err == TACHY_OK; i++)
        err = lay_one(p, &l, i);
    if (err == TACHY_OK && !stage_of(p)->base.refines)
        err = launch_composites(p, l.item, p->n);
    device_fail_all(p, err);
    for (int i = 0; i < p->n; i++)
        tachy_frame_unref(&l.surface[i]); // who gets it next writes to it on this stream
}

int composite_cuda_queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n)
{
    return device_queue(worker, st, items, n, 1, queue);
}

// ---- The stage ----

int composite_cuda_open(struct tachy_stage *st, const tachy_settings *set, bool lines)
{
    int err = tachy_composite_open_stage(st, set, lines);
    if (err == TACHY_OK && ((struct composite_cuda *)tachy_stage_priv(st))->base.beside)
        return tachy_fail(st->task->log, TACHY_ERR_UNSUPPORTED, "--device cuda makes pictures or JSON lines in one run, not both; "
                          "leave one of the outputs out, or add --device cpu");
    if (err == TACHY_OK)
        st->worker_of = tachy_masks_of(st)->st->worker_of;
    return err;
}

void composite_cuda_close(struct tachy_stage *st)
{
    struct composite_cuda *c = tachy_stage_priv(st);
    device_out_close(&c->surfaces);
    tachy_composite_close_stage(st);
}

// What the kernels make: of mode json the alpha, of which the host writes its line.
static struct tachy_composite_params made(const struct composite_cuda *c)
{
    struct tachy_composite_params p = c->base.params;
    p.mode = p.mode == TACHY_MODE_JSON ? TACHY_MODE_MASK : p.mode;
    return p;
}

static enum tachy_pix made_format(const struct composite_cuda *c)
{
    return c->base.params.mode == TACHY_MODE_JSON ? TACHY_PIX_GRAY8 : c->base.out.format;
}

int composite_cuda_start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct composite_cuda *c = tachy_stage_priv(st);
    const struct tachy_composite_params p = made(c);
    const enum tachy_pix format = video->format;
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    device_out_close(&c->surfaces);
    int err = tachy_composite_start(st, video);
    if (err == TACHY_OK && !tachy_composite_cuda_takes(&p, format))
        err = tachy_fail(st->task->log, TACHY_ERR_UNSUPPORTED,
                         "--device cuda does not take pictures of %s: use --device cpu", d ? d->name : "this format");
    return err < 0 ? err : device_host_pool(st, &c->base.pool, made_format(c), video->width, video->height);
}

static int surfaces(struct tachy_stage *st, const struct tachy_surface_spec *spec)
{
    struct composite_cuda *c = tachy_stage_priv(st);
    const struct tachy_video_info *out = &c->base.out;
    bool grey = out->format == TACHY_PIX_GRAY8 && spec->format == TACHY_PIX_NV12;
    bool fits = (spec->format == out->format || grey) && spec->width == out->width && spec->height == out->height;
    return c->base.pool && fits ? device_out_open(&c->surfaces, st, spec) : TACHY_OK;
}

void composite_cuda_part_close(void *part)
{
    struct part *p = part;
    tachy_memory_give(p->g->task->memory, &p->coefficients);
    tachy_composite_cuda_close(&p->composite);
    tachy_composite_close(&p->lines);
    tachy_frame_pool_close(&p->surfaces);
    free(p);
}

int composite_cuda_part_open(struct tachy_stage *st, int batch, void **part)
{
    const struct composite_cuda *c = tachy_stage_priv(st);
    struct device_worker *g = *part;
    struct part *p = *part = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    p->g = g;
    const struct tachy_composite_cuda_params cp = {
        .composite = made(c), .memory = g->task->memory, .mem = g->device->mem, .cu = g->cu, .natural = c->base.solves};
    int err = tachy_composite_cuda_open(&p->composite, &cp);
    if (err == TACHY_OK && c->base.params.mode == TACHY_MODE_JSON)
        err = tachy_composite_open(&p->lines, &c->base.params);
    if (err == TACHY_OK)
        err = device_pool(g, &p->surfaces, made_format(c), c->base.out.width, c->base.out.height);
    if (err < 0) {
        composite_cuda_part_close(p);
        *part = NULL;
    }
    return err;
}

tachy_composite *composite_cuda_lines(const struct tachy_stage *st, const struct tachy_item *item)
{
    return ((struct part *)device_item_of(st->task->devices, item)->at->part[st->index])->lines;
}

static int open(struct tachy_stage *st, const tachy_settings *set) { return composite_cuda_open(st, set, false); }

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    composite_cuda_run(st, worker, pieces, n, err);
}

const struct tachy_stage_ops tachy_stage_composite_cuda = {
    .name = "composite",
    .flags = TACHY_STAGE_WRITES,
    .priv_size = sizeof(struct composite_cuda),
    .item_size = sizeof(struct composite_cuda_item),
    .open = open,
    .close = composite_cuda_close,
    .start = composite_cuda_start,
    .surfaces = surfaces,
    .worker_open = composite_cuda_part_open,
    .worker_close = composite_cuda_part_close,
    .run = run,
    .sync = composite_cuda_sync,
    .load = device_load,
    .queue = composite_cuda_queue,
};
