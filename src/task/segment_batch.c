#include "task/segment_gpu.h"

#include <stdlib.h>

// Batches: an item carries the model's input and output of each eye; an engine of its own takes
// the inputs of several items side by side.

struct segment_batch {
    int most; // first: see struct segment_worker
    tachy_engine *engine;
    struct segment_tensors tensors;
    uint64_t counted_ns;
    size_t in_bytes, out_bytes; // of one picture
};

static int ensure_tensors(struct segment_eye *e, size_t in_bytes, size_t out_bytes)
{
    if (!e->in)
        e->in = tachy_aligned_alloc(in_bytes);
    if (!e->out)
        e->out = tachy_aligned_alloc(out_bytes);
    return e->in && e->out ? TACHY_OK : TACHY_ERR_NOMEM;
}

static struct segment_eye *eye_of(const struct tachy_item *item, int eye)
{
    return &((struct segment_item *)item->priv)->eye[eye];
}

int segment_batch_input(const struct segment_worker *w, struct tachy_item *item, int eye, struct tachy_tensor *in)
{
    struct segment_eye *e = eye_of(item, eye);
    const struct segment_tensors *t = &w->size[SEGMENT_FULL].tensors;
    *in = t->in[t->picture];
    int err = ensure_tensors(e, tachy_tensor_bytes(in), tachy_tensor_bytes(&t->out[t->mask]));
    in->data = e->in;
    return err;
}

struct tachy_tensor segment_batch_output(const struct segment_worker *w, const struct tachy_item *item, int eye)
{
    const struct segment_tensors *t = &w->size[SEGMENT_FULL].tensors;
    struct tachy_tensor out = t->out[t->mask];
    out.data = eye_of(item, eye)->out;
    return out;
}

void segment_batch_close(void *engine)
{
    struct segment_batch *b = engine;
    tachy_engine_close(&b->engine);
    segment_tensors_free(&b->tensors);
    free(b);
}

uint64_t segment_batch_transfer_ns(const void *engine)
{
    return tachy_engine_transfer_ns(((const struct segment_batch *)engine)->engine);
}

uint64_t *segment_batch_counted(void *engine) { return &((struct segment_batch *)engine)->counted_ns; }

// The model's tensors for `most` pictures.
static int open_tensors(struct segment_batch *b, const tachy_task *t)
{
    const struct segment *s = t->shared;
    int err = segment_tensors_open(s, &s->net[SEGMENT_FULL], b->engine, b->most, &b->tensors);
    if (err < 0)
        return err;
    const struct tachy_tensor *in = &b->tensors.in[b->tensors.picture];
    const struct tachy_tensor *out = &b->tensors.out[b->tensors.mask];
    if (in->shape[0] != b->most || out->shape[0] != b->most)
        return TACHY_ERR_MISMATCH;
    b->in_bytes = tachy_tensor_bytes(in) / (size_t)b->most;
    b->out_bytes = tachy_tensor_bytes(out) / (size_t)b->most;
    memset(in->data, 0, tachy_tensor_bytes(in));
    return TACHY_OK;
}

int segment_batch_open(tachy_task *t, int most, void **engine)
{
    const struct segment *s = t->shared;
    struct segment_batch *b = calloc(1, sizeof(*b));
    *engine = NULL;
    if (!b)
        return TACHY_ERR_NOMEM;
    b->most = most;
    int err = segment_open_engine(t, &s->net[SEGMENT_FULL], most, 0, &b->engine);
    if (err == TACHY_OK)
        err = open_tensors(b, t);
    if (err < 0) {
        segment_batch_close(b);
        return err;
    }
    *engine = b;
    return TACHY_OK;
}

int segment_batch_model(void *engine, const struct tachy_piece pieces[], int n)
{
    struct segment_batch *b = engine;
    struct segment_tensors *t = &b->tensors;
    char *in = t->in[t->picture].data;
    for (int i = 0; i < n; i++)
        memcpy(in + (size_t)i * b->in_bytes, eye_of(pieces[i].item, pieces[i].region)->in, b->in_bytes);
    int err = tachy_engine_run(b->engine, t->in, t->out); // the rest is what was there: padding
    const char *out = t->out[t->mask].data;
    for (int i = 0; i < n && err == TACHY_OK; i++)
        memcpy(eye_of(pieces[i].item, pieces[i].region)->out, out + (size_t)i * b->out_bytes, b->out_bytes);
    return err;
}
