#include "batcher/batcher_priv.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>

// ---- Opening ----

static uint64_t real_now(void *user) { return tachy_now_ns(); }

static void real_wait(void *user, pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns)
{
    tachy_cond_wait_until(cond, lock, until_ns);
}

static bool preferred_valid(const struct tachy_batcher_params *p)
{
    int last = 0;
    for (int i = 0; i < TACHY_BATCH_PREFERRED_MAX && p->preferred[i]; i++) {
        if (p->preferred[i] <= last || p->preferred[i] > p->max_batch)
            return false;
        last = p->preferred[i];
    }
    return true;
}

// `p` has its defaults filled in.
static int check_params(const struct tachy_batcher_params *p)
{
    const struct tachy_log *log = p->log;
    if (!TACHY_CHECK(log, p->max_batch >= 1 && p->max_batch <= TACHY_BATCH_MAX) ||
        !TACHY_CHECK(log, p->timeout_us >= -1 && p->timeout_us <= 1000000000) ||
        !TACHY_CHECK(log, p->ageing_us >= 1 && p->ageing_us <= 1000000000) ||
        !TACHY_CHECK(log, p->max_items >= p->max_batch && p->max_items <= 1 << 20) ||
        !TACHY_CHECK(log, p->workers == TACHY_BATCHER_NO_WORKERS ||
                              (p->workers >= 1 && p->workers <= 64)) ||
        !TACHY_CHECK(log, p->workers == TACHY_BATCHER_NO_WORKERS || p->run) ||
        !TACHY_CHECK(log, !p->clock || (p->clock->now_ns && p->clock->wait_until)))
        return TACHY_ERR_INVAL;
    if (!preferred_valid(p))
        return tachy_fail(log, TACHY_ERR_INVAL,
                          "batcher: preferred sizes must rise from 1 to max_batch (%d)",
                          p->max_batch);
    return TACHY_OK;
}

static void fill_defaults(struct tachy_batcher_params *p)
{
    p->max_batch = TACHY_DEF(p->max_batch, 8);
    p->timeout_us = TACHY_DEF(p->timeout_us, TACHY_BATCH_TIMEOUT_US);
    p->ageing_us = TACHY_DEF(p->ageing_us, 10000);
    p->max_items = TACHY_DEF(p->max_items, TACHY_MAX(4 * p->max_batch, 256));
    p->workers = TACHY_DEF(p->workers, 1);
}

static int alloc_parts(tachy_batcher *b)
{
    int err = tachy_bq_open(&b->queue, b->params.max_items, b->params.ageing_us * 1000);
    if (err < 0)
        return err;
    size_t workers = (size_t)TACHY_MAX(b->params.workers, 1);
    b->workers = calloc(workers, sizeof(*b->workers));
    for (int i = 0; b->workers && i < b->params.workers; i++) {
        struct batch_worker *w = &b->workers[i];
        *w = (struct batch_worker){.batcher = b, .index = i, .batch = tachy_batch_new(b)};
        if (!w->batch)
            return TACHY_ERR_NOMEM;
    }
    return b->workers ? TACHY_OK : TACHY_ERR_NOMEM;
}

static int start_workers(tachy_batcher *b)
{
    for (int i = 0; i < b->params.workers; i++) {
        struct batch_worker *w = &b->workers[i];
        pthread_mutex_lock(&b->lock);
        b->alive++;
        pthread_mutex_unlock(&b->lock);
        int err = pthread_create(&w->thread, NULL, tachy_batcher_worker, w);
        if (!err) {
            b->started++;
            continue;
        }
        pthread_mutex_lock(&b->lock);
        b->alive--;
        pthread_mutex_unlock(&b->lock);
        return tachy_fail(b->params.log, TACHY_ERR_UNAVAILABLE,
                          "batcher: worker thread %d of %d could not be started (%s)", i + 1,
                          b->params.workers, strerror(err));
    }
    return TACHY_OK;
}

