#include "base/memory.h"
#include "media/media.h"
#include "batcher/backoff.h"
#include "test.h"

#include <stdatomic.h>

// Budgets, what gives way, and how far work is cut back when memory is short.

struct notes {
    int warnings;
    char last[512];
};

static void note(void *user, enum tachy_log_level level, const char *text)
{
    struct notes *n = user;
    n->warnings += level <= TACHY_LOG_WARN;
    snprintf(n->last, sizeof(n->last), "%s", text);
}

static struct tachy_memory *open_with(uint64_t host, struct notes *n, struct tachy_log *log)
{
    struct tachy_memory *m;
    *log = (struct tachy_log){.fn = note, .user = n, .max_level = TACHY_LOG_VERBOSE};
    CHECK_INT(tachy_memory_open(&m, &(struct tachy_memory_params){.budget = {host}, .log = log}),
              TACHY_OK);
    return m;
}

TEST(counts_and_peak)
{
    struct notes n = {0};
    struct tachy_log log;
    struct tachy_memory *m = open_with(1000, &n, &log);
    struct tachy_block a = {0}, b = {0}, c = {0};
    CHECK_INT(tachy_memory_take(m, &a, TACHY_HOST, TACHY_MEMORY_FRAMES, 600), TACHY_OK);
    CHECK(a.data && (uintptr_t)a.data % 64 == 0);
    memset(a.data, 1, 600);
    CHECK_INT(tachy_memory_reserve(m, &b, TACHY_HOST, TACHY_MEMORY_RESULTS, 400), TACHY_OK);
    CHECK(!b.data);
    CHECK_INT(tachy_memory_take(m, &c, TACHY_HOST, TACHY_MEMORY_FRAMES, 1), TACHY_ERR_NOMEM);
    CHECK_INT(n.warnings, 1);
    CHECK(strstr(n.last, "1000 of 1000 bytes of host memory"));
    CHECK_INT(tachy_memory_take(m, &c, TACHY_HOST, TACHY_MEMORY_FRAMES, 1), TACHY_ERR_NOMEM);
    CHECK_INT(n.warnings, 1); // once
    CHECK_INT(tachy_memory_explain(m), TACHY_ERR_LIMIT); // and would be again
    CHECK(strstr(n.last, "0.0 MiB more host memory for frames would exceed the 0.0 MiB that are allowed"));
    struct tachy_memory_stats s;
    tachy_memory_read(m, &s);
    CHECK_INT(s.used[TACHY_HOST][TACHY_MEMORY_FRAMES], 600);
    CHECK_INT(s.used[TACHY_HOST][TACHY_MEMORY_RESULTS], 400);
    CHECK_INT(s.shortages, 2);
    tachy_memory_give(m, &a);
    tachy_memory_give(m, &a); // twice is nothing
    CHECK_INT(tachy_memory_take(m, &c, TACHY_HOST, TACHY_MEMORY_FRAMES, 1), TACHY_OK);
    tachy_memory_read(m, &s);
    CHECK_INT(s.total[TACHY_HOST], 401);
    CHECK_INT(s.peak[TACHY_HOST], 1000);
    tachy_memory_give(m, &b);
    tachy_memory_give(m, &c);
    tachy_memory_close(&m);
    CHECK(!m);
    CHECK_INT(n.warnings, 2); // the explanation; nothing was left
}

TEST(refuses_what_cannot_be)
{
    struct notes n = {0};
    struct tachy_log log;
    struct tachy_memory *m = open_with(0, &n, &log);
    struct tachy_block a = {0};
    CHECK_INT(tachy_memory_take(m, &a, TACHY_DEVICE, TACHY_MEMORY_FRAMES, 64), TACHY_ERR_UNSUPPORTED);
    CHECK(strstr(n.last, "no device memory"));
    CHECK_INT(tachy_memory_take(m, &a, TACHY_HOST, TACHY_MEMORY_FRAMES, 0), TACHY_ERR_INVAL);
    CHECK_INT(tachy_memory_take(m, &a, (enum tachy_mem)TACHY_MEM_KINDS, TACHY_MEMORY_FRAMES, 1), TACHY_ERR_INVAL);
    tachy_memory_close(&m);
    // A size that overflows the sum must not look small.
    m = open_with(100, &n, &log);
    CHECK_INT(tachy_memory_take(m, &a, TACHY_HOST, TACHY_MEMORY_FRAMES, 60), TACHY_OK);
    struct tachy_block b = {0};
    CHECK_INT(tachy_memory_reserve(m, &b, TACHY_HOST, TACHY_MEMORY_FRAMES, SIZE_MAX - 10), TACHY_ERR_NOMEM);
    tachy_memory_give(m, &a);
    tachy_memory_close(&m);
}

