#include "test.h"

#include <math.h>
#include <tachy/batcher.h>

// The batcher in simulated time, single-threaded: it has no workers, and the test takes and finishes batches.
// test_batcher_threads.c covers threads.

enum { US = 1000 };

static uint64_t sim_now; // ns

static uint64_t sim_clock_now(void *user) { return sim_now; }

static void sim_clock_wait(void *user, pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until)
{
    CHECK(until != TACHY_NEVER); // nobody would wake the only thread
    sim_now = until;
}

static const struct tachy_clock sim_clock = {.now_ns = sim_clock_now, .wait_until = sim_clock_wait};

// Repeatable on every machine (xorshift64*, Vigna 2016).
static uint64_t rng_state;

static uint64_t rng(void)
{
    rng_state ^= rng_state >> 12;
    rng_state ^= rng_state << 25;
    rng_state ^= rng_state >> 27;
    return rng_state * 0x2545f4914f6cdd1du;
}

static uint64_t below(uint64_t n) { return (rng() >> 11) % n; }
static bool chance(int percent) { return below(100) < (uint64_t)percent; }
static double uniform(void) { return ((double)(rng() >> 11) + 0.5) / 9007199254740992.0; }

static tachy_batcher *open_sim(struct tachy_batcher_params p)
{
    tachy_batcher *b;
    p.workers = TACHY_BATCHER_NO_WORKERS;
    p.clock = &sim_clock;
    sim_now = 1000000000;
    CHECK_INT(tachy_batcher_open(&b, &p), TACHY_OK);
    return b;
}

static void submit(tachy_batcher *b, struct tachy_submit_params p)
{
    CHECK_INT(tachy_batcher_submit(b, &p, NULL), TACHY_OK);
}

#define SUBMIT(b, ...) submit(b, (struct tachy_submit_params){__VA_ARGS__})
#define N(x) ((void *)(intptr_t)(x))

// Takes a batch now and finishes it: "3 1 2 deadline", the user pointers and the reason; ""
// if there is none.
static const char *taken(tachy_batcher *b)
{
    static char text[256];
    struct tachy_batch *batch;
    text[0] = 0;
    int err = tachy_batcher_take(b, 0, &batch);
    if (err < 0) {
        CHECK(err == TACHY_ERR_AGAIN || err == TACHY_ERR_EOF);
        return text;
    }
    for (int i = 0; i < batch->count; i++)
        sprintf(text + strlen(text), "%d ", (int)(intptr_t)batch->items[i].user);
    strcat(text, tachy_batch_reason_name(batch->reason));
    tachy_batcher_finish(b, &batch, TACHY_OK);
    CHECK(!batch);
    return text;
}

// ---- Rules, one by one ----

TEST(closes_when_full_and_at_the_deadline)
{
    tachy_batcher *b = open_sim((struct tachy_batcher_params){.max_batch = 3, .timeout_us = 100});
    CHECK(tachy_batcher_next(b) == TACHY_NEVER);
    SUBMIT(b, .user = N(1));
    uint64_t start = sim_now;
    SUBMIT(b, .user = N(2));
    CHECK_STR(taken(b), "");
    CHECK_INT(tachy_batcher_next(b), start + 100 * US);
    SUBMIT(b, .user = N(3));
    CHECK_INT(tachy_batcher_next(b), 0);
    CHECK_STR(taken(b), "1 2 3 full");

    SUBMIT(b, .user = N(4));
    sim_now += 60 * US;
    SUBMIT(b, .user = N(5));
    sim_now += 39 * US;
    CHECK_STR(taken(b), "");
    sim_now += US;
    CHECK_STR(taken(b), "4 5 deadline"); // the oldest item's clock
    SUBMIT(b, .user = N(6), .timeout_us = -1);
    CHECK_STR(taken(b), "6 deadline");
    SUBMIT(b, .user = N(7), .timeout_us = 10);
    SUBMIT(b, .user = N(8), .due_ns = sim_now + 5 * US);
    CHECK_INT(tachy_batcher_next(b), sim_now + 5 * US);
    SUBMIT(b, .user = N(9), .due_ns = 1); // long gone
    CHECK_STR(taken(b), "7 8 9 full");
    tachy_batcher_close(&b);
    CHECK(!b);
}

