#include "media/device.h"
#include "task/segment_devices.h"
#include "task/segment_gpu.h"
#include "task/segment_gpu_order.h"

#include <math.h>
#include <stdlib.h>

static struct segment *priv(tachy_task *t) { return t->shared; }

struct tachy_mask_spec segment_mask_spec(const struct segment *s, const struct tachy_card *c)
{
    if (segment_pretends(s))
        return (struct tachy_mask_spec){.meaning = TACHY_OUT_PROBABILITY};
    return (struct tachy_mask_spec){
        .meaning = c->meaning, .channel = c->channel, .layout = c->out_layout};
}

int segment_open(tachy_task *t, const tachy_settings *set)
{
    struct segment *s = priv(t);
    s->task = t;
    int err = segment_read_settings(t, s, set);
    if (err < 0)
        return err;
    struct segment_net *net = &s->net[SEGMENT_FULL];
    err = tachy_model_open(&net->model, &(struct tachy_model_params){
                                            .name = tachy_settings_str(set, "model.name"),
                                            .card = tachy_settings_str(set, "model.card"),
                                            .dir = s->model_dir,
                                            .log = t->log,
                                        });
    if (err < 0)
        return err;
    const struct tachy_card *card = net->card = tachy_model_card(net->model);
    if (strcmp(card->task, "segment"))
        return tachy_fail(t->log, TACHY_ERR_MISMATCH,
                          "model %s: its card says task \"%s\", but segment needs \"segment\"",
                          card->name, card->task);
    net->spec = segment_mask_spec(s, card);
    err = s->on_gpu ? segment_gpu_model_open(t, s) : TACHY_OK;
    if (err == TACHY_OK)
        err = segment_find_states(t);
    if (err == TACHY_OK)
        err = segment_open_engine(t, net, 1, 0, &net->first);
    if (err == TACHY_OK)
        err = segment_match_states(t);
    if (err == TACHY_OK && s->on_gpu)
        err = segment_gpu_open(t, s);
    if (err < 0)
        return err;
    s->only_queues = s->gpu && segment_gpu_runs_model(s);
    // Where the GPU runs the model too, a worker only queues: one does, beside another that just began, for each
    // GPU. In mode json it waits for the picture.
    t->workers = s->only_queues && s->composite.mode != TACHY_MODE_JSON ? 2 * s->nb_devices : 0;
    // The other workers' engines are of the provider that was picked.
    free(s->provider);
    s->provider = strdup(tachy_engine_provider(net->first));
    if (!s->provider)
        return TACHY_ERR_NOMEM;
    snprintf(t->engine, sizeof(t->engine), "%s", tachy_engine_version(net->first));
    snprintf(t->describe, sizeof(t->describe), "segment %s %s %s mode %d%s%s threads %d%s%s",
             card->name, card->sha256 ? card->sha256 : "", tachy_engine_version(net->first),
             (int)s->composite.mode, s->refine ? " refine" : "", s->smooth > 0 ? " smooth" : "",
             s->engine_threads, s->gpu ? " on " : "", s->gpu ? s->gpu->device.name : "");
    return TACHY_OK;
}

void segment_close(tachy_task *t)
{
    struct segment *s = priv(t);
    for (int i = 0; i < SEGMENT_SIZES; i++) {
        tachy_engine_close(&s->net[i].first);
        tachy_model_close(&s->net[i].model);
    }
    free(s->model_dir);
    tachy_frame_pool_close(&s->pool);
    tachy_frame_pool_close(&s->surfaces);
    segment_gpu_close(s);
    segment_gpu_model_close(s);
    free(s->provider);
    free(s->library);
    for (size_t i = 0; s->provider_options && s->provider_options[i]; i++)
        free(s->provider_options[i]);
    free(s->provider_options);
    free(s->background);
}

