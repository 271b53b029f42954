#include "stage/mask_states.h"

#include <stdlib.h>

struct states {
    const struct tachy_mask_states_ops *ops;
    const void *priv;
    struct eye {
        void *object; // NULL before the first mask
        int width, height;
    } eye[TACHY_MAX_EYES];
};

int tachy_mask_states_open(const struct tachy_mask_states_ops *ops, const void *priv, void **state)
{
    struct states *s = *state = calloc(1, sizeof(*s));
    if (!s)
        return TACHY_ERR_NOMEM;
    s->ops = ops;
    s->priv = priv;
    return TACHY_OK;
}

static void close_eye(const struct states *s, struct eye *e)
{
    if (e->object)
        s->ops->close(&e->object);
    e->object = NULL;
}

void tachy_mask_states_close(void *state)
{
    struct states *s = state;
    for (int i = 0; i < TACHY_MAX_EYES; i++)
        close_eye(s, &s->eye[i]);
    free(s);
}

int tachy_mask_states_get(void *state, int eye, int width, int height, void **object)
{
    struct states *s = state;
    struct eye *e = &s->eye[eye];
    int err = TACHY_OK;
    if (!e->object || e->width != width || e->height != height) {
        close_eye(s, e);
        e->width = width;
        e->height = height;
        err = s->ops->open(&e->object, width, height, s->priv);
    }
    *object = e->object;
    return err;
}

// Before each eye's bytes; width 0: it has none.
struct saved {
    int32_t width, height;
};

int tachy_mask_states_save(const void *state, void **data, size_t *size)
{
    const struct states *s = state;
    *size = 0;
    for (int i = 0; i < TACHY_MAX_EYES; i++)
        *size += sizeof(struct saved) + (s->eye[i].object ? s->ops->size(s->eye[i].object) : 0);
    uint8_t *to = *data = malloc(*size);
    if (!to)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < TACHY_MAX_EYES; i++) {
        const struct eye *e = &s->eye[i];
        struct saved head = {e->object ? e->width : 0, e->object ? e->height : 0};
        memcpy(to, &head, sizeof(head));
        to += sizeof(head);
        if (!e->object)
            continue;
        s->ops->save(e->object, to);
        to += s->ops->size(e->object);
    }
    return TACHY_OK;
}

int tachy_mask_states_load(void *state, const void *data, size_t size)
{
    struct states *s = state;
    const uint8_t *from = data, *end = from + size;
    for (int i = 0; i < TACHY_MAX_EYES; i++) {
        struct saved head;
        void *object;
        if ((size_t)(end - from) < sizeof(head))
            return TACHY_ERR_FORMAT;
        memcpy(&head, from, sizeof(head));
        from += sizeof(head);
        if (!head.width)
            continue;
        int err = tachy_mask_states_get(s, i, head.width, head.height, &object);
        size_t n = err < 0 ? 0 : s->ops->size(object);
        if (err == TACHY_OK)
            err = (size_t)(end - from) < n ? TACHY_ERR_FORMAT : s->ops->load(object, from, n);
        if (err < 0)
            return err;
        from += n;
    }
    return from == end ? TACHY_OK : TACHY_ERR_FORMAT;
}
