#include "stage/stages.h"

#include "base/output_options.h"
#include "postprocess/text.h"

// The regions as text: a JSON object for each frame, or a row of CSV for each region, or for each frame if the task's
// frames have values of their own (docs/results.md).

struct lines {
    bool json, csv;
    double tick; // seconds
};

// Data of an item.
struct texts {
    struct tachy_text json, csv;
    struct tachy_text columns; // of named values
};

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct lines *l = tachy_stage_priv(st);
    unsigned kinds = tachy_output_kinds(s);
    l->json = kinds & 1u << TACHY_TEXT_JSON;
    l->csv = kinds & 1u << TACHY_TEXT_CSV;
    return l->json || l->csv ? TACHY_OK : TACHY_STAGE_LEFT_OUT;
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct lines *l = tachy_stage_priv(st);
    l->tick = (double)video->time_base.num / video->time_base.den;
    return TACHY_OK;
}

static void empty(struct tachy_text *t)
{
    t->len = 0;
    t->failed = false;
    tachy_text_add(t, "%s", ""); // text also without regions
}

static int write_lines(struct tachy_stage *st, struct tachy_item *item)
{
    const struct lines *l = tachy_stage_priv(st);
    struct texts *t = tachy_stage_item(st, item);
    struct tachy_result *r = &item->result;
    const tachy_frame *head = tachy_item_head(item);
    double time_s = (double)head->pts * l->tick;
    empty(&t->json);
    empty(&t->csv);
    if (l->json)
        tachy_regions_json(&t->json, head, r, time_s);
    if (l->csv && st->task->values)
        tachy_values_csv(&t->csv, head, r->values, r->nb_values, time_s);
    else if (l->csv)
        tachy_regions_csv(&t->csv, head, r->regions, r->nb_regions, time_s);
    if (l->csv && st->task->values && !t->columns.len)
        tachy_values_csv_columns(&t->columns, r->values, r->nb_values);
    if (t->json.failed || t->csv.failed || t->columns.failed)
        return TACHY_ERR_NOMEM;
    r->json = l->json ? t->json.p : NULL;
    r->csv = l->csv ? t->csv.p : NULL;
    r->csv_columns = !l->csv ? NULL : st->task->values ? t->columns.p : tachy_regions_csv_columns;
    return TACHY_OK;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = write_lines(st, pieces[i].item);
}

static void item_close(void *item)
{
    struct texts *t = item;
    tachy_text_free(&t->json);
    tachy_text_free(&t->csv);
    tachy_text_free(&t->columns);
}

const struct tachy_stage_ops tachy_stage_lines = {
    .name = "lines",
    .flags = TACHY_STAGE_WRITES | TACHY_STAGE_TEXT,
    .priv_size = sizeof(struct lines),
    .item_size = sizeof(struct texts),
    .open = open,
    .start = start,
    .run = run,
    .item_close = item_close,
};
