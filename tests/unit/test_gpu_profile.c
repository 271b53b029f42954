#include "gpu_fakes.h"

#include "base/clock.h"
#include "cuda/nvtx.h"
#include "profile/energy.h"
#include "profile/profile_priv.h"
#include "rows.h"

#include <stdlib.h>
#include <tachy/gpu.h>
#include <unistd.h>

// The GPU's side of the profiler.

static json_t *json_of(tachy_profile *p)
{
    char *text;
    CHECK_INT(tachy_profile_json(p, &text), TACHY_OK);
    json_t *o = json_loads(text, 0, NULL);
    CHECK(o);
    tachy_free(text);
    return o;
}

static json_t *trace_of(tachy_profile *p)
{
    char path[] = P_tmpdir "/tachy-gpu-XXXXXX";
    close(mkstemp(path));
    CHECK_INT(tachy_profile_write_trace(p, path), TACHY_OK);
    json_t *o = json_load_file(path, 0, NULL);
    CHECK(o);
    unlink(path);
    return o;
}

static double real(const json_t *o, const char *a, const char *b)
{
    const json_t *v = json_object_get(o, a);
    return json_number_value(b ? json_object_get(v, b) : v);
}

// ---- sensors

static int count_named(const json_t *trace, const char *ph, const char *name)
{
    int n = 0;
    size_t i;
    json_t *e;
    json_array_foreach(json_object_get(trace, "traceEvents"), i, e) n +=
        !strcmp(json_string_value(json_object_get(e, "ph")), ph) &&
        !strcmp(json_string_value(json_object_get(e, "name")), name);
    return n;
}

TEST(sensors_over_time)
{
    struct fake_nvml_gpu calm = {10, 5, 1, 2, 40, 345, 3201, 80000, 100 << 20, 0x1, 0};
    struct fake_nvml_gpu busy = {90, 60, 3, 4, 70, 1980, 3201, 650500, 1100 << 20, 0x4 | 0x20, 0};
    tachy_profile *p;
    CUDA(fake_cuda_list, 2);
    NVML(fake_nvml_set, 0, &calm);
    NVML(fake_nvml_set, 1, &calm);
    CHECK_INT(tachy_profile_open(&p, tachy_profile_params(.gpu_interval_ms = 2)), TACHY_OK);
    CHECK_INT(NVML(fake_nvml_users), 1);
    usleep(100000);
    NVML(fake_nvml_set, 0, &busy);
    usleep(100000);
    NVML(fake_nvml_set, 0, &calm);
    usleep(20000);
    json_t *o = json_of(p), *devices = json_object_get(json_object_get(o, "gpu"), "devices");
    CHECK_INT(json_array_size(devices), 2);
    json_t *first = json_array_get(devices, 0), *s = json_object_get(first, "sensors");
    CHECK_STR(json_string_value(json_object_get(first, "name")), "Fake GPU 0");
    CHECK_INT(real(json_object_get(s, "memory"), "min", NULL), 100);
    CHECK_INT(real(json_object_get(s, "memory"), "max", NULL), 1100);
    CHECK_INT(real(json_object_get(s, "utilisation"), "max", NULL), 90);
    CHECK_INT(real(json_object_get(s, "SM clock"), "min", NULL), 345);
    CHECK(fabs(real(json_object_get(s, "power"), "max", NULL) - 650.5) < 0.01);
    CHECK_INT(real(json_object_get(s, "decoder"), "max", NULL), 4);
    CHECK_INT(real(json_object_get(s, "temperature"), "max", NULL), 70);
    double mean = real(json_object_get(s, "utilisation"), "mean", NULL);
    CHECK(mean > 20 && mean < 80);
    // Slow because of power and heat for about the middle 100 of 220 ms.
    double slowed = real(first, "slowed_s", NULL);
    CHECK(slowed > 0.03 && slowed < 0.18);
    CHECK(real(first, "clock_reasons_s", "power cap") == slowed);
    CHECK(real(first, "clock_reasons_s", "idle") > 0.03);
    // What a device does not tell is absent, not zero.
    json_t *second = json_object_get(json_array_get(devices, 1), "sensors");
    CHECK(!json_object_get(second, "power") && !json_object_get(second, "decoder"));
    CHECK(json_object_get(second, "memory"));
    CHECK(json_is_null(json_object_get(first, "power_limit_w")));
    json_t *trace = trace_of(p);
    CHECK(count_named(trace, "C", "GPU 0 memory") > 20);
    CHECK_INT(count_named(trace, "C", "GPU 1 power"), 0);
    char *text;
    CHECK_INT(tachy_profile_text(p, &text), TACHY_OK);
    CHECK(strstr(text, "Fake GPU 1") && strstr(text, "slowed by power cap") &&
          strstr(text, "at least one kernel ran"));
    tachy_free(text);
    json_decref(trace);
    json_decref(o);
    tachy_profile_close(&p);
    CUDA(fake_cuda_list, 1);
    CHECK_INT(NVML(fake_nvml_users), 0);
}

