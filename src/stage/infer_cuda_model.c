#include "stage/infer_cuda.h"

#include "engine/engine_ops.h"

#include <stdlib.h>

// A model that runs on devices. On each its engines work on one stream for all workers; a worker's stream and that
// one wait for each other by events, the thread for neither. One run at a time is queued on a device: a provider that
// is asked by several threads at once makes them wait in turn all the same, and takes longer for it.

bool infer_runs_plans(const tachy_engine *e)
{
    return e && tachy_engine_on_device(e) && !strcmp(tachy_engine_provider(e), "tachy");
}

// ---- The network's ----

// 0: the driver does not say.
static size_t free_on(struct tachy_gpu *g)
{
    size_t idle = 0, all = 0;
    if (tachy_device_enter(&g->device, NULL) < 0)
        return 0;
    bool known = g->device.cu->memory_info(&idle, &all) == CUDA_OK;
    tachy_device_leave(&g->device);
    return known ? idle : 0;
}

// One on each device, for providers that work on one.
static int open_streams(struct infer_cuda *c)
{
    const struct task_devices *d = c->devices;
    const struct tachy_log *log = d->st->task->log;
    // The next frame waits for what a network in an ordered stage says; for the others there are other frames.
    const bool awaited = c->infer.st->ops->flags & TACHY_STAGE_ORDERED;
    int err = TACHY_OK;
    for (int i = 0; i < d->nb_ids; i++, c->nb_locks++)
        pthread_mutex_init(&c->device[i].running, NULL);
    for (int i = 0; i < d->nb_ids && err == TACHY_OK; i++) {
        c->infer.device_id[i] = d->ids[i];
        if (!tachy_engine_takes_stream(c->infer.setup.provider))
            continue;
        err = awaited ? tachy_gpu_open_first(&c->device[i].gpu, d->ids[i], log)
                      : tachy_gpu_open(&c->device[i].gpu, d->ids[i], NULL, log);
        if (err < 0)
            break;
        c->device[i].free_before = free_on(c->device[i].gpu);
        c->infer.device_stream[i] = c->device[i].gpu->stream;
    }
    return err;
}

// An engine for each of the other devices.
static int spread(struct infer_cuda *c)
{
    const struct tachy_infer_net *net = &c->infer.net[TACHY_INFER_FULL];
    for (int i = 0; i < c->devices->nb && c->device[i].gpu && tachy_engine_on_device(net->first); i++) {
        struct infer_device *d = &c->device[i];
        int err = i ? infer_open_engine(&c->infer, net, 1, i, &d->first) : TACHY_OK;
        if (err < 0)
            return tachy_fail(c->infer.st->task->log, err, "--gpus: the model cannot be opened on GPU %d; leave that out",
                              c->devices->ids[i]);
        size_t idle = free_on(d->gpu);
        d->model_bytes = idle < d->free_before ? d->free_before - idle : 0;
    }
    return TACHY_OK;
}

int infer_cuda_open_first(struct infer_cuda *c)
{
    int err = open_streams(c);
    if (err == TACHY_OK)
        err = infer_open_first(&c->infer);
    if (err < 0)
        return err;
    c->devices->only_queues = tachy_engine_on_device(c->infer.net[TACHY_INFER_FULL].first);
    c->devices->states = c->infer.nb_states;
    if (!c->devices->only_queues) // nor do the workers' engines try it
        memset(c->infer.device_stream, 0, sizeof(c->infer.device_stream));
    err = c->devices->nb ? TACHY_OK : device_open(c->devices);
    return err < 0 ? err : spread(c);
}

int infer_cuda_count_models(struct infer_cuda *c)
{
    const tachy_task *t = c->infer.st->task;
    int err = TACHY_OK;
    for (int i = 0; i < c->devices->nb && err == TACHY_OK; i++) {
        struct infer_device *d = &c->device[i];
        if (!d->model_bytes || !(c->devices->fraction > 0))
            continue;
        d->memory = tachy_memory_ref(t->memory);
        err = tachy_memory_reserve(t->memory, &d->model, c->devices->list[i].mem, TACHY_MEMORY_TENSORS, d->model_bytes);
        if (err < 0)
            return tachy_fail(t->log, err, "GPU %d: the model takes %zu MiB there, more than gpu.memory_fraction allows",
                              c->devices->list[i].gpu->device.ordinal, d->model_bytes >> 20);
    }
    return err;
}

