#include "stage/infer_priv.h"

#include <stdlib.h>

// Per-stream state of a recurrent model: two buffers for each eye and each state of the card; the model reads one and
// writes the other, then they swap, and nothing is copied. If the engine runs on a device they are there:
// infer_state_cuda.c.

struct infer_state {
    const struct tachy_infer *in;
    int eyes;
    struct state_eye {
        void *now[TACHY_MAX_STATES], *next[TACHY_MAX_STATES];
        int32_t warm_up; // runs of the next picture before the one that counts
    } eye[TACHY_MAX_EYES];
};

void infer_state_begin(void *data, const struct tachy_infer_state *io)
{
    int64_t n = tachy_tensor_elements(&io->spec);
    if (io->start == 0)
        memset(data, 0, tachy_tensor_bytes(&io->spec));
    for (int64_t i = 0; i < n && io->start != 0; i++)
        ((float *)data)[i] = io->start;
}

void infer_state_reset(void *state, int eye)
{
    struct infer_state *st = state;
    for (int i = 0; i < st->in->nb_states; i++)
        infer_state_begin(st->eye[eye].now[i], &st->in->state[i]);
    st->eye[eye].warm_up = st->in->warm_up;
}

void infer_state_close(void *state)
{
    struct infer_state *st = state;
    if (!st)
        return;
    for (int e = 0; e < TACHY_MAX_EYES; e++) {
        for (int i = 0; i < TACHY_MAX_STATES; i++) {
            tachy_aligned_free(st->eye[e].now[i]);
            tachy_aligned_free(st->eye[e].next[i]);
        }
    }
    free(st);
}

int infer_state_open(struct tachy_stage *stage, void **state)
{
    const struct tachy_infer *in = tachy_infer_of(stage);
    *state = NULL;
    if (!in->nb_states)
        return TACHY_OK;
    struct infer_state *st = calloc(1, sizeof(*st));
    bool ok = st;
    for (int e = 0; e < stage->task->eyes && st; e++) {
        for (int i = 0; i < in->nb_states; i++) {
            size_t bytes = tachy_tensor_bytes(&in->state[i].spec);
            st->eye[e].now[i] = tachy_aligned_alloc(bytes);
            st->eye[e].next[i] = tachy_aligned_alloc(bytes);
            ok = ok && st->eye[e].now[i] && st->eye[e].next[i];
        }
    }
    if (!ok) {
        infer_state_close(st);
        return TACHY_ERR_NOMEM;
    }
    st->in = in;
    st->eyes = stage->task->eyes;
    for (int e = 0; e < st->eyes; e++)
        infer_state_reset(st, e);
    *state = st;
    return TACHY_OK;
}

size_t infer_state_bytes(const struct tachy_infer *in)
{
    size_t n = sizeof(int32_t);
    for (int i = 0; i < in->nb_states; i++)
        n += tachy_tensor_bytes(&in->state[i].spec);
    return n;
}

int infer_state_save(const void *state, void **data, size_t *size)
{
    const struct infer_state *st = state;
    *size = (size_t)st->eyes * infer_state_bytes(st->in);
    char *to = *data = malloc(*size);
    if (!to)
        return TACHY_ERR_NOMEM;
    for (int e = 0; e < st->eyes; e++) {
        memcpy(to, &st->eye[e].warm_up, sizeof(int32_t));
        to += sizeof(int32_t);
        for (int i = 0; i < st->in->nb_states; i++) {
            size_t n = tachy_tensor_bytes(&st->in->state[i].spec);
            memcpy(to, st->eye[e].now[i], n);
            to += n;
        }
    }
    return TACHY_OK;
}

int infer_state_load(void *state, const void *data, size_t size)
{
    struct infer_state *st = state;
    const char *from = data;
    if (size != (size_t)st->eyes * infer_state_bytes(st->in))
        return TACHY_ERR_FORMAT;
    for (int e = 0; e < st->eyes; e++) {
        memcpy(&st->eye[e].warm_up, from, sizeof(int32_t));
        from += sizeof(int32_t);
        for (int i = 0; i < st->in->nb_states; i++) {
            size_t n = tachy_tensor_bytes(&st->in->state[i].spec);
            memcpy(st->eye[e].now[i], from, n);
            from += n;
        }
    }
    return TACHY_OK;
}

static int run_once(struct infer_engine *engine, const struct infer_state *st, struct state_eye *e)
{
    struct infer_tensors *t = &engine->tensors;
    for (int i = 0; i < st->in->nb_states; i++) {
        t->in[st->in->state[i].in].data = e->now[i];
        t->out[st->in->state[i].out].data = e->next[i];
    }
    int err = tachy_engine_run(engine->engine, t->in, t->out);
    for (int i = 0; i < st->in->nb_states && err == TACHY_OK; i++) {
        void *old = e->now[i];
        e->now[i] = e->next[i];
        e->next[i] = old;
    }
    return err;
}

int infer_state_run(struct infer_engine *engine, void *state, int region)
{
    struct infer_state *st = state;
    struct state_eye *e = &st->eye[region];
    int err = TACHY_OK;
    for (; e->warm_up > 0 && err == TACHY_OK; e->warm_up--)
        err = run_once(engine, st, e);
    return err == TACHY_OK ? run_once(engine, st, e) : err;
}
