#include "counting.h"
#include "delays.h"

#include "base/clock.h"

// Many streams in one pipeline: order in each, joining and leaving, positions in any order,
// failures, pause and drain, figures meanwhile. With TACHY_PIPELINE_DELAYS every hand-over waits
// for a random time, so that threads meet in every order.

#ifdef TACHY_PIPELINE_DELAYS
enum { MANY = 60 };
#else
enum { MANY = 400 };
#endif

static struct tachy_video_info input_of(int width)
{
    return (struct tachy_video_info){
        .format = TACHY_PIX_GRAY8, .width = width, .height = 2, .time_base = {1, 1000}};
}

static tachy_pipeline *open_pipeline(int workers, const struct tachy_log *log)
{
    tachy_pipeline *p = NULL;
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = workers, .log = log)), 0);
    return p;
}

static tachy_stream *join(tachy_pipeline *p, tachy_task *t, int width, int64_t window)
{
    tachy_stream *s = NULL;
    CHECK_INT(tachy_pipeline_join(p, &s, tachy_stream_params(.task = t, .input = input_of(width),
                                                             .window = window)),
              0);
    return s;
}

// Pushes frame `id` at its position.
static int put(tachy_stream *s, int64_t id, int width)
{
    tachy_frame *f = frame_new(id, width);
    int err = tachy_stream_push(s, f);
    tachy_frame_unref(&f);
    return err;
}

static int put_at(tachy_stream *s, int64_t id)
{
    tachy_frame *f = frame_new(id, 16);
    int err = tachy_stream_push_at(s, f, id);
    tachy_frame_unref(&f);
    return err;
}

// Pulls one result; its id, or the code.
static int64_t get(tachy_stream *s)
{
    tachy_frame *f = NULL;
    const struct tachy_result *r = NULL;
    int err = tachy_stream_pull(s, &f, &r);
    if (err < 0)
        return err;
    CHECK_INT(f->id, r->frame_id);
    int64_t id = f->id;
    tachy_frame_unref(&f);
    return id;
}

// ---- Many streams ----

struct party {
    tachy_pipeline *p;
    tachy_task *task;
    int width, rounds, frames;
    bool early; // leaves before its end
};

struct guest {
    tachy_stream *s;
    int width, frames;
};

static void *guest_push(void *arg)
{
    struct guest *g = arg;
    for (int i = 0; i < g->frames; i++)
        if (put(g->s, i, g->width) < 0)
            break;
    tachy_stream_push(g->s, NULL);
    return NULL;
}

static void *party_main(void *arg)
{
    struct party *t = arg;
    for (int round = 0; round < t->rounds; round++) {
        struct guest g = {join(t->p, t->task, t->width, 0), t->width, t->frames};
        pthread_t thread;
        pthread_create(&thread, NULL, guest_push, &g);
        int n = 0;
        for (; n < g.frames && !(t->early && n == g.frames / 2); n++)
            CHECK_INT(get(g.s), n);
        if (t->early)
            pipeline_abort(g.s, TACHY_ERR_INTERRUPTED); // so that push returns
        else
            CHECK_INT(get(g.s), TACHY_ERR_EOF);
        pthread_join(thread, NULL);
        tachy_stream_leave(&g.s);
    }
    return NULL;
}

static void run_party(int workers, int delay_us)
{
    struct counting c = never, u = never;
    c.delay_us = u.delay_us = delay_us;
    u.unordered = true;
    tachy_task *own[6] = {0}, *shared = task_new(c);
    tachy_pipeline *p = open_pipeline(workers, NULL);
    struct party t[8];
    pthread_t thread[8];
    for (int i = 0; i < 8; i++) {
        if (i < 6)
            own[i] = task_new(i % 2 ? u : c);
        t[i] = (struct party){p, i < 6 ? own[i] : shared, i < 6 ? 16 + 8 * i : 64, 4, MANY, i == 5};
        pthread_create(&thread[i], NULL, party_main, &t[i]);
    }
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    struct tachy_summary sum = {0};
    tachy_pipeline_stats(p, &sum);
    CHECK(sum.steps[TEST_STEP_MODEL].calls >= 7 * 4 * MANY);
    for (int i = 0; i < 6; i++) // closed with the last stream that used it
        CHECK_INT(atomic_load(&conf(own[i])->workers), 0);
    CHECK_INT(atomic_load(&conf(shared)->workers), 0);
    tachy_pipeline_close(&p);
    for (int i = 0; i < 6; i++)
        test_task_free(own[i]);
    test_task_free(shared);
}

