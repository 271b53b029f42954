#include "stage/neural.h"

#include "preprocess/preprocess_cuda.h"
#include "stage/device.h"
#include "stage/stages.h"

#include <pthread.h>
#include <stdlib.h>

// Networks that move a portrait, on devices: what they see of the driver is cut out there, and what they say of it comes to the
// host, since the next keypoints follow from those before. The picture that they make stays there; `animate` pastes it. Features of
// a portrait are copied to a device once. Keypoints are stitched on the host: so few numbers take longer to copy than to compute.

struct on_devices {
    struct neural of; // first
    pthread_mutex_t lock; // of `features`
    bool has_lock;
    struct tachy_memory *counted; // that `features` were taken from, a reference
    struct tachy_block features[TACHY_MAX_GPUS][ANIMATE_PORTRAITS];
};

// ---- Tensors there

int neural_tensors_there(const struct neural_place *place, struct family_net *n, int pictures, struct tachy_block *b)
{
    struct tachy_tensor *all[2 * TACHY_MAX_IO];
    size_t at[2 * TACHY_MAX_IO], bytes = 0;
    int nb = 0;
    for (int i = 0; i < n->nb_in; i++)
        if (i != n->lent)
            all[nb++] = &n->in[i];
    for (int i = 0; i < n->nb_out; i++)
        all[nb++] = &n->out[i];
    for (int i = 0; i < nb; i++) {
        at[i] = bytes;
        bytes += TACHY_ALIGN((size_t)pictures * tachy_tensor_bytes(all[i]), (size_t)DEVICE_ALIGN);
    }
    int err = tachy_memory_take(place->memory, b, place->mem, TACHY_MEMORY_TENSORS, bytes);
    if (err == TACHY_ERR_NOMEM)
        return tachy_fail(place->log, err, "GPU %d has no %zu bytes left for the tensors of %s: close what else uses it, or use "
                          "fewer workers or smaller batches", place->ordinal, bytes, n->file);
    for (int i = 0; i < nb && err == TACHY_OK; i++) {
        all[i]->data = (uint8_t *)b->data + at[i];
        all[i]->mem = TACHY_DEVICE;
        all[i]->device = place->ordinal;
    }
    return err;
}

static int tensors_there(struct device_worker *g, struct family_net *n, struct tachy_block *b)
{
    return neural_tensors_there(&(struct neural_place){g->task->memory, g->device->mem, g->gpu->device.ordinal, g->task->log}, n, 1, b);
}

// The driver has taken so few bytes from the host's memory when the copy returns.
static int send(struct device_worker *g, const struct tachy_tensor *to, const void *from, size_t bytes)
{
    return device_failed(g, g->cu->copy_to_device_async(tachy_cu_address(to->data), from, bytes, g->stream), "a copy");
}

static struct tachy_engine_setup setup_on(const struct neural *n, const struct device_worker *g, cuda_stream stream)
{
    struct tachy_engine_setup s = n->setup;
    s.gpu = g->gpu->device.ordinal;
    s.gpu_stream = stream;
    return s;
}

// ---- What the driver's face does

// A worker's part of the stage `keypoints`. Its stream is its own, so that it does not wait for pictures that networks make.
struct seer_part {
    struct device_worker *g; // first
    cuda_stream stream;
    struct neural_seer seer;
    struct tachy_preprocess_gpu *preprocess;
    struct tachy_block there, here; // tensors; what the network says, on the host
};

static int open_devices(struct tachy_stage *st, const tachy_settings *s)
{
    struct on_devices *d = tachy_stage_priv(st);
    st->worker_of = st->task->devices->st->worker_of;
    d->has_lock = !pthread_mutex_init(&d->lock, NULL);
    int err = d->has_lock ? neural_read_setup(&d->of, s) : TACHY_ERR_NOMEM;
    d->of.setup.gpu = st->task->devices->list[0].gpu->device.ordinal;
    return err < 0 ? err : neural_open(&d->of, st, s);
}

static void drop_features(struct tachy_stage *st)
{
    struct on_devices *d = tachy_stage_priv(st);
    for (int i = 0; i < TACHY_MAX_GPUS && d->counted; i++)
        for (int k = 0; k < ANIMATE_PORTRAITS; k++)
            tachy_memory_give(d->counted, &d->features[i][k]);
    tachy_memory_close(&d->counted);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct on_devices *d = tachy_stage_priv(st);
    if (d->counted == st->task->memory)
        return TACHY_OK;
    drop_features(st);
    d->counted = tachy_memory_ref(st->task->memory);
    return TACHY_OK;
}

