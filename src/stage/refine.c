#include "stage/composite.h"

#include <stdlib.h>

// Edge-guided upsampling, --refine: the coefficients that a composite or a line applies to the picture's luma. They are
// large, so they are made no sooner than what is written.

struct refine {
    struct tachy_masks *masks;
};

struct refine_item {
    struct refine_eye {
        float *coefficients; // a then b
        int width, height;
    } eye[TACHY_MAX_EYES];
};

static int open(struct tachy_stage *st, const tachy_settings *set)
{
    struct refine *r = tachy_stage_priv(st);
    if (!tachy_settings_bool(set, "segment.refine"))
        return TACHY_STAGE_LEFT_OUT;
    r->masks = tachy_masks_of(st);
    tachy_masks_guide(r->masks);
    return TACHY_OK;
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    const struct tachy_preprocess_params *in = &((struct refine *)tachy_stage_priv(st))->masks->infer->net[TACHY_INFER_FULL].card->in;
    st->item_bytes = (size_t)st->task->eyes * (size_t)in->width * (size_t)in->height * 2 * sizeof(float);
    return TACHY_OK;
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    *worker = calloc(1, sizeof(struct tachy_buf));
    return *worker ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void worker_close(void *worker)
{
    tachy_buf_free(worker);
    free(worker);
}

static int room(struct refine_eye *e, int width, int height)
{
    if (e->coefficients && e->width == width && e->height == height)
        return TACHY_OK;
    tachy_aligned_free(e->coefficients);
    e->coefficients = tachy_aligned_alloc(2 * (size_t)width * (size_t)height * sizeof(float));
    e->width = width;
    e->height = height;
    return e->coefficients ? TACHY_OK : TACHY_ERR_NOMEM;
}

static struct tachy_refine refine_of(const struct refine_eye *e)
{
    size_t n = (size_t)e->width * (size_t)e->height;
    return (struct tachy_refine){e->coefficients, e->coefficients + n, e->width, e->height};
}

static int fit(const struct tachy_stage *st, struct tachy_buf *scratch, const struct tachy_item *item)
{
    const struct refine *r = tachy_stage_priv(st);
    struct refine_item *own = tachy_stage_item(st, item);
    int err = TACHY_OK;
    for (int i = 0; i < st->task->eyes && err == TACHY_OK; i++) {
        const struct tachy_mask_eye *e = tachy_mask_eye(r->masks, item, i);
        err = room(&own->eye[i], e->width, e->height);
        if (err == TACHY_OK && !tachy_buf_need(scratch, tachy_refine_scratch(e->width, e->height)))
            err = TACHY_ERR_NOMEM;
        struct tachy_refine to = refine_of(&own->eye[i]);
        if (err == TACHY_OK)
            tachy_refine_fit(&to, e->mask, e->width, e->guide, e->width, scratch->p);
    }
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = fit(st, worker, pieces[i].item);
}

static void item_close(void *item)
{
    for (int i = 0; i < TACHY_MAX_EYES; i++)
        tachy_aligned_free(((struct refine_item *)item)->eye[i].coefficients);
}

const struct tachy_refine *tachy_refined(const struct tachy_composite_stage *c, const struct tachy_item *item,
                                         struct tachy_refine r[TACHY_MAX_EYES])
{
    if (!c->refine)
        return NULL;
    const struct refine_item *own = tachy_stage_item(c->refine, item);
    for (int i = 0; i < item->result.eyes; i++)
        r[i] = refine_of(&own->eye[i]);
    return r;
}

const struct tachy_stage_ops tachy_stage_refine = {
    .name = "refine",
    .flags = TACHY_STAGE_WRITES,
    .step = "composite",
    .priv_size = sizeof(struct refine),
    .item_size = sizeof(struct refine_item),
    .open = open,
    .start = start,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
    .item_close = item_close,
};