TEST(streams_join_and_leave_and_keep_their_order)
{
    run_party(1, 0);
    run_party(3, 0);
    run_party(8, 40);
}

TEST(a_stream_is_not_starved_by_another)
{
    tachy_task *a = task_new(never), *b = task_new(never);
    tachy_pipeline *p = open_pipeline(1, NULL);
    conf(a)->delay_us = 200;
    struct guest g = {join(p, a, 16, 0), 16, MANY};
    tachy_stream *s = join(p, b, 32, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, guest_push, &g);
    CHECK_INT(get(g.s), 0); // `a` keeps the queue full from here on
    for (int i = 0; i < 5; i++) {
        struct tachy_stream_stats st;
        CHECK_INT(put(s, i, 32), 0);
        CHECK_INT(get(s), i);
        tachy_stream_stats(g.s, &st);
        CHECK(st.pushed < MANY || st.in_flight > 0); // it came out before all of a's
        CHECK_INT(get(g.s), i + 1);
    }
    pipeline_abort(g.s, TACHY_ERR_INTERRUPTED);
    pthread_join(thread, NULL);
    tachy_pipeline_close(&p);
    test_task_free(a);
    test_task_free(b);
}

static void last_message(void *user, enum tachy_log_level level, const char *msg)
{
    if (level == TACHY_LOG_ERR)
        snprintf(user, 256, "%s", msg);
}

TEST(a_failure_ends_its_own_stream_only)
{
    char message[256] = "";
    struct tachy_log log = {.fn = last_message, .user = message};
    struct counting c = never;
    c.fail_at = 3;
    c.log = &log;
    tachy_task *bad = task_new(c), *good = task_new(never);
    tachy_pipeline *p = open_pipeline(2, &log);
    tachy_stream *b = NULL, *g = join(p, good, 16, 0);
    CHECK_INT(tachy_pipeline_join(
                  p, &b, tachy_stream_params(.task = bad, .input = input_of(16), .name = "cam 2")),
              0);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(put(b, i, 16), 0);
        CHECK_INT(put(g, i, 16), 0);
    }
    for (int i = 0; i < 3; i++)
        CHECK_INT(get(b), i);
    CHECK_INT(get(b), TACHY_ERR_EXTERNAL);
    CHECK_INT(get(b), TACHY_ERR_EXTERNAL);
    CHECK_INT(put(b, 4, 16), TACHY_ERR_INTERRUPTED);
    CHECK(strstr(message, "cam 2: frame 3: model failed: a wheel came off"));
    struct tachy_stream_stats st;
    tachy_stream_stats(b, &st);
    CHECK_INT(st.err, TACHY_ERR_EXTERNAL);
    tachy_stream_push(g, NULL);
    for (int i = 0; i < 4; i++)
        CHECK_INT(get(g), i);
    CHECK_INT(get(g), TACHY_ERR_EOF);
    tachy_stream_leave(&b);
    tachy_stream_leave(&g);
    tachy_pipeline_close(&p);
    test_task_free(bad);
    test_task_free(good);
}

TEST(a_task_serves_one_format)
{
    tachy_task *t = task_new(never);
    tachy_pipeline *p = open_pipeline(1, NULL);
    tachy_stream *a = join(p, t, 16, 0), *b = NULL, *c = join(p, t, 16, 0);
    CHECK_INT(
        tachy_pipeline_join(p, &b, tachy_stream_params(.task = t, .input = input_of(32))),
        TACHY_ERR_STATE);
    CHECK(!b);
    CHECK_INT(tachy_pipeline_join(p, &b, tachy_stream_params(.input = input_of(32))),
              TACHY_ERR_INVAL);
    tachy_stream_leave(&a);
    tachy_stream_leave(&c);
    b = join(p, t, 32, 0); // nobody uses the old one
    CHECK_INT(put(b, 0, 32), 0);
    CHECK_INT(get(b), 0);
    tachy_pipeline_close(&p); // with a stream in it
    CHECK_INT(atomic_load(&conf(t)->workers), 0);
    test_task_free(t);
}

