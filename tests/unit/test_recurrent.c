#include "counting.h"
#include "delays.h"

#include "base/clock.h"

// Recurrent tasks: a stream has one frame at a time in the model, in order, with its own state; other streams and
// composites run in parallel. With TACHY_PIPELINE_DELAYS every hand-over waits for a random time.

enum { FRAMES = 300, ANEW_EVERY = 41 };

static atomic_int in_model, most_in_model, in_composite, beside_composite, states_open;
static int model_us, composite_us;

struct chain {
    atomic_int inside;
    int eyes;
    int64_t last;
    uint64_t value[TACHY_MAX_EYES];
    int resets;
};

// The state after `id`.
static uint64_t mixed(uint64_t value, int64_t id, int eye)
{
    return value * 31 + (uint64_t)id * 2 + (uint64_t)eye + 1;
}

static int r_state_open(tachy_task *t, void **state)
{
    struct chain *c = *state = calloc(1, sizeof(*c));
    c->eyes = t->eyes;
    c->last = -1;
    atomic_fetch_add(&states_open, 1);
    return TACHY_OK;
}

static void r_state_close(void *state)
{
    atomic_fetch_sub(&states_open, 1);
    free(state);
}

static int r_model(void *w, void *state, struct tachy_item *item, int eye)
{
    struct chain *c = state;
    int64_t id = item->in->id;
    if (item->anew && !eye) {
        memset(c->value, 0, sizeof(c->value));
        c->resets++;
    }
    CHECK_INT(atomic_fetch_add(&c->inside, 1), 0); // one at a time
    CHECK(eye ? id == c->last : id > c->last);     // in order
    c->last = id;
    int now = atomic_fetch_add(&in_model, 1) + 1, most = atomic_load(&most_in_model);
    while (now > most && !atomic_compare_exchange_weak(&most_in_model, &most, now))
        continue;
    if (atomic_load(&in_composite))
        atomic_fetch_add(&beside_composite, 1);
    if (model_us)
        usleep((useconds_t)model_us);
    c->value[eye] = mixed(c->value[eye], id, eye);
    struct counting_item *ci = item->priv;
    ci->ordered = eye ? ci->ordered ^ (int64_t)c->value[1] : (int64_t)c->value[0];
    ci->value = id + 1;
    atomic_fetch_sub(&in_model, 1);
    atomic_fetch_sub(&c->inside, 1);
    return conf(w)->fail_at == id ? TACHY_ERR_EXTERNAL : TACHY_OK;
}

// The model's output becomes the pts.
static int r_composite(void *w, struct tachy_item *item)
{
    const tachy_frame *head = tachy_item_head(item);
    atomic_fetch_add(&in_composite, 1);
    if (composite_us)
        usleep((useconds_t)composite_us);
    item->out = frame_new(head->id, head->width);
    item->out->pts = ((struct counting_item *)item->priv)->ordered;
    atomic_fetch_sub(&in_composite, 1);
    return TACHY_OK;
}

static struct test_steps recurrent_ops(void)
{
    struct test_steps o = counting_ops;
    o.state_open = r_state_open;
    o.state_close = r_state_close;
    o.recur = r_model;
    o.composite = r_composite;
    o.order = NULL;
    o.order_open = NULL;
    return o;
}

static tachy_task *recurrent_new(const struct test_steps *ops, struct counting c, int eyes)
{
    tachy_task *t = test_task(ops, &c, sizeof(c));
    t->eyes = eyes;
    return t;
}

struct feed {
    tachy_stream *s;
    int frames;
};

static tachy_frame *made(int id)
{
    tachy_frame *f = frame_new(id, 16);
    f->discontinuity = id && id % ANEW_EVERY == 0;
    return f;
}

static void *feed_main(void *arg)
{
    struct feed *f = arg;
    for (int i = 0; i < f->frames; i++) {
        tachy_frame *frame = made(i);
        int err = tachy_stream_push(f->s, frame);
        tachy_frame_unref(&frame);
        if (err < 0)
            break;
    }
    tachy_stream_push(f->s, NULL);
    return NULL;
}

static tachy_stream *join(tachy_pipeline *p, tachy_task *t, int64_t window)
{
    tachy_stream *s = NULL;
    struct tachy_video_info in = {
        .format = TACHY_PIX_GRAY8, .width = 16, .height = 2, .time_base = {1, 1000}};
    CHECK_INT(tachy_pipeline_join(p, &s, tachy_stream_params(.task = t, .input = in, .window = window)), 0);
    return s;
}