void infer_cuda_leave_memory(struct infer_cuda *c)
{
    for (int i = 0; i < c->nb_locks; i++) {
        struct infer_device *d = &c->device[i];
        if (d->memory)
            tachy_memory_give(d->memory, &d->model);
        tachy_memory_close(&d->memory);
    }
}

static void close_many(struct infer_many many[2])
{
    for (int k = 0; k < 2; k++)
        tachy_engine_close(&many[k].engine);
}

void infer_cuda_close(struct infer_cuda *c)
{
    infer_free(&c->infer);
    infer_cuda_leave_memory(c);
    for (int i = 0; i < c->nb_locks; i++) {
        tachy_engine_close(&c->device[i].first);
        close_many(c->device[i].many);
        pthread_mutex_destroy(&c->device[i].running);
        tachy_gpu_unref(&c->device[i].gpu);
    }
    c->nb_locks = 0;
}

// ---- A worker's part of a device ----

static struct infer_device *device_of(const struct infer_there *t, const struct device_worker *g)
{
    return &t->c->device[device_index(t->c->devices, g->device)];
}

// The engine of the worker's network on the device.
static int open_engine(struct infer_there *t, struct device_worker *g)
{
    struct infer_device *d = device_of(t, g);
    t->engine = t->host->engine;
    if (d == t->c->device || !tachy_engine_on_device(t->engine) || !tachy_engine_stream(t->engine))
        return TACHY_OK;
    int err = infer_open_engine(&t->c->infer, t->host->net, 1, (int)(d - t->c->device), &t->own_engine);
    t->engine = t->own_engine;
    return err;
}

// Pictures of a run that may be tried.
static int most_pictures(const struct infer_there *t)
{
    const int most = t->c->most;
    return most ? TACHY_MIN(most, t->pictures) : t->pictures;
}

// Takes the engines for several pictures that workers of an input before have left, if they are for as many.
static void take_many(struct infer_there *t, struct device_worker *g)
{
    struct infer_device *d = device_of(t, g);
    pthread_mutex_lock(&d->running);
    if (d->many[0].pictures == most_pictures(t)) {
        memcpy(t->many, d->many, sizeof(t->many));
        memset(d->many, 0, sizeof(d->many));
    }
    pthread_mutex_unlock(&d->running);
}

static void leave_many(struct infer_there *t, struct device_worker *g)
{
    if (!t->many[0].engine)
        return;
    struct infer_device *d = device_of(t, g);
    struct infer_many before[2];
    pthread_mutex_lock(&d->running);
    memcpy(before, d->many, sizeof(before));
    memcpy(d->many, t->many, sizeof(d->many));
    pthread_mutex_unlock(&d->running);
    memset(t->many, 0, sizeof(t->many));
    close_many(before);
}

// Opens an engine for `n` pictures per run.
static int open_batch(struct infer_there *t, struct device_worker *g, struct infer_many *m, int n)
{
    const struct tachy_infer_net *net = t->host->net;
    const struct tachy_io *in, *out;
    if (m->engine) // taken
        return TACHY_OK;
    int err = infer_open_engine(&t->c->infer, net, n, device_index(t->c->devices, g->device), &m->engine);
    bool all = err == TACHY_OK && tachy_engine_inputs(m->engine, &in) && in->spec.shape[0] == n && tachy_engine_on_device(m->engine);
    for (int i = 0; all && i < tachy_engine_outputs(m->engine, &out); i++)
        all = out[i].spec.shape[0] == n;
    m->pictures = n;
    if (!all)
        tachy_engine_close(&m->engine);
    return all ? TACHY_OK : TACHY_DEF(err, TACHY_ERR_UNSUPPORTED);
}

