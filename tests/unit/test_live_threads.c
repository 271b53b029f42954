#include "delays.h"
#include "test.h"

#include "steps.h"

#include "base/clock.h"
#include "pipeline/live_stream.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

// Mode live and frame_skip in a real pipeline: whatever the speed of source, workers and sink,
// frames are counted exactly, stay in order, and results come from the frames they should.

struct conf {
    int work_us, fail_at; // -1: never
    atomic_int inferred;
};

struct thing {
    int64_t from; // frame whose "result" this is
    int64_t since; // frames since the state restarted
};

static struct conf *conf(const tachy_task *t) { return test_priv(t); }
static void t_batch_close(void *engine) {}
static int t_nothing(void *w, struct tachy_item *item, int eye) { return TACHY_OK; }
static int t_model(void *w, struct tachy_item *item, int eye)
{
    struct conf *c = conf(w);
    if (c->work_us)
        usleep((useconds_t)c->work_us);
    atomic_fetch_add(&c->inferred, 1);
    ((struct thing *)item->priv)->from = item->in->id;
    return c->fail_at >= 0 && item->in->id >= c->fail_at ? TACHY_ERR_EXTERNAL : TACHY_OK;
}
static const char *t_batch_key(const tachy_task *t) { return "things"; }
static int t_batch_open(tachy_task *t, int most, void **engine)
{
    *engine = t;
    return TACHY_OK;
}
static int t_batch_model(void *engine, const struct tachy_piece pieces[], int n)
{
    struct conf *c = conf(engine);
    if (c->work_us)
        usleep((useconds_t)(c->work_us * n));
    for (int i = 0; i < n; i++) {
        struct tachy_item *item = pieces[i].item;
        CHECK(!(item->reuse >> pieces[i].region & 1));
        ((struct thing *)item->priv)->from = item->in->id;
    }
    return TACHY_OK;
}
static int t_copy(tachy_task *t, struct tachy_item *to, const struct tachy_item *from, int region)
{
    *(struct thing *)to->priv = *(const struct thing *)from->priv;
    return TACHY_OK;
}
static int t_order_open(tachy_task *t, void **state)
{
    *state = calloc(1, sizeof(int64_t));
    return TACHY_OK;
}
static int t_order(void *state, struct tachy_item *item)
{
    int64_t *since = state;
    *since = item->anew ? 0 : *since + 1;
    ((struct thing *)item->priv)->since = *since;
    return TACHY_OK;
}
static int t_composite(void *w, struct tachy_item *item)
{
    // The picture records its origin and whose result it shows.
    struct thing *x = item->priv;
    item->out = tachy_frame_ref(item->in);
    item->result.coverage = (float)x->from;
    item->result.eyes = (int)x->since;
    return TACHY_OK;
}

static const struct test_steps ops = {
    .name = "things",
    .item_size = sizeof(struct thing),
    .preprocess = t_nothing,
    .model = t_model,
    .postprocess = t_nothing,
    .batch_key = t_batch_key,
    .batch_open = t_batch_open,
    .batch_close = t_batch_close,
    .batch_model = t_batch_model,
    .copy = t_copy,
    .order_open = t_order_open,
    .order_close = free,
    .order = t_order,
    .composite = t_composite,
};

struct job {
    struct tachy_live_params p;
    int frames, period_us, workers, sink_us, work_us, fail_at, anew_every, batch;
    bool in_turn;        // a frame is pushed when the one before has been pulled
    int (*value)(int i); // of the picture; NULL: as the one before
    // Found
    tachy_task *task;
    tachy_pipeline *pipeline;
    tachy_stream *stream;
    struct live_stream *live;
    int64_t pushed, pulled, shed_at_sink;
    atomic_int ended; // frames that have been pulled
    int end, push_end;
    struct tachy_live_stats stats;
    int64_t ids[6000], from[6000];
    int since[6000];
    uint64_t worst_ns;
};

// Frames that nobody waits for any more.
static int64_t ended(struct job *j)
{
    struct tachy_live_stats s;
    live_stream_read(j->live, &s);
    return atomic_load(&j->ended) + tachy_live_shed(&s);
}

