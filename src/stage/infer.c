#include "base/options.h"
#include "engine/engine_ops.h"
#include "engine/engine_options.h"
#include "model/zoo.h"
#include "stage/infer_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tachy/gpu.h>

// A network as two stages, preprocess and model. The first has the network, the second the workers and the states.

struct tachy_infer *tachy_infer_of(const struct tachy_stage *st)
{
    return tachy_stage_priv(tachy_stage_before(st, "preprocess"));
}

// ---- The network ----

int tachy_infer_setup(struct tachy_engine_setup *e, const struct tachy_stage *st, const tachy_settings *s)
{
    int ids[TACHY_MAX_GPUS], n = 0, err = tachy_engine_setup_read(e, s);
    if (err == TACHY_OK && st->task->offloads)
        err = tachy_gpus_asked(s, ids, &n, st->task->log);
    if (n > 1)
        return tachy_fail(st->task->log, TACHY_ERR_UNSUPPORTED, "%s: frames stay on the CPU here, and networks run on one GPU: name it "
                          "with --gpu-id in place of --gpus", st->task->name);
    if (n) {
        e->device = "cuda";
        e->gpu = ids[0];
    }
    return err;
}

static int copy_settings(struct tachy_infer *in, const tachy_settings *set)
{
    const char *dir = tachy_settings_str(set, "model.dir");
    in->model_dir = dir ? strdup(dir) : NULL;
    int err = dir && !in->model_dir ? TACHY_ERR_NOMEM : tachy_infer_setup(&in->setup, in->st, set);
    const char *name = tachy_settings_str(set, "model.name");
    in->automatic = name && !strcmp(name, TACHY_MODEL_AUTO);
    in->named = (tachy_settings_is_set(set, "model.name") && !in->automatic) || tachy_settings_is_set(set, "model.card");
    return err;
}

int infer_open_model(struct tachy_infer *in, struct tachy_stage *st, const char *name, const char *card,
                     const tachy_settings *set, const struct tachy_log *log)
{
    struct tachy_infer_net *net = &in->net[TACHY_INFER_FULL];
    in->st = st;
    int err = copy_settings(in, set);
    if (err == TACHY_OK)
        err = tachy_model_open(&net->model, &(struct tachy_model_params){
                                                .name = name, .card = card, .dir = in->model_dir, .log = log});
    net->card = err < 0 ? NULL : tachy_model_card(net->model);
    for (int k = 0; k < CARD_FILES && err == TACHY_OK; k++) {
        char *file = tachy_model_file(net->model, (enum card_file_kind)k);
        err = file ? tachy_task_reads(st->task, file) : TACHY_OK;
        free(file);
    }
    in->pretends = net->card && net->card->meaning && in->setup.provider && !strcmp(in->setup.provider, "null");
    return err;
}

// model.input_size: a file that was made for another model must not end the run.
static int take_size(struct tachy_infer *in, const tachy_settings *set)
{
    static const char path[] = "model.input_size";
    struct tachy_infer_net *net = &in->net[TACHY_INFER_FULL];
    const struct tachy_card *card = net->card;
    const struct tachy_log *log = in->st->task->log;
    int w, h;
    if (!tachy_settings_size(set, path, &w, &h) || (w == card->in.width && h == card->in.height))
        return TACHY_OK;
    infer_resize_card(net, card, w, h);
    if (infer_takes_size(in, net, false))
        return TACHY_OK;
    net->card = card;
    bool named = tachy_settings_by_name(set, path);
    tachy_msg(log, named ? TACHY_LOG_ERR : TACHY_LOG_INFO, "%s: model %s takes pictures of %dx%d only, not %dx%d%s",
              named ? "--input-size" : tachy_settings_origin(set, path), card->name, card->in.width, card->in.height, w, h,
              named ? "; leave it out, or name another --model" : "; model.input_size is ignored");
    return named ? TACHY_ERR_INVAL : TACHY_OK;
}

