#include "gpu_fakes.h"

#include "cuda/rates.h"
#include "cuda/saturate.h"
#include "profile/profile.h"

#include <jansson.h>
#include <tachy/doctor.h>
#include <unistd.h>

// GPUs and NVIDIA's libraries: what is there, what a device can do, its memory.

// ---- what the kernels need

TEST(kernels_refuse)
{
    char why[256];
    struct tachy_device d = {.name = "Tesla V100", .cc_major = 7, .cc_minor = 0, .driver = 12040};
    if (!tachy_cuda_kernels()) {
        CHECK(strstr(tachy_cuda_refuses(&d, why), "-Dcuda=enabled"));
    } else {
        CHECK(strstr(tachy_cuda_refuses(&d, why), "compute capability 7.0"));
        // One with machine code in this build, or the first that takes its PTX.
        int chip = atoi(TACHY_CUDA_CHIPS) ? atoi(TACHY_CUDA_CHIPS) : 90;
        d.cc_major = chip / 10, d.cc_minor = chip % 10;
        d.driver = 11080;
        CHECK(strstr(tachy_cuda_refuses(&d, why), "NVIDIA's driver 5"));
        d.driver = TACHY_CUDA_VERSION;
        CHECK(!tachy_cuda_refuses(&d, why));
        d.driver += 1000;
        CHECK(!tachy_cuda_refuses(&d, why));
        d.cc_major = 7, d.cc_minor = 5;
        CHECK(!tachy_cuda_refuses(&d, why) == !!strstr(TACHY_CUDA_CHIPS, "75"));
        d.cc_major = 8, d.cc_minor = 9;
        CHECK(!tachy_cuda_refuses(&d, why) == !!strstr(TACHY_CUDA_CHIPS, "8")); // code for 8.0 is enough
        d.cc_major = 12, d.cc_minor = 0;
        CHECK(!tachy_cuda_refuses(&d, why) == !!strstr(TACHY_CUDA_CHIPS, "ptx"));
        CHECK(strstr(TACHY_CUDA_CHIPS, "ptx") || strstr(why, "compute capability 12.0"));
        d.cc_major = 7, d.cc_minor = 5;
        d.driver = 11080;
        tachy_cuda_refuses(&d, why);
    }
    CHECK_INT(tachy_cuda_need(&d, &log_errors), TACHY_ERR_UNAVAILABLE);
    CHECK_STR(last_message + strlen("GPU 0: "), why);
}

// ---- loader

struct one {
    int (*init)(void);
};

static int open_library(const char *file, const char *name, char *why, size_t size)
{
    static struct one table;
    const char *const files[] = {file, NULL};
    const struct {
        const char *symbol;
        size_t offset;
    } symbols[] = {{name, offsetof(struct one, init)}};
    struct tachy_library lib = {
        "test", files, "the test library", "build it", false, (const void *)symbols, 1};
    char *path;
    int err = tachy_library_open(&lib, &table, &path, why, size);
    CHECK((err == TACHY_OK) == (path != NULL));
    if (path)
        CHECK(strstr(path, file));
    tachy_free(path);
    return err;
}

TEST(libraries_are_found_or_named)
{
    char why[300] = "";
    CHECK_INT(open_library("libnowhere.so.7", "f", why, sizeof(why)), TACHY_ERR_UNAVAILABLE);
    CHECK_STR(why, "the test library (libnowhere.so.7) was not found: build it");
    CHECK_INT(open_library("libnvidia-ml-old.so.1", "nvmlShutdown", why, sizeof(why)),
              TACHY_ERR_UNAVAILABLE);
    CHECK_STR(why, "the test library (libnvidia-ml-old.so.1) has no function nvmlShutdown, so it "
                   "is too old: build it");
    CHECK_INT(open_library("libnvidia-ml-old.so.1", "nvmlInit_v2", why, sizeof(why)), TACHY_OK);
    CHECK_INT(open_library("libnvidia-ml-old.so.1", "?nvmlShutdown", why, sizeof(why)), TACHY_OK);
}