static void *pusher(void *arg)
{
    struct job *j = arg;
    uint64_t start = tachy_now_ns();
    for (int i = 0; i < j->frames && !j->push_end; i++) {
        uint64_t due = start + (uint64_t)i * (uint64_t)j->period_us * 1000, t = tachy_now_ns();
        if (t < due)
            usleep((useconds_t)((due - t) / 1000));
        while (j->in_turn && ended(j) < i)
            usleep(100);
        tachy_frame *f;
        CHECK_INT(tachy_frame_new(&f, &(struct tachy_frame_params){.format = TACHY_PIX_GRAY8,
                                                                   .width = 32, .height = 18}),
                  0);
        for (int y = 0; y < 18; y++)
            memset(tachy_frame_writable(f, 0) + y * f->stride[0], j->value ? j->value(i) : 0, 32);
        f->id = i;
        f->discontinuity = j->anew_every && i % j->anew_every == 0;
        j->push_end = live_stream_push(j->live, f);
        j->pushed += !j->push_end;
        tachy_frame_unref(&f);
    }
    live_stream_push(j->live, NULL);
    return NULL;
}

static void pull_all(struct job *j)
{
    for (;;) {
        const struct tachy_result *r;
        struct pipeline_times t;
        tachy_frame *f;
        j->end = pipeline_pull_timed(j->stream, 10000, &f, &r, &t);
        if (j->end)
            return;
        uint64_t start = tachy_ticks();
        if (live_stream_due(j->live, &t)) {
            if (j->sink_us)
                usleep((useconds_t)j->sink_us);
            uint64_t end = tachy_ticks();
            live_stream_written(j->live, &t, start, end);
            j->worst_ns = TACHY_MAX(j->worst_ns, tachy_ticks_ns(end - t.pushed));
            j->ids[j->pulled] = f->id;
            j->from[j->pulled] = (int64_t)r->coverage;
            j->since[j->pulled++] = r->eyes;
            CHECK_INT(r->frame_id, f->id);
        } else {
            j->shed_at_sink++;
        }
        tachy_frame_unref(&f);
        atomic_fetch_add(&j->ended, 1);
    }
}

static void run(struct job *j)
{
    j->task = test_task(&ops, NULL, sizeof(struct conf));
    conf(j->task)->work_us = j->work_us;
    conf(j->task)->fail_at = j->fail_at;
    struct tachy_video_info in = {.format = TACHY_PIX_GRAY8, .width = 32, .height = 18,
                                  .time_base = {1, 1000}, .stereo = TACHY_STEREO_MONO};
    CHECK_INT(tachy_pipeline_open(&j->pipeline, tachy_pipeline_params(.workers = j->workers,
                                                                         .batch = j->batch)),
              0);
    CHECK_INT(live_stream_open(&j->live, j->task, &j->p, NULL), 0);
    CHECK_INT(pipeline_join(j->pipeline, &j->stream,
                            tachy_stream_params(.task = j->task, .input = in),
                            live_stream_policy(j->live), false),
              0);
    live_stream_start(j->live, j->stream);
    pthread_t thread;
    pthread_create(&thread, NULL, pusher, j);
    pull_all(j);
    if (j->end == TACHY_ERR_EOF)
        pthread_join(thread, NULL);
    live_stream_read(j->live, &j->stats);
    if (j->end != TACHY_ERR_EOF)
        pthread_join(thread, NULL);
    live_stream_stop(j->live);
    tachy_stream_leave(&j->stream);
    live_stream_close(&j->live);
    tachy_pipeline_close(&j->pipeline);
    for (int64_t i = 1; i < j->pulled; i++)
        CHECK(j->ids[i] > j->ids[i - 1]);
    for (int64_t i = 0; i < j->pulled; i++)
        CHECK(j->from[i] <= j->ids[i]);
    test_task_free(j->task);
}

static struct job *job(struct job from)
{
    static struct job j;
    j = from;
    return &j;
}

static const struct job base = {.frames = 400, .period_us = 1000, .workers = 2, .fail_at = -1};

TEST(nothing_is_shed_where_there_is_time)
{
    struct job *j = job(base);
    j->p.mode = TACHY_RUN_LIVE;
    j->frames = 100;
    j->period_us = 0;
    j->in_turn = true;
    run(j);
    CHECK_INT(j->end, TACHY_ERR_EOF);
    CHECK_INT(j->pushed, 100);
    CHECK_INT(j->pulled, 100);
    CHECK_INT(tachy_live_shed(&j->stats), 0);
}

