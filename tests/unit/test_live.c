#include "test.h"

#include "batcher/payoff.h"
#include "pipeline/live.h"
#include "steps.h"

#include <malloc.h>

// Decisions of mode live and frame_skip, without a pipeline: shedding, signatures, and a simulated hour of a live run.

#define MS 1000000ull
#define S (1000 * MS)

static int copy(tachy_task *t, struct tachy_item *to, const struct tachy_item *from, int region) { return TACHY_OK; }
static const struct test_steps reuses = {.name = "reuses", .copy = copy};
static const struct test_steps plain = {.name = "plain"};

static tachy_frame *gray(int width, int height, int value)
{
    tachy_frame *f;
    CHECK_INT(tachy_frame_new(&f, &(struct tachy_frame_params){.format = TACHY_PIX_GRAY8,
                                                               .width = width, .height = height}),
              0);
    for (int y = 0; y < height; y++)
        memset(tachy_frame_writable(f, 0) + y * f->stride[0], value, (size_t)width);
    return f;
}

static void paint(tachy_frame *f, int x, int y, int w, int h, int value)
{
    for (int j = y; j < y + h; j++)
        memset(tachy_frame_writable(f, 0) + j * f->stride[0] + x, value, (size_t)w);
}

TEST(what_is_late_is_shed)
{
    struct tachy_shed s;
    enum tachy_shed_reason r;
    tachy_shed_open(&s, 60 * MS);
    uint64_t deadline = tachy_shed_deadline(&s, S);
    CHECK_INT(deadline, S + 60 * MS);
    CHECK(!tachy_shed_due(&s, TACHY_SHED_INFER, deadline, deadline - 1, true, &r));
    CHECK(tachy_shed_due(&s, TACHY_SHED_INFER, deadline, deadline, true, &r));
    CHECK_INT(r, TACHY_SHED_LATE);
    tachy_shed_work(&s, TACHY_SHED_INFER, 25 * MS, S);
    CHECK(!tachy_shed_due(&s, TACHY_SHED_INFER, deadline, deadline - 26 * MS, true, &r));
    CHECK(tachy_shed_due(&s, TACHY_SHED_INFER, deadline, deadline - 24 * MS, true, &r));
    CHECK_INT(r, TACHY_SHED_HOPELESS);
    CHECK(!tachy_shed_due(&s, TACHY_SHED_INFER, deadline, deadline - 24 * MS, false, &r));
    CHECK(!tachy_shed_due(&s, TACHY_SHED_SINK, deadline, deadline - 24 * MS, true, &r));
    CHECK(tachy_shed_left(&s, TACHY_SHED_INFER, deadline, deadline - 26 * MS) == (int64_t)MS); // for others of its batch
    CHECK(tachy_shed_left(&s, TACHY_SHED_INFER, deadline, deadline - 24 * MS) == -(int64_t)MS);
    CHECK(tachy_shed_left(&s, TACHY_SHED_INFER, TACHY_NO_DEADLINE, S) == INT64_MAX);
    tachy_shed_open(&s, 0);
    CHECK(tachy_shed_deadline(&s, S) == TACHY_NO_DEADLINE);
    CHECK(!tachy_shed_due(&s, TACHY_SHED_INFER, TACHY_NO_DEADLINE, UINT64_MAX, true, &r));
}

// One slow time must not shed all frames for good: nothing would renew the mean.
TEST(a_mean_is_forgotten)
{
    struct tachy_shed s;
    enum tachy_shed_reason r;
    tachy_shed_open(&s, 60 * MS);
    tachy_shed_work(&s, TACHY_SHED_INFER, 10 * S, S);
    int64_t shed = 0;
    uint64_t now = S;
    for (; shed < 1000000; shed++, now += S / 60)
        if (!tachy_shed_due(&s, TACHY_SHED_INFER, now + 60 * MS, now, true, &r))
            break;
    CHECK(shed > 60 && now < 4 * S);
}

static bool like(struct tachy_frame_skip *s, tachy_frame *f, bool anew, unsigned *eyes)
{
    unsigned may = 1u << TACHY_DEGRADE_SIMILAR;
    unsigned reuse = tachy_frame_skip_look(s, f, may, anew);
    tachy_frame_skip_take(s, may, reuse);
    if (eyes)
        *eyes = reuse;
    return reuse == (1u << s->eyes) - 1;
}