TEST(driver_without_gpu)
{
    const struct tachy_cu *cu;
    CUDA(fake_cuda_fail_init, CUDA_NO_DEVICE);
    CHECK_INT(tachy_cu_load(&cu, TACHY_LOG_ERR, &log_errors), TACHY_ERR_UNAVAILABLE);
    CHECK(!cu && strstr(last_message, "no CUDA-capable device is detected") &&
          strstr(last_message, "libcuda.so.1"));
    tachy_profile *p; // what was asked for ends the profile, with the reason
    CHECK_INT(
        tachy_profile_open(&p, tachy_profile_params(.gpu_activity = true, .log = &log_errors)),
        TACHY_ERR_UNAVAILABLE);
    CHECK(!p);
    CUDA(fake_cuda_fail_init, 0); // the driver was repaired: it is asked again
    CHECK_INT(tachy_cu_load(&cu, TACHY_LOG_ERR, &log_errors), TACHY_OK);
    struct tachy_device d;
    CHECK_INT(tachy_device_describe(&d, cu, 1, &log_errors), TACHY_ERR_INVAL);
    CHECK_INT(tachy_device_describe(&d, cu, 0, &log_errors), TACHY_OK);
    CHECK_STR(d.name, "Fake GPU");
    CHECK_INT(d.sm_count, 132);
}

TEST(doctor_names_gpu_and_libraries)
{
    char *text;
    CHECK_INT(tachy_doctor(&text, NULL), TACHY_OK);
    json_t *o = json_loads(text, 0, NULL), *gpu = json_array_get(json_object_get(o, "gpu"), 0);
    CHECK_STR(json_string_value(json_object_get(gpu, "name")), "Fake GPU");
    CHECK_STR(json_string_value(json_object_get(gpu, "compute_capability")), "9.0");
    CHECK_INT(json_integer_value(json_object_get(gpu, "memory_mib")), 16384);
    json_t *state = json_object_get(gpu, "state"), *pcie = json_object_get(state, "pcie"), *advice = json_object_get(o, "advice"), *a;
    CHECK_INT(json_integer_value(json_object_get(pcie, "width")), 8);
    CHECK_INT(json_integer_value(json_object_get(pcie, "generation_max")), 5);
    CHECK(json_is_false(json_object_get(state, "persistence")));
    bool lanes = false, persistence = false;
    size_t i;
    json_array_foreach(advice, i, a)
    {
        lanes |= strstr(json_string_value(json_object_get(a, "what")), "8 of 16 PCIe lanes") != NULL;
        persistence |= strstr(json_string_value(json_object_get(a, "command")), "-pm 1") != NULL;
    }
    CHECK(lanes && persistence);
    json_t *libs = json_object_get(o, "cuda");
    CHECK(strstr(json_string_value(json_object_get(libs, "cupti")), "libcupti.so.13"));
    CHECK(strstr(json_string_value(json_object_get(libs, "nvml")), "libnvidia-ml.so.1"));
    json_decref(o);
    tachy_free(text);
}

// ---- measured rates

TEST(rates_are_measured_once)
{
    char dir[] = P_tmpdir "/tachy-rates-XXXXXX";
    struct tachy_gpu_rates r;
    CHECK(mkdtemp(dir));
    setenv("XDG_CACHE_HOME", dir, 1);
    open_device();
    struct fake_cuda_counts *counts = CUDA(fake_cuda_count);
    CHECK(!tachy_gpu_rates_cached(&r, &device));
    CHECK_INT(tachy_gpu_rates(&r, &device, &log_errors), TACHY_OK);
    // The median; where this thread is held up for half a millisecond, the stream runs dry.
    CHECK(near(r.copy_bps, FAKE_COPY_BPS, 0.01));
    CHECK(near(r.to_host_bps, FAKE_COPY_BPS / 2, 0.01) && near(r.to_device_bps, FAKE_COPY_BPS / 2, 0.01));
    CHECK(near(r.flops[TACHY_RATE_FP16], FAKE_FP16, 0.01));
    CHECK(near(r.flops[TACHY_RATE_TF32], FAKE_TF32, 0.01));
    CHECK_INT(counts->allocations + counts->streams + counts->events, 0);
    int gemms = counts->gemms;
    CHECK(gemms > 0);
    struct tachy_gpu_rates again;
    CHECK_INT(tachy_gpu_rates(&again, &device, &log_errors), TACHY_OK);
    CHECK_INT(counts->gemms, gemms);
    CHECK(near(again.to_host_bps, r.to_host_bps, 1e-9));
    CHECK(near(again.copy_bps, r.copy_bps, 1e-9) && near(again.flops[0], r.flops[0], 1e-9));
    struct tachy_device other = device; // another device, and the same with another driver
    snprintf(other.name, sizeof(other.name), "Another GPU");
    CHECK(!tachy_gpu_rates_cached(&r, &other));
    other = device;
    other.driver = 13010;
    CHECK(!tachy_gpu_rates_cached(&r, &other));
    CUDA(fake_cuda_fail, 700);
    CHECK_INT(tachy_gpu_rates_measure(&r, &device, &log_errors), TACHY_ERR_EXTERNAL);
    CHECK(strstr(last_message, "a fake failure"));
    CUDA(fake_cuda_fail, 0);
    CHECK_INT(counts->allocations + counts->streams + counts->events, 0);
    char *path = tachy_asprintf("%s/tachy/gpu-rates.json", dir);
    CHECK_INT(unlink(path), 0);
    tachy_free(path);
}

