#include "task/segment_stages.h"

#include <stdlib.h>

// Mode json: a line for each frame.

int segment_lines_open(struct tachy_stage *st, const tachy_settings *set)
{
    const struct segment *s = segment_of(st);
    st->worker_of = SEGMENT_MODEL;
    st->item_of = SEGMENT_PREPROCESS;
    st->flags |= segment_keeps_input(s) ? TACHY_STAGE_READS : 0;
    return s->composite.mode == TACHY_MODE_JSON ? TACHY_OK : TACHY_STAGE_LEFT_OUT;
}

int segment_write_line(struct segment_worker *w, struct tachy_item *item, const struct tachy_refine *refine,
                       tachy_frame *alpha)
{
    struct segment_item *si = item->priv;
    const tachy_frame *in = tachy_item_head(item);
    double time_s = segment_time_of(w->s, item);
    const char *line;
    int err = alpha ? tachy_composite_json_of(w->composite, in, &item->result, tachy_frame_writable(alpha, 0),
                                              alpha->stride[0], time_s, &line)
                    : tachy_composite_json(w->composite, in, &item->result, refine, time_s, &line);
    if (err < 0)
        return err;
    size_t n = strlen(line) + 1;
    if (n > si->json_size) {
        free(si->json);
        si->json_size = 0;
        si->json = malloc(n + n / 2);
        if (!si->json)
            return TACHY_ERR_NOMEM;
        si->json_size = n + n / 2;
    }
    memcpy(si->json, line, n);
    item->result.json = si->json;
    return TACHY_OK;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct tachy_refine refine[TACHY_MAX_EYES];
    for (int i = 0; i < n; i++)
        err[i] = segment_write_line(worker, pieces[i].item, segment_refined(segment_of(st), pieces[i].item, refine), NULL);
}

const struct tachy_stage_ops segment_stage_lines = {
    .name = "lines",
    .flags = TACHY_STAGE_WRITES,
    .step = "composite",
    .open = segment_lines_open,
    .run = run,
};
