#include "stage/net.h"
#include "stage/stages.h"

#include "base/cpu.h"
#include "base/team.h"
#include "engine/engine_options.h"
#include "postprocess/follow.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

// Faces that keep their number from frame to frame: a detector, asked when something may be missing, and a network of
// points, run on each face where it was in the frame before. A frame needs what the one before found, so the faces of
// one frame are what cores can share.

enum { DETECTOR, POINTS, NETS };
enum { MOST_THREADS = 8 };

struct track {
    struct tachy_infer net[NETS];
    struct tachy_follow_params follow;
    int rotation; // of the stream
    bool flip;
    double tick; // seconds
    // Threads that help a worker with a frame of several faces; workers who find them busy do without.
    struct tachy_team *team; // NULL: none
    struct tachy_net_worker helper[MOST_THREADS - 1]; // network POINTS, of the team's thread 1, 2, ...
    pthread_mutex_t helping; // held by the worker that has the team
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

struct track_item {
    struct tachy_regions all;                     // what is told
    struct tachy_regions face[TACHY_MAX_FOLLOWED]; // memory of the points, apart for each face
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
    pthread_mutex_init(&t->helping, NULL);
    read_settings(t, s);
    const struct tachy_net_params detector = {.name = tachy_settings_str(s, "tracking.detector"), .task = "detect"},
                                  points = {.name = tachy_settings_str(s, "model.name"),
                                            .card = tachy_settings_str(s, "model.card"), .task = "track"};
    int err = tachy_net_open(&t->net[DETECTOR], st, &detector, s);
    if (err == TACHY_OK)
        err = tachy_net_open(&t->net[POINTS], st, &points, s);
    if (err < 0)
        return err;
    infer_describe(&t->net[POINTS]);
    tachy_task_describe(st->task, " faces %d", t->follow.most);
    return TACHY_OK;
}

static void close(struct tachy_stage *st)
{
    struct track *t = tachy_stage_priv(st);
    tachy_team_close(t->team);
    for (int i = 0; i < MOST_THREADS - 1; i++)
        tachy_net_worker_close(&t->helper[i]);
    for (int i = 0; i < NETS; i++)
        infer_free(&t->net[i]);
    pthread_mutex_destroy(&t->helping);
}

// Once, with the first pipeline: --sandbox allows no thread before.
static int open_team(struct track *t, const struct tachy_log *log)
{
    int cores = tachy_cpu_count(), most = TACHY_MIN(t->follow.most, MOST_THREADS);
    int threads = TACHY_MIN(most, cores), err = TACHY_OK;
    if (threads < 2 || t->team)
        return TACHY_OK;
    for (int i = 0; i < threads - 1 && err == TACHY_OK; i++)
        err = tachy_net_worker_open(&t->helper[i], &t->net[POINTS]);
    if (err < 0)
        return err;
    t->team = tachy_team_open(threads);
    return t->team ? TACHY_OK
                   : tachy_fail(log, TACHY_ERR_AGAIN, "track: the system gives no %d threads; try again later", threads);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct track *t = tachy_stage_priv(st);
    t->rotation = video->rotation;
    t->flip = video->flipped;
    t->tick = (double)video->time_base.num / video->time_base.den;
    st->item_bytes = (size_t)t->follow.most * 512 * sizeof(struct tachy_point);
    return open_team(t, st->task->log);
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
    struct track *t;
    struct track_worker *w;
    struct tachy_follow *follow;
    const tachy_frame *in;
    struct track_item *found;
    double seconds; // since the frame before
    atomic_int next; // thing that nobody looks at yet
    struct tachy_region seen[TACHY_MAX_FOLLOWED]; // of each thing; track -1: it is lost
    int err[TACHY_MAX_FOLLOWED];
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

static int look_at(struct frame *f, struct tachy_net_worker *net, int i)
{
    const struct tachy_card *c = f->t->net[POINTS].net[TACHY_INFER_FULL].card;
    struct tachy_region *r = &f->seen[i];
    struct tachy_view view;
    *r = (struct tachy_region){.class_id = -1, .track = -1, .score = 1};
    tachy_region_view(&f->follow->thing[i].crop, c->in.width, c->in.height, &view);
    int err = tachy_net_run(net, f->in, &view, r, &f->found->face[i]);
    struct tachy_point *points = (struct tachy_point *)(uintptr_t)r->points; // the list's memory
    if (err == TACHY_OK && !tachy_follow_update(f->follow, &f->t->follow, i, r, points, f->seconds, &err))
        r->track = -1;
    return err;
}

// One of the threads that share a frame's faces.
static void look_at_some(void *user, int thread, int piece)
{
    struct frame *f = user;
    struct tachy_net_worker *net = thread ? &f->t->helper[thread - 1] : &f->w->net[POINTS];
    for (int i; (i = atomic_fetch_add(&f->next, 1)) < f->follow->nb;)
        f->err[i] = look_at(f, net, i);
}

// Looks at the things from number `first` on, then drops what was lost.
static int look(struct frame *f, int first)
{
    bool helped = f->t->team && f->follow->nb - first > 1 && !pthread_mutex_trylock(&f->t->helping);
    atomic_store(&f->next, first);
    if (helped) {
        tachy_team_run(f->t->team, look_at_some, f);
        pthread_mutex_unlock(&f->t->helping);
    } else {
        look_at_some(f, 0, 0);
    }
    int err = TACHY_OK;
    for (int i = first; i < f->follow->nb && err == TACHY_OK; i++) {
        err = f->err[i];
        if (err < 0 || f->seen[i].track < 0)
            continue;
        struct tachy_region *added = tachy_regions_add(&f->found->all);
        err = added ? TACHY_OK : TACHY_ERR_NOMEM;
        if (added)
            *added = f->seen[i];
    }
    tachy_follow_end(f->follow, &f->t->follow);
    return err;
}

static int follow(struct frame *f)
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
static void keep_followed(const struct frame *f)
{
    struct tachy_regions *list = &f->found->all;
    int n = 0;
    for (int i = 0; i < list->nb; i++)
        for (int k = 0; k < f->follow->nb; k++)
            if (f->follow->thing[k].id == list->v[i].track)
                list->v[n++] = list->v[i];
    list->nb = n;
}

static void tell(struct tachy_stage *st, struct tachy_item *item)
{
    const struct track_item *ti = tachy_stage_item(st, item);
    item->result.regions = ti->all.v;
    item->result.nb_regions = ti->all.nb;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct track_worker *w = worker;
    struct track_state *s = state ? state : &w->own;
    struct track *t = tachy_stage_priv(st);
    for (int i = 0; i < n; i++) {
        struct tachy_item *item = pieces[i].item;
        double now = (double)item->in->pts * t->tick;
        struct frame f = {.t = t, .w = w, .follow = &s->follow, .in = item->in, .found = tachy_stage_item(st, item),
                          .seconds = now - s->time};
        if (!state || item->anew)
            tachy_follow_reset(&s->follow);
        s->time = now;
        tachy_regions_clear(&f.found->all);
        for (int k = 0; k < TACHY_MAX_FOLLOWED; k++)
            tachy_regions_clear(&f.found->face[k]);
        err[i] = follow(&f);
        keep_followed(&f);
        tell(st, item);
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

// ---- Faces that later frames take over

static int copy(struct tachy_stage *st, struct tachy_item *to, const struct tachy_item *from, int region)
{
    struct tachy_regions *all = &((struct track_item *)tachy_stage_item(st, to))->all;
    tachy_regions_clear(all);
    int err = tachy_regions_copy(all, from->result.regions, from->result.nb_regions);
    tell(st, to);
    return err;
}

static int copy_save(struct tachy_stage *st, const struct tachy_item *from, void **data, size_t *size)
{
    const struct track_item *ti = tachy_stage_item(st, from);
    return tachy_regions_save(&ti->all, 1, data, size);
}

static int copy_load(struct tachy_stage *st, struct tachy_item *to, const void *data, size_t size)
{
    struct track_item *ti = tachy_stage_item(st, to);
    int err = tachy_regions_load(&ti->all, 1, data, size);
    tell(st, to);
    return err;
}

static void item_close(void *item)
{
    struct track_item *ti = item;
    tachy_regions_free(&ti->all);
    for (int i = 0; i < TACHY_MAX_FOLLOWED; i++)
        tachy_regions_free(&ti->face[i]);
}

const struct tachy_stage_ops tachy_stage_track = {
    .name = "track",
    .options = tachy_model_options,
    .flags = TACHY_STAGE_REGIONS | TACHY_STAGE_ORDERED | TACHY_STAGE_READS | TACHY_STAGE_MODEL,
    .priv_size = sizeof(struct track),
    .item_size = sizeof(struct track_item),
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
    .copy = copy,
    .copy_save = copy_save,
    .copy_load = copy_load,
};