// ---- saturation

struct lanes {
    cuda_stream stream[4], shared;
    cuda_event before, after;
    int left; // calls until one fails; below 0: none does
};

static int queue_apart(void *user, int lane)
{
    struct lanes *l = user;
    CUDA(fake_cuda_launch, l->stream[lane], 50000);
    return l->left-- ? TACHY_OK : TACHY_ERR_EXTERNAL;
}

// All lanes need the same part of the device.
static int queue_shared(void *user, int lane)
{
    struct lanes *l = user;
    const struct tachy_cu *cu = device.cu;
    CHECK_INT(cu->event_record(l->before, l->stream[lane]), 0);
    CHECK_INT(cu->stream_wait_event(l->shared, l->before, 0), 0);
    CUDA(fake_cuda_launch, l->shared, 50000);
    CHECK_INT(cu->event_record(l->after, l->shared), 0);
    CHECK_INT(cu->stream_wait_event(l->stream[lane], l->after, 0), 0);
    return TACHY_OK;
}

TEST(a_device_is_saturated_by_several_streams)
{
    struct lanes l = {.left = -1};
    open_device();
    struct fake_cuda_counts *counts = CUDA(fake_cuda_count);
    CHECK_INT(tachy_device_enter(&device, &log_errors), TACHY_OK);
    for (int i = 0; i < 4; i++)
        CHECK_INT(device.cu->stream_create(&l.stream[i], CUDA_STREAM_OWN_ORDER), 0);
    CHECK_INT(device.cu->stream_create(&l.shared, CUDA_STREAM_OWN_ORDER), 0);
    CHECK_INT(device.cu->event_create(&l.before, CUDA_EVENT_ORDERS), 0);
    CHECK_INT(device.cu->event_create(&l.after, CUDA_EVENT_ORDERS), 0);
    tachy_device_leave(&device);
    struct tachy_gpu_load load = {.queue = queue_apart, .user = &l, .streams = l.stream, .lanes = 4};
    double fps;
    int best = 0;
    CHECK_INT(tachy_gpu_saturate(&fps, &best, &device, &load, &log_errors), TACHY_OK);
    CHECK_INT(best, 4);
    CHECK(near(fps, 4 / 50e-6, 0.02));
    best = 2;
    CHECK_INT(tachy_gpu_saturate(&fps, &best, &device, &load, &log_errors), TACHY_OK);
    CHECK_INT(best, 2);
    CHECK(near(fps, 2 / 50e-6, 0.02));
    load.queue = queue_shared;
    best = 0;
    CHECK_INT(tachy_gpu_saturate(&fps, &best, &device, &load, &log_errors), TACHY_OK);
    CHECK_INT(best, 1);
    CHECK(near(fps, 1 / 50e-6, 0.02));
    load.queue = queue_apart;
    l.left = 5;
    CHECK_INT(tachy_gpu_saturate(&fps, &best, &device, &load, &log_errors), TACHY_ERR_EXTERNAL);
    CUDA(fake_cuda_fail, 700);
    CHECK_INT(tachy_gpu_saturate(&fps, &best, &device, &load, &log_errors), TACHY_ERR_EXTERNAL);
    CHECK(strstr(last_message, "a fake failure"));
    CUDA(fake_cuda_fail, 0);
    for (int i = 0; i < 4; i++)
        device.cu->stream_destroy(l.stream[i]);
    device.cu->stream_destroy(l.shared);
    device.cu->event_destroy(l.before);
    device.cu->event_destroy(l.after);
    CHECK_INT(counts->allocations + counts->streams + counts->events, 0);
}

