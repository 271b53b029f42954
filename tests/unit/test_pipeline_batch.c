#include "media/media.h"
#include "pipeline/pipeline.h"
#include "steps.h"
#include "test.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

// Batches across streams in the pipeline, memory that is too short for them, and the budget. The
// "model" adds one to the frame's number.

struct adder {
    const char *key;      // NULL: no batches
    int fits;             // pictures that memory has room for; 0: any
    int64_t fail_at;      // frame that the model refuses; -1: none
    int mismatch;         // the model takes one picture a run
    int eyes;
    atomic_int runs, pictures, largest, engines, refused;
};

struct adder_item {
    int64_t in[2], out[2];
};

static struct adder *of(const tachy_task *t)
{
    struct adder *a;
    memcpy(&a, test_priv(t), sizeof(a));
    return a;
}

static int a_start(tachy_task *t, const struct tachy_video_info *in, struct tachy_video_info *out)
{
    *out = *in;
    t->eyes = of(t)->eyes;
    return TACHY_OK;
}
static int a_worker_open(tachy_task *t, void **w)
{
    *w = t;
    return TACHY_OK;
}
static void a_worker_close(void *w) {}
static int a_step(void *w, struct tachy_item *item, int eye) { return TACHY_OK; }
static int a_model(void *w, struct tachy_item *item, int eye)
{
    ((struct adder_item *)item->priv)->out[eye] = item->in->id + 1 + eye;
    return TACHY_OK;
}
static const char *a_key(const tachy_task *t) { return of(t)->key; }
static int a_batch_open(tachy_task *t, int most, void **engine)
{
    *engine = of(t);
    if (of(t)->mismatch)
        return TACHY_ERR_MISMATCH;
    atomic_fetch_add(&of(t)->engines, 1);
    return TACHY_OK;
}
static void a_batch_close(void *engine)
{
    if (!((struct adder *)engine)->mismatch)
        atomic_fetch_sub(&((struct adder *)engine)->engines, 1);
}
static int a_preprocess(void *w, struct tachy_item *item, int eye)
{
    ((struct adder_item *)item->priv)->in[eye] = item->in->id + eye;
    return TACHY_OK;
}
static int a_batch_model(void *engine, const struct tachy_piece pieces[], int n)
{
    struct adder *a = engine;
    if (a->fits && n > a->fits) {
        atomic_fetch_add(&a->refused, 1);
        return TACHY_ERR_NOMEM;
    }
    for (int i = 0; i < n; i++)
        if (pieces[i].item->result.frame_id == a->fail_at)
            return TACHY_ERR_EXTERNAL;
    usleep(200);
    for (int i = 0; i < n; i++) {
        struct adder_item *it = pieces[i].item->priv;
        CHECK(pieces[i].item->apart);
        it->out[pieces[i].region] = it->in[pieces[i].region] + 1;
    }
    atomic_fetch_add(&a->runs, 1);
    atomic_fetch_add(&a->pictures, n);
    int largest = atomic_load(&a->largest);
    while (n > largest && !atomic_compare_exchange_weak(&a->largest, &largest, n)) {
    }
    return TACHY_OK;
}
static int a_composite(void *w, struct tachy_item *item)
{
    const struct adder_item *it = item->priv;
    for (int eye = 0; eye < of(w)->eyes; eye++)
        CHECK_INT(it->out[eye], item->in->id + 1 + eye);
    item->out = tachy_frame_ref(item->in);
    return TACHY_OK;
}

static const struct test_steps adder_ops = {
    .name = "adder",
    .item_size = sizeof(struct adder_item),
    .start = a_start,
    .worker_open = a_worker_open,
    .worker_close = a_worker_close,
    .preprocess = a_preprocess,
    .model = a_model,
    .postprocess = a_step,
    .batch_key = a_key,
    .batch_open = a_batch_open,
    .batch_close = a_batch_close,
    .batch_model = a_batch_model,
    .composite = a_composite,
};

static tachy_task *task_of(struct adder *a)
{
    return test_task(&adder_ops, &a, sizeof(a));
}

static const struct tachy_video_info info = {.format = TACHY_PIX_GRAY8, .width = 32, .height = 8};

struct feeder {
    tachy_stream *s;
    int frames;
    int pause_us;
};

static void *feed(void *arg)
{
    struct feeder *f = arg;
    for (int i = 0; i < f->frames; i++) {
        tachy_frame *frame = NULL;
        tachy_frame_new(&frame, &(struct tachy_frame_params){
                                    .format = info.format, .width = info.width, .height = info.height, .pts = i});
        frame->id = i;
        if (f->pause_us)
            usleep((useconds_t)f->pause_us);
        int err = tachy_stream_push(f->s, frame);
        tachy_frame_unref(&frame);
        if (err < 0)
            break;
    }
    tachy_stream_push(f->s, NULL);
    return NULL;
}