int infer_open_named(struct tachy_infer *in, struct tachy_stage *st, const tachy_settings *set)
{
    return infer_open_model(in, st, tachy_settings_str(set, "model.name"), tachy_settings_str(set, "model.card"), set,
                            st->task->log);
}

int infer_open_whole(struct tachy_stage *st, const tachy_settings *set)
{
    struct tachy_infer *in = tachy_stage_priv(st), *opened = st->task->opened;
    st->worker_of = st->index + 1; // the model's
    int err = TACHY_OK;
    if (opened) {
        *in = *opened;
        in->st = st;
        *opened = (struct tachy_infer){0};
        st->task->opened = NULL;
    } else {
        err = infer_open_named(in, st, set);
    }
    if (err == TACHY_OK)
        err = infer_choose_fast(in, set);
    return err < 0 ? err : take_size(in, set);
}

int infer_open_first(struct tachy_infer *in)
{
    struct tachy_infer_net *net = &in->net[TACHY_INFER_FULL];
    int err = infer_find_states(in);
    if (err == TACHY_OK)
        err = infer_open_engine(in, net, 1, 0, &net->first);
    if (err == TACHY_OK)
        err = infer_match_states(in);
    if (err == TACHY_OK)
        err = infer_net_describe(in, net);
    if (err < 0)
        return err;
    // The other workers' engines, and those of the card's other networks, are of the provider and on the device that were picked.
    if (in->setup.device && !net->first->on_gpu)
        in->setup.device = "cpu";
    free(in->setup.provider);
    in->setup.provider = strdup(tachy_engine_provider(net->first));
    return in->setup.provider ? TACHY_OK : TACHY_ERR_NOMEM;
}

void infer_describe(const struct tachy_infer *in)
{
    const struct tachy_infer_net *net = &in->net[TACHY_INFER_FULL];
    tachy_task *t = in->st->task;
    snprintf(t->engine, sizeof(t->engine), "%s", tachy_engine_version(net->first));
    t->model[TACHY_INFER_FULL].name = net->card->name;
    tachy_task_describe(t, "%s %s %s %dx%d %s threads %d", t->name, net->card->name,
                        net->card->sha256 ? net->card->sha256 : "", net->card->in.width, net->card->in.height, t->engine,
                        in->setup.threads);
}

void infer_free(struct tachy_infer *in)
{
    for (int i = 0; i < TACHY_INFER_SIZES; i++)
        infer_net_free(&in->net[i]);
    free(in->model_dir);
    tachy_engine_setup_free(&in->setup);
}

static void preprocess_close(struct tachy_stage *st) { infer_free(tachy_stage_priv(st)); }

// ---- Regions ----

// The middle of `r` with the aspect of the model's input, for cards with fit "crop".
static void crop_to_card(const struct tachy_infer *in, struct tachy_rect *r)
{
    const struct tachy_preprocess_params *p = &in->net[TACHY_INFER_FULL].card->in;
    bool turned = in->rotation == 90 || in->rotation == 270;
    double tw = turned ? p->height : p->width;
    double th = turned ? p->width : p->height;
    int w = (int)lrint(TACHY_MIN(r->w, r->h * tw / th)),
        h = (int)lrint(TACHY_MIN(r->h, r->w * th / tw));
    w = TACHY_MAX(w, 1);
    h = TACHY_MAX(h, 1);
    r->x += (r->w - w) / 2;
    r->y += (r->h - h) / 2;
    r->w = w;
    r->h = h;
}

static void set_regions(struct tachy_infer *in, const struct tachy_video_info *video)
{
    tachy_task *t = in->st->task;
    t->eyes = tachy_eye_regions(video, in->region);
    for (int e = 0; e < t->eyes && in->net[TACHY_INFER_FULL].card->in.fit == TACHY_FIT_CROP; e++)
        crop_to_card(in, &in->region[e]);
}