// Arrivals at `fps` that jitter by `jitter_ms` to both sides, for 20 s: how many are taken.
static int taken_of(double target, double fps, double jitter_ms)
{
    struct tachy_live l;
    tachy_task *t = test_task(&plain, NULL, 0);
    tachy_live_open(&l, &(struct tachy_live_params){.mode = TACHY_RUN_LIVE, .target_fps = target}, t,
                    TACHY_STEREO_MONO, 0, NULL, S);
    test_task_free(t); // it was only looked at
    struct tachy_live_stats stats;
    srand(3);
    int n = (int)(20 * fps);
    tachy_frame *f = gray(8, 8, 1);
    for (int i = 0; i < n; i++) {
        double ms = 1000 + i * 1000 / fps + jitter_ms * (2.0 * rand() / RAND_MAX - 1);
        tachy_live_arrive(&l, f, 0, false, (uint64_t)(ms * MS));
    }
    tachy_live_read(&l, 30 * S, &stats);
    CHECK_INT(stats.shed[TACHY_SHED_INFER][TACHY_SHED_TARGET_FPS] + stats.shed[TACHY_SHED_INFER][TACHY_SHED_REPLACED] + 1, n);
    tachy_live_close(&l);
    tachy_frame_unref(&f);
    return n - (int)stats.shed[TACHY_SHED_INFER][TACHY_SHED_TARGET_FPS];
}

TEST(target_fps_bounds_the_mean)
{
    CHECK_INT(taken_of(0, 60, 0), 1200);
    CHECK(abs(taken_of(30, 60, 0) - 600) <= 1);
    CHECK(abs(taken_of(30, 60, 4) - 600) <= 6);
    CHECK(abs(taken_of(25, 60, 4) - 500) <= 5);
    CHECK_INT(taken_of(30, 25, 0), 500); // never that many
    CHECK(taken_of(30, 29.97, 5) >= 590);
}

TEST(like_the_last_one_that_was_inferred)
{
    struct tachy_frame_skip s;
    tachy_frame_skip_open(&s, 1, TACHY_STEREO_MONO, 0.02f, NULL);
    tachy_frame *f = gray(640, 360, 100);
    CHECK(!like(&s, f, false, NULL)); // there is none before it
    CHECK(like(&s, f, false, NULL));
    paint(f, 0, 0, 640, 360, 105); // 5 / 255 is just below
    CHECK(like(&s, f, false, NULL));
    paint(f, 0, 0, 640, 360, 106);
    CHECK(!like(&s, f, false, NULL));
    // A slow drift adds up: each is compared to what was inferred, not to the one before it.
    int inferred = 0;
    for (int v = 106; v < 206; v++) {
        paint(f, 0, 0, 640, 360, v);
        inferred += !like(&s, f, false, NULL);
    }
    CHECK_INT(inferred, 16); // every 6th
    CHECK_INT(s.similar, 2 + 100 - 16);
    tachy_frame_unref(&f);
}

TEST(small_movement_is_seen)
{
    struct tachy_frame_skip s;
    tachy_frame_skip_open(&s, 1, TACHY_STEREO_MONO, 0.02f, NULL);
    tachy_frame *f = gray(640, 360, 100);
    like(&s, f, false, NULL);
    paint(f, 600, 340, 10, 10, 150); // 0.04 % of the picture
    CHECK(!like(&s, f, false, NULL));
    // Noise is not: each pixel by 8 up or down
    paint(f, 0, 0, 640, 360, 100);
    like(&s, f, false, NULL);
    srand(1);
    for (int y = 0; y < 360; y++)
        for (int x = 0; x < 640; x++)
            tachy_frame_writable(f, 0)[y * f->stride[0] + x] = rand() & 1 ? 92 : 108;
    CHECK(like(&s, f, false, NULL));
    tachy_frame_unref(&f);
}

TEST(threshold_zero_takes_equal_frames_only)
{
    struct tachy_frame_skip s;
    tachy_frame_skip_open(&s, 1, TACHY_STEREO_MONO, 0, NULL);
    tachy_frame *f = gray(640, 360, 100);
    like(&s, f, false, NULL);
    CHECK(like(&s, f, false, NULL));
    paint(f, 320, 180, 1, 1, 255);
    CHECK(!like(&s, f, false, NULL));
    tachy_frame_unref(&f);
}

TEST(never_across_a_discontinuity_or_another_format)
{
    struct tachy_frame_skip s;
    tachy_frame_skip_open(&s, 1, TACHY_STEREO_MONO, 1, NULL);
    tachy_frame *f = gray(640, 360, 100), *g = gray(320, 180, 100);
    like(&s, f, false, NULL);
    CHECK(like(&s, f, false, NULL));
    CHECK(!like(&s, f, true, NULL));
    CHECK(like(&s, f, false, NULL));
    tachy_frame_skip_open(&s, 1, TACHY_STEREO_MONO, 0.9f, NULL);
    like(&s, f, false, NULL);
    CHECK(!like(&s, g, false, NULL));
    tachy_frame_unref(&f);
    tachy_frame_unref(&g);
}