// ---- Positions ----

enum { WINDOW = 24 };

static bool is_hole(int64_t n) { return n % 7 == 3 || (n >= 40 && n < 50); }

struct scatter {
    tachy_stream *s;
    int part, frames; // this thread pushes the positions of this parity, each group backwards
};

static void *scatter_main(void *arg)
{
    struct scatter *c = arg;
    for (int base = 0; base < c->frames; base += WINDOW / 2)
        for (int64_t n = base + WINDOW / 2 - 1; n >= base; n--) {
            if (n % 2 != c->part || n >= c->frames)
                continue;
            int err = is_hole(n) ? tachy_stream_push_at(c->s, NULL, n) : put_at(c->s, n);
            CHECK_INT(err, 0);
        }
    return NULL;
}

static void run_scatter(struct counting conf_, int workers)
{
    tachy_task *t = task_new(conf_);
    tachy_pipeline *p = open_pipeline(workers, NULL);
    struct scatter c[2];
    tachy_stream *s = join(p, t, 16, WINDOW);
    CHECK_INT(tachy_stream_window(s), WINDOW);
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) {
        c[i] = (struct scatter){s, i, MANY};
        pthread_create(&thread[i], NULL, scatter_main, &c[i]);
    }
    int64_t holes = 0;
    for (int64_t n = 0; n < MANY; n++) {
        holes += is_hole(n);
        if (!is_hole(n))
            CHECK_INT(get(s), n);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    tachy_stream_push(s, NULL);
    CHECK_INT(get(s), TACHY_ERR_EOF);
    struct tachy_stream_stats st;
    tachy_stream_stats(s, &st);
    CHECK_INT(st.holes, holes);
    CHECK_INT(st.pulled, MANY - holes);
    CHECK_INT(st.pushed, MANY);
    CHECK_INT(st.in_flight, 0);
    tachy_stream_leave(&s);
    tachy_pipeline_close(&p);
    test_task_free(t);
}

TEST(positions_come_out_in_order_from_any_order)
{
    for (int kind = 0; kind < 4; kind++) {
        struct counting c = never;
        c.unordered = kind & 1;
        c.drops_input = kind & 2;
        run_scatter(c, 1);
        run_scatter(c, 3);
        c.delay_us = 60;
        run_scatter(c, 8);
    }
}

TEST(a_position_is_pushed_once_and_missing_ones_are_holes)
{
    char message[256] = "";
    struct tachy_log log = {.fn = last_message, .user = message};
    tachy_task *t = task_new(never);
    tachy_pipeline *p = open_pipeline(2, &log);
    tachy_stream *s = join(p, t, 16, 16);
    CHECK_INT(put_at(s, 5), 0);
    CHECK_INT(put_at(s, 5), TACHY_ERR_INVAL);
    CHECK(strstr(message, "position 5 of a stream was pushed twice"));
    CHECK_INT(put_at(s, -1), TACHY_ERR_INVAL);
    CHECK_INT(put_at(s, 0), 0);
    CHECK_INT(get(s), 0);
    CHECK_INT(put_at(s, 0), TACHY_ERR_INVAL);
    CHECK_INT(tachy_stream_push_at(s, NULL, 9), 0);
    CHECK_INT(tachy_stream_push(s, NULL), 0);
    CHECK_INT(put_at(s, 1), TACHY_ERR_STATE);
    CHECK_INT(get(s), 5);
    CHECK_INT(get(s), TACHY_ERR_EOF);
    struct tachy_stream_stats st;
    tachy_stream_stats(s, &st);
    CHECK_INT(st.holes, 8);
    CHECK(st.ended);
    tachy_stream_leave(&s);
    tachy_pipeline_close(&p);
    test_task_free(t);
}

struct late {
    tachy_stream *s;
    int64_t seq;
    atomic_bool done;
};

static void *late_main(void *arg)
{
    struct late *l = arg;
    CHECK_INT(put_at(l->s, l->seq), 0);
    atomic_store(&l->done, true);
    return NULL;
}

