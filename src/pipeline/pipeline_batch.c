#include "pipeline/pipeline.h"

#include "base/clock.h"
#include "batcher/payoff.h"

#include <stdlib.h>

// Batches larger than one: a worker takes an item up to the stage that batches (tachy_item.apart: its tensors are the
// item's) and submits its regions; a batcher, which collects across all streams of one model, runs the stage on its own
// threads; then the item goes back into the workers' queue for the next span.
//
// If all streams are live, each has one frame at a time: a batch is full when it has one of each. If only one is there, or a run
// for several pictures is slower than a run for each, the workers run the stage themselves.
//
// A stage on a device that is prompt (TACHY_STAGE_PROMPT) has one thread, which takes what is there when its last batch is done: pieces
// come together while the device is busy, and nobody waits for one that is not there.

enum { QUIET_S = 10 }; // without a shortage of memory, before larger batches are tried again

struct pipeline_batcher {
    struct pipeline_batcher *next; // in the pipeline's list, under `join`
    struct tachy_pipeline *pipeline;
    const struct tachy_stage_ops *ops;
    int index, step; // of the stage in its tasks
    size_t item_at; // of its bytes in their items
    char *key;
    int binds; // that use it
    tachy_batcher *batcher;
    int nb_engines, most;
    void **engine;           // the stage's objects for batches, one for each thread of the batcher
    struct tachy_prof **prof; // the same
    int64_t timeout_us;      // that a piece waits for others; -1: it does not
    pthread_mutex_t lock;    // guards the rest
    struct tachy_backoff backoff;
    int degraded; // streams that ask for batches of half the size
    int streams, live, places; // that use it, how many of them are live, and regions of a frame of each
    struct tachy_payoff payoff;
    bool told;            // that batches do not pay
    int64_t runs, pieces; // of the network so far
};

// All regions of an item went through the stage, or one of them failed.
static void item_back(tachy_stream *s, int64_t seq)
{
    struct tachy_pipeline *p = s->pipeline;
    struct pipeline_slot *slot = pipeline_slot(s, seq);
    bool leaving;
    slot->item.arrived = tachy_ticks();
    pipeline_count_worked(s, ++slot->span, 1);
    pthread_mutex_lock(&p->lock);
    leaving = s->leaving;
    if (!leaving)
        pipeline_queue_add(s, seq);
    else
        pipeline_give_up(s, slot);
    if (--s->busy == 0 && leaving)
        pthread_cond_broadcast(&p->left_one);
    pthread_mutex_unlock(&p->lock);
}

bool pipeline_batch_prompt(const struct pipeline_batcher *b) { return b && b->timeout_us < 0; }

unsigned pipeline_batch_regions(const tachy_stream *s, int k, const struct tachy_item *item)
{
    const tachy_task *t = s->bind->task;
    if (!(t->stage[s->span[k].first]->flags & TACHY_STAGE_REGIONS))
        return 1;
    const unsigned all = (1u << tachy_item_regions(item, t->eyes)) - 1;
    return item->nobody ? 0 : all & ~item->reuse;
}

// Number of a stream in the batcher.
static uint64_t number_of(const tachy_stream *s) { return (uint64_t)(uintptr_t)s; }

static void eye_done(void *user, int err)
{
    struct pipeline_eye *e = user;
    tachy_stream *s = e->stream;
    struct pipeline_slot *slot = pipeline_slot(s, e->seq);
    if (err < 0)
        atomic_store(&slot->batch_err, err);
    if (atomic_fetch_sub(&slot->eyes_left, 1) == 1)
        item_back(s, e->seq);
}