static void close_devices(struct tachy_stage *st)
{
    struct on_devices *d = tachy_stage_priv(st);
    drop_features(st);
    neural_close(&d->of);
    if (d->has_lock)
        pthread_mutex_destroy(&d->lock);
}

static void seer_part_close(void *part)
{
    struct seer_part *p = part;
    struct tachy_memory *m = p->g->task->memory;
    if (p->stream)
        p->g->cu->stream_wait(p->stream);
    tachy_preprocess_gpu_close(&p->preprocess);
    family_net_close(&p->seer.net);
    tachy_memory_give(m, &p->there);
    tachy_memory_give(m, &p->here);
    if (p->stream)
        p->g->cu->stream_destroy(p->stream);
    free(p);
}

static size_t said_bytes(const struct seer_part *p)
{
    const struct family_net *n = &p->seer.net;
    const uint8_t *first = n->out[0].data, *last = n->out[n->nb_out - 1].data;
    return (size_t)(last - first) + tachy_tensor_bytes(&n->out[n->nb_out - 1]);
}

static int open_seer(struct seer_part *p, const struct neural *n)
{
    struct device_worker *g = p->g;
    int err = device_failed(g, g->cu->stream_create(&p->stream, CUDA_STREAM_OWN_ORDER), "a stream");
    const struct tachy_engine_setup setup = setup_on(n, g, p->stream);
    if (err == TACHY_OK)
        err = neural_seer_open(&p->seer, n, TACHY_ROLE_MOTION, &setup, g->task->log);
    if (err == TACHY_OK)
        err = tensors_there(g, &p->seer.net, &p->there);
    if (err == TACHY_OK)
        err = tachy_memory_take(g->task->memory, &p->here, TACHY_PINNED, TACHY_MEMORY_TENSORS, said_bytes(p));
    const struct tachy_preprocess_params pp = neural_preprocess(&p->seer, g->task->log);
    return err < 0 ? err : tachy_preprocess_gpu_open(&p->preprocess, &pp, &g->gpu->device, p->stream);
}

static int seer_part_open(struct tachy_stage *st, int batch, void **part)
{
    struct device_worker *g = *part;
    struct seer_part *p = *part = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    p->g = g;
    p->seer.net.lent = -1;
    int err = open_seer(p, tachy_stage_priv(st));
    if (err < 0) {
        seer_part_close(p);
        *part = NULL;
    }
    return err;
}

// Queues the network for the face; then what it says comes to the host, which waits for it.
static int see(struct seer_part *p, const tachy_frame *f, const struct tachy_view *view)
{
    struct family_net *n = &p->seer.net;
    struct device_worker *g = p->g;
    int err = tachy_preprocess_gpu_run(p->preprocess, &(struct tachy_preprocess_picture){f, *view}, 1, &n->in[0], NULL);
    if (err == TACHY_OK)
        err = tachy_engine_run(n->engine, n->in, n->out);
    if (err == TACHY_OK)
        err = device_failed(g, g->cu->copy_to_host_async(p->here.data, tachy_cu_address(n->out[0].data), said_bytes(p), p->stream), "a copy");
    return err < 0 ? err : device_wait(g, p->stream);
}

static void read_keys(const struct seer_part *p, struct tachy_keypoints *k)
{
    const struct family_net *n = &p->seer.net;
    const float *said[NEURAL_SAID];
    for (int i = 0; i < NEURAL_SAID; i++) {
        const uint8_t *there = n->out[p->seer.out[i]].data, *first = n->out[0].data;
        said[i] = (const float *)(const void *)((const uint8_t *)p->here.data + (there - first));
    }
    neural_read(k, said);
}

// A portrait's features on the worker's device; they are there when this returns.
static int features_there(struct device_worker *g, struct on_devices *d, int number, void **out)
{
    const size_t bytes = (size_t)d->of.features * sizeof(float);
    struct tachy_block *b = &d->features[device_index(g->task->devices, g->device)][number];
    int err = TACHY_OK;
    pthread_mutex_lock(&d->lock);
    if (!b->data)
        err = tachy_memory_take(d->counted, b, g->device->mem, TACHY_MEMORY_TENSORS, bytes);
    else
        number = -1; // it is there
    if (err == TACHY_OK && number >= 0)
        err = device_failed(g, g->cu->copy_to_device(tachy_cu_address(b->data), d->of.look[number].features, bytes), "a copy");
    if (err < 0)
        tachy_memory_give(d->counted, b);
    *out = b->data;
    pthread_mutex_unlock(&d->lock);
    return err;
}

