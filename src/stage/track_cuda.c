#include "stage/infer_cuda.h"
#include "stage/stages.h"
#include "stage/track.h"

#include <stddef.h>
#include <stdlib.h>

// Faces or people that keep their number, in frames on devices: crops, also rotated ones, are made there, and the
// networks run there if their provider can. Their outputs go to the host, which decides where to look next; it waits
// for them once for several faces of a frame.

enum { TOGETHER = DEVICE_GROUP }; // faces of a frame that go to a device and back at once

struct on_devices {
    struct track track; // first
    struct task_devices devices;
    struct infer_cuda net[TRACK_NETS];
};

struct cuda_item {
    struct track_item item; // first
    struct device_item device;
};

// A worker's data for the networks on a device.
struct there {
    struct infer_there net[TRACK_NETS];
    // Downloaded for each picture: the outputs of an engine there (at net.out_at), or the input for one on the host.
    struct tachy_block pinned[TRACK_NETS];
    size_t each[TRACK_NETS]; // bytes
};

struct cuda_worker {
    struct device_set set; // first
    const struct tachy_piece *pieces; // of the call in hand; those after the first are later ones
    int nb;
    struct track_own own;
    struct tachy_net_worker net[TRACK_NETS];
    struct there *on[TACHY_MAX_GPUS]; // in the order of the task's; NULL: no frame of it came yet
};

// ---- Open and start

static int open_net(struct tachy_stage *st, int net, const struct tachy_net_params *p, const tachy_settings *s)
{
    struct on_devices *d = tachy_stage_priv(st);
    struct infer_cuda *c = &d->net[net];
    c->devices = &d->devices;
    d->track.net[net] = &c->infer;
    int err = tachy_net_open_model(&c->infer, st, p, s);
    return err < 0 ? err : infer_cuda_open_first(c);
}

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct on_devices *d = tachy_stage_priv(st);
    d->devices.item_at = offsetof(struct cuda_item, device);
    d->devices.waits = true;
    int err = device_read_settings(&d->devices, st, s);
    if (err == TACHY_OK)
        err = track_open(st, s, open_net);
    if (err < 0)
        return err;
    tachy_task_describe(st->task, " on %s", d->devices.list[0].gpu->device.name);
    return TACHY_OK;
}

static void close(struct tachy_stage *st)
{
    struct on_devices *d = tachy_stage_priv(st);
    for (int i = 0; i < TRACK_NETS; i++)
        infer_cuda_close(&d->net[i]);
    device_close(&d->devices);
    st->task->devices = NULL;
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct on_devices *d = tachy_stage_priv(st);
    track_start(st, video);
    if (!device_starts_anew(&d->devices))
        return TACHY_OK;
    for (int i = 0; i < TRACK_NETS; i++)
        infer_cuda_leave_memory(&d->net[i]);
    int err = device_start(&d->devices);
    for (int i = 0; i < TRACK_NETS && err == TACHY_OK; i++)
        err = infer_cuda_count_models(&d->net[i]);
    return err;
}

// ---- A worker

static void there_close(struct there *t, struct device_worker *g)
{
    bool in = t && tachy_device_enter(&g->gpu->device, NULL) == TACHY_OK;
    for (int i = 0; i < TRACK_NETS && t; i++) {
        infer_there_close(&t->net[i], g);
        tachy_memory_give(g->task->memory, &t->pinned[i]);
    }
    if (in)
        tachy_device_leave(&g->gpu->device);
    free(t);
}

static int net_open(struct there *t, int i, struct cuda_worker *w, struct device_worker *g)
{
    struct on_devices *d = tachy_stage_priv(w->set.devices->st);
    struct infer_engine *host = &w->net[i].run;
    const struct tachy_preprocess_params pp = tachy_net_params_of(d->track.net[i]);
    const struct infer_there_params p = {.c = &d->net[i], .host = host, .preprocess = &pp, .regions = 1,
                                         .pictures = TACHY_MIN(i == TRACK_POINTS ? d->track.follow.most : d->track.batch, (int)TOGETHER),
                                         .size = TACHY_INFER_FULL, .one_stream = true};
    int err = infer_there_open(&t->net[i], g, &p);
    t->each[i] = t->net[i].out.data ? host->net->out_bytes : tachy_tensor_bytes(&t->net[i].in);
    return err < 0 ? err : infer_cuda_pin(g, &t->pinned[i], (size_t)p.pictures * t->each[i]);
}