struct tachy_preprocess_params infer_params(const struct tachy_infer *in, const struct tachy_card *card)
{
    struct tachy_preprocess_params p = card->in;
    p.log = in->st->task->log;
    if (p.fit == TACHY_FIT_CROP)
        p.fit = TACHY_FIT_STRETCH;
    return p;
}

int tachy_infer_map(const struct tachy_infer *in, const struct tachy_piece *p, int size, double map[6])
{
    const struct tachy_preprocess_params params = infer_params(in, in->net[size].card);
    const struct tachy_rect *r = tachy_infer_region(in, p);
    const tachy_frame *f = tachy_item_head(p->item);
    const struct tachy_view view = {
        .x = r->x, .y = r->y, .w = r->w, .h = r->h, .rotation = in->rotation, .flip = in->flip};
    return tachy_preprocess_map(&params, f->width, f->height, &view, map);
}

tachy_frame tachy_infer_part(const tachy_frame *f, const struct tachy_rect *r)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    tachy_frame part = *f;
    part.width = r->w;
    part.height = r->h;
    for (int i = 0; i < d->planes; i++) {
        bool chroma = !d->rgb && (i == 1 || i == 2);
        ptrdiff_t x = r->x >> (chroma ? d->chroma_shift_x : 0),
                  y = r->y >> (chroma ? d->chroma_shift_y : 0);
        part.data[i] += y * f->stride[i] + x * d->components[i] * d->bytes;
    }
    return part;
}

// ---- Preprocess ----

int infer_start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct tachy_infer *in = tachy_stage_priv(st);
    in->rotation = video->rotation;
    in->flip = video->flipped;
    set_regions(in, video);
    st->flags = TACHY_STAGE_READS | tachy_infer_flags(in);
    return TACHY_OK;
}

static int preprocess_open(struct tachy_stage *st, const tachy_settings *set)
{
    int err = infer_open_whole(st, set);
    if (err == TACHY_OK)
        err = infer_open_first(tachy_stage_priv(st));
    if (err == TACHY_OK)
        infer_describe(tachy_stage_priv(st));
    return err;
}

static int preprocess_start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct tachy_infer *in = tachy_stage_priv(st);
    const struct tachy_infer_net *net = &in->net[TACHY_INFER_FULL];
    in->apart = in->nb_states && !st->task->save; // whoever saves looks at a worker's tensors right after its run
    int err = infer_start(st, video);
    if (in->automatic || (st->task->parts && !in->named))
        infer_open_by_shape(in);
    if (in->apart)
        st->item_bytes = (size_t)st->task->eyes * (tachy_tensor_bytes(&net->in[net->picture].spec) + net->out_bytes);
    return err;
}

static double aspect_of(const struct tachy_card *c) { return (double)c->in.width / c->in.height; }

// True if the piece's shape is nearer to the smaller network's input than to the full one's. Shapes in between get the
// smaller one, which takes walls for people less often. With a square and a 16:9 network this begins at 1.2:1.
static bool fits_smaller(const struct tachy_infer *in, const struct tachy_piece *p)
{
    if (!in->by_shape)
        return false;
    const struct tachy_rect *r = tachy_infer_region(in, p);
    bool turned = in->rotation == 90 || in->rotation == 270;
    double aspect = turned ? (double)r->h / r->w : (double)r->w / r->h;
    return fabs(log(aspect / aspect_of(in->net[TACHY_INFER_SMALL].card))) <
           fabs(log(aspect / aspect_of(in->net[TACHY_INFER_FULL].card))) + 0.2;
}