static void measure(struct pipeline_batcher *b, const struct tachy_batch *batch, uint64_t start)
{
    // Each item has its part of the time that the batch took; its wait is its own.
    uint64_t end = tachy_ticks(), each = (end - start) / (uint64_t)batch->count;
    for (int i = 0; i < batch->count; i++) {
        struct pipeline_eye *e = batch->items[i].user;
        const struct tachy_item *item = &pipeline_slot(e->stream, e->seq)->item;
        struct tachy_prof_item whose = {item->result.frame_id, item->stream};
        e->start = start + (uint64_t)i * each;
        e->end = e->start + each;
        e->wait = start - TACHY_MIN(item->arrived, start);
        tachy_prof_add(b->prof[batch->worker], b->step, whose, e->start, e->end, e->wait);
    }
}

// Under the lock, as the next two.
static bool all_live(const struct pipeline_batcher *b) { return b->live && b->live == b->streams; }

// The largest batch that memory, deadlines and live streams allow.
static int most_now(const struct pipeline_batcher *b)
{
    int most = TACHY_MIN(b->degraded ? TACHY_MAX(b->most / 2, 1) : b->most, b->backoff.now);
    return all_live(b) ? TACHY_MIN(most, b->places) : most;
}

static void set_most(struct pipeline_batcher *b) { tachy_batcher_set_max_batch(b->batcher, most_now(b)); }

void pipeline_batch_join(tachy_stream *s, bool joins)
{
    struct pipeline_batcher *b = s->bind->batcher;
    int sign = joins ? 1 : -1;
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->streams += sign;
    b->live += s->policy && s->policy->wanted ? sign : 0;
    b->places += sign * s->bind->task->eyes;
    if (b->streams)
        set_most(b);
    pthread_mutex_unlock(&b->lock);
}

bool pipeline_batch_alone(tachy_stream *s)
{
    struct pipeline_batcher *b = s->bind->batcher;
    pthread_mutex_lock(&b->lock);
    bool alone = all_live(b) && !s->bind->task->devices && tachy_payoff_alone(&b->payoff, most_now(b));
    pthread_mutex_unlock(&b->lock);
    return alone;
}

// The network has run for `n` pieces. Those of other devices are not compared.
static void count_run(struct pipeline_batcher *b, bool several, int n, uint64_t ticks)
{
    pthread_mutex_lock(&b->lock);
    b->runs++;
    b->pieces += n;
    tachy_payoff_add(&b->payoff, several, tachy_ticks_ns(ticks));
    const struct tachy_payoff is = b->payoff;
    int most = most_now(b);
    bool tell = !b->told && most > 1 && all_live(b) && tachy_payoff_known(&is) && tachy_payoff_alone(&is, most);
    b->told |= tell;
    pthread_mutex_unlock(&b->lock);
    if (tell)
        tachy_msg(b->pipeline->log, TACHY_LOG_INFO, "live: a run of the model for %d pictures takes %.1f ms here, and for one %.1f ms: each "
                  "runs alone and waits for none of another input", b->most, (double)is.run_ns * 1e-6, (double)is.one_ns * 1e-6);
}

void pipeline_batch_ran_alone(tachy_stream *s, int regions, uint64_t ticks)
{
    for (int i = 0; i < regions; i++)
        count_run(s->bind->batcher, false, 1, ticks / (uint64_t)regions);
}

void pipeline_batch_degrade(tachy_stream *s, bool small)
{
    struct pipeline_batcher *b = s->bind->batcher;
    pthread_mutex_lock(&b->lock);
    b->degraded += small ? 1 : -1;
    set_most(b);
    pthread_mutex_unlock(&b->lock);
}

// Memory was too short for `n` items at once, or was not.
static void learn(struct pipeline_batcher *b, int n, bool shortage)
{
    pthread_mutex_lock(&b->lock);
    int before = b->backoff.now;
    if (shortage)
        tachy_backoff_shortage(&b->backoff, n, tachy_now_ns());
    else
        tachy_backoff_ok(&b->backoff, tachy_now_ns());
    int now = b->backoff.now;
    if (now != before)
        set_most(b);
    pthread_mutex_unlock(&b->lock);
    if (now != before) // the batcher warns the first time
        tachy_msg(b->pipeline->log, TACHY_LOG_VERBOSE, "model: batches of %d at most now, %s", now,
                  shortage ? "memory is short" : "memory has sufficed for a while");
}