TEST(live_counts_exactly)
{
    static const struct {
        int work_us, sink_us, period_us, workers, latency_ms, reuse;
    } cases[] = {
        {3000, 0, 1000, 1, 0, 0}, {3000, 0, 1000, 3, 0, 0},  {3000, 0, 1000, 8, 20, 1},
        {0, 3000, 1000, 2, 0, 0}, {0, 3000, 1000, 2, 10, 0}, {2000, 2000, 500, 2, 6, 1},
        {20000, 0, 500, 2, 10, 0}, {0, 0, 0, 4, 0, 0},       {0, 0, 0, 4, 5, 1},
        {30, 30, 30, 8, 1, 1},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(cases); i++) {
        struct job *j = job(base);
        j->p = (struct tachy_live_params){.mode = TACHY_RUN_LIVE,
                                          .max_latency_ms = cases[i].latency_ms,
                                          .frame_skip = cases[i].reuse};
        j->work_us = cases[i].work_us;
        j->sink_us = cases[i].sink_us;
        j->period_us = cases[i].period_us;
        j->workers = cases[i].workers;
        run(j);
        CHECK_INT(j->end, TACHY_ERR_EOF);
        CHECK_INT(j->pushed, 400);
        CHECK_INT(j->pushed, j->pulled + tachy_live_shed(&j->stats));
        int64_t at_sink = 0;
        for (int r = 0; r < TACHY_SHED_COUNT; r++)
            at_sink += j->stats.shed[TACHY_SHED_SINK][r];
        CHECK_INT(at_sink, j->shed_at_sink);
        CHECK(j->stats.late <= j->pulled);
    }
}

// Two workers who need 10 ms each and a frame a millisecond: what comes out is recent, and as
// much as they can do.
TEST(newest_wins)
{
    struct job *j = job(base);
    j->p.mode = TACHY_RUN_LIVE;
    j->work_us = 10000;
    run(j);
    CHECK(j->pulled >= 10 && j->pulled <= 90);
    CHECK_INT(j->stats.shed[TACHY_SHED_INFER][TACHY_SHED_REPLACED], 400 - j->pulled);
    CHECK_INT(j->ids[j->pulled - 1], 399);
}

static int slow_value(int i) { return i / 7 * 3 % 200; }

// The pictures alone decide which frames are inferred, not the workers' speed.
TEST(frame_skip_is_the_same_with_any_workers)
{
    static int64_t from[3000];
    static const int workers[] = {1, 2, 8};
    for (int w = 0; w < 3; w++) {
        struct job *j = job(base);
        j->p = (struct tachy_live_params){.frame_skip = true, .frame_skip_threshold = 0.02};
        j->frames = 3000;
        j->period_us = 0;
        j->work_us = w ? 50 : 0;
        j->anew_every = 1000;
        j->workers = workers[w];
        j->value = slow_value;
        run(j);
        CHECK_INT(j->end, TACHY_ERR_EOF);
        CHECK_INT(j->pulled, 3000);
        CHECK_INT(tachy_live_shed(&j->stats), 0);
        for (int i = 0; i < 3000; i++) {
            CHECK(w == 0 || j->from[i] == from[i]);
            from[i] = j->from[i];
            CHECK(abs(slow_value(i) - slow_value((int)from[i])) <= 5);
            CHECK(from[i] / 1000 == i / 1000); // not across a discontinuity
            CHECK_INT(j->since[i], i % 1000);
        }
        CHECK(j->stats.similar > 2000 && j->stats.similar < 2900);
    }
}

TEST(batches_take_what_is_not_reused)
{
    for (int k = 0; k < 2; k++) {
        struct job *j = job(base);
        j->p = (struct tachy_live_params){.mode = k ? TACHY_RUN_LIVE : TACHY_RUN_ALL,
                                          .frame_skip = true,
                                          .frame_skip_threshold = 0.02};
        j->frames = 1500;
        j->period_us = k ? 200 : 0;
        j->batch = 4;
        j->value = slow_value;
        run(j);
        CHECK_INT(j->end, TACHY_ERR_EOF);
        CHECK_INT(j->pulled + tachy_live_shed(&j->stats), 1500);
        CHECK(k || j->pulled == 1500);
        for (int64_t i = 0; i < j->pulled; i++)
            CHECK(abs(slow_value((int)j->ids[i]) - slow_value((int)j->from[i])) <= 5);
    }
}

static int apart(int i) { return i % 2 * 255; }

