#include "stage/composite.h"

#include <stdlib.h>

// Mode json: a line for each frame.

static int open(struct tachy_stage *st, const tachy_settings *set)
{
    return tachy_composite_open_stage(st, set, true);
}

void tachy_mask_lines_item_close(void *item) { free(((struct tachy_mask_line_item *)item)->json); }

int tachy_mask_line(struct tachy_stage *st, tachy_composite *c, struct tachy_item *item, const struct tachy_refine *refine,
                    tachy_frame *alpha)
{
    struct tachy_mask_line_item *own = tachy_stage_item(st, item);
    const tachy_frame *in = tachy_item_head(item);
    double time_s = tachy_item_time(st->task, item);
    const char *line;
    tachy_composite_bound(c, &item->bounds);
    int err = alpha ? tachy_composite_json_of(c, in, &item->result, tachy_frame_writable(alpha, 0), alpha->stride[0], time_s, &line)
                    : tachy_composite_json(c, in, &item->result, refine, time_s, &line);
    if (err < 0)
        return err;
    size_t n = strlen(line) + 1;
    if (n > own->size) {
        free(own->json);
        own->size = 0;
        own->json = malloc(n + n / 2);
        if (!own->json)
            return TACHY_ERR_NOMEM;
        own->size = n + n / 2;
    }
    memcpy(own->json, line, n);
    item->result.json = own->json;
    return TACHY_OK;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct tachy_refine refine[TACHY_MAX_EYES];
    for (int i = 0; i < n; i++)
        err[i] = tachy_mask_line(st, worker, pieces[i].item, tachy_refined(tachy_stage_priv(st), pieces[i].item, refine), NULL);
}

const struct tachy_stage_ops tachy_stage_mask_lines = {
    .name = "lines",
    .flags = TACHY_STAGE_WRITES,
    .step = "composite",
    .priv_size = sizeof(struct tachy_composite_stage),
    .item_size = sizeof(struct tachy_mask_line_item),
    .open = open,
    .start = tachy_composite_start,
    .worker_open = tachy_composite_worker_open,
    .worker_close = tachy_composite_worker_close,
    .run = run,
    .item_close = tachy_mask_lines_item_close,
};