TEST(push_waits_at_the_end_of_the_window)
{
    struct counting c = never;
    c.drops_input = true;
    c.item_bytes = 4096;
    tachy_task *t = task_new(c);
    tachy_pipeline *p = open_pipeline(2, NULL);
    tachy_stream *s = join(p, t, 16, 0);
    int64_t window = tachy_stream_window(s);
    CHECK_INT(window, 512); // bounded by its number: an item holds next to nothing
    for (int64_t n = 1; n < window; n++)
        CHECK_INT(put_at(s, n), 0); // more than the pictures that may be held at once
    struct late l = {.s = s, .seq = window};
    pthread_t thread;
    pthread_create(&thread, NULL, late_main, &l);
    usleep(20000);
    CHECK(!atomic_load(&l.done));
    CHECK_INT(put_at(s, 0), 0);
    CHECK_INT(get(s), 0);
    pthread_join(thread, NULL);
    tachy_stream_push(s, NULL);
    for (int64_t n = 1; n <= window; n++)
        CHECK_INT(get(s), n);
    CHECK_INT(get(s), TACHY_ERR_EOF);
    tachy_stream_leave(&s);
    conf(t)->item_bytes = (size_t)1 << 20;
    s = join(p, t, 16, 0);
    CHECK_INT(tachy_stream_window(s), 160); // of 160 MiB
    tachy_pipeline_close(&p);
    test_task_free(t);
}

// They rest in the GPU's memory; only those that are soon pulled are composited, into the host's.
TEST(frames_of_a_gpu_wait_as_they_are)
{
    enum { N = 2000 };
    struct counting c = never;
    c.unordered = true;
    tachy_task *t = task_new(c);
    tachy_pipeline *p = open_pipeline(2, NULL);
    struct tachy_video_info in = input_of(16);
    in.mem = TACHY_DEVICE;
    tachy_stream *s = NULL;
    CHECK_INT(tachy_pipeline_join(p, &s, tachy_stream_params(.task = t, .input = in)), 0);
    CHECK_INT(tachy_stream_window(s), 4096);
    for (int64_t n = N - 1; n > 0; n--)
        CHECK_INT(put_at(s, n), 0);
    while (atomic_load(&conf(t)->calls) < N - 1)
        usleep(1000);
    usleep(10000);
    CHECK(atomic_load(&conf(t)->composites) < 200);
    CHECK_INT(put_at(s, 0), 0);
    tachy_stream_push(s, NULL);
    for (int64_t n = 0; n < N; n++)
        CHECK_INT(get(s), n);
    CHECK_INT(get(s), TACHY_ERR_EOF);
    CHECK_INT(atomic_load(&conf(t)->composites), N);
    tachy_stream_leave(&s);
    tachy_pipeline_close(&p);
    test_task_free(t);
}

// ---- Control ----

TEST(pause_holds_the_workers)
{
    tachy_task *t = task_new(never), *u = task_new(never);
    tachy_pipeline *p = open_pipeline(2, NULL);
    tachy_stream *s = join(p, t, 16, 0), *v = join(p, u, 16, 0);
    CHECK_INT(put(s, 0, 16), 0);
    CHECK_INT(get(s), 0);
    tachy_pipeline_pause(p);
    tachy_pipeline_pause(p);
    for (int i = 1; i < 4; i++)
        CHECK_INT(put(s, i, 16), 0);
    CHECK_INT(put(v, 0, 16), 0);
    usleep(20000);
    CHECK_INT(atomic_load(&conf(t)->calls), 1);
    struct tachy_stream_stats st;
    tachy_stream_stats(s, &st);
    CHECK_INT(st.waiting, 3);
    CHECK_INT(st.in_flight, 3);
    CHECK_INT(pipeline_pull_timed(s, 5, NULL, NULL, NULL), TACHY_ERR_AGAIN);
    tachy_stream_leave(&v); // also now
    tachy_pipeline_resume(p);
    for (int i = 1; i < 4; i++)
        CHECK_INT(get(s), i);
    CHECK_INT(atomic_load(&conf(u)->calls), 0);
    tachy_pipeline_close(&p);
    test_task_free(t);
    test_task_free(u);
}

