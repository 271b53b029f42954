#include "../unit/test.h"

#include "base/base.h"
#include "base/clock.h"
#include "profile/profile_priv.h"
#include "../unit/rows.h"

#include <math.h>
#include <unistd.h>

// The GPU's side of the profiler on a real device: known work (matrix products through cuBLAS,
// copies) measured by events, CUPTI, NVML and the host's clock, which must agree. Exit status 77
// if there is no GPU. Figures go to standard output as lines "figure NAME VALUE UNIT".
//
//     test_gpu_profile            all checks
//     test_gpu_profile --ranges   five products, three of them in an NVTX range of the step
//                                 `model`: for a tool such as ncu, which counts them

enum { N = 8192, MAX_PRODUCTS = 2000 };
static const double product_ops = 2.0 * N * N * N;
static const size_t product_bytes = (size_t)N * N * 2, copy_bytes = (size_t)1 << 30;

static void on_message(void *user, enum tachy_log_level level, const char *msg)
{
    printf("     log: %s\n", msg);
}
static const struct tachy_log log_all = {.fn = on_message, .max_level = TACHY_LOG_WARN};

static struct gpu_test {
    struct tachy_device d;
    const struct tachy_cu *cu;
    const struct tachy_cublas *blas;
    cublas_handle handle;
    cuda_stream stream[2];
    cuda_address a, b, c, from[2], to[2];
    struct tachy_gpu_rates rates;
    tachy_profile *profile;
    int products, copies;          // of each case
    uint64_t begun, ended;         // of the products, CLOCK_MONOTONIC
    double before_mib, wanted_mib; // memory in use before; taken since then
    json_t *json, *trace;
} g;

static void figure(const char *name, double value, const char *unit)
{
    printf("figure %s %.6g %s\n", name, value, unit);
}

#define OK(call) CHECK_INT(call, 0)

static double number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static json_t *gpu_part(const char *key)
{
    return json_object_get(json_object_get(g.json, "gpu"), key);
}

// ---- work

static void multiply(void)
{
    float one = 1, zero = 0;
    OK(g.blas->gemm(g.handle, CUBLAS_NOT_TRANSPOSED, CUBLAS_NOT_TRANSPOSED, N, N, N, &one, g.a,
                    CUBLAS_F16, N, g.b, CUBLAS_F16, N, &zero, g.c, CUBLAS_F16, N,
                    CUBLAS_COMPUTE_F32, CUBLAS_ALGO_DEFAULT));
}

static void fill(cuda_address at, size_t bytes)
{
    static uint32_t block[1 << 18];
    uint32_t x = 2463534242u;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(block); i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        block[i] = (x & 0xbfffbfffu) | 0x20002000u; // fp16 of both signs, 2^-7 to 2
    }
    for (size_t done = 0; done < bytes; done += sizeof(block))
        OK(g.cu->copy_to_device(at + done, block, sizeof(block)));
}

static void start_work(void)
{
    for (int i = 0; i < 2; i++)
        OK(g.cu->stream_create(&g.stream[i], CUDA_STREAM_OWN_ORDER));
    cuda_address *const matrix[] = {&g.a, &g.b, &g.c};
    for (int i = 0; i < 3; i++)
        OK(g.cu->memory_alloc(matrix[i], product_bytes));
    fill(g.a, product_bytes);
    fill(g.b, product_bytes);
    OK(g.blas->create(&g.handle));
    OK(g.blas->set_stream(g.handle, g.stream[0]));
    multiply(); // cuBLAS allocates and picks its kernel
    OK(g.cu->stream_wait(g.stream[0]));
}

static struct tachy_gpu_timer *open_timer(tachy_profile *p, int stream, int depth)
{
    struct tachy_gpu_timer *t;
    struct tachy_gpu_timer_params q = {
        .profile = p, .device = &g.d, .stream = g.stream[stream], .depth = depth};
    CHECK_INT(tachy_gpu_timer_open(&t, &q), TACHY_OK);
    return t;
}

// ---- cases, in order: each builds on those before it

TEST(rates)
{
    struct tachy_gpu_rates again;
    CHECK_INT(tachy_gpu_rates_measure(&g.rates, &g.d, &log_all), TACHY_OK);
    CHECK_INT(tachy_gpu_rates_measure(&again, &g.d, &log_all), TACHY_OK);
    figure("copy", g.rates.copy_bps * 1e-12, "TB/s");
    figure("matmul_fp16", g.rates.flops[TACHY_RATE_FP16] * 1e-12, "TFLOP/s");
    figure("matmul_tf32", g.rates.flops[TACHY_RATE_TF32] * 1e-12, "TFLOP/s");
    CHECK(g.rates.copy_bps > 1e10 && g.rates.flops[TACHY_RATE_FP16] > 1e12);
    CHECK(g.rates.flops[TACHY_RATE_TF32] > 1e11);
    CHECK(fabs(again.copy_bps / g.rates.copy_bps - 1) < 0.05);
    CHECK(fabs(again.flops[0] / g.rates.flops[0] - 1) < 0.25); // clocks follow heat and power
    CHECK(tachy_gpu_rates_cached(&again, &g.d));
}

