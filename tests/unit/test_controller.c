#include "test.h"

#include "pipeline/controller.h"

#include <math.h>

// The controller of mode live on a simulated clock: an hour of 60 frames per second takes a moment.

#define S 1000000000ull
enum { FPS = 60, HOUR = 3600 };
static const unsigned every = (1u << TACHY_DEGRADE_COUNT) - 1;

// A machine that needs load * factor[level] of a frame's time. The excess misses its deadline, evenly spread.
struct machine {
    struct tachy_controller c;
    uint64_t now;
    double debt;
    int changes;
    uint64_t last_change, shortest_up, shortest_down; // from the change before
    int last_level;
    double level_seconds;
};

static const double factor[TACHY_DEGRADE_COUNT + 1] = {1, 0.8, 0.45, 0.3, 0.25};

static void machine_open(struct machine *m, unsigned steps)
{
    memset(m, 0, sizeof(*m));
    m->now = S;
    m->shortest_up = m->shortest_down = UINT64_MAX;
    tachy_controller_open(&m->c, &(struct tachy_controller_params){.steps = steps}, m->now);
    m->last_change = m->now;
}

static void frame(struct machine *m, double load)
{
    m->now += S / FPS;
    double need = load * factor[m->c.level];
    m->debt += need > 1 ? 1 - 1 / need : 0;
    bool missed = m->debt >= 1;
    m->debt -= missed;
    m->level_seconds += (double)m->c.level / FPS;
    if (!tachy_controller_frame(&m->c, m->now, missed))
        return;
    CHECK(abs(m->c.level - m->last_level) == 1);
    uint64_t since = m->now - m->last_change, *least =
        m->c.level < m->last_level ? &m->shortest_up : &m->shortest_down;
    *least = TACHY_MIN(*least, since);
    m->changes++;
    m->last_change = m->now;
    m->last_level = m->c.level;
}

static void run(struct machine *m, double load, int seconds)
{
    for (int i = 0; i < seconds * FPS; i++)
        frame(m, load);
}

TEST(light_load_changes_nothing)
{
    struct machine m;
    machine_open(&m, every);
    run(&m, 0.9, HOUR);
    CHECK_INT(m.changes, 0);
    CHECK_INT(m.c.level, 0);
}

TEST(goes_down_as_far_as_needed)
{
    struct machine m;
    machine_open(&m, every);
    run(&m, 1.2, 2);
    CHECK_INT(m.c.level, 1);
    run(&m, 2.0, 2);
    CHECK_INT(m.c.level, 2);
    run(&m, 100, 3);
    CHECK_INT(m.c.level, TACHY_DEGRADE_COUNT);
    CHECK_INT(tachy_controller_bits(&m.c), every);
}

// One frame in `n` of these many per second misses.
static int level_after(int seconds, int fps, int n)
{
    struct machine m;
    machine_open(&m, every);
    for (int i = 1; i <= seconds * fps; i++)
        tachy_controller_frame(&m.c, m.now += S / (unsigned)fps, i % n == 0);
    return m.c.level;
}

// At 10 fps a window has three frames, so bad windows need not be consecutive.
TEST(misses_that_are_spread_count)
{
    for (int n = 1; n <= 7; n++)
        CHECK(level_after(10, 10, n) > 0);
    CHECK(level_after(10, 60, 40) > 0);
    CHECK_INT(level_after(100, 60, 100), 0);
    CHECK_INT(level_after(100, 1000, 60), 0);
}

TEST(takes_declared_steps_only)
{
    struct machine m;
    machine_open(&m, 1u << TACHY_DEGRADE_ALTERNATE | 1u << TACHY_DEGRADE_SMALL_BATCH);
    run(&m, 100, 10);
    CHECK_INT(m.c.level, 2);
    CHECK(!tachy_controller_has(&m.c, TACHY_DEGRADE_SIMILAR));
    CHECK(tachy_controller_has(&m.c, TACHY_DEGRADE_ALTERNATE));
    CHECK(tachy_controller_has(&m.c, TACHY_DEGRADE_SMALL_BATCH));
    machine_open(&m, 0);
    run(&m, 100, 10);
    CHECK_INT(m.c.level, 0);
}

// A load that the step above does not bear would make a controller without memory swing.
TEST(never_swings_faster_than_it_declares)
{
    for (double load = 0.5; load < 6; load += 0.13) {
        struct machine m;
        machine_open(&m, every);
        run(&m, load, HOUR);
        CHECK(m.shortest_up >= 3 * S);
        CHECK(m.shortest_down >= S / 2);
        // Tries to come back are 3, 6, 12, ... and then 60 s apart; each is two changes.
        CHECK(m.changes <= 2 * (HOUR / 60 + 10));
    }
}