TEST(take_waits_for_the_deadline)
{
    tachy_batcher *b = open_sim((struct tachy_batcher_params){.timeout_us = 700});
    struct tachy_batch *batch;
    uint64_t start = sim_now;
    SUBMIT(b, .user = N(1));
    CHECK_INT(tachy_batcher_take(b, 300, &batch), TACHY_ERR_AGAIN);
    CHECK_INT(sim_now, start + 300 * US);
    CHECK_INT(tachy_batcher_take(b, -1, &batch), TACHY_OK);
    CHECK_INT(sim_now, start + 700 * US);
    CHECK_INT(batch->count, 1);
    CHECK_INT(batch->worker, -1);
    CHECK_INT(batch->items[0].due_ns, sim_now);
    CHECK_INT(batch->items[0].submit_ns, start);
    tachy_batcher_finish(b, &batch, TACHY_OK);
    tachy_batcher_close(&b);
}

TEST(preferred_sizes)
{
    tachy_batcher *b = open_sim((struct tachy_batcher_params){
        .max_batch = 8, .preferred = {1, 4, 8}, .timeout_us = 100});
    for (int i = 1; i <= 6; i++) {
        SUBMIT(b, .user = N(i));
        sim_now += 10 * US;
    }
    sim_now += 50 * US; // 2 are due
    CHECK_STR(taken(b), "1 2 3 4 deadline");
    CHECK_STR(taken(b), "");
    sim_now += 30 * US;
    CHECK_STR(taken(b), "5 deadline");
    sim_now += 10 * US;
    CHECK_STR(taken(b), "6 deadline");
    for (int i = 1; i <= 6; i++)
        SUBMIT(b, .user = N(i));
    sim_now += 100 * US; // all are due: none may be left out
    CHECK_STR(taken(b), "1 2 3 4 5 6 deadline");
    for (int i = 1; i <= 11; i++)
        SUBMIT(b, .user = N(i));
    CHECK_STR(taken(b), "1 2 3 4 5 6 7 8 full");
    tachy_batcher_flush(b);
    CHECK_STR(taken(b), "9 10 11 flush");
    CHECK_INT(tachy_batcher_set_max_batch(b, 5), TACHY_OK);
    for (int i = 1; i <= 6; i++)
        SUBMIT(b, .user = N(i));
    CHECK_STR(taken(b), "1 2 3 4 5 full");
    CHECK_STR(taken(b), "");
    CHECK_INT(tachy_batcher_set_max_batch(b, 9), TACHY_ERR_INVAL);
    CHECK_INT(tachy_batcher_set_max_batch(b, 0), TACHY_ERR_INVAL);
    tachy_batcher_close(&b);
}

TEST(priorities_age)
{
    tachy_batcher *b = open_sim((struct tachy_batcher_params){
        .max_batch = 2, .timeout_us = 100000, .ageing_us = 1000});
    SUBMIT(b, .user = N(1), .priority = 0);
    sim_now += 1999 * US;
    SUBMIT(b, .user = N(2), .priority = 2, .stream = 1); // 2 against 0 + 1.999
    sim_now += 1000 * US;                                // waiting together changes nothing
    SUBMIT(b, .user = N(3), .priority = 2, .stream = 2);
    CHECK_STR(taken(b), "2 1 full"); // 3 against 0 + 2.999 and 2 + 1: last
    tachy_batcher_flush(b);
    CHECK_STR(taken(b), "3 flush");

    // Due items go first, whatever their priority.
    SUBMIT(b, .user = N(4), .priority = -100, .timeout_us = 10);
    sim_now += 10 * US;
    SUBMIT(b, .user = N(5), .priority = 100);
    SUBMIT(b, .user = N(6), .priority = 99);
    CHECK_STR(taken(b), "4 5 full");
    tachy_batcher_close(&b);
}

TEST(a_deadline_does_not_break_a_streams_order)
{
    tachy_batcher *b = open_sim((struct tachy_batcher_params){.max_batch = 8, .timeout_us = 100});
    SUBMIT(b, .user = N(1), .stream = 1, .timeout_us = 1000);
    SUBMIT(b, .user = N(2), .stream = 2, .timeout_us = 2000);
    SUBMIT(b, .user = N(3), .stream = 1, .timeout_us = 500);
    SUBMIT(b, .user = N(4), .stream = 1, .timeout_us = 10);
    CHECK_INT(tachy_batcher_set_max_batch(b, 3), TACHY_OK);
    CHECK_STR(taken(b), "1 2 3 full"); // nothing is due: as they came
    sim_now += 10 * US;
    CHECK_STR(taken(b), "4 deadline");
    CHECK_INT(tachy_batcher_set_max_batch(b, 8), TACHY_OK);
    SUBMIT(b, .user = N(1), .stream = 2, .timeout_us = 2000);
    SUBMIT(b, .user = N(2), .stream = 1, .timeout_us = 1000);
    SUBMIT(b, .user = N(3), .stream = 1, .timeout_us = 10);
    sim_now += 10 * US;
    CHECK_STR(taken(b), "2 3 1 deadline"); // 2 is due because 3 is; 1 fills up
    tachy_batcher_close(&b);
}

