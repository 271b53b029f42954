#include "test.h"

#include "base/clock.h"
#include "cuda/device.h"
#include "fakes/fake.h"
#include "pipeline/light.h"

#include <dlfcn.h>
#include <math.h>
#include <unistd.h>

// The light time by resources: a task whose steps are a GPU's (fakes/), and the sums.

enum { PREPROCESS_NS = 20000, COMPOSITE_NS = 50000, MODEL_US = 2000, STREAMS = 2 };

static struct tachy_device device;
static void (*launch)(cuda_stream s, uint64_t ns);

static void open_device(void)
{
    const struct tachy_cu *cu;
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&launch = lib ? dlsym(lib, "fake_cuda_launch") : NULL;
    if (!launch)
        SKIP("the fake libraries are not on LD_LIBRARY_PATH");
    CHECK_INT(tachy_cu_load(&cu, TACHY_LOG_ERR, NULL), TACHY_OK);
    CHECK_INT(tachy_device_describe(&device, cu, 0, NULL), TACHY_OK);
}

// ---- A task

static int worker_open(tachy_task *t, void **worker)
{
    cuda_stream stream;
    CHECK_INT(tachy_device_enter(&device, NULL), TACHY_OK);
    CHECK_INT(device.cu->stream_create(&stream, CUDA_STREAM_OWN_ORDER), 0);
    tachy_device_leave(&device);
    *worker = stream;
    return TACHY_OK;
}

static void worker_close(void *worker) { device.cu->stream_destroy(worker); }

static int nothing(void *worker, struct tachy_item *item, int eye) { return TACHY_OK; }

static int model(void *worker, struct tachy_item *item, int eye)
{
    tachy_sleep_until(tachy_now_ns() + MODEL_US * 1000);
    return TACHY_OK;
}

static int composite(void *worker, struct tachy_item *item)
{
    item->out = tachy_frame_ref(item->in);
    return TACHY_OK;
}

static bool gpu(const tachy_task *t, const struct tachy_item *item, struct tachy_task_gpu *g)
{
    *g = (struct tachy_task_gpu){.device = &device,
                                 .steps = 1u << TACHY_STEP_PREPROCESS | 1u << TACHY_STEP_COMPOSITE,
                                 .to_host = 4e6,
                                 .to_device = 1e6};
    CHECK(item->out && item->in->place == TACHY_HOST);
    return true;
}

static int gpu_queue(void *worker, enum tachy_step step, struct tachy_item *item)
{
    CHECK(step == TACHY_STEP_PREPROCESS || step == TACHY_STEP_COMPOSITE);
    launch(worker, step == TACHY_STEP_PREPROCESS ? PREPROCESS_NS : COMPOSITE_NS);
    return TACHY_OK;
}

static void *gpu_stream(const void *worker) { return (void *)(uintptr_t)worker; }

static const struct tachy_task_ops ops = {
    .name = "test",
    .worker_open = worker_open,
    .worker_close = worker_close,
    .preprocess = nothing,
    .model = model,
    .postprocess = nothing,
    .composite = composite,
    .gpu = gpu,
    .gpu_queue = gpu_queue,
    .gpu_stream = gpu_stream,
};

static bool near(double v, double expected, double tolerance)
{
    if (fabs(v / expected - 1) <= tolerance)
        return true;
    fprintf(stderr, "%g is not within %g of %g\n", v, tolerance, expected);
    return false;
}

static char dir[] = P_tmpdir "/tachy-light-test-XXXXXX";

TEST(steps_of_a_card_are_measured_there)
{
    struct tachy_light l = {0};
    struct tachy_light_times t;
    struct tachy_video_info info = {.format = TACHY_PIX_YUV420P, .width = 64, .height = 48, .time_base = {1, 30}};
    const struct tachy_source_params sp = {0};
    tachy_task *task = calloc(1, sizeof(*task));
    task->ops = &ops;
    task->eyes = 1;
    open_device();
    const struct tachy_light_params p = {.task = task, .url = "null:64x48@30,frames=40", .source = &sp,
                                         .input = &info, .output = &info, .workers = STREAMS, .seconds = 0.2};
    CHECK_INT(tachy_light_measure(&p, &l), TACHY_OK);
    CHECK_INT(tachy_light_measure(&p, &l), TACHY_OK); // as behind a run
    tachy_light_times(&l, &t);
    CHECK_INT(t.of[TACHY_STEP_DECODE], TACHY_RESOURCE_CORES);
    CHECK_INT(t.of[TACHY_STEP_PREPROCESS], TACHY_RESOURCE_SMS);
    CHECK_INT(t.of[TACHY_STEP_MODEL], TACHY_RESOURCE_CORES);
    CHECK_INT(t.of[TACHY_STEP_COMPOSITE], TACHY_RESOURCE_SMS);
    CHECK_INT(t.copies[TACHY_STEP_COMPOSITE], STREAMS);
    CHECK(near(t.step[TACHY_STEP_PREPROCESS], PREPROCESS_NS * 1e-6 / STREAMS, 0.05));
    CHECK(near(t.step[TACHY_STEP_COMPOSITE], COMPOSITE_NS * 1e-6 / STREAMS, 0.05));
    CHECK(t.step[TACHY_STEP_MODEL] >= MODEL_US * 1e-3 / STREAMS);
    CHECK(near(t.link[TACHY_RESOURCE_TO_HOST], 4e6 / (FAKE_COPY_BPS / 2) * 1e3, 0.02));
    CHECK(near(t.link[TACHY_RESOURCE_TO_DEVICE], 1e6 / (FAKE_COPY_BPS / 2) * 1e3, 0.02));
    tachy_device_close(&device);
    free(task);
}

