#include "test.h"

#include "base/clock.h"
#include "pipeline/pipeline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

// The runner with a task whose steps take random time: order, nothing lost or doubled,
// failures, stops. Frames are real; the "model" adds one to the frame's number.

struct counting {
    int fail_at, fail_composite_at, fail_order_at; // frame id; -1: never
    int delay_us;
    atomic_int workers, items;
};

struct counting_item {
    int64_t value;
    int64_t ordered;
};

struct counting_order {
    tachy_task *task;
    int64_t next;
};

static struct counting *conf(tachy_task *t) { return (struct counting *)t->priv; }

static void random_delay(int most_us)
{
    if (most_us)
        usleep((useconds_t)(rand() % (most_us + 1)));
}

static int c_open(tachy_task *t, const tachy_settings *s) { return TACHY_OK; }
static void c_close(tachy_task *t) {}
static int c_start(tachy_task *t, const struct tachy_video_info *in, struct tachy_video_info *out)
{
    *out = *in;
    return TACHY_OK;
}
static int c_worker_open(tachy_task *t, void **w)
{
    atomic_fetch_add(&conf(t)->workers, 1);
    *w = t;
    return TACHY_OK;
}
static void c_worker_close(void *w) { atomic_fetch_sub(&conf(w)->workers, 1); }
static int c_preprocess(void *w, struct tachy_item *item, int eye)
{
    ((struct counting_item *)item->priv)->value = item->in->id;
    random_delay(conf(w)->delay_us);
    return TACHY_OK;
}
static int c_model(void *w, struct tachy_item *item, int eye)
{
    ((struct counting_item *)item->priv)->value++;
    return conf(w)->fail_at == item->in->id ? TACHY_ERR_EXTERNAL : TACHY_OK;
}
static int c_postprocess(void *w, struct tachy_item *item, int eye) { return TACHY_OK; }
static int c_order_open(tachy_task *t, void **state)
{
    struct counting_order *o = calloc(1, sizeof(*o));
    o->task = t;
    *state = o;
    return TACHY_OK;
}
static void c_order_close(void *state) { free(state); }
static int c_order(void *state, struct tachy_item *item)
{
    struct counting_order *o = state;
    CHECK_INT(item->in->id, o->next);
    ((struct counting_item *)item->priv)->ordered = o->next++;
    return conf(o->task)->fail_order_at == item->in->id ? TACHY_ERR_EXTERNAL : TACHY_OK;
}
static int c_composite(void *w, struct tachy_item *item)
{
    struct counting_item *ci = item->priv;
    random_delay(conf(w)->delay_us);
    CHECK_INT(ci->value, item->in->id + 1);
    CHECK_INT(ci->ordered, item->in->id);
    item->out = tachy_frame_ref(item->in);
    return conf(w)->fail_composite_at == item->in->id ? TACHY_ERR_NOMEM : TACHY_OK;
}

static const struct tachy_task_ops ops = {
    .name = "counting",
    .item_size = sizeof(struct counting_item),
    .open = c_open,
    .close = c_close,
    .start = c_start,
    .worker_open = c_worker_open,
    .worker_close = c_worker_close,
    .preprocess = c_preprocess,
    .model = c_model,
    .postprocess = c_postprocess,
    .order_open = c_order_open,
    .order_close = c_order_close,
    .order = c_order,
    .composite = c_composite,
};

static tachy_task *task_new(struct counting c)
{
    tachy_task *t = calloc(1, sizeof(*t) + sizeof(c));
    t->ops = &ops;
    t->eyes = 1;
    memcpy(t->priv, &c, sizeof(c));
    return t;
}

struct feed {
    tachy_pipeline *p;
    int frames;
    int pushed;
};

static void *feed_main(void *arg)
{
    struct feed *f = arg;
    for (int i = 0; i < f->frames; i++) {
        tachy_frame *frame;
        tachy_frame_new(&frame, &(struct tachy_frame_params){
                                    .format = TACHY_PIX_GRAY8, .width = 16, .height = 2});
        frame->id = i;
        frame->pts = i * 10;
        int err = tachy_pipeline_push(f->p, frame);
        tachy_frame_unref(&frame);
        if (err < 0)
            break;
        f->pushed++;
    }
    tachy_pipeline_push(f->p, NULL);
    return NULL;
}

