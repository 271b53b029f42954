#include "stage/infer_cuda.h"

#include "engine/engine_ops.h"
#include "engine/engine_options.h"

#include <stddef.h>
#include <stdlib.h>

// The stages of a network whose frames are on devices: queued there, for one item or several at once. A failed item
// does not affect others; work queued for its mask or picture is waited for, since that memory is about to be reused.

enum { MOST = DEVICE_MOST };

// Stream state on the host or the device, wherever the engine runs.
struct state {
    void *host;
    struct infer_state_cuda *there;
};

bool infer_cuda_from_host(const struct tachy_infer *in, const struct tachy_item *item)
{
    return item->apart || !in->st->task->devices->only_queues;
}

bool infer_cuda_on_host(const struct device_group *p)
{
    return p->items[0]->apart || !infer_part_of(p->g, p->kind)->out.data;
}

struct tachy_tensor infer_cuda_output(const struct device_group *p, int i)
{
    return device_picture(&infer_part_of(p->g, p->kind)->out, infer_cuda_picture(p, i));
}

// ---- Open and start ----

// The memory of the preprocess stage.
struct preprocess {
    struct infer_cuda net; // first
    struct task_devices devices;
};

static int preprocess_open(struct tachy_stage *st, const tachy_settings *set)
{
    struct preprocess *p = tachy_stage_priv(st);
    struct infer_cuda *c = &p->net;
    tachy_task *t = st->task;
    c->devices = &p->devices;
    c->devices->item_at = offsetof(struct infer_cuda_item, device);
    int err = device_read_settings(c->devices, st, set);
    if (err == TACHY_OK)
        err = infer_open_whole(st, set);
    const struct tachy_card *card = c->infer.net[TACHY_INFER_FULL].card;
    if (err == TACHY_OK && *card->plate)
        err = tachy_fail(t->log, TACHY_ERR_UNSUPPORTED, "model %s: needs a --plate, and runs on the CPU only: leave --device "
                         "cuda out", card->name);
    if (err == TACHY_OK)
        err = infer_cuda_open_first(c);
    if (err < 0)
        return err;
    infer_describe(&c->infer);
    if (c->infer.automatic)
        tachy_msg(t->log, TACHY_LOG_INFO, "the model is %s; --device cuda takes one, whatever the shape of the picture",
                  c->infer.net[TACHY_INFER_FULL].card->name);
    // If the device runs the model too, a worker only queues work: one worker per device does, with another that has
    // just begun.
    t->workers = c->devices->only_queues ? 2 * c->devices->nb : 0;
    tachy_task_describe(t, " on %s", c->devices->list[0].gpu->device.name);
    return TACHY_OK;
}

static void preprocess_close(struct tachy_stage *st)
{
    struct infer_cuda *c = tachy_stage_priv(st);
    infer_cuda_close(c);
    device_close(c->devices);
    st->task->devices = NULL;
}

static int preprocess_start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct infer_cuda *c = tachy_stage_priv(st);
    int err = infer_start(st, video);
    st->group = device_group_size(c->devices);
    if (err < 0 || !device_starts_anew(c->devices))
        return err;
    infer_cuda_leave_memory(c);
    err = device_start(c->devices);
    return err < 0 ? err : infer_cuda_count_models(c);
}

// ---- Preprocess ----

// For consecutive items.
struct pictures {
    int n, of[MOST]; // items
    tachy_frame frame[MOST];
    struct tachy_preprocess_picture picture[MOST];
    struct tachy_placement placement[MOST];
};

static struct device_item *device_item_in(const struct device_group *p, int i)
{
    return device_item_of(p->g->task->devices, p->items[i]);
}

static int run_preprocess(struct device_group *p, struct pictures *q, int first, int n)
{
    struct infer_there *size = infer_part_of(p->g, p->kind);
    struct tachy_tensor in = device_picture(&size->in, device_item_in(p, q->of[first])->picture);
    in.shape[0] = n;
    return tachy_preprocess_gpu_run(size->preprocess[p->region], &q->picture[first], n, &in, &q->placement[first]);
}

