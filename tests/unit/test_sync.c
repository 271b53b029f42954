#include "counting.h"
#include "delays.h"

// Composites that another device ends later, in any order: its thread writes the pictures while the
// workers go on, and pull waits for the ones that it hands out. Also where workers take several items at once.

struct job {
    struct later *by;
    struct tachy_item *item;
    tachy_frame *in; // what the device reads; NULL if composite does not
    tachy_frame *out;
    int64_t id;
    bool over;
    int err;
};

enum { DEVICE_JOBS = 1024 };

struct later {
    struct counting counting; // first
    int fail_later_at;        // frame id whose composite fails on the device; -1: never
    int most_us;              // between two pictures
    int group;                // items that workers take at once; 0: one
    atomic_int together;      // of the largest group so far
    pthread_t device;
    pthread_mutex_t lock; // guards the rest
    pthread_cond_t news;
    struct job *waiting[DEVICE_JOBS];
    int nb_waiting, begun, settled;
    bool closing;
};

struct later_item {
    struct counting_item counting; // first
    struct job job;
};

static struct later *later_of(const tachy_task *t) { return test_priv(t); }

static uint8_t pixel_of(int64_t id) { return (uint8_t)(id * 7 + 1); }

static void *device_main(void *arg)
{
    struct later *l = arg;
    unsigned seed = 1;
    pthread_mutex_lock(&l->lock);
    while (!l->closing || l->nb_waiting) {
        if (!l->nb_waiting) {
            pthread_cond_wait(&l->news, &l->lock);
            continue;
        }
        int pick = rand_r(&seed) % l->nb_waiting;
        struct job *j = l->waiting[pick];
        l->waiting[pick] = l->waiting[--l->nb_waiting];
        pthread_mutex_unlock(&l->lock);
        if (l->most_us)
            usleep((useconds_t)(rand_r(&seed) % (l->most_us + 1)));
        for (int y = 0; y < j->out->height; y++) // the item's frames are what they were
            memset(tachy_frame_writable(j->out, 0) + y * j->out->stride[0], pixel_of(j->id),
                   (size_t)j->out->width);
        pthread_mutex_lock(&l->lock);
        j->item->result.coverage = (float)j->id;
        j->err = j->id == l->fail_later_at ? TACHY_ERR_EXTERNAL : TACHY_OK;
        tachy_frame_unref(&j->in);
        j->over = true;
        pthread_cond_broadcast(&l->news);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static int composite_later(void *worker, struct tachy_item *item)
{
    struct later *l = later_of(worker);
    struct job *j = &((struct later_item *)item->priv)->job;
    int err = c_composite(worker, item);
    if (err < 0)
        return err;
    *j = (struct job){.by = l, .item = item, .in = tachy_frame_ref(item->in), .out = item->out,
                      .id = item->result.frame_id};
    item->pending = true;
    pthread_mutex_lock(&l->lock);
    l->waiting[l->nb_waiting++] = j;
    l->begun++;
    pthread_cond_broadcast(&l->news);
    pthread_mutex_unlock(&l->lock);
    return TACHY_OK;
}

static int settle(struct tachy_item *item)
{
    struct job *j = &((struct later_item *)item->priv)->job;
    CHECK(item->pending && item == j->item && item->out == j->out);
    struct later *l = j->by;
    pthread_mutex_lock(&l->lock);
    while (!j->over)
        pthread_cond_wait(&l->news, &l->lock);
    l->settled++;
    pthread_mutex_unlock(&l->lock);
    item->pending = false;
    return j->err;
}

static int group(const tachy_task *t)
{
    const struct later *l = later_of(t);
    return l->group;
}

static int one_step(void *worker, int step, struct tachy_item *item, int eye)
{
    return step == TEST_STEP_PREPROCESS  ? c_preprocess(worker, item, eye)
           : step == TEST_STEP_MODEL     ? c_model(worker, item, eye)
           : step == TEST_STEP_COMPOSITE ? composite_later(worker, item)
                                          : c_postprocess(worker, item, eye);
}

static void group_step(void *worker, int step, struct tachy_item *const items[], int n, int eye, int err[])
{
    struct later *l = later_of(worker);
    int most = atomic_load(&l->together);
    CHECK(n >= 1 && n <= TACHY_MAX(l->group, 1) && eye == 0);
    while (n > most && !atomic_compare_exchange_weak(&l->together, &most, n))
        continue;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++)
            CHECK(items[k] != items[i] && items[k]->stream == items[i]->stream);
        err[i] = one_step(worker, step, items[i], eye);
    }
}