// Pulls to the end; the number of frames, in order. *err: how it ended.
static int pull_all(tachy_stream *s, int *err)
{
    const struct tachy_result *r;
    tachy_frame *f;
    int n = 0;
    while ((*err = tachy_stream_pull(s, &f, &r)) == TACHY_OK) {
        CHECK_INT(r->frame_id, n);
        CHECK(f);
        tachy_frame_unref(&f);
        n++;
    }
    return n;
}

struct notes {
    atomic_int warnings, errors;
    char last[512];
};

static void note(void *user, enum tachy_log_level level, const char *text)
{
    struct notes *n = user;
    atomic_fetch_add(&n->warnings, level == TACHY_LOG_WARN);
    atomic_fetch_add(&n->errors, level == TACHY_LOG_ERR);
    if (level == TACHY_LOG_ERR)
        snprintf(n->last, sizeof(n->last), "%s", text);
}

enum { STREAMS = 3 };

struct outcome {
    int frames[STREAMS], err[STREAMS];
    struct tachy_summary sum;
};

static struct outcome run(struct adder *a, int batch, int frames, struct notes *notes, int64_t memory)
{
    struct outcome o = {0};
    const struct tachy_log log = {.fn = note, .user = notes, .max_level = TACHY_LOG_VERBOSE};
    tachy_pipeline *p;
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = 2, .batch = batch, .memory = memory,
                                                            .batch_timeout_us = 2000, .log = &log)),
              TACHY_OK);
    tachy_task *t[STREAMS];
    struct feeder f[STREAMS];
    pthread_t th[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        t[i] = task_of(a); // tasks of their own share batches by the key
        f[i] = (struct feeder){.frames = frames + i};
        CHECK_INT(tachy_pipeline_join(p, &f[i].s, tachy_stream_params(.task = t[i], .input = info)), TACHY_OK);
    }
    for (int i = 0; i < STREAMS; i++)
        pthread_create(&th[i], NULL, feed, &f[i]);
    for (int i = 0; i < STREAMS; i++)
        o.frames[i] = pull_all(f[i].s, &o.err[i]);
    for (int i = 0; i < STREAMS; i++)
        pthread_join(th[i], NULL);
    tachy_pipeline_stats(p, &o.sum);
    for (int i = 0; i < STREAMS; i++)
        tachy_stream_leave(&f[i].s);
    tachy_pipeline_close(&p);
    for (int i = 0; i < STREAMS; i++)
        test_task_free(t[i]);
    CHECK_INT(a->engines, 0);
    return o;
}

TEST(batches_across_streams)
{
    struct adder a = {.key = "m", .fail_at = -1, .eyes = 1};
    struct notes n = {0};
    struct outcome o = run(&a, 8, 200, &n, 0);
    for (int i = 0; i < STREAMS; i++) {
        CHECK_INT(o.frames[i], 200 + i);
        CHECK_INT(o.err[i], TACHY_ERR_EOF);
    }
    CHECK_INT(a.pictures, 603);
    CHECK(a.largest > 2 && a.largest <= 8);
    CHECK(a.runs < 400);
    CHECK_INT(o.sum.steps[TEST_STEP_MODEL].calls, 603);
    CHECK_INT(o.sum.steps[TEST_STEP_POSTPROCESS].calls, 603);
}

TEST(eyes_are_pictures)
{
    struct adder a = {.key = "m", .fail_at = -1, .eyes = 2};
    struct notes n = {0};
    struct outcome o = run(&a, 5, 61, &n, 0);
    for (int i = 0; i < STREAMS; i++)
        CHECK_INT(o.frames[i], 61 + i);
    CHECK_INT(a.pictures, 2 * (61 + 62 + 63));
}

TEST(a_model_of_one_picture)
{
    struct adder a = {.key = "m", .fail_at = -1, .eyes = 1, .mismatch = 1};
    struct notes n = {0};
    struct outcome o = run(&a, 8, 20, &n, 0);
    CHECK_INT(o.frames[0], 20);
    CHECK_INT(a.runs, 0);
    CHECK(n.warnings >= 1);
}

TEST(short_memory_halves_batches)
{
    struct adder a = {.key = "m", .fits = 3, .fail_at = -1, .eyes = 1};
    struct notes n = {0};
    struct outcome o = run(&a, 16, 300, &n, 0);
    for (int i = 0; i < STREAMS; i++) {
        CHECK_INT(o.frames[i], 300 + i);
        CHECK_INT(o.err[i], TACHY_ERR_EOF);
    }
    CHECK(a.largest <= 3);
    CHECK(a.refused > 0 && a.refused < 20); // it is not tried again and again
    CHECK_INT(n.warnings, 1);               // and said once
}