TEST(each_eye_on_its_own)
{
    static const enum tachy_stereo layouts[] = {TACHY_STEREO_SBS, TACHY_STEREO_TB};
    for (int i = 0; i < 2; i++) {
        struct tachy_frame_skip s;
        unsigned eyes;
        tachy_frame_skip_open(&s, 2, layouts[i], 0.02f, NULL);
        tachy_frame *f = gray(640, 360, 100);
        like(&s, f, false, NULL);
        paint(f, i ? 0 : 330, i ? 190 : 0, 100, 100, 200); // the right eye
        like(&s, f, false, &eyes);
        CHECK_INT(eyes, 1);
        paint(f, 10, 10, 100, 100, 200); // the left eye
        like(&s, f, false, &eyes);
        CHECK_INT(eyes, 2);
        CHECK_INT(s.similar, 2);
        tachy_frame_unref(&f);
    }
}

TEST(every_other_frame)
{
    struct tachy_frame_skip s;
    unsigned may = 1u << TACHY_DEGRADE_ALTERNATE, taken = 0;
    tachy_frame_skip_open(&s, 1, TACHY_STEREO_MONO, 0, NULL);
    tachy_frame *f = gray(64, 36, 0);
    for (int i = 0; i < 100; i++) {
        paint(f, 0, 0, 64, 36, i % 50);
        unsigned reuse = tachy_frame_skip_look(&s, f, may, i == 50);
        tachy_frame_skip_take(&s, may, reuse);
        taken += reuse;
        CHECK(i != 50 || !reuse);
    }
    CHECK(taken >= 49 && taken <= 50);
    // A cut is not bridged.
    paint(f, 0, 0, 64, 36, 0);
    tachy_frame_skip_take(&s, may, tachy_frame_skip_look(&s, f, may, true));
    paint(f, 0, 0, 64, 36, 255);
    CHECK_INT(tachy_frame_skip_look(&s, f, may, false), 0);
    tachy_frame_unref(&f);
}

// ---- A simulated pipeline: some workers, a queue for tickets, a sink ----

enum { WORKERS_MAX = 8 };

struct sim {
    struct tachy_live live;
    int workers, room; // items that may be in it
    uint64_t work, reused, write; // ns
    uint64_t now, sink_free;
    struct busy {
        bool on;
        uint64_t until;
        struct tachy_item item;
    } worker[WORKERS_MAX];
    struct tachy_item queued;
    bool has_queued;
    int in_flight, most_in_flight;
    int64_t next_id, read, written, last_id, breaks;
    uint64_t worst, worst_of_last_minute;
    bool break_seen;
};

static uint64_t next_end(const struct sim *m)
{
    uint64_t t = UINT64_MAX;
    for (int i = 0; i < m->workers; i++)
        if (m->worker[i].on)
            t = TACHY_MIN(t, m->worker[i].until);
    return t;
}

static void send(struct sim *m, tachy_frame *f)
{
    CHECK(!m->has_queued);
    m->queued = (struct tachy_item){.in = tachy_frame_ref(f)};
    m->has_queued = true;
    m->in_flight++;
    m->most_in_flight = TACHY_MAX(m->most_in_flight, m->in_flight);
}

static void kick(struct sim *m)
{
    tachy_frame *f;
    if (tachy_live_kick(&m->live, m->in_flight < m->room, &f))
        send(m, f);
    tachy_frame_unref(&f);
}

static void start_work(struct sim *m)
{
    for (int i = 0; i < m->workers && m->has_queued; i++) {
        struct busy *w = &m->worker[i];
        if (w->on)
            continue;
        m->has_queued = false;
        w->item = m->queued;
        w->on = tachy_live_take(&m->live, &w->item, m->now);
        if (w->on) {
            w->until = m->now + (w->item.due.inferred ? m->work : m->reused);
            CHECK(w->item.in->id > m->last_id || w->item.in->id == 0);
            m->breaks += w->item.anew;
        } else {
            tachy_frame_unref(&w->item.in);
            m->in_flight--;
        }
        kick(m);
    }
}