static int ended[8];
static int end_code;
static void note_end(void *user, int err)
{
    ended[(intptr_t)user]++;
    end_code = err;
}

TEST(flush_and_end_of_stream)
{
    tachy_batcher *b = open_sim((struct tachy_batcher_params){
        .max_batch = 4, .preferred = {1}, .timeout_us = 1000000});
    SUBMIT(b, .user = N(1), .stream = 7);
    SUBMIT(b, .user = N(2), .stream = 8);
    SUBMIT(b, .user = N(3), .stream = 7);
    tachy_batcher_end(b, 99);
    CHECK_STR(taken(b), "");
    tachy_batcher_end(b, 7); // the tail is not held; the other stream's item keeps its time
    CHECK_STR(taken(b), "1 3 2 end");
    SUBMIT(b, .user = N(4), .stream = 7);
    CHECK_STR(taken(b), "");
    tachy_batcher_flush(b);
    SUBMIT(b, .user = N(5), .stream = 8);
    CHECK_STR(taken(b), "4 flush"); // cut to the preferred 1: 5 came after the flush
    CHECK_STR(taken(b), "");
    tachy_batcher_close(&b);
}

TEST(cancel)
{
    tachy_batcher *b = open_sim((struct tachy_batcher_params){.max_batch = 2, .max_items = 2});
    tachy_ticket *t[3];
    memset(ended, 0, sizeof(ended));
    for (int i = 0; i < 2; i++)
        CHECK_INT(tachy_batcher_submit(b, tachy_submit_params(.user = N(i), .done = note_end), &t[i]), 0);
    CHECK_INT(tachy_batcher_submit(b, tachy_submit_params(.user = N(2), .nonblocking = true), &t[2]),
              TACHY_ERR_AGAIN);
    CHECK(!t[2]);
    CHECK_INT(tachy_ticket_wait(t[0], 0), TACHY_ERR_AGAIN);
    uint64_t start = sim_now;
    CHECK_INT(tachy_ticket_wait(t[0], 50), TACHY_ERR_AGAIN);
    CHECK_INT(sim_now, start + 50 * US);
    CHECK_INT(tachy_batcher_cancel(b, t[0]), TACHY_OK);
    CHECK_INT(ended[0], 1);
    CHECK_INT(end_code, TACHY_ERR_INTERRUPTED);
    CHECK_INT(tachy_ticket_wait(t[0], 0), TACHY_ERR_INTERRUPTED);
    CHECK_INT(tachy_batcher_cancel(b, t[0]), TACHY_ERR_STATE); // done already
    CHECK_INT(tachy_batcher_submit(b, tachy_submit_params(.user = N(2), .done = note_end), &t[2]), 0);
    struct tachy_batch *batch;
    CHECK_INT(tachy_batcher_take(b, 0, &batch), TACHY_OK);
    CHECK_INT(tachy_batcher_cancel(b, t[1]), TACHY_ERR_STATE); // handed out
    batch->items[1].err = TACHY_ERR_FORMAT;                    // only one fails
    tachy_batcher_finish(b, &batch, TACHY_OK);
    CHECK_INT(ended[1], 1);
    CHECK_INT(ended[2], 1);
    CHECK_INT(tachy_ticket_wait(t[1], -1), TACHY_OK);
    CHECK_INT(tachy_ticket_wait(t[2], -1), TACHY_ERR_FORMAT);

    // A whole stream; and codes of a batch that fails.
    SUBMIT(b, .user = N(3), .stream = 5, .done = note_end);
    SUBMIT(b, .user = N(4), .stream = 6, .done = note_end);
    CHECK_INT(tachy_batcher_cancel_stream(b, 5), 1);
    CHECK_INT(tachy_batcher_cancel_stream(b, 5), 0);
    CHECK_INT(ended[3], 1);
    CHECK_INT(ended[4], 0);
    tachy_batcher_flush(b);
    CHECK_INT(tachy_batcher_take(b, 0, &batch), TACHY_OK);
    tachy_batcher_finish(b, &batch, TACHY_ERR_AGAIN);
    CHECK_INT(end_code, TACHY_ERR_EXTERNAL);

    tachy_batcher *other = open_sim((struct tachy_batcher_params){0});
    CHECK_INT(tachy_batcher_cancel(other, t[1]), TACHY_ERR_INVAL);
    tachy_batcher_close(&other);
    struct tachy_batcher_stats s;
    tachy_batcher_stats(b, &s);
    CHECK_INT(s.submitted, 5);
    CHECK_INT(s.done, 1);
    CHECK_INT(s.failed, 2);
    CHECK_INT(s.cancelled, 2);
    CHECK_INT(s.refused, 1);
    tachy_batcher_close(&b);
    for (int i = 0; i < 3; i++)
        tachy_ticket_close(&t[i]); // outlive the batcher
    tachy_ticket_close(&t[0]);
}