// The host waits, so nothing reads the frame any more when this returns; after a failure it is waited for here.
static int look(struct device_group *group, struct tachy_item *item)
{
    struct seer_part *p = group->part;
    struct on_devices *d = tachy_stage_priv(group->st);
    struct neural_item *to = tachy_stage_item(group->st, item);
    tachy_face_points point;
    struct tachy_view view;
    const tachy_frame *f = item->in;
    const bool wants = neural_wants(group->st, item, point);
    int err = to->on ? features_there(p->g, d, (int)(to->look - d->of.look), &to->features) : TACHY_OK;
    if (err < 0 || !wants)
        return err;
    err = neural_view(&view, point, &d->of.family.driver, p->seer.side);
    if (err == TACHY_ERR_INVAL) { // a face without extent
        to->seen = false;
        return TACHY_OK;
    }
    if (err == TACHY_OK && item->in->mem != TACHY_DEVICE)
        err = device_frame_of(group, item, &f);
    if (err == TACHY_OK)
        err = device_follow(p->g, p->stream, item->in->mem == TACHY_DEVICE ? item->in->stream : p->g->stream);
    if (err == TACHY_OK)
        err = see(p, f, &view);
    if (err == TACHY_OK)
        read_keys(p, &to->keys);
    else
        p->g->cu->stream_wait(p->stream);
    return err;
}

static void look_all(struct device_group *group)
{
    for (int i = 0; i < group->n; i++)
        group->err[i] = look(group, group->items[i]);
    device_let_go(group);
}

static void keypoints_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    device_run_where_it_is(worker, st, pieces, n, err, look_all);
}

// The numbers of a face, which come to the host.
static bool keypoints_load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    device_load(st, worker, item, l);
    l->computes = false;
    return true;
}

static void item_close(void *item) { tachy_frame_unref(&((struct neural_item *)item)->made); }

const struct tachy_stage_ops tachy_stage_keypoints_cuda = {
    .name = "keypoints",
    .flags = TACHY_STAGE_READS | TACHY_STAGE_MODEL,
    .priv_size = sizeof(struct on_devices),
    .item_size = sizeof(struct neural_item),
    .open = open_devices,
    .close = close_devices,
    .start = start,
    .worker_open = seer_part_open,
    .worker_close = seer_part_close,
    .run = keypoints_run,
    .item_close = item_close,
    .load = keypoints_load,
};

// ---- The picture

// A worker's part of the stage `generate`. A frame's picture is in the generator's output until the worker's next one: track.c waits
// for each frame, so a worker takes one at a time as far as `animate`.
struct maker_part {
    struct device_worker *g; // first
    struct neural_maker maker;
    struct tachy_block warp, make; // tensors
};

static void maker_part_close(void *part)
{
    struct maker_part *p = part;
    if (neural_batch_in(part)) {
        neural_batch_close(part);
        return;
    }
    neural_maker_close(&p->maker);
    tachy_memory_give(p->g->task->memory, &p->warp);
    tachy_memory_give(p->g->task->memory, &p->make);
    free(p);
}

static int open_maker(struct maker_part *p, const struct neural *n)
{
    struct device_worker *g = p->g;
    const struct tachy_engine_setup setup = setup_on(n, g, g->stream);
    struct tachy_engine_setup host = n->setup;
    host.device = host.precision = NULL;
    int err = neural_maker_open(&p->maker, n, &setup, &host, g->task->log);
    if (err == TACHY_OK && p->maker.warp.engine) {
        p->maker.make.lent = 0; // what warps writes it
        err = tensors_there(g, &p->maker.warp, &p->warp);
    }
    return err < 0 ? err : tensors_there(g, &p->maker.make, &p->make);
}

static int maker_part_open(struct tachy_stage *st, int batch, void **part)
{
    if (batch > 1)
        return neural_batch_open(st, batch, (struct neural_batch **)part);
    struct device_worker *g = *part;
    struct maker_part *p = *part = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    p->g = g;
    p->maker.stitch.lent = p->maker.warp.lent = p->maker.make.lent = -1;
    int err = st->batched ? TACHY_OK : open_maker(p, neural_of(st));
    if (err < 0) {
        maker_part_close(p);
        *part = NULL;
    }
    return err;
}