static void finish(struct sim *m, struct busy *w)
{
    struct tachy_live *l = &m->live;
    uint64_t start = TACHY_MAX(m->now, m->sink_free);
    if (tachy_live_goes_on(l, TACHY_SHED_SINK, &w->item.due, start)) {
        m->sink_free = start + m->write;
        tachy_live_written(l, &w->item.due, start, m->sink_free);
        m->written++;
        uint64_t latency = m->sink_free - w->item.pushed;
        m->worst = TACHY_MAX(m->worst, latency);
        m->worst_of_last_minute = TACHY_MAX(m->worst_of_last_minute, latency);
    }
    m->last_id = TACHY_MAX(m->last_id, w->item.in->id);
    tachy_frame_unref(&w->item.in);
    w->on = false;
    m->in_flight--;
    kick(m);
    start_work(m);
}

static void until(struct sim *m, uint64_t time)
{
    for (uint64_t t = next_end(m); t <= time; t = next_end(m)) {
        m->now = t;
        for (int i = 0; i < m->workers; i++)
            if (m->worker[i].on && m->worker[i].until == t)
                finish(m, &m->worker[i]);
    }
    m->now = time;
}

static void arrive(struct sim *m, bool anew, int value)
{
    tachy_frame *f = gray(32, 18, value);
    f->id = m->next_id++;
    f->discontinuity = anew;
    m->read++;
    if (tachy_live_arrive(&m->live, f, m->now, m->in_flight < m->room, m->now))
        send(m, f);
    start_work(m);
    tachy_frame_unref(&f);
}

static int64_t shed_of(struct sim *m)
{
    struct tachy_live_stats s;
    tachy_live_read(&m->live, m->now, &s);
    return tachy_live_shed(&s);
}

static void sim_open(struct sim *m, const struct test_steps *ops, double max_latency_ms,
                     int workers)
{
    memset(m, 0, sizeof(*m));
    tachy_task *t = test_task(ops, NULL, 0);
    struct tachy_live_params p = {.mode = TACHY_RUN_LIVE, .max_latency_ms = max_latency_ms};
    m->workers = workers;
    m->room = workers + 2;
    m->now = S;
    m->last_id = -1;
    m->reused = MS;
    tachy_live_open(&m->live, &p, t, TACHY_STEREO_MONO, 0, NULL, m->now);
    test_task_free(t);
}

static void sim_close(struct sim *m)
{
    until(m, m->now + 100 * S);
    CHECK(tachy_live_idle(&m->live));
    CHECK_INT(m->in_flight, 0);
    CHECK_INT(m->read, m->written + shed_of(m));
    tachy_live_close(&m->live);
}

// The row of bench/pipeline on a simulated clock, for an hour.
TEST(an_hour_of_60_frames_a_second)
{
    struct sim m;
    sim_open(&m, &plain, 60, 1);
    m.work = 25 * MS;
    size_t memory = 0;
    uint64_t first_minute = 0;
    for (int i = 0; i < 3600 * 60; i++) {
        until(&m, S + (uint64_t)i * S / 60);
        arrive(&m, false, i & 255);
        CHECK_INT(m.read, m.written + shed_of(&m) + (m.has_queued || m.live.waiting.frame) +
                              m.worker[0].on);
        if (i == 3600) {
            first_minute = m.worst;
            memory = mallinfo2().uordblks;
        }
        if (i % 3600 == 0)
            m.worst_of_last_minute = 0;
    }
    CHECK(m.worst <= 60 * MS);
    CHECK(m.worst_of_last_minute <= first_minute + MS);
    CHECK(mallinfo2().uordblks <= memory + 4096);
    CHECK(m.most_in_flight <= 3);
    CHECK(m.written >= 39 * 3600);
    struct tachy_live_stats s;
    tachy_live_read(&m.live, m.now, &s);
    CHECK_INT(s.shed[TACHY_SHED_INFER][TACHY_SHED_REPLACED], shed_of(&m));
    CHECK_INT(s.late, 0);
    sim_close(&m);
}

// With a task that can take over results, the controller makes room for nearly all of them.
TEST(steps_down_deliver_what_shedding_would_not)
{
    struct sim m;
    sim_open(&m, &reuses, 60, 1);
    m.work = 25 * MS;
    for (int i = 0; i < 600 * 60; i++) {
        until(&m, S + (uint64_t)i * S / 60);
        arrive(&m, false, i * 10 & 255); // never alike
    }
    struct tachy_live_stats s;
    tachy_live_read(&m.live, m.now, &s);
    CHECK(m.worst <= 60 * MS);
    CHECK(m.written >= 58 * 600);
    CHECK(s.alternate > 290 * 60);
    CHECK(s.degraded[TACHY_DEGRADE_ALTERNATE].times >= 1);
    CHECK(s.degraded[TACHY_DEGRADE_ALTERNATE].seconds > 500);
    sim_close(&m);
}