// Cost of an interval on the host, with nothing to wait for.
TEST(cost_of_an_interval)
{
    enum { TIMES = 2000 };
    tachy_profile *p;
    CHECK_INT(tachy_profile_open(&p, tachy_profile_params(.gpu_interval_ms = -1, .log = &log_all)),
              TACHY_OK);
    test_rows(&p->steps);
    struct tachy_gpu_timer *t = open_timer(p, 0, 256);
    uint64_t start = tachy_now_ns();
    for (int i = 0; i < TIMES; i++) {
        tachy_gpu_timer_begin(t, TEST_STEP_MODEL, (struct tachy_prof_item){i, 0});
        tachy_gpu_timer_end(t, NULL);
    }
    double us = (double)(tachy_now_ns() - start) * 1e-3 / TIMES;
    figure("host_time_of_an_interval", us, "us");
    CHECK(us < 30);
    tachy_gpu_timer_close(&t);
    tachy_profile_close(&p);
}

TEST(profile_opens)
{
    tachy_profile *p;
    CHECK_INT(tachy_profile_open(&p, tachy_profile_params(.gpu_interval_ms = 20,
                                                          .gpu_activity = true, .log = &log_all)),
              TACHY_OK);
    g.profile = p;
    if (!p)
        exit(1);    // said above; nothing else can be checked
    test_rows(&p->steps);
    usleep(300000); // sensors before anything is allocated
    size_t free_bytes, total;
    OK(g.cu->memory_info(&free_bytes, &total));
    for (int i = 0; i < 2; i++) {
        OK(g.cu->memory_alloc(&g.from[i], copy_bytes));
        OK(g.cu->memory_alloc(&g.to[i], copy_bytes));
        fill(g.from[i], copy_bytes);
    }
    g.wanted_mib = 4.0 * (double)copy_bytes / (1 << 20);
    usleep(300000);
}

// A stream that always has work: its intervals add up to the wall's time.
TEST(events_against_the_wall)
{
    g.products = (int)(1.5 * g.rates.flops[TACHY_RATE_FP16] / product_ops);
    g.products = TACHY_CLAMP(g.products, 20, MAX_PRODUCTS);
    struct tachy_gpu_timer *t = open_timer(g.profile, 0, MAX_PRODUCTS);
    multiply(); // clocks are up when it counts
    OK(g.cu->stream_wait(g.stream[0]));
    g.begun = tachy_now_ns();
    for (int i = 0; i < g.products; i++) {
        struct tachy_gpu_work w = {.bytes = 3.0 * (double)product_bytes, .ops = product_ops};
        tachy_gpu_timer_begin(t, TEST_STEP_MODEL, (struct tachy_prof_item){i, 0});
        multiply();
        tachy_gpu_timer_end(t, &w);
    }
    OK(g.cu->stream_wait(g.stream[0]));
    g.ended = tachy_now_ns();
    tachy_gpu_timer_close(&t);
    double wall = (double)(g.ended - g.begun) * 1e-9;
    double busy = (double)atomic_load(&g.profile->gpu.work.step[TEST_STEP_MODEL].busy_ns) * 1e-9;
    figure("products", g.products, "runs");
    figure("events_over_wall", busy / wall, "ratio");
    CHECK_INT(atomic_load(&g.profile->gpu.work.dropped), 0);
    CHECK(fabs(busy / wall - 1) < 0.05);
}

TEST(copies_on_two_streams)
{
    struct tachy_gpu_timer *t[2];
    g.copies = TACHY_CLAMP((int)(0.3 * g.rates.copy_bps / (2.0 * (double)copy_bytes)), 10, 400);
    for (int i = 0; i < 2; i++)
        t[i] = open_timer(g.profile, i, 1024);
    for (int n = 0; n < g.copies; n++) {
        for (int i = 0; i < 2; i++) {
            struct tachy_gpu_work w = {.bytes = 2.0 * (double)copy_bytes};
            tachy_gpu_timer_begin(t[i], TEST_STEP_COMPOSITE, (struct tachy_prof_item){n, 0});
            OK(g.cu->copy_on_device(g.to[i], g.from[i], copy_bytes, g.stream[i]));
            tachy_gpu_timer_end(t[i], &w);
        }
    }
    for (int i = 0; i < 2; i++)
        tachy_gpu_timer_close(&t[i]);
    usleep(100000); // one more reading of the sensors
}