static void say_many(const struct infer_there *t, const struct device_worker *g, int err)
{
    int batch = t->many[0].pictures;
    if (err < 0)
        tachy_msg(g->task->log, TACHY_LOG_VERBOSE, "the GPU runs the model for one picture at a time: %s",
                  err == TACHY_ERR_NOMEM ? "there is no memory there for more" : "its batch is fixed");
    else if (batch < t->pictures)
        tachy_msg(g->task->log, TACHY_LOG_VERBOSE, "the GPU runs the model for %d pictures at a time: there is no memory there for %d",
                  batch, 2 * batch);
}

// Opens engines for several pictures at once, if the provider has them for networks with one input whose batch is free,
// and items can hold all its outputs. One is for all pictures or, if memory is short, for half as many each time; where that
// is many, another is for groups that are not full. A lack shows with the first worker, and no other worker tries it again.
static void open_many(struct infer_there *t, struct device_worker *g)
{
    const struct tachy_infer_net *net = t->host->net;
    struct infer_cuda *c = t->c;
    int err = TACHY_ERR_NOMEM, n = most_pictures(t);
    bool free_batch = net->nb_in == 1 && t->in.shape[0] == 1;
    for (int i = 0; i < net->nb_out; i++)
        free_batch = free_batch && t->kept[i] && t->all_out[i].shape[0] == 1;
    if (n < 2 || !free_batch || !infer_runs_plans(t->engine))
        return;
    for (; n > 1 && err == TACHY_ERR_NOMEM; n /= err == TACHY_ERR_NOMEM ? 2 : 1)
        err = open_batch(t, g, &t->many[0], n);
    if (err == TACHY_OK && n > DEVICE_GROUP)
        open_batch(t, g, &t->many[1], DEVICE_GROUP); // without it they go one by one
    c->most = err == TACHY_OK ? n : 1;
    for (int i = 0; i < net->nb_out && err == TACHY_OK; i++)
        t->apart[i] = tachy_tensor_bytes(&t->all_out[i]);
    say_many(t, g, err);
}

// `n` of them one after the other.
static int tensors_there(struct device_worker *g, struct tachy_tensor *t, struct tachy_block *b, int n)
{
    size_t bytes = tachy_tensor_bytes(t) * (size_t)n;
    t->mem = TACHY_DEVICE;
    t->device = g->gpu->device.ordinal;
    int err = tachy_memory_take(g->task->memory, b, g->device->mem, TACHY_MEMORY_TENSORS, bytes);
    t->data = b->data;
    if (err == TACHY_ERR_NOMEM)
        return tachy_fail(g->task->log, err, "GPU %d has no %zu bytes left for the model's tensors: close what else "
                          "uses it, or use fewer workers", t->device, bytes);
    if (err < 0)
        return err;
    return device_failed(g, g->cu->fill_async(tachy_cu_address(t->data), 0, bytes, g->stream), "clearing a tensor");
}

static size_t rounded(const struct tachy_tensor *t) { return TACHY_ALIGN(tachy_tensor_bytes(t), (size_t)DEVICE_ALIGN); }

// Gives a tensor its place in a block of the device's.
static void put(struct tachy_tensor *t, const struct tachy_tensor *block, size_t *at)
{
    t->data = (uint8_t *)block->data + *at;
    t->mem = TACHY_DEVICE;
    t->device = block->device;
    *at += rounded(t);
}

