#include "test.h"

#include "pipeline/tuner.h"

// The search on machines that are a formula of the numbers of workers and decoders, in a time that is counted.

struct machine {
    int cores;
    double per_worker, loss; // frames per second of one worker; share that each worker beyond the cores costs
    double noise;            // of a window's rate
    double per_decoder;      // frames per second of one decoder; 0: decoding is no limit
};

static uint64_t rng = 5;

static double rate_of(const struct machine *m, int n, int decoders)
{
    int busy = n < m->cores ? n : m->cores, beyond = n - busy;
    double kept = 1 - m->loss * beyond / m->cores, rate = m->per_worker * busy * (kept > 0.1 ? kept : 0.1);
    double decoded = m->per_decoder > 0 ? m->per_decoder * decoders * (1 - m->loss * (decoders - 1) / 16) : rate;
    return rate < decoded ? rate : decoded;
}

// Lets a search run; returns the frames that came out in the last second of `seconds`, as a share of the best that the machine gives.
static double play(struct tachy_tuner *t, const struct machine *m, int *n, uint64_t *now, double *frames, double seconds)
{
    uint64_t end = *now + (uint64_t)(seconds * 1e9);
    double best = 0, last = 0;
    for (int k = 1; k <= t->most[TACHY_TUNER_WORKERS]; k++)
        for (int d = 1; d <= t->most[TACHY_TUNER_DECODERS]; d++)
            best = rate_of(m, k, d) > best ? rate_of(m, k, d) : best;
    while (*now < end) {
        rng = rng * 6364136223846793005u + 1442695040888963407u;
        double luck = 1 + m->noise * ((double)(rng >> 40) / (1 << 23) - 1);
        double more = rate_of(m, n[0], n[1]) * luck * 0.02;
        *frames += more;
        last += *now + 1000000000u >= end ? more : 0;
        *now += 20000000;
        bool changed = tachy_tuner_tick(t, *now, (int64_t)*frames);
        CHECK(changed == (t->n[0] != n[0] || t->n[1] != n[1]));
        for (int k = 0; k < TACHY_TUNER_PARTS; k++) {
            n[k] = t->n[k];
            CHECK(n[k] >= 1 && n[k] <= t->most[k]);
        }
    }
    return last / best;
}

TEST(reaches_the_best_from_the_worst)
{
    static const struct machine all[] = {{2, 30, 0.1, 0.1, 0}, {4, 25, 0.2, 0.1, 0}, {16, 40, 0.05, 0.1, 0}, {6, 100, 0.3, 0.1, 0}, {1, 60, 0.2, 0.1, 0},
                                         {2, 30, 0.1, 0.1, 20}, {8, 25, 0.2, 0.1, 60}, {16, 40, 0.05, 0.1, 90}, {8, 60, 0.2, 0.1, 9}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++)
        for (int worst = 0; worst < 2; worst++) {
            struct tachy_tuner t;
            int most[] = {2 * all[i].cores, 8}, n[] = {worst ? most[0] : 1, worst ? most[1] : 1};
            uint64_t now = 1;
            double frames = 0;
            tachy_tuner_open(&t, n, most, NULL, now);
            double share = play(&t, &all[i], n, &now, &frames, 10);
            if (share < 0.95)
                fprintf(stderr, "%d cores, from %d of %d: %d workers, %d decoders, %.3f\n", all[i].cores, worst ? most[0] : 1, most[0], n[0], n[1], share);
            CHECK(share >= 0.95);
        }
}

TEST(searches_again_when_conditions_change)
{
    struct machine m = {4, 25, 0.2, 0.05, 0};
    struct tachy_tuner t;
    int n[] = {1, 1}, most[] = {8, 1};
    uint64_t now = 1;
    double frames = 0;
    tachy_tuner_open(&t, n, most, NULL, now);
    CHECK(play(&t, &m, n, &now, &frames, 10) >= 0.95);
    CHECK_INT(n[0], 4);
    m.cores = 2; // another program has taken two
    m.loss = 0.4;
    CHECK(play(&t, &m, n, &now, &frames, 10) >= 0.95);
    CHECK(n[0] <= 3);
    m = (struct machine){8, 25, 0.2, 0.05, 0}; // which no rate shows: found by the next search
    CHECK(play(&t, &m, n, &now, &frames, 45) >= 0.95);
    CHECK_INT(n[0], 8);
}

TEST(leaves_a_rate_that_workers_do_not_change)
{
    struct machine m = {1, 30, 0, 0.02, 0}; // the source gives no more
    struct tachy_tuner t;
    int n[] = {3, 1}, most[] = {8, 1};
    uint64_t now = 1;
    double frames = 0;
    tachy_tuner_open(&t, n, most, NULL, now);
    play(&t, &m, n, &now, &frames, 20);
    CHECK_INT(n[0], 3);
    for (int i = 0; i < 1000; i++) // and a source that stops
        CHECK(!tachy_tuner_tick(&t, now += 20000000, (int64_t)frames));
}

TEST(one_worker_is_all_there_is)
{
    struct tachy_tuner t;
    tachy_tuner_open(&t, (const int[]){1, 1}, (const int[]){1, 1}, NULL, 1);
    for (int64_t i = 1; i < 3000; i++)
        CHECK(!tachy_tuner_tick(&t, (uint64_t)i * 20000000, i));
}

TEST_MAIN(TEST_CASE(reaches_the_best_from_the_worst), TEST_CASE(searches_again_when_conditions_change),
          TEST_CASE(leaves_a_rate_that_workers_do_not_change), TEST_CASE(one_worker_is_all_there_is))
