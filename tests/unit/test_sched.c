#include "test.h"

#include "pipeline/sched.h"

#include <stdlib.h>

// The executor's decisions about how much may be where, without an executor.

#define MIB ((int64_t)1 << 20)

static struct sched_stream plain(int64_t in_bytes, int64_t out_bytes, int workers)
{
    return (struct sched_stream){.in_bytes = in_bytes, .out_bytes = out_bytes, .item_bytes = 65536, .workers = workers,
                                 .memory = 16384 * MIB, .keeps_input = out_bytes > 0};
}

static int64_t random_to(int64_t most) { return (int64_t)((double)rand() / RAND_MAX * (double)most); }

// Whatever a stream is like, it can go on, and what was asked for holds.
TEST(bounds_hold)
{
    srand(5);
    for (int i = 0; i < 100000; i++) {
        struct sched_stream s = plain(64 + random_to(64 * MIB), i % 3 ? random_to(64 * MIB) : 0, 1 + rand() % 64);
        s.gpus = rand() % 5;
        struct sched_bounds b;
        s.item_bytes = i % 5 ? random_to(4 * MIB) : 0;
        s.max_bytes = i % 4 ? 0 : 1 + random_to(512 * MIB);
        s.window = i % 7 ? 0 : 2 + rand() % 1000;
        s.on_gpu = i & 1;
        s.device_room = random_to(65536 * MIB);
        s.holds_input = i & 2;
        sched_bounds(&s, &b);
        CHECK(b.depth >= 2 && b.depth <= b.window && b.near >= 2 && b.near <= b.window);
        CHECK(b.window <= TACHY_MAX(s.window, TACHY_MAX(b.depth, s.on_gpu ? 4096 : 512)));
        CHECK(!s.window || b.window == s.window);
        CHECK(b.inputs_max >= b.depth && b.inputs_far >= 1 && b.inputs_far <= b.inputs_max);
        CHECK(!s.max_bytes || b.depth == 2 || b.depth * (s.in_bytes + s.out_bytes) <= s.max_bytes);
        if (s.on_gpu && !s.max_bytes && !s.window && b.window > b.depth && s.keeps_input)
            CHECK(b.window * s.in_bytes <= s.device_room / 4);
        int64_t room = random_to(1024 * MIB);
        sched_fit(&s, &b, room);
        CHECK(b.depth >= 2 && b.depth <= TACHY_MAX(b.window, 2) && b.near <= b.window);
        CHECK(b.depth == 2 || b.depth * (s.in_bytes + s.out_bytes) + b.window * s.item_bytes <= room);
    }
}

TEST(depth_follows_the_budget)
{
    static const struct {
        int64_t picture, max_bytes;
        int workers;
        int64_t least, most;
    } cases[] = {
        {1280 * 720 * 3 / 2, 0, 2, 4, 10},
        {1280 * 720 * 3 / 2, 1, 2, 2, 2},
        {7680 * 3840 * 3 / 2, 1024 * MIB, 64, 2, 12},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(cases); i++) {
        struct sched_stream s = plain(cases[i].picture, cases[i].picture, cases[i].workers);
        struct sched_bounds b;
        s.max_bytes = cases[i].max_bytes;
        sched_bounds(&s, &b);
        CHECK(b.depth >= cases[i].least && b.depth <= cases[i].most);
    }
}

// Where only text is written each worker has its group in flight, and one comes together meanwhile.
TEST(groups_are_in_flight)
{
    for (int workers = 1; workers <= 8; workers *= 2) {
        struct sched_stream s = plain(640 * 480 * 3 / 2, 0, workers);
        struct sched_bounds b;
        s.group = 32;
        sched_bounds(&s, &b);
        CHECK(b.depth >= 32 * (workers + 1));
        s.max_bytes = 8 * MIB; // what was asked for counts
        sched_bounds(&s, &b);
        CHECK(b.depth * s.in_bytes <= 8 * MIB);
    }
}

// A worker takes pictures of one GPU at a time, so on each one a group comes together.
TEST(groups_are_in_flight_on_each_gpu)
{
    for (int gpus = 1; gpus <= 4; gpus++) {
        struct sched_stream s = plain(1920 * 1080 * 3 / 2, 1920 * 1080, 2 * gpus);
        struct sched_bounds b;
        s.group = 8;
        s.gpus = gpus;
        s.on_gpu = true;
        s.keeps_input = false;
        s.device_room = 16384 * MIB;
        sched_bounds(&s, &b);
        CHECK_INT(b.inputs_far, 8 * 3 * gpus);
        CHECK_INT(b.inputs_max, 8 * 4 * gpus);
    }
}

