#include "stage/note.h"
#include "stage/quality.h"
#include "stage/small.h"
#include "stage/stages.h"

#include "base/options.h"

#include <stdlib.h>

// Quality of a frame: the measures of measure/quality.h as named values.

struct quality {
    bool asked;                    // for a report
    struct quality_report *report; // NULL: this task writes none
};

// A frame's note.
struct note {
    int64_t frame;
    double value[TACHY_Q_COUNT];
    uint64_t digest, hash;
};

enum { LUMA, SMALL, HASH, PICTURES };

struct worker {
    const struct tachy_log *log;
    bool hash; // the report's picture is made too
    int width, height; // of the frames that the pictures are for; 0: none yet
    struct small_picture picture[PICTURES];
};

static const struct tachy_option options[] = {
    {"quality.report", "quality-report", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Quality", .at_end = true,
     .help = "write counts, duplicates and odd sizes across all inputs to this file, as JSON"},
    {0},
};

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct quality *q = tachy_stage_priv(st);
    const char *file = tachy_settings_str(s, "quality.report");
    st->task->values = true;
    q->asked = file;
    if (!file || st->task->keeps_notes)
        return TACHY_OK;
    if (!(q->report = quality_report_open(file)))
        return TACHY_ERR_NOMEM;
    return tachy_check_free(file, tachy_settings_bool(s, "output.overwrite"), "--quality-report FILE", st->task->log);
}

static void close(struct tachy_stage *st)
{
    struct quality *q = tachy_stage_priv(st);
    quality_report_close(q->report);
}

static int finish(struct tachy_stage *st)
{
    struct quality *q = tachy_stage_priv(st);
    return q->report ? quality_report_write(q->report, st->task->log) : TACHY_OK;
}

// ---- A worker's pictures

static void close_pictures(struct worker *w)
{
    for (int i = 0; i < PICTURES; i++)
        small_close(&w->picture[i]);
    w->width = 0;
}

static int fit_pictures(struct worker *w, const tachy_frame *f)
{
    int longer = TACHY_MAX(f->width, f->height), fold = longer > TACHY_QUALITY_BLURRY ? TACHY_QUALITY_FOLD : 1;
    if (w->width == f->width && w->height == f->height)
        return TACHY_OK;
    close_pictures(w);
    int err = small_open(&w->picture[LUMA], TACHY_LUMA, small_side(f->width, longer, TACHY_QUALITY_LUMA),
                           small_side(f->height, longer, TACHY_QUALITY_LUMA), w->log);
    if (err == TACHY_OK)
        err = small_open(&w->picture[SMALL], TACHY_RGB, fold * small_side(f->width, longer, TACHY_QUALITY_BLURRY),
                           fold * small_side(f->height, longer, TACHY_QUALITY_BLURRY), w->log);
    if (err == TACHY_OK && w->hash)
        err = small_open(&w->picture[HASH], TACHY_LUMA, 32, 32, w->log);
    w->width = err == TACHY_OK ? f->width : 0;
    w->height = f->height;
    return err;
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    const struct quality *q = tachy_stage_priv(st);
    struct worker *w = *worker = calloc(1, sizeof(*w));
    if (!w)
        return TACHY_ERR_NOMEM;
    w->log = st->task->log;
    w->hash = q->asked;
    return TACHY_OK;
}

static void worker_close(void *worker)
{
    close_pictures(worker);
    free(worker);
}

// ---- A frame

static double aspect_of(const struct tachy_video_info *in, const tachy_frame *f)
{
    double sar = in->sar.num > 0 && in->sar.den > 0 ? (double)in->sar.num / in->sar.den : 1;
    double aspect = sar * f->width / f->height;
    return in->rotation % 180 ? 1 / aspect : aspect;
}

static int note(struct tachy_stage *st, const struct worker *w, const struct tachy_item *item, const double value[TACHY_Q_COUNT])
{
    struct note n = {.frame = item->in->id, .digest = tachy_quality_digest(item->in), .hash = tachy_quality_hash(w->picture[HASH].data)};
    memcpy(n.value, value, sizeof(n.value));
    tachy_note_put(tachy_note_begin(st, item), &n, sizeof(n));
    return tachy_note_end(st, item);
}

static int take(struct tachy_stage *st, const char *input, const void *note, size_t size)
{
    const struct quality *q = tachy_stage_priv(st);
    struct note n;
    if (!tachy_note_get(&(struct tachy_note){note, size}, &n, sizeof(n)) || size != sizeof(n))
        return TACHY_ERR_FORMAT;
    return quality_report_add(q->report, input, n.frame, n.value, n.digest, n.hash);
}

static int measure(struct tachy_stage *st, struct worker *w, struct tachy_item *item)
{
    const struct quality *q = tachy_stage_priv(st);
    const struct small_picture *luma = &w->picture[LUMA], *small = &w->picture[SMALL];
    double value[TACHY_Q_COUNT];
    int err = fit_pictures(w, item->in);
    for (int i = 0; i < PICTURES && err == TACHY_OK; i++)
        err = w->picture[i].pre ? small_make(&w->picture[i], item->in) : TACHY_OK;
    if (err < 0)
        return err;
    struct tachy_quality_view v = {
        .frame = item->in, .luma = luma->data, .luma_width = luma->p.width, .luma_height = luma->p.height,
        .small = small->data, .small_width = small->p.width, .small_height = small->p.height,
        .fold = TACHY_MAX(w->width, w->height) > TACHY_QUALITY_BLURRY ? TACHY_QUALITY_FOLD : 1,
        .aspect = aspect_of(&st->task->in, item->in),
    };
    err = tachy_quality_of(&v, value);
    for (int i = 0; i < TACHY_Q_COUNT && err == TACHY_OK; i++)
        err = tachy_item_set_value(item, tachy_quality_names[i], value[i]);
    return err == TACHY_OK && q->asked ? note(st, w, item, value) : err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = measure(st, worker, pieces[i].item);
}

const struct tachy_stage_ops tachy_stage_quality = {
    .name = "quality",
    .options = options,
    .flags = TACHY_STAGE_READS,
    .priv_size = sizeof(struct quality),
    .item_size = TACHY_NOTE_ITEM,
    .open = open,
    .close = close,
    .finish = finish,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
    .item_close = tachy_note_close,
    .take = take,
};
