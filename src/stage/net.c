#include "stage/net.h"

int tachy_net_open_model(struct tachy_infer *n, struct tachy_stage *st, const struct tachy_net_params *p,
                         const tachy_settings *s)
{
    int err = infer_open_model(n, st, p->name, p->card, s, p->optional ? NULL : st->task->log);
    if (err == TACHY_OK)
        err = infer_choose_fast(n, s);
    if (err < 0)
        return err;
    const struct tachy_card *c = n->net[TACHY_INFER_FULL].card;
    if (strcmp(c->task, p->task) || !c->n_decoders || c->n_states)
        return tachy_fail(st->task->log, TACHY_ERR_MISMATCH,
                          "model %s: its card says task \"%s\"; needed is one of task \"%s\" with `outputs`, without `state`",
                          c->name, c->task, p->task);
    return TACHY_OK;
}

int tachy_net_open(struct tachy_infer *n, struct tachy_stage *st, const struct tachy_net_params *p, const tachy_settings *s)
{
    int err = tachy_net_open_model(n, st, p, s);
    return err < 0 ? err : infer_open_first(n);
}

struct tachy_preprocess_params tachy_net_params_of(const struct tachy_infer *n)
{
    struct tachy_preprocess_params p = n->net[TACHY_INFER_FULL].card->in;
    p.log = n->st->task->log;
    return p;
}

int tachy_net_worker_open(struct tachy_net_worker *w, struct tachy_infer *n)
{
    struct tachy_infer_net *net = &n->net[TACHY_INFER_FULL];
    const struct tachy_card *c = net->card;
    const struct tachy_preprocess_params pp = tachy_net_params_of(n);
    int err = infer_engine_open(&w->run, n, net, &pp, 1);
    for (int i = 0; i < c->n_decoders && err == TACHY_OK; i++)
        err = tachy_decoder_open(&w->decode[i], c, &c->decoder[i], net->out, net->nb_out, 1, pp.log);
    return err;
}

void tachy_net_worker_close(struct tachy_net_worker *w)
{
    for (int i = 0; i < TACHY_MAX_DECODERS; i++)
        tachy_decoder_close(&w->decode[i]);
    infer_engine_close(&w->run);
}

int tachy_net_decode(struct tachy_net_worker *w, const struct tachy_tensor out[], const tachy_frame *f,
                     const struct tachy_view *view, struct tachy_region *about, struct tachy_regions *list)
{
    const struct tachy_card *c = w->run.net->card;
    struct tachy_decoder_frame d = {.out = out, .about = about};
    int err = tachy_preprocess_map(&c->in, f->width, f->height, view, d.map);
    for (int i = 0; i < c->n_decoders && err == TACHY_OK; i++)
        err = tachy_decoder_run(w->decode[i], &d, list);
    return err;
}

int tachy_net_run(struct tachy_net_worker *w, const tachy_frame *f, const struct tachy_view *view,
                  struct tachy_region *about, struct tachy_regions *list)
{
    struct infer_tensors *t = &w->run.tensors;
    int err = tachy_preprocess_run(w->run.preprocess[0], f, view, &t->in[w->run.net->picture], NULL);
    if (err == TACHY_OK)
        err = tachy_engine_run(w->run.engine, t->in, t->out);
    return err < 0 ? err : tachy_net_decode(w, t->out, f, view, about, list);
}
