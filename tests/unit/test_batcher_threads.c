#include "test.h"

#include <sched.h>
#include <stdatomic.h>
#include <tachy/batcher.h>
#include <time.h>
#include <unistd.h>

// The batcher with threads: many submitters, workers, takers; races are for ThreadSanitizer.
//
//   test_batcher_threads [SUBMITS]    of the flood

static int flood_items = 1000000; // 2 s; under ThreadSanitizer 10 s on two cores

static uint64_t rng(uint64_t *state) // xorshift64*
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (*state * 0x2545f4914f6cdd1du) >> 11;
}

// Some other thread gets there within ten seconds.
#define EVENTUALLY(cond)                                                                           \
    do {                                                                                           \
        for (int ms_ = 0; ms_ < 100000 && !(cond); ms_++)                                          \
            usleep(100);                                                                           \
        CHECK(cond);                                                                               \
    } while (0)

// ---- The flood ----

enum { SUBMITTERS = 8, BATCH = 16, PRIORITIES = 3 };

struct flood_item {
    atomic_int done, ran;
    int number; // of its stream and priority
    uint8_t stream, priority;
    bool fails;
};

struct flood {
    tachy_batcher *b;
    struct flood_item *items;
    int count;
    bool ordered; // one worker: batches are run in the order in which they are closed
    int last[SUBMITTERS][PRIORITIES];
    atomic_int in_run, results[3]; // ok, failed, interrupted
    atomic_bool over;
};

struct submitter {
    struct flood *f;
    int index;
    pthread_t thread;
};

static _Atomic uint64_t delays = 1;