TEST(stop_runs_or_cancels)
{
    for (int how = 0; how < 2; how++) {
        tachy_batcher *b = open_sim((struct tachy_batcher_params){.max_batch = 2});
        memset(ended, 0, sizeof(ended));
        for (int i = 0; i < 3; i++)
            SUBMIT(b, .user = N(i), .done = note_end);
        CHECK_INT(tachy_batcher_stop(b, how ? TACHY_STOP_CANCEL : TACHY_STOP_RUN), TACHY_OK);
        CHECK_INT(tachy_batcher_submit(b, tachy_submit_params(0), NULL), TACHY_ERR_INTERRUPTED);
        CHECK_STR(taken(b), how ? "" : "0 1 full");
        CHECK_INT(end_code, how ? TACHY_ERR_INTERRUPTED : TACHY_OK);
        CHECK_STR(taken(b), how ? "" : "2 flush");
        struct tachy_batch *batch;
        CHECK_INT(tachy_batcher_take(b, -1, &batch), TACHY_ERR_EOF);
        tachy_batcher_close(&b);
        CHECK(ended[0] == 1 && ended[1] == 1 && ended[2] == 1);
    }
    tachy_batcher *b = open_sim((struct tachy_batcher_params){0}); // closed with an item inside
    memset(ended, 0, sizeof(ended));
    SUBMIT(b, .user = N(1), .done = note_end);
    tachy_batcher_close(&b);
    CHECK_INT(ended[1], 1);
    CHECK_INT(end_code, TACHY_ERR_INTERRUPTED);
    tachy_batcher_close(&b);
}

static char last_message[256];
static void keep_message(void *user, enum tachy_log_level level, const char *msg)
{
    snprintf(last_message, sizeof(last_message), "%s", msg);
}

static int never_run(void *user, const struct tachy_batch *batch) { return TACHY_OK; }

TEST(invalid_parameters_are_refused)
{
    struct tachy_log log = {.fn = keep_message};
    const struct tachy_batcher_params bad[] = {
        {0}, // workers without run
        {.run = never_run, .max_batch = -1},
        {.run = never_run, .max_batch = 1025},
        {.run = never_run, .max_batch = 4, .preferred = {2, 2}},
        {.run = never_run, .max_batch = 4, .preferred = {1, 5}},
        {.run = never_run, .max_batch = 4, .preferred = {-1}},
        {.run = never_run, .timeout_us = -2},
        {.run = never_run, .timeout_us = 1000000001},
        {.run = never_run, .ageing_us = -1},
        {.run = never_run, .max_batch = 8, .max_items = 7},
        {.run = never_run, .max_items = (1 << 20) + 1},
        {.run = never_run, .workers = 65},
        {.run = never_run, .workers = -2},
        {.run = never_run, .clock = &(struct tachy_clock){.now_ns = sim_clock_now}},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tachy_batcher_params p = bad[i];
        tachy_batcher *b = N(1);
        last_message[0] = 0;
        p.log = &log;
        CHECK_INT(tachy_batcher_open(&b, &p), TACHY_ERR_INVAL);
        CHECK(!b && last_message[0]);
        tachy_batcher_close(&b);
    }
    tachy_batcher *b = open_sim((struct tachy_batcher_params){.log = &log});
    CHECK_INT(tachy_batcher_submit(b, tachy_submit_params(.priority = 101), NULL), TACHY_ERR_INVAL);
    CHECK_INT(tachy_batcher_submit(b, tachy_submit_params(.timeout_us = -2), NULL), TACHY_ERR_INVAL);
    tachy_batcher_close(&b);
    CHECK_STR(tachy_batch_reason_name(TACHY_BATCH_END), "end");
    CHECK_STR(tachy_batch_reason_name((enum tachy_batch_reason)77), "unknown");
}

