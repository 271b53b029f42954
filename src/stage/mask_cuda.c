#include "stage/mask_cuda.h"

#include "cuda/mem.h"
#include "postprocess/mask_cuda.h"
#include "stage/guide_cuda.h"
#include "stage/infer_cuda.h"

#include <stdlib.h>

// Masks made on devices from tensors there, or on the host from its own tensors, with their guides.

enum { MOST = DEVICE_GROUP };

// The stage's data for a worker on a device.
struct part {
    struct device_worker *g;
    struct tachy_block luma; // of a frame of R'G'B', for its guide
};

static struct tachy_masks *masks_of(const struct device_group *p) { return tachy_stage_priv(p->st); }

static struct tachy_mask_eye *eye_of(const struct device_group *p, int i)
{
    return tachy_mask_eye(masks_of(p), p->items[i], p->region);
}

// ---- Guides ----

// Queues the guide of item i, from its frame on the device.
static int queue_guide(struct device_group *p, int i, const tachy_frame *f)
{
    const struct tachy_mask_eye *e = eye_of(p, i);
    return guide_cuda_queue(p, &((struct part *)p->part)->luma, f, &masks_of(p)->infer->region[p->region],
                            (void *)(uintptr_t)e->there->guide, e->width, e->height, e->width);
}

// A mask that the host made follows its guide to the device.
static int make_guide(struct device_group *p, int i)
{
    struct device_worker *g = p->g;
    const struct tachy_mask_eye *e = eye_of(p, i);
    size_t n = (size_t)e->width * (size_t)e->height;
    const tachy_frame *f;
    int err = device_frame_of(p, p->items[i], &f);
    if (err == TACHY_OK)
        err = queue_guide(p, i, f);
    if (err == TACHY_OK && e->there->stale)
        err = device_failed(g, g->cu->copy_to_device_async(e->there->mask, e->mask, n, g->stream), "a copy");
    int kept = device_keep_frame(p, p->items[i]); // in a batch another worker has made its picture
    e->there->stale = e->there->stale && err < 0;
    return err < 0 ? err : kept;
}

// ---- Masks ----

// Items whose masks have one form.
struct alike {
    int n, of[MOST]; // items
    struct tachy_mask_eye *eye[MOST];
    struct tachy_placement at;
};

static int queue_masks(struct device_group *p, const int of[], int n, const struct tachy_placement *at)
{
    const struct tachy_infer *in = masks_of(p)->infer;
    const struct tachy_mask_spec spec = tachy_mask_spec_of(in, p->kind);
    int err = TACHY_OK;
    for (int i = 0, last; i < n && err == TACHY_OK; i = last) { // a launch for each row of pictures next to each other
        cuda_address to[DEVICE_GROUP];
        int picture = infer_cuda_picture(p, of[i]);
        for (last = i; last < n && infer_cuda_picture(p, of[last]) == picture + last - i; last++)
            to[last - i] = eye_of(p, of[last])->there->mask;
        struct tachy_tensor out = infer_cuda_output(p, of[i]);
        err = tachy_mask_from_tensor_cuda(&spec, &out, at, in->rotation, in->flip, to, eye_of(p, of[i])->width, last - i,
                                          p->g->cu, p->g->stream, p->g->task->log);
    }
    return err;
}

// The model's output for item i, on the host or on the device.
static struct tachy_tensor output_of(const struct device_group *p, int i)
{
    const struct tachy_infer *in = masks_of(p)->infer;
    struct tachy_infer_output o;
    if (!infer_cuda_on_host(p))
        return infer_cuda_output(p, i);
    tachy_infer_output(in, &(struct tachy_piece){p->items[i], p->region}, &o);
    return o.out[in->net[p->kind].output];
}

static int wait_for(void *eye) { return mask_there_sync(eye); }

