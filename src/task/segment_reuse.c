#include "task/segment.h"

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
    const struct segment_eye *e = &((struct segment_item *)item->priv)->eye[eye];
    int err = kept_size(k, &item->result.mask[eye], e->guide != NULL);
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
    if (err < 0)
        return err;
    size_t n = (size_t)e->width * (size_t)e->height;
    memcpy(e->mask, k->mask, n);
    if (e->guide)
        memcpy(e->guide, k->guide, n);
    item->result.eyes = t->eyes;
    item->result.mask[eye] = k->as;
    item->result.mask[eye].data = e->mask;
    return TACHY_OK;
}