// Pulls up to the end and holds every frame against a loop; returns how many came.
static int pull_all(tachy_stream *s, int eyes, int *end)
{
    uint64_t want[TACHY_MAX_EYES] = {0};
    int n = 0;
    for (;; n++) {
        tachy_frame *f = NULL;
        *end = tachy_stream_pull(s, &f, NULL);
        if (*end < 0)
            return n;
        if (f->id && f->id % ANEW_EVERY == 0)
            want[0] = want[1] = 0;
        for (int e = 0; e < eyes; e++)
            want[e] = mixed(want[e], f->id, e);
        CHECK_INT(f->id, n);
        CHECK(f->pts == (int64_t)(want[0] ^ (eyes > 1 ? want[1] : 0)));
        tachy_frame_unref(&f);
    }
}

struct guest {
    tachy_pipeline *p;
    tachy_task *task;
    int frames, eyes;
};

static void *guest_main(void *arg)
{
    struct guest *g = arg;
    struct feed f = {join(g->p, g->task, 0), g->frames};
    pthread_t thread;
    int end;
    pthread_create(&thread, NULL, feed_main, &f);
    CHECK_INT(pull_all(f.s, g->eyes, &end), g->frames);
    CHECK_INT(end, TACHY_ERR_EOF);
    pthread_join(thread, NULL);
    CHECK_INT(((struct chain *)f.s->state[TEST_MODEL])->resets, (g->frames - 1) / ANEW_EVERY);
    tachy_stream_leave(&f.s);
    return NULL;
}

static void run_guests(int n, int workers, int frames, int eyes)
{
    struct test_steps ops = recurrent_ops();
    tachy_task *t = recurrent_new(&ops, never, eyes);
    tachy_pipeline *p = NULL;
    struct guest g[4];
    pthread_t thread[4];
    atomic_store(&most_in_model, 0);
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = workers)), 0);
    for (int i = 0; i < n; i++) {
        g[i] = (struct guest){p, t, frames, eyes};
        pthread_create(&thread[i], NULL, guest_main, &g[i]);
    }
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    tachy_pipeline_close(&p);
    CHECK_INT(atomic_load(&states_open), 0);
    test_task_free(t);
}

TEST(one_at_a_time_in_order_with_its_state)
{
    static const int workers[] = {1, 2, 8};
    model_us = composite_us = 0;
    for (int i = 0; i < 3; i++) {
        run_guests(1, workers[i], FRAMES, 1);
        run_guests(1, workers[i], FRAMES, 2);
        CHECK_INT(atomic_load(&most_in_model), 1);
        run_guests(4, workers[i], FRAMES, 2);
    }
}

TEST(streams_run_side_by_side)
{
    model_us = 2000;
    run_guests(2, 8, 60, 1);
    CHECK_INT(atomic_load(&most_in_model), 2);
    model_us = 0;
}

TEST(composites_overlap_the_model)
{
    model_us = composite_us = 2000;
    atomic_store(&beside_composite, 0);
    run_guests(1, 4, 60, 1);
    CHECK_INT(atomic_load(&most_in_model), 1);
    CHECK(atomic_load(&beside_composite) > 20);
    model_us = composite_us = 0;
}

// Positions pushed in reverse, every seventh without a frame.
TEST(positions_in_any_order)
{
    enum { BLOCK = 8, BLOCKS = 30 };
    struct test_steps ops = recurrent_ops();
    tachy_task *t = recurrent_new(&ops, never, 1);
    tachy_pipeline *p = NULL;
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = 8)), 0);
    tachy_stream *s = join(p, t, 2 * BLOCK); // a hole at a block's end is passed with the next
    uint64_t want = 0;
    for (int b = 0; b < BLOCKS; b++) {
        for (int i = BLOCK - 1; i >= 0; i--) {
            int64_t n = b * BLOCK + i;
            tachy_frame *f = n % 7 ? frame_new(n, 16) : NULL;
            CHECK_INT(tachy_stream_push_at(s, f, n), 0);
            tachy_frame_unref(&f);
        }
        for (int i = 0; i < BLOCK; i++) {
            int64_t n = b * BLOCK + i;
            tachy_frame *f = NULL;
            if (n % 7 == 0)
                continue;
            want = mixed(want, n, 0);
            CHECK_INT(tachy_stream_pull(s, &f, NULL), 0);
            CHECK(f && f->id == n && f->pts == (int64_t)want);
            tachy_frame_unref(&f);
        }
    }
    tachy_stream_push(s, NULL);
    CHECK_INT(tachy_stream_pull(s, NULL, NULL), TACHY_ERR_EOF);
    tachy_stream_leave(&s);
    tachy_pipeline_close(&p);
    test_task_free(t);
}

