#include "stage/net.h"
#include "stage/stages.h"

#include "engine/engine_options.h"
#include "postprocess/follow.h"

#include <math.h>
#include <stdlib.h>

// Faces that keep their number from frame to frame: a detector, asked when something may be missing, and a network of
// points, run on each face where it was in the frame before.

enum { DETECTOR, POINTS, NETS };

struct track {
    struct tachy_net net[NETS];
    struct tachy_follow_params follow;
    int rotation; // of the stream
    bool flip;
    double tick; // seconds
};

// A stream's.
struct track_state {
    struct tachy_follow follow;
    double time; // of the frame before, seconds
};

struct track_worker {
    struct tachy_net_worker net[NETS];
    struct tachy_regions found; // by the detector, in one frame
    struct track_state own;     // of a frame without a stream
};

// The line from eye to eye is horizontal in a face's crop, which has room for the whole head. Numbers of the eyes: of the
// detector's six points, and the outer corners among the mesh's 468.
static const struct tachy_crop detected = {.from = 0, .to = 1, .scale_x = 1.5, .scale_y = 1.5, .square = true};
static const struct tachy_crop followed = {.from = 33, .to = 263, .scale_x = 1.5, .scale_y = 1.5, .square = true};

static void read_settings(struct track *t, const tachy_settings *s)
{
    bool smooth = tachy_settings_bool(s, "tracking.smoothing");
    t->follow = (struct tachy_follow_params){
        .most = (int)tachy_settings_int(s, "tracking.max_num_faces"),
        .every = (int)tachy_settings_int(s, "tracking.detect_every"),
        .threshold = (float)tachy_settings_float(s, "tracking.confidence"),
        .detected = detected,
        .followed = followed,
        .calm = {.min_cutoff = smooth ? tachy_settings_float(s, "tracking.min_cutoff") : 0,
                 .beta = tachy_settings_float(s, "tracking.beta")},
    };
}

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct track *t = tachy_stage_priv(st);
    tachy_task *task = st->task;
    read_settings(t, s);
    int err = tachy_net_open(&t->net[DETECTOR],
                             &(struct tachy_net_params){.name = tachy_settings_str(s, "tracking.detector"),
                                                        .task = "detect", .log = task->log}, s);
    if (err == TACHY_OK)
        err = tachy_net_open(&t->net[POINTS],
                             &(struct tachy_net_params){.name = tachy_settings_str(s, "model.name"),
                                                        .card = tachy_settings_str(s, "model.card"), .task = "track",
                                                        .log = task->log}, s);
    if (err < 0)
        return err;
    const struct tachy_card *c = t->net[POINTS].card;
    snprintf(task->engine, sizeof(task->engine), "%s", tachy_engine_version(t->net[POINTS].first));
    snprintf(task->describe, sizeof(task->describe), "track %s %s %s faces %d", c->name, c->sha256, task->engine,
             t->follow.most);
    return TACHY_OK;
}

static void close(struct tachy_stage *st)
{
    struct track *t = tachy_stage_priv(st);
    for (int i = 0; i < NETS; i++)
        tachy_net_close(&t->net[i]);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct track *t = tachy_stage_priv(st);
    t->rotation = video->rotation;
    t->flip = video->flipped;
    t->tick = (double)video->time_base.num / video->time_base.den;
    st->item_bytes = (size_t)t->follow.most * 512 * sizeof(struct tachy_point);
    return TACHY_OK;
}

static void worker_close(void *worker)
{
    struct track_worker *w = worker;
    for (int i = 0; i < NETS; i++)
        tachy_net_worker_close(&w->net[i]);
    tachy_regions_free(&w->found);
    tachy_follow_free(&w->own.follow);
    free(w);
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    struct track *t = tachy_stage_priv(st);
    struct track_worker *w = *worker = calloc(1, sizeof(*w));
    int err = w ? TACHY_OK : TACHY_ERR_NOMEM;
    for (int i = 0; i < NETS && err == TACHY_OK; i++)
        err = tachy_net_worker_open(&w->net[i], &t->net[i]);
    if (err < 0 && w) {
        worker_close(w);
        *worker = NULL;
    }
    return err;
}

// ---- A frame

struct frame {
    const struct track *t;
    struct track_worker *w;
    struct tachy_follow *follow;
    const tachy_frame *in;
    struct tachy_regions *list; // the item's
    double seconds;             // since the frame before
};

static int detect(const struct frame *f)
{
    const struct tachy_view whole = {.rotation = f->t->rotation, .flip = f->t->flip};
    struct tachy_regions *found = &f->w->found;
    tachy_regions_clear(found);
    int err = tachy_net_run(&f->w->net[DETECTOR], f->in, &whole, NULL, found);
    if (err == TACHY_OK)
        tachy_follow_detected(f->follow, &f->t->follow, found->v, found->nb);
    return err;
}

