#include "base/path.h"
#include "stage/composite.h"

#include <stdlib.h>
#include <unistd.h>

// A garbage matte: rectangles and pictures outside of which nothing is kept. It is the same for all frames of a
// pipeline, so it is made once, when the pipeline starts.

struct garbage {
    char **item; // each a rectangle or the name of a picture
    size_t nb_items;
    uint8_t *matte; // of the pipeline's frames, as stored
};

static const struct tachy_option options[] = {
    {"segment.garbage_matte", "garbage-matte", 0, TACHY_OPT_LIST, .arg = "X,Y,W,H|FILE", .group = "Segment",
     .help = "cut nobody out outside this rectangle, in pixels of the shown picture or in percent of it with %, or "
             "where this picture is black; repeat it for more rectangles or one more picture"},
    {0},
};

static int check(const char *item, const struct tachy_log *log)
{
    struct tachy_garbage_rect r;
    if (tachy_garbage_parse(item, &r) || access(tachy_path_local(item), R_OK) == 0)
        return TACHY_OK;
    return tachy_fail(log, TACHY_ERR_NOT_FOUND,
                      "--garbage-matte: \"%.200s\" is neither a rectangle X,Y,W,H with an area (10%%,0,80%%,100%%) nor a "
                      "picture that can be read", item);
}

static void garbage_close(struct tachy_stage *st)
{
    struct garbage *g = tachy_stage_priv(st);
    while (g->nb_items)
        free(g->item[--g->nb_items]);
    free(g->item);
    tachy_aligned_free(g->matte);
}

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct garbage *g = tachy_stage_priv(st);
    const char *const *items;
    size_t n = tachy_settings_list(s, "segment.garbage_matte", &items);
    if (!n)
        return TACHY_STAGE_LEFT_OUT;
    g->item = calloc(n, sizeof(*g->item));
    int err = g->item ? TACHY_OK : TACHY_ERR_NOMEM;
    for (size_t i = 0; i < n && err == TACHY_OK; i++) {
        err = check(items[i], st->task->log);
        g->item[i] = err == TACHY_OK ? strdup(items[i]) : NULL;
        g->nb_items += g->item[i] != NULL;
        if (err == TACHY_OK && !g->item[i])
            err = TACHY_ERR_NOMEM;
    }
    return err;
}

// ---- When a pipeline begins ----

static uint8_t multiply(uint8_t a, uint8_t b) { return (uint8_t)((a * b + 127) / 255); }

// Inside of any rectangle, and as bright as every picture.
static int draw(struct tachy_stage *st, uint8_t *shown, int w, int h)
{
    const struct garbage *g = tachy_stage_priv(st);
    struct tachy_garbage_rect r;
    bool rectangles = false;
    for (size_t i = 0; i < g->nb_items; i++)
        rectangles |= tachy_garbage_parse(g->item[i], &r);
    memset(shown, rectangles ? 0 : 255, (size_t)w * (size_t)h);
    for (size_t i = 0; i < g->nb_items; i++)
        if (tachy_garbage_parse(g->item[i], &r))
            tachy_garbage_fill(shown, w, h, &r);
    int err = TACHY_OK;
    for (size_t i = 0; i < g->nb_items && err == TACHY_OK; i++)
        if (!tachy_garbage_parse(g->item[i], &r))
            err = tachy_matte_mix(shown, w, h, g->item[i], multiply, NULL, st->task->log);
    return err;
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    return tachy_matte_make(&((struct garbage *)tachy_stage_priv(st))->matte, video, draw, st);
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    const struct garbage *g = tachy_stage_priv(st);
    for (int i = 0; i < n; i++)
        pieces[i].item->bounds.garbage = g->matte;
}

const struct tachy_stage_ops tachy_stage_garbage = {
    .name = "garbage matte",
    .options = options,
    .step = "postprocess",
    .priv_size = sizeof(struct garbage),
    .open = open,
    .close = garbage_close,
    .start = start,
    .run = run,
};