#ifndef NDEBUG
TEST(leaks_are_told)
{
    struct notes n = {0};
    struct tachy_log log;
    struct tachy_memory *m = open_with(0, &n, &log);
    struct tachy_block a = {0};
    CHECK_INT(tachy_memory_reserve(m, &a, TACHY_HOST, TACHY_MEMORY_TENSORS, 77), TACHY_OK);
    tachy_memory_close(&m);
    CHECK_INT(n.warnings, 1);
    CHECK(strstr(n.last, "77 bytes of host memory (tensors)") && strstr(n.last, "test_memory.c:"));
}
#endif

// A cache of ten blocks.
struct box {
    struct tachy_memory *m;
    struct tachy_block blocks[10];
    int calls;
};

static size_t empty_box(void *user, size_t want)
{
    struct box *b = user;
    size_t got = 0;
    b->calls++;
    for (int i = 0; i < 10 && got < want; i++) {
        got += b->blocks[i].size;
        tachy_memory_give(b->m, &b->blocks[i]);
    }
    return got;
}

TEST(caches_give_way)
{
    struct notes n = {0};
    struct tachy_log log;
    struct box box = {.m = open_with(1000, &n, &log)};
    struct tachy_cache cache = {.mem = TACHY_HOST, .shrink = empty_box, .user = &box};
    tachy_memory_add_cache(box.m, &cache);
    for (int i = 0; i < 10; i++)
        CHECK_INT(tachy_memory_take(box.m, &box.blocks[i], TACHY_HOST, TACHY_MEMORY_CACHE, 100), TACHY_OK);
    struct tachy_block a = {0};
    CHECK_INT(tachy_memory_take(box.m, &a, TACHY_HOST, TACHY_MEMORY_FRAMES, 250), TACHY_OK);
    CHECK_INT(box.calls, 1);
    struct tachy_memory_stats s;
    tachy_memory_read(box.m, &s);
    CHECK_INT(s.used[TACHY_HOST][TACHY_MEMORY_CACHE], 700); // three blocks, no more
    CHECK_INT(n.warnings, 0);
    tachy_memory_remove_cache(box.m, &cache);
    struct tachy_block b = {0};
    CHECK_INT(tachy_memory_take(box.m, &b, TACHY_HOST, TACHY_MEMORY_FRAMES, 900), TACHY_ERR_NOMEM);
    CHECK_INT(box.calls, 1);
    empty_box(&box, SIZE_MAX);
    tachy_memory_give(box.m, &a);
    tachy_memory_close(&box.m);
}

// A place that has room for two blocks, as a card would.
static int device_blocks;

