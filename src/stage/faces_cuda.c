#include "engine/engine_ops.h"
#include "stage/faces.h"
#include "stage/infer_cuda.h"
#include "stage/stages.h"

#include <stdlib.h>

// Vectors of faces in frames on devices: the pictures of the faces of several frames are made there in one go, and the network runs
// there if its provider does. Pictures and vectors come to the host together, which waits once; it then sees which of the faces are
// too blurred, whose vectors are thrown away.

enum { FRAMES = DEVICE_GROUP }; // that a worker takes at once
_Static_assert((int)FACES_TOGETHER <= (int)DEVICE_MOST, "a network sees them at once");

struct on_devices {
    struct faces faces; // first
    struct infer_cuda net;
    struct tachy_memory *counted; // of the pipeline that has counted the network
};

// The stage's data for a worker on a device.
struct part {
    struct faces_runner run; // first
    struct device_worker *g;
    struct tachy_net_worker net;
    struct infer_there there;
    struct tachy_preprocess_gpu *crop;
    struct tachy_tensor crops; // there
    struct tachy_block crops_there, crops_here;
    struct tachy_block said; // on the host, of each face: what an engine there said, as net.out_at says, or what one here reads
    size_t each;             // bytes of that
    int slot[FACES_TOGETHER]; // of the faces in hand; -1: the network does not see it
    int err[FACES_TOGETHER];  // by slot
};

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct on_devices *d = tachy_stage_priv(st);
    const struct tachy_net_params p = faces_open(st, s);
    st->worker_of = st->task->devices->st->worker_of;
    d->net.devices = st->task->devices;
    int err = tachy_net_open_model(&d->net.infer, st, &p, s);
    if (err == TACHY_OK)
        err = infer_cuda_open_first(&d->net);
    if (err < 0)
        return err;
    d->faces.side = d->net.infer.net[TACHY_INFER_FULL].card->in.width;
    st->group = tachy_engine_on_device(d->net.infer.net[TACHY_INFER_FULL].first) ? FRAMES : 1;
    return TACHY_OK;
}

static void close(struct tachy_stage *st) { infer_cuda_close(&((struct on_devices *)tachy_stage_priv(st))->net); }

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct on_devices *d = tachy_stage_priv(st);
    if (d->counted == st->task->memory)
        return TACHY_OK;
    infer_cuda_leave_memory(&d->net);
    d->counted = st->task->memory;
    return infer_cuda_count_models(&d->net);
}

// ---- The faces of some frames

// Queues the pictures of the faces, and the network for those that are wanted: how many they are.
static int queue_all(struct part *p, struct faces_face face[], int n, int *seen)
{
    struct tachy_preprocess_picture crop[FACES_TOGETHER], look[FACES_TOGETHER];
    struct tachy_tensor crops = p->crops, in = p->there.in;
    int picture[FACES_TOGETHER];
    *seen = 0;
    for (int i = 0; i < n; i++) {
        crop[i] = (struct tachy_preprocess_picture){face[i].in, face[i].crop};
        p->slot[i] = face[i].wanted ? *seen : -1;
        if (!face[i].wanted)
            continue;
        picture[*seen] = *seen;
        look[(*seen)++] = (struct tachy_preprocess_picture){face[i].in, face[i].look};
    }
    crops.shape[0] = n;
    in.shape[0] = *seen;
    int err = tachy_preprocess_gpu_run(p->crop, crop, n, &crops, NULL);
    if (err == TACHY_OK && *seen)
        err = tachy_preprocess_gpu_run(p->there.preprocess[0], look, *seen, &in, NULL);
    if (err == TACHY_OK && *seen && p->there.out.data)
        infer_there_run(&p->there, p->g, true, picture, *seen, p->err);
    return err;
}

static int fetch_all(struct part *p, int n, int seen)
{
    struct tachy_tensor in = p->there.in;
    const struct tachy_gpu_plane crops = {.from = p->crops.data, .to = p->crops_here.data, .width = (size_t)n * FACES_CROP_BYTES,
                                          .height = 1, .from_gpu = true};
    in.shape[0] = seen;
    int err = tachy_gpu_copy(&p->g->gpu->device, &crops, 1, p->there.stream, !seen, p->g->task->log);
    if (err < 0 || !seen)
        return err;
    return p->there.out.data ? infer_cuda_fetch_kept(p->g, &p->there, p->said.data, seen)
                             : infer_cuda_fetch(p->g, &in, &p->said.data, 1);
}

static int crop(struct faces_runner *r, struct faces_face face[], int n)
{
    struct part *p = (void *)r;
    int seen = 0;
    memset(p->err, 0, sizeof(p->err));
    device_kernels(p->g);
    int err = queue_all(p, face, n, &seen);
    device_kernels_end(p->g, (double)n * FACES_CROP_BYTES + (double)seen * (double)tachy_tensor_bytes(&p->there.in));
    if (err == TACHY_OK)
        err = fetch_all(p, n, seen);
    for (int i = 0; i < n; i++)
        face[i].rgb = (const uint8_t *)p->crops_here.data + (size_t)i * FACES_CROP_BYTES;
    return err;
}

// The network's outputs for a face, on the host.
static int outputs_of(struct part *p, int slot, struct tachy_tensor out[TACHY_MAX_IO])
{
    struct infer_tensors *t = &p->net.run.tensors;
    uint8_t *said = (uint8_t *)p->said.data + (size_t)slot * p->each;
    memcpy(out, t->out, sizeof(t->out));
    if (p->there.out.data) {
        infer_cuda_kept_in(p->net.run.net, said, out);
        return p->err[slot];
    }
    t->in[p->net.run.net->picture].data = said;
    return tachy_engine_run(p->net.run.engine, t->in, t->out);
}

