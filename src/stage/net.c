#include "stage/net.h"

#include "model/card.h"

#include <stdlib.h>

// ---- The stage's

static int read_settings(struct tachy_net *n, const tachy_settings *s, const struct tachy_log *log)
{
    const struct tachy_preprocess_params *in = &n->card->in;
    bool nchw = in->layout == TACHY_NCHW;
    int channels = in->channels == TACHY_LUMA ? 1 : 3;
    n->input = (struct tachy_io){*n->card->input ? n->card->input : NULL,
                                 {.rank = 4, .shape = {1, nchw ? channels : in->height, nchw ? in->height : in->width,
                                                       nchw ? in->width : channels}}};
    int err = tachy_engine_setup_read(&n->setup, s);
    n->engine = tachy_engine_setup_params(&n->setup);
    n->engine.log = log;
    n->engine.model_path = tachy_model_path(n->model);
    n->engine.shapes = &n->input;
    n->engine.nb_shapes = 1;
    return err;
}

static int check(const struct tachy_net *n)
{
    const struct tachy_io *in, *out;
    int nb_in = tachy_engine_inputs(n->first, &in), nb_out = tachy_engine_outputs(n->first, &out);
    return tachy_card_check(n->card, in, nb_in, out, nb_out, n->engine.log);
}

int tachy_net_open(struct tachy_net *n, const struct tachy_net_params *p, const tachy_settings *s)
{
    int err = tachy_model_open(&n->model, &(struct tachy_model_params){.name = p->name, .card = p->card,
                                                                       .dir = tachy_settings_str(s, "model.dir"),
                                                                       .log = p->log});
    if (err < 0)
        return err;
    n->card = tachy_model_card(n->model);
    bool masks = !strcmp(p->task, "segment"); // whose outputs the caller reads itself
    if (strcmp(n->card->task, p->task) || (!n->card->n_decoders && !masks) || n->card->n_states)
        return tachy_fail(p->log, TACHY_ERR_MISMATCH,
                          "model %s: its card says task \"%s\"; needed is one of task \"%s\" with `outputs`, without `state`",
                          n->card->name, n->card->task, p->task);
    err = read_settings(n, s, p->log);
    if (err == TACHY_OK)
        err = tachy_engine_open(&n->first, &n->engine);
    return err == TACHY_OK ? check(n) : err;
}

void tachy_net_close(struct tachy_net *n)
{
    tachy_engine_close(&n->first);
    tachy_model_close(&n->model);
    tachy_engine_setup_free(&n->setup);
    *n = (struct tachy_net){0};
}

// ---- A worker's

// What the model leaves free is one.
static int tensor_open(struct tachy_tensor *t, const struct tachy_tensor *spec)
{
    *t = *spec;
    for (int i = 0; i < t->rank; i++)
        t->shape[i] = TACHY_MAX(t->shape[i], 1);
    return tachy_tensor_alloc(t);
}

static int open_tensors(struct tachy_net_worker *w)
{
    const struct tachy_io *in, *out;
    tachy_engine_inputs(w->engine, &in);
    int n = tachy_engine_outputs(w->engine, &out);
    struct tachy_tensor picture = in->spec;
    for (int i = 0; i < picture.rank; i++)
        picture.shape[i] = picture.shape[i] < 0 ? w->net->input.spec.shape[i + 4 - picture.rank] : picture.shape[i];
    int err = tensor_open(&w->in, &picture);
    for (; w->nb_out < n && err == TACHY_OK; w->nb_out++)
        err = tensor_open(&w->out[w->nb_out], &out[w->nb_out].spec);
    return err;
}

static int open_decoders(struct tachy_net_worker *w)
{
    const struct tachy_card *c = w->net->card;
    const struct tachy_io *named;
    struct tachy_io out[TACHY_MAX_IO];
    int n = tachy_engine_outputs(w->engine, &named), err = TACHY_OK;
    for (int i = 0; i < n; i++)
        out[i] = (struct tachy_io){named[i].name, w->out[i]};
    for (int i = 0; i < c->n_decoders && err == TACHY_OK; i++)
        err = tachy_decoder_open(&w->decode[i], c, &c->decoder[i], out, n, 1, w->net->engine.log);
    return err;
}

int tachy_net_worker_open(struct tachy_net_worker *w, struct tachy_net *n)
{
    struct tachy_preprocess_params p = n->card->in;
    w->net = n;
    w->engine = n->first;
    n->first = NULL;
    p.log = n->engine.log;
    int err = w->engine ? TACHY_OK : tachy_engine_open(&w->engine, &n->engine);
    if (err == TACHY_OK)
        err = tachy_preprocess_open(&w->preprocess, &p);
    if (err == TACHY_OK)
        err = open_tensors(w);
    return err == TACHY_OK ? open_decoders(w) : err;
}

void tachy_net_worker_close(struct tachy_net_worker *w)
{
    for (int i = 0; i < TACHY_MAX_DECODERS; i++)
        tachy_decoder_close(&w->decode[i]);
    for (int i = 0; i < w->nb_out; i++)
        tachy_tensor_free(&w->out[i]);
    tachy_tensor_free(&w->in);
    tachy_preprocess_close(&w->preprocess);
    tachy_engine_close(&w->engine);
}

int tachy_net_run(struct tachy_net_worker *w, const tachy_frame *f, const struct tachy_view *view,
                  struct tachy_region *about, struct tachy_regions *list)
{
    const struct tachy_card *c = w->net->card;
    struct tachy_decoder_frame d = {.out = w->out, .about = about};
    int err = tachy_preprocess_run(w->preprocess, f, view, &w->in, NULL);
    if (err == TACHY_OK)
        err = tachy_preprocess_map(&c->in, f->width, f->height, view, d.map);
    if (err == TACHY_OK)
        err = tachy_engine_run(w->engine, &w->in, w->out);
    for (int i = 0; i < c->n_decoders && err == TACHY_OK; i++)
        err = tachy_decoder_run(w->decode[i], &d, list);
    return err;
}
