#include "stage/infer_cuda.h"
#include "stage/stages.h"
#include "stage/track.h"

#include <stddef.h>
#include <stdlib.h>

// Faces that keep their number, in frames on devices: crops are made there, also turned ones, and the networks run there if
// their provider does. What they say comes to the host, which decides what is looked at next; so each run is waited for.

struct on_devices {
    struct track track; // first
    struct task_devices devices;
    struct infer_cuda net[TRACK_NETS];
};

struct cuda_item {
    struct track_item item; // first
    struct device_item device;
};

// What a worker has of the networks on a device.
struct there {
    struct infer_there net[TRACK_NETS];
    struct tachy_block pinned[TRACK_NETS]; // outputs of an engine that runs there, as net.out_at says
};

struct cuda_worker {
    struct device_set set; // first
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

// The device's context is current.
static int there_open(struct there **out, struct cuda_worker *w, struct device_worker *g)
{
    struct on_devices *d = tachy_stage_priv(w->set.devices->st);
    struct there *t = *out = calloc(1, sizeof(*t));
    int err = t ? TACHY_OK : TACHY_ERR_NOMEM;
    for (int i = 0; i < TRACK_NETS && err == TACHY_OK; i++) {
        struct infer_engine *host = &w->net[i].run;
        const struct tachy_preprocess_params pp = tachy_net_params_of(d->track.net[i]);
        err = infer_there_open(&t->net[i], g, &d->net[i], host, &pp, 1, TACHY_INFER_FULL);
        if (err == TACHY_OK && t->net[i].out.data)
            err = infer_cuda_pin(g, &t->pinned[i], host->net->out_bytes);
    }
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
    track_own_free(&w->own);
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
    const tachy_frame *in; // on the device
};

static int make_crop(const struct runner *r, struct infer_there *t, const struct tachy_view *view)
{
    const struct tachy_preprocess_picture crop = {r->in, *view};
    device_kernels(r->g);
    int err = tachy_preprocess_gpu_run(t->preprocess[0], &crop, 1, &t->in, NULL);
    device_kernels_end(r->g, (double)tachy_tensor_bytes(&t->in));
    return err;
}

static int run_there(struct infer_there *t, struct device_worker *g, void *pinned, struct tachy_tensor out[TACHY_MAX_IO])
{
    int err = TACHY_OK;
    device_kernels(g);
    infer_there_run(t, g, &(int){0}, 1, &err);
    device_kernels_end(g, 0);
    return err < 0 ? err : infer_cuda_fetch_kept(g, t, t->host->net, pinned, out);
}

static int run_on_host(struct infer_there *t, struct device_worker *g)
{
    struct infer_tensors *host = &t->host->tensors;
    int err = infer_cuda_fetch(g, &t->in, &host->in[t->host->net->picture].data, 1);
    return err < 0 ? err : tachy_engine_run(t->host->engine, host->in, host->out);
}

static int run_net(struct track_runner *base, int net, int thread, const struct tachy_view *view, struct tachy_region *about,
                   struct tachy_regions *list)
{
    struct runner *r = (void *)base;
    struct infer_there *t = &r->there->net[net];
    struct tachy_tensor out[TACHY_MAX_IO];
    memcpy(out, t->host->tensors.out, sizeof(out));
    int err = make_crop(r, t, view);
    if (err == TACHY_OK)
        err = t->out.data ? run_there(t, r->g, r->there->pinned[net].data, out) : run_on_host(t, r->g);
    return err < 0 ? err : tachy_net_decode(&r->w->net[net], out, r->in, view, about, list);
}

static int follow(struct device_group *p, struct tachy_item *item)
{
    struct cuda_worker *w = (void *)p->g->set;
    struct there **there = &w->on[device_index(w->set.devices, p->g->device)];
    struct runner r = {.base = {.run = run_net}, .w = w, .g = p->g};
    int err = *there ? TACHY_OK : there_open(there, w, p->g);
    if (err == TACHY_OK)
        err = device_frame_of(p, item, &r.in);
    r.there = *there;
    if (err == TACHY_OK)
        err = track_frame(p->st, &r.base, &w->own, p->state, item);
    int kept = device_keep_frame(p, item); // also after a failure: what was queued reads the frame
    return err < 0 ? err : kept;
}

static void call(struct device_group *p)
{
    for (int i = 0; i < p->n; i++)
        p->err[i] = follow(p, p->items[i]);
    device_end(p->g->set);
    if (device_flight_kept(p->g->flight))
        device_fail_all(p, device_flight_mark(p->g->flight, NULL));
    device_let_go(p);
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct cuda_worker *w = worker;
    for (int i = 0; i < n; i++) {
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
    return device_load(st, worker, false, l);
}

const struct tachy_stage_ops tachy_stage_track_cuda = {
    .name = "track",
    .options = tachy_model_options,
    .flags = TACHY_STAGE_REGIONS | TACHY_STAGE_ORDERED | TACHY_STAGE_READS | TACHY_STAGE_MODEL,
    .priv_size = sizeof(struct on_devices),
    .item_size = sizeof(struct cuda_item),
    .open = open,
    .close = close,
    .start = start,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
    .state_open = track_state_open,
    .state_close = track_state_close,
    .state_save = track_state_save,
    .state_load = track_state_load,
    .item_close = item_close,
    .copy = track_copy,
    .copy_save = track_copy_save,
    .copy_load = track_copy_load,
    .load = load,
};
