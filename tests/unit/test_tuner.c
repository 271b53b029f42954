#include "test.h"

#include "pipeline/tuner.h"

// The search for workers on machines that are a formula of the number of workers, in a time that is counted.

struct machine {
    int cores;
    double per_worker, loss; // frames per second of one worker; share that each worker beyond the cores costs
    double noise;            // of a window's rate
};

static uint64_t rng = 5;

static double rate_of(const struct machine *m, int n)
{
    int busy = n < m->cores ? n : m->cores, beyond = n - busy;
    double kept = 1 - m->loss * beyond / m->cores;
    return m->per_worker * busy * (kept > 0.1 ? kept : 0.1);
}

// Lets a search run; returns the frames that came out in the last second of `seconds`, as a share of the best that the machine gives.
static double play(struct tachy_tuner *t, const struct machine *m, int *n, uint64_t *now, double *frames, double seconds)
{
    uint64_t end = *now + (uint64_t)(seconds * 1e9);
    double best = 0, last = 0;
    for (int k = 1; k <= t->most; k++)
        best = rate_of(m, k) > best ? rate_of(m, k) : best;
    while (*now < end) {
        rng = rng * 6364136223846793005u + 1442695040888963407u;
        double luck = 1 + m->noise * ((double)(rng >> 40) / (1 << 23) - 1);
        double more = rate_of(m, *n) * luck * 0.02;
        *frames += more;
        last += *now + 1000000000u >= end ? more : 0;
        *now += 20000000;
        int change = tachy_tuner_tick(t, *now, (int64_t)*frames);
        CHECK(change >= 0 && change <= t->most && change != *n);
        *n = change ? change : *n;
    }
    return last / best;
}

TEST(reaches_the_best_from_the_worst)
{
    static const struct machine all[] = {{2, 30, 0.1, 0.1}, {4, 25, 0.2, 0.1}, {16, 40, 0.05, 0.1}, {6, 100, 0.3, 0.1}, {1, 60, 0.2, 0.1}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++)
        for (int worst = 0; worst < 2; worst++) {
            struct tachy_tuner t;
            int most = 2 * all[i].cores, n = worst ? most : 1;
            uint64_t now = 1;
            double frames = 0;
            tachy_tuner_open(&t, n, most, NULL, now);
            double share = play(&t, &all[i], &n, &now, &frames, 10);
            if (share < 0.95)
                fprintf(stderr, "%d cores, from %d of %d: %d workers, %.3f\n", all[i].cores, worst ? most : 1, most, n, share);
            CHECK(share >= 0.95);
        }
}

TEST(searches_again_when_conditions_change)
{
    struct machine m = {4, 25, 0.2, 0.05};
    struct tachy_tuner t;
    int n = 1;
    uint64_t now = 1;
    double frames = 0;
    tachy_tuner_open(&t, n, 8, NULL, now);
    CHECK(play(&t, &m, &n, &now, &frames, 10) >= 0.95);
    CHECK_INT(n, 4);
    m.cores = 2; // another program has taken two
    m.loss = 0.4;
    CHECK(play(&t, &m, &n, &now, &frames, 10) >= 0.95);
    CHECK(n <= 3);
    m = (struct machine){8, 25, 0.2, 0.05}; // which no rate shows: found by the next search
    CHECK(play(&t, &m, &n, &now, &frames, 45) >= 0.95);
    CHECK_INT(n, 8);
}

TEST(leaves_a_rate_that_workers_do_not_change)
{
    struct machine m = {1, 30, 0, 0.02}; // the source gives no more
    struct tachy_tuner t;
    int n = 3;
    uint64_t now = 1;
    double frames = 0;
    tachy_tuner_open(&t, n, 8, NULL, now);
    play(&t, &m, &n, &now, &frames, 20);
    CHECK_INT(n, 3);
    for (int i = 0; i < 1000; i++) // and a source that stops
        CHECK_INT(tachy_tuner_tick(&t, now += 20000000, (int64_t)frames), 0);
}

TEST(one_worker_is_all_there_is)
{
    struct tachy_tuner t;
    tachy_tuner_open(&t, 1, 1, NULL, 1);
    for (int64_t i = 1; i < 3000; i++)
        CHECK_INT(tachy_tuner_tick(&t, (uint64_t)i * 20000000, i), 0);
}

TEST_MAIN(TEST_CASE(reaches_the_best_from_the_worst), TEST_CASE(searches_again_when_conditions_change),
          TEST_CASE(leaves_a_rate_that_workers_do_not_change), TEST_CASE(one_worker_is_all_there_is))