// The middle of `r` with the aspect of the model's input, for cards with fit "crop".
static void crop_to_card(const struct segment *s, struct tachy_rect *r)
{
    const struct tachy_preprocess_params *in = &s->net[SEGMENT_FULL].card->in;
    bool turned = s->rotation == 90 || s->rotation == 270;
    double tw = turned ? in->height : in->width;
    double th = turned ? in->width : in->height;
    int w = (int)lrint(TACHY_MIN(r->w, r->h * tw / th)),
        h = (int)lrint(TACHY_MIN(r->h, r->w * th / tw));
    w = TACHY_MAX(w, 1);
    h = TACHY_MAX(h, 1);
    r->x += (r->w - w) / 2;
    r->y += (r->h - h) / 2;
    r->w = w;
    r->h = h;
}

static void set_regions(tachy_task *t)
{
    struct segment *s = priv(t);
    int w = s->in.width, h = s->in.height;
    t->eyes = 1;
    s->region[0] = (struct tachy_rect){0, 0, w, h};
    if (s->in.stereo == TACHY_STEREO_SBS && w >= 2) {
        t->eyes = 2;
        s->region[0].w = w / 2;
        s->region[1] = (struct tachy_rect){w / 2, 0, w - w / 2, h};
    } else if (s->in.stereo == TACHY_STEREO_TB && h >= 2) {
        t->eyes = 2;
        s->region[0].h = h / 2;
        s->region[1] = (struct tachy_rect){0, h / 2, w, h - h / 2};
    }
    for (int e = 0; e < t->eyes && s->net[SEGMENT_FULL].card->in.fit == TACHY_FIT_CROP; e++)
        crop_to_card(s, &s->region[e]);
}

int segment_start(tachy_task *t, const struct tachy_video_info *in,
                         struct tachy_video_info *out)
{
    struct segment *s = priv(t);
    s->in = *in;
    s->rotation = in->rotation;
    s->flip = in->flipped;
    set_regions(t);
    int err = tachy_composite_output(&s->composite, in, out);
    if (err < 0)
        return err;
    s->out = *out;
    if (s->gpu && (err = segment_gpu_start(t, s)) < 0)
        return err;
    tachy_frame_pool_close(&s->pool);
    tachy_frame_pool_close(&s->surfaces);
    bool json = s->composite.mode == TACHY_MODE_JSON;
    if (json && !s->gpu)
        return TACHY_OK;
    // Mode json: the alpha that a GPU makes.
    err = tachy_frame_pool_open_mem(&s->pool, s->gpu, s->gpu ? TACHY_PINNED : TACHY_HOST,
                                      json ? TACHY_PIX_GRAY8 : out->format, out->width, out->height);
    if (err == TACHY_OK && t->memory)
        tachy_frame_pool_account(s->pool, t->memory);
    return err;
}

// The guided filter applies its coefficients to the picture's luma.
bool segment_keeps_input(const struct segment *s)
{
    enum tachy_mode m = s->composite.mode;
    return s->refine || (m != TACHY_MODE_MASK && m != TACHY_MODE_JSON);
}

size_t segment_item_bytes(const tachy_task *t)
{
    const struct segment *s = t->shared;
    const struct tachy_preprocess_params *in = &s->net[SEGMENT_FULL].card->in;
    size_t n = (size_t)in->width * (size_t)in->height;
    size_t each = 1 + segment_needs_guide(s) + (s->refine && !s->gpu ? 2 * sizeof(float) : 0);
    return (size_t)t->eyes * n * each;
}

static void engine_close(struct segment_engine *e)
{
    tachy_engine_close(&e->engine);
    for (int i = 0; i < TACHY_MAX_EYES; i++)
        tachy_preprocess_close(&e->preprocess[i]);
    segment_tensors_free(&e->tensors);
}

// The network with all that a worker needs to run it. To be closed also on failure.
static int engine_open(struct segment_engine *e, tachy_task *t, struct segment_net *net)
{
    int err = TACHY_OK;
    e->net = net;
    e->engine = net->first;
    net->first = NULL;
    if (!e->engine)
        err = segment_open_engine(t, net, 1, 0, &e->engine);
    struct tachy_preprocess_params pp = net->card->in;
    pp.log = t->log;
    if (pp.fit == TACHY_FIT_CROP)
        pp.fit = TACHY_FIT_STRETCH; // the region has been cropped already
    for (int i = 0; i < t->eyes && err == TACHY_OK; i++)
        err = tachy_preprocess_open(&e->preprocess[i], &pp);
    return err == TACHY_OK ? segment_tensors_open(priv(t), net, e->engine, 1, &e->tensors) : err;
}