static int embed(struct faces_runner *r, struct faces_face face[], int n)
{
    struct part *p = (void *)r;
    struct tachy_tensor out[TACHY_MAX_IO];
    int err = TACHY_OK;
    for (int i = 0; i < n && err == TACHY_OK; i++) {
        struct tachy_region about = {0};
        if (!face[i].wanted)
            continue;
        err = outputs_of(p, p->slot[i], out);
        if (err == TACHY_OK)
            err = tachy_net_decode(&p->net, out, face[i].in, &face[i].look, &about, &face[i].item->list);
        face[i].region->embedding = about.embedding;
        face[i].region->nb_embedding = about.nb_embedding;
    }
    return err;
}

// The host waits for the network's results on the frames, so nothing reads them any more on return; after a failure it waits here.
static void look(struct device_group *group)
{
    struct part *p = group->part;
    const tachy_frame *in[FRAMES];
    bool failed = false;
    int err = TACHY_OK;
    for (int i = 0; i < group->n; i++) {
        in[i] = NULL;
        group->err[i] = device_frame_of(group, group->items[i], &in[i]);
    }
    if (p->there.stream != p->g->stream)
        err = device_follow(p->g, p->there.stream, p->g->stream);
    for (int i = 0; i < group->n; i++) {
        group->err[i] = group->err[i] < 0 ? group->err[i] : err;
        in[i] = group->err[i] < 0 ? NULL : in[i];
    }
    faces_look(group->st, &p->run, group->items, in, group->n, group->err);
    for (int i = 0; i < group->n; i++)
        failed = failed || group->err[i] < 0;
    if (failed)
        p->g->cu->stream_wait(p->there.stream);
    device_let_go(group);
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    device_run_where_it_is(worker, st, pieces, n, err, look);
}

// ---- A worker's part of a device

static void part_close(void *part)
{
    struct part *p = part;
    struct tachy_memory *m = p->g->task->memory;
    tachy_preprocess_gpu_close(&p->crop);
    infer_there_close(&p->there, p->g);
    tachy_memory_give(m, &p->crops_there);
    tachy_memory_give(m, &p->crops_here);
    tachy_memory_give(m, &p->said);
    tachy_net_worker_close(&p->net);
    free(p);
}

static int crops_open(struct part *p)
{
    const struct tachy_preprocess_params pp = {.width = FACES_CROP, .height = FACES_CROP, .dtype = TACHY_U8, .layout = TACHY_NHWC,
                                               .channels = TACHY_RGB, .fit = TACHY_FIT_STRETCH, .log = p->g->task->log};
    struct device_worker *g = p->g;
    int err = tachy_memory_take(g->task->memory, &p->crops_there, g->device->mem, TACHY_MEMORY_TENSORS,
                                (size_t)FACES_TOGETHER * FACES_CROP_BYTES);
    if (err == TACHY_OK)
        err = infer_cuda_pin(g, &p->crops_here, (size_t)FACES_TOGETHER * FACES_CROP_BYTES);
    p->crops = (struct tachy_tensor){.data = p->crops_there.data, .dtype = TACHY_U8, .rank = 4, .mem = TACHY_DEVICE,
                                     .device = g->gpu->device.ordinal, .shape = {FACES_TOGETHER, FACES_CROP, FACES_CROP, 3}};
    return err < 0 ? err : tachy_preprocess_gpu_open(&p->crop, &pp, &g->gpu->device, p->there.stream);
}

static int net_open(struct part *p, struct tachy_stage *st)
{
    struct on_devices *d = tachy_stage_priv(st);
    int err = tachy_net_worker_open(&p->net, &d->net.infer);
    if (err < 0)
        return err;
    const struct tachy_preprocess_params pp = tachy_net_params_of(&d->net.infer);
    err = infer_there_open(&p->there, p->g, &(struct infer_there_params){.c = &d->net, .host = &p->net.run, .preprocess = &pp,
                           .regions = 1, .pictures = FACES_TOGETHER, .size = TACHY_INFER_FULL, .one_stream = true});
    p->each = p->there.out.data ? p->net.run.net->out_bytes : tachy_tensor_bytes(&p->there.in);
    return err < 0 ? err : infer_cuda_pin(p->g, &p->said, FACES_TOGETHER * p->each);
}

static int part_open(struct tachy_stage *st, int batch, void **part)
{
    struct device_worker *g = *part;
    struct part *p = *part = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    p->g = g;
    p->run = (struct faces_runner){.crop = crop, .embed = embed, .together = FACES_TOGETHER};
    int err = net_open(p, st);
    if (err == TACHY_OK)
        err = crops_open(p);
    if (err < 0) {
        part_close(p);
        *part = NULL;
    }
    return err;
}

static bool load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    const struct on_devices *d = tachy_stage_priv(st);
    l->to_host = FACES_CROP_BYTES + (double)d->net.infer.net[TACHY_INFER_FULL].out_bytes; // of one face
    device_load(st, worker, item, l);
    l->computes = false;
    return true;
}

const struct tachy_stage_ops tachy_stage_faces_cuda = {
    .name = "faces",
    .options = faces_options,
    .flags = TACHY_STAGE_READS | TACHY_STAGE_MODEL,
    .priv_size = sizeof(struct on_devices),
    .item_size = sizeof(struct faces_item),
    .open = open,
    .close = close,
    .start = start,
    .worker_open = part_open,
    .worker_close = part_close,
    .run = run,
    .item_close = faces_item_close,
    .load = load,
};