int infer_input(struct infer_worker *w, const struct tachy_piece *p, struct tachy_tensor *in)
{
    struct infer_region *r = infer_region_of(w->infer, p);
    bool apart = p->item->apart || w->infer->apart;
    bool small = !apart && p->item->small && w->size[TACHY_INFER_SMALL].engine;
    r->size = small || fits_smaller(w->infer, p) ? TACHY_INFER_SMALL : TACHY_INFER_FULL;
    const struct infer_engine *e = &w->size[r->size];
    const struct tachy_infer_net *net = &w->infer->net[r->size];
    atomic_fetch_add_explicit(&w->infer->st->task->model[r->size].runs, 1, memory_order_relaxed);
    r->by = apart ? NULL : e;
    int err = apart ? infer_region_ensure(w->infer, r) : TACHY_OK;
    *in = net->in[net->picture].spec;
    in->data = apart ? r->in : e->tensors.own_in[net->picture];
    return err;
}

static int sample(const struct infer_engine *e, const struct tachy_infer *in, const tachy_frame *f,
                  const struct tachy_piece *p, struct tachy_tensor *to, struct tachy_placement *at)
{
    tachy_frame part = tachy_infer_part(f, tachy_infer_region(in, p));
    struct tachy_view view = {.rotation = in->rotation, .flip = in->flip};
    // Unspecified tags are resolved by the size of the whole frame.
    part.color = tachy_color_resolve(part.color, part.format, f->width, f->height);
    return tachy_preprocess_run(e->preprocess[p->region], &part, &view, to, at);
}

// Converts the plate to its tensor, which stays valid until the worker runs another region.
static int sample_plate(struct infer_engine *e, const struct tachy_infer *in, const struct tachy_piece *p)
{
    if (e->net->plate < 0 || !in->plate || e->plated == p->region + 1)
        return TACHY_OK;
    e->plated = p->region + 1;
    return sample(e, in, in->plate, p, &e->tensors.in[e->net->plate], NULL);
}

static int preprocess(struct infer_worker *w, const struct tachy_piece *p)
{
    const struct tachy_infer *in = w->infer;
    struct infer_region *r = infer_region_of(in, p);
    const tachy_frame *f = p->item->in;
    struct tachy_tensor to;
    if (p->item->nobody)
        return TACHY_OK;
    int err = infer_input(w, p, &to);
    if (err < 0)
        return err;
    return sample(&w->size[r->size], in, f, p, &to, &r->placement);
}

static void preprocess_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n,
                           int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = preprocess(worker, &pieces[i]);
}

void infer_item_close(void *item)
{
    struct infer_item *it = item;
    for (int i = 0; i < TACHY_MAX_PARTS; i++) {
        tachy_aligned_free(it->region[i].in);
        tachy_aligned_free(it->region[i].out);
    }
}

const struct tachy_stage_ops tachy_stage_preprocess = {
    .name = "preprocess",
    .flags = TACHY_STAGE_REGIONS | TACHY_STAGE_READS,
    .priv_size = sizeof(struct tachy_infer),
    .item_size = sizeof(struct infer_item),
    .open = preprocess_open,
    .close = preprocess_close,
    .start = preprocess_start,
    .run = preprocess_run,
    .item_close = infer_item_close,
};

// ---- Workers ----

int infer_engine_open(struct infer_engine *e, const struct tachy_infer *in, struct tachy_infer_net *net,
                      const struct tachy_preprocess_params *pp, int regions)
{
    e->net = net;
    int err = infer_open_engine(in, net, 1, 0, &e->engine);
    for (int i = 0; i < regions && err == TACHY_OK; i++)
        err = tachy_preprocess_open(&e->preprocess[i], pp);
    return err == TACHY_OK ? infer_tensors_open(in, net, e->engine, 1, &e->tensors) : err;
}