// Runs `frames` frames; returns how many came out before the end, *end its code.
static int run(struct counting c, int frames, int workers, int64_t max_bytes, int *end)
{
    tachy_task *t = task_new(c);
    struct feed f = {.frames = frames};
    struct tachy_video_info in = {
        .format = TACHY_PIX_GRAY8, .width = 16, .height = 2, .time_base = {1, 1000}};
    int err =
        tachy_pipeline_open(&f.p, tachy_pipeline_params(.task = t, .input = in, .workers = workers,
                                                        .max_bytes = max_bytes));
    CHECK_INT(err, TACHY_OK);
    pthread_t thread;
    pthread_create(&thread, NULL, feed_main, &f);
    int n = 0;
    for (;;) {
        tachy_frame *out;
        const struct tachy_result *r;
        *end = tachy_pipeline_pull(f.p, &out, &r);
        if (*end != TACHY_OK)
            break;
        CHECK_INT(out->id, n);
        CHECK_INT(r->frame_id, n);
        CHECK_INT(r->pts, n * 10);
        tachy_frame_unref(&out);
        n++;
    }
    CHECK_INT(tachy_pipeline_pull(f.p, NULL, NULL), *end);
    pthread_join(thread, NULL);
    struct tachy_summary s = {0};
    tachy_pipeline_stats(f.p, &s);
    CHECK(s.steps[TACHY_STEP_MODEL].calls >= n);
    tachy_pipeline_close(&f.p);
    CHECK_INT(atomic_load(&conf(t)->workers), 0);
    free(t);
    return n;
}

static const struct counting never = {.fail_at = -1, .fail_composite_at = -1, .fail_order_at = -1};

TEST(every_frame_once_and_in_order)
{
    static const int workers[] = {1, 2, 3, 8};
    for (size_t i = 0; i < 4; i++) {
        int end;
        struct counting c = never;
        CHECK_INT(run(c, 5000, workers[i], 0, &end), 5000);
        CHECK_INT(end, TACHY_ERR_EOF);
        c.delay_us = 200;
        CHECK_INT(run(c, 300, workers[i], 0, &end), 300);
        CHECK_INT(end, TACHY_ERR_EOF);
        CHECK_INT(run(c, 50, workers[i], 1, &end), 50); // the least memory
        CHECK_INT(end, TACHY_ERR_EOF);
    }
    int end;
    CHECK_INT(run(never, 0, 2, 0, &end), 0);
    CHECK_INT(end, TACHY_ERR_EOF);
}

TEST(a_failure_ends_after_the_frames_before_it)
{
    int end;
    struct counting c = never;
    c.delay_us = 300;
    c.fail_at = 37;
    CHECK_INT(run(c, 200, 4, 0, &end), 37);
    CHECK_INT(end, TACHY_ERR_EXTERNAL);
    c = never;
    c.delay_us = 300;
    c.fail_composite_at = 11;
    CHECK_INT(run(c, 200, 4, 0, &end), 11);
    CHECK_INT(end, TACHY_ERR_NOMEM);
    c = never;
    c.fail_order_at = 0;
    CHECK_INT(run(c, 200, 4, 0, &end), 0);
    CHECK_INT(end, TACHY_ERR_EXTERNAL);
}

TEST(closing_early_is_clean)
{
    for (int i = 0; i < 20; i++) {
        struct counting c = never;
        c.delay_us = 100;
        tachy_task *t = task_new(c);
        tachy_pipeline *p;
        struct tachy_video_info in = {
            .format = TACHY_PIX_GRAY8, .width = 16, .height = 2, .time_base = {1, 1000}};
        CHECK_INT(
            tachy_pipeline_open(&p, tachy_pipeline_params(.task = t, .input = in, .workers = 3)),
            0);
        for (int k = 0; k < i % 5; k++) {
            tachy_frame *frame;
            tachy_frame_new(&frame, &(struct tachy_frame_params){
                                        .format = TACHY_PIX_GRAY8, .width = 16, .height = 2});
            frame->id = k;
            tachy_pipeline_push(p, frame);
            tachy_frame_unref(&frame);
        }
        tachy_pipeline_close(&p);
        free(t);
    }
}

TEST(depth_follows_the_budget)
{
    struct tachy_video_info v = {.format = TACHY_PIX_YUV420P, .width = 1280, .height = 720};
    CHECK(tachy_pipeline_depth(&v, &v, 2, 0) >= 4);
    CHECK(tachy_pipeline_depth(&v, &v, 2, 0) <= 10);
    CHECK_INT(tachy_pipeline_depth(&v, &v, 2, 1), 2);
    v.width = 7680;
    v.height = 3840;
    CHECK(tachy_pipeline_depth(&v, &v, 64, (int64_t)1 << 30) <= 12);
}

TEST_MAIN(TEST_CASE(every_frame_once_and_in_order),
          TEST_CASE(a_failure_ends_after_the_frames_before_it), TEST_CASE(closing_early_is_clean),
          TEST_CASE(depth_follows_the_budget))