// A clock that gives way to other threads now and then, in the middle of every operation.
static uint64_t restless_now(void *user)
{
    struct timespec t;
    if (atomic_fetch_add(&delays, 0x9e3779b97f4a7c15u) >> 57 == 0)
        sched_yield();
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void restless_wait(void *user, pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until)
{
    struct timespec t = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
    if (until == TACHY_NEVER)
        pthread_cond_wait(cond, lock);
    else
        pthread_cond_timedwait(cond, lock, &t);
}

static const struct tachy_clock restless = {.now_ns = restless_now, .wait_until = restless_wait};

static int flood_run(void *user, const struct tachy_batch *batch)
{
    struct flood *f = user;
    CHECK(batch->count >= 1 && batch->count <= BATCH);
    uint64_t dice = atomic_fetch_add(&delays, 0x9e3779b97f4a7c15u);
    if (batch->count > 4 && dice >> 60 == 0)
        return TACHY_ERR_NOMEM; // the same items come again
    if (dice >> 57 == 1)
        usleep((useconds_t)(dice & 127));
    for (int i = 0; i < batch->count; i++) {
        struct flood_item *item = batch->items[i].user;
        atomic_fetch_add(&item->ran, 1);
        batch->items[i].err = item->fails ? TACHY_ERR_FORMAT : 0;
        if (!f->ordered)
            continue;
        int *last = &f->last[item->stream][item->priority];
        CHECK(item->number > *last);
        *last = item->number;
    }
    return TACHY_OK;
}

static void flood_done(void *user, int err)
{
    struct flood_item *item = user;
    atomic_fetch_add(&item->done, 1);
    CHECK(err == TACHY_ERR_INTERRUPTED ? !atomic_load(&item->ran) : atomic_load(&item->ran) == 1);
    CHECK(err == TACHY_ERR_INTERRUPTED || (err == TACHY_ERR_FORMAT) == item->fails);
}

static void use_ticket(struct flood *f, tachy_ticket *t, uint64_t dice)
{
    int err = TACHY_ERR_AGAIN;
    if (dice % 4 == 0) {
        int cancelled = tachy_batcher_cancel(f->b, t);
        CHECK(cancelled == TACHY_OK || cancelled == TACHY_ERR_STATE);
        if (cancelled == TACHY_OK)
            CHECK_INT(tachy_ticket_wait(t, 0), TACHY_ERR_INTERRUPTED);
    } else if (dice % 4 == 1) {
        while ((err = tachy_ticket_wait(t, 1 + (int64_t)(dice >> 8) % 300)) == TACHY_ERR_AGAIN)
            continue;
        CHECK(err == TACHY_OK || err == TACHY_ERR_FORMAT || err == TACHY_ERR_INTERRUPTED);
    } else if (dice % 64 == 2) {
        err = tachy_ticket_wait(t, -1);
        CHECK(err == TACHY_OK || err == TACHY_ERR_FORMAT || err == TACHY_ERR_INTERRUPTED);
    }
    tachy_ticket_close(&t);
}

static void disturb(struct flood *f, struct submitter *s, uint64_t dice)
{
    struct tachy_batcher_stats st;
    switch (dice % 1024) {
    case 0: tachy_batcher_flush(f->b); break;
    case 1: tachy_batcher_end(f->b, (uint64_t)s->index); break;
    case 2: tachy_batcher_cancel_stream(f->b, (uint64_t)s->index); break;
    case 3: tachy_batcher_set_max_batch(f->b, 1 + (int)((dice >> 10) % BATCH)); break;
    case 4: tachy_batcher_set_max_batch(f->b, BATCH); break;
    case 5: tachy_batcher_next(f->b); break;
    case 6:
        tachy_batcher_stats(f->b, &st);
        CHECK(st.submitted == st.done + st.failed + st.cancelled + (uint64_t)(st.waiting + st.running));
        break;
    default: break;
    }
}

static void *submitter_main(void *arg)
{
    struct submitter *s = arg;
    struct flood *f = s->f;
    uint64_t state = 77 + (uint64_t)s->index;
    int numbers[PRIORITIES] = {0};
    for (int i = s->index; i < f->count; i += SUBMITTERS) {
        struct flood_item *item = &f->items[i];
        uint64_t dice = rng(&state);
        item->stream = (uint8_t)s->index;
        item->priority = (uint8_t)(dice % PRIORITIES);
        item->number = ++numbers[item->priority];
        item->fails = dice / 4 % 50 == 0;
        tachy_ticket *t = NULL;
        struct tachy_submit_params p = {
            .user = item, .stream = (uint64_t)s->index, .priority = item->priority, .done = flood_done,
            .timeout_us = 1 + (int64_t)(dice >> 8) % 500, .nonblocking = dice >> 20 & 1};
        int err;
        while ((err = tachy_batcher_submit(f->b, &p, dice >> 24 & 3 ? NULL : &t)) == TACHY_ERR_AGAIN)
            p.nonblocking = false;
        CHECK_INT(err, TACHY_OK);
        if (t)
            use_ticket(f, t, rng(&state));
        disturb(f, s, rng(&state));
    }
    return NULL;
}

static void flood(int count, int workers)
{
    struct flood f = {.count = count, .ordered = workers == 1};
    f.items = calloc((size_t)count, sizeof(*f.items));
    CHECK_INT(tachy_batcher_open(&f.b, tachy_batcher_params(
        .max_batch = BATCH, .preferred = {1, 4, 8}, .timeout_us = 300, .ageing_us = 200,
        .max_items = 100, .workers = workers, .run = flood_run, .user = &f, .clock = &restless)), 0);
    struct submitter s[SUBMITTERS];
    for (int i = 0; i < SUBMITTERS; i++) {
        s[i] = (struct submitter){.f = &f, .index = i};
        pthread_create(&s[i].thread, NULL, submitter_main, &s[i]);
    }
    for (int i = 0; i < SUBMITTERS; i++)
        pthread_join(s[i].thread, NULL);
    CHECK_INT(tachy_batcher_stop(f.b, TACHY_STOP_RUN), TACHY_OK);
    struct tachy_batcher_stats st;
    tachy_batcher_stats(f.b, &st);
    CHECK_INT(st.submitted, count);
    CHECK_INT(st.done + st.failed + st.cancelled, count);
    CHECK(st.waiting == 0 && st.running == 0 && st.halved > 0);
    printf("%d submits, %d workers: mean batch %.2f (full %llu, deadline %llu, flush %llu, end %llu), "
           "%llu failed, %llu cancelled, %llu refused\n", count, workers, st.mean_batch,
           (unsigned long long)st.batches[0], (unsigned long long)st.batches[1],
           (unsigned long long)st.batches[2], (unsigned long long)st.batches[3],
           (unsigned long long)st.failed, (unsigned long long)st.cancelled, (unsigned long long)st.refused);
    tachy_batcher_close(&f.b);
    for (int i = 0; i < count; i++)
        CHECK_INT(atomic_load(&f.items[i].done), 1);
    free(f.items);
}

TEST(each_of_many_submits_ends_once) { flood(flood_items, 3); }
TEST(one_worker_keeps_the_order_of_streams) { flood(flood_items / 8, 1); }

// ---- Virtual time with real threads ----

struct virtual_clock {
    pthread_mutex_t lock;
    uint64_t now;
    struct sleeper {
        pthread_cond_t *cond;
        pthread_mutex_t *lock;
        uint64_t until;
    } sleepers[16];
    int nb_sleepers;
};

static uint64_t virtual_now(void *user)
{
    struct virtual_clock *c = user;
    pthread_mutex_lock(&c->lock);
    uint64_t now = c->now;
    pthread_mutex_unlock(&c->lock);
    return now;
}

static void virtual_wait(void *user, pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until)
{
    struct virtual_clock *c = user;
    pthread_mutex_lock(&c->lock);
    bool sleeps = until > c->now;
    if (sleeps)
        c->sleepers[c->nb_sleepers++] = (struct sleeper){cond, lock, until};
    pthread_mutex_unlock(&c->lock);
    if (!sleeps)
        return;
    pthread_cond_wait(cond, lock);
    pthread_mutex_lock(&c->lock);
    int i = 0;
    while (c->sleepers[i].cond != cond || c->sleepers[i].until != until)
        i++;
    c->sleepers[i] = c->sleepers[--c->nb_sleepers];
    pthread_mutex_unlock(&c->lock);
}

static void virtual_advance(struct virtual_clock *c, uint64_t us)
{
    struct sleeper due[16];
    int n = 0;
    pthread_mutex_lock(&c->lock);
    c->now += us * 1000;
    for (int i = 0; i < c->nb_sleepers; i++)
        if (c->sleepers[i].until <= c->now)
            due[n++] = c->sleepers[i];
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < n; i++) {
        pthread_mutex_lock(due[i].lock); // it sleeps by now, so the wake-up is not lost
        pthread_cond_broadcast(due[i].cond);
        pthread_mutex_unlock(due[i].lock);
    }
}