int tachy_batcher_open_sized(size_t p_size, tachy_batcher **out, const struct tachy_batcher_params *p)
{
    struct tachy_batcher_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), out && p))
        return TACHY_ERR_INVAL;
    struct tachy_batcher_params params = *p;
    fill_defaults(&params);
    int err = check_params(&params);
    if (err < 0)
        return err;
    tachy_batcher *b = calloc(1, sizeof(*b));
    if (!b)
        return tachy_fail(params.log, TACHY_ERR_NOMEM, "batcher: out of memory");
    b->params = params;
    b->max_batch = params.max_batch;
    b->clock = params.clock ? *params.clock : (struct tachy_clock){real_now, real_wait, NULL};
    b->watched = TACHY_NEVER;
    pthread_mutex_init(&b->lock, NULL);
    tachy_cond_init(&b->work);
    tachy_cond_init(&b->space);
    tachy_cond_init(&b->quiet);
    err = alloc_parts(b);
    if (err < 0)
        tachy_fail(params.log, err, "batcher: out of memory for max_items=%d", params.max_items);
    else
        err = start_workers(b);
    if (err < 0)
        tachy_batcher_close(&b);
    *out = b;
    return err;
}

// ---- Parts with the lock held ----

void tachy_batcher_tick(tachy_batcher *b)
{
    uint64_t now = b->clock.now_ns(b->clock.user);
    b->now = TACHY_MAX(b->now, now);
    tachy_bq_ripen(&b->queue, b->now);
}

void tachy_batcher_wake(tachy_batcher *b)
{
    const struct tachy_bq *q = &b->queue;
    if (b->idle > b->woken && (q->ripe.n || tachy_bq_count(q) >= b->max_batch ||
                               tachy_bq_next_due(q) < b->watched)) {
        b->woken++;
        pthread_cond_signal(&b->work);
    }
}

void tachy_batcher_space(tachy_batcher *b, int n)
{
    for (int i = 0; i < n && i < b->blocked; i++)
        pthread_cond_signal(&b->space);
}

// Whether the calling thread is one of the workers.
static bool is_worker(const tachy_batcher *b)
{
    for (int i = 0; i < b->params.workers; i++)
        if (b->workers[i].running && pthread_equal(b->workers[i].self, pthread_self()))
            return true;
    return false;
}

void tachy_batcher_leave(tachy_batcher *b)
{
    b->guests--;
    if (b->stopping)
        pthread_cond_broadcast(&b->quiet);
}

// ---- Submitting ----

static int check_submit(const tachy_batcher *b, const struct tachy_submit_params *p)
{
    const struct tachy_log *log = b->params.log;
    return TACHY_CHECK(log, p->priority >= -TACHY_BATCH_PRIORITY_MAX &&
                                p->priority <= TACHY_BATCH_PRIORITY_MAX) &&
                   TACHY_CHECK(log, p->timeout_us >= -1 && p->timeout_us <= 1000000000)
               ? TACHY_OK
               : TACHY_ERR_INVAL;
}

// A slot for a new item; NULL and *err if there is none.
static struct tachy_bq_slot *wait_for_slot(tachy_batcher *b, bool nonblocking, int *err)
{
    for (;;) {
        *err = TACHY_ERR_INTERRUPTED;
        if (b->stopping)
            return NULL;
        struct tachy_bq_slot *s = tachy_bq_new(&b->queue);
        if (s)
            return s;
        *err = TACHY_ERR_AGAIN;
        if (nonblocking || is_worker(b)) {
            b->count.refused++;
            return NULL;
        }
        b->guests++;
        b->blocked++;
        b->clock.wait_until(b->clock.user, &b->space, &b->lock, TACHY_NEVER);
        b->blocked--;
        tachy_batcher_leave(b);
    }
}

static uint64_t due_of(const tachy_batcher *b, const struct tachy_submit_params *p)
{
    if (p->due_ns)
        return p->due_ns;
    int64_t timeout_us = TACHY_DEF(p->timeout_us, b->params.timeout_us);
    return timeout_us < 0 ? b->now : b->now + (uint64_t)timeout_us * 1000;
}

static int add_item(tachy_batcher *b, const struct tachy_submit_params *p, tachy_ticket *ticket)
{
    int err;
    struct tachy_bq_slot *s = wait_for_slot(b, p->nonblocking, &err);
    if (!s)
        return err;
    tachy_batcher_tick(b);
    s->item = (struct tachy_batch_item){.user = p->user, .stream = p->stream,
                                        .priority = p->priority, .submit_ns = b->now,
                                        .due_ns = due_of(b, p)};
    s->done = p->done;
    s->ticket = ticket;
    if (ticket)
        ticket->slot = s;
    tachy_bq_add(&b->queue, s);
    b->count.submitted++;
    tachy_batcher_wake(b);
    return TACHY_OK;
}