// As above, for several pictures per run. TACHY_ERR_MISMATCH: the model does not take them.
static int batch_open(struct infer_engine *e, const struct tachy_infer *in, struct tachy_infer_net *net, int most)
{
    struct infer_tensors *t = &e->tensors;
    e->net = net;
    int err = net->batch ? TACHY_OK : infer_open_engine(in, net, most, 0, &net->batch);
    if (err == TACHY_OK)
        err = infer_open_engine(in, net, most, 0, &e->engine);
    if (err == TACHY_OK)
        err = infer_tensors_open(in, net, e->engine, most, t);
    for (int i = 0; i < t->nb_out && err == TACHY_OK; i++)
        err = net->kept >> i & 1 && t->out[i].shape[0] != most ? TACHY_ERR_MISMATCH : TACHY_OK;
    if (err < 0)
        return err;
    struct tachy_tensor *in0 = &t->in[net->picture];
    memset(in0->data, 0, tachy_tensor_bytes(in0));
    return in0->shape[0] == most ? TACHY_OK : TACHY_ERR_MISMATCH;
}

int infer_worker_open(struct tachy_infer *in, int batch, struct infer_worker *w)
{
    const tachy_task *t = in->st->task;
    int err = TACHY_OK;
    w->infer = in;
    w->batch = batch > 1 ? batch : 0;
    if (w->batch && in->by_shape)
        err = infer_engine_open(&w->size[TACHY_INFER_SMALL], in, &in->net[TACHY_INFER_SMALL], NULL, 0);
    if (w->batch)
        return err < 0 ? err : batch_open(&w->size[TACHY_INFER_FULL], in, &in->net[TACHY_INFER_FULL], batch);
    for (int i = 0; i < TACHY_INFER_SIZES && err == TACHY_OK; i++) {
        const struct tachy_card *card = in->net[i].card;
        const struct tachy_preprocess_params pp = card ? infer_params(in, card) : (struct tachy_preprocess_params){0};
        if (card)
            err = infer_engine_open(&w->size[i], in, &in->net[i], &pp, t->parts ? TACHY_MAX_PARTS : t->eyes);
    }
    return err;
}

void infer_engine_close(struct infer_engine *e)
{
    tachy_engine_close(&e->engine);
    for (int i = 0; i < TACHY_MAX_PARTS; i++)
        tachy_preprocess_close(&e->preprocess[i]);
    infer_tensors_free(&e->tensors);
}

void infer_worker_close(struct infer_worker *w)
{
    for (int i = 0; i < TACHY_INFER_SIZES; i++)
        infer_engine_close(&w->size[i]);
}

// ---- Model ----

int infer_model_open(struct tachy_stage *st, const tachy_settings *set)
{
    const struct tachy_infer *in = tachy_infer_of(st);
    st->item_of = in->st->index;
    st->flags |= in->nb_states ? TACHY_STAGE_ORDERED : *in->net[TACHY_INFER_FULL].card->plate ? 0 : TACHY_STAGE_BATCHES;
    st->batch_key = tachy_model_path(in->net[TACHY_INFER_FULL].model);
    return TACHY_OK;
}

static int model_worker_open(struct tachy_stage *st, int batch, void **worker)
{
    struct infer_worker *w = *worker = calloc(1, sizeof(*w));
    int err = w ? infer_worker_open(tachy_infer_of(st), batch, w) : TACHY_ERR_NOMEM;
    if (err < 0 && w) {
        infer_worker_close(w);
        free(w);
        *worker = NULL;
    }
    return err;
}

static void model_worker_close(void *worker)
{
    infer_worker_close(worker);
    free(worker);
}

void infer_count_transfer(struct tachy_stage *st, struct infer_worker *w)
{
    uint64_t now = 0;
    for (int i = 0; i < TACHY_INFER_SIZES; i++)
        now += w->size[i].engine ? tachy_engine_transfer_ns(w->size[i].engine) : 0;
    if (now != w->counted_ns)
        atomic_fetch_add_explicit(&st->transfer_ns, now - w->counted_ns, memory_order_relaxed);
    w->counted_ns = now;
}