// ---- Properties: a random sequence of calls, compared with a model that is too simple to be wrong ----

enum { MAX_INSIDE = 80, EVENTS = 1500, WORKERS = 3 };

enum life { UNUSED, WAITING, RUNNING, RAN, CANCELLED };

struct thing {
    enum life life;
    int calls, err; // of `done`
    int priority;
    uint64_t stream;
    uint64_t submit, due;
    uint64_t ripe_at; // from then on it is due: its deadline, a later one's, a flush, an end
    tachy_ticket *ticket;
};

struct world {
    tachy_batcher *b;
    struct tachy_batcher_params p;
    int max_batch;
    struct thing *things;
    int count;             // submitted
    int waiting[MAX_INSIDE * 2], nb_waiting; // in the order of submits
    struct tachy_batch *batch[WORKERS];
    uint64_t until[WORKERS]; // when a busy worker finishes
    int workers;
    uint64_t service;
    int handed[TACHY_BATCH_REASONS];
    uint64_t stalled_until;
    int refused;
};

static struct world w;

static void thing_done(void *user, int err)
{
    struct thing *t = user;
    t->calls++;
    t->err = err;
}

static void unlist(int thing)
{
    int i = 0;
    while (w.waiting[i] != thing)
        i++;
    memmove(w.waiting + i, w.waiting + i + 1, (size_t)(--w.nb_waiting - i) * sizeof(int));
}

static bool same_lane(const struct thing *a, const struct thing *b)
{
    return a->stream == b->stream && a->priority == b->priority;
}

static void world_submit(void)
{
    struct thing *t = &w.things[w.count];
    *t = (struct thing){.priority = (int)below(3) ? 0 : (int)below(7) - 3, .stream = below(5)};
    struct tachy_submit_params p = {.user = t, .stream = t->stream, .priority = t->priority,
                                    .done = thing_done, .nonblocking = true};
    if (chance(30))
        p.timeout_us = chance(10) ? -1 : 1 + (int64_t)below(2000);
    if (chance(10))
        p.due_ns = sim_now - 100 * US + below(1000 * US);
    int err = tachy_batcher_submit(w.b, &p, chance(50) ? &t->ticket : NULL);
    if (w.nb_waiting == w.p.max_items) {
        CHECK_INT(err, TACHY_ERR_AGAIN);
        w.refused++;
        return;
    }
    CHECK_INT(err, TACHY_OK);
    int64_t timeout = p.timeout_us ? p.timeout_us : w.p.timeout_us;
    t->life = WAITING;
    t->submit = sim_now;
    t->due = p.due_ns ? p.due_ns : timeout < 0 ? sim_now : sim_now + (uint64_t)timeout * US;
    t->ripe_at = t->due;
    for (int i = 0; i < w.nb_waiting; i++) {
        struct thing *e = &w.things[w.waiting[i]];
        if (same_lane(e, t) && e->ripe_at > t->due)
            e->ripe_at = t->due;
    }
    w.waiting[w.nb_waiting++] = w.count++;
}

static void world_cancel(void)
{
    if (!w.count)
        return;
    int n = w.count - 1 - (int)below(w.count < 60 ? (uint64_t)w.count : 60);
    struct thing *t = &w.things[n];
    if (!t->ticket)
        return;
    bool in_time = t->life == WAITING;
    CHECK_INT(tachy_batcher_cancel(w.b, t->ticket), in_time ? TACHY_OK : TACHY_ERR_STATE);
    if (!in_time)
        return;
    CHECK_INT(t->calls, 1);
    CHECK_INT(t->err, TACHY_ERR_INTERRUPTED);
    t->life = CANCELLED;
    unlist(n);
}

static void world_ripen(bool all, uint64_t stream)
{
    for (int i = 0; i < w.nb_waiting; i++) {
        struct thing *t = &w.things[w.waiting[i]];
        if ((all || t->stream == stream) && t->ripe_at > sim_now)
            t->ripe_at = sim_now;
    }
}

// Items that one batch must have, counted the slow way.
static int expected_size(void)
{
    int ripe = 0, size = 0;
    for (int i = 0; i < w.nb_waiting; i++)
        ripe += w.things[w.waiting[i]].ripe_at <= sim_now;
    if (w.nb_waiting >= w.max_batch)
        return w.max_batch;
    for (int i = 0; w.p.preferred[i]; i++)
        if (w.p.preferred[i] <= w.nb_waiting)
            size = w.p.preferred[i];
    return !ripe ? 0 : size < ripe ? w.nb_waiting : size;
}