int tachy_batcher_submit_sized(size_t p_size, tachy_batcher *b, const struct tachy_submit_params *p,
                               tachy_ticket **ticket)
{
    struct tachy_submit_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    tachy_ticket *t = NULL;
    TACHY_CLEAR(ticket);
    if (!TACHY_CHECK(TACHY_LOG_OF(b, params.log), b && p))
        return TACHY_ERR_INVAL;
    int err = check_submit(b, p);
    if (err < 0)
        return err;
    if (ticket && !(t = tachy_ticket_new(b)))
        return tachy_fail(b->params.log, TACHY_ERR_NOMEM, "batcher: out of memory for a ticket");
    pthread_mutex_lock(&b->lock);
    err = add_item(b, p, t);
    pthread_mutex_unlock(&b->lock);
    if (err < 0) {
        tachy_ticket_unref(t); // the item's reference, which never came to be
        tachy_ticket_unref(t);
        return err;
    }
    if (ticket)
        *ticket = t;
    return TACHY_OK;
}

// ---- Cancelling and closing batches early ----

// Ends a list of items that were taken out and gives their slots back; their number.
static int end_cancelled(tachy_batcher *b, struct tachy_bq_slot *list)
{
    int n = 0;
    for (struct tachy_bq_slot *s = list; s; s = s->next, n++)
        tachy_batch_end_item(s->item.user, &(struct batch_ending){s->done, s->ticket},
                             TACHY_ERR_INTERRUPTED);
    pthread_mutex_lock(&b->lock);
    while (list) {
        struct tachy_bq_slot *next = list->next;
        tachy_bq_free(&b->queue, list);
        list = next;
    }
    tachy_batcher_space(b, n);
    pthread_mutex_unlock(&b->lock);
    return n;
}

// Nobody can cancel these again, and they count as cancelled from here on. Lock held.
static void note_cancelled(tachy_batcher *b, struct tachy_bq_slot *list)
{
    for (struct tachy_bq_slot *s = list; s; s = s->next) {
        b->count.cancelled++;
        if (s->ticket)
            s->ticket->slot = NULL;
    }
}

int tachy_batcher_cancel(tachy_batcher *b, tachy_ticket *t)
{
    if (!TACHY_CHECK(TACHY_LOG_OF(b, params.log), b && t && t->owner == b))
        return TACHY_ERR_INVAL;
    pthread_mutex_lock(&b->lock);
    struct tachy_bq_slot *s = t->slot;
    if (s) {
        tachy_bq_remove(&b->queue, s);
        note_cancelled(b, s);
    }
    pthread_mutex_unlock(&b->lock);
    if (!s)
        return TACHY_ERR_STATE;
    end_cancelled(b, s);
    return TACHY_OK;
}

int tachy_batcher_cancel_stream(tachy_batcher *b, uint64_t stream)
{
    if (!b)
        return TACHY_ERR_INVAL;
    pthread_mutex_lock(&b->lock);
    struct tachy_bq_slot *list = tachy_bq_remove_all(&b->queue, &stream);
    note_cancelled(b, list);
    pthread_mutex_unlock(&b->lock);
    return end_cancelled(b, list);
}

void tachy_batcher_flush(tachy_batcher *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    tachy_bq_ripen_all(&b->queue, TACHY_BATCH_FLUSH);
    tachy_batcher_wake(b);
    pthread_mutex_unlock(&b->lock);
}

void tachy_batcher_end(tachy_batcher *b, uint64_t stream)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    tachy_bq_ripen_stream(&b->queue, stream, TACHY_BATCH_END);
    tachy_batcher_wake(b);
    pthread_mutex_unlock(&b->lock);
}

int tachy_batcher_set_max_batch(tachy_batcher *b, int n)
{
    if (!TACHY_CHECK(TACHY_LOG_OF(b, params.log), b && n >= 1 && n <= b->params.max_batch))
        return TACHY_ERR_INVAL;
    pthread_mutex_lock(&b->lock);
    b->max_batch = n;
    tachy_batcher_wake(b);
    pthread_mutex_unlock(&b->lock);
    return TACHY_OK;
}

// ---- Stopping ----