// From the items' frames to the pictures on the device.
static void queue_preprocess(struct device_group *p)
{
    const struct tachy_infer *in = &infer_cuda_of(p->g)->infer;
    struct pictures q;
    double bytes = 0;
    int at = device_item_in(p, 0)->picture;
    q.n = 0;
    for (int i = 0; i < p->n; i++) {
        const tachy_frame *f;
        struct tachy_item *item = p->items[i];
        p->err[i] = device_frame_of(p, item, &f);
        if (p->err[i] < 0)
            continue;
        tachy_frame *part = &q.frame[q.n];
        *part = tachy_infer_part(f, &in->region[p->region]);
        part->color = tachy_color_resolve(part->color, part->format, item->in->width, item->in->height);
        q.picture[q.n] = (struct tachy_preprocess_picture){part, {.rotation = in->rotation, .flip = in->flip}};
        device_item_in(p, i)->picture = at + q.n;
        q.of[q.n++] = i;
        bytes += device_bytes(part) + (double)tachy_tensor_bytes(&infer_part_of(p->g, p->kind)->in);
    }
    device_kernels(p->g);
    int err = q.n ? run_preprocess(p, &q, 0, q.n) : TACHY_OK;
    for (int k = 0; k < q.n; k++) {
        bool again = err < 0 && err != TACHY_ERR_EXTERNAL && q.n > 1; // which of them is it?
        p->err[q.of[k]] = again ? run_preprocess(p, &q, k, 1) : err;
        infer_region_in(p, q.of[k])->placement = q.placement[k];
    }
    device_kernels_end(p->g, bytes);
}

// The model's picture to the host, and there when it returns.
static int fetch_input(struct device_group *p, void *to)
{
    return infer_cuda_fetch(p->g, &infer_part_of(p->g, p->kind)->in, &to, 1);
}

int infer_cuda_outputs_to_host(struct device_group *p, void *to)
{
    int n = 0;
    for (int i = 0; i < p->n; i++)
        n = TACHY_MAX(n, infer_cuda_picture(p, i) + 1);
    return infer_cuda_fetch_kept(p->g, infer_part_of(p->g, p->kind), to, n);
}

void infer_cuda_output_in(const struct device_group *p, int i, void *to, struct tachy_infer_output *o)
{
    const struct tachy_infer_net *net = &infer_cuda_of(p->g)->infer.net[p->kind];
    infer_cuda_kept_in(net, (uint8_t *)to + (size_t)infer_cuda_picture(p, i) * net->out_bytes, o->out);
}

static void preprocess(struct device_group *p)
{
    queue_preprocess(p);
    for (int i = 0; i < p->n; i++) { // also after a failure: what was queued reads the frame
        int err = device_keep_frame(p, p->items[i]);
        p->err[i] = p->err[i] < 0 ? p->err[i] : err;
    }
    device_let_go(p);
    if (p->items[0]->apart && *p->err == TACHY_OK)
        *p->err = fetch_input(p, infer_region_in(p, 0)->in);
}

void infer_cuda_choose(struct device_set *set, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    const struct state *st = state;
    struct infer_state_cuda *there = st ? st->there : NULL;
    for (int i = 0; i < n; i++) {
        struct device_item *di = device_item_of(set->devices, pieces[i].item);
        err[i] = device_begin(set, pieces[i].item, there ? infer_state_cuda_device(there) : NULL);
        di->picture = i;
        di->kind = infer_region_of(tachy_stage_priv(set->devices->st), &pieces[i])->size;
        if (err[i] < 0)
            di->at = NULL;
    }
}

// From here on the pieces are this worker's.
static void begin(struct infer_cuda_worker *w, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct tachy_tensor in;
    for (int i = 0; i < n; i++) {
        int room = infer_input(&w->host, &pieces[i], &in);
        infer_cuda_choose(&w->set, state, &pieces[i], 1, &err[i]);
        struct device_item *di = device_item_of(w->set.devices, pieces[i].item);
        di->picture = i;
        if (room < 0) {
            err[i] = room;
            di->at = NULL;
        }
        if (err[i] == TACHY_OK)
            device_count(&w->set);
    }
}