// priority + waited / ageing, times ageing, so that it is exact.
static int64_t effective(const struct thing *t)
{
    return t->priority * w.p.ageing_us * US + (int64_t)(sim_now - t->submit);
}

// `left` waits on while `t` goes: is that right?
static void check_pair(const struct thing *t, const struct thing *left)
{
    bool t_ripe = t->ripe_at <= sim_now, left_ripe = left->ripe_at <= sim_now;
    CHECK(t_ripe || !left_ripe);
    if (t_ripe == left_ripe)
        CHECK(effective(t) >= effective(left));
    if (same_lane(t, left))
        CHECK(t < left); // things lie in the order of submits
    // The bound of docs/batcher.md: who came later than this never goes first.
    int64_t ageing = (TACHY_BATCH_PRIORITY_MAX - left->priority) * w.p.ageing_us * US;
    int64_t own = (int64_t)left->due - (int64_t)left->submit;
    CHECK((int64_t)t->submit <= (int64_t)left->submit + (own > ageing ? own : ageing));
}

static void check_batch(const struct tachy_batch *batch, int expected)
{
    CHECK_INT(batch->count, expected);
    CHECK((batch->reason == TACHY_BATCH_FULL) == (batch->count == w.max_batch));
    for (int i = 0; i < batch->count; i++) {
        struct thing *t = batch->items[i].user;
        CHECK_INT(t->life, WAITING);
        CHECK_INT(batch->items[i].due_ns, t->due);
        t->life = RUNNING;
        unlist((int)(t - w.things));
        if (i && same_lane(t, batch->items[i - 1].user))
            CHECK(t > (struct thing *)batch->items[i - 1].user);
    }
    for (int i = 0; i < batch->count; i++)
        for (int k = 0; k < w.nb_waiting; k++)
            check_pair(batch->items[i].user, &w.things[w.waiting[k]]);
}

// Idle workers take what there is.
static void world_take(void)
{
    bool idle = false;
    for (int i = 0; i < w.workers; i++) {
        if (w.batch[i])
            continue;
        int expected = expected_size();
        CHECK((tachy_batcher_next(w.b) == 0) == (expected > 0));
        int err = tachy_batcher_take(w.b, 0, &w.batch[i]);
        CHECK_INT(err, expected ? TACHY_OK : TACHY_ERR_AGAIN);
        idle = idle || err != TACHY_OK;
        if (err != TACHY_OK)
            continue;
        w.handed[w.batch[i]->reason]++;
        check_batch(w.batch[i], expected);
        w.until[i] = sim_now + (w.service ? below(2 * w.service) : 0);
    }
    for (int i = 0; idle && i < w.nb_waiting; i++) // late only while no worker is idle
        CHECK(w.things[w.waiting[i]].ripe_at > sim_now);
}

static void world_finish(void)
{
    for (int i = 0; i < w.workers; i++) {
        if (!w.batch[i] || w.until[i] > sim_now)
            continue;
        struct thing *ran[TACHY_BATCH_MAX];
        int n = w.batch[i]->count, err = chance(5) ? TACHY_ERR_EXTERNAL : TACHY_OK;
        for (int k = 0; k < n; k++)
            ran[k] = w.batch[i]->items[k].user;
        tachy_batcher_finish(w.b, &w.batch[i], err);
        for (int k = 0; k < n; k++) {
            CHECK_INT(ran[k]->calls, 1);
            CHECK_INT(ran[k]->err, err);
            ran[k]->life = RAN;
        }
    }
}

static void check_stats(void)
{
    struct tachy_batcher_stats s;
    tachy_batcher_stats(w.b, &s);
    int running = 0;
    for (int i = 0; i < w.workers; i++)
        running += w.batch[i] ? w.batch[i]->count : 0;
    CHECK_INT(s.submitted, w.count);
    CHECK_INT(s.waiting, w.nb_waiting);
    CHECK_INT(s.running, running);
    CHECK_INT(s.refused, w.refused);
    CHECK_INT(s.submitted, s.done + s.failed + s.cancelled + (uint64_t)(s.waiting + s.running));
    for (int i = 0; i < TACHY_BATCH_REASONS; i++)
        CHECK_INT(s.batches[i], w.handed[i]);
}

