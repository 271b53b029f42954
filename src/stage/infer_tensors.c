#include "stage/infer_priv.h"

#include <stdlib.h>

enum { ALIGN = 64 }; // of an output in an item's memory, bytes

// A free extent is what the card says, or the batch; of any input but the picture it is 1.
static void fix_extents(struct tachy_tensor *t, enum tachy_layout layout, int batch, int width,
                        int height)
{
    int first = layout == TACHY_NCHW ? t->rank - 2 : t->rank - 3; // of height, width
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] < 0)
            t->shape[i] = i == first ? height : i == first + 1 ? width : i == 0 ? batch : 1;
}

static struct tachy_tensor input_of(const struct tachy_infer_net *net, const struct tachy_io *io, int i, int batch)
{
    const struct tachy_card *c = net->card;
    struct tachy_tensor t = io[i].spec;
    bool picture = i == net->picture || i == net->plate || i == net->hole;
    fix_extents(&t, c->in.layout, picture ? batch : 1, picture ? c->in.width : 1, picture ? c->in.height : 1);
    return t;
}

static struct tachy_tensor output_of(const struct tachy_infer *in, const struct tachy_infer_net *net,
                                     const struct tachy_io *io, int i, int batch)
{
    const struct tachy_card *c = net->card;
    struct tachy_tensor t = io[i].spec;
    for (int k = 0; k < in->nb_states; k++)
        if (in->state[k].out == i)
            t = in->state[k].spec;
    fix_extents(&t, c->out_layout, batch, TACHY_DEF(c->out_width, c->in.width), TACHY_DEF(c->out_height, c->in.height));
    return t;
}

// The outputs that an item can hold: mask and foreground, or all that decoders may read.
static void keep_outputs(const struct tachy_infer *in, struct tachy_infer_net *net)
{
    net->kept = net->card->n_decoders ? (1u << net->nb_out) - 1 : 1u << net->output;
    if (net->foreground >= 0)
        net->kept |= 1u << net->foreground;
    for (int k = 0; k < in->nb_states; k++)
        net->kept &= ~(1u << in->state[k].out);
    for (int i = 0; i < net->nb_out; i++) {
        net->out_at[i] = net->out_bytes;
        if (net->kept >> i & 1)
            net->out_bytes += TACHY_ALIGN(tachy_tensor_bytes(&net->out[i].spec), (size_t)ALIGN);
    }
}

int infer_net_describe(const struct tachy_infer *in, struct tachy_infer_net *net)
{
    const struct tachy_card *c = net->card;
    const struct tachy_io *is, *os;
    bool named = true;
    net->nb_in = tachy_engine_inputs(net->first, &is);
    net->nb_out = tachy_engine_outputs(net->first, &os);
    net->plate = net->hole = -1;
    for (int i = 0; i < net->nb_in && net->nb_in > 1; i++) {
        net->picture = strcmp(is[i].name, c->input) ? net->picture : i;
        net->plate = *c->plate && !strcmp(is[i].name, c->plate) ? i : net->plate;
        net->hole = *c->hole && !strcmp(is[i].name, c->hole) ? i : net->hole;
    }
    net->foreground = -1;
    for (int i = 0; i < net->nb_out; i++) {
        net->output = c->output && *c->output && !strcmp(os[i].name, c->output) ? i : net->output;
        net->foreground = *c->foreground && !strcmp(os[i].name, c->foreground) ? i : net->foreground;
    }
    for (int i = 0; i < net->nb_in; i++) {
        net->in[i] = (struct tachy_io){strdup(is[i].name), input_of(net, is, i, 1)};
        named = named && net->in[i].name;
    }
    for (int i = 0; i < net->nb_out; i++) {
        net->out[i] = (struct tachy_io){strdup(os[i].name), output_of(in, net, os, i, 1)};
        named = named && net->out[i].name;
    }
    keep_outputs(in, net);
    return named ? TACHY_OK : TACHY_ERR_NOMEM;
}