static void preprocess_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n,
                           int err[])
{
    struct infer_cuda_worker *w = worker;
    int each = pieces[0].item->apart ? 1 : n; // the host is waited for
    for (int i = 0; i < n; i += each) {
        begin(w, state, pieces + i, each, err + i);
        device_run(&w->set, st, state, pieces + i, each, err + i, false, preprocess);
    }
}

static int preprocess_queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n)
{
    return device_queue(worker, st, items, n, st->task->eyes, queue_preprocess);
}

static bool preprocess_load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    const struct tachy_infer *infer = tachy_stage_priv(st);
    const struct tachy_preprocess_params *in = &infer->net[TACHY_INFER_FULL].card->in;
    double bytes = (double)in->width * in->height * 3 * (double)tachy_dtype_size(in->dtype);
    l->to_host = infer_cuda_from_host(infer, item) ? st->task->eyes * bytes : 0;
    return device_load(st, worker, item, l);
}

static void item_close(void *item)
{
    infer_item_close(item);
    tachy_frame_unref(&((struct infer_cuda_item *)item)->device.frame);
}

// ---- Model ----

static int model_of_host(struct device_group *p)
{
    struct infer_cuda_worker *w = (void *)p->g->set;
    struct infer_engine *e = &w->host.size[p->kind];
    struct state *state = p->state;
    int err = fetch_input(p, e->tensors.in[e->net->picture].data);
    if (err < 0)
        return err;
    return state ? infer_state_run(e, state->host, p->region) : tachy_engine_run(e->engine, e->tensors.in, e->tensors.out);
}

static void model(struct device_group *p)
{
    struct state *state = p->state;
    if (infer_cuda_on_host(p)) {
        *p->err = model_of_host(p);
        return;
    }
    device_kernels(p->g);
    if (state)
        *p->err = infer_state_cuda_run(p, state->there);
    else
        infer_cuda_queue_models(p);
    device_kernels_end(p->g, 0);
}

static void reset(struct state *state, int region)
{
    if (state->there)
        infer_state_cuda_reset(state->there, region);
    else
        infer_state_reset(state->host, region);
}

static void model_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct infer_cuda_worker *w = worker;
    if (state && pieces[0].item->anew)
        reset(state, pieces[0].region);
    infer_serve(&w->host, tachy_infer_of(st));
    if (w->host.batch)
        infer_run_batch(&w->host, pieces, n, err);
    else
        device_run(&w->set, st, state, pieces, n, err, false, model);
    infer_count_transfer(st, &w->host);
}

static int model_queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n)
{
    return device_queue(worker, st, items, n, st->task->eyes, infer_cuda_queue_models);
}

static bool model_load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    device_load(st, worker, item, l);
    l->computes = !infer_cuda_from_host(tachy_infer_of(st), item);
    return true;
}

// For who looks at the host's tensors: what the last run of an engine on the device left there.
static int fetch_tensors(struct device_worker *g, int of)
{
    const struct infer_tensors *t = &((struct infer_cuda_worker *)(void *)g->set)->host.size[of].tensors;
    const struct infer_there *size = infer_part_of(g, of);
    if (!size->out.data)
        return TACHY_OK; // they are the engine's own
    int err = tachy_device_enter(&g->gpu->device, g->task->log);
    if (err < 0)
        return err;
    err = infer_cuda_fetch(g, size->all_in, t->own_in, t->nb_in);
    if (err == TACHY_OK)
        err = infer_cuda_fetch(g, size->all_out, t->own_out, t->nb_out);
    tachy_device_leave(&g->gpu->device);
    return err;
}