void segment_worker_close(void *worker)
{
    struct segment_worker *w = worker;
    segment_devices_close_worker(w);
    for (int i = 0; i < SEGMENT_SIZES; i++)
        engine_close(&w->size[i]);
    tachy_composite_close(&w->composite);
    tachy_aligned_free(w->scratch);
    free(w);
}

int segment_worker_open(tachy_task *t, void **worker)
{
    struct segment *s = priv(t);
    *worker = NULL;
    struct segment_worker *w = calloc(1, sizeof(*w));
    if (!w)
        return TACHY_ERR_NOMEM;
    w->task = t;
    w->s = s;
    int err = tachy_composite_open(&w->composite, &s->composite);
    for (int i = 0; i < SEGMENT_SIZES && err == TACHY_OK; i++)
        if (s->net[i].card)
            err = engine_open(&w->size[i], t, &s->net[i]);
    if (err == TACHY_OK && s->gpu)
        err = segment_devices_open_worker(w);
    if (err < 0) {
        segment_worker_close(w);
        return err;
    }
    *worker = w;
    return TACHY_OK;
}

tachy_frame segment_region_of(const tachy_frame *f, const struct tachy_rect *r)
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

int segment_preprocess_into(struct segment_worker *w, int size, struct tachy_item *item, int eye,
                            struct tachy_tensor *in, struct tachy_placement *placement)
{
    tachy_frame part = segment_region_of(item->in, &w->s->region[eye]);
    struct tachy_view view = {.rotation = w->s->rotation, .flip = w->s->flip};
    // What the tags leave open is decided by the size of the whole frame.
    part.color = tachy_color_resolve(part.color, part.format, item->in->width, item->in->height);
    return tachy_preprocess_run(w->size[size].preprocess[eye], &part, &view, in, placement);
}

int segment_size_of(const struct segment_worker *w, const struct tachy_item *item)
{
    return item->small && w->size[SEGMENT_SMALL].engine ? SEGMENT_SMALL : SEGMENT_FULL;
}

int segment_preprocess(void *worker, struct tachy_item *item, int eye)
{
    struct segment_worker *w = worker;
    w->last = segment_size_of(w, item);
    struct segment_tensors *t = &w->size[w->last].tensors;
    return segment_preprocess_into(w, w->last, item, eye, &t->in[t->picture], &w->placement);
}

int segment_model(void *worker, struct tachy_item *item, int eye)
{
    struct segment_worker *w = worker;
    if (w->state)
        return segment_state_run(w, w->state, eye);
    struct segment_engine *e = &w->size[segment_size_of(w, item)];
    return tachy_engine_run(e->engine, e->tensors.in, e->tensors.out);
}

uint64_t segment_transfer_ns(const void *worker)
{
    const struct segment_worker *w = worker;
    uint64_t ns = 0;
    for (int i = 0; i < SEGMENT_SIZES; i++)
        if (w->size[i].engine)
            ns += tachy_engine_transfer_ns(w->size[i].engine);
    return ns;
}

static void eye_free(struct segment_eye *e)
{
    if (e->gpu)
        segment_gpu_eye_free(e);
    tachy_aligned_free(e->mask);
    tachy_aligned_free(e->guide);
    tachy_aligned_free(e->coefficients);
    e->mask = e->guide = NULL;
    e->coefficients = NULL;
}