TEST(random_loads_keep_the_hold_time)
{
    srand(7);
    struct machine m;
    machine_open(&m, every);
    double load = 1;
    for (int i = 0; i < HOUR * FPS; i++) {
        if (i % 30 == 0) {
            load *= exp((rand() % 2001 - 1000) * 4e-4);
            load = TACHY_CLAMP(load, 0.1, 20.0);
        }
        frame(&m, load);
    }
    CHECK(m.changes > 20);
    CHECK(m.shortest_up >= 3 * S);
    CHECK(m.shortest_down >= S / 2);
}

TEST(returns_to_the_top_when_load_falls)
{
    for (double load = 1.1; load < 200; load *= 1.7) {
        struct machine m;
        machine_open(&m, every);
        run(&m, load, 600);
        CHECK(m.c.level > 0);
        // No step is held for longer than the longest hold time.
        run(&m, 0.7, 60 * TACHY_DEGRADE_COUNT + 10);
        CHECK_INT(m.c.level, 0);
        int changes = m.changes;
        run(&m, 0.7, 600);
        CHECK_INT(m.changes, changes);
        // Trust is back as well: the next short load is forgotten soon.
        run(&m, 1.1, 2);
        CHECK_INT(m.c.level, 1);
        run(&m, 0.7, 4);
        CHECK_INT(m.c.level, 0);
    }
}

TEST(more_load_never_means_less_ease)
{
    double before = -1;
    for (double load = 0.5; load < 8; load *= 1.15) {
        struct machine m;
        machine_open(&m, every);
        run(&m, load, HOUR);
        double mean = m.level_seconds / HOUR;
        CHECK(mean >= before - 0.02); // tries to come back take a share of the hour
        before = mean;
    }
    CHECK(before > 3);
}

TEST(counts_how_often_and_how_long)
{
    struct machine m;
    machine_open(&m, every);
    run(&m, 1.2, 100);
    struct tachy_degraded e[TACHY_DEGRADE_COUNT];
    tachy_controller_stats(&m.c, m.now, e);
    double sum = 0;
    for (int i = 0; i < TACHY_DEGRADE_COUNT; i++)
        sum += e[i].seconds;
    CHECK(fabs(sum - m.level_seconds) < 0.05);
    CHECK_INT(e[TACHY_DEGRADE_SIMILAR].times, (m.changes + m.c.level) / 2);
    CHECK_INT(e[TACHY_DEGRADE_ALTERNATE].times, 0);
}

static char logged[4096];
static void keep_log(void *user, enum tachy_log_level level, const char *text)
{
    strncat(logged, text, sizeof(logged) - strlen(logged) - 2);
    strcat(logged, "\n");
}

TEST(each_step_is_logged)
{
    struct tachy_log log = {.fn = keep_log};
    struct machine m;
    machine_open(&m, every);
    m.c.p.log = &log;
    m.c.p.deadline_ns = 60000000;
    run(&m, 1.2, 2);
    CHECK(strstr(logged, " % of the frames missed 60 ms; from now on"));
    CHECK(strstr(logged, "takes over its result (step 1 of 4)"));
    run(&m, 0.5, 4);
    CHECK(strstr(logged, "the model runs on similar frames again (step 0 of 4)"));
    int lines = 0;
    for (const char *p = logged; (p = strchr(p, '\n')); p++)
        lines++;
    CHECK_INT(lines, m.changes);
}

// A source that stops and goes on: the time in between is no evidence of anything.
TEST(a_pause_is_no_evidence)
{
    struct machine m;
    machine_open(&m, every);
    run(&m, 1.2, 2);
    CHECK_INT(m.c.level, 1);
    m.now += 1000 * S;
    frame(&m, 0.5);
    CHECK_INT(m.c.level, 1);
    run(&m, 0.5, 4);
    CHECK_INT(m.c.level, 0);
    m.now += 1000 * S;
    for (int i = 0; i < 10; i++)
        tachy_controller_frame(&m.c, m.now += S / FPS, true);
    CHECK_INT(m.c.level, 0);
}

TEST_MAIN(TEST_CASE(light_load_changes_nothing), TEST_CASE(goes_down_as_far_as_needed), TEST_CASE(misses_that_are_spread_count),
          TEST_CASE(takes_declared_steps_only), TEST_CASE(never_swings_faster_than_it_declares),
          TEST_CASE(random_loads_keep_the_hold_time), TEST_CASE(returns_to_the_top_when_load_falls),
          TEST_CASE(more_load_never_means_less_ease), TEST_CASE(counts_how_often_and_how_long),
          TEST_CASE(each_step_is_logged), TEST_CASE(a_pause_is_no_evidence))
