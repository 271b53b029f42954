#include "test.h"

#include "base/clock.h"
#include "base/side_by_side.h"
#include "cuda/device.h"
#include "fakes/fake.h"
#include "fakes/symbol.h"
#include "pipeline/light.h"
#include "steps.h"

#include <jansson.h>
#include <math.h>
#include <stdatomic.h>
#include <tachy/sink.h>
#include <tachy/source.h>
#include <unistd.h>

// The light time by resources: a task whose steps are a GPU's (fakes/), and the sums.

enum { PREPROCESS_NS = 20000, COMPOSITE_NS = 50000, MODEL_US = 2000, STREAMS = 2, MOST_STREAMS = 8, GROUP = 8 };

static struct tachy_device device;
static int (*launch)(cuda_stream s, uint64_t ns);
static void (*list)(int gpus);

static void open_device(void)
{
    const struct tachy_cu *cu;
    launch = (__typeof__(launch))fake_symbol("libcuda.so.1", "fake_cuda_launch");
    list = (__typeof__(list))fake_symbol("libcuda.so.1", "fake_cuda_list");
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

static bool load(tachy_task *t, void *worker, int step, const struct tachy_item *item, struct tachy_stage_load *l)
{
    bool last = step == TEST_STEP_COMPOSITE;
    *l = (struct tachy_stage_load){.device = &device, .stream = worker, .computes = true, .to_host = last ? 4e6 : 0,
                                   .to_device = last ? 1e6 : 0};
    CHECK(item->in->mem == TACHY_HOST);
    return true;
}

static _Atomic int together; // items of a call, ORed

static int gpu_queue(void *worker, int step, struct tachy_item *const items[], int n)
{
    CHECK(step == TEST_STEP_PREPROCESS || step == TEST_STEP_COMPOSITE);
    atomic_fetch_or(&together, n);
    for (int i = 0; i < n; i++) // each once
        CHECK(items[i]->in && items[i]->result.frame_id == items[0]->result.frame_id + i);
    launch(worker, step == TEST_STEP_PREPROCESS ? PREPROCESS_NS : COMPOSITE_NS);
    return TACHY_OK;
}

// No step comes before the one in front of it.
static void group_step(void *worker, int step, struct tachy_item *const items[], int n, int eye, int err[])
{
    atomic_fetch_or(&together, n);
    for (int i = 0; i < n; i++) {
        CHECK(items[i]->stream + 1 >= (uint32_t)step);
        items[i]->stream = step;
        err[i] = step == TEST_STEP_COMPOSITE ? composite(worker, items[i]) : TACHY_OK;
    }
}

static const struct test_steps ops = {
    .name = "test",
    .worker_open = worker_open,
    .worker_close = worker_close,
    .group_step = group_step,
    .preprocess = nothing,
    .model = model,
    .postprocess = nothing,
    .composite = composite,
    .load = load,
    .queue = gpu_queue,
};

static bool near(double v, double expected, double tolerance)
{
    if (fabs(v / expected - 1) <= tolerance)
        return true;
    fprintf(stderr, "%g is not within %g of %g\n", v, tolerance, expected);
    return false;
}

static char dir[] = P_tmpdir "/tachy-light-test-XXXXXX";

static struct tachy_rows *rows_of(tachy_task *task)
{
    tachy_task_count(task, test_table_of_rows());
    return test_table_of_rows();
}

TEST(steps_of_a_device_are_measured_there)
{
    struct tachy_light l = {0};
    struct tachy_light_times t;
    struct tachy_video_info info = {.format = TACHY_PIX_YUV420P, .width = 64, .height = 48, .time_base = {1, 30}};
    const struct tachy_source_params sp = {0};
    tachy_task *task = test_task(&ops, NULL, 0);
    open_device();
    const struct tachy_light_params p = {.task = task, .steps = rows_of(task), .url = "null:64x48@30,frames=40", .source = &sp,
                                         .input = &info, .output = &info, .workers = STREAMS, .seconds = 0.1};
    CHECK_INT(tachy_light_measure(&p, &l), TACHY_OK);
    CHECK_INT(tachy_light_measure(&p, &l), TACHY_OK); // as after a run
    tachy_light_times(&l, &t);
    CHECK_INT(t.of[TEST_STEP_DECODE], TACHY_RESOURCE_CORES);
    CHECK_INT(t.of[TEST_STEP_PREPROCESS], TACHY_RESOURCE_SMS);
    CHECK_INT(t.of[TEST_STEP_MODEL], TACHY_RESOURCE_CORES);
    CHECK_INT(t.of[TEST_STEP_COMPOSITE], TACHY_RESOURCE_SMS);
    CHECK_INT(t.copies[TEST_STEP_COMPOSITE], STREAMS);
    CHECK(near(t.step[TEST_STEP_PREPROCESS], PREPROCESS_NS * 1e-6 / STREAMS, 0.05));
    CHECK(near(t.step[TEST_STEP_COMPOSITE], COMPOSITE_NS * 1e-6 / STREAMS, 0.05));
    CHECK(t.step[TEST_STEP_MODEL] >= MODEL_US * 1e-3 / STREAMS);
    CHECK_INT(together, 1);
    // The task's own bytes, and the pictures by what was copied of them.
    CHECK(t.link[TACHY_RESOURCE_TO_HOST] > 4e6 / (FAKE_COPY_BPS / 2) * 1e3);
    CHECK(t.link[TACHY_RESOURCE_TO_DEVICE] > 1e6 / (FAKE_COPY_BPS / 2) * 1e3);
    CHECK(t.link_copies[TACHY_RESOURCE_TO_HOST] && t.link_copies[TACHY_RESOURCE_TO_DEVICE]);
    CHECK_INT(t.link_copies[TACHY_RESOURCE_SMS], 0);
    tachy_device_close(&device);
    test_task_free(task);
}

// Frames that a worker takes together are queued together, and a launch's time covers all of them.
TEST(frames_of_a_group_are_measured_together)
{
    struct tachy_light l = {0};
    struct tachy_light_times t;
    struct tachy_video_info info = {.format = TACHY_PIX_YUV420P, .width = 64, .height = 48, .time_base = {1, 30}};
    const struct tachy_source_params sp = {0};
    tachy_task *task = test_task(&ops, NULL, 0);
    open_device();
    struct tachy_light_params p = {.task = task, .steps = rows_of(task), .url = "null:64x48@30,frames=40", .source = &sp, .input = &info,
                                   .output = &info, .workers = STREAMS, .group = GROUP, .seconds = 0.05};
    atomic_store(&together, 0);
    CHECK_INT(tachy_light_measure(&p, &l), TACHY_OK);
    CHECK_INT(together, GROUP);
    tachy_light_times(&l, &t);
    CHECK(near(t.step[TEST_STEP_PREPROCESS], PREPROCESS_NS * 1e-6 / STREAMS / GROUP, 0.05));
    CHECK(near(t.step[TEST_STEP_COMPOSITE], COMPOSITE_NS * 1e-6 / STREAMS / GROUP, 0.05));
    p.url = "null:64x48@30,frames=21"; // two groups
    l = (struct tachy_light){0};
    CHECK_INT(tachy_light_measure(&p, &l), TACHY_OK);
    CHECK_INT(together, GROUP);
    atomic_store(&together, 0);
    p.url = "null:64x48@30,frames=5"; // less than one
    l = (struct tachy_light){0};
    CHECK_INT(tachy_light_measure(&p, &l), TACHY_OK);
    CHECK_INT(together, 5);
    tachy_light_times(&l, &t);
    CHECK(near(t.step[TEST_STEP_COMPOSITE], COMPOSITE_NS * 1e-6 / STREAMS / 5, 0.05));
    tachy_device_close(&device);
    test_task_free(task);
}

// If opening an encoder, or a step's first frame, takes longer than the step's time, the frames after it count.
TEST(slow_steps_have_a_frame)
{
    struct tachy_light l = {0};
    struct tachy_light_times t;
    struct tachy_video_info info = {.format = TACHY_PIX_YUV420P, .width = 64, .height = 48, .time_base = {1, 30}};
    const struct tachy_source_params sp = {0};
    struct test_steps cpu = ops;
    cpu.load = NULL;
    tachy_task *task = test_task(&cpu, NULL, 0);
    tachy_sink *sink = NULL;
    char *path = tachy_asprintf("%s/slow.mp4", dir);
    CHECK_INT(tachy_sink_open(&sink, &(struct tachy_sink_params){.url = path, .encode = TACHY_ENCODE_CPU}), TACHY_OK);
    const struct tachy_light_params p = {.task = task, .steps = rows_of(task), .url = "null:64x48@30,frames=40", .source = &sp, .sink = sink,
                                         .input = &info, .output = &info, .workers = STREAMS, .seconds = 1e-9};
    CHECK_INT(tachy_light_measure(&p, &l), TACHY_OK);
    tachy_light_times(&l, &t);
    for (int s = TEST_STEP_DECODE; s <= TEST_STEP_ENCODE; s++) {
        CHECK_INT(l.nb[s], TACHY_LIGHT_ROUNDS);
        CHECK(t.step[s] > 0 && t.step[s] < 1e4);
    }
    CHECK(t.step[TEST_STEP_MODEL] >= MODEL_US * 1e-3 / STREAMS);
    CHECK(t.step[TEST_STEP_ENCODE] > 1e-4); // frames, not less than none
    tachy_sink_close(&sink);
    CHECK_INT(access(path, F_OK), -1);
    free(path);
    test_task_free(task);
}

static const struct tachy_light_times made = {
    .step = {[TEST_STEP_DECODE] = 0.3, [TEST_STEP_PREPROCESS] = 0.01, [TEST_STEP_MODEL] = 0.2,
             [TEST_STEP_COMPOSITE] = 0.03, [TEST_STEP_ENCODE] = 0.05},
    .of = {[TEST_STEP_DECODE] = TACHY_RESOURCE_NVDEC, [TEST_STEP_PREPROCESS] = TACHY_RESOURCE_SMS,
           [TEST_STEP_COMPOSITE] = TACHY_RESOURCE_SMS},
    .copies = {[TEST_STEP_DECODE] = 14, [TEST_STEP_PREPROCESS] = 4, [TEST_STEP_COMPOSITE] = 2},
    .link = {[TACHY_RESOURCE_TO_HOST] = 0.06},
    .link_copies = {[TACHY_RESOURCE_TO_HOST] = 4},
};

TEST(the_busiest_resource_is_the_ratio)
{
    struct tachy_summary s = {.nb_steps = TEST_STEPS, .fps = 3000, .cores = 16};
    tachy_light_apply(&made, 1, 1, &s);
    CHECK_INT(s.light_by, TACHY_RESOURCE_NVDEC);
    CHECK(near(s.light_ratio, 0.9, 1e-9));
    CHECK(near(s.resources[TACHY_RESOURCE_SMS].light_ms, 0.04, 1e-9));
    CHECK_INT(s.resources[TACHY_RESOURCE_SMS].copies, 4);
    CHECK(near(s.resources[TACHY_RESOURCE_CORES].busy, 0.75, 1e-9));
    CHECK(near(s.resources[TACHY_RESOURCE_TO_HOST].busy, 0.18, 1e-9));
    CHECK_INT(s.resources[TACHY_RESOURCE_TO_HOST].copies, 4);
    CHECK(s.resources[TACHY_RESOURCE_TO_DEVICE].busy == 0);
    tachy_light_apply(&made, 1, 0.5, &s); // half of the frames came back from an earlier run
    CHECK_INT(s.light_by, TACHY_RESOURCE_CORES);
    CHECK(near(s.light_ratio, 0.75, 1e-9));
    char *text;
    CHECK_INT(tachy_summary_text(&text, &s), TACHY_OK);
    CHECK(strstr(text, "decoder ") && strstr(text, "Pipeline efficiency: 75 % of ideal (cores)"));
    tachy_free(text);
    CHECK_INT(tachy_summary_json(&text, &s, NULL), TACHY_OK);
    CHECK(strstr(text, "\"light_by\": \"cores\"") && strstr(text, "\"copies\": 14"));
    tachy_free(text);
    struct tachy_light_times cpu = {.step = {1, 1, 2, 0.5, 0.5, 1}};
    s = (struct tachy_summary){.fps = 100, .cores = 2};
    tachy_light_apply(&cpu, 1, 1, &s);
    CHECK(near(s.light_ratio, 0.6, 1e-9));
    CHECK_INT(tachy_summary_text(&text, &s), TACHY_OK);
    CHECK(strstr(text, "60 % of ideal (cores: 6.00 ms per frame)") && !strstr(text, "decoder"));
    tachy_free(text);
}

// ---- Several devices

// The second device takes three times as long for a composite, and gets every fourth frame.
enum { DEVICES = 2, EVERY = 4 };
static struct tachy_device devices[DEVICES];
static atomic_int worked;
static tachy_task *spread_task;

struct spread {
    cuda_stream stream[DEVICES];
    int device; // of the frame that it has
};

static int spread_open(tachy_task *t, void **worker)
{
    struct spread *w = *worker = calloc(1, sizeof(*w));
    for (int i = 0; i < DEVICES; i++) {
        CHECK_INT(tachy_device_enter(&devices[i], NULL), TACHY_OK);
        CHECK_INT(devices[i].cu->stream_create(&w->stream[i], CUDA_STREAM_OWN_ORDER), 0);
        tachy_device_leave(&devices[i]);
    }
    return TACHY_OK;
}

static void spread_close(void *worker)
{
    struct spread *w = worker;
    for (int i = 0; i < DEVICES; i++)
        devices[i].cu->stream_destroy(w->stream[i]);
    free(w);
}

static int spread_preprocess(void *worker, struct tachy_item *item, int eye)
{
    tachy_task *t = spread_task;
    int frame = t->pinned < 0 ? atomic_fetch_add(&worked, 1) : 0;
    int at = ((struct spread *)worker)->device = t->pinned >= 0 ? t->pinned : frame % EVERY == EVERY - 1;
    if (t->pinned < 0)
        atomic_fetch_add(&t->gpu[at].regions, 1);
    return TACHY_OK;
}

static bool spread_load(tachy_task *t, void *worker, int step, const struct tachy_item *item,
                        struct tachy_stage_load *l)
{
    CHECK(t->pinned >= 0);
    if (step != TEST_STEP_COMPOSITE)
        return false;
    *l = (struct tachy_stage_load){.device = &devices[t->pinned], .stream = ((struct spread *)worker)->stream[t->pinned],
                                   .computes = true, .to_host = 4e6};
    return true;
}

static int spread_queue(void *worker, int step, struct tachy_item *const items[], int n)
{
    struct spread *w = worker;
    CHECK(step == TEST_STEP_COMPOSITE && w->device == spread_task->pinned && n == 1);
    launch(w->stream[w->device], COMPOSITE_NS * (w->device ? 3 : 1));
    return TACHY_OK;
}

static const struct test_steps spread_steps = {
    .name = "spread", .worker_open = spread_open, .worker_close = spread_close, .preprocess = spread_preprocess,
    .model = nothing, .postprocess = nothing, .composite = composite, .load = spread_load, .queue = spread_queue,
};

static int run_spread(struct tachy_summary *s, bool calibrate)
{
    tachy_task *task = spread_task = test_task(&spread_steps, NULL, 0);
    task->nb_gpus = DEVICES;
    for (int i = 0; i < DEVICES; i++)
        task->gpu[i].ordinal = i;
    tachy_source *source;
    tachy_sink *sink;
    CHECK_INT(tachy_source_open(&source, tachy_source_params(.url = "null:64x48@30,frames=80")), TACHY_OK);
    CHECK_INT(tachy_sink_open(&sink, tachy_sink_params(.url = "-", .format = "null")), TACHY_OK);
    atomic_store(&worked, 0);
    int err = tachy_run(tachy_run_params(.task = task, .source = source, .sink = sink, .workers = STREAMS,
                                         .calibrate = calibrate, .cache_dir = dir), s);
    tachy_sink_close(&sink);
    tachy_source_close(&source);
    test_task_free(task);
    return err;
}

// Each device is measured separately, and a run weights them by their frames; so does a later run from the stored
// figures.
TEST(each_device_is_measured)
{
    const struct tachy_cu *cu;
    open_device();
    list(DEVICES);
    CHECK_INT(tachy_cu_load(&cu, TACHY_LOG_ERR, NULL), TACHY_OK);
    for (int i = 0; i < DEVICES; i++) {
        CHECK_INT(tachy_device_describe(&devices[i], cu, i, NULL), TACHY_OK);
        CHECK_INT(tachy_device_enter(&devices[i], NULL), TACHY_OK);
        tachy_device_leave(&devices[i]);
    }
    for (int stored = 0; stored < 2; stored++) {
        struct tachy_summary s;
        CHECK_INT(run_spread(&s, !stored), TACHY_OK);
        CHECK_INT(s.frames, 80);
        CHECK(s.light_stored == stored && s.light_ratio > 0);
        CHECK(s.gpus[0].frames == 60 && s.gpus[1].frames == 20);
        const struct tachy_resource_stats *a = s.gpus[0].resources, *b = s.gpus[1].resources;
        // However few cores this machine has.
        CHECK(near(a[TACHY_RESOURCE_SMS].light_ms, COMPOSITE_NS * 1e-6 / MOST_STREAMS, 0.05));
        CHECK(near(b[TACHY_RESOURCE_SMS].light_ms, 3 * COMPOSITE_NS * 1e-6 / MOST_STREAMS, 0.05));
        CHECK(near(a[TACHY_RESOURCE_SMS].busy, 0.75 * a[TACHY_RESOURCE_SMS].light_ms * 1e-3 * s.fps, 1e-9));
        // Three quarters of 1 and a quarter of 3: whichever was measured to be more.
        CHECK(near(s.resources[TACHY_RESOURCE_SMS].busy,
                   fmax(a[TACHY_RESOURCE_SMS].busy, b[TACHY_RESOURCE_SMS].busy), 1e-9));
        CHECK(near(s.resources[TACHY_RESOURCE_TO_HOST].light_ms,
                   fmax(0.75 * a[TACHY_RESOURCE_TO_HOST].light_ms, 0.25 * b[TACHY_RESOURCE_TO_HOST].light_ms), 1e-9));
        CHECK(near(s.resources[TACHY_RESOURCE_CORES].light_ms,
                   0.75 * a[TACHY_RESOURCE_CORES].light_ms + 0.25 * b[TACHY_RESOURCE_CORES].light_ms, 1e-9));
    }
    for (int i = 0; i < DEVICES; i++)
        tachy_device_close(&devices[i]);
    tachy_device_close(&device);
    list(1);
    char *path = tachy_asprintf("%s/light.json", dir);
    CHECK_INT(unlink(path), 0);
    tachy_free(path);
}

// The encoder is one for all devices, whoever's frames they are.
TEST(an_encoder_is_shared)
{
    struct tachy_light_times t[2] = {made, made};
    struct tachy_summary s = {.nb_steps = TEST_STEPS, .fps = 1000, .cores = 16, .frames = 100, .nb_gpus = 2,
                              .gpus = {{.gpu = 3, .frames = 80}, {.gpu = 5, .frames = 20}}};
    for (int i = 0; i < 2; i++) {
        t[i].of[TEST_STEP_ENCODE] = TACHY_RESOURCE_NVENC;
        t[i].step[TEST_STEP_ENCODE] = 0.9;
        t[i].copies[TEST_STEP_ENCODE] = 3;
    }
    tachy_light_apply(t, 2, 1, &s);
    CHECK_INT(s.light_by, TACHY_RESOURCE_NVENC);
    CHECK_INT(s.light_gpu, -1);
    CHECK(near(s.light_ratio, 0.9, 1e-9));
    CHECK(near(s.resources[TACHY_RESOURCE_CORES].busy, 0.2, 1e-9));
    CHECK_INT(s.resources[TACHY_RESOURCE_NVENC].copies, 3);
    char *text;
    CHECK_INT(tachy_summary_text(&text, &s), TACHY_OK);
    CHECK(strstr(text, "90 % of ideal (encoder"));
    tachy_free(text);
}

// The device with the most to do, not the one whose frames cost the most.
TEST(the_busiest_device_is_the_ratio)
{
    struct tachy_light_times t[2] = {made, made};
    struct tachy_summary s = {.nb_steps = TEST_STEPS, .fps = 2000, .cores = 16, .frames = 100, .nb_gpus = 2,
                              .gpus = {{.gpu = 3, .frames = 80}, {.gpu = 5, .frames = 20}}};
    t[1].step[TEST_STEP_DECODE] = 0.6;
    tachy_light_apply(t, 2, 1, &s);
    CHECK_INT(s.light_by, TACHY_RESOURCE_CORES); // 0.25 ms of each frame, whose it is
    CHECK_INT(s.light_gpu, -1);
    CHECK(near(s.light_ratio, 0.5, 1e-9));
    t[0].step[TEST_STEP_MODEL] = t[1].step[TEST_STEP_MODEL] = 0.1;
    tachy_light_apply(t, 2, 1, &s);
    CHECK_INT(s.light_by, TACHY_RESOURCE_NVDEC);
    CHECK_INT(s.light_gpu, 3);
    CHECK(near(s.light_ratio, 0.8 * 0.3 * 2, 1e-9));
    CHECK(near(s.gpus[1].resources[TACHY_RESOURCE_NVDEC].busy, 0.2 * 0.6 * 2, 1e-9));
    CHECK(near(s.steps[TEST_STEP_DECODE].light_ms, 0.24, 1e-9));
    char *text;
    CHECK_INT(tachy_summary_text(&text, &s), TACHY_OK);
    CHECK(strstr(text, "% of ideal (decoder of GPU 3"));
    tachy_free(text);
    CHECK_INT(tachy_summary_json(&text, &s, NULL), TACHY_OK);
    json_t *o = json_loads(text, 0, NULL), *second = json_array_get(json_object_get(o, "gpus"), 1), *r = NULL;
    size_t i;
    CHECK_INT(json_integer_value(json_object_get(o, "light_gpu")), 3);
    json_array_foreach(json_object_get(second, "resources"), i, r)
        if (!strcmp(json_string_value(json_object_get(r, "name")), "nvdec"))
            CHECK(near(json_real_value(json_object_get(r, "busy")), 0.24, 1e-9));
    CHECK(i >= 3);
    json_decref(o);
    tachy_free(text);
}

TEST(figures_are_kept_by_key)
{
    struct tachy_light_times t;
    CHECK_INT(tachy_light_load(dir, "a", test_table_of_rows(), &t), TACHY_ERR_NOT_FOUND);
    CHECK_INT(tachy_light_save(dir, "a", test_table_of_rows(), &made, NULL), TACHY_OK);
    CHECK_INT(tachy_light_load(dir, "b", test_table_of_rows(), &t), TACHY_ERR_NOT_FOUND);
    CHECK_INT(tachy_light_load(dir, "a", test_table_of_rows(), &t), TACHY_OK);
    CHECK(!memcmp(t.step, made.step, sizeof(t.step)) && !memcmp(t.of, made.of, sizeof(t.of)));
    CHECK(t.link[TACHY_RESOURCE_TO_HOST] == made.link[TACHY_RESOURCE_TO_HOST]);
    CHECK_INT(t.copies[TEST_STEP_DECODE], 14);
    CHECK_INT(t.link_copies[TACHY_RESOURCE_TO_HOST], 4);
    char *path = tachy_asprintf("%s/light.json", dir);
    CHECK_INT(unlink(path), 0);
    tachy_free(path);
}

struct curve {
    int cores, fails_from, measured;
};

// Up to the number of cores more copies gain; beyond that each takes a little from the others.
static int curve_rate(void *user, int n, double *rate)
{
    struct curve *c = user;
    c->measured++;
    *rate = n <= c->cores ? 10.0 * n : 10.0 * c->cores - 0.1 * n;
    return c->fails_from && n >= c->fails_from ? TACHY_ERR_UNSUPPORTED : TACHY_OK;
}

TEST(as_many_copies_as_give_the_most)
{
    static const int tries[] = {1, 3, 5, 7, 0};
    static const struct {
        int cores, fails_from, limit, before;
        const int *tries;
        int best, measured, err;
    } cases[] = {
        {1, 0, 32, 0, NULL, 1, 2, TACHY_OK},     {4, 0, 32, 0, NULL, 4, 4, TACHY_OK},
        {100, 0, 16, 0, NULL, 16, 5, TACHY_OK},  {5, 0, 32, 0, tries, 5, 4, TACHY_OK},
        {100, 0, 32, 0, tries, 7, 4, TACHY_OK},  {8, 0, 32, 2, NULL, 2, 1, TACHY_OK},
        {100, 4, 32, 0, NULL, 2, 3, TACHY_ERR_UNSUPPORTED}, {100, 1, 32, 0, NULL, 0, 1, TACHY_ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(cases); i++) {
        struct curve c = {cases[i].cores, cases[i].fails_from, 0};
        int best = cases[i].before;
        double most = -1;
        CHECK_INT(tachy_side_by_side(&best, &most, cases[i].limit, cases[i].tries, curve_rate, &c), cases[i].err);
        CHECK_INT(best, cases[i].best);
        CHECK_INT(c.measured, cases[i].measured);
        CHECK(most == 10.0 * best);
    }
}

int main(void)
{
    static const struct test_case cases[] = {TEST_CASE(as_many_copies_as_give_the_most),
                                             TEST_CASE(steps_of_a_device_are_measured_there),
                                             TEST_CASE(frames_of_a_group_are_measured_together),
                                             TEST_CASE(slow_steps_have_a_frame),
                                             TEST_CASE(the_busiest_resource_is_the_ratio),
                                             TEST_CASE(each_device_is_measured),
                                             TEST_CASE(an_encoder_is_shared),
                                             TEST_CASE(the_busiest_device_is_the_ratio),
                                             TEST_CASE(figures_are_kept_by_key)};
    if (!mkdtemp(dir))
        return 1;
    setenv("XDG_CACHE_HOME", dir, 1);
    return test_run(cases, TACHY_ARRAY_SIZE(cases));
}