static tachy_task *later_new(struct counting c, int fail_later_at, int most_us)
{
    static struct test_steps ops;
    if (!ops.name) {
        ops = counting_ops;
        ops.item_size = sizeof(struct later_item);
        ops.composite = composite_later;
        ops.sync = settle;
        ops.group = group;
        ops.group_step = group_step;
    }
    const struct later start = {.counting = c};
    tachy_task *t = test_task(&ops, &start, sizeof(start));
    struct later *l = later_of(t);
    l->fail_later_at = fail_later_at;
    l->most_us = most_us;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->news, NULL);
    pthread_create(&l->device, NULL, device_main, l);
    return t;
}

// Every composite that was begun has been ended before its memory went.
static void later_free(tachy_task *t)
{
    struct later *l = later_of(t);
    pthread_mutex_lock(&l->lock);
    CHECK_INT(l->settled, l->begun);
    CHECK_INT(l->nb_waiting, 0);
    l->closing = true;
    pthread_cond_broadcast(&l->news);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->device, NULL);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->news);
    test_task_free(t);
}

struct feed {
    tachy_stream *s;
    int frames, lanes, lane;
};

// Positions lane, lane + lanes, ...
static void *feed_main(void *arg)
{
    struct feed *f = arg;
    for (int64_t i = f->lane; i < f->frames; i += f->lanes) {
        tachy_frame *frame = frame_new(i, 16);
        int err = tachy_stream_push_at(f->s, frame, i);
        tachy_frame_unref(&frame);
        if (err < 0)
            break;
    }
    return NULL;
}

static struct tachy_video_info input = {
    .format = TACHY_PIX_GRAY8, .width = 16, .height = 2, .time_base = {1, 1000}};

enum { LANES = 3 };

static int64_t window = 64;

// Pulls up to `most` of `frames` pictures that several threads push; returns how many came, *end: the code after the
// last.

static int run(tachy_task *t, int workers, int lanes, int frames, int most, int *end)
{
    tachy_pipeline *p;
    tachy_stream *s;
    struct feed feed[LANES];
    pthread_t thread[LANES];
    int n = 0;
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = workers)), TACHY_OK);
    CHECK_INT(tachy_pipeline_join(p, &s, tachy_stream_params(.task = t, .input = input, .window = window)), TACHY_OK);
    for (int i = 0; i < lanes; i++) {
        feed[i] = (struct feed){s, frames, lanes, i};
        pthread_create(&thread[i], NULL, feed_main, &feed[i]);
    }
    *end = TACHY_OK;
    while (n < most && n < frames) {
        tachy_frame *f;
        const struct tachy_result *r;
        *end = tachy_stream_pull(s, &f, &r);
        if (*end < 0)
            break;
        CHECK_INT(f->id, n);
        CHECK_INT(r->frame_id, n);
        CHECK(r->coverage == (float)n);
        for (int y = 0; y < f->height; y++)
            CHECK(f->data[0][y * f->stride[0]] == pixel_of(n) && f->data[0][y * f->stride[0] + 15] == pixel_of(n));
        tachy_frame_unref(&f);
        n++;
    }
    if (*end < 0)
        CHECK_INT(tachy_stream_pull(s, NULL, NULL), *end);
    tachy_pipeline_stop(p); // lets who still pushes go
    for (int i = 0; i < lanes; i++)
        pthread_join(thread[i], NULL);
    tachy_stream_leave(&s);
    tachy_pipeline_close(&p);
    return n;
}

#ifdef TACHY_PIPELINE_DELAYS
enum { FRAMES = 150 };
#else
enum { FRAMES = 1500 };
#endif

TEST(pictures_are_whole_and_in_order)
{
    static const int workers[] = {1, 2, 5};
    for (int i = 0; i < 12; i++) {
        struct counting c = never;
        c.unordered = i & 1;
        c.drops_input = i & 2;
        c.delay_us = i < 8 ? 0 : 50;
        window = i % 5 ? 64 : 400; // as far as composites go ahead of pull, or further
        input.mem = i & 4 ? TACHY_DEVICE : TACHY_HOST; // the frames are the host's either way
        int frames = i < 8 ? FRAMES : FRAMES / 5, end;
        tachy_task *t = later_new(c, -1, i % 4 ? 0 : 100);
        CHECK_INT(run(t, workers[i % 3], LANES, frames, frames, &end), frames);
        CHECK_INT(end, TACHY_OK);
        later_free(t);
    }
}

