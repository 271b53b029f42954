#include "batcher/batcher_priv.h"

#include "base/base.h"

#include <stdlib.h>

struct batch *tachy_batch_new(const tachy_batcher *b)
{
    size_t n = (size_t)b->params.max_batch;
    struct batch *batch = malloc(sizeof(*batch) + n * sizeof(batch->items[0]) +
                                 n * sizeof(batch->endings[0]));
    if (!batch)
        return NULL;
    *batch = (struct batch){.pub.items = batch->items};
    batch->endings = (struct batch_ending *)(batch->items + n);
    return batch;
}

// ---- Taking ----

// Sleeps until there may be something to take, at most until `until`. One of the sleepers watches the next deadline, so
// that a deadline wakes only one thread. Lock held.
static void sleep_for_work(tachy_batcher *b, uint64_t until)
{
    uint64_t due = tachy_bq_next_due(&b->queue);
    bool watches = due < b->watched;
    if (watches)
        b->watched = due;
    b->idle++;
    b->clock.wait_until(b->clock.user, &b->work, &b->lock, watches ? TACHY_MIN(due, until) : until);
    b->idle--;
    if (b->woken)
        b->woken--;
    if (watches && b->watched == due)
        b->watched = TACHY_NEVER;
}

// Moves an item from the queue into the batch.
static void move_first(tachy_batcher *b, struct batch *batch, uint64_t *due)
{
    struct tachy_bq_slot *s = tachy_bq_first(&b->queue);
    int i = batch->pub.count++;
    batch->items[i] = s->item;
    batch->endings[i] = (struct batch_ending){s->done, s->ticket};
    if (s->ticket)
        s->ticket->slot = NULL;
    if (s->ripe && s->reason == TACHY_BATCH_DEADLINE)
        *due = TACHY_MIN(*due, s->due_ns);
    tachy_hist_add(&b->wait, b->now - s->item.submit_ns);
    tachy_bq_remove(&b->queue, s);
    tachy_bq_free(&b->queue, s);
}

// Fills a batch with the `n` items that go first. Lock held.
static void fill(tachy_batcher *b, struct batch *batch, int n, int worker)
{
    uint64_t due = TACHY_NEVER;
    const struct tachy_bq_slot *first = tachy_bq_first(&b->queue);
    enum tachy_batch_reason reason = n == b->max_batch ? TACHY_BATCH_FULL : first->reason;
    batch->pub = (struct tachy_batch){.items = batch->items, .worker = worker, .reason = reason};
    while (batch->pub.count < n)
        move_first(b, batch, &due);
    if (reason == TACHY_BATCH_DEADLINE)
        tachy_hist_add(&b->late, b->now - due);
    b->count.batches[reason]++;
    b->count.running += n;
    b->items_out += (uint64_t)n;
    tachy_batcher_space(b, n);
}

// The number of items to take, once there are some; or a code.
static int wait_for_items(tachy_batcher *b, uint64_t until)
{
    for (;;) {
        tachy_batcher_tick(b);
        int n = tachy_bq_closable(&b->queue, b->max_batch, b->params.preferred);
        if (n)
            return n;
        if (b->stopping) // all was made ripe, so nothing waits
            return TACHY_ERR_EOF;
        if (b->now >= until)
            return TACHY_ERR_AGAIN;
        sleep_for_work(b, until);
    }
}

// A worker brings its own batch, others take one of the free ones. Lock held.
static int take(tachy_batcher *b, struct batch_worker *w, uint64_t until, struct batch **out)
{
    int n = wait_for_items(b, until), err = TACHY_MIN(n, 0);
    *out = NULL;
    if (n > 0) {
        struct batch *batch = w ? w->batch : b->free ? b->free : tachy_batch_new(b);
        if (batch && batch == b->free)
            b->free = batch->next;
        if (batch)
            fill(b, batch, n, w ? w->index : -1);
        else
            err = TACHY_ERR_NOMEM;
        *out = batch;
    }
    tachy_batcher_wake(b); // for what is left, and the next deadline
    return err;
}