int segment_ensure_eye(const struct segment *s, struct segment_eye *e, int width, int height)
{
    if (e->mask && e->width == width && e->height == height)
        return TACHY_OK;
    size_t n = (size_t)width * (size_t)height;
    eye_free(e);
    int err = s->gpu ? segment_gpu_ensure_eye(s, e, n) : TACHY_OK;
    if (!s->gpu)
        e->mask = tachy_aligned_alloc(n);
    if (segment_needs_guide(s) && !s->gpu)
        e->guide = tachy_aligned_alloc(n);
    bool fits = s->refine && !s->gpu;
    if (fits)
        e->coefficients = tachy_aligned_alloc(2 * n * sizeof(float));
    e->width = width;
    e->height = height;
    if (err == TACHY_OK && (!e->mask || (!e->guide && segment_needs_guide(s)) || (!e->coefficients && fits)))
        err = TACHY_ERR_NOMEM;
    if (err < 0)
        eye_free(e); // the next try must not take the half for the whole
    return err;
}

struct tachy_placement segment_mask_place(const struct segment_net *net, const struct tachy_placement *p, int width,
                                          int height)
{
    double fx = (double)width / net->card->in.width, fy = (double)height / net->card->in.height;
    return (struct tachy_placement){p->x * fx, p->y * fy, p->w * fx, p->h * fy};
}

int segment_place_mask(struct segment_worker *w, int size, struct tachy_item *item, int eye, const struct tachy_tensor *out,
                       const struct tachy_placement *placement, struct tachy_placement *pl)
{
    const struct segment *s = w->s;
    const struct segment_net *net = w->size[size].net;
    struct segment_eye *e = &((struct segment_item *)item->priv)->eye[eye];
    int tw, th, mw, mh;
    int err = tachy_mask_extent(&net->spec, out, &tw, &th);
    if (err < 0)
        return tachy_fail(w->task->log, err,
                          "model %s: its output is not the mask that the card describes",
                          net->card->name);
    *pl = segment_mask_place(net, placement, tw, th);
    tachy_mask_size(tw, th, pl, s->rotation, &mw, &mh);
    err = segment_ensure_eye(s, e, mw, mh);
    item->result.eyes = w->task->eyes;
    item->result.mask[eye] = (struct tachy_mask){
        .data = e->mask, .width = mw, .height = mh, .stride = mw, .region = s->region[eye]};
    return err;
}

int segment_postprocess_from(struct segment_worker *w, int size, struct tachy_item *item, int eye,
                             const struct tachy_tensor *out, const struct tachy_placement *placement)
{
    const struct segment *s = w->s;
    struct segment_eye *e = &((struct segment_item *)item->priv)->eye[eye];
    const struct tachy_mask_spec *spec = &w->size[size].net->spec;
    struct tachy_placement pl;
    int err = segment_place_mask(w, size, item, eye, out, placement, &pl);
    if (err == TACHY_OK)
        err = tachy_mask_from_tensor(spec, out, &pl, s->rotation, s->flip, e->mask, e->width);
    if (err == TACHY_OK && e->guide)
        err = tachy_luma_guide(item->in, &s->region[eye], e->guide, e->width, e->width, e->height);
    return err;
}

int segment_postprocess(void *worker, struct tachy_item *item, int eye)
{
    struct segment_worker *w = worker;
    int size = segment_size_of(w, item);
    const struct segment_tensors *t = &w->size[size].tensors;
    return segment_postprocess_from(w, size, item, eye, &t->out[t->mask], &w->placement);
}

double segment_time_of(const struct segment *s, const struct tachy_item *item)
{
    return (double)item->result.pts * s->in.time_base.num / s->in.time_base.den;
}

void segment_name_out(const struct segment *s, struct tachy_item *item)
{
    const tachy_frame *in = tachy_item_head(item);
    item->out->id = in->id;
    item->out->pts = in->pts;
    item->out->duration = in->duration;
    item->out->color = s->out.color;
}

void segment_item_close(void *item_priv)
{
    struct segment_item *si = item_priv;
    for (int e = 0; e < TACHY_MAX_EYES; e++) {
        eye_free(&si->eye[e]);
        tachy_aligned_free(si->eye[e].in);
        tachy_aligned_free(si->eye[e].out);
    }
    tachy_frame_unref(&si->background);
    tachy_frame_unref(&si->on_gpu);
    free(si->json);
}