// All of an engine that runs on the device, in one block except the picture and the card's output, which are there: what
// is read, and what is written and not kept, once; then the other outputs of each picture.
static int rest_there(struct device_worker *g, const struct infer_engine *e, struct infer_there *size, int pictures)
{
    struct tachy_tensor *once[2 * TACHY_MAX_IO], *each[TACHY_MAX_IO], whole = {.dtype = TACHY_U8, .rank = 1};
    const struct infer_tensors *t = &e->tensors;
    int nb_once = 0, nb_each = 0;
    memcpy(size->all_in, t->in, sizeof(t->in));
    memcpy(size->all_out, t->out, sizeof(t->out));
    for (int i = 0; i < t->nb_in; i++)
        if (i != e->net->picture)
            once[nb_once++] = &size->all_in[i];
    for (int i = 0; i < t->nb_out; i++)
        if (i != e->net->output)
            *(e->net->kept >> i & 1 ? &each[nb_each++] : &once[nb_once++]) = &size->all_out[i];
    for (int i = 0; i < nb_once; i++)
        whole.shape[0] += (int64_t)rounded(once[i]);
    for (int i = 0; i < nb_each; i++)
        whole.shape[0] += (int64_t)rounded(each[i]) * pictures;
    int err = whole.shape[0] ? tensors_there(g, &whole, &size->rest, 1) : TACHY_OK;
    size_t at = 0;
    for (int i = 0; i < nb_once && err == TACHY_OK; i++)
        put(once[i], &whole, &at);
    for (int i = 0; i < nb_each && err == TACHY_OK; i++) {
        put(each[i], &whole, &at);
        at += rounded(each[i]) * (size_t)(pictures - 1);
    }
    size->all_in[e->net->picture] = size->in;
    size->all_out[e->net->output] = size->out;
    for (int i = 0; i < t->nb_out; i++) {
        size->kept[i] = e->net->kept >> i & 1 ? size->all_out[i].data : NULL;
        size->apart[i] = i == e->net->output ? tachy_tensor_bytes(&size->out) : rounded(&size->all_out[i]);
    }
    return err;
}

int infer_cuda_pin(struct device_worker *g, struct tachy_block *b, size_t bytes)
{
    int err = tachy_memory_take(g->task->memory, b, TACHY_PINNED, TACHY_MEMORY_TENSORS, bytes);
    if (err == TACHY_ERR_NOMEM)
        return tachy_fail(g->task->log, err, "there is no pinned memory left for the model: use fewer workers");
    return err;
}

// An engine there, with all that it writes.
static int engine_there(struct infer_there *t, struct device_worker *g, const struct infer_there_params *p)
{
    int err = tensors_there(g, &t->out, &t->out_block, p->pictures);
    if (err == TACHY_OK)
        err = rest_there(g, p->host, t, p->pictures);
    if (err == TACHY_OK)
        err = open_engine(t, g);
    if (err == TACHY_OK && p->size == TACHY_INFER_FULL) {
        take_many(t, g);
        open_many(t, g);
    }
    if (err < 0 || !p->one_stream || !tachy_engine_stream(t->engine) || g->kernel_times)
        return err;
    t->stream = tachy_engine_stream(t->engine);
    return device_failed(g, g->cu->stream_wait(g->stream), "clearing a tensor");
}

int infer_there_open(struct infer_there *t, struct device_worker *g, const struct infer_there_params *p)
{
    const struct tachy_infer_net *net = p->host->net;
    t->c = p->c;
    t->host = p->host;
    t->stream = g->stream;
    t->pictures = p->pictures;
    t->in = p->host->tensors.in[net->picture];
    t->out = p->host->tensors.out[net->output];
    int err = tensors_there(g, &t->in, &t->in_block, p->pictures);
    if (err == TACHY_OK && tachy_engine_on_device(p->host->engine))
        err = engine_there(t, g, p);
    else
        t->out.data = NULL;
    for (int r = 0; r < p->regions && err == TACHY_OK; r++)
        err = tachy_preprocess_gpu_open(&t->preprocess[r], p->preprocess, &g->gpu->device, t->stream);
    return err;
}

void infer_there_close(struct infer_there *t, struct device_worker *g)
{
    struct tachy_memory *m = g->task->memory;
    for (int r = 0; r < TACHY_MAX_EYES; r++)
        tachy_preprocess_gpu_close(&t->preprocess[r]);
    tachy_engine_close(&t->own_engine);
    leave_many(t, g);
    if (t->pinned.data)
        t->host->tensors.in[t->host->net->picture].data = t->host->tensors.own_in[t->host->net->picture];
    tachy_memory_give(m, &t->in_block);
    tachy_memory_give(m, &t->out_block);
    tachy_memory_give(m, &t->rest);
    tachy_memory_give(m, &t->pinned);
}

