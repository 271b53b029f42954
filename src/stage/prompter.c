#include "stage/prompter.h"

#include "model/zoo.h"

#include <stdlib.h>

struct opening {
    struct prompter *p;
    const struct prompter_params *params;
    const struct tachy_card *card;
    const struct tachy_log *log;
    const struct tachy_io *in, *out;
    char *file;
};

static int mismatch(const struct opening *o, const char *what, const char *name)
{
    return tachy_fail(o->log, TACHY_ERR_MISMATCH, "%s: %s %.80s; `tachy model info %s` lists what the network has, `prompts` of its card "
                      "(model %s) says what is used", o->file, what, name, o->file, o->card->name);
}

static int find(const struct tachy_io *io, int n, const char *name)
{
    int i = 0;
    while (i < n && strcmp(io[i].name, name))
        i++;
    return i < n ? i : -1;
}

// The card's constants are part of the network: what it makes of an empty mask is computed once.
static int open_engine(struct opening *o)
{
    const struct prompter_params *of = o->params;
    const struct tachy_card_prompts *c = &o->card->prompts;
    const struct tachy_io shapes[] = {{c->points, {.rank = 3, .shape = {of->batch, of->points, 2}}},
                                      {c->labels, {.rank = 2, .shape = {of->batch, of->points}}}};
    struct tachy_engine_constant constant[TACHY_MAX_CONSTANTS];
    struct tachy_engine_params p = tachy_engine_setup_params(&of->net->setup);
    for (int i = 0; i < c->n_constants; i++)
        constant[i] = (struct tachy_engine_constant){c->constant[i].input, c->constant[i].value, c->constant[i].n};
    p.model_path = o->file;
    p.shapes = shapes;
    p.nb_shapes = 2;
    p.constants = constant;
    p.nb_constants = c->n_constants;
    p.settle = true;
    p.log = o->log;
    return tachy_engine_open(&o->p->engine, &p);
}

static int allocate(const struct opening *o, struct tachy_tensor *t, const struct tachy_io *io)
{
    *t = io->spec;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] < 0)
            return mismatch(o, "one picture leaves the size open of", io->name);
    return t->dtype == TACHY_F32 ? tachy_tensor_alloc(t) : mismatch(o, "other numbers than float32 are in", io->name);
}

static bool same_size(const struct tachy_tensor *a, const struct tachy_tensor *b)
{
    return a->dtype == b->dtype && tachy_tensor_elements(a) == tachy_tensor_elements(b);
}

static int take_inputs(struct opening *o)
{
    struct prompter *p = o->p;
    const struct infer_engine *encoder = &o->params->encoder->run;
    int err = TACHY_OK;
    for (; p->nb_in < tachy_engine_inputs(p->engine, &o->in) && err == TACHY_OK; p->nb_in++) {
        const struct tachy_io *io = &o->in[p->nb_in];
        int from = find(encoder->net->out, encoder->net->nb_out, io->name);
        p->in[p->nb_in] = io->spec;
        p->lent[p->nb_in] = from >= 0;
        if (from >= 0 && !same_size(&io->spec, &encoder->tensors.out[from]))
            err = mismatch(o, "has another size than the encoder's output, the input", io->name);
        else if (from >= 0)
            p->in[p->nb_in].data = encoder->tensors.out[from].data;
        else if (strcmp(io->name, o->card->prompts.points) && strcmp(io->name, o->card->prompts.labels))
            err = mismatch(o, "neither the card nor the encoder gives its input", io->name);
        else
            err = allocate(o, &p->in[p->nb_in], io);
    }
    return err;
}

static int take_outputs(struct opening *o)
{
    struct prompter *p = o->p;
    int err = TACHY_OK, n = tachy_engine_outputs(p->engine, &o->out);
    for (; p->nb_out < n && err == TACHY_OK; p->nb_out++)
        err = allocate(o, &p->out[p->nb_out], &o->out[p->nb_out]);
    return err;
}

static int describe(struct opening *o)
{
    struct prompter *p = o->p;
    const struct tachy_card_prompts *c = &o->card->prompts;
    int at = find(o->in, p->nb_in, c->points), label = find(o->in, p->nb_in, c->labels);
    int mask = find(o->out, p->nb_out, c->masks), score = find(o->out, p->nb_out, c->scores);
    if (at < 0 || label < 0)
        return mismatch(o, "has no input named", at < 0 ? c->points : c->labels);
    if (mask < 0 || score < 0)
        return mismatch(o, "has no output named", mask < 0 ? c->masks : c->scores);
    const struct tachy_tensor *m = &p->out[mask], *s = &p->out[score];
    if (m->rank != 4 || m->shape[0] != p->batch || m->shape[1] < 1 || m->shape[2] < 2 || m->shape[3] < 2 ||
        m->shape[2] * m->shape[3] > 1 << 24)
        return mismatch(o, "gives no mask of each prompt as", c->masks);
    if (tachy_tensor_elements(s) != p->batch * m->shape[1])
        return mismatch(o, "gives no score of each mask as", c->scores);
    p->ways = (int)m->shape[1];
    p->height = (int)m->shape[2];
    p->width = (int)m->shape[3];
    p->at = p->in[at].data;
    p->label = p->in[label].data;
    p->mask = m->data;
    p->score = s->data;
    return TACHY_OK;
}

int prompter_open(struct prompter *p, const struct prompter_params *params)
{
    const struct tachy_infer_net *net = &params->net->net[TACHY_INFER_FULL];
    struct opening o = {.p = p, .params = params, .card = net->card, .log = params->net->st->task->log};
    *p = (struct prompter){.batch = params->batch, .points = params->points};
    int err = tachy_model_part(net->model, CARD_PROMPTS, true, &o.file, o.log);
    if (err == TACHY_OK)
        err = open_engine(&o);
    if (err == TACHY_OK)
        err = take_inputs(&o);
    if (err == TACHY_OK)
        err = take_outputs(&o);
    if (err == TACHY_OK)
        err = describe(&o);
    free(o.file);
    return err;
}

void prompter_close(struct prompter *p)
{
    for (int i = 0; i < p->nb_in; i++)
        if (!p->lent[i])
            tachy_tensor_free(&p->in[i]);
    for (int i = 0; i < p->nb_out; i++)
        tachy_tensor_free(&p->out[i]);
    tachy_engine_close(&p->engine);
    *p = (struct prompter){0};
}

int prompter_run(struct prompter *p) { return tachy_engine_run(p->engine, p->in, p->out); }