static int make_masks(struct device_group *p, const struct alike *m)
{
    const struct tachy_masks *masks = masks_of(p);
    const struct tachy_infer *in = masks->infer;
    const struct tachy_mask_spec spec = tachy_mask_spec_of(in, p->kind);
    bool host = infer_cuda_on_host(p);
    struct tachy_mask_eye *first = m->eye[0];
    const struct tachy_tensor out = output_of(p, m->of[0]);
    int err = TACHY_OK;
    for (int i = 0; i < m->n; i++) {
        struct tachy_mask_there *e = m->eye[i]->there;
        err = err < 0 ? err : mask_there_move(m->eye[i], p->g->device, false);
        p->items[m->of[i]]->result.mask[p->region].data = m->eye[i]->mask;
        e->from_host = e->stale = host;
        e->unfetched = !host;
        e->guide_stale = false;
        p->g->wait = wait_for;
        p->g->waits_for = m->eye[i];
    }
    if (err == TACHY_OK)
        err = host ? tachy_mask_from_tensor(&spec, &out, &m->at, in->rotation, in->flip, first->mask, first->width)
                   : queue_masks(p, m->of, m->n, &m->at);
    for (int i = 0; i < m->n && masks->guided && err == TACHY_OK; i++)
        err = make_guide(p, m->of[i]);
    return err;
}

static bool is_alike(const struct alike *m, const struct tachy_mask_eye *e, const struct tachy_placement *at)
{
    const struct tachy_mask_eye *as = m->eye[0];
    return !m->n || (e->width == as->width && e->height == as->height && !memcmp(at, &m->at, sizeof(*at)));
}

static void flush_masks(struct device_group *p, struct alike *m)
{
    int err = m->n ? make_masks(p, m) : TACHY_OK;
    for (int i = 0; i < m->n; i++)
        p->err[m->of[i]] = err;
    m->n = 0;
}

// The masks are part of the flight; so are the frames that this step and the ones before have read.
static void mark_masks(struct device_group *p)
{
    struct device_flight *flight = p->g->flight;
    bool queued = !infer_cuda_on_host(p) || masks_of(p)->guided;
    if (!queued && device_flight_kept(flight) < 2) // the first goes with the next step's
        return;
    uint64_t part = 0;
    int err = device_flight_mark(flight, &part);
    device_fail_all(p, err);
    for (int i = 0; i < p->n && err == TACHY_OK && queued; i++)
        if (p->err[i] == TACHY_OK)
            mask_there_flies(eye_of(p, i), p->g->stream, flight, part);
        else
            device_flight_wait(flight, part);
    device_flight_tidy(flight);
}

// Room for the mask; what an earlier frame left there has been copied.
static int place(struct device_group *p, int i, const struct tachy_tensor *out, struct tachy_placement *at)
{
    const struct tachy_piece piece = {p->items[i], p->region};
    int err = tachy_mask_place(masks_of(p), &piece, p->kind, out, &infer_region_in(p, i)->placement, at);
    return err < 0 ? err : mask_there_sync(eye_of(p, i));
}

static void make(struct device_group *p)
{
    struct alike m = {0};
    struct tachy_placement at;
    double bytes = 0;
    bool on_host = infer_cuda_on_host(p);
    if (!on_host)
        device_kernels(p->g);
    for (int i = 0; i < p->n; i++) {
        struct tachy_tensor out = output_of(p, i);
        p->err[i] = place(p, i, &out, &at);
        if (p->err[i] < 0)
            continue;
        struct tachy_mask_eye *e = eye_of(p, i);
        if (!is_alike(&m, e, &at))
            flush_masks(p, &m);
        m.at = at;
        m.of[m.n] = i;
        m.eye[m.n++] = e;
        bytes += (double)tachy_tensor_bytes(&out) + (double)e->width * e->height;
    }
    flush_masks(p, &m);
    if (!on_host)
        device_kernels_end(p->g, bytes);
    device_end(p->g->set);
    mark_masks(p);
    device_let_go(p);
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    bool apart = pieces[0].item->apart;
    int each = apart ? 1 : n; // the host makes it
    for (int i = 0; i < n; i += each) {
        if (apart)
            infer_cuda_choose(worker, state, pieces + i, each, err + i);
        device_run(worker, st, state, pieces + i, each, err + i, false, make);
    }
}

