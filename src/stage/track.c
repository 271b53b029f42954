#include "stage/track.h"
#include "stage/stages.h"

#include "base/cpu.h"
#include "base/team.h"
#include "engine/engine_options.h"

#include <stdatomic.h>
#include <stdlib.h>

// Follows faces or people that keep their number from frame to frame: a detector, asked when something may be missing,
// and a network of points, run on each of them at its position in the previous frame. A frame needs the previous
// frame's findings, so only the things of one frame can be shared among cores, or go to a device together. Work that
// the next frame does not need is in separate stages, which run beside it: calm.c, values.c. The detector alone knows of no frame
// but its own: while nothing is followed it may look at several frames at once, whose findings wait in their items.

static const struct track_kind *kind_of(const tachy_task *t)
{
    for (const struct track_kind *k = track_kinds; k->task; k++)
        if (!strcmp(k->task, t->name) || tachy_word_in(k->also, t->name))
            return k;
    return NULL;
}

struct tachy_bones track_bones(const tachy_task *t)
{
    for (int i = 0; i < t->nb_stages; i++)
        if (!strcmp(t->stage[i]->ops->name, "track"))
            return ((const struct track *)tachy_stage_priv(t->stage[i]))->kind->bones;
    return (struct tachy_bones){0};
}

enum { BATCH_MOST = 32 };

static void read_settings(struct tachy_stage *st, struct track *t, const tachy_settings *s)
{
    int batch = (int)tachy_settings_int(s, "processing.face_detection_batch");
    t->batch = tachy_settings_bool(s, "performance.live") ? 1 : TACHY_MIN(batch, (int)BATCH_MOST);
    st->ahead = t->batch - 1;
    t->follow = (struct tachy_follow_params){
        .most = (int)tachy_settings_int(s, "tracking.max_num_faces"),
        .every = (int)tachy_settings_int(s, "tracking.detect_every"),
        .threshold = (float)tachy_settings_float(s, "tracking.confidence"),
    };
}

// Sets the values that depend on the network of points: how many it has, and whether it scores them itself.
static void take_network(struct track *t, const tachy_settings *s)
{
    const struct tachy_card *c = t->net[TRACK_POINTS]->net[TACHY_INFER_FULL].card;
    int points = 0;
    for (int i = 0; i < c->n_decoders; i++) {
        points += c->decoder[i].kind == TACHY_DECODE_POINTS && !c->decoder[i].at ? c->decoder[i].nb_points : 0;
        t->scored |= c->decoder[i].kind == TACHY_DECODE_SCORE;
    }
    for (const struct track_kind *k = track_kinds; k->task; k++)
        if (!strcmp(k->task, t->kind->task) && k->points == points)
            t->kind = k;
    t->follow.detected = t->kind->detected;
    t->follow.followed = t->kind->followed;
    t->follow.told = t->kind->told;
    if (t->kind->threshold > 0 && !tachy_settings_is_set(s, "tracking.confidence"))
        t->follow.threshold = t->kind->threshold;
}

static const char attention[] = "face-mesh-attention";

static bool is_there(const char *name, const tachy_settings *s)
{
    tachy_model *m = NULL;
    int err = tachy_model_open(&m, &(struct tachy_model_params){.name = name, .dir = tachy_settings_str(s, "model.dir")});
    tachy_model_close(&m);
    return err == TACHY_OK;
}

// The name of the points' network. An unnamed face mesh may be the one that also refines lips and eyes: if
// tracking.refine_landmarks says so, or, when that is unset, if the task gains by it and the network is installed.
static const char *points_model(const struct tachy_stage *st, const tachy_settings *s)
{
    const char *name = tachy_settings_str(s, "model.name"), *refine = "tracking.refine_landmarks";
    bool mesh = name && !strcmp(name, "face-mesh") && !tachy_settings_is_set(s, "model.name") && !tachy_settings_str(s, "model.card");
    bool set = mesh && tachy_settings_is_set(s, refine), driver = !strcmp(st->task->name, "animate");
    if (!mesh || (set ? !tachy_settings_bool(s, refine) : !driver))
        return name;
    if ((set && tachy_settings_by_name(s, refine)) || is_there(attention, s))
        return attention;
    if (set)
        tachy_msg(st->task->log, TACHY_LOG_WARN, "%s: the model %s is not there: tachy model pull %s; the points are those of %s",
                  tachy_settings_origin(s, refine), attention, attention, name);
    return name;
}