int pipeline_set_batch(struct tachy_pipeline *p, int n)
{
    int found = 0;
    pthread_mutex_lock(&p->list);
    for (struct pipeline_batcher *b = p->batchers; b; b = b->next, found++) {
        pthread_mutex_lock(&b->lock);
        b->backoff.most = b->backoff.now = TACHY_CLAMP(n, 1, b->most);
        set_most(b);
        pthread_mutex_unlock(&b->lock);
    }
    pthread_mutex_unlock(&p->list);
    return found;
}

// One call for `n` pieces, which may be of several tasks: the first one's stage answers for all.
static int run_pieces(struct pipeline_batcher *b, const struct tachy_batch *batch, const struct tachy_piece *pieces,
                      int n, int err[])
{
    struct pipeline_eye *e = batch->items[0].user;
    struct tachy_stage *st = e->stream->bind->task->stage[b->index];
    memset(err, 0, (size_t)n * sizeof(*err));
    st->ops->run(st, b->engine[batch->worker], NULL, pieces, n, err);
    for (int i = 0; i < n; i++)
        if (err[i] < 0)
            return err[i];
    return TACHY_OK;
}

// A batch failed: its pieces are run one by one, so that only what is at fault fails.
static void run_each(struct pipeline_batcher *b, const struct tachy_batch *batch, const struct tachy_piece pieces[])
{
    for (int i = 0; i < batch->count; i++)
        run_pieces(b, batch, &pieces[i], 1, &batch->items[i].err);
}

static int run_batch(void *user, const struct tachy_batch *batch)
{
    struct pipeline_batcher *b = user;
    struct tachy_piece pieces[TACHY_BATCH_MAX];
    int each[TACHY_BATCH_MAX];
    for (int i = 0; i < batch->count; i++) {
        struct pipeline_eye *e = batch->items[i].user;
        pieces[i] = (struct tachy_piece){&pipeline_slot(e->stream, e->seq)->item, e->region};
    }
    uint64_t start = tachy_ticks();
    tachy_step_begin(b->pipeline->steps->row[b->step].name); // a retry is left out
    int err = run_pieces(b, batch, pieces, batch->count, each);
    tachy_step_end();
    if (err == TACHY_ERR_NOMEM) {
        // The batcher brings the same items again in halves; a single one is tried once more here.
        learn(b, batch->count, true);
        if (tachy_memory_shrink(b->pipeline->memory, TACHY_HOST, SIZE_MAX) && batch->count == 1)
            err = run_pieces(b, batch, pieces, 1, each);
    } else if (err == TACHY_OK) {
        measure(b, batch, start);
        count_run(b, true, batch->count, tachy_ticks() - start);
        learn(b, batch->count, false);
    } else if (batch->count > 1) {
        run_each(b, batch, pieces);
        err = TACHY_OK;
    }
    return err;
}

// How long a piece of the item waits for others, as tachy_submit_params.timeout_us.
static int64_t patience(const tachy_stream *s, const struct tachy_item *item)
{
    int64_t most = s->policy && s->policy->patience ? s->policy->patience(s->policy->user, item) : INT64_MAX;
    most = TACHY_MIN(most, s->bind->batcher->timeout_us);
    return most > 0 ? most : -1;
}