// ---- For the light ratio ----

static void queue_region(struct device_group *p)
{
    const struct tachy_masks *m = masks_of(p);
    const struct tachy_mask_spec spec = tachy_mask_spec_of(m->infer, p->kind);
    int of[MOST], tw = 0, th = 0, err = TACHY_OK;
    if (!infer_cuda_on_host(p)) {
        const struct tachy_tensor out = output_of(p, 0);
        err = tachy_mask_extent(&spec, &out, &tw, &th);
        for (int i = 0; i < p->n; i++)
            of[i] = i;
        struct tachy_placement at = tachy_mask_at(&m->infer->net[p->kind], &infer_region_in(p, 0)->placement, tw, th);
        err = err < 0 ? err : queue_masks(p, of, p->n, &at);
    }
    for (int i = 0; i < p->n && err == TACHY_OK && m->guided; i++) {
        const tachy_frame *f;
        err = device_frame_of(p, p->items[i], &f);
        if (err == TACHY_OK)
            err = queue_guide(p, i, f);
    }
    device_fail_all(p, err);
}

static int queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n)
{
    return device_queue(worker, st, items, n, st->task->eyes, queue_region);
}

static bool load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    const struct tachy_masks *m = tachy_stage_priv(st);
    bool from_host = infer_cuda_from_host(m->infer, item);
    double bytes = 0;
    for (int i = 0; i < st->task->eyes; i++)
        bytes += (double)item->result.mask[i].width * item->result.mask[i].height;
    *(from_host ? &l->to_device : &l->to_host) = bytes;
    device_load(st, worker, item, l);
    l->computes = !from_host || m->guided;
    return true;
}

// ---- The stage ----

static int sync_both(struct tachy_mask_eye *e)
{
    int err = mask_there_sync(e);
    return err < 0 ? err : mask_there_sync_guide(e);
}

static int open(struct tachy_stage *st, const tachy_settings *set)
{
    static const struct tachy_mask_memory there = {mask_there_room, sync_both, mask_there_touched};
    return tachy_mask_open(st, &there);
}

static void leave_memory(struct tachy_stage *st)
{
    for (int i = 0; i < st->task->devices->nb; i++)
        mask_pieces_close(&st->task->devices->list[i].masks);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct task_devices *d = st->task->devices;
    int err = tachy_mask_start(st, video);
    leave_memory(st); // of the pipeline before
    for (int i = 0; i < d->nb && err == TACHY_OK; i++)
        err = mask_pieces_open(&d->list[i].masks, st->task->memory, d->list[i].gpu);
    return err;
}

static void item_close(void *item)
{
    for (int i = 0; i < TACHY_MAX_EYES; i++)
        if (((struct tachy_mask_item *)item)->eye[i].there)
            mask_there_free(&((struct tachy_mask_item *)item)->eye[i]);
}

static int part_open(struct tachy_stage *st, int batch, void **part)
{
    struct device_worker *g = *part;
    struct part *p = *part = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    p->g = g;
    return TACHY_OK;
}

static void part_close(void *part)
{
    struct part *p = part;
    tachy_memory_give(p->g->task->memory, &p->luma);
    free(p);
}

static int open_there(struct tachy_stage *st, const tachy_settings *set)
{
    st->worker_of = tachy_infer_of(st)->st->worker_of;
    return open(st, set);
}

const struct tachy_stage_ops tachy_stage_mask_cuda = {
    .name = "postprocess",
    .flags = TACHY_STAGE_REGIONS,
    .priv_size = sizeof(struct tachy_masks),
    .item_size = sizeof(struct tachy_mask_item),
    .open = open_there,
    .close = leave_memory,
    .start = start,
    .worker_open = part_open,
    .worker_close = part_close,
    .run = run,
    .item_close = item_close,
    .copy = tachy_mask_copy,
    .copy_save = tachy_mask_copy_save,
    .copy_load = tachy_mask_copy_load,
    .load = load,
    .queue = queue,
};