static void world_open(int seed)
{
    rng_state = 0x9e3779b97f4a7c15u * (uint64_t)(seed + 1);
    w = (struct world){.max_batch = 1 + (int)below(12), .workers = 1 + (int)below(WORKERS)};
    w.p = (struct tachy_batcher_params){.max_batch = w.max_batch,
                                        .timeout_us = 1 + (int64_t)below(3000),
                                        .ageing_us = 1 + (int64_t)below(chance(50) ? 50 : 5000)};
    w.p.max_items = w.max_batch + (int)below(MAX_INSIDE);
    int n = 0;
    for (int size = 1; size <= w.max_batch; size++)
        if (chance(30))
            w.p.preferred[n++] = size;
    w.service = chance(20) ? 0 : 10 * US + below(1500 * US);
    w.things = calloc(EVENTS, sizeof(*w.things));
    w.b = open_sim(w.p);
}

// The next moment at which something happens by itself.
static uint64_t next_moment(uint64_t arrival)
{
    uint64_t t = arrival;
    bool idle = false;
    for (int i = 0; i < w.workers; i++) {
        idle = idle || !w.batch[i];
        if (w.batch[i] && w.until[i] < t)
            t = w.until[i];
    }
    uint64_t due = tachy_batcher_next(w.b);
    for (int i = 0; i < w.nb_waiting; i++) {
        uint64_t ripe = w.things[w.waiting[i]].ripe_at;
        CHECK(due <= (ripe > sim_now ? ripe : sim_now));
    }
    if (idle && due < t)
        t = due;
    return t > sim_now ? t : sim_now;
}

static void world_act(void)
{
    int what = (int)below(100);
    if (what < 88 || sim_now < w.stalled_until) {
        for (uint64_t n = chance(10) ? 1 + below(20) : 1; n-- && w.count < EVENTS;)
            world_submit();
    } else if (what < 95) {
        world_cancel();
    } else if (what < 97) {
        uint64_t stream = below(6);
        tachy_batcher_end(w.b, stream);
        world_ripen(false, stream);
    } else if (what < 98) {
        tachy_batcher_flush(w.b);
        world_ripen(true, 0);
    } else {
        w.max_batch = 1 + (int)below((uint64_t)w.p.max_batch);
        CHECK_INT(tachy_batcher_set_max_batch(w.b, w.max_batch), TACHY_OK);
    }
}

static void world_close(void)
{
    bool cancel = chance(50);
    CHECK_INT(tachy_batcher_stop(w.b, cancel ? TACHY_STOP_CANCEL : TACHY_STOP_RUN), TACHY_OK);
    for (int i = 0; i < w.nb_waiting; i++) {
        CHECK_INT(w.things[w.waiting[i]].calls, cancel);
        w.things[w.waiting[i]].ripe_at = 0;
    }
    for (struct tachy_batch *batch; tachy_batcher_take(w.b, 0, &batch) == TACHY_OK;)
        tachy_batcher_finish(w.b, &batch, TACHY_OK);
    for (int i = 0; i < w.workers; i++)
        w.until[i] = 0;
    world_finish();
    tachy_batcher_close(&w.b);
    for (int i = 0; i < w.count; i++) {
        CHECK_INT(w.things[i].calls, 1); // each exactly once
        tachy_ticket_close(&w.things[i].ticket);
    }
    free(w.things);
}

TEST(properties_hold_in_random_lives)
{
    int64_t reasons[TACHY_BATCH_REASONS] = {0}, refused = 0;
    for (int seed = 0; seed < 150 && !test_failures; seed++) {
        world_open(seed);
        uint64_t mean_gap = 1 + below(400 * US), arrival = sim_now;
        while (w.count < EVENTS - 20) {
            sim_now = next_moment(arrival);
            world_finish();
            if (sim_now >= arrival) {
                world_act();
                uint64_t gap = chance(2) ? 20 * mean_gap : (uint64_t)(-log(uniform()) * (double)mean_gap);
                arrival = sim_now + gap; // now and then all sources stall
            }
            world_take();
            check_stats();
        }
        for (int i = 0; i < TACHY_BATCH_REASONS; i++)
            reasons[i] += w.handed[i];
        refused += w.refused;
        world_close();
        if (test_failures)
            fprintf(stderr, "seed %d\n", seed);
    }
    CHECK(refused > 100); // every path was walked
    for (int i = 0; i < TACHY_BATCH_REASONS; i++)
        CHECK(reasons[i] > 100);
}

// ---- Starvation ----

