#include "../unit/test.h"

#include "base/clock.h"
#include "cuda/mem.h"

// A real device's memory as places of the memory manager: what the driver says is free must agree with
// what was taken and given back, budgets hold, caches give way, and pinned memory is copied faster
// than ordinary memory. Exit status 77 if there is no GPU.

static char last_message[512];
static void on_message(void *user, enum tachy_log_level level, const char *msg)
{
    snprintf(last_message, sizeof(last_message), "%s", msg);
}
static const struct tachy_log log_errors = {.fn = on_message, .max_level = TACHY_LOG_WARN};
static const size_t mib = (size_t)1 << 20;

static struct tachy_device device;
static const struct tachy_cu *cu;

static size_t free_bytes(void)
{
    size_t idle = 0, all = 0;
    CHECK_INT(tachy_device_enter(&device, &log_errors), TACHY_OK);
    CHECK_INT(cu->memory_info(&idle, &all), CUDA_OK);
    tachy_device_leave(&device);
    return idle;
}

static void open_places(struct tachy_memory **m, double fraction, double most)
{
    struct tachy_gpu_mem_params p = {.fraction = fraction, .vram_most = most, .pinned = 256 * mib, .log = &log_errors};
    CHECK_INT(tachy_memory_open(m, &(struct tachy_memory_params){.log = &log_errors}), TACHY_OK);
    CHECK_INT(tachy_gpu_mem_open(*m, &device, &p), TACHY_OK);
}

// Blocks of 64 MiB up to the budget of a hundredth of the device.
TEST(budget)
{
    struct tachy_memory *m;
    struct tachy_memory_stats s;
    struct tachy_block block[1024] = {{0}};
    int n = 0;
    size_t before = free_bytes();
    open_places(&m, 0.01, 0);
    tachy_memory_read(m, &s);
    while (n < 1024 && tachy_memory_take(m, &block[n], TACHY_DEVICE, TACHY_MEMORY_FRAMES, 64 * mib) == TACHY_OK)
        n++;
    CHECK_INT(n, s.budget[TACHY_DEVICE] / (64 * mib));
    CHECK(strstr(last_message, "of device memory are taken"));
    size_t during = free_bytes();
    CHECK(before - during >= (size_t)n * 64 * mib && before - during <= (size_t)(n + 2) * 64 * mib);
    for (int i = 0; i < n; i++)
        tachy_memory_give(m, &block[i]);
    CHECK(free_bytes() + 8 * mib >= before);
    printf("figure gpu_budget %.0f MiB\n", (double)s.budget[TACHY_DEVICE] / (double)mib);
    tachy_memory_close(&m);
}

// A cache of blocks, which give way one by one.
struct blocks {
    struct tachy_memory *m;
    struct tachy_block block[4];
};

static size_t give_way(void *user, size_t want)
{
    struct blocks *b = user;
    size_t got = 0;
    for (int i = 0; i < 4 && got < want; i++) {
        got += b->block[i].size;
        tachy_memory_give(b->m, &b->block[i]);
    }
    return got;
}

// Others fill the device up to the mark of all programs together: as many idle blocks as need be give way.
TEST(high_water)
{
    struct tachy_memory *m;
    struct blocks idle = {0};
    struct tachy_cache cache = {.mem = TACHY_DEVICE, .shrink = give_way, .user = &idle};
    struct tachy_block block = {0};
    cuda_address others = 0;
    CHECK_INT(tachy_device_enter(&device, &log_errors), TACHY_OK);
    CHECK_INT(cu->memory_alloc(&others, 4096 * mib), CUDA_OK);
    tachy_device_leave(&device);
    double taken = (double)(device.bytes - free_bytes()) / (double)device.bytes;
    open_places(&m, 0, taken + 600.0 * (double)mib / (double)device.bytes);
    idle.m = m;
    for (int i = 0; i < 4; i++)
        CHECK_INT(tachy_memory_take(m, &idle.block[i], TACHY_DEVICE, TACHY_MEMORY_CACHE, 128 * mib), TACHY_OK);
    tachy_memory_add_cache(m, &cache);
    CHECK_INT(tachy_memory_take(m, &block, TACHY_DEVICE, TACHY_MEMORY_FRAMES, 300 * mib), TACHY_OK);
    struct tachy_memory_stats s;
    tachy_memory_read(m, &s);
    CHECK(s.used[TACHY_DEVICE][TACHY_MEMORY_CACHE] < 512 * mib);
    CHECK(s.used[TACHY_DEVICE][TACHY_MEMORY_CACHE] >= 128 * mib);
    tachy_memory_give(m, &block);
    tachy_memory_remove_cache(m, &cache);
    give_way(&idle, SIZE_MAX);
    tachy_memory_close(&m);
    CHECK_INT(tachy_device_enter(&device, &log_errors), TACHY_OK);
    CHECK_INT(cu->memory_free(others), CUDA_OK);
    tachy_device_leave(&device);
}

// Seconds of the best of five copies to the device.
static double copy_time(cuda_address to, const void *from, size_t bytes)
{
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        uint64_t start = tachy_now_ns();
        CHECK_INT(cu->copy_to_device(to, from, bytes), CUDA_OK);
        double t = (double)(tachy_now_ns() - start) * 1e-9;
        best = t < best ? t : best;
    }
    return best;
}

TEST(pinned_copies)
{
    struct tachy_memory *m;
    struct tachy_block on_device = {0}, plain = {0}, pinned = {0};
    const size_t size = 128 * mib;
    open_places(&m, 0, 0);
    CHECK_INT(tachy_memory_take(m, &pinned, TACHY_PINNED, TACHY_MEMORY_FRAMES, size), TACHY_OK);
    CHECK_INT(tachy_memory_take(m, &on_device, TACHY_DEVICE, TACHY_MEMORY_FRAMES, size), TACHY_OK);
    CHECK_INT(tachy_memory_take(m, &plain, TACHY_HOST, TACHY_MEMORY_FRAMES, size), TACHY_OK);
    memset(pinned.data, 1, size);
    memset(plain.data, 1, size);
    CHECK_INT(tachy_device_enter(&device, &log_errors), TACHY_OK);
    cuda_address to = (cuda_address)(uintptr_t)on_device.data;
    double fast = copy_time(to, pinned.data, size), slow = copy_time(to, plain.data, size);
    tachy_device_leave(&device);
    printf("figure copy_pinned %.4g GB/s\n", (double)size / fast * 1e-9);
    printf("figure copy_pageable %.4g GB/s\n", (double)size / slow * 1e-9);
    CHECK(fast < slow);
    tachy_memory_give(m, &pinned);
    tachy_memory_give(m, &on_device);
    tachy_memory_give(m, &plain);
    tachy_memory_close(&m);
}

static void open_device(void)
{
    if (tachy_cu_load(&cu, TACHY_LOG_VERBOSE, &log_errors) < 0)
        SKIP("there is no CUDA driver");
    if (tachy_device_describe(&device, cu, 0, &log_errors) < 0)
        SKIP("there is no GPU");
}

TEST(opened) { open_device(); }

TEST_MAIN(TEST_CASE(opened), TEST_CASE(budget), TEST_CASE(high_water), TEST_CASE(pinned_copies))