// The last step down: batches of half the size.
TEST(a_deadline_makes_batches_smaller)
{
    struct job *j = job(base);
    j->p = (struct tachy_live_params){.mode = TACHY_RUN_LIVE, .max_latency_ms = 15};
    j->batch = 8;
    j->workers = 1;
    j->work_us = 5000;
    j->frames = 2500;
    j->value = apart; // nothing can be taken over
    run(j);
    CHECK_INT(j->pushed, j->pulled + tachy_live_shed(&j->stats));
    CHECK_INT(j->stats.degraded[TACHY_DEGRADE_SMALL_BATCH].times, 1);
    CHECK_INT(j->stats.degrading, 1u << TACHY_DEGRADE_SIMILAR | 1u << TACHY_DEGRADE_ALTERNATE |
                                   1u << TACHY_DEGRADE_SMALL_BATCH);
}

static int alike(int i) { return 77; }

// A reused result comes from a frame that came out or was shed later, never from one that was shed before inference.
TEST(live_reuse_takes_real_results)
{
    int64_t pulled = 0, similar = 0;
    for (int i = 0; i < 20 && (pulled <= 50 || similar <= 20); i++) { // a loaded machine does little in one run
        struct job *j = job(base);
        j->p = (struct tachy_live_params){
            .mode = TACHY_RUN_LIVE, .max_latency_ms = 30, .frame_skip = true, .no_degrade = true};
        j->work_us = 5000;
        j->value = alike;
        j->anew_every = 50;
        run(j);
        CHECK_INT(j->pushed, j->pulled + tachy_live_shed(&j->stats));
        pulled += j->pulled;
        similar += j->stats.similar;
        for (int64_t k = 0; k < j->pulled; k++)
            CHECK(j->from[k] / 50 == j->ids[k] / 50);
    }
    CHECK(pulled > 50 && similar > 20);
}

TEST(state_starts_anew_though_frames_are_shed)
{
    struct job *j = job(base);
    j->p.mode = TACHY_RUN_LIVE;
    j->work_us = 3000;
    j->workers = 1;
    j->anew_every = 40;
    run(j);
    int anew = 0;
    for (int64_t i = 0; i < j->pulled; i++) {
        anew += j->since[i] == 0;
        CHECK(i == 0 || (j->since[i] == 0) == (j->ids[i] / 40 != j->ids[i - 1] / 40));
    }
    CHECK(anew > 2); // 10, unless a slow machine sheds 40 frames in a row
}

TEST(a_failure_ends_a_live_stream)
{
    for (int k = 0; k < 10; k++) {
        struct job *j = job(base);
        j->p = (struct tachy_live_params){.mode = TACHY_RUN_LIVE, .max_latency_ms = k % 2 ? 50 : 0};
        j->work_us = k * 300;
        j->fail_at = 50;
        j->frames = INT_MAX; // until the failure is known
        run(j);
        CHECK_INT(j->end, TACHY_ERR_EXTERNAL);
        CHECK_INT(j->push_end, TACHY_ERR_INTERRUPTED);
        CHECK(j->pulled <= 50);
    }
}

TEST(wrong_parameters_are_refused)
{
    tachy_task *t = test_task(&(struct test_steps){.name = "cannot"}, NULL, 0);
    struct live_stream *ls;
    CHECK_INT(live_stream_open(&ls, t, &(struct tachy_live_params){.frame_skip = true}, NULL),
              TACHY_ERR_INVAL);
    CHECK_INT(live_stream_open(&ls, t, &(struct tachy_live_params){.max_latency_ms = -1}, NULL),
              TACHY_ERR_INVAL);
    CHECK_INT(
        live_stream_open(&ls, t, &(struct tachy_live_params){.frame_skip_threshold = 2}, NULL),
        TACHY_ERR_INVAL);
    CHECK_INT(live_stream_open(&ls, t, &(struct tachy_live_params){.mode = 7}, NULL),
              TACHY_ERR_INVAL);
    CHECK_INT(live_stream_open(&ls, t, &(struct tachy_live_params){0}, NULL), 0);
    CHECK(live_stream_policy(ls) == NULL); // nothing in the way
    live_stream_close(&ls);
    test_task_free(t);
}

TEST_MAIN(TEST_CASE(nothing_is_shed_where_there_is_time), TEST_CASE(live_counts_exactly),
          TEST_CASE(newest_wins), TEST_CASE(frame_skip_is_the_same_with_any_workers),
          TEST_CASE(batches_take_what_is_not_reused),
          TEST_CASE(a_deadline_makes_batches_smaller), TEST_CASE(live_reuse_takes_real_results),
          TEST_CASE(state_starts_anew_though_frames_are_shed),
          TEST_CASE(a_failure_ends_a_live_stream), TEST_CASE(wrong_parameters_are_refused))