// NVML's order is that of the bus, and it lists what CUDA_VISIBLE_DEVICES hides, too. Only NVML's first GPU tells its power.
TEST(sensors_have_cuda_s_numbers)
{
    struct fake_nvml_gpu idle = {.used = 100 << 20, .milliwatt = 80000};
    tachy_profile *p;
    char *text;
    setenv("FAKE_CUDA_GPUS", "1,0", 1);
    NVML(fake_nvml_set, 0, &idle);
    NVML(fake_nvml_set, 1, &idle);
    CHECK_INT(tachy_profile_open(&p, tachy_profile_params(.gpu_interval_ms = 2)), TACHY_OK);
    usleep(20000);
    json_t *o = json_of(p), *devices = json_object_get(json_object_get(o, "gpu"), "devices"), *trace = trace_of(p);
    CHECK_INT(json_array_size(devices), 2);
    for (int i = 0; i < 2; i++) {
        const json_t *d = json_array_get(devices, (size_t)i);
        CHECK_INT(json_integer_value(json_object_get(d, "gpu")), i);
        CHECK_STR(json_string_value(json_object_get(d, "name")), i ? "Fake GPU 0" : "Fake GPU 1");
    }
    CHECK(count_named(trace, "C", "GPU 1 power") > 0 && count_named(trace, "C", "GPU 0 memory") > 0);
    CHECK_INT(count_named(trace, "C", "GPU 0 power"), 0);
    CHECK_INT(tachy_profile_text(p, &text), TACHY_OK);
    CHECK(strstr(text, "GPU 0: Fake GPU 1,") && strstr(text, "GPU 1: Fake GPU 0,"));
    tachy_free(text);
    json_decref(trace);
    json_decref(o);
    tachy_profile_close(&p);
    CHECK_INT(tachy_gpu_now_text(&text), TACHY_OK);
    CHECK_STR(text, "GPU 0 Fake GPU 1: utilisation 0 %, memory 100 MiB\nGPU 1 Fake GPU 0: utilisation 0 %, memory 100 MiB, power 80 W\n");
    tachy_free(text);
    setenv("FAKE_CUDA_GPUS", "1", 1);
    CHECK_INT(tachy_gpu_now_text(&text), TACHY_OK);
    CHECK_STR(text, "GPU 0 Fake GPU 1: utilisation 0 %, memory 100 MiB\n");
    tachy_free(text);
    unsetenv("FAKE_CUDA_GPUS");
    CHECK_INT(NVML(fake_nvml_users), 0);
}

TEST(no_sensors)
{
    tachy_profile *p;
    messages = 0;
    NVML(fake_nvml_fail, 9); // the module is not loaded
    CHECK_INT(tachy_profile_open(&p, tachy_profile_params(.log = &log_errors)), TACHY_OK);
    json_t *o = json_of(p);
    CHECK(json_is_null(json_object_get(o, "gpu")));
    json_decref(o);
    tachy_profile_close(&p);
    NVML(fake_nvml_fail, 0);
    NVML(fake_nvml_list, 0);
    CHECK_INT(tachy_profile_open(&p, tachy_profile_params(.log = &log_errors)), TACHY_OK);
    tachy_profile_close(&p);
    CHECK_INT(NVML(fake_nvml_users), 0);
    NVML(fake_nvml_list, 2);
    CHECK_INT(messages, 0); // nobody asked for a GPU
    CHECK_INT(tachy_profile_open(&p, tachy_profile_params(.gpu_interval_ms = 60001)),
              TACHY_ERR_INVAL);
}