static const json_t *step_of(const char *name)
{
    size_t i;
    json_t *s;
    json_array_foreach(
        json_object_get(gpu_part("work"), "steps"), i,
        s) if (!strcmp(json_string_value(json_object_get(s, "name")), name)) return s;
    return NULL;
}

TEST(derived_figures)
{
    char *text;
    CHECK_INT(tachy_profile_json(g.profile, &text), TACHY_OK);
    g.json = json_loads(text, 0, NULL);
    tachy_free(text);
    CHECK(g.json);
    const json_t *copy = step_of("composite"), *model = step_of("model");
    double bandwidth = number(copy, "bandwidth"), efficiency = number(model, "efficiency");
    figure("copy_bandwidth", 100 * bandwidth, "%");
    figure("matmul_efficiency", 100 * efficiency, "%");
    CHECK(bandwidth > 0.70 && bandwidth < 1.05);
    CHECK(efficiency > 0.70 && efficiency < 1.20); // a second of it may reach the power limit, or run faster than the rates were measured
    CHECK_INT(tachy_profile_text(g.profile, &text), TACHY_OK);
    fputs(text ? text : "", stdout);
    CHECK(text && strstr(text, "measured copy bandwidth") && strstr(text, "kernels and copies"));
    tachy_free(text);
}

TEST(activity_against_events)
{
    const json_t *activity = gpu_part("activity");
    double kernels = 0, copy_calls = 0, copied = 0;
    size_t i;
    json_t *s;
    json_array_foreach(json_object_get(activity, "by_time"), i, s)
    {
        const char *kind = json_string_value(json_object_get(s, "kind"));
        const char *name = json_string_value(json_object_get(s, "name"));
        if (!strcmp(kind, "kernel"))
            kernels += number(s, "total_ms") * 1e-3;
        if (!strcmp(name, "copy device to device")) {
            copy_calls += number(s, "calls");
            copied += number(s, "bytes");
        }
    }
    // One more product than was measured warmed up.
    double events = number(step_of("model"), "busy_s") * (g.products + 1) / g.products;
    figure("kernels_over_events", kernels / events, "ratio");
    CHECK(fabs(kernels / events - 1) < 0.05);
    CHECK_INT(copy_calls, 2 * g.copies);
    CHECK(copied == 2.0 * g.copies * (double)copy_bytes);
    CHECK_INT(number(activity, "dropped"), 0);
    CHECK_INT(number(activity, "untimed"), 0);
    figure("gpu_busy", 100 * number(activity, "busy"), "%");
}

TEST(sensors_saw_it)
{
    const json_t *device = json_array_get(gpu_part("devices"), 0);
    json_t *s = json_object_get(device, "sensors");
    json_t *memory = json_object_get(s, "memory"), *power = json_object_get(s, "power");
    double rise = number(memory, "max") - number(memory, "min");
    double most = number(json_object_get(s, "utilisation"), "max");
    figure("memory_rise", rise, "MiB");
    figure("utilisation", most, "%");
    figure("power", number(power, "max"), "W");
    figure("sm_clock", number(json_object_get(s, "SM clock"), "max"), "MHz");
    figure("temperature", number(json_object_get(s, "temperature"), "max"), "C");
    figure("slowed", number(device, "slowed_s"), "s");
    figure("sensor_samples", number(memory, "samples"), "samples");
    CHECK(rise >= g.wanted_mib);
    CHECK(most >= 50 && most <= 100); // its own period is up to a second
    CHECK(number(power, "max") > number(power, "min"));
    CHECK(number(json_object_get(s, "SM clock"), "max") > 0);
    CHECK(json_object_get(s, "decoder") != NULL);
}

static int events_of(const char *cat, const char *name, double (*out)[2], int most)
{
    int n = 0;
    size_t i;
    json_t *e;
    json_array_foreach(json_object_get(g.trace, "traceEvents"), i, e)
    {
        const char *c = json_string_value(json_object_get(e, "cat"));
        const char *k = json_string_value(json_object_get(e, "name"));
        // Nameless entries are kernels. The driver fills its own memory when it loads code.
        bool kernel = c && !strstr(k, "copy ") && strcmp(k, "set memory");
        bool fits = c && !strcmp(c, cat) && (name ? !strcmp(k, name) : kernel);
        if (!fits || n == most)
            continue;
        out[n][0] = number(e, "ts");
        out[n++][1] = number(e, "ts") + number(e, "dur");
    }
    return n;
}