// The host's copy of the model's picture, for an engine that runs there, is pinned; the first device's serves all.
static int pin_input(struct device_worker *g, struct infer_there *t)
{
    if (t->out.data || g->device != g->task->devices->list)
        return TACHY_OK;
    int err = infer_cuda_pin(g, &t->pinned, tachy_tensor_bytes(&t->in));
    if (err == TACHY_OK)
        t->host->tensors.in[t->host->net->picture].data = t->pinned.data;
    return err;
}

void infer_part_close(void *part)
{
    struct infer_part *p = part;
    for (int i = 0; i < TACHY_INFER_SIZES; i++)
        infer_there_close(&p->size[i], p->g);
    free(p);
}

int infer_part_open(struct tachy_stage *st, int batch, void **part)
{
    struct device_worker *g = *part;
    struct infer_part *p = *part = calloc(1, sizeof(*p));
    int err = p ? TACHY_OK : TACHY_ERR_NOMEM;
    if (p)
        p->g = g;
    for (int i = 0; i < TACHY_INFER_SIZES && err == TACHY_OK; i++) {
        struct infer_engine *e = &((struct infer_cuda_worker *)(void *)g->set)->host.size[i];
        if (!e->engine)
            continue;
        struct infer_cuda *c = infer_cuda_of(g);
        const struct tachy_preprocess_params pp = infer_params(&c->infer, e->net->card);
        err = infer_there_open(&p->size[i], g, &(struct infer_there_params){
                                                   .c = c, .host = e, .preprocess = &pp, .regions = g->task->eyes,
                                                   .pictures = device_group_size(g->task->devices), .size = i});
        if (err == TACHY_OK)
            err = pin_input(g, &p->size[i]);
    }
    if (err < 0 && p) {
        infer_part_close(p);
        *part = NULL;
    }
    return err;
}

// ---- Runs ----

// The address of the output for one of the pictures.
static uint8_t *kept_at(const struct infer_there *t, int i, int picture) { return t->kept[i] + (size_t)picture * t->apart[i]; }

static int run_at(struct infer_there *t, int picture)
{
    const struct tachy_infer_net *net = t->host->net;
    t->all_in[net->picture] = device_picture(&t->in, picture);
    for (int i = 0; i < net->nb_out; i++)
        if (t->kept[i])
            t->all_out[i].data = kept_at(t, i, picture);
    return tachy_engine_run(t->engine, t->all_in, t->all_out);
}

// The pictures from `first` on in one run.
static int run_batch(struct infer_there *t, const struct infer_many *m, int first)
{
    struct tachy_tensor in = device_picture(&t->in, first), out[TACHY_MAX_IO];
    in.shape[0] = m->pictures;
    for (int i = 0; i < t->host->net->nb_out; i++) {
        out[i] = t->all_out[i];
        out[i].shape[0] = m->pictures;
        out[i].data = kept_at(t, i, first);
    }
    return tachy_engine_run(m->engine, &in, out); // those that nobody asked for are what was there
}

// No memory for such a batch: of half as many from now on, or one by one.
static void run_fewer(struct infer_there *t, struct device_worker *g, int before)
{
    close_many(t->many);
    t->c->most = TACHY_MAX(before / 2, 1);
    open_many(t, g);
    tachy_msg(g->task->log, TACHY_LOG_INFO, "GPU %d has no memory for a batch of %d pictures: the model runs for %d at a time",
              g->gpu->device.ordinal, before, t->many[0].engine ? t->many[0].pictures : 1);
}

// Runs those batches in which at least `least` pictures are wanted, and are not `done`. TACHY_ERR_NOMEM: there is no memory for one.
static int run_batches(struct infer_there *t, const struct infer_many *m, int least, const int picture[], int n, int err[], bool done[])
{
    for (int first = 0; m->engine && first + m->pictures <= t->pictures; first += m->pictures) {
        int asked = 0;
        for (int i = 0; i < n; i++)
            asked += !done[i] && picture[i] / m->pictures == first / m->pictures;
        if (asked < least)
            continue;
        int all = run_batch(t, m, first);
        if (all == TACHY_ERR_NOMEM)
            return all;
        for (int i = 0; i < n; i++)
            if (picture[i] / m->pictures == first / m->pictures) {
                err[i] = all;
                done[i] = true;
            }
    }
    return TACHY_OK;
}