TEST(sensors_now)
{
    struct fake_nvml_gpu calm = {10, 5, 1, 2, 40, 345, 3201, 80000, 100 << 20, 0x1, 0}, busy = {90, 60, 3, 4, 70, 1980, 3201, 650500, 1100 << 20, 0x4, 0};
    char *text;
    CUDA(fake_cuda_list, 2);
    NVML(fake_nvml_set, 0, &calm);
    NVML(fake_nvml_set, 1, &busy);
    CHECK_INT(tachy_gpu_now_text(&text), TACHY_OK);
    CHECK(strstr(text, "GPU 0 ") == text && strstr(text, ": utilisation 10 %, memory 100 MiB, power 80 W"));
    CHECK(strstr(text, "\nGPU 1 ") && strstr(text, ": utilisation 90 %, memory 1100 MiB\n")); // no sensor of power
    tachy_free(text);
    CHECK_INT(NVML(fake_nvml_users), 0);
    NVML(fake_nvml_list, 0);
    CHECK_INT(tachy_gpu_now_text(&text), TACHY_OK);
    CHECK(text && !*text);
    tachy_free(text);
    NVML(fake_nvml_list, 2);
    CUDA(fake_cuda_list, 1);
    CHECK_INT(NVML(fake_nvml_users), 0);
}

static int open_watch(tachy_gpu_watch **w, const char *option, const char *gpus)
{
    tachy_settings *s;
    CHECK_INT(tachy_settings_new(&s, &log_errors), TACHY_OK);
    CHECK_INT(tachy_settings_set(s, option, gpus, "command line"), TACHY_OK);
    int err = tachy_gpu_watch_open(w, s);
    tachy_settings_free(&s);
    return err;
}

// In use in MiB, as NVML counts the GPUs.
static void use_memory(unsigned long long first, unsigned long long second)
{
    NVML(fake_nvml_set, 0, &(struct fake_nvml_gpu){.used = first << 20});
    NVML(fake_nvml_set, 1, &(struct fake_nvml_gpu){.used = second << 20});
}

// A watch says `most` of 1000 MiB on NVML's second GPU while another program takes 5000 MiB on the first one.
static void check_watch(const char *cuda, const char *option, const char *gpus, int most)
{
    tachy_gpu_watch *w;
    double mib = 1;
    setenv("FAKE_CUDA_GPUS", cuda, 1);
    use_memory(100, 2000);
    CHECK_INT(open_watch(&w, option, gpus), TACHY_OK);
    CHECK_INT(tachy_gpu_watch_read(w, &mib), TACHY_OK);
    CHECK_INT(mib, 0);
    use_memory(5100, 3000);
    for (int i = 0; i < 5000 && mib < most && tachy_gpu_watch_read(w, &mib) == TACHY_OK; i++)
        usleep(1000);
    usleep(30000); // a GPU too many would show
    use_memory(100, 2000);
    CHECK_INT(tachy_gpu_watch_read(w, &mib), TACHY_OK);
    CHECK_INT(mib, most);
    tachy_gpu_watch_close(&w);
    CHECK(!w);
    unsetenv("FAKE_CUDA_GPUS");
}

// The most on one GPU of those that the settings name by CUDA's numbers, beyond what was in use before.
TEST(memory_watched)
{
    check_watch("0,1", "gpu.id", "1", 1000);
    check_watch("1,0", "gpu.id", "0", 1000);
    check_watch("1,0", "gpu.id", "1", 5000);
    check_watch("1", "gpu.id", "0", 1000);
    check_watch("1", "gpu.ids", "all", 1000);
    check_watch("1,0", "gpu.ids", "0,1", 5000);
    check_watch("1,0", "gpu.ids", "all", 5000);
    CHECK_INT(NVML(fake_nvml_users), 0);
}