static void *pull_all(void *arg)
{
    tachy_stream *s = arg;
    int64_t n = 0, id;
    while ((id = get(s)) >= 0)
        CHECK_INT(id, n++);
    CHECK_INT(id, TACHY_ERR_EOF);
    return (void *)(uintptr_t)n;
}

TEST(drain_loses_nothing)
{
    tachy_task *t = task_new(never);
    tachy_pipeline *p = open_pipeline(2, NULL);
    conf(t)->delay_us = 300;
    tachy_stream *s = join(p, t, 16, 0), *v = join(p, t, 16, 0);
    tachy_pipeline_pause(p);
    for (int i = 0; i < 7; i++)
        CHECK_INT(put(s, i, 16), 0);
    CHECK_INT(tachy_pipeline_drain(p, 10), TACHY_ERR_AGAIN); // nobody pulls
    CHECK_INT(put(s, 7, 16), TACHY_ERR_STATE);
    pthread_t a, b;
    pthread_create(&a, NULL, pull_all, s);
    pthread_create(&b, NULL, pull_all, v);
    CHECK_INT(tachy_pipeline_drain(p, -1), TACHY_OK);
    void *n;
    pthread_join(a, &n);
    CHECK_INT((uintptr_t)n, 7);
    pthread_join(b, &n);
    CHECK_INT((uintptr_t)n, 0);
    tachy_stream_leave(&s);
    tachy_stream_leave(&v);
    CHECK_INT(tachy_pipeline_drain(p, 0), TACHY_OK); // no stream is left
    tachy_pipeline_close(&p);
    test_task_free(t);
}

static void *fill_main(void *arg)
{
    struct guest *g = arg;
    int i = 0, err;
    while ((err = put(g->s, i, 16)) == TACHY_OK)
        i++;
    CHECK_INT(err, TACHY_ERR_INTERRUPTED);
    return NULL;
}

TEST(stop_ends_every_wait)
{
    tachy_task *t = task_new(never);
    tachy_pipeline *p = open_pipeline(2, NULL);
    struct guest g = {join(p, t, 16, 0), 16, 0};
    tachy_stream *v = join(p, t, 16, 0);
    pthread_t push, stop;
    pthread_create(&push, NULL, fill_main, &g); // fills the window and waits
    usleep(10000);
    pthread_create(&stop, NULL, (void *(*)(void *))(void (*)(void))tachy_pipeline_stop, p);
    CHECK_INT(get(v), TACHY_ERR_INTERRUPTED); // nothing would ever come
    pthread_join(push, NULL);
    pthread_join(stop, NULL);
    CHECK_INT(get(g.s), TACHY_ERR_INTERRUPTED);
    tachy_stream *w = NULL;
    CHECK_INT(tachy_pipeline_join(p, &w, tachy_stream_params(.task = t, .input = input_of(16))),
              TACHY_ERR_STATE);
    tachy_stream_leave(&v);
    tachy_pipeline_close(&p);
    CHECK_INT(atomic_load(&conf(t)->workers), 0);
    test_task_free(t);
}

struct watch {
    tachy_pipeline *p;
    tachy_stream *s;
    atomic_bool stop;
    int reads;
};

static void *watch_main(void *arg)
{
    struct watch *w = arg;
    int64_t calls = 0, pulled = 0;
    while (!atomic_load(&w->stop)) {
        struct tachy_summary sum = {0};
        struct tachy_stream_stats st;
        tachy_pipeline_stats(w->p, &sum);
        tachy_stream_stats(w->s, &st);
        CHECK(sum.steps[TEST_STEP_MODEL].calls >= calls);
        CHECK(st.pulled >= pulled && st.pushed >= st.pulled && st.waiting >= 0);
        calls = sum.steps[TEST_STEP_MODEL].calls;
        pulled = st.pulled;
        w->reads++;
    }
    return NULL;
}