static int device_alloc(void *user, size_t size, void **data)
{
    *data = device_blocks < 2 ? device_blocks++, malloc(size) : NULL;
    return *data ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void device_free(void *user, void *data)
{
    device_blocks--;
    free(data);
}

TEST(a_place_that_is_full)
{
    struct notes n = {0};
    struct tachy_log log;
    struct tachy_memory *m = open_with(0, &n, &log);
    tachy_memory_set_ops(m, TACHY_DEVICE,
                           &(struct tachy_mem_ops){.alloc = device_alloc, .free = device_free});
    struct tachy_block b[3] = {0};
    for (int i = 0; i < 3; i++)
        CHECK_INT(tachy_memory_take(m, &b[i], TACHY_DEVICE, TACHY_MEMORY_TENSORS, 64),
                  i < 2 ? TACHY_OK : TACHY_ERR_NOMEM);
    CHECK(strstr(n.last, "the system has no 64 bytes of device memory for tensors"));
    tachy_memory_give(m, &b[0]);
    tachy_memory_give(m, &b[1]);
    CHECK_INT(device_blocks, 0);
    tachy_memory_close(&m);
}

struct thread_work {
    struct tachy_memory *m;
    unsigned seed;
    atomic_int *refused;
};

static void *take_and_give(void *arg)
{
    struct thread_work *w = arg;
    struct tachy_block b[8] = {0};
    for (int i = 0; i < 4000; i++) {
        w->seed = w->seed * 1664525 + 1013904223;
        struct tachy_block *at = &b[w->seed >> 29];
        if (at->size)
            tachy_memory_give(w->m, at);
        else if (tachy_memory_take(w->m, at, TACHY_HOST, TACHY_MEMORY_FRAMES, 1 + (w->seed >> 20 & 63)) < 0)
            atomic_fetch_add(w->refused, 1);
    }
    for (int i = 0; i < 8; i++)
        tachy_memory_give(w->m, &b[i]);
    return NULL;
}

TEST(threads)
{
    struct notes n = {0};
    struct tachy_log log;
    struct tachy_memory *m = open_with(300, &n, &log);
    atomic_int refused = 0;
    pthread_t t[4];
    struct thread_work w[4];
    for (int i = 0; i < 4; i++) {
        w[i] = (struct thread_work){m, (unsigned)i + 1, &refused};
        pthread_create(&t[i], NULL, take_and_give, &w[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    struct tachy_memory_stats s;
    tachy_memory_read(m, &s);
    CHECK_INT(s.total[TACHY_HOST], 0);
    CHECK(s.peak[TACHY_HOST] <= 300);
    CHECK_INT(s.shortages, refused);
    tachy_memory_close(&m);
}

TEST(idle_frames_give_way)
{
    struct notes n = {0};
    struct tachy_log log;
    size_t bytes = tachy_frame_bytes(TACHY_PIX_YUV420P, 64, 48);
    struct tachy_memory *m = open_with(4 * bytes, &n, &log);
    tachy_frame_pool *small, *large;
    CHECK_INT(tachy_frame_pool_open(&small, TACHY_PIX_YUV420P, 64, 48), TACHY_OK);
    tachy_frame_pool_account(small, m);
    CHECK_INT(tachy_frame_pool_open(&large, TACHY_PIX_YUV420P, 64, 96), TACHY_OK);
    tachy_frame_pool_account(large, m);
    tachy_frame *f[5], *tall;
    for (int i = 0; i < 5; i++)
        CHECK_INT(tachy_frame_pool_get(small, &f[i]), i < 4 ? TACHY_OK : TACHY_ERR_NOMEM);
    for (int i = 0; i < 3; i++)
        tachy_frame_unref(&f[i]);
    CHECK_INT(tachy_frame_pool_get(large, &tall), TACHY_OK); // two idle frames went
    struct tachy_memory_stats s;
    tachy_memory_read(m, &s);
    CHECK(s.total[TACHY_HOST] <= 4 * bytes && s.total[TACHY_HOST] > 3 * bytes);
    tachy_frame_pool_close(&small);
    tachy_frame_pool_close(&large);
    tachy_memory_read(m, &s);
    CHECK_INT(s.total[TACHY_HOST], 0); // frames that are still out are the holder's business
    int before = n.warnings;
    tachy_memory_close(&m);
    CHECK_INT(n.warnings, before);
    tachy_frame_unref(&f[3]);
    tachy_frame_unref(&tall);
}

TEST(machine)
{
    CHECK(tachy_memory_of_machine() >= (uint64_t)64 << 20);
}

TEST(backoff_halves_and_grows)
{
    const uint64_t s = 1000000000;
    struct tachy_backoff b;
    tachy_backoff_init(&b, 8, 10 * s);
    CHECK(!tachy_backoff_ok(&b, 100 * s)); // nothing to grow to
    CHECK(tachy_backoff_shortage(&b, 8, 100 * s));
    CHECK_INT(b.now, 4);
    CHECK(tachy_backoff_shortage(&b, 8, 100 * s)); // of the same batch of eight
    CHECK_INT(b.now, 4);
    CHECK(tachy_backoff_shortage(&b, 3, 101 * s)); // three were too many
    CHECK_INT(b.now, 1);
    CHECK(!tachy_backoff_shortage(&b, 1, 102 * s));
    CHECK(!tachy_backoff_ok(&b, 111 * s));
    CHECK(tachy_backoff_ok(&b, 112 * s));
    CHECK_INT(b.now, 2);
    CHECK(!tachy_backoff_ok(&b, 113 * s));
    CHECK(tachy_backoff_ok(&b, 122 * s));
    CHECK_INT(b.now, 4);
    // Four fails again: the next try waits twice as long.
    CHECK(tachy_backoff_shortage(&b, 4, 123 * s));
    CHECK_INT(b.now, 2);
    CHECK(!tachy_backoff_ok(&b, 142 * s));
    CHECK(tachy_backoff_ok(&b, 143 * s));
}

// Memory that holds five items, an hour of it: what is tried and fails must become rare.
TEST(backoff_settles)
{
    const uint64_t step = 10000000; // 10 ms
    struct tachy_backoff b;
    tachy_backoff_init(&b, 16, 5000000000);
    int failed = 0;
    int64_t items = 0;
    for (uint64_t t = 0; t < 360000; t++) {
        if (b.now > 5) {
            failed++;
            tachy_backoff_shortage(&b, b.now, t * step);
            continue;
        }
        items += b.now;
        tachy_backoff_ok(&b, t * step);
    }
    CHECK(failed < 30);
    CHECK(items > 360000 * 3.9);
}

#ifndef NDEBUG
#define LEAKS TEST_CASE(leaks_are_told),
#else
#define LEAKS
#endif
TEST_MAIN(TEST_CASE(counts_and_peak), TEST_CASE(refuses_what_cannot_be), LEAKS TEST_CASE(caches_give_way),
          TEST_CASE(a_place_that_is_full), TEST_CASE(threads),
          TEST_CASE(idle_frames_give_way), TEST_CASE(machine),
          TEST_CASE(backoff_halves_and_grows), TEST_CASE(backoff_settles))