TEST(memory_that_cannot_be_watched)
{
    struct fake_nvml_gpu secret = {.used = UINT64_MAX};
    tachy_gpu_watch *w = NULL;
    double mib = 1;
    tachy_gpu_watch_close(&w);
    messages = 0;
    CHECK_INT(open_watch(&w, "gpu.id", "1"), TACHY_ERR_INVAL); // the driver counts one GPU
    CHECK(!w && messages == 1);
    CUDA(fake_cuda_list, 2);
    NVML(fake_nvml_list, 1);
    CHECK_INT(open_watch(&w, "gpu.ids", "0,1"), TACHY_ERR_UNAVAILABLE); // NVML knows one of them
    CHECK(!w);
    NVML(fake_nvml_list, 0);
    CHECK_INT(open_watch(&w, "gpu.id", "0"), TACHY_ERR_UNAVAILABLE);
    CHECK(!w);
    NVML(fake_nvml_list, 2);
    use_memory(100, 100);
    NVML(fake_nvml_set, 1, &secret);
    CHECK_INT(open_watch(&w, "gpu.ids", "0,1"), TACHY_OK);
    CHECK_INT(tachy_gpu_watch_read(w, &mib), TACHY_ERR_UNAVAILABLE); // it says it of one of them
    CHECK_INT(mib, 0);
    tachy_gpu_watch_close(&w);
    CHECK_INT(messages, 1);
    CUDA(fake_cuda_list, 1);
    CHECK_INT(NVML(fake_nvml_users), 0);
}

TEST(energy_of_the_run_s_gpu)
{
    struct fake_nvml_gpu gpu = {.millijoule = 5000};
    struct tachy_energy e;
    const int first = 0, none = 99;
    static const char nothing[] = "/nonexistent"; // of the CPU's counters
    NVML(fake_nvml_set, 0, &gpu);
    struct tachy_energy_meter *m = tachy_energy_open(nothing, &first, 1, NULL);
    CHECK(m && NVML(fake_nvml_users) == 1);
    gpu.millijoule = 7250;
    NVML(fake_nvml_set, 0, &gpu);
    tachy_energy_read(m, &e);
    CHECK(near(e.joules, 2.25, 1e-9) && e.gpus && !e.cpu);
    gpu.millijoule = 1; // the driver was started anew
    NVML(fake_nvml_set, 0, &gpu);
    tachy_energy_read(m, &e);
    CHECK(e.joules == 0 && !e.gpus);
    tachy_energy_close(&m);
    CHECK_INT(NVML(fake_nvml_users), 0);
    CHECK(!tachy_energy_open(nothing, &none, 1, NULL)); // there is no such GPU
    gpu.millijoule = UINT64_MAX;
    NVML(fake_nvml_set, 0, &gpu);
    CHECK(!tachy_energy_open(nothing, &first, 1, NULL)); // it has no counter
    NVML(fake_nvml_fail, 1);
    CHECK(!tachy_energy_open(nothing, &first, 1, NULL)); // NVML does not begin
    NVML(fake_nvml_fail, 0);
    CHECK_INT(NVML(fake_nvml_users), 0);
}

// CUDA's first GPU is NVML's second one; what others use on NVML's first one is none of the run's.
TEST(energy_by_cuda_s_numbers)
{
    struct fake_nvml_gpu gpu = {.millijoule = 5000};
    struct tachy_energy e;
    const int first = 0;
    setenv("FAKE_CUDA_GPUS", "1,0", 1);
    NVML(fake_nvml_set, 0, &gpu);
    NVML(fake_nvml_set, 1, &gpu);
    struct tachy_energy_meter *m = tachy_energy_open("/nonexistent", &first, 1, NULL);
    gpu.millijoule = 7250;
    NVML(fake_nvml_set, 1, &gpu);
    gpu.millijoule = 95000;
    NVML(fake_nvml_set, 0, &gpu);
    tachy_energy_read(m, &e);
    CHECK(near(e.joules, 2.25, 1e-9) && e.gpus);
    tachy_energy_close(&m);
    unsetenv("FAKE_CUDA_GPUS");
    CHECK_INT(NVML(fake_nvml_users), 0);
}

// ---- events

static struct tachy_gpu_timer *open_timer(tachy_profile *p, cuda_stream *stream, int depth)
{
    struct tachy_gpu_timer *t;
    device.cu->stream_create(stream, CUDA_STREAM_OWN_ORDER);
    struct tachy_gpu_timer_params q = {
        .profile = p, .device = &device, .stream = *stream, .depth = depth};
    CHECK_INT(tachy_gpu_timer_open(&t, &q), TACHY_OK);
    return t;
}

static tachy_profile *open_profile(bool activity)
{
    tachy_profile *p;
    CHECK_INT(
        tachy_profile_open(&p, tachy_profile_params(.gpu_interval_ms = -1, .gpu_activity = activity,
                                                    .log = &log_errors)),
        TACHY_OK);
    test_rows(&p->steps);
    return p;
}

