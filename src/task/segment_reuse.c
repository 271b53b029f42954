#include "task/segment_gpu.h"

#include <stdlib.h>

// Results that later frames may take over.
struct kept {
    struct kept_eye {
        uint8_t *mask, *guide; // guide NULL where nobody needs it
        struct tachy_mask as;
    } eye[TACHY_MAX_EYES];
};

void segment_kept_close(void *state)
{
    struct kept *k = state;
    for (int e = 0; e < TACHY_MAX_EYES; e++) {
        tachy_aligned_free(k->eye[e].mask);
        tachy_aligned_free(k->eye[e].guide);
    }
    free(k);
}

static int kept_size(struct kept_eye *k, const struct tachy_mask *m, bool guide)
{
    size_t n = (size_t)m->width * (size_t)m->height;
    if (k->as.width != m->width || k->as.height != m->height) {
        tachy_aligned_free(k->mask);
        tachy_aligned_free(k->guide);
        k->mask = tachy_aligned_alloc(n);
        k->guide = guide ? tachy_aligned_alloc(n) : NULL;
    }
    k->as = *m;
    return k->mask && (k->guide || !guide) ? TACHY_OK : TACHY_ERR_NOMEM;
}

int segment_keep(const tachy_task *t, void **kept, const struct tachy_item *item, int eye)
{
    if (!*kept && !(*kept = calloc(1, sizeof(struct kept))))
        return TACHY_ERR_NOMEM;
    struct kept_eye *k = &((struct kept *)*kept)->eye[eye];
    struct segment_eye *e = &((struct segment_item *)item->priv)->eye[eye];
    int err = segment_gpu_settle(e);
    if (err == TACHY_OK)
        err = segment_gpu_guide_settle(e);
    if (err == TACHY_OK)
        err = kept_size(k, &item->result.mask[eye], e->guide != NULL);
    if (err < 0)
        return err;
    size_t n = (size_t)e->width * (size_t)e->height;
    memcpy(k->mask, e->mask, n);
    if (e->guide)
        memcpy(k->guide, e->guide, n);
    return TACHY_OK;
}

int segment_reuse(const tachy_task *t, const void *kept, struct tachy_item *item, int eye)
{
    const struct segment *s = (const void *)t->priv;
    if (!kept)
        return TACHY_ERR_STATE;
    const struct kept_eye *k = &((const struct kept *)kept)->eye[eye];
    struct segment_eye *e = &((struct segment_item *)item->priv)->eye[eye];
    int err = k->mask ? segment_ensure_eye(s, e, k->as.width, k->as.height) : TACHY_ERR_STATE;
    if (err == TACHY_OK)
        err = segment_gpu_settle(e); // what an earlier frame copies there
    if (err < 0)
        return err;
    size_t n = (size_t)e->width * (size_t)e->height;
    memcpy(e->mask, k->mask, n);
    segment_gpu_touched(e);
    if (e->guide)
        memcpy(e->guide, k->guide, n);
    item->result.eyes = t->eyes;
    item->result.mask[eye] = k->as;
    item->result.mask[eye].data = e->mask;
    return TACHY_OK;
}

// In front of each eye's mask and guide; width 0: nothing is kept of it.
struct saved_eye {
    int32_t width, height, guide;
    struct tachy_rect region;
};

int segment_kept_save(const tachy_task *t, const void *kept, void **data, size_t *size)
{
    static const struct kept none;
    const struct kept *k = kept ? kept : &none;
    *size = 0;
    for (int e = 0; e < t->eyes; e++) {
        const struct kept_eye *eye = &k->eye[e];
        size_t n = (size_t)eye->as.width * (size_t)eye->as.height;
        *size += sizeof(struct saved_eye) + (eye->mask ? n : 0) + (eye->guide ? n : 0);
    }
    char *to = *data = calloc(1, *size);
    if (!to)
        return TACHY_ERR_NOMEM;
    for (int e = 0; e < t->eyes; e++) {
        const struct kept_eye *eye = &k->eye[e];
        struct saved_eye head = {0};
        if (eye->mask)
            head = (struct saved_eye){eye->as.width, eye->as.height, eye->guide != NULL, eye->as.region};
        size_t n = (size_t)head.width * (size_t)head.height;
        memcpy(to, &head, sizeof(head));
        to += sizeof(head);
        if (n)
            memcpy(to, eye->mask, n);
        to += n;
        if (head.guide)
            memcpy(to, eye->guide, n);
        to += head.guide ? n : 0;
    }
    return TACHY_OK;
}

static int load_eye(struct kept_eye *k, const char **from, size_t *left)
{
    struct saved_eye head;
    if (*left < sizeof(head))
        return TACHY_ERR_FORMAT;
    memcpy(&head, *from, sizeof(head));
    *from += sizeof(head);
    *left -= sizeof(head);
    if (!head.width)
        return TACHY_OK;
    if (head.width < 0 || head.height <= 0)
        return TACHY_ERR_FORMAT;
    size_t n = (size_t)head.width * (size_t)head.height, all = head.guide ? 2 * n : n;
    struct tachy_mask as = {
        .width = head.width, .height = head.height, .stride = head.width, .region = head.region};
    int err = *left < all ? TACHY_ERR_FORMAT : kept_size(k, &as, head.guide);
    if (err < 0)
        return err;
    memcpy(k->mask, *from, n);
    if (head.guide)
        memcpy(k->guide, *from + n, n);
    *from += all;
    *left -= all;
    return TACHY_OK;
}

int segment_kept_load(const tachy_task *t, void **kept, const void *data, size_t size)
{
    struct kept *k = *kept = calloc(1, sizeof(*k));
    const char *from = data;
    int err = k ? TACHY_OK : TACHY_ERR_NOMEM;
    for (int e = 0; e < t->eyes && err == TACHY_OK; e++)
        err = load_eye(&k->eye[e], &from, &size);
    return err == TACHY_OK && size ? TACHY_ERR_FORMAT : err;
}
