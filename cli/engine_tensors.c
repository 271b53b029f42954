#include "engine.h"

#include <math.h>
#include <stdint.h>

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

// Smooth as a picture is, so that deep layers see more than noise; the noise is a linear congruential
// generator's.
static float pattern(int64_t i, uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    double noise = (double)(*seed >> 8) / (1 << 24);
    return (float)(0.45 + 0.25 * sin((double)i * 0.0083) + 0.2 * cos((double)i * 0.000031) + 0.1 * noise);
}

static void fill(struct tachy_tensor *t)
{
    int64_t n = tachy_tensor_elements(t);
    uint32_t seed = 1;
    float *f = t->data;
    uint8_t *u = t->data;
    for (int64_t i = 0; i < n; i++) {
        float v = pattern(i, &seed);
        if (t->dtype == TACHY_F32)
            f[i] = v;
        else if (t->dtype == TACHY_U8)
            u[i] = (uint8_t)(255 * v);
    }
    if (t->dtype != TACHY_F32 && t->dtype != TACHY_U8)
        for (size_t i = 0; i < tachy_tensor_bytes(t); i++)
            u[i] = 0;
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
            fill(&t->in[i]);
    }
    for (int i = 0; i < t->n_out && !err; i++)
        err = make(&t->out[i], &out[i], batch);
    return err;
}
