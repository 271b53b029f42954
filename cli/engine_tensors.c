#include "engine.h"

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

// What a picture has: most of its energy in coarse shapes, some at every scale down to a pixel, in each
// channel its own. Octaves of noise, each on a grid of twice the cells and of 0.6 times the height.
enum { OCTAVES = 6 };

static double noise(uint32_t x, uint32_t y, uint32_t channel, uint32_t octave)
{
    uint32_t h = x * 0x9e3779b1u ^ y * 0x85ebca77u ^ channel * 0xc2b2ae3du ^ octave * 0x27d4eb2fu;
    h = (h ^ h >> 15) * 0x2c1b3c6du;
    h = (h ^ h >> 12) * 0x297a2d39u;
    return (double)(h ^ h >> 15) / 4294967295.0;
}

// The noise of a grid between its four corners.
static double between(double x, double y, uint32_t channel, uint32_t octave)
{
    uint32_t left = (uint32_t)x, top = (uint32_t)y;
    double u = x - left, v = y - top;
    double upper = noise(left, top, channel, octave) * (1 - u) + noise(left + 1, top, channel, octave) * u;
    double lower = noise(left, top + 1, channel, octave) * (1 - u) + noise(left + 1, top + 1, channel, octave) * u;
    return upper * (1 - v) + lower * v;
}

// Of a pixel at (x, y), both from 0 to 1.
static float picture(double x, double y, uint32_t channel)
{
    double sum = 0, height = 1, all = 0;
    for (uint32_t octave = 0; octave < OCTAVES; octave++, height *= 0.6) {
        double cells = (double)(3u << octave);
        sum += height * between(x * cells, y * cells, channel, octave);
        all += height;
    }
    return (float)(sum / all);
}

// Rows, columns and channels of a tensor: of a picture in either order, else one row.
struct extent {
    int64_t rows, columns, channels;
    bool last; // channels last
};

static struct extent extent_of(const struct tachy_tensor *t)
{
    const int64_t *s = t->shape;
    if (t->rank < 3)
        return (struct extent){1, tachy_tensor_elements(t), 1, false};
    const int64_t *end = s + t->rank - 3;
    bool last = end[2] <= 4 && end[0] > 4;
    return last ? (struct extent){end[0], end[1], end[2], true} : (struct extent){end[1], end[2], end[0], false};
}

static float pattern(const struct extent *e, int64_t i)
{
    int64_t pixels = e->rows * e->columns, pixel = e->last ? i / e->channels % pixels : i % pixels;
    int64_t channel = e->last ? i % e->channels : i / pixels;
    return picture((double)(pixel % e->columns) / (double)e->columns,
                   (double)(pixel / e->columns) / (double)e->rows, (uint32_t)channel);
}

static void fill(struct tachy_tensor *t)
{
    int64_t n = tachy_tensor_elements(t);
    struct extent e = extent_of(t);
    float *f = t->data;
    uint8_t *u = t->data;
    for (int64_t i = 0; i < n; i++) {
        float v = pattern(&e, i);
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