static bool sleeps_until(struct virtual_clock *c, uint64_t us)
{
    bool found = false;
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < c->nb_sleepers; i++)
        found = found || c->sleepers[i].until == us * 1000;
    pthread_mutex_unlock(&c->lock);
    return found;
}

struct record {
    atomic_int runs, items;
    int sizes[64];
    int most; // larger batches are out of memory; 0: none
    tachy_batcher *b;
    int submit_code, stop_code;
    atomic_bool hold, held;
};

static int record_run(void *user, const struct tachy_batch *batch)
{
    struct record *r = user;
    r->sizes[atomic_load(&r->runs)] = batch->count;
    atomic_fetch_add(&r->items, batch->count);
    atomic_fetch_add(&r->runs, 1);
    return r->most && batch->count > r->most ? TACHY_ERR_NOMEM : TACHY_OK;
}

TEST(workers_follow_the_deadline_in_virtual_time)
{
    struct virtual_clock c = {.lock = PTHREAD_MUTEX_INITIALIZER, .now = 1000000};
    const struct tachy_clock clock = {virtual_now, virtual_wait, &c};
    struct record r = {0};
    tachy_batcher *b;
    CHECK_INT(tachy_batcher_open(&b, tachy_batcher_params(.max_batch = 8, .timeout_us = 500, .workers = 2,
                                                          .run = record_run, .user = &r, .clock = &clock)), 0);
    tachy_ticket *t;
    CHECK_INT(tachy_batcher_submit(b, tachy_submit_params(0), &t), TACHY_OK);
    EVENTUALLY(sleeps_until(&c, 1500));
    virtual_advance(&c, 499);
    CHECK_INT(tachy_batcher_submit(b, tachy_submit_params(.stream = 1), NULL), TACHY_OK);
    usleep(3000);
    CHECK_INT(atomic_load(&r.runs), 0);
    virtual_advance(&c, 1);
    CHECK_INT(tachy_ticket_wait(t, -1), TACHY_OK);
    tachy_ticket_close(&t);
    CHECK_INT(r.sizes[0], 2);
    // An earlier deadline that comes later is watched as well.
    CHECK_INT(tachy_batcher_submit(b, tachy_submit_params(.timeout_us = 1000), NULL), TACHY_OK);
    EVENTUALLY(sleeps_until(&c, 2500));
    CHECK_INT(tachy_batcher_submit(b, tachy_submit_params(.timeout_us = 100, .stream = 2), &t), TACHY_OK);
    EVENTUALLY(sleeps_until(&c, 1600));
    virtual_advance(&c, 100);
    CHECK_INT(tachy_ticket_wait(t, -1), TACHY_OK);
    CHECK_INT(r.sizes[1], 2);
    tachy_ticket_close(&t);
    struct tachy_batcher_stats s;
    tachy_batcher_stats(b, &s);
    CHECK_INT(s.batches[TACHY_BATCH_DEADLINE], 2);
    CHECK(s.late_max_us == 0);
    CHECK(s.mean_batch == 2);
    tachy_batcher_close(&b);
}

