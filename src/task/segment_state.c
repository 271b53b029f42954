#include "task/segment_gpu.h"

#include <stdlib.h>

// What a recurrent model keeps of a stream: for each eye and each state of the model's card two buffers, of
// which the model reads one and writes the other; then they change places, and nothing is copied. Where the
// engine runs on a device they are there, segment_gpu_state.c.

struct segment_state {
    const struct segment *s;
    struct segment_gpu_state *gpu; // NULL: on the host
    int eyes;
    struct state_eye {
        void *now[TACHY_MAX_STATES], *next[TACHY_MAX_STATES];
    } eye[TACHY_MAX_EYES];
};

struct segment_gpu_state *segment_state_gpu(void *state) { return ((struct segment_state *)state)->gpu; }

void segment_state_begin(void *data, const struct segment_state_io *io)
{
    int64_t n = tachy_tensor_elements(&io->spec);
    if (io->start == 0)
        memset(data, 0, tachy_tensor_bytes(&io->spec));
    for (int64_t i = 0; i < n && io->start != 0; i++)
        ((float *)data)[i] = io->start;
}

void segment_state_reset(void *state, int eye)
{
    struct segment_state *st = state;
    if (st->gpu)
        segment_gpu_state_reset(st->gpu, eye);
    for (int i = 0; i < st->s->nb_states && !st->gpu; i++)
        segment_state_begin(st->eye[eye].now[i], &st->s->state[i]);
}

void segment_state_close(void *state)
{
    struct segment_state *st = state;
    segment_gpu_state_close(&st->gpu);
    for (int e = 0; e < TACHY_MAX_EYES; e++) {
        for (int i = 0; i < TACHY_MAX_STATES; i++) {
            tachy_aligned_free(st->eye[e].now[i]);
            tachy_aligned_free(st->eye[e].next[i]);
        }
    }
    free(st);
}

int segment_state_open(tachy_task *t, void **state)
{
    struct segment_state *st = calloc(1, sizeof(*st));
    *state = NULL;
    if (!st)
        return TACHY_ERR_NOMEM;
    st->s = t->shared;
    st->eyes = t->eyes;
    bool there = st->s->only_queues, ok = true;
    int err = there ? segment_gpu_state_open(&st->gpu, t) : TACHY_OK;
    for (int e = 0; e < t->eyes && !there; e++) {
        for (int i = 0; i < st->s->nb_states; i++) {
            size_t bytes = tachy_tensor_bytes(&st->s->state[i].spec);
            st->eye[e].now[i] = tachy_aligned_alloc(bytes);
            st->eye[e].next[i] = tachy_aligned_alloc(bytes);
            ok = ok && st->eye[e].now[i] && st->eye[e].next[i];
        }
    }
    if (err < 0 || !ok) {
        segment_state_close(st);
        return err < 0 ? err : TACHY_ERR_NOMEM;
    }
    for (int e = 0; e < t->eyes; e++)
        segment_state_reset(st, e);
    *state = st;
    return TACHY_OK;
}

// Bytes of an eye's states.
size_t segment_state_bytes(const struct segment *s)
{
    size_t n = 0;
    for (int i = 0; i < s->nb_states; i++)
        n += tachy_tensor_bytes(&s->state[i].spec);
    return n;
}

int segment_state_save(const void *state, void **data, size_t *size)
{
    const struct segment_state *st = state;
    *size = (size_t)st->eyes * segment_state_bytes(st->s);
    char *to = *data = malloc(*size);
    if (!to)
        return TACHY_ERR_NOMEM;
    if (st->gpu) {
        int err = segment_gpu_state_save(st->gpu, to);
        if (err < 0) {
            free(*data);
            *data = NULL;
        }
        return err;
    }
    for (int e = 0; e < st->eyes; e++) {
        for (int i = 0; i < st->s->nb_states; i++) {
            size_t n = tachy_tensor_bytes(&st->s->state[i].spec);
            memcpy(to, st->eye[e].now[i], n);
            to += n;
        }
    }
    return TACHY_OK;
}

int segment_state_load(void *state, const void *data, size_t size)
{
    struct segment_state *st = state;
    const char *from = data;
    if (size != (size_t)st->eyes * segment_state_bytes(st->s))
        return TACHY_ERR_FORMAT;
    if (st->gpu)
        return segment_gpu_state_load(st->gpu, data);
    for (int e = 0; e < st->eyes; e++) {
        for (int i = 0; i < st->s->nb_states; i++) {
            size_t n = tachy_tensor_bytes(&st->s->state[i].spec);
            memcpy(st->eye[e].now[i], from, n);
            from += n;
        }
    }
    return TACHY_OK;
}

int segment_state_run(struct segment_worker *w, void *state, int eye)
{
    struct segment_state *st = state;
    struct segment_tensors *t = &w->size[SEGMENT_FULL].tensors;
    struct state_eye *e = &st->eye[eye];
    for (int i = 0; i < w->s->nb_states; i++) {
        t->in[w->s->state[i].in].data = e->now[i];
        t->out[w->s->state[i].out].data = e->next[i];
    }
    int err = tachy_engine_run(w->size[SEGMENT_FULL].engine, t->in, t->out);
    for (int i = 0; i < w->s->nb_states && err == TACHY_OK; i++) {
        void *old = e->now[i];
        e->now[i] = e->next[i];
        e->next[i] = old;
    }
    return err;
}