static int model_tensors(struct tachy_stage *st, void *worker, const struct tachy_piece *p, struct tachy_stage_tensors *t)
{
    struct infer_cuda_worker *w = worker;
    struct device_worker *g = w->set.now;
    const struct infer_region *r = infer_region_of(w->host.infer, p);
    int err = r->by ? fetch_tensors(g, r->size) : TACHY_OK;
    if (err == TACHY_OK && g->wait)
        err = g->wait(g->waits_for);
    return err < 0 ? err : infer_model_tensors(st, &w->host, p, t);
}

// Batches are the worker's groups of frames if our own plans run there: nothing is gathered on the host.
static int model_open(struct tachy_stage *st, const tachy_settings *set)
{
    const struct tachy_infer_net *net = &tachy_infer_of(st)->net[TACHY_INFER_FULL];
    bool plans = infer_runs_plans(net->first);
    int err = infer_model_open(st, set);
    if (plans)
        st->flags &= ~(unsigned)TACHY_STAGE_BATCHES;
    return err;
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    struct infer_cuda_worker *w = *worker = calloc(1, sizeof(*w));
    int err = w ? infer_worker_open(tachy_infer_of(st), batch, &w->host) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK && !w->host.batch)
        err = device_set_open(&w->set, st->task->devices);
    if (err < 0 && w) {
        st->ops->worker_close(w);
        *worker = NULL;
    }
    return err;
}

static void worker_close(void *worker)
{
    struct infer_cuda_worker *w = worker;
    device_set_close(&w->set);
    infer_worker_close(&w->host);
    free(w);
}

// ---- States ----

static void state_close(void *state)
{
    struct state *s = state;
    infer_state_close(s->host);
    infer_state_cuda_close(&s->there);
    free(s);
}

static int state_open(struct tachy_stage *st, void **state)
{
    struct infer_cuda *c = tachy_stage_priv(st->task->devices->st);
    *state = NULL;
    if (!c->infer.nb_states)
        return TACHY_OK;
    struct state *s = calloc(1, sizeof(*s));
    if (!s)
        return TACHY_ERR_NOMEM;
    int err = c->devices->only_queues ? infer_state_cuda_open(&s->there, c) : infer_state_open(st, &s->host);
    if (err < 0) {
        state_close(s);
        return err;
    }
    for (int r = 0; r < st->task->eyes; r++)
        reset(s, r);
    *state = s;
    return TACHY_OK;
}

static int state_save(const void *state, void **data, size_t *size)
{
    const struct state *s = state;
    if (s->host)
        return infer_state_save(s->host, data, size);
    *size = infer_state_cuda_size(s->there);
    *data = malloc(*size);
    int err = *data ? infer_state_cuda_save(s->there, *data) : TACHY_ERR_NOMEM;
    if (err < 0) {
        free(*data);
        *data = NULL;
    }
    return err;
}

static int state_load(void *state, const void *data, size_t size)
{
    struct state *s = state;
    if (s->host)
        return infer_state_load(s->host, data, size);
    return size == infer_state_cuda_size(s->there) ? infer_state_cuda_load(s->there, data) : TACHY_ERR_FORMAT;
}

const struct tachy_stage_ops tachy_stage_preprocess_cuda = {
    .name = "preprocess",
    .flags = TACHY_STAGE_REGIONS | TACHY_STAGE_READS,
    .priv_size = sizeof(struct preprocess),
    .item_size = sizeof(struct infer_cuda_item),
    .open = preprocess_open,
    .close = preprocess_close,
    .start = preprocess_start,
    .worker_open = infer_part_open,
    .worker_close = infer_part_close,
    .run = preprocess_run,
    .item_close = item_close,
    .load = preprocess_load,
    .queue = preprocess_queue,
};

const struct tachy_stage_ops tachy_stage_model_cuda = {
    .name = "model",
    .options = tachy_model_options,
    .flags = TACHY_STAGE_REGIONS | TACHY_STAGE_MODEL,
    .open = model_open,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = model_run,
    .state_open = state_open,
    .state_close = state_close,
    .state_save = state_save,
    .state_load = state_load,
    .tensors = model_tensors,
    .load = model_load,
    .queue = model_queue,
};