// ---- Failures ----

static atomic_int warnings;
static void count_warning(void *user, enum tachy_log_level level, const char *msg)
{
    CHECK(level == TACHY_LOG_WARN && strstr(msg, "out of memory"));
    atomic_fetch_add(&warnings, 1);
}

static atomic_int codes[20]; // by -code
static void count_code(void *user, int err) { atomic_fetch_add(&codes[-err], 1); }

static int always_nomem(void *user, const struct tachy_batch *batch)
{
    atomic_fetch_add(&((struct record *)user)->runs, 1);
    return TACHY_ERR_NOMEM;
}

TEST(out_of_memory_halves_the_batch)
{
    struct tachy_log log = {.fn = count_warning};
    struct record r = {.most = 3};
    tachy_batcher *b;
    CHECK_INT(tachy_batcher_open(&b, tachy_batcher_params(.max_batch = 9, .timeout_us = 1000000,
                                                          .run = record_run, .user = &r, .log = &log)), 0);
    memset(codes, 0, sizeof(codes));
    for (int i = 0; i < 18; i++)
        CHECK_INT(tachy_batcher_submit(b, tachy_submit_params(.done = count_code), NULL), TACHY_OK);
    tachy_batcher_stop(b, TACHY_STOP_RUN);
    static const int expected[] = {9, 4, 2, 2, 2, 2, 1};
    CHECK_INT(atomic_load(&r.runs), 14);
    for (int i = 0; i < 14; i++)
        CHECK_INT(r.sizes[i], expected[i % 7]);
    CHECK_INT(atomic_load(&codes[0]), 18);
    CHECK_INT(atomic_load(&warnings), 1); // said once
    struct tachy_batcher_stats s;
    tachy_batcher_stats(b, &s);
    CHECK_INT(s.halved, 4);
    CHECK_INT(s.done, 18);
    tachy_batcher_close(&b);

    r = (struct record){0}; // not even one item fits
    CHECK_INT(tachy_batcher_open(&b, tachy_batcher_params(.max_batch = 4, .run = always_nomem, .user = &r)), 0);
    for (int i = 0; i < 4; i++)
        CHECK_INT(tachy_batcher_submit(b, tachy_submit_params(.done = count_code), NULL), TACHY_OK);
    tachy_batcher_close(&b);
    CHECK_INT(atomic_load(&codes[-TACHY_ERR_NOMEM]), 4);
    CHECK_INT(atomic_load(&r.runs), 6); // 4, 2, 1, 1, 1, 1
}

static int hold_run(void *user, const struct tachy_batch *batch)
{
    struct record *r = user;
    atomic_fetch_add(&r->runs, 1);
    atomic_store(&r->held, true);
    while (atomic_load(&r->hold))
        usleep(100);
    return TACHY_ERR_EXTERNAL;
}

// ---- Blocking and stopping ----

static void *blocked_submit(void *arg)
{
    struct record *r = arg;
    r->submit_code = tachy_batcher_submit(r->b, tachy_submit_params(.done = count_code), NULL);
    return NULL;
}