static int look_at(const struct frame *f, int i)
{
    const struct tachy_card *c = f->t->net[POINTS].card;
    struct tachy_region r = {.class_id = -1, .track = -1, .score = 1}, *added;
    struct tachy_view view;
    tachy_region_view(&f->follow->thing[i].crop, c->in.width, c->in.height, &view);
    int err = tachy_net_run(&f->w->net[POINTS], f->in, &view, &r, f->list);
    struct tachy_point *points = (struct tachy_point *)(uintptr_t)r.points; // the list's memory
    if (err < 0 || !tachy_follow_update(f->follow, &f->t->follow, i, &r, points, f->seconds, &err))
        return err;
    added = tachy_regions_add(f->list);
    if (!added)
        return TACHY_ERR_NOMEM;
    *added = r;
    return TACHY_OK;
}

// Looks at the things from number `first` on, then drops what was lost.
static int look(const struct frame *f, int first)
{
    int err = TACHY_OK;
    for (int i = first; i < f->follow->nb && err == TACHY_OK; i++)
        err = look_at(f, i);
    tachy_follow_end(f->follow, &f->t->follow);
    return err;
}

static int follow(const struct frame *f)
{
    bool asked = tachy_follow_wants_detector(f->follow, &f->t->follow);
    int err = asked ? detect(f) : TACHY_OK;
    if (err == TACHY_OK)
        err = look(f, 0);
    if (err < 0 || asked || !tachy_follow_wants_detector(f->follow, &f->t->follow))
        return err;
    int before = f->follow->nb; // what was lost, at a cut for example, is found in the same frame
    err = detect(f);
    return err == TACHY_OK ? look(f, before) : err;
}

// Of two that cover the same only the one that is still followed is told.
static void tell(const struct frame *f, struct tachy_result *result)
{
    struct tachy_regions *list = f->list;
    int n = 0;
    for (int i = 0; i < list->nb; i++)
        for (int k = 0; k < f->follow->nb; k++)
            if (f->follow->thing[k].id == list->v[i].track)
                list->v[n++] = list->v[i];
    result->regions = list->v;
    result->nb_regions = list->nb = n;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct track_worker *w = worker;
    struct track_state *s = state ? state : &w->own;
    const struct track *t = tachy_stage_priv(st);
    for (int i = 0; i < n; i++) {
        struct tachy_item *item = pieces[i].item;
        double now = (double)item->in->pts * t->tick;
        struct frame f = {t, w, &s->follow, item->in, tachy_stage_item(st, item), now - s->time};
        if (!state || item->anew)
            tachy_follow_reset(&s->follow);
        s->time = now;
        tachy_regions_clear(f.list);
        err[i] = follow(&f);
        tell(&f, &item->result);
    }
}

// ---- The state of a stream

static int state_open(struct tachy_stage *st, void **state)
{
    *state = calloc(1, sizeof(struct track_state));
    return *state ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void state_close(void *state)
{
    struct track_state *s = state;
    tachy_follow_free(&s->follow);
    free(s);
}

static int state_save(const void *state, void **data, size_t *size)
{
    const struct track_state *s = state;
    int err = tachy_follow_save(&s->follow, data, size);
    char *all = err == TACHY_OK ? realloc(*data, *size + sizeof(s->time)) : NULL;
    if (!all) {
        free(err == TACHY_OK ? *data : NULL);
        *data = NULL;
        return TACHY_ERR_NOMEM;
    }
    memcpy(all + *size, &s->time, sizeof(s->time));
    *data = all;
    *size += sizeof(s->time);
    return TACHY_OK;
}

static int state_load(void *state, const void *data, size_t size)
{
    struct track_state *s = state;
    if (size < sizeof(s->time))
        return TACHY_ERR_FORMAT;
    size -= sizeof(s->time);
    memcpy(&s->time, (const char *)data + size, sizeof(s->time));
    return tachy_follow_load(&s->follow, data, size);
}

static void item_close(void *item) { tachy_regions_free(item); }

const struct tachy_stage_ops tachy_stage_track = {
    .name = "track",
    .options = tachy_model_options,
    .flags = TACHY_STAGE_ORDERED | TACHY_STAGE_READS | TACHY_STAGE_MODEL,
    .priv_size = sizeof(struct track),
    .item_size = sizeof(struct tachy_regions),
    .open = open,
    .close = close,
    .start = start,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
    .state_open = state_open,
    .state_close = state_close,
    .state_save = state_save,
    .state_load = state_load,
    .item_close = item_close,
};