TEST(a_failure_ends_its_stream_only)
{
    struct test_steps ops = recurrent_ops();
    struct counting c = never;
    c.fail_at = 37;
    tachy_task *bad = recurrent_new(&ops, c, 1), *good = recurrent_new(&ops, never, 1);
    tachy_pipeline *p = NULL;
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = 3)), 0);
    struct guest g = {p, good, FRAMES, 1};
    struct feed f = {join(p, bad, 0), FRAMES};
    pthread_t thread, feeder;
    int end;
    pthread_create(&thread, NULL, guest_main, &g);
    pthread_create(&feeder, NULL, feed_main, &f);
    CHECK_INT(pull_all(f.s, 1, &end), 37);
    CHECK_INT(end, TACHY_ERR_EXTERNAL);
    pthread_join(feeder, NULL);
    tachy_stream_leave(&f.s);
    pthread_join(thread, NULL);
    tachy_pipeline_close(&p);
    CHECK_INT(atomic_load(&states_open), 0);
    test_task_free(bad);
    test_task_free(good);
}

TEST(leaving_while_frames_wait_for_their_turn)
{
    struct test_steps ops = recurrent_ops();
    tachy_task *t = recurrent_new(&ops, never, 1);
    tachy_pipeline *p = NULL;
    model_us = 300;
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = 4)), 0);
    for (int round = 0; round < 40; round++) {
        tachy_stream *s = join(p, t, 16);
        for (int i = 0; i < 2 + round % 5; i++) {
            tachy_frame *f = made(i);
            CHECK_INT(tachy_stream_push(s, f), 0);
            tachy_frame_unref(&f);
        }
        for (int i = 0; i < round % 3; i++)
            CHECK_INT(tachy_stream_pull(s, NULL, NULL), 0);
        tachy_stream_leave(&s);
    }
    tachy_pipeline_close(&p);
    CHECK_INT(atomic_load(&states_open), 0);
    test_task_free(t);
    model_us = 0;
}

// A policy as mode live's, that drops or takes over some items: the state does not see them.
static bool wants(void *user, struct tachy_item *item, bool writes)
{
    if (item->result.frame_id % 5 == 4)
        item->reuse = 1;
    return writes || item->result.frame_id % 3 != 1;
}

TEST(skipped_and_shed_frames_leave_the_state)
{
    struct test_steps ops = recurrent_ops();
    tachy_task *t = recurrent_new(&ops, never, 1);
    tachy_pipeline *p = NULL;
    struct pipeline_policy policy = {.wanted = wants};
    struct tachy_video_info in = {
        .format = TACHY_PIX_GRAY8, .width = 16, .height = 2, .time_base = {1, 1000}};
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = 4)), 0);
    struct feed f = {.frames = 35}; // none is a discontinuity
    CHECK_INT(pipeline_join(p, &f.s, tachy_stream_params(.task = t, .input = in), &policy, false), 0);
    pthread_t thread;
    pthread_create(&thread, NULL, feed_main, &f);
    uint64_t want = 0;
    for (int i = 0; i < f.frames; i++) {
        tachy_frame *out = NULL;
        if (i % 3 == 1)
            continue;
        CHECK_INT(tachy_stream_pull(f.s, &out, NULL), 0);
        CHECK(out && out->id == i);
        if (i % 5 != 4)
            want = mixed(want, i, 0);
        if (i % 5 != 4)
            CHECK(out && out->pts == (int64_t)want);
        tachy_frame_unref(&out);
    }
    CHECK_INT(tachy_stream_pull(f.s, NULL, NULL), TACHY_ERR_EOF);
    pthread_join(thread, NULL);
    tachy_stream_leave(&f.s);
    tachy_pipeline_close(&p);
    test_task_free(t);
}

TEST_MAIN(TEST_CASE(one_at_a_time_in_order_with_its_state), TEST_CASE(streams_run_side_by_side),
          TEST_CASE(composites_overlap_the_model), TEST_CASE(positions_in_any_order),
          TEST_CASE(a_failure_ends_its_stream_only),
          TEST_CASE(leaving_while_frames_wait_for_their_turn),
          TEST_CASE(skipped_and_shed_frames_leave_the_state))