void pipeline_batch_submit(tachy_stream *s, int64_t seq)
{
    struct tachy_pipeline *p = s->pipeline;
    struct pipeline_slot *slot = pipeline_slot(s, seq);
    const unsigned regions = pipeline_batch_regions(s, slot->span, &slot->item); // the item may be gone once all are submitted
    int err = TACHY_OK;
    const int64_t timeout_us = patience(s, &slot->item);
    slot->item.arrived = tachy_ticks();
    slot->batched = true;
    atomic_store(&slot->batch_err, TACHY_OK);
    atomic_store(&slot->eyes_left, __builtin_popcount(regions));
    pthread_mutex_lock(&p->lock);
    s->busy++;
    pthread_mutex_unlock(&p->lock);
    for (int eye = 0; regions >> eye; eye++) {
        if (!(regions >> eye & 1))
            continue;
        slot->eye[eye] = (struct pipeline_eye){.stream = s, .seq = seq, .region = eye};
        if (err == TACHY_OK)
            err = tachy_batcher_submit(
                s->bind->batcher->batcher,
                tachy_submit_params(.user = &slot->eye[eye], .stream = number_of(s), .timeout_us = timeout_us, .done = eye_done),
                NULL);
        if (err < 0) // the others of this item come back all the same
            eye_done(&slot->eye[eye], err);
    }
    if (atomic_load(&s->end) != INT64_MAX)
        tachy_batcher_end(s->bind->batcher->batcher, number_of(s));
}

void pipeline_batch_end(tachy_stream *s)
{
    if (s->bind->batcher)
        tachy_batcher_end(s->bind->batcher->batcher, number_of(s));
}

void pipeline_batch_cancel(tachy_stream *s)
{
    if (s->bind->batcher)
        tachy_batcher_cancel_stream(s->bind->batcher->batcher, number_of(s));
}

static void close_batcher(struct pipeline_batcher *b)
{
    tachy_batcher_close(&b->batcher);
    for (int i = 0; i < b->nb_engines; i++) {
        if (b->engine && b->engine[i])
            b->ops->worker_close(b->engine[i]);
        if (b->prof)
            tachy_profile_close_prof(b->pipeline->profile, &b->prof[i]);
    }
    pthread_mutex_destroy(&b->lock);
    free(b->engine);
    free(b->prof);
    free(b->key);
    free(b);
}

static int open_engines(struct pipeline_batcher *b, struct tachy_stage *st)
{
    b->engine = calloc((size_t)b->nb_engines, sizeof(*b->engine));
    b->prof = calloc((size_t)b->nb_engines, sizeof(*b->prof));
    int err = b->engine && b->prof ? TACHY_OK : TACHY_ERR_NOMEM;
    for (int i = 0; i < b->nb_engines && err == TACHY_OK; i++) {
        err = tachy_profile_open_prof(b->pipeline->profile, b->pipeline->steps, TACHY_LANE_WORKER, &b->prof[i]);
        if (err == TACHY_OK)
            err = b->ops->worker_open(st, b->most, &b->engine[i]);
    }
    return err;
}

static int open_batcher(struct pipeline_batcher **out, struct tachy_pipeline *p, struct tachy_stage *st)
{
    struct pipeline_batcher *b = calloc(1, sizeof(*b));
    *out = NULL;
    if (!b)
        return TACHY_ERR_NOMEM;
    pthread_mutex_init(&b->lock, NULL);
    b->pipeline = p;
    b->ops = st->ops;
    b->index = st->index;
    b->step = st->step;
    b->item_at = st->item_at;
    b->most = p->batch;
    const bool prompt = st->flags & TACHY_STAGE_PROMPT;
    b->nb_engines = prompt ? 1 : p->nb_workers;
    b->timeout_us = prompt ? -1 : TACHY_DEF(p->batch_timeout_us, TACHY_BATCH_TIMEOUT_US);
    b->key = strdup(st->batch_key);
    tachy_backoff_init(&b->backoff, b->most, QUIET_S * (uint64_t)1000000000);
    int err = b->key ? open_engines(b, st) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = tachy_batcher_open(&b->batcher,
                                 tachy_batcher_params(.max_batch = b->most, .workers = b->nb_engines,
                                                      .timeout_us = b->timeout_us, .run = run_batch, .user = b, .log = p->log));
    if (err < 0) {
        close_batcher(b);
        return err;
    }
    *out = b;
    return TACHY_OK;
}