// The trace is whole, and three clocks agree in it: each kernel lies in the host's time of the
// case and in the event interval around it. Each pairing of clocks is good to some tens of us; the
// figures say how far apart they really were.
TEST(trace_and_clocks)
{
    enum { SLACK_US = 200 }; // CUPTI converts from the device's clock itself, which adds to ours
    static double kernel[3 * MAX_PRODUCTS][2], span[MAX_PRODUCTS][2];
    char path[] = P_tmpdir "/tachy-gpu-trace-XXXXXX";
    close(mkstemp(path));
    CHECK_INT(tachy_profile_write_trace(g.profile, path), TACHY_OK);
    g.trace = json_load_file(path, 0, NULL);
    unlink(path);
    CHECK(g.trace);
    double from = (double)(g.begun - g.profile->start.ns) * 1e-3;
    double to = (double)(g.ended - g.profile->start.ns) * 1e-3;
    int n = events_of("step", "model", span, MAX_PRODUCTS), outside = 0, apart = 0, in = 0;
    int kernels = events_of("gpu", NULL, kernel, 3 * MAX_PRODUCTS);
    CHECK_INT(n, g.products);
    double before = 0, after = 0;
    for (int i = 0; i < kernels; i++) {
        if (kernel[i][0] + kernel[i][1] < 2 * from)
            continue; // of the product before the measurement
        int at = 0;
        while (at + 1 < n && span[at][1] < (kernel[i][0] + kernel[i][1]) / 2)
            at++;
        in++;
        outside += kernel[i][0] < from - SLACK_US || kernel[i][1] > to + SLACK_US;
        apart += kernel[i][0] < span[at][0] - SLACK_US || kernel[i][1] > span[at][1] + SLACK_US;
        before = fmax(before, span[at][0] - kernel[i][0]);
        after = fmax(after, kernel[i][1] - span[at][1]);
    }
    figure("kernel_before_its_interval", before, "us");
    figure("kernel_after_its_interval", after, "us");
    CHECK(in >= g.products);
    CHECK_INT(outside, 0);
    CHECK_INT(apart, 0);
    static double copies[1000][2];
    CHECK_INT(events_of("gpu", "copy device to device", copies, 1000), 2 * g.copies);
}

// Cost of recording per launch: small copies, with and without.
TEST(cost_of_activity)
{
    enum { TIMES = 4000 };
    double us[2];
    for (int with = 1; with >= 0; with--) {
        uint64_t start = tachy_now_ns();
        for (int i = 0; i < TIMES; i++)
            OK(g.cu->copy_on_device(g.to[0], g.from[0], 4096, g.stream[0]));
        us[with] = (double)(tachy_now_ns() - start) * 1e-3 / TIMES;
        OK(g.cu->stream_wait(g.stream[0]));
        tachy_profile_close(&g.profile); // the second time: already closed
    }
    figure("launch", us[0], "us");
    figure("launch_while_recording", us[1], "us");
    CHECK(us[0] > 0);
}

static void run_ranges(void)
{
    start_work();
    for (int i = 0; i < 5; i++) {
        if (i % 2 == 0)
            tachy_step_begin("model");
        multiply();
        OK(g.cu->stream_wait(g.stream[0]));
        if (i % 2 == 0)
            tachy_step_end();
    }
}

static bool find_gpu(void)
{
    return tachy_cu_load(&g.cu, TACHY_LOG_WARN, &log_all) == TACHY_OK &&
           tachy_device_describe(&g.d, g.cu, 0, &log_all) == TACHY_OK &&
           tachy_device_enter(&g.d, &log_all) == TACHY_OK;
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(rates),
        TEST_CASE(cost_of_an_interval),
        TEST_CASE(profile_opens),
        TEST_CASE(events_against_the_wall),
        TEST_CASE(copies_on_two_streams),
        TEST_CASE(derived_figures),
        TEST_CASE(activity_against_events),
        TEST_CASE(sensors_saw_it),
        TEST_CASE(trace_and_clocks),
        TEST_CASE(cost_of_activity),
    };
    if (!find_gpu())
        SKIP("there is no NVIDIA GPU here");
    if (tachy_cublas_load(&g.blas, TACHY_LOG_ERR, &log_all) < 0)
        return 1;
    printf("GPU: %s, compute capability %d.%d\n", g.d.name, g.d.cc_major, g.d.cc_minor);
    if (argc > 1 && !strcmp(argv[1], "--ranges")) {
        CHECK(tachy_nvtx_init(&log_all));
        run_ranges();
        return test_failures ? 1 : 0;
    }
    start_work();
    return test_run(cases, TACHY_ARRAY_SIZE(cases));
}