static void *stop_running(void *arg)
{
    struct record *r = arg;
    r->stop_code = tachy_batcher_stop(r->b, TACHY_STOP_RUN);
    return NULL;
}

static void *stop_cancelling(void *arg)
{
    struct record *r = arg;
    CHECK_INT(tachy_batcher_stop(r->b, TACHY_STOP_CANCEL), TACHY_OK);
    return NULL;
}

// One item runs and is held there, two wait: full.
static void fill_up(struct record *r)
{
    *r = (struct record){.hold = true};
    memset(codes, 0, sizeof(codes));
    CHECK_INT(tachy_batcher_open(&r->b, tachy_batcher_params(.max_batch = 1, .max_items = 2, .run = hold_run, .user = r)), 0);
    CHECK_INT(tachy_batcher_submit(r->b, tachy_submit_params(.done = count_code), NULL), TACHY_OK);
    EVENTUALLY(atomic_load(&r->held));
}

TEST(a_blocked_submit_goes_on_or_is_released)
{
    struct record r;
    pthread_t thread, stopper;
    tachy_ticket *t;
    for (int stop = 0; stop < 2; stop++) {
        fill_up(&r);
        CHECK_INT(tachy_batcher_submit(r.b, tachy_submit_params(.done = count_code), &t), TACHY_OK);
        CHECK_INT(tachy_batcher_submit(r.b, tachy_submit_params(.done = count_code), NULL), TACHY_OK);
        pthread_create(&thread, NULL, blocked_submit, &r);
        usleep(2000);
        if (stop) {
            pthread_create(&stopper, NULL, stop_running, &r);
            pthread_join(thread, NULL); // the worker is still held
            CHECK_INT(r.submit_code, TACHY_ERR_INTERRUPTED);
            atomic_store(&r.hold, false);
            pthread_join(stopper, NULL);
            CHECK_INT(r.stop_code, TACHY_OK);
            CHECK_INT(atomic_load(&codes[-TACHY_ERR_EXTERNAL]), 3);
        } else {
            CHECK_INT(tachy_batcher_cancel(r.b, t), TACHY_OK); // makes room
            pthread_join(thread, NULL);
            CHECK_INT(r.submit_code, TACHY_OK);
            atomic_store(&r.hold, false);
        }
        tachy_ticket_close(&t);
        tachy_batcher_close(&r.b);
        CHECK_INT(atomic_load(&codes[-TACHY_ERR_EXTERNAL]), 3);
    }
}

TEST(a_stop_that_waits_can_be_cut_short)
{
    struct record r;
    pthread_t stopper;
    fill_up(&r);
    CHECK_INT(tachy_batcher_submit(r.b, tachy_submit_params(.done = count_code), NULL), TACHY_OK);
    pthread_create(&stopper, NULL, stop_running, &r);
    EVENTUALLY(tachy_batcher_submit(r.b, tachy_submit_params(.nonblocking = true), NULL) == TACHY_ERR_INTERRUPTED);
    // The waiting item is cancelled while the first still runs.
    pthread_t canceller;
    pthread_create(&canceller, NULL, stop_cancelling, &r);
    EVENTUALLY(atomic_load(&codes[-TACHY_ERR_INTERRUPTED]) == 1);
    atomic_store(&r.held, false);
    atomic_store(&r.hold, false);
    pthread_join(stopper, NULL);
    pthread_join(canceller, NULL);
    CHECK_INT(r.stop_code, TACHY_OK);
    CHECK_INT(atomic_load(&codes[-TACHY_ERR_EXTERNAL]), 1);
    CHECK(!atomic_load(&r.held)); // nothing else ran
    tachy_batcher_close(&r.b);
}