// Batches in which most pictures are wanted; and the smallest one in any case, unless it is `prompt`: engines of other sizes may
// have other kernels, and the bits of a picture shall not depend on which others came with it. Pictures that are not `done`
// then run one by one.
static void run_many(struct infer_there *t, struct device_worker *g, bool prompt, const int picture[], int n, int err[], bool done[])
{
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(t->many); k++) {
        int pictures = t->many[k].pictures;
        bool smallest = k + 1 == TACHY_ARRAY_SIZE(t->many) || !t->many[k + 1].engine;
        if (run_batches(t, &t->many[k], smallest && !prompt ? 1 : (pictures + 1) / 2, picture, n, err, done) < 0) {
            run_fewer(t, g, pictures);
            k = SIZE_MAX; // from the most on, in their own bounds
        }
    }
}

void infer_there_run(struct infer_there *t, struct device_worker *g, bool prompt, const int picture[], int n, int err[])
{
    pthread_mutex_t *running = &device_of(t, g)->running;
    cuda_stream stream = tachy_engine_stream(t->engine);
    const bool follows = stream != t->stream;
    int all = TACHY_OK;
    bool done[DEVICE_MOST] = {false};
    if (stream)
        pthread_mutex_lock(running);
    if (stream && follows)
        all = device_follow(g, stream, t->stream);
    if (all == TACHY_OK)
        run_many(t, g, prompt, picture, n, err, done);
    for (int i = 0; i < n; i++)
        if (!done[i])
            err[i] = all < 0 ? all : run_at(t, picture[i]);
    if (!stream)
        return;
    if (all == TACHY_OK && follows) // also after those of a run that failed
        all = device_follow(g, t->stream, stream);
    for (int i = 0; i < n; i++)
        err[i] = err[i] < 0 ? err[i] : all;
    pthread_mutex_unlock(running);
}

void infer_cuda_queue_models(struct device_group *p)
{
    int picture[DEVICE_MOST];
    for (int i = 0; i < p->n; i++)
        picture[i] = infer_cuda_picture(p, i);
    infer_there_run(infer_part_of(p->g, p->kind), p->g, p->items[0]->due.prompt, picture, p->n, p->err);
}

// ---- To the host ----

static int fetch(struct device_worker *g, const struct tachy_gpu_plane *planes, int n, cuda_stream stream)
{
    device_copies(g);
    int err = tachy_gpu_copy(&g->gpu->device, planes, n, stream, false, g->task->log);
    device_copies_end(g);
    return err < 0 ? err : device_wait(g, stream);
}

int infer_cuda_fetch(struct device_worker *g, const struct tachy_tensor from[], void *const to[], int n)
{
    struct tachy_gpu_plane planes[TACHY_MAX_IO];
    int k = 0;
    for (int i = 0; i < n; i++)
        if (to[i])
            planes[k++] = (struct tachy_gpu_plane){.from = from[i].data, .to = to[i], .width = tachy_tensor_bytes(&from[i]),
                                                   .height = 1, .from_gpu = true};
    return fetch(g, planes, k, g->stream);
}

int infer_cuda_fetch_kept(struct device_worker *g, const struct infer_there *t, void *to, int n)
{
    const struct tachy_infer_net *net = t->host->net;
    struct tachy_gpu_plane planes[TACHY_MAX_IO];
    int k = 0;
    for (int i = 0; i < net->nb_out; i++)
        if (t->kept[i])
            planes[k++] = (struct tachy_gpu_plane){.from = t->kept[i], .to = (uint8_t *)to + net->out_at[i],
                                                   .from_pitch = t->apart[i], .to_pitch = net->out_bytes,
                                                   .width = tachy_tensor_bytes(&t->all_out[i]), .height = (size_t)n, .from_gpu = true};
    return fetch(g, planes, k, t->stream);
}

void infer_cuda_kept_in(const struct tachy_infer_net *net, void *at, struct tachy_tensor out[TACHY_MAX_IO])
{
    for (int i = 0; i < net->nb_out; i++)
        out[i].data = net->kept >> i & 1 ? (uint8_t *)at + net->out_at[i] : NULL;
}