int track_open(struct tachy_stage *st, const tachy_settings *s, int (*open_net)(struct tachy_stage *st, int net,
               const struct tachy_net_params *p, const tachy_settings *s))
{
    struct track *t = tachy_stage_priv(st);
    t->kind = kind_of(st->task);
    if (!t->kind)
        return tachy_fail(st->task->log, TACHY_ERR_INVAL, "the stage track does not serve the task %s", st->task->name);
    const struct tachy_net_params nets[TRACK_NETS] = {
        [TRACK_DETECTOR] = {.name = tachy_settings_str(s, "tracking.detector"), .task = "detect"},
        [TRACK_POINTS] = {.name = points_model(st, s), .card = tachy_settings_str(s, "model.card"),
                          .task = t->kind->task}};
    int err = TACHY_OK;
    read_settings(st, t, s);
    for (int i = 0; i < TRACK_NETS && err == TACHY_OK; i++)
        err = open_net(st, i, &nets[i], s);
    if (err < 0)
        return err;
    take_network(t, s);
    infer_describe(t->net[TRACK_POINTS]);
    tachy_task_describe(st->task, " %s %d", t->kind->things, t->follow.most);
    return TACHY_OK;
}

void track_start(struct tachy_stage *st, const struct tachy_video_info *video)
{
    struct track *t = tachy_stage_priv(st);
    t->follow.width = video->width;
    t->follow.height = video->height;
    t->rotation = video->rotation;
    t->flip = video->flipped;
    st->item_bytes = (size_t)t->follow.most * 512 * sizeof(struct tachy_point);
}

// ---- A frame

struct frame {
    const struct track *t;
    struct track_runner *runner;
    struct tachy_follow *follow;
    struct tachy_stage *st;
    const struct tachy_piece *pieces; // the one in hand, and later ones
    int nb;
    struct track_item *found;
};

// Looks at the frame in hand and, while nothing is followed, at later ones. A later one whose run failed is looked at again in its turn.
static int run_detector(const struct frame *f)
{
    struct track_look look[BATCH_MOST];
    int n = f->follow->nb ? 1 : TACHY_MIN(f->nb, (int)BATCH_MOST);
    for (int i = 0; i < n; i++) {
        struct track_item *ti = tachy_stage_item(f->st, f->pieces[i].item);
        look[i] = (struct track_look){.item = f->pieces[i].item, .view = {.rotation = f->t->rotation, .flip = f->t->flip}, .list = &ti->detected};
        tachy_regions_clear(&ti->detected);
    }
    f->runner->run(f->runner, TRACK_DETECTOR, look, n);
    for (int i = 1; i < n; i++)
        ((struct track_item *)tachy_stage_item(f->st, look[i].item))->looked = look[i].err == TACHY_OK ? look[i].item->in : NULL;
    return look[0].err;
}

static int detect(const struct frame *f)
{
    int err = f->found->looked == f->pieces[0].item->in ? TACHY_OK : run_detector(f);
    if (err == TACHY_OK)
        tachy_follow_detected(f->follow, &f->t->follow, f->found->detected.v, f->found->detected.nb);
    return err;
}

// Takes the points' network's result for thing i; reports it unless it is lost.
static int take(struct frame *f, int i, struct tachy_region *r)
{
    if (!tachy_follow_update(f->follow, &f->t->follow, i, r))
        return TACHY_OK;
    struct tachy_region *added = tachy_regions_add(&f->found->all);
    if (!added)
        return TACHY_ERR_NOMEM;
    *added = *r;
    return TACHY_OK;
}

// The mean of the points' scores; of no points 0.
static float mean_score(const struct tachy_region *r)
{
    float sum = 0;
    for (int i = 0; i < r->nb_points; i++)
        sum += r->points[i].score;
    return r->nb_points ? sum / (float)r->nb_points : 0;
}