// The spans of a step in the trace: start and duration in ns since the profile was opened.
static int spans_of(const json_t *trace, const char *name, double (*out)[2], int most)
{
    int n = 0;
    size_t i;
    json_t *e;
    json_array_foreach(json_object_get(trace, "traceEvents"), i, e)
    {
        if (strcmp(json_string_value(json_object_get(e, "ph")), "X") ||
            strcmp(json_string_value(json_object_get(e, "name")), name) || n == most)
            continue;
        out[n][0] = real(e, "ts", NULL) * 1e3;
        out[n++][1] = real(e, "dur", NULL) * 1e3;
    }
    return n;
}

TEST(events_time_two_streams)
{
    tachy_profile *p = open_profile(false);
    struct tachy_gpu_timer *t[2];
    cuda_stream stream[2];
    uint64_t opened = p->start.ns, begun = 0;
    for (int i = 0; i < 2; i++)
        t[i] = open_timer(p, &stream[i], 64);
    struct fake_cuda_counts *counts = CUDA(fake_cuda_count);
    int waits = counts->waits;
    begun = tachy_now_ns();
    for (int i = 0; i < 2; i++) // so that they do not run dry where this thread is held up
        CUDA(fake_cuda_launch, stream[i], 500000000);
    for (int frame = 0; frame < 20; frame++) {
        for (int i = 0; i < 2; i++) {
            struct tachy_gpu_work w = {.bytes = 4e9, .ops = 1.75e12, .rate = TACHY_RATE_FP16};
            tachy_gpu_timer_begin(t[i], TEST_STEP_MODEL, (struct tachy_prof_item){frame, 0});
            CUDA(fake_cuda_launch, stream[i], 5000000);
            tachy_gpu_timer_end(t[i], &w);
        }
    }
    CHECK_INT(counts->waits, waits); // 100 ms of work are enqueued, and nothing has waited
    for (int i = 0; i < 2; i++)
        tachy_gpu_timer_close(&t[i]);
    uint64_t ended = tachy_now_ns();
    json_t *trace = trace_of(p);
    double span[64][2];
    CHECK_INT(spans_of(trace, "model", span, 64), 40);
    for (int i = 0; i < 40; i++) {
        CHECK(near(span[i][1], 5e6, 0.002));
        CHECK(span[i][0] > (double)(begun - opened) - 1e6);
        CHECK(span[i][0] + span[i][1] < (double)(ended - opened) + 1e6);
    }
    json_t *o = json_of(p), *work = json_object_get(json_object_get(o, "gpu"), "work");
    json_t *model = json_array_get(json_object_get(work, "steps"), 0);
    CHECK(near(real(model, "busy_s", NULL), 0.2, 0.002));
    // The streams ran side by side: 40 x 4 GB and 40 x 1.75 TFLOP in about 100 ms.
    double time_s = real(model, "time_s", NULL);
    double host_s = (double)(ended - begun) * 1e-9; // more than 100 ms where this thread had to wait
    CHECK(time_s > 0.099 && time_s < TACHY_MAX(0.2, host_s));
    double copy = real(work, "measured", "copy_bytes_per_s");
    double fp16 = real(work, "measured", "fp16_ops_per_s");
    CHECK(near(copy, FAKE_COPY_BPS, 0.01) && near(fp16, FAKE_FP16, 0.01));
    CHECK(near(real(model, "bandwidth", NULL), 160e9 / time_s / copy, 0.002));
    CHECK(near(real(model, "efficiency", NULL), 70e12 / time_s / fp16, 0.002));
    json_t *step = json_array_get(json_object_get(o, "steps"), 0);
    CHECK_STR(json_string_value(json_object_get(step, "stage")), "gpu");
    CHECK_INT(json_integer_value(json_object_get(step, "calls")), 40);
    CHECK(real(step, "wait_s", NULL) > 0.5); // they queued behind each other
    char *text;
    CHECK_INT(tachy_profile_text(p, &text), TACHY_OK);
    CHECK(strstr(text, "bytes that had to move / time in the step / measured copy bandwidth"));
    tachy_free(text);
    json_decref(o);
    json_decref(trace);
    tachy_profile_close(&p);
    for (int i = 0; i < 2; i++)
        device.cu->stream_destroy(stream[i]);
    CHECK_INT(counts->streams + counts->events, 0);
}