int tachy_batcher_stop(tachy_batcher *b, enum tachy_stop_how how)
{
    struct tachy_bq_slot *list = NULL;
    if (!b)
        return TACHY_ERR_INVAL;
    pthread_mutex_lock(&b->lock);
    b->stopping = true;
    if (how == TACHY_STOP_CANCEL)
        list = tachy_bq_remove_all(&b->queue, NULL);
    else
        tachy_bq_ripen_all(&b->queue, TACHY_BATCH_FLUSH);
    note_cancelled(b, list);
    pthread_cond_broadcast(&b->work);
    pthread_cond_broadcast(&b->space);
    bool own = is_worker(b);
    pthread_mutex_unlock(&b->lock);
    end_cancelled(b, list);
    if (own)
        return TACHY_ERR_STATE;
    pthread_mutex_lock(&b->lock);
    while (b->alive)
        b->clock.wait_until(b->clock.user, &b->quiet, &b->lock, TACHY_NEVER);
    pthread_mutex_unlock(&b->lock);
    return TACHY_OK;
}

static void free_parts(tachy_batcher *b)
{
    while (b->free) {
        struct batch *next = b->free->next;
        free(b->free);
        b->free = next;
    }
    for (int i = 0; b->workers && i < b->params.workers; i++)
        free(b->workers[i].batch);
    free(b->workers);
    tachy_bq_close(&b->queue);
    pthread_cond_destroy(&b->work);
    pthread_cond_destroy(&b->space);
    pthread_cond_destroy(&b->quiet);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

void tachy_batcher_close(tachy_batcher **batcher)
{
    tachy_batcher *b = batcher ? *batcher : NULL;
    if (!b)
        return;
    enum tachy_stop_how how = b->params.workers > 0 ? TACHY_STOP_RUN : TACHY_STOP_CANCEL;
    if (b->workers && tachy_batcher_stop(b, how) == TACHY_ERR_STATE) {
        tachy_fail(b->params.log, TACHY_ERR_STATE, "batcher: closed by its own worker: not freed");
        return;
    }
    *batcher = NULL;
    for (int i = 0; i < b->started; i++)
        pthread_join(b->workers[i].thread, NULL);
    pthread_mutex_lock(&b->lock);
    while (b->guests)
        b->clock.wait_until(b->clock.user, &b->quiet, &b->lock, TACHY_NEVER);
    pthread_mutex_unlock(&b->lock);
    free_parts(b);
}

// ---- Figures ----

uint64_t tachy_batcher_now(const tachy_batcher *b) { return b ? b->clock.now_ns(b->clock.user) : 0; }

void tachy_batcher_stats_sized(size_t s_size, tachy_batcher *b, struct tachy_batcher_stats *out)
{
    if (!TACHY_CHECK(TACHY_LOG_OF(b, params.log), b && out))
        return;
    pthread_mutex_lock(&b->lock);
    struct tachy_batcher_stats now = b->count, *s = &now;
    s->waiting = tachy_bq_count(&b->queue);
    uint64_t items = b->items_out;
    pthread_mutex_unlock(&b->lock);
    uint64_t batches = 0;
    for (int i = 0; i < TACHY_BATCH_REASONS; i++)
        batches += s->batches[i];
    s->mean_batch = batches ? (double)items / (double)batches : 0;
    s->wait_p50_us = tachy_hist_quantile(&b->wait, 0.5) * 1e-3;
    s->wait_p95_us = tachy_hist_quantile(&b->wait, 0.95) * 1e-3;
    s->wait_p99_us = tachy_hist_quantile(&b->wait, 0.99) * 1e-3;
    s->wait_max_us = tachy_hist_quantile(&b->wait, 1) * 1e-3;
    s->late_p50_us = tachy_hist_quantile(&b->late, 0.5) * 1e-3;
    s->late_p99_us = tachy_hist_quantile(&b->late, 0.99) * 1e-3;
    s->late_max_us = tachy_hist_quantile(&b->late, 1) * 1e-3;
    tachy_sized_out(out, s_size, &now, sizeof(now));
}

const char *tachy_batch_reason_name(enum tachy_batch_reason r)
{
    static const char *const names[] = {"full", "deadline", "flush", "end"};
    return (unsigned)r < TACHY_ARRAY_SIZE(names) ? names[r] : "unknown";
}