// The device's context is current.
static int there_open(struct there **out, struct cuda_worker *w, struct device_worker *g)
{
    struct there *t = *out = calloc(1, sizeof(*t));
    int err = t ? TACHY_OK : TACHY_ERR_NOMEM;
    for (int i = 0; i < TRACK_NETS && err == TACHY_OK; i++)
        err = net_open(t, i, w, g);
    if (err < 0) {
        there_close(t, g);
        *out = NULL;
    }
    return err;
}

static void worker_close(void *worker)
{
    struct cuda_worker *w = worker;
    for (int i = TACHY_MAX_GPUS - 1; i >= 0; i--) // the others use what the first one has
        there_close(w->on[i], w->set.on[i]);
    device_set_close(&w->set);
    for (int i = 0; i < TRACK_NETS; i++)
        tachy_net_worker_close(&w->net[i]);
    free(w);
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    struct on_devices *d = tachy_stage_priv(st);
    struct cuda_worker *w = *worker = calloc(1, sizeof(*w));
    int err = w ? TACHY_OK : TACHY_ERR_NOMEM;
    for (int i = 0; i < TRACK_NETS && err == TACHY_OK; i++)
        err = tachy_net_worker_open(&w->net[i], d->track.net[i]);
    if (err == TACHY_OK)
        err = device_set_open(&w->set, &d->devices);
    if (err < 0 && w) {
        worker_close(w);
        *worker = NULL;
    }
    return err;
}

// ---- A frame

struct runner {
    struct track_runner base; // first
    struct cuda_worker *w;
    struct device_worker *g;
    struct there *there;
    const struct tachy_item *item; // in hand
    const tachy_frame *in; // its frame, on the device
    cuda_stream written;   // what wrote it there
};

// A later item's frame is used only where it lies.
static const tachy_frame *frame_of(const struct runner *r, const struct track_look *l) { return l->item == r->item ? r->in : l->item->in; }
static cuda_stream stream_of(const struct runner *r, const struct track_look *l) { return l->item == r->item ? r->written : l->item->in->stream; }

// Some parts of frames that one network looks at.
struct looks {
    struct runner *r;
    int net;
    struct track_look *look;
    int n;
};

static uint8_t *pinned_of(const struct looks *s, int i)
{
    const struct there *t = s->r->there;
    return (uint8_t *)t->pinned[s->net].data + (size_t)i * t->each[s->net];
}

static int make_crops(const struct looks *s, struct infer_there *t)
{
    struct tachy_preprocess_picture crop[TOGETHER];
    struct tachy_tensor in = t->in;
    in.shape[0] = s->n;
    int err = TACHY_OK;
    for (int i = 0; i < s->n && err == TACHY_OK; i++) {
        cuda_stream written = stream_of(s->r, &s->look[i]);
        bool known = t->stream == written || (i && stream_of(s->r, &s->look[i - 1]) == written);
        crop[i] = (struct tachy_preprocess_picture){frame_of(s->r, &s->look[i]), s->look[i].view};
        err = known ? TACHY_OK : device_follow(s->r->g, t->stream, written);
    }
    if (err < 0)
        return err;
    device_kernels(s->r->g);
    err = tachy_preprocess_gpu_run(t->preprocess[0], crop, s->n, &in, NULL);
    device_kernels_end(s->r->g, (double)tachy_tensor_bytes(&in));
    return err;
}

static int decode(const struct looks *s, int i, const struct tachy_tensor out[])
{
    const struct track_look *l = &s->look[i];
    return tachy_net_decode(&s->r->w->net[s->net], out, frame_of(s->r, l), &l->view, l->about, l->list);
}

static int run_there(const struct looks *s, struct infer_there *t)
{
    struct tachy_tensor out[TACHY_MAX_IO];
    int picture[TOGETHER], err[TOGETHER];
    for (int i = 0; i < s->n; i++)
        picture[i] = i;
    device_kernels(s->r->g);
    infer_there_run(t, s->r->g, true, picture, s->n, err);
    device_kernels_end(s->r->g, 0);
    int all = infer_cuda_fetch_kept(s->r->g, t, pinned_of(s, 0), s->n);
    memcpy(out, t->host->tensors.out, sizeof(out));
    for (int i = 0; i < s->n && all == TACHY_OK; i++) {
        infer_cuda_kept_in(t->host->net, pinned_of(s, i), out);
        s->look[i].err = err[i] < 0 ? err[i] : decode(s, i, out);
    }
    return all;
}