TEST(copies_have_lanes_of_their_own)
{
    tachy_profile *p = open_profile(false);
    struct fake_cuda_counts *counts = CUDA(fake_cuda_count);
    cuda_stream stream;
    struct tachy_gpu_timer *kernels = open_timer(p, &stream, 8), *copies;
    struct tachy_gpu_timer_params q = {.profile = p, .device = &device, .stream = stream, .copies = true};
    const struct tachy_prof_item item = {7, 0};
    CHECK_INT(tachy_gpu_timer_open(&copies, &q), TACHY_OK);
    tachy_gpu_timer_begin(kernels, TEST_STEP_COMPOSITE, item);
    CUDA(fake_cuda_launch, stream, 2000000);
    tachy_gpu_timer_end(kernels, &(struct tachy_gpu_work){.bytes = 1e6});
    tachy_gpu_timer_begin(copies, TEST_STEP_COMPOSITE, item);
    CUDA(fake_cuda_launch, stream, 3000000);
    tachy_gpu_timer_end(copies, NULL);
    tachy_gpu_timer_close(&kernels);
    tachy_gpu_timer_close(&copies);
    json_t *o = json_of(p), *work = json_object_get(json_object_get(o, "gpu"), "work");
    CHECK_INT(json_array_size(json_object_get(work, "steps")), 1);
    json_t *steps = json_object_get(o, "steps");
    double busy = real(json_array_get(steps, 0), "busy_s", NULL);
    CHECK(busy > 1.99e-3); // more where this thread was held up on the way
    CHECK(near(real(json_array_get(json_object_get(work, "steps"), 0), "busy_s", NULL), busy, 0.001));
    CHECK_INT(json_array_size(steps), 2);
    CHECK_STR(json_string_value(json_object_get(json_array_get(steps, 0), "stage")), "gpu");
    CHECK_STR(json_string_value(json_object_get(json_array_get(steps, 1), "stage")), "copy");
    CHECK(real(json_array_get(steps, 1), "busy_s", NULL) > 2.99e-3);
    json_t *trace = trace_of(p);
    char *text = json_dumps(trace, 0);
    CHECK(text && strstr(text, "copy 0") && strstr(text, "gpu 0"));
    free(text);
    json_decref(trace);
    json_decref(o);
    tachy_profile_close(&p);
    device.cu->stream_destroy(stream);
    CHECK_INT(counts->streams + counts->events, 0);
}

// Three seconds with a device whose clock runs 150 ppm fast: 450 us, were it not followed.
TEST(events_stay_on_the_clock)
{
    tachy_profile *p = open_profile(false);
    cuda_stream stream;
    struct tachy_gpu_timer *t = open_timer(p, &stream, 16);
    double host[160], span[160][2], worst = 0;
    int n = 0;
    for (; n < 150; n++) {
        tachy_gpu_timer_begin(t, TEST_STEP_DECODE, (struct tachy_prof_item){n, 0});
        host[n] = (double)(tachy_now_ns() - p->start.ns);
        CUDA(fake_cuda_launch, stream, 1000000);
        tachy_gpu_timer_end(t, NULL);
        usleep(20000);
    }
    tachy_gpu_timer_close(&t);
    json_t *trace = trace_of(p);
    CHECK_INT(spans_of(trace, "decode", span, 160), n);
    int off = 0;
    for (int i = 0; i < n; i++) { // a busy machine may stop this thread between two readings
        double late = fabs(span[i][0] - host[i]);
        worst = fmax(worst, i >= 100 ? late : 0);
        off += late > 250e3;
    }
    printf("     farthest from the host's clock in the third second: %.0f us\n", worst * 1e-3);
    CHECK(off < n / 10);
    json_decref(trace);
    tachy_profile_close(&p);
    device.cu->stream_destroy(stream);
}

