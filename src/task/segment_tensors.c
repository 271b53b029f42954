#include "task/segment.h"

// A free extent of the model is what the card says, or the batch.
static void fix_extents(struct tachy_tensor *t, enum tachy_layout layout, int batch, int width,
                        int height)
{
    int first = layout == TACHY_NCHW ? t->rank - 2 : t->rank - 3; // of height, width
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] < 0)
            t->shape[i] = i == first ? height : i == first + 1 ? width : i == 0 ? batch : 1;
}

static int tensor_open(struct tachy_tensor *t, void **own, enum tachy_layout layout, int batch,
                       int width, int height)
{
    fix_extents(t, layout, batch, width, height);
    int err = tachy_tensor_alloc(t);
    *own = err < 0 ? NULL : t->data;
    return err;
}

// A free extent of any input but the picture is 1.
int segment_tensors_open(const struct segment *s, const struct segment_net *net, const tachy_engine *e,
                         int batch, struct segment_tensors *t)
{
    const struct tachy_card *c = net->card;
    const struct tachy_io *is, *os;
    int n_in = tachy_engine_inputs(e, &is), n_out = tachy_engine_outputs(e, &os), err = TACHY_OK;
    for (int i = 0; i < n_in && n_in > 1; i++)
        t->picture = strcmp(is[i].name, c->input) ? t->picture : i;
    for (; t->nb_in < n_in && err == TACHY_OK; t->nb_in++) {
        int i = t->nb_in;
        bool picture = i == t->picture;
        t->in[i] = is[i].spec;
        err = tensor_open(&t->in[i], &t->own_in[i], c->in.layout, picture ? batch : 1,
                          picture ? c->in.width : 1, picture ? c->in.height : 1);
    }
    for (; t->nb_out < n_out && err == TACHY_OK; t->nb_out++) {
        int i = t->nb_out;
        t->out[i] = os[i].spec;
        for (int k = 0; k < s->nb_states; k++)
            if (s->state[k].out == i)
                t->out[i] = s->state[k].spec;
        err = tensor_open(&t->out[i], &t->own_out[i], c->out_layout, batch,
                          TACHY_DEF(c->out_width, c->in.width), TACHY_DEF(c->out_height, c->in.height));
        if (c->output && *c->output && !strcmp(os[i].name, c->output))
            t->mask = i;
    }
    for (int k = 0; k < s->nb_states && err == TACHY_OK; k++)
        memset(t->in[s->state[k].in].data, 0, tachy_tensor_bytes(&s->state[k].spec));
    return err;
}

void segment_tensors_free(struct segment_tensors *t)
{
    for (int i = 0; i < TACHY_MAX_IO; i++) {
        tachy_aligned_free(t->own_in[i]);
        tachy_aligned_free(t->own_out[i]);
    }
    memset(t, 0, sizeof(*t));
}