void infer_net_free(struct tachy_infer_net *net)
{
    for (int i = 0; i < TACHY_MAX_IO; i++) {
        free((char *)(uintptr_t)net->in[i].name);
        free((char *)(uintptr_t)net->out[i].name);
    }
    tachy_engine_close(&net->first);
    tachy_engine_close(&net->batch);
    tachy_model_close(&net->model);
    memset(net, 0, sizeof(*net));
}

int infer_tensors_open(const struct tachy_infer *in, const struct tachy_infer_net *net, const tachy_engine *e, int batch,
                       struct infer_tensors *t)
{
    const struct tachy_io *is, *os;
    int n_in = tachy_engine_inputs(e, &is), n_out = tachy_engine_outputs(e, &os), err = TACHY_OK;
    for (; t->nb_in < n_in && err == TACHY_OK; t->nb_in++) {
        t->in[t->nb_in] = input_of(net, is, t->nb_in, batch);
        err = tachy_tensor_alloc(&t->in[t->nb_in]);
        t->own_in[t->nb_in] = err < 0 ? NULL : t->in[t->nb_in].data;
    }
    for (; t->nb_out < n_out && err == TACHY_OK; t->nb_out++) {
        t->out[t->nb_out] = output_of(in, net, os, t->nb_out, batch);
        err = tachy_tensor_alloc(&t->out[t->nb_out]);
        t->own_out[t->nb_out] = err < 0 ? NULL : t->out[t->nb_out].data;
    }
    for (int k = 0; k < in->nb_states && err == TACHY_OK; k++)
        memset(t->in[in->state[k].in].data, 0, tachy_tensor_bytes(&in->state[k].spec));
    return err;
}

void infer_tensors_free(struct infer_tensors *t)
{
    for (int i = 0; i < TACHY_MAX_IO; i++) {
        tachy_aligned_free(t->own_in[i]);
        tachy_aligned_free(t->own_out[i]);
    }
    memset(t, 0, sizeof(*t));
}

static void *own_output(const struct tachy_infer_net *net, const struct infer_region *r, int i)
{
    return r->out && net->kept >> i & 1 ? (char *)r->out + net->out_at[i] : NULL;
}

void infer_tensors_bind(struct infer_engine *e, const struct infer_region *r)
{
    struct infer_tensors *t = &e->tensors;
    for (int i = 0; i < t->nb_in; i++)
        t->in[i].data = !r->by && i == e->net->picture ? r->in : t->own_in[i];
    for (int i = 0; i < t->nb_out; i++)
        t->out[i].data = !r->by && e->net->kept >> i & 1 ? own_output(e->net, r, i) : t->own_out[i];
}

int infer_region_ensure(const struct tachy_infer *in, struct infer_region *r)
{
    size_t from = 0, to = 0;
    for (int i = 0; i < TACHY_INFER_SIZES; i++) {
        const struct tachy_infer_net *net = &in->net[i];
        if (!net->card)
            continue;
        from = TACHY_MAX(from, tachy_tensor_bytes(&net->in[net->picture].spec));
        to = TACHY_MAX(to, net->out_bytes);
    }
    if (!r->in)
        r->in = tachy_aligned_alloc(from);
    if (!r->out)
        r->out = tachy_aligned_alloc(to);
    return r->in && r->out ? TACHY_OK : TACHY_ERR_NOMEM;
}

void tachy_infer_output(const struct tachy_infer *in, const struct tachy_piece *p, struct tachy_infer_output *o)
{
    const struct infer_region *r = infer_region_of(in, p);
    const struct tachy_infer_net *net = &in->net[r->size];
    o->size = r->size;
    o->nb_out = net->nb_out;
    o->at = r->placement;
    o->picture = net->in[net->picture].spec;
    o->picture.data = r->by ? r->by->tensors.own_in[net->picture] : r->in;
    for (int i = 0; i < net->nb_out; i++) {
        o->out[i] = net->out[i].spec;
        o->out[i].data = r->by ? r->by->tensors.out[i].data : own_output(net, r, i);
    }
}