TEST(events_that_do_not_fit_are_dropped)
{
    tachy_profile *p = open_profile(false);
    cuda_stream stream;
    struct tachy_gpu_timer *t = open_timer(p, &stream, 4);
    CUDA(fake_cuda_launch, stream, 50000000);
    for (int i = 0; i < 10; i++) {
        tachy_gpu_timer_begin(t, TEST_STEP_ENCODE, (struct tachy_prof_item){i, 0});
        tachy_gpu_timer_end(t, NULL);
    }
    tachy_gpu_timer_close(&t);
    json_t *o = json_of(p);
    json_t *step = json_array_get(json_object_get(o, "steps"), 0);
    CHECK_INT(json_integer_value(json_object_get(step, "calls")), 4);
    CHECK_INT(real(json_object_get(o, "gpu"), "work", "dropped"), 6);
    json_decref(o);
    device.cu->stream_destroy(stream);
    // A device in trouble is named once and no longer measured; the run itself finds out on its own.
    t = open_timer(p, &stream, 4);
    messages = 0;
    CUDA(fake_cuda_fail, 719);
    for (int i = 0; i < 10; i++) {
        tachy_gpu_timer_begin(t, TEST_STEP_ENCODE, (struct tachy_prof_item){i, 0});
        tachy_gpu_timer_end(t, NULL);
    }
    tachy_gpu_timer_close(&t);
    CHECK_INT(messages, 1);
    CHECK(strstr(last_message, "no longer measured"));
    struct tachy_gpu_timer_params q = {.profile = p, .device = &device, .stream = stream};
    CHECK_INT(tachy_gpu_timer_open(&t, &q), TACHY_ERR_EXTERNAL);
    CHECK(!t);
    CUDA(fake_cuda_fail, 0);
    device.cu->stream_destroy(stream);
    tachy_profile_close(&p);
    q.profile = NULL; // off
    CHECK_INT(tachy_gpu_timer_open(&t, &q), TACHY_OK);
    tachy_gpu_timer_begin(t, TEST_STEP_MODEL, (struct tachy_prof_item){0, 0});
    tachy_gpu_timer_end(t, NULL);
    tachy_gpu_timer_close(&t);
    struct fake_cuda_counts *counts = CUDA(fake_cuda_count);
    CHECK_INT(counts->streams + counts->events, 0);
}

// ---- CUPTI

TEST(kernels_and_copies)
{
    tachy_profile *p = open_profile(true);
    CHECK_INT(CUPTI(fake_cupti_enabled), 4);
    uint64_t now = tachy_now_ns();
    for (int i = 0; i < 20000; i++) { // more than a buffer holds
        uint64_t at = now + (uint64_t)i * 1000;
        CUPTI(fake_cupti_kernel, i % 2 ? "_Z6squarePfi" : "plain_name", 7, at, at + 500);
        if (i % 100 == 0)
            CUPTI(fake_cupti_other, 7);
        if (i % 10 == 0)
            CUPTI(fake_cupti_copy, 1, 1 + i / 10 % 2, 3, 1000, 8, at, at + 400);
    }
    CUPTI(fake_cupti_kernel, "unfinished", 7, now, 0);
    CUPTI(fake_cupti_kernel, NULL, 7, now, now + 1);
    json_t *o = json_of(p), *a = json_object_get(json_object_get(o, "gpu"), "activity");
    json_t *list = json_object_get(a, "by_time"), *first = json_array_get(list, 0);
    CHECK_INT(json_array_size(list), 5);
    const char *name = json_string_value(json_object_get(first, "name"));
    CHECK(!strcmp(name, "square(float*, int)") || !strcmp(name, "plain_name"));
    CHECK_INT(real(first, "calls", NULL), 10000);
    CHECK(near(real(first, "total_ms", NULL), 5, 0.001));
    json_t *copy = json_array_get(list, 2);
    CHECK(!strncmp(json_string_value(json_object_get(copy, "name")), "copy host to device", 19));
    CHECK_INT(real(copy, "calls", NULL), 1000);
    CHECK_INT(real(copy, "bytes", NULL), 1000000);
    CHECK_INT(real(a, "records", NULL), 22002);
    CHECK_INT(real(a, "untimed", NULL), 1);
    CHECK_INT(real(a, "dropped", NULL), 0);
    CHECK(near(real(a, "busy", NULL), 0.5, 0.01));
    json_t *trace = trace_of(p);
    double span[2000][2];
    CHECK_INT(spans_of(trace, "copy host to device", span, 2000), 1000);
    double begin = (double)(now - p->start.ns);
    CHECK(fabs(span[0][0] - begin - 10000) < 20e3);
    CHECK(fabs(span[999][0] - begin - 19990e3) < 20e3);
    char *text;
    CHECK_INT(tachy_profile_text(p, &text), TACHY_OK);
    CHECK(strstr(text, "kernels and copies by time") && strstr(text, "GPU busy"));
    tachy_free(text);
    json_decref(trace);
    json_decref(o);
    tachy_profile *second;
    CHECK_INT(
        tachy_profile_open(&second, tachy_profile_params(.gpu_activity = true, .log = &log_errors)),
        TACHY_ERR_STATE);
    tachy_profile_close(&p);
    CHECK_INT(CUPTI(fake_cupti_enabled), 0);
}