// One item of the lowest priority among a flood of the highest: the queue is kept full, so a
// worker never sees it end. By docs/batcher.md nobody who came later than 200 steps of ageing
// goes before it; at that moment at most max_items wait, so it is served at the latest that
// time plus ceil(max_items / max_batch) batches and the one that ran later.
TEST(nobody_starves)
{
    enum { ITEMS = 32, BATCH = 4, AGEING = 50, SERVICE = 300 };
    tachy_batcher *b = open_sim((struct tachy_batcher_params){
        .max_batch = BATCH, .max_items = ITEMS, .timeout_us = 1000000, .ageing_us = AGEING});
    uint64_t start = sim_now, served = 0;
    SUBMIT(b, .user = N(1), .priority = -100);
    for (int64_t n = 0; !served && n < 100000; n++) {
        while (!tachy_batcher_submit(b, tachy_submit_params(.priority = 100, .stream = 1,
                                                            .nonblocking = true), NULL))
            continue;
        struct tachy_batch *batch;
        CHECK_INT(tachy_batcher_take(b, 0, &batch), TACHY_OK);
        for (int i = 0; i < batch->count; i++)
            if (batch->items[i].user)
                served = sim_now;
        tachy_batcher_finish(b, &batch, TACHY_OK);
        sim_now += SERVICE * US;
    }
    uint64_t bound = (200 * AGEING + (ITEMS / BATCH + 1) * SERVICE) * US;
    CHECK(served && served - start <= bound);
    CHECK(served - start >= 200 * AGEING * US / 2); // priority did mean something
    tachy_batcher_close(&b);
}

// ---- Poisson arrivals ----

// Items arrive as a Poisson process of rate L, each with the timeout T, workers are always
// idle. A batch begins with an arrival when nothing waits (batches take everything, so that
// holds after each). It has 1 + min(K, B - 1) items, K the arrivals in T after its first: where
// K >= B - 1 it closes full, else at the deadline of the first. K is Poisson of mean a = L T,
// and what comes after the close is again Poisson, without memory. So the mean batch is
//     1 + E[min(K, B - 1)] = 1 + sum over k = 1..B-1 of P(K >= k)
static double mean_batch_of(double a, int max_batch)
{
    double p = exp(-a), at_least = 1 - p, mean = 1;
    for (int k = 1; k < max_batch; k++) {
        mean += at_least;
        p *= a / k;
        at_least -= p;
    }
    return mean;
}

TEST(mean_batch_of_poisson_arrivals)
{
    static const double loads[] = {0.1, 0.7, 2, 5, 7, 12, 30};
    static const int sizes[] = {2, 8, 16};
    rng_state = 12345;
    for (size_t s = 0; s < 3; s++) {
        for (size_t l = 0; l < sizeof(loads) / sizeof(loads[0]); l++) {
            tachy_batcher *b = open_sim((struct tachy_batcher_params){
                .max_batch = sizes[s], .timeout_us = 1000});
            double gap_ns = 1e6 / loads[l], arrival = (double)sim_now;
            struct tachy_batch *batch;
            for (int i = 0; i < 40000; i++) {
                arrival += -log(uniform()) * gap_ns;
                for (uint64_t due; (due = tachy_batcher_next(b)) <= (uint64_t)arrival;) {
                    sim_now = due ? due : sim_now;
                    CHECK_INT(tachy_batcher_take(b, 0, &batch), TACHY_OK);
                    tachy_batcher_finish(b, &batch, TACHY_OK);
                }
                sim_now = (uint64_t)arrival;
                SUBMIT(b, .stream = (uint64_t)i % 7);
            }
            struct tachy_batcher_stats st;
            tachy_batcher_stats(b, &st);
            double ratio = st.mean_batch / mean_batch_of(loads[l], sizes[s]);
            CHECK(ratio > 0.98 && ratio < 1.02); // required: 0.95 to 1.05
            CHECK(st.late_max_us == 0 && st.wait_max_us <= 1000 * 1.032);
            tachy_batcher_close(&b);
        }
    }
}

TEST_MAIN(TEST_CASE(closes_when_full_and_at_the_deadline), TEST_CASE(take_waits_for_the_deadline),
          TEST_CASE(preferred_sizes), TEST_CASE(priorities_age),
          TEST_CASE(a_deadline_does_not_break_a_streams_order), TEST_CASE(flush_and_end_of_stream),
          TEST_CASE(cancel), TEST_CASE(stop_runs_or_cancels),
          TEST_CASE(invalid_parameters_are_refused), TEST_CASE(properties_hold_in_random_lives),
          TEST_CASE(nobody_starves), TEST_CASE(mean_batch_of_poisson_arrivals))