// The task's stage that batches; NULL: there is none, or it is ordered.
static struct tachy_stage *find_stage(tachy_task *task)
{
    for (int i = 0; i < task->nb_stages; i++) {
        struct tachy_stage *st = task->stage[i];
        if (st->flags & TACHY_STAGE_BATCHES && !(st->flags & TACHY_STAGE_ORDERED) && st->batch_key)
            return st;
    }
    return NULL;
}

// True if the part of a frame that a network sees depends on the frame before.
static bool follows(const tachy_task *task)
{
    const unsigned both = TACHY_STAGE_ORDERED | TACHY_STAGE_MODEL;
    for (int i = 0; i < task->nb_stages; i++)
        if ((task->stage[i]->flags & both) == both)
            return true;
    return false;
}

int pipeline_batch_get(struct tachy_pipeline *p, tachy_task *task, struct pipeline_batcher **out)
{
    *out = NULL;
    if (p->batch > 1 && task->save) {
        tachy_msg(p->log, TACHY_LOG_WARN, "--save-stage: pictures run one at a time in this run");
        return TACHY_OK;
    }
    struct tachy_stage *st = p->batch > 1 ? find_stage(task) : NULL;
    if (!st && p->batch > 1 && (!task->devices || follows(task)) && tachy_task_flag(task, 0, TACHY_STAGE_MODEL))
        tachy_msg(p->log, TACHY_LOG_INFO, "%s: takes one picture at a time%s, so batches of %d become batches of 1", task->name,
                  follows(task) ? ", since what it looks at follows from the frame before" : "", p->batch);
    if (!st)
        return TACHY_OK;
    struct pipeline_batcher *b = p->batchers;
    while (b && (b->ops != st->ops || b->index != st->index || b->item_at != st->item_at || strcmp(b->key, st->batch_key)))
        b = b->next;
    if (!b) {
        int err = open_batcher(&b, p, st);
        if (err == TACHY_ERR_MISMATCH || err == TACHY_ERR_UNSUPPORTED) {
            tachy_msg(p->log, TACHY_LOG_WARN,
                      "model: %s takes one picture a run, so batches of %d become batches of 1", st->batch_key,
                      p->batch);
            return TACHY_OK;
        }
        if (err < 0)
            return err;
        pthread_mutex_lock(&p->list);
        b->next = p->batchers;
        p->batchers = b;
        pthread_mutex_unlock(&p->list);
    }
    b->binds++;
    st->batched = true;
    *out = b;
    return TACHY_OK;
}

void pipeline_batch_put(struct tachy_pipeline *p, struct pipeline_batcher *b)
{
    if (!b || --b->binds)
        return;
    struct pipeline_batcher **link = &p->batchers;
    pthread_mutex_lock(&p->list);
    while (*link != b)
        link = &(*link)->next;
    *link = b->next;
    for (int i = 0; i < b->nb_engines; i++)
        pipeline_keep(p, b->prof[i]);
    pthread_mutex_unlock(&p->list);
    close_batcher(b);
}

void pipeline_batch_figures(struct tachy_pipeline *p, struct tachy_prof *all)
{
    for (struct pipeline_batcher *b = p->batchers; b; b = b->next)
        for (int i = 0; i < b->nb_engines; i++)
            tachy_prof_merge(all, b->prof[i]);
}

void pipeline_batch_use(struct pipeline_batcher *b, struct pipeline_batch_use *use)
{
    pthread_mutex_lock(&b->lock);
    *use = (struct pipeline_batch_use){.step = b->step, .max = b->most, .runs = b->runs, .items = b->pieces};
    pthread_mutex_unlock(&b->lock);
    for (int i = 0; i < b->nb_engines; i++)
        use->run_s += 1e-9 * (double)atomic_load(&b->prof[i]->step[b->step].busy_ns);
}