TEST(any_speed_keeps_the_deadline_and_the_count)
{
    srand(3);
    for (int round = 0; round < 60; round++) {
        struct sim m;
        int workers = 1 + rand() % WORKERS_MAX;
        double deadline = round % 5 ? 20 + rand() % 200 : 0;
        sim_open(&m, round & 1 ? &plain : &reuses, deadline, workers);
        for (int i = 0; i < 3000; i++) {
            if (i % 100 == 0) {
                m.work = (1 + (uint64_t)rand() % 150) * MS;
                m.write = (uint64_t)rand() % 20 * MS;
            }
            until(&m, m.now + (uint64_t)(rand() % 40) * MS);
            arrive(&m, rand() % 50 == 0, rand() & 255);
            CHECK(m.in_flight <= m.room);
        }
        struct tachy_live_stats s;
        tachy_live_read(&m.live, m.now, &s);
        CHECK(s.late <= m.written / 20 + 5); // the time of a write is known after it only
        CHECK(m.written > 0);
        sim_close(&m);
    }
}

// A new beginning that was shed is the next frame's.
TEST(a_discontinuity_outlives_its_frame)
{
    struct sim m;
    sim_open(&m, &plain, 60, 1);
    m.work = 40 * MS;
    for (int i = 0; i < 1000; i++) {
        until(&m, S + (uint64_t)i * S / 60);
        arrive(&m, i % 100 == 50, 50);
    }
    until(&m, m.now + S);
    CHECK_INT(m.breaks, 10);
    CHECK(shed_of(&m) > 100);
    sim_close(&m);
}

// Nobody takes: frames replace each other, memory stays.
TEST(a_stuck_pipeline_holds_one_frame)
{
    struct sim m;
    sim_open(&m, &plain, 0, 1);
    m.work = 1000 * S;
    size_t memory = 0;
    for (int i = 0; i < 10000; i++) {
        until(&m, S + (uint64_t)i * S / 60);
        arrive(&m, false, 0);
        if (i == 10)
            memory = mallinfo2().uordblks;
    }
    CHECK(mallinfo2().uordblks <= memory + 4096);
    CHECK_INT(m.written, 0);
    CHECK_INT(shed_of(&m), 10000 - 2);
    until(&m, m.now + 3000 * S);
    CHECK_INT(m.written, 2);
    CHECK_INT(m.last_id, 9999); // the newest
    sim_close(&m);
}

// Batches of live pictures: tried, measured, and left where they do not pay.
TEST(batches_have_to_pay)
{
    struct tachy_payoff p = {0};
    for (uint64_t ns = 103; ns >= 40; ns--) { // the first ones are cold
        CHECK(tachy_payoff_alone(&p, 4));
        tachy_payoff_add(&p, false, ns);
    }
    for (uint64_t ns = 400; ns > 0; ns -= 100) {
        CHECK(tachy_payoff_alone(&p, 1) && !tachy_payoff_alone(&p, 2) && !tachy_payoff_known(&p)); // now together
        tachy_payoff_add(&p, true, ns);
    }
    CHECK(tachy_payoff_known(&p) && !tachy_payoff_alone(&p, 3) && tachy_payoff_alone(&p, 2)); // 100 against 120 and 80
    tachy_payoff_add(&p, false, 20); // least times count
    CHECK(tachy_payoff_alone(&p, 4) && !tachy_payoff_alone(&p, 5));
}

TEST_MAIN(TEST_CASE(what_is_late_is_shed), TEST_CASE(batches_have_to_pay), TEST_CASE(a_mean_is_forgotten),
          TEST_CASE(target_fps_bounds_the_mean), TEST_CASE(like_the_last_one_that_was_inferred), TEST_CASE(small_movement_is_seen),
          TEST_CASE(threshold_zero_takes_equal_frames_only),
          TEST_CASE(never_across_a_discontinuity_or_another_format), TEST_CASE(each_eye_on_its_own),
          TEST_CASE(every_other_frame), TEST_CASE(an_hour_of_60_frames_a_second),
          TEST_CASE(steps_down_deliver_what_shedding_would_not),
          TEST_CASE(any_speed_keeps_the_deadline_and_the_count),
          TEST_CASE(a_discontinuity_outlives_its_frame), TEST_CASE(a_stuck_pipeline_holds_one_frame))
