#include "stage/stages.h"

#include "base/path.h"
#include "postprocess/text.h"

// The regions as text: a JSON object for each frame, or a row of CSV for each region (docs/results.md).

struct lines {
    bool csv;
    double tick; // seconds
};

enum tachy_text_format tachy_text_asked(const tachy_settings *s)
{
    return tachy_text_format(tachy_settings_str(s, "output.file"), tachy_settings_str(s, "output.format"));
}

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct lines *l = tachy_stage_priv(st);
    enum tachy_text_format f = tachy_text_asked(s);
    l->csv = f == TACHY_TEXT_CSV;
    return f ? TACHY_OK : TACHY_STAGE_LEFT_OUT;
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct lines *l = tachy_stage_priv(st);
    l->tick = (double)video->time_base.num / video->time_base.den;
    return TACHY_OK;
}

static int write_lines(struct tachy_stage *st, struct tachy_item *item)
{
    const struct lines *l = tachy_stage_priv(st);
    struct tachy_text *t = tachy_stage_item(st, item);
    struct tachy_result *r = &item->result;
    const tachy_frame *head = tachy_item_head(item);
    double time_s = (double)head->pts * l->tick;
    t->len = 0;
    t->failed = false;
    tachy_text_add(t, "%s", ""); // text also without regions
    if (l->csv)
        tachy_regions_csv(t, head, r->regions, r->nb_regions, time_s);
    else
        tachy_regions_json(t, head, r, time_s);
    if (t->failed)
        return TACHY_ERR_NOMEM;
    *(l->csv ? &r->csv : &r->json) = t->p;
    r->csv_columns = l->csv ? tachy_regions_csv_columns : NULL;
    return TACHY_OK;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = write_lines(st, pieces[i].item);
}

static void item_close(void *item) { tachy_text_free(item); }

const struct tachy_stage_ops tachy_stage_lines = {
    .name = "lines",
    .flags = TACHY_STAGE_WRITES,
    .priv_size = sizeof(struct lines),
    .item_size = sizeof(struct tachy_text),
    .open = open,
    .start = start,
    .run = run,
    .item_close = item_close,
};
