#include "task/segment_stages.h"

// Edge-guided upsampling, --refine: the coefficients that a composite or a line applies to the picture's luma. They are
// large, so they are made no sooner than what is written.

static int open(struct tachy_stage *st, const tachy_settings *set)
{
    st->worker_of = SEGMENT_MODEL;
    st->item_of = SEGMENT_PREPROCESS;
    return segment_of(st)->refine ? TACHY_OK : TACHY_STAGE_LEFT_OUT;
}

static int need_scratch(struct segment_worker *w, size_t need)
{
    if (need <= w->scratch_size)
        return TACHY_OK;
    tachy_aligned_free(w->scratch);
    w->scratch = tachy_aligned_alloc(need);
    w->scratch_size = w->scratch ? need : 0;
    return w->scratch ? TACHY_OK : TACHY_ERR_NOMEM;
}

static struct tachy_refine refine_of(const struct segment_eye *e)
{
    size_t n = (size_t)e->width * (size_t)e->height;
    return (struct tachy_refine){e->coefficients, e->coefficients + n, e->width, e->height};
}

static int fit(struct segment_worker *w, const struct tachy_item *item)
{
    int err = TACHY_OK;
    for (int i = 0; i < w->task->eyes && err == TACHY_OK; i++) {
        struct segment_eye *e = &((struct segment_item *)item->priv)->eye[i];
        struct tachy_refine r = refine_of(e);
        err = need_scratch(w, tachy_refine_scratch(e->width, e->height));
        if (err == TACHY_OK)
            tachy_refine_fit(&r, e->mask, e->width, e->guide, e->width, w->scratch);
    }
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = fit(worker, pieces[i].item);
}

const struct tachy_refine *segment_refined(const struct segment *s, const struct tachy_item *item,
                                           struct tachy_refine r[TACHY_MAX_EYES])
{
    for (int i = 0; s->refine && i < item->result.eyes; i++)
        r[i] = refine_of(&((const struct segment_item *)item->priv)->eye[i]);
    return s->refine ? r : NULL;
}

const struct tachy_stage_ops segment_stage_refine = {
    .name = "refine",
    .flags = TACHY_STAGE_WRITES,
    .step = "composite",
    .open = open,
    .run = run,
};