TEST(figures_can_be_read_meanwhile)
{
    tachy_task *t = task_new(never);
    tachy_pipeline *p = open_pipeline(3, NULL);
    struct guest g = {join(p, t, 16, 0), 16, 10 * MANY};
    struct watch w = {.p = p, .s = g.s};
    struct party other = {p, t, 16, 20, 5, false}; // streams come and go
    pthread_t push, watch, come;
    pthread_create(&watch, NULL, watch_main, &w);
    pthread_create(&push, NULL, guest_push, &g);
    pthread_create(&come, NULL, party_main, &other);
    for (int i = 0; i < g.frames; i++)
        CHECK_INT(get(g.s), i);
    pthread_join(push, NULL);
    pthread_join(come, NULL);
    atomic_store(&w.stop, true);
    pthread_join(watch, NULL);
    CHECK(w.reads > 0);
    struct tachy_summary sum = {0};
    tachy_pipeline_stats(p, &sum);
    CHECK_INT(sum.steps[TEST_STEP_MODEL].calls, 10 * MANY + 20 * 5);
    CHECK_INT(sum.steps[TEST_STEP_COMPOSITE].calls, 10 * MANY + 20 * 5);
    CHECK_INT(sum.workers, 3);
    tachy_stream_leave(&g.s);
    tachy_pipeline_close(&p);
    test_task_free(t);
}

static bool odd_only(void *user, struct tachy_item *item, bool writes)
{
    atomic_fetch_add((atomic_int *)user, 1);
    return writes || item->result.frame_id % 2;
}

TEST(a_policy_sheds_items)
{
    struct counting c = never;
    tachy_task *t = task_new(c);
    tachy_pipeline *p = open_pipeline(2, NULL);
    atomic_int asked = 0;
    struct pipeline_policy policy = {.user = &asked, .wanted = odd_only};
    tachy_stream *s = NULL;
    CHECK_INT(pipeline_join(p, &s, tachy_stream_params(.task = t, .input = input_of(16)), &policy,
                            true),
              0);
    for (int i = 0; i < 8; i++)
        CHECK_INT(put(s, i, 16), 0);
    tachy_stream_push(s, NULL);
    for (int i = 1; i < 8; i += 2)
        CHECK_INT(get(s), i);
    CHECK_INT(get(s), TACHY_ERR_EOF);
    CHECK_INT(atomic_load(&asked), 8 + 4);
    struct tachy_step_stats steps[TACHY_MAX_STEPS] = {0};
    struct tachy_prof *alone = tachy_prof_new(p->steps);
    pipeline_merge_stream(s, alone);
    tachy_prof_read(alone, steps);
    CHECK_INT(steps[TEST_STEP_MODEL].calls, 4);
    tachy_aligned_free(alone);
    tachy_stream_leave(&s);
    tachy_pipeline_close(&p);
    test_task_free(t);
}

TEST(an_idle_pipeline_takes_no_time)
{
    tachy_task *t = task_new(never);
    tachy_pipeline *p = open_pipeline(4, NULL);
    struct guest g = {join(p, t, 16, 0), 16, 200};
    pthread_t push;
    pthread_create(&push, NULL, guest_push, &g);
    for (int i = 0; i < g.frames; i++)
        CHECK_INT(get(g.s), i);
    pthread_join(push, NULL);
    uint64_t took = UINT64_MAX;
    for (int i = 0; i < 20 && took >= 2000000; i++) { // workers may be late in going to sleep
        uint64_t cpu = tachy_process_cpu_ns();
        usleep(300000);
        took = tachy_process_cpu_ns() - cpu;
    }
    CHECK(took < 2000000);
    tachy_stream_leave(&g.s);
    tachy_pipeline_close(&p);
    test_task_free(t);
}

TEST_MAIN(TEST_CASE(streams_join_and_leave_and_keep_their_order),
          TEST_CASE(a_stream_is_not_starved_by_another),
          TEST_CASE(a_failure_ends_its_own_stream_only), TEST_CASE(a_task_serves_one_format),
          TEST_CASE(positions_come_out_in_order_from_any_order),
          TEST_CASE(a_position_is_pushed_once_and_missing_ones_are_holes),
          TEST_CASE(push_waits_at_the_end_of_the_window), TEST_CASE(frames_of_a_gpu_wait_as_they_are), TEST_CASE(pause_holds_the_workers),
          TEST_CASE(drain_loses_nothing), TEST_CASE(stop_ends_every_wait),
          TEST_CASE(figures_can_be_read_meanwhile), TEST_CASE(a_policy_sheds_items),
          TEST_CASE(an_idle_pipeline_takes_no_time))