// Looks at the things from number `first` on, then drops what was lost.
static int look(struct frame *f, int first)
{
    const struct tachy_card *c = f->t->net[TRACK_POINTS]->net[TACHY_INFER_FULL].card;
    struct tachy_region seen[TACHY_MAX_FOLLOWED];
    struct track_look look[TACHY_MAX_FOLLOWED];
    int n = f->follow->nb - first, err = TACHY_OK;
    for (int k = 0; k < n; k++) {
        seen[k] = (struct tachy_region){.class_id = -1, .track = -1, .score = 1};
        look[k] = (struct track_look){.item = f->pieces[0].item, .about = &seen[k], .list = &f->found->thing[first + k]};
        tachy_region_view(&f->follow->thing[first + k].crop, c->in.width, c->in.height, &look[k].view);
    }
    if (n > 0)
        f->runner->run(f->runner, TRACK_POINTS, look, n);
    for (int k = 0; k < n && err == TACHY_OK; k++) {
        if (!f->t->scored)
            seen[k].score = mean_score(&seen[k]);
        err = look[k].err < 0 ? look[k].err : take(f, first + k, &seen[k]);
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

// Of two regions that cover the same thing only the one that is still followed is reported.
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

int track_frame(struct tachy_stage *st, struct track_runner *r, struct track_own *own, struct tachy_follow *state,
                const struct tachy_piece pieces[], int n)
{
    struct tachy_item *item = pieces[0].item;
    struct frame f = {.t = tachy_stage_priv(st), .runner = r, .follow = state ? state : &own->follow, .st = st, .pieces = pieces, .nb = n,
                      .found = tachy_stage_item(st, item)};
    if (!state || item->anew)
        tachy_follow_reset(f.follow);
    if (item->other)
        f.follow->next_id = 0;
    tachy_regions_clear(&f.found->all);
    for (int k = 0; k < TACHY_MAX_FOLLOWED; k++)
        tachy_regions_clear(&f.found->thing[k]);
    int err = follow(&f);
    f.found->looked = NULL;
    keep_followed(&f);
    item->result.regions = f.found->all.v;
    item->result.nb_regions = f.found->all.nb;
    return err;
}

int track_state_load(void *state, const void *data, size_t size)
{
    const struct tachy_follow *f = state;
    return f->nb >= 0 && f->nb <= TACHY_MAX_FOLLOWED ? TACHY_OK : TACHY_ERR_FORMAT;
}

struct tachy_stage *track_of(struct tachy_stage *st) { return tachy_stage_before(st, "track"); }

void track_item_close(void *item)
{
    struct track_item *ti = item;
    tachy_regions_free(&ti->all);
    tachy_regions_free(&ti->detected);
    for (int i = 0; i < TACHY_MAX_FOLLOWED; i++)
        tachy_regions_free(&ti->thing[i]);
}

// ---- On the host

enum { MOST_THREADS = 8 };

struct on_host {
    struct track track; // first
    struct tachy_infer net[TRACK_NETS];
    // Threads that help a worker with a frame of several things, or with several frames; workers who find them busy do without.
    struct tachy_team *team; // NULL: none
    struct tachy_net_worker helper[TRACK_NETS][MOST_THREADS - 1]; // of the team's thread 1, 2, ...
    int helpers[TRACK_NETS];
    pthread_mutex_t helping; // held by the worker that has the team
};

struct host_worker {
    struct track_own own;
    struct tachy_net_worker net[TRACK_NETS];
};

static int open_net(struct tachy_stage *st, int net, const struct tachy_net_params *p, const tachy_settings *s)
{
    struct on_host *h = tachy_stage_priv(st);
    h->track.net[net] = &h->net[net];
    return tachy_net_open(&h->net[net], st, p, s);
}

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct on_host *h = tachy_stage_priv(st);
    pthread_mutex_init(&h->helping, NULL);
    return track_open(st, s, open_net);
}

static void close(struct tachy_stage *st)
{
    struct on_host *h = tachy_stage_priv(st);
    tachy_team_close(h->team);
    for (int k = 0; k < TRACK_NETS; k++) {
        for (int i = 0; i < MOST_THREADS - 1; i++)
            tachy_net_worker_close(&h->helper[k][i]);
        infer_free(&h->net[k]);
    }
    pthread_mutex_destroy(&h->helping);
}

// Once, with the first pipeline: --sandbox allows no thread before.
static int open_team(struct on_host *h, const struct tachy_log *log)
{
    const int together[TRACK_NETS] = {[TRACK_DETECTOR] = h->track.batch, [TRACK_POINTS] = h->track.follow.most};
    int most = TACHY_MIN(TACHY_MAX(together[TRACK_DETECTOR], together[TRACK_POINTS]), MOST_THREADS);
    int threads = TACHY_MIN(most, tachy_cpu_count()), err = TACHY_OK;
    if (threads < 2 || h->team)
        return TACHY_OK;
    for (int k = 0; k < TRACK_NETS; k++)
        for (; h->helpers[k] < TACHY_MIN(threads, together[k]) - 1 && err == TACHY_OK; h->helpers[k]++)
            err = tachy_net_worker_open(&h->helper[k][h->helpers[k]], &h->net[k]);
    if (err < 0)
        return err;
    h->team = tachy_team_open(threads);
    return h->team ? TACHY_OK
                   : tachy_fail(log, TACHY_ERR_AGAIN, "track: the system gives no %d threads; try again later", threads);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    track_start(st, video);
    return open_team(tachy_stage_priv(st), st->task->log);
}

static void worker_close(void *worker)
{
    struct host_worker *w = worker;
    for (int i = 0; i < TRACK_NETS; i++)
        tachy_net_worker_close(&w->net[i]);
    free(w);
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    struct on_host *h = tachy_stage_priv(st);
    struct host_worker *w = *worker = calloc(1, sizeof(*w));
    int err = w ? TACHY_OK : TACHY_ERR_NOMEM;
    for (int i = 0; i < TRACK_NETS && err == TACHY_OK; i++)
        err = tachy_net_worker_open(&w->net[i], &h->net[i]);
    if (err < 0 && w) {
        worker_close(w);
        *worker = NULL;
    }
    return err;
}

struct host_runner {
    struct track_runner base; // first
    struct on_host *h;
    struct host_worker *w;
};

// Shared by the threads that look at a frame's things, or at frames.
struct shared {
    const struct host_runner *host;
    int net, n;
    struct track_look *look;
    atomic_int next; // that nobody looks at yet
};

static void look_at_some(void *user, int thread, int piece)
{
    struct shared *s = user;
    struct on_host *h = s->host->h;
    if (thread > h->helpers[s->net])
        return;
    struct tachy_net_worker *of = thread ? &h->helper[s->net][thread - 1] : &s->host->w->net[s->net];
    for (int i; (i = atomic_fetch_add(&s->next, 1)) < s->n;)
        s->look[i].err = tachy_net_run(of, s->look[i].item->in, &s->look[i].view, s->look[i].about, s->look[i].list);
}

static void run_net(struct track_runner *r, int net, struct track_look look[], int n)
{
    const struct host_runner *host = (void *)r;
    struct shared s = {.host = host, .net = net, .n = n, .look = look};
    if (host->h->team && n > 1 && !pthread_mutex_trylock(&host->h->helping)) {
        tachy_team_run(host->h->team, look_at_some, &s);
        pthread_mutex_unlock(&host->h->helping);
    } else {
        look_at_some(&s, 0, 0);
    }
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct host_worker *w = worker;
    struct host_runner r = {.base = {run_net}, .h = tachy_stage_priv(st), .w = w};
    for (int i = 0; i < (st->ahead ? 1 : n); i++)
        err[i] = track_frame(st, &r.base, &w->own, state, pieces + i, st->ahead ? n : 1);
}

// Seen again and again, since a better crop follows from the points.
static int look_again(struct tachy_stage *st, void *worker, tachy_frame *picture, struct tachy_regions *found)
{
    struct tachy_item item = {.in = picture, .priv = calloc(1, st->item_at + st->ops->item_size)};
    const struct tachy_piece piece = {&item, 0};
    struct tachy_follow state = {0};
    int err = item.priv ? TACHY_OK : TACHY_ERR_NOMEM;
    for (int i = 0; i < 4 && err == TACHY_OK; i++)
        run(st, worker, &state, &piece, 1, &err);
    if (err == TACHY_OK)
        err = tachy_regions_copy(found, item.result.regions, item.result.nb_regions);
    if (item.priv)
        track_item_close(tachy_stage_item(st, &item));
    free(item.priv);
    return err;
}

int track_still(struct tachy_stage *st, tachy_frame *picture, struct tachy_regions *found)
{
    void *worker;
    int err = worker_open(st, 0, &worker);
    if (err < 0)
        return err;
    err = look_again(st, worker, picture, found);
    worker_close(worker);
    return err;
}

const struct tachy_stage_ops tachy_stage_track = {
    .name = "track",
    .options = tachy_model_options,
    .flags = TACHY_STAGE_REGIONS | TACHY_STAGE_ORDERED | TACHY_STAGE_READS | TACHY_STAGE_MODEL,
    .priv_size = sizeof(struct on_host),
    .item_size = sizeof(struct track_item),
    .state_size = sizeof(struct tachy_follow),
    .open = open,
    .close = close,
    .start = start,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
    .state_load = track_state_load,
    .item_close = track_item_close,
};