static int make(struct device_group *group, struct tachy_item *item)
{
    struct maker_part *p = group->part;
    const struct neural_item *keys = tachy_stage_item(tachy_stage_before(group->st, "keypoints"), item);
    const struct neural_look *look = keys->look;
    float at[TACHY_KEYPOINTS][3];
    if (!keys->on)
        return TACHY_OK;
    int err = p->maker.make.engine ? TACHY_OK : open_maker(p, neural_of(group->st)); // batches have left it to them
    if (err < 0)
        return err;
    struct family_net *warp = neural_warps(&p->maker), *make = &p->maker.make;
    memcpy(at, keys->placed, sizeof(at));
    warp->in[p->maker.feature].data = keys->features;
    warp->in[p->maker.feature].mem = TACHY_DEVICE;
    err = neural_stitch(&p->maker, look, at);
    if (err == TACHY_OK)
        err = send(p->g, &warp->in[p->maker.source], look->placed, sizeof(look->placed));
    if (err == TACHY_OK)
        err = send(p->g, &warp->in[p->maker.driving], at, sizeof(at));
    if (err == TACHY_OK)
        err = tachy_engine_run(warp->engine, warp->in, warp->out);
    if (err < 0 || warp == make)
        return err;
    make->in[0] = warp->out[0];
    return tachy_engine_run(make->engine, make->in, make->out);
}

static void make_all(struct device_group *group)
{
    device_kernels(group->g);
    for (int i = 0; i < group->n; i++)
        group->err[i] = make(group, group->items[i]);
    device_kernels_end(group->g, 0);
}

static void generate_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    if (neural_batch_in(worker))
        neural_batch_run(worker, st, pieces, n, err);
    else
        device_run_where_it_is(worker, st, pieces, n, err, make_all);
}

const void *neural_made(const struct device_group *p, const struct tachy_item *item, int *side)
{
    const struct tachy_stage *st = tachy_stage_before(p->st, "generate");
    const struct neural_item *keys = st ? tachy_stage_item(tachy_stage_before(st, "keypoints"), item) : NULL;
    const struct maker_part *part = st ? p->g->part[st->index] : NULL;
    if (!keys || !keys->on)
        return NULL;
    *side = keys->made ? keys->side : part->maker.side;
    return keys->made ? keys->made->data[0] : part->maker.make.out[0].data;
}

int neural_read_made(const struct device_group *p, const struct tachy_item *item)
{
    struct neural_item *keys = tachy_stage_item(tachy_stage_before(p->st, "keypoints"), item);
    int err = keys->made ? device_flight_keep(p->g->flight, keys->made) : TACHY_OK;
    tachy_frame_unref(&keys->made);
    return err;
}

static int generate_queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n)
{
    return device_queue(worker, st, items, n, 1, make_all);
}

struct generate {
    char *key; // of its batches
};

// Frames of several devices do not meet in a batch.
static int generate_open(struct tachy_stage *st, const tachy_settings *s)
{
    struct generate *own = tachy_stage_priv(st);
    const struct task_devices *d = st->task->devices;
    const char *precision = neural_of(st)->setup.precision;
    st->worker_of = d->st->worker_of;
    if (d->nb > 1)
        return TACHY_OK;
    st->batch_key = own->key = tachy_asprintf("%s, %s on GPU %d", tachy_settings_str(s, "animation.neural_card"),
                                              TACHY_DEF(precision, "mixed"), d->list[0].gpu->device.ordinal);
    return own->key ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void generate_close(struct tachy_stage *st) { free(((struct generate *)tachy_stage_priv(st))->key); }

const struct tachy_stage_ops tachy_stage_generate_cuda = {
    .name = "generate",
    .flags = TACHY_STAGE_WRITES | TACHY_STAGE_MODEL | TACHY_STAGE_BATCHES | TACHY_STAGE_PROMPT,
    .priv_size = sizeof(struct generate),
    .open = generate_open,
    .close = generate_close,
    .worker_open = maker_part_open,
    .worker_close = maker_part_close,
    .run = generate_run,
    .load = device_load,
    .queue = generate_queue,
};