static int model(struct infer_worker *w, void *state, const struct tachy_piece *p)
{
    const struct infer_region *r = infer_region_of(w->infer, p);
    struct infer_engine *e = &w->size[r->size];
    if (p->item->nobody)
        return TACHY_OK;
    infer_tensors_bind(e, r);
    int err = sample_plate(e, w->infer, p);
    if (err < 0 || !state)
        return err < 0 ? err : tachy_engine_run(e->engine, e->tensors.in, e->tensors.out);
    if (p->item->anew)
        infer_state_reset(state, p->region);
    return infer_state_run(e, state, p->region);
}

// Picture `at` of a batch's outputs is the region's.
static void keep_outputs(const struct tachy_infer_net *net, const struct infer_tensors *t, int at, const struct infer_region *r)
{
    for (int k = 0; k < net->nb_out; k++) {
        size_t bytes = tachy_tensor_bytes(&net->out[k].spec);
        if (net->kept >> k & 1)
            memcpy((char *)r->out + net->out_at[k], (const char *)t->out[k].data + (size_t)at * bytes, bytes);
    }
}

void infer_serve(struct infer_worker *w, struct tachy_infer *in)
{
    w->infer = in;
    for (int i = 0; i < TACHY_INFER_SIZES; i++)
        w->size[i].net = &in->net[i];
}

void infer_run_batch(struct infer_worker *w, const struct tachy_piece pieces[], int n, int err[])
{
    struct infer_engine *e = &w->size[TACHY_INFER_FULL];
    const struct tachy_infer_net *net = e->net;
    struct infer_tensors *t = &e->tensors;
    size_t bytes = tachy_tensor_bytes(&net->in[net->picture].spec);
    int all = TACHY_OK, full = 0; // pieces of the full network
    for (int i = 0; i < n; i++) {
        const struct infer_region *r = infer_region_of(w->infer, &pieces[i]);
        if (r->size == TACHY_INFER_FULL)
            memcpy((char *)t->in[net->picture].data + (size_t)full++ * bytes, r->in, bytes);
    }
    if (full)
        all = tachy_engine_run(e->engine, t->in, t->out); // the rest is what was there: padding
    for (int i = 0, at = 0; i < n; i++) {
        const struct infer_region *r = infer_region_of(w->infer, &pieces[i]);
        err[i] = r->size == TACHY_INFER_FULL ? all : model(w, NULL, &pieces[i]);
        if (r->size == TACHY_INFER_FULL && err[i] == TACHY_OK)
            keep_outputs(net, t, at, r);
        at += r->size == TACHY_INFER_FULL;
    }
}

static void model_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct infer_worker *w = worker;
    infer_serve(w, tachy_infer_of(st));
    if (w->batch)
        infer_run_batch(w, pieces, n, err);
    for (int i = 0; i < n && !w->batch; i++)
        err[i] = model(w, state, &pieces[i]);
    infer_count_transfer(st, w);
}

int infer_model_tensors(struct tachy_stage *st, void *worker, const struct tachy_piece *p, struct tachy_stage_tensors *t)
{
    struct infer_worker *w = worker;
    struct infer_region *r = infer_region_of(w->infer, p);
    struct tachy_tensor in;
    int err = r->by || r->in ? TACHY_OK : infer_input(w, p, &in); // nothing has run of it yet
    struct infer_engine *e = &w->size[r->size];
    if (!r->by && err == TACHY_OK)
        infer_tensors_bind(e, r);
    *t = (struct tachy_stage_tensors){.in = e->tensors.in, .n_in = e->tensors.nb_in, .out = e->tensors.out,
                                      .n_out = e->tensors.nb_out, .placement = &r->placement};
    return err;
}

const struct tachy_stage_ops tachy_stage_model = {
    .name = "model",
    .options = tachy_model_options,
    .flags = TACHY_STAGE_REGIONS | TACHY_STAGE_MODEL,
    .open = infer_model_open,
    .worker_open = model_worker_open,
    .worker_close = model_worker_close,
    .run = model_run,
    .state_open = infer_state_open,
    .state_close = infer_state_close,
    .state_save = infer_state_save,
    .state_load = infer_state_load,
    .tensors = infer_model_tensors,
};