TEST(a_late_failure_ends_after_the_frames_before_it)
{
    for (int i = 0; i < 8; i++) {
        struct counting c = never;
        int end, at = 11 * i;
        c.unordered = i & 1;
        tachy_task *t = later_new(c, at, i & 2 ? 100 : 0);
        CHECK_INT(run(t, 3, LANES, 200, 200, &end), at);
        CHECK_INT(end, TACHY_ERR_EXTERNAL);
        later_free(t);
        c.fail_composite_at = at / 2; // one that fails at once comes before the late one, and ends push
        t = later_new(c, at + 1, 50);
        CHECK_INT(run(t, 3, 1, 200, 200, &end), at / 2);
        CHECK_INT(end, TACHY_ERR_NOMEM);
        later_free(t);
    }
}

TEST(closing_in_the_middle_waits_for_the_device)
{
    for (int i = 0; i < 24; i++) {
        struct counting c = never;
        int end;
        c.unordered = i & 1;
        tachy_task *t = later_new(c, -1, 200);
        CHECK_INT(run(t, 1 + i % 3, LANES, 200, i * 3 % 40, &end), i * 3 % 40);
        later_free(t);
    }
}

// Any size of group; what waits while the pipeline is paused is taken together.
TEST(groups_are_of_one_stream_and_lose_nothing)
{
    for (int i = 0; i < 12; i++) {
        static const int sizes[] = {2, 3, 8, 16};
        struct counting c = never;
        int end;
        c.unordered = i & 1;
        c.drops_input = i & 2;
        window = i % 3 ? 64 : 400;
        input.mem = i & 4 ? TACHY_DEVICE : TACHY_HOST;
        tachy_task *t = later_new(c, -1, i % 4 ? 0 : 50);
        later_of(t)->group = sizes[i % 4];
        CHECK_INT(run(t, 1 + i % 3, LANES, FRAMES / 3, FRAMES / 3, &end), FRAMES / 3);
        CHECK_INT(end, TACHY_OK);
        CHECK(atomic_load(&later_of(t)->together) > 1);
        later_free(t);
    }
}

// An item that fails takes no other of its group with it, and closing finds groups at every point.
TEST(in_a_group_an_item_fails_alone)
{
    for (int i = 0; i < 16; i++) {
        struct counting c = never;
        int end, at = 5 * i;
        c.unordered = i & 1;
        c.fail_at = i & 2 ? at : -1;
        c.fail_composite_at = i & 2 ? at + 1 : at;
        tachy_task *t = later_new(c, i & 4 ? at + 2 : -1, i & 8 ? 50 : 0);
        later_of(t)->group = 2 + i % 7;
        CHECK_INT(run(t, 1 + i % 3, 1, 200, 200, &end), at); // a failure ends push
        CHECK_INT(end, i & 2 ? TACHY_ERR_EXTERNAL : TACHY_ERR_NOMEM);
        later_free(t);
        c = never;
        c.unordered = i & 1;
        t = later_new(c, -1, 100);
        later_of(t)->group = 8;
        CHECK_INT(run(t, 1 + i % 3, LANES, 200, i * 3, &end), i * 3);
        later_free(t);
    }
}

// Two streams in one pipeline, each of whose frames wait: a group never mixes them.
TEST(streams_are_grouped_apart)
{
    enum { EACH = 24 };
    tachy_task *t = later_new(never, -1, 0);
    tachy_pipeline *p;
    tachy_stream *s[2];
    later_of(t)->group = 8;
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = 2)), TACHY_OK);
    for (int i = 0; i < 2; i++)
        CHECK_INT(tachy_pipeline_join(p, &s[i], tachy_stream_params(.task = t, .input = input, .window = 64)), TACHY_OK);
    tachy_pipeline_pause(p);
    for (int n = 0; n < 2 * EACH; n++) {
        tachy_frame *f = frame_new(n / 2, 16);
        CHECK_INT(tachy_stream_push_at(s[n & 1], f, n / 2), TACHY_OK);
        tachy_frame_unref(&f);
    }
    tachy_pipeline_resume(p);
    for (int n = 0; n < 2 * EACH; n++) {
        const struct tachy_result *r;
        tachy_frame *f;
        CHECK_INT(tachy_stream_pull(s[n & 1], &f, &r), TACHY_OK);
        CHECK_INT(r->frame_id, n / 2);
        tachy_frame_unref(&f);
    }
    CHECK_INT(atomic_load(&later_of(t)->together), 8);
    tachy_stream_leave(&s[0]);
    tachy_stream_leave(&s[1]);
    tachy_pipeline_close(&p);
    later_free(t);
}

TEST_MAIN(TEST_CASE(groups_are_of_one_stream_and_lose_nothing), TEST_CASE(in_a_group_an_item_fails_alone),
          TEST_CASE(streams_are_grouped_apart),
          TEST_CASE(pictures_are_whole_and_in_order), TEST_CASE(a_late_failure_ends_after_the_frames_before_it),
          TEST_CASE(closing_in_the_middle_waits_for_the_device))
