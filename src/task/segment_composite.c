#include "task/segment_stages.h"

// The picture that is written.

int segment_composite_open(struct tachy_stage *st, const tachy_settings *set)
{
    const struct segment *s = segment_of(st);
    st->worker_of = SEGMENT_MODEL;
    st->item_of = SEGMENT_PREPROCESS;
    st->flags |= segment_keeps_input(s) ? TACHY_STAGE_READS : 0;
    return s->composite.mode == TACHY_MODE_JSON ? TACHY_STAGE_LEFT_OUT : TACHY_OK;
}

static int composite(struct segment_worker *w, struct tachy_item *item)
{
    struct segment *s = w->s;
    const struct segment_item *si = item->priv;
    struct tachy_refine refine[TACHY_MAX_EYES];
    int err = tachy_frame_pool_get(s->pool, &item->out);
    if (err < 0)
        return err;
    err = tachy_composite_run(w->composite, tachy_item_head(item), &item->result, segment_refined(s, item, refine),
                              si->background, item->out);
    segment_name_out(s, item);
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = composite(worker, pieces[i].item);
}

const struct tachy_stage_ops segment_stage_composite = {
    .name = "composite",
    .flags = TACHY_STAGE_WRITES,
    .open = segment_composite_open,
    .run = run,
};