TEST(more_names_and_records_than_kept)
{
    tachy_profile *p;
    CHECK_INT(
        tachy_profile_open(&p, tachy_profile_params(.gpu_interval_ms = -1, .gpu_activity = true,
                                                    .max_operators = 1000)),
        TACHY_OK);
    char name[40];
    uint64_t now = tachy_now_ns();
    for (int i = 0; i < 6000; i++) {
        snprintf(name, sizeof(name), "kernel_%d", i);
        CUPTI(fake_cupti_kernel, name, 1, now + 10, now + 20);
        // Names are CUPTI's and stay; these do not, so they are taken in at once.
        gpu_collector_flush(p->gpu.collector);
    }
    json_t *o = json_of(p), *a = json_object_get(json_object_get(o, "gpu"), "activity");
    json_t *first = json_array_get(json_object_get(a, "by_time"), 0);
    CHECK_STR(json_string_value(json_object_get(first, "name")), "(other kernels)");
    CHECK_INT(real(first, "calls", NULL), 6000 - 4095);
    CHECK_INT(json_array_size(json_object_get(a, "by_time")), 4096);
    CHECK_INT(real(a, "kept", NULL), 1023);
    json_decref(o);
    tachy_profile_close(&p);
}

TEST(cupti_that_refuses)
{
    tachy_profile *p;
    CUPTI(fake_cupti_fail, 35);
    messages = 0;
    CHECK_INT(
        tachy_profile_open(&p, tachy_profile_params(.gpu_activity = true, .log = &log_errors)),
        TACHY_ERR_UNAVAILABLE);
    CHECK(!p && messages == 1 && strstr(last_message, "CUPTI_ERROR_FAKE") &&
          strstr(last_message, "libcupti.so.13"));
    CUPTI(fake_cupti_fail, 0);
    CHECK_INT(tachy_profile_open(&p, tachy_profile_params(.gpu_activity = true)), TACHY_OK);
    tachy_profile_close(&p);
}

// ---- NVTX

TEST(ranges_reach_the_tool)
{
    tachy_profile *p;
    const char *text;
    CHECK(tachy_nvtx_on); // main() has named the tool before the first profile
    CHECK_INT(tachy_profile_open(&p, tachy_profile_params(.nvtx = true)), TACHY_OK);
    tachy_step_begin("model");
    tachy_step_begin("composite");
    tachy_step_end();
    tachy_step_end();
    CHECK_INT(FAKE(getenv("NVTX_INJECTION64_PATH"), fake_nvtx_calls, &text), 4);
    CHECK_STR(text, "+model +composite - - ");
    tachy_profile_close(&p);
}

int main(void)
{
    static const struct test_case cases[] = {
        TEST_CASE(sensors_over_time), TEST_CASE(sensors_have_cuda_s_numbers), TEST_CASE(no_sensors), TEST_CASE(sensors_now),
        TEST_CASE(memory_watched), TEST_CASE(memory_that_cannot_be_watched), TEST_CASE(energy_of_the_run_s_gpu),
        TEST_CASE(energy_by_cuda_s_numbers), TEST_CASE(events_time_two_streams),
        TEST_CASE(copies_have_lanes_of_their_own), TEST_CASE(events_stay_on_the_clock), TEST_CASE(events_that_do_not_fit_are_dropped),
        TEST_CASE(kernels_and_copies), TEST_CASE(more_names_and_records_than_kept), TEST_CASE(cupti_that_refuses),
        TEST_CASE(ranges_reach_the_tool),
    };
    open_device();
    const char *tool = getenv("TACHY_TEST_NVTX");
    if (!tool) {
        puts("FAIL TACHY_TEST_NVTX is not set: `meson test test_gpu_profile` sets it and LD_LIBRARY_PATH");
        return 1;
    }
    setenv("NVTX_INJECTION64_PATH", tool, 1);
    return test_run(cases, sizeof(cases) / sizeof(cases[0]));
}