// While the first worker is held, the second one takes what is there or watches its deadline.
TEST(what_is_left_goes_to_another_worker)
{
    for (int deadline = 0; deadline < 2; deadline++) {
        struct record r = {.hold = true};
        CHECK_INT(tachy_batcher_open(&r.b, tachy_batcher_params(
            .max_batch = 8, .preferred = {1}, .timeout_us = deadline ? 2000 : 100000000, .workers = 2,
            .run = hold_run, .user = &r)), TACHY_OK);
        for (int i = 0; i < 6; i++)
            CHECK_INT(tachy_batcher_submit(r.b, tachy_submit_params(.timeout_us = deadline && i ? 40000 : 0), NULL), 0);
        if (!deadline)
            CHECK_INT(tachy_batcher_set_max_batch(r.b, 3), TACHY_OK);
        EVENTUALLY(atomic_load(&r.runs) == 2);
        atomic_store(&r.hold, false);
        tachy_batcher_close(&r.b);
    }
}

// A worker that would wait for itself is told so.
static int inside_run(void *user, const struct tachy_batch *batch)
{
    struct record *r = user;
    if (atomic_fetch_add(&r->runs, 1))
        return TACHY_OK;
    do
        r->submit_code = tachy_batcher_submit(r->b, tachy_submit_params(.done = count_code), NULL);
    while (r->submit_code == TACHY_OK);
    r->stop_code = tachy_batcher_stop(r->b, TACHY_STOP_RUN);
    tachy_batcher *same = r->b;
    tachy_batcher_close(&same);
    CHECK(same == r->b);
    return TACHY_OK;
}

TEST(a_worker_does_not_wait_for_itself)
{
    struct record r = {0};
    memset(codes, 0, sizeof(codes));
    CHECK_INT(tachy_batcher_open(&r.b, tachy_batcher_params(.max_batch = 2, .max_items = 4, .timeout_us = -1,
                                                            .run = inside_run, .user = &r, .clock = &restless)), 0);
    CHECK_INT(tachy_batcher_submit(r.b, tachy_submit_params(.done = count_code), NULL), TACHY_OK);
    EVENTUALLY(atomic_load(&codes[0]) == 5);
    tachy_batcher_close(&r.b);
    CHECK_INT(r.submit_code, TACHY_ERR_AGAIN);
    CHECK_INT(r.stop_code, TACHY_ERR_STATE);
}

// ---- Takers of one's own ----

static void *taker_main(void *arg)
{
    struct record *r = arg;
    struct tachy_batch *batch;
    int err;
    while ((err = tachy_batcher_take(r->b, -1, &batch)) == TACHY_OK) {
        atomic_fetch_add(&r->items, batch->count);
        tachy_batcher_finish(r->b, &batch, TACHY_OK);
    }
    CHECK_INT(err, TACHY_ERR_EOF);
    return NULL;
}

TEST(takers_share_the_work_and_leave_at_the_end)
{
    enum { TAKERS = 4, ITEMS = 20000 };
    struct record r = {0};
    pthread_t threads[TAKERS];
    CHECK_INT(tachy_batcher_open(&r.b, tachy_batcher_params(.max_batch = 8, .timeout_us = 50,
                                                            .workers = TACHY_BATCHER_NO_WORKERS)), 0);
    for (int i = 0; i < TAKERS; i++)
        pthread_create(&threads[i], NULL, taker_main, &r);
    for (int i = 0; i < ITEMS; i++)
        CHECK_INT(tachy_batcher_submit(r.b, tachy_submit_params(.stream = (uint64_t)i % 3), NULL), TACHY_OK);
    EVENTUALLY(atomic_load(&r.items) == ITEMS); // the tail goes by its deadline
    tachy_batcher_stop(r.b, TACHY_STOP_RUN);
    for (int i = 0; i < TAKERS; i++)
        pthread_join(threads[i], NULL);
    tachy_batcher_close(&r.b);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(each_of_many_submits_ends_once), TEST_CASE(one_worker_keeps_the_order_of_streams),
        TEST_CASE(workers_follow_the_deadline_in_virtual_time), TEST_CASE(out_of_memory_halves_the_batch),
        TEST_CASE(a_blocked_submit_goes_on_or_is_released), TEST_CASE(a_stop_that_waits_can_be_cut_short),
        TEST_CASE(what_is_left_goes_to_another_worker),
        TEST_CASE(a_worker_does_not_wait_for_itself), TEST_CASE(takers_share_the_work_and_leave_at_the_end)};
    if (argc > 1)
        flood_items = atoi(argv[1]);
    return test_run(cases, sizeof(cases) / sizeof(cases[0]));
}
