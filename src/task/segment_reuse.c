#include "task/segment_gpu.h"

#include <stdlib.h>

// Results that later frames take over: masks and guides.

static struct segment_eye *eye_of(const struct tachy_item *item, int eye)
{
    return &((struct segment_item *)item->priv)->eye[eye];
}

// Room in an item for a mask like `m`, which nobody copies to any more.
static int room_for(const struct segment *s, struct tachy_item *item, int eye, const struct tachy_mask *m)
{
    struct segment_eye *e = eye_of(item, eye);
    int err = segment_ensure_eye(s, e, m->width, m->height);
    if (err == TACHY_OK)
        err = segment_gpu_sync(e);
    item->result.mask[eye] = *m;
    item->result.mask[eye].data = e->mask;
    return err;
}

int segment_copy(struct tachy_stage *st, struct tachy_item *to, const struct tachy_item *from, int eye)
{
    const struct segment *s = st->task->shared;
    struct segment_eye *f = eye_of(from, eye), *t = eye_of(to, eye);
    int err = f->mask ? segment_gpu_sync(f) : TACHY_ERR_STATE;
    if (err == TACHY_OK)
        err = segment_gpu_guide_sync(f);
    if (err == TACHY_OK)
        err = room_for(s, to, eye, &from->result.mask[eye]);
    if (err < 0)
        return err;
    size_t n = (size_t)f->width * (size_t)f->height;
    memcpy(t->mask, f->mask, n);
    segment_gpu_touched(t);
    if (f->guide)
        memcpy(t->guide, f->guide, n);
    to->result.eyes = st->task->eyes;
    return TACHY_OK;
}

// In front of each eye's mask and guide; width 0: nothing is kept of it.
struct saved_eye {
    int32_t width, height, guide;
    struct tachy_rect region;
};

int segment_copy_save(struct tachy_stage *st, const struct tachy_item *from, void **data, size_t *size)
{
    *size = 0;
    for (int i = 0; i < st->task->eyes; i++) {
        const struct segment_eye *e = eye_of(from, i);
        size_t n = e->mask ? (size_t)e->width * (size_t)e->height : 0;
        *size += sizeof(struct saved_eye) + (e->guide ? 2 * n : n);
    }
    char *to = *data = calloc(1, *size);
    if (!to)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < st->task->eyes; i++) {
        const struct segment_eye *e = eye_of(from, i);
        struct saved_eye head = {0};
        if (e->mask)
            head = (struct saved_eye){e->width, e->height, e->guide != NULL, from->result.mask[i].region};
        size_t n = (size_t)head.width * (size_t)head.height;
        memcpy(to, &head, sizeof(head));
        to += sizeof(head);
        if (n)
            memcpy(to, e->mask, n);
        to += n;
        if (head.guide)
            memcpy(to, e->guide, n);
        to += head.guide ? n : 0;
    }
    return TACHY_OK;
}

static int load_eye(const struct segment *s, struct tachy_item *to, int eye, const char **from, size_t *left)
{
    struct saved_eye head;
    if (*left < sizeof(head))
        return TACHY_ERR_FORMAT;
    memcpy(&head, *from, sizeof(head));
    *from += sizeof(head);
    *left -= sizeof(head);
    if (!head.width)
        return TACHY_OK;
    if (head.width < 0 || head.height <= 0 || !head.guide == segment_needs_guide(s))
        return TACHY_ERR_FORMAT;
    size_t n = (size_t)head.width * (size_t)head.height, all = head.guide ? 2 * n : n;
    struct tachy_mask as = {
        .width = head.width, .height = head.height, .stride = head.width, .region = head.region};
    int err = *left < all ? TACHY_ERR_FORMAT : room_for(s, to, eye, &as);
    if (err < 0)
        return err;
    struct segment_eye *e = eye_of(to, eye);
    memcpy(e->mask, *from, n);
    segment_gpu_touched(e);
    if (head.guide)
        memcpy(e->guide, *from + n, n);
    *from += all;
    *left -= all;
    return TACHY_OK;
}

int segment_copy_load(struct tachy_stage *st, struct tachy_item *to, const void *data, size_t size)
{
    const char *from = data;
    int err = TACHY_OK;
    for (int i = 0; i < st->task->eyes && err == TACHY_OK; i++)
        err = load_eye(st->task->shared, to, i, &from, &size);
    return err == TACHY_OK && size ? TACHY_ERR_FORMAT : err;
}