// ---- memory

static size_t give_way(void *user, size_t want)
{
    struct tachy_block *b = user;
    size_t size = b->size;
    struct tachy_memory *m = *(struct tachy_memory **)(b + 1);
    tachy_memory_give(m, b);
    return size;
}

// The budget of this program, and of all programs together: a cache gives way for either.
TEST(memory_on_the_device)
{
    struct {
        struct tachy_block block;
        struct tachy_memory *m;
    } cached = {0};
    struct tachy_block a = {0}, b = {0};
    const size_t gib = (size_t)1 << 30;
    open_device();
    CHECK_INT(tachy_memory_open(&cached.m, &(struct tachy_memory_params){.log = &log_errors}), TACHY_OK);
    struct tachy_gpu_mem_params p = {.fraction = 0.5, .vram_most = 0.75, .pinned = gib, .log = &log_errors};
    CHECK_INT(tachy_memory_take(cached.m, &a, TACHY_DEVICE, TACHY_MEMORY_FRAMES, gib), TACHY_ERR_UNSUPPORTED);
    CHECK_INT(tachy_gpu_mem_open(cached.m, &device, &p), TACHY_OK);
    CHECK_INT(tachy_memory_take(cached.m, &cached.block, TACHY_DEVICE, TACHY_MEMORY_CACHE, 2 * gib), TACHY_OK);
    struct tachy_cache c = {.mem = TACHY_DEVICE, .shrink = give_way, .user = &cached};
    tachy_memory_add_cache(cached.m, &c);
    CHECK_INT(tachy_memory_take(cached.m, &a, TACHY_DEVICE, TACHY_MEMORY_FRAMES, 7 * gib), TACHY_OK);
    CHECK(!cached.block.size); // 9 of 8 GiB
    CHECK_INT(tachy_memory_take(cached.m, &b, TACHY_DEVICE, TACHY_MEMORY_FRAMES, 2 * gib), TACHY_ERR_NOMEM);
    CHECK(strstr(last_message, "of device memory are taken"));
    tachy_memory_give(cached.m, &a);

    CUDA(fake_cuda_others, 9 * gib); // 3 of the 12 that may be in use are left
    CHECK_INT(tachy_memory_take(cached.m, &cached.block, TACHY_DEVICE, TACHY_MEMORY_CACHE, 2 * gib), TACHY_OK);
    CHECK_INT(tachy_memory_take(cached.m, &a, TACHY_DEVICE, TACHY_MEMORY_FRAMES, 3 * gib), TACHY_OK);
    CHECK(!cached.block.size);
    tachy_memory_remove_cache(cached.m, &c);
    tachy_memory_give(cached.m, &a);
    CUDA(fake_cuda_others, gib);

    CHECK_INT(tachy_memory_take(cached.m, &a, TACHY_PINNED, TACHY_MEMORY_FRAMES, gib + 1), TACHY_ERR_NOMEM);
    CHECK_INT(tachy_memory_explain(cached.m), TACHY_ERR_LIMIT);
    CHECK(strstr(last_message, "more pinned memory for frames would exceed the 1024.0 MiB"));
    CHECK_INT(tachy_memory_take(cached.m, &a, TACHY_PINNED, TACHY_MEMORY_FRAMES, 3 << 20), TACHY_OK);
    struct tachy_memory_stats s;
    tachy_memory_read(cached.m, &s);
    CHECK(s.total[TACHY_PINNED] == 3 << 20 && s.total[TACHY_DEVICE] == 0);
    tachy_memory_give(cached.m, &a);
    tachy_memory_close(&cached.m);
    CHECK_INT(CUDA(fake_cuda_count)->allocations, 0);
}

int main(void)
{
    static const struct test_case cases[] = {
        TEST_CASE(kernels_refuse), TEST_CASE(libraries_are_found_or_named), TEST_CASE(driver_without_gpu),
        TEST_CASE(doctor_names_gpu_and_libraries), TEST_CASE(rates_are_measured_once),
        TEST_CASE(a_device_is_saturated_by_several_streams), TEST_CASE(memory_on_the_device),
    };
    return test_run(cases, sizeof(cases) / sizeof(cases[0]));
}