int tachy_batcher_take(tachy_batcher *b, int64_t timeout_us, struct tachy_batch **batch)
{
    struct batch *got;
    TACHY_CLEAR(batch);
    if (!TACHY_CHECK(TACHY_LOG_OF(b, params.log), b && batch))
        return TACHY_ERR_INVAL;
    pthread_mutex_lock(&b->lock);
    uint64_t until = TACHY_NEVER;
    if (timeout_us >= 0) {
        tachy_batcher_tick(b);
        until = b->now + (uint64_t)TACHY_MIN(timeout_us, INT64_MAX / 2000) * 1000;
    }
    b->guests++;
    int err = take(b, NULL, until, &got);
    tachy_batcher_leave(b);
    pthread_mutex_unlock(&b->lock);
    if (err == TACHY_OK)
        *batch = &got->pub;
    return err;
}

uint64_t tachy_batcher_next(tachy_batcher *b)
{
    if (!b)
        return 0;
    pthread_mutex_lock(&b->lock);
    tachy_batcher_tick(b);
    int n = tachy_bq_closable(&b->queue, b->max_batch, b->params.preferred);
    uint64_t due = n ? 0 : tachy_bq_next_due(&b->queue);
    pthread_mutex_unlock(&b->lock);
    return due;
}

// ---- Ending ----

static int code_of(const struct tachy_batch_item *item, int err)
{
    int e = err < 0 ? err : TACHY_MIN(item->err, 0);
    return e == TACHY_ERR_AGAIN ? TACHY_ERR_EXTERNAL : e; // a ticket says AGAIN for "not yet"
}

// Ends `n` items of a batch, from `at` on, after a run that returned `err`.
static void end_items(tachy_batcher *b, struct batch *batch, int at, int n, int err)
{
    uint64_t failed = 0;
    for (int i = at; i < at + n; i++)
        failed += code_of(&batch->items[i], err) < 0;
    pthread_mutex_lock(&b->lock);
    b->count.failed += failed;
    b->count.done += (uint64_t)n - failed;
    b->count.running -= n;
    pthread_mutex_unlock(&b->lock);
    for (int i = at; i < at + n; i++)
        tachy_batch_end_item(batch->items[i].user, &batch->endings[i],
                             code_of(&batch->items[i], err));
}

void tachy_batcher_finish(tachy_batcher *b, struct tachy_batch **batch, int err)
{
    if (!TACHY_CHECK(TACHY_LOG_OF(b, params.log), b && batch && *batch))
        return;
    struct batch *own = (struct batch *)*batch; // its first member
    *batch = NULL;
    end_items(b, own, 0, own->pub.count, err);
    pthread_mutex_lock(&b->lock);
    own->next = b->free;
    b->free = own;
    pthread_mutex_unlock(&b->lock);
}

static void note_halved(tachy_batcher *b, int from, int to)
{
    pthread_mutex_lock(&b->lock);
    bool first = !b->count.halved++;
    pthread_mutex_unlock(&b->lock);
    if (first)
        tachy_msg(b->params.log, TACHY_LOG_WARN,
                  "batcher: out of memory with a batch of %d, trying again with %d; a smaller "
                  "batch size avoids this (said once)", from, to);
}

// Runs a batch, in smaller parts where memory is short. A part that went through is ended at
// once; a size that did not is not tried again for this batch.
static void run_batch(tachy_batcher *b, struct batch *batch)
{
    int count = batch->pub.count, size = count;
    for (int at = 0; at < count;) {
        struct tachy_batch part = batch->pub;
        part.items += at;
        part.count = TACHY_MIN(size, count - at);
        int err = b->params.run(b->params.user, &part);
        if (err == TACHY_ERR_NOMEM && part.count > 1) {
            size = part.count / 2;
            note_halved(b, part.count, size);
            for (int i = 0; i < part.count; i++)
                part.items[i].err = 0;
            continue;
        }
        end_items(b, batch, at, part.count, err);
        at += part.count;
    }
}

void *tachy_batcher_worker(void *worker)
{
    struct batch_worker *w = worker;
    tachy_batcher *b = w->batcher;
    pthread_mutex_lock(&b->lock);
    w->self = pthread_self();
    w->running = true;
    struct batch *batch;
    while (take(b, w, TACHY_NEVER, &batch) == TACHY_OK) {
        pthread_mutex_unlock(&b->lock);
        run_batch(b, batch);
        pthread_mutex_lock(&b->lock);
    }
    w->running = false;
    b->alive--;
    pthread_cond_broadcast(&b->quiet);
    pthread_mutex_unlock(&b->lock);
    return NULL;
}
