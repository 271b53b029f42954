#include "engine.h"

void engine_tensors_free(struct engine_tensors *t)
{
    for (int i = 0; i < TACHY_MAX_IO; i++) {
        tachy_tensor_free(&t->in[i]);
        tachy_tensor_free(&t->out[i]);
    }
}

static int make(struct tachy_tensor *t, const struct tachy_io *io, int batch)
{
    *t = io->spec;
    if (t->rank && t->shape[0] < 0)
        t->shape[0] = batch;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] < 0) {
            message_error("`%s` has a free dimension besides the batch, whose size a measurement must know", io->name);
            return TACHY_ERR_UNSUPPORTED;
        }
    return tachy_tensor_alloc(t);
}

int engine_tensors(struct engine_tensors *t, const tachy_engine *e, int batch)
{
    const struct tachy_io *in, *out;
    *t = (struct engine_tensors){0};
    t->n_in = tachy_engine_inputs(e, &in);
    t->n_out = tachy_engine_outputs(e, &out);
    if (t->n_in && in[0].spec.rank && in[0].spec.shape[0] > 0 && in[0].spec.shape[0] != batch) {
        message_error("the model fixes its batch at %lld", (long long)in[0].spec.shape[0]);
        return TACHY_ERR_UNSUPPORTED;
    }
    int err = TACHY_OK;
    for (int i = 0; i < t->n_in && !err; i++) {
        err = make(&t->in[i], &in[i], batch);
        if (!err)
            tachy_tensor_pattern(&t->in[i], TACHY_PATTERN_PICTURE);
    }
    for (int i = 0; i < t->n_out && !err; i++)
        err = make(&t->out[i], &out[i], batch);
    return err;
}