static const struct tachy_light_times made = {
    .step = {[TACHY_STEP_DECODE] = 0.3, [TACHY_STEP_PREPROCESS] = 0.01, [TACHY_STEP_MODEL] = 0.2,
             [TACHY_STEP_COMPOSITE] = 0.03, [TACHY_STEP_ENCODE] = 0.05},
    .of = {[TACHY_STEP_DECODE] = TACHY_RESOURCE_NVDEC, [TACHY_STEP_PREPROCESS] = TACHY_RESOURCE_SMS,
           [TACHY_STEP_COMPOSITE] = TACHY_RESOURCE_SMS},
    .copies = {[TACHY_STEP_DECODE] = 14, [TACHY_STEP_PREPROCESS] = 4, [TACHY_STEP_COMPOSITE] = 2},
    .link = {[TACHY_RESOURCE_TO_HOST] = 0.06},
};

TEST(the_busiest_resource_is_the_ratio)
{
    struct tachy_summary s = {.fps = 3000, .cores = 16};
    tachy_light_apply(&made, 1, &s);
    CHECK_INT(s.light_by, TACHY_RESOURCE_NVDEC);
    CHECK(near(s.light_ratio, 0.9, 1e-9));
    CHECK(near(s.resources[TACHY_RESOURCE_SMS].light_ms, 0.04, 1e-9));
    CHECK_INT(s.resources[TACHY_RESOURCE_SMS].copies, 4);
    CHECK(near(s.resources[TACHY_RESOURCE_CORES].busy, 0.75, 1e-9));
    CHECK(near(s.resources[TACHY_RESOURCE_TO_HOST].busy, 0.18, 1e-9));
    CHECK(s.resources[TACHY_RESOURCE_TO_DEVICE].busy == 0);
    tachy_light_apply(&made, 0.5, &s); // half of the frames came back from an earlier run
    CHECK_INT(s.light_by, TACHY_RESOURCE_CORES);
    CHECK(near(s.light_ratio, 0.75, 1e-9));
    char *text;
    CHECK_INT(tachy_summary_text(&text, &s), TACHY_OK);
    CHECK(strstr(text, "NVDEC") && strstr(text, "light ratio   0.75 (of what cores would do"));
    tachy_free(text);
    CHECK_INT(tachy_summary_json(&text, &s, NULL), TACHY_OK);
    CHECK(strstr(text, "\"light_by\": \"cores\"") && strstr(text, "\"copies\": 14"));
    tachy_free(text);
    struct tachy_light_times cpu = {.step = {1, 1, 2, 0.5, 0.5, 1}};
    s = (struct tachy_summary){.fps = 100, .cores = 2};
    tachy_light_apply(&cpu, 1, &s);
    CHECK(near(s.light_ratio, 0.6, 1e-9));
    CHECK_INT(tachy_summary_text(&text, &s), TACHY_OK);
    CHECK(strstr(text, "6.00 ms of all cores") && !strstr(text, "NVDEC"));
    tachy_free(text);
}

TEST(figures_are_kept_by_key)
{
    struct tachy_light_times t;
    CHECK_INT(tachy_light_load(dir, "a", &t), TACHY_ERR_NOT_FOUND);
    CHECK_INT(tachy_light_save(dir, "a", &made, NULL), TACHY_OK);
    CHECK_INT(tachy_light_load(dir, "b", &t), TACHY_ERR_NOT_FOUND);
    CHECK_INT(tachy_light_load(dir, "a", &t), TACHY_OK);
    CHECK(!memcmp(t.step, made.step, sizeof(t.step)) && !memcmp(t.of, made.of, sizeof(t.of)));
    CHECK(t.link[TACHY_RESOURCE_TO_HOST] == made.link[TACHY_RESOURCE_TO_HOST]);
    CHECK_INT(t.copies[TACHY_STEP_DECODE], 14);
    char *path = tachy_asprintf("%s/light.json", dir);
    CHECK_INT(unlink(path), 0);
    tachy_free(path);
}

int main(void)
{
    static const struct test_case cases[] = {TEST_CASE(steps_of_a_card_are_measured_there),
                                             TEST_CASE(the_busiest_resource_is_the_ratio),
                                             TEST_CASE(figures_are_kept_by_key)};
    if (!mkdtemp(dir))
        return 1;
    setenv("XDG_CACHE_HOME", dir, 1);
    return test_run(cases, TACHY_ARRAY_SIZE(cases));
}