// A model that runs apart gets full batches: one per worker, and one that comes together, also if pictures are written.
TEST(batches_are_in_flight)
{
    for (int workers = 1; workers <= 4; workers *= 2) {
        struct sched_stream s = plain(640 * 480 * 3 / 2, 640 * 480 * 3 / 2, workers);
        struct sched_bounds b;
        s.batch = 16;
        sched_bounds(&s, &b);
        CHECK(b.depth >= 16 * (workers + 1));
        s.max_bytes = 8 * MIB; // what was asked for counts
        sched_bounds(&s, &b);
        CHECK(b.depth * (s.in_bytes + s.out_bytes) <= 8 * MIB);
    }
}

// A request for fewer frames ahead is honoured for all frames, and nobody gets more than the memory allows.
TEST(frames_ahead_are_bounded)
{
    for (int kind = 0; kind < 8; kind++) {
        struct sched_stream s = plain(64 * 48, kind & 1 ? 64 * 48 : 0, 2);
        struct sched_bounds all, few;
        s.holds_input = kind & 2;
        s.on_gpu = kind & 4;
        s.device_room = 1024 * MIB;
        sched_bounds(&s, &all);
        s.most = 5;
        sched_bounds(&s, &few);
        CHECK(all.window > 5);
        CHECK(few.window == 5 && few.depth >= 2 && few.depth <= 5 && few.near <= 5);
        s.most = 1 << 20;
        sched_bounds(&s, &few);
        CHECK_INT(few.window, all.window);
        s.most = 1; // two go on, or nothing would
        sched_bounds(&s, &few);
        CHECK_INT(few.depth, 2);
    }
}

// Items that wait for a turn with their picture get fewer positions than those that wait as a mask.
TEST(masks_may_wait_further_ahead)
{
    struct sched_stream s = plain(1280 * 720 * 3 / 2, 1280 * 720, 8);
    struct sched_bounds as_mask, as_picture;
    s.keeps_input = false;
    sched_bounds(&s, &as_mask);
    s.holds_input = true;
    sched_bounds(&s, &as_picture);
    CHECK(as_picture.window * s.in_bytes <= 160 * MIB);
    CHECK(as_mask.window > 4 * as_picture.window);
    CHECK_INT(as_mask.near, as_mask.depth);             // finished pictures are large
    CHECK(as_picture.inputs_max > as_picture.window);   // decoders are not held back by it
    CHECK_INT(as_mask.inputs_max, as_mask.depth);
}

// Nothing is done with what waits for a turn at the very beginning, so it is decoded less far ahead.
TEST(a_turn_at_the_beginning_holds_few_pictures)
{
    for (int workers = 1; workers <= 64; workers *= 4) {
        struct sched_stream s = plain(1280 * 720 * 3 / 2, 1280 * 720, workers);
        struct sched_bounds later, first;
        s.holds_input = true;
        sched_bounds(&s, &later);
        s.begins_in_turn = true;
        sched_bounds(&s, &first);
        CHECK_INT(first.depth, later.depth); // all workers have enough to do
        CHECK(first.window == first.depth || first.window * s.in_bytes <= 40 * MIB);
        CHECK(workers > 4 || first.window * 3 < later.window);
        s.max_bytes = 160 * MIB; // what was asked for counts
        sched_bounds(&s, &first);
        CHECK_INT(first.window, later.window);
    }
}

// Workers that empty a queue: each job is done once, and none waits behind more than a moment's work of its neighbour.
TEST(shares_are_fair)
{
    enum { JOBS = 1000, WORKERS = 4, MOST = 16 };
    static const uint64_t costs[] = {0, 100, 900, 5000, 30000, 2000000};
    for (size_t c = 0; c < TACHY_ARRAY_SIZE(costs); c++) {
        uint64_t busy[WORKERS] = {0};
        int ready = JOBS, taken = 0, largest = 0;
        while (ready) {
            int w = 0;
            for (int i = 1; i < WORKERS; i++)
                w = busy[i] < busy[w] ? i : w;
            int n = TACHY_MIN(sched_share(ready, WORKERS, costs[c], MOST), ready);
            CHECK(n >= 1 && n <= MOST && n <= ready / WORKERS + 1);
            CHECK(n == 1 || (uint64_t)n * costs[c] <= 20000);
            busy[w] += (uint64_t)n * TACHY_DEF(costs[c], 1000);
            ready -= n;
            taken += n;
            largest = TACHY_MAX(largest, n);
        }
        CHECK_INT(taken, JOBS);
        CHECK(largest == (costs[c] <= 900 ? MOST : costs[c] == 5000 ? 4 : 1));
        for (int i = 1; i < WORKERS; i++) // they end at about the same time
            CHECK(busy[i] + MOST * TACHY_DEF(costs[c], 1000) >= busy[0]);
    }
}

// Jobs that come at a rate: the rest becomes as long as 16 of them take to come, but no longer than 16 ms.
TEST(rests_become_as_long_as_a_group)
{
    static const double every_us[] = {2, 20, 100, 1000};
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(every_us); k++) {
        long rest = 0;
        double sum = 0;
        for (int i = 0; i < 400; i++) {
            rest = sched_rest(rest, (double)rest / every_us[k] >= 16);
            CHECK(rest >= 0 && rest <= 16000);
            sum += i >= 200 ? (double)rest / 200 : 0;
        }
        double group = TACHY_MIN(16 * every_us[k], 16000);
        CHECK(sum > 0.4 * group && sum < TACHY_MAX(1.6 * group, 120));
    }
}