TEST(one_failure_in_a_batch)
{
    struct adder a = {.key = "m", .fail_at = 50, .eyes = 1};
    struct notes n = {0};
    struct outcome o = run(&a, 8, 80, &n, 0);
    for (int i = 0; i < STREAMS; i++) { // every stream has a frame 50
        CHECK_INT(o.frames[i], 50);
        CHECK_INT(o.err[i], TACHY_ERR_EXTERNAL);
    }
    CHECK(strstr(n.last, "frame 50: model failed"));
}

TEST(a_stalled_stream_holds_nobody)
{
    struct adder a = {.key = "m", .fail_at = -1, .eyes = 1};
    tachy_pipeline *p;
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = 2, .batch = 8, .batch_timeout_us = 20000)),
              TACHY_OK);
    tachy_task *t = task_of(&a);
    tachy_stream *stalled;
    CHECK_INT(tachy_pipeline_join(p, &stalled, tachy_stream_params(.task = t, .input = info)), TACHY_OK);
    tachy_frame *f = NULL;
    tachy_frame_new(&f, &(struct tachy_frame_params){.format = info.format, .width = 32, .height = 8});
    uint64_t start = tachy_now_ns();
    CHECK_INT(tachy_stream_push(stalled, f), TACHY_OK);
    tachy_frame_unref(&f);
    const struct tachy_result *r;
    CHECK_INT(tachy_stream_pull(stalled, NULL, &r), TACHY_OK);
    double ms = (double)(tachy_now_ns() - start) * 1e-6;
    CHECK(ms >= 19 && ms < 2000); // its own deadline, nobody else's frame
    tachy_stream_leave(&stalled);
    tachy_pipeline_close(&p);
    test_task_free(t);
}

TEST(leaves_in_the_middle)
{
    for (int round = 0; round < 20; round++) {
        struct adder a = {.key = "m", .fail_at = -1, .eyes = 2};
        tachy_pipeline *p;
        CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = 3, .batch = 8)), TACHY_OK);
        tachy_task *t = task_of(&a);
        tachy_stream *gone;
        struct feeder stays = {.frames = 60};
        CHECK_INT(tachy_pipeline_join(p, &gone, tachy_stream_params(.task = t, .input = info)), TACHY_OK);
        CHECK_INT(tachy_pipeline_join(p, &stays.s, tachy_stream_params(.task = t, .input = info)), TACHY_OK);
        pthread_t th;
        pthread_create(&th, NULL, feed, &stays);
        for (int i = 0; i < 6; i++) {
            tachy_frame *f = NULL;
            tachy_frame_new(&f, &(struct tachy_frame_params){.format = info.format, .width = 32, .height = 8});
            f->id = i;
            CHECK_INT(tachy_stream_push(gone, f), TACHY_OK);
            tachy_frame_unref(&f);
        }
        usleep((useconds_t)(round * 150));
        tachy_stream_leave(&gone);
        int err;
        CHECK_INT(pull_all(stays.s, &err), 60);
        pthread_join(th, NULL);
        tachy_stream_leave(&stays.s);
        tachy_pipeline_close(&p);
        test_task_free(t);
    }
}

TEST(the_budget_bounds_all_streams)
{
    struct adder a = {.key = NULL, .fail_at = -1, .eyes = 1};
    struct notes n = {0};
    size_t frame = tachy_frame_bytes(info.format, info.width, info.height);
    struct outcome o = run(&a, 1, 100, &n, (int64_t)(3 * 2 * 2 * frame));
    for (int i = 0; i < STREAMS; i++)
        CHECK_INT(o.frames[i], 100 + i);
    // Two frames of a stream do not fit: said, with what to do.
    const struct tachy_log log = {.fn = note, .user = &n};
    tachy_pipeline *p;
    tachy_task *t = task_of(&a);
    int err = tachy_pipeline_open(&p, tachy_pipeline_params(.task = t, .input = info, .memory = (int64_t)frame,
                                                            .workers = 1, .log = &log));
    CHECK_INT(err, TACHY_ERR_LIMIT);
    CHECK(!p);
    CHECK(n.warnings >= 1);
    test_task_free(t);
}

TEST_MAIN(TEST_CASE(batches_across_streams), TEST_CASE(eyes_are_pictures), TEST_CASE(a_model_of_one_picture),
          TEST_CASE(short_memory_halves_batches), TEST_CASE(one_failure_in_a_batch),
          TEST_CASE(a_stalled_stream_holds_nobody), TEST_CASE(leaves_in_the_middle),
          TEST_CASE(the_budget_bounds_all_streams))