static int run_on_host(const struct looks *s, struct infer_there *t)
{
    struct tachy_tensor all = t->in, *in = t->host->tensors.in;
    all.shape[0] = s->n;
    int err = infer_cuda_fetch(s->r->g, &all, &(void *){pinned_of(s, 0)}, 1);
    for (int i = 0; i < s->n && err == TACHY_OK; i++) {
        in[t->host->net->picture].data = pinned_of(s, i);
        int ran = tachy_engine_run(t->host->engine, in, t->host->tensors.out);
        s->look[i].err = ran < 0 ? ran : decode(s, i, t->host->tensors.out);
    }
    return err;
}

static void run_net(struct track_runner *base, int net, struct track_look look[], int n)
{
    struct runner *r = (void *)base;
    struct infer_there *t = &r->there->net[net];
    for (int i = 0; i < n; i += TOGETHER) {
        const struct looks s = {r, net, look + i, TACHY_MIN(n - i, (int)TOGETHER)};
        int err = make_crops(&s, t);
        if (err == TACHY_OK)
            err = t->out.data ? run_there(&s, t) : run_on_host(&s, t);
        for (int k = 0; k < s.n && err < 0; k++)
            s.look[k].err = err;
    }
}

// A decoder's frame stays where it is; a host frame is uploaded on the worker's stream.
static int find_frame(struct device_group *p, struct tachy_item *item, struct runner *r)
{
    r->in = item->in;
    r->written = item->in->mem == TACHY_DEVICE ? item->in->stream : p->g->stream;
    return item->in->mem == TACHY_DEVICE ? TACHY_OK : device_frame_of(p, item, &r->in);
}

// How many of the call's items have frames there, from the first one on: the detector may look at them together.
static int there_from(const struct cuda_worker *w, const struct device_worker *g)
{
    int n = 1;
    while (n < w->nb && w->pieces[n].item->in->mem == TACHY_DEVICE && w->pieces[n].item->in->device == g->gpu->device.ordinal)
        n++;
    return n;
}

// The host waits for what a network says, so nothing reads the frame any more when this returns; after a failure it is waited
// for here.
static int follow(struct device_group *p, struct tachy_item *item)
{
    struct cuda_worker *w = (void *)p->g->set;
    struct there **there = &w->on[device_index(w->set.devices, p->g->device)];
    struct runner r = {.base = {.run = run_net}, .w = w, .g = p->g, .item = item};
    int err = *there ? TACHY_OK : there_open(there, w, p->g);
    if (err == TACHY_OK)
        err = find_frame(p, item, &r);
    r.there = *there;
    if (err == TACHY_OK)
        err = track_frame(p->st, &r.base, &w->own, p->state, w->pieces, there_from(w, p->g));
    for (int i = 0; i < TRACK_NETS && err < 0 && *there; i++)
        if ((*there)->net[i].stream)
            p->g->cu->stream_wait((*there)->net[i].stream);
    return err;
}

static void call(struct device_group *p)
{
    for (int i = 0; i < p->n; i++)
        p->err[i] = follow(p, p->items[i]);
    device_end(p->g->set);
    device_let_go(p);
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct cuda_worker *w = worker;
    for (int i = 0; i < (st->ahead ? 1 : n); i++) {
        w->pieces = pieces + i;
        w->nb = st->ahead ? n : 1;
        err[i] = device_begin(&w->set, pieces[i].item, NULL);
        if (err[i] < 0)
            continue;
        device_count(&w->set);
        device_run(&w->set, st, state, &pieces[i], 1, &err[i], false, call);
    }
}

static void item_close(void *item)
{
    track_item_close(item);
    tachy_frame_unref(&((struct cuda_item *)item)->device.frame);
}

// The numbers of the detector and of one face, which come to the host.
static bool load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    const struct on_devices *d = tachy_stage_priv(st);
    l->to_host = (double)d->net[TRACK_POINTS].infer.net[TACHY_INFER_FULL].out_bytes;
    device_load(st, worker, item, l);
    l->computes = false;
    return true;
}

const struct tachy_stage_ops tachy_stage_track_cuda = {
    .name = "track",
    .options = tachy_model_options,
    .flags = TACHY_STAGE_REGIONS | TACHY_STAGE_ORDERED | TACHY_STAGE_READS | TACHY_STAGE_MODEL,
    .priv_size = sizeof(struct on_devices),
    .item_size = sizeof(struct cuda_item),
    .state_size = sizeof(struct tachy_follow),
    .open = open,
    .close = close,
    .start = start,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
    .state_load = track_state_load,
    .item_close = item_close,
    .load = load,
};