// Beside a GPU, pull by pull: what is parked goes on in groups of half of what may be on its way, and all of it does.
TEST(the_gate_lets_groups_through)
{
    const struct sched_bounds b = {.depth = 32, .window = 500, .near = 32};
    int64_t from = 32, opened = 0, largest = 0;
    for (int64_t pulled = 1; pulled <= 1000; pulled++) {
        CHECK(pulled <= from); // nothing that may not go on is waited for
        if (sched_gate_waits(&b, true, from, pulled))
            continue;
        largest = TACHY_MAX(largest, pulled + b.near - from);
        from = pulled + b.near;
        opened++;
    }
    CHECK(largest == 16 && opened <= 1000 / 16 + 1);
    CHECK(!sched_gate_waits(&b, false, 64, 1)); // the host's frames go one by one
    const struct sched_bounds all = {.depth = 8, .window = 32, .near = 32};
    CHECK(!sched_gate_waits(&all, true, 32, 1));
}

// Sessions of a decoder each read a part of the input, faster than a network runs: 2.2 ms per frame and session, 4.4 ms per group of
// eight. Eleven frames may be pulled meanwhile. The network never waits, and what waits to be pulled is a few parts' frames.
TEST(the_nearest_parts_go_first)
{
    enum { PARTS = 60, PART = 240, ALL = PARTS * PART, SESSIONS = 14, GROUP = 8 };
    struct sched_bounds b = {.depth = 32, .window = 3900, .near = 32, .inputs_max = 32, .inputs_far = 16};
    static bool done[ALL];
    int64_t at[SESSIONS], until[SESSIONS], queue[32], ready[SESSIONS] = {0}, group[GROUP], part = 0, pushed = 0, pulled = 0, most = 0;
    int waits = 0, in_group = 0, inputs = 0;
    for (int i = 0; i < SESSIONS; i++)
        at[i] = until[i] = 0;
    int64_t t = 0, ends = 0, idle = 0;
    for (; pulled < ALL && t < 20000000; t++) { // tenths of a millisecond
        for (int i = 0; i < SESSIONS; i++) {
            if (at[i] == until[i] && part < PARTS)
                at[i] = part++ * PART, until[i] = at[i] + PART;
            if (at[i] == until[i] || t < ready[i] || at[i] - pulled >= b.window || inputs >= sched_inputs(&b, at[i] - pulled))
                continue;
            pushed++;
            most = TACHY_MAX(most, pushed - pulled);
            queue[waits++] = at[i]++;
            inputs++;
            ready[i] = t + 22;
        }
        if (in_group && t >= ends) {
            for (int k = 0; k < GROUP; k++)
                done[group[k]] = true;
            inputs -= GROUP, in_group = 0;
        }
        if (!in_group && waits >= GROUP) {
            memcpy(group, queue, sizeof(group));
            memmove(queue, queue + GROUP, sizeof(*queue) * (size_t)(waits -= GROUP));
            in_group = GROUP, ends = t + 44;
        }
        pulled += t % 4 == 0 && done[pulled];
        idle += !in_group && pulled < ALL - 4 * PART;
    }
    CHECK(idle <= 100);
    CHECK(most < 6 * PART);
}

// A stage's wish counts up to what a worker can take, and not where each item goes its own way.
TEST(groups)
{
    CHECK_INT(sched_group(0, false, 16), 1);
    CHECK_INT(sched_group(1, false, 16), 1);
    CHECK_INT(sched_group(8, false, 16), 8);
    CHECK_INT(sched_group(40, false, 16), 16);
    CHECK_INT(sched_group(8, true, 16), 1);
    CHECK_INT(sched_turns(1, false, false), 1); // the picture is in the worker's cache
    CHECK_INT(sched_turns(1, true, true), 1);
    CHECK(sched_turns(1, false, true) > 1);
    CHECK_INT(sched_turns(16, false, true), 16);
}

TEST_MAIN(TEST_CASE(groups), TEST_CASE(the_nearest_parts_go_first), TEST_CASE(bounds_hold), TEST_CASE(groups_are_in_flight), TEST_CASE(groups_are_in_flight_on_each_gpu), TEST_CASE(batches_are_in_flight), TEST_CASE(depth_follows_the_budget),
          TEST_CASE(a_turn_at_the_beginning_holds_few_pictures),
          TEST_CASE(frames_ahead_are_bounded), TEST_CASE(masks_may_wait_further_ahead), TEST_CASE(shares_are_fair),
          TEST_CASE(rests_become_as_long_as_a_group), TEST_CASE(the_gate_lets_groups_through))
