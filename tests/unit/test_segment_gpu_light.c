#include "test.h"

#include "cuda/kernels.h"
#include "fakes/fake.h"
#include "fakes/symbol.h"
#include "media/device.h"
#include "rows.h"

#include <tachy/run.h>
#include <tachy/settings.h>
#include <tachy/sink.h>
#include <tachy/source.h>
#include <tachy/task.h>
#include <unistd.h>

// The light ratio of segment on a GPU, over a driver without one (fakes/) and kernels that take as long for eight frames
// as for one: what a frame costs says how many of them were queued together.

enum { KERNEL_NS = 50000, GROUP = 8 };

static int (*launch)(cuda_stream s, uint64_t ns);

static int run_any(cuda_stream stream)
{
    return launch(stream, KERNEL_NS);
}

static int run_composite(const struct tachy_cuda_composite *a, cuda_stream s) { return run_any(s); }
static int run_prob(const struct tachy_cuda_prob *a, cuda_stream s) { return run_any(s); }
static int run_guide(const struct tachy_cuda_guide *a, cuda_stream s) { return run_any(s); }
static int run_refine(const struct tachy_cuda_refine *a, cuda_stream s) { return run_any(s); }
static int run_preprocess(const struct tachy_cuda_preprocess *a, cuda_stream s) { return run_any(s); }
static int run_border(const struct tachy_cuda_pre_border *a, cuda_stream s) { return run_any(s); }

const struct tachy_cuda_kernels *tachy_cuda_kernels(void)
{
    static const struct tachy_cuda_kernels all = {.composite = run_composite, .prob = run_prob, .guide = run_guide,
                                                  .refine = run_refine, .preprocess = run_preprocess,
                                                  .preprocess_border = run_border};
    return &all;
}
const char *tachy_cuda_refuses(const struct tachy_device *d, char why[256]) { return NULL; }
int tachy_cuda_need(const struct tachy_device *d, const struct tachy_log *log) { return TACHY_OK; }

static char folder[64], cache[80]; // of models; of figures
static struct fake_cuda_counts *(*counts)(void);

static void on_message(void *user, enum tachy_log_level level, const char *msg)
{
    fprintf(stderr, "%s\n", msg);
    test_failures++;
}
static const struct tachy_log log_errors = {.fn = on_message, .max_level = TACHY_LOG_WARN};

TEST(opens)
{
    launch = (__typeof__(launch))fake_symbol("libcuda.so.1", "fake_cuda_launch");
    counts = (__typeof__(counts))fake_symbol("libcuda.so.1", "fake_cuda_count");
    snprintf(folder, sizeof(folder), "%s/tachy-gpu-light-XXXXXX", P_tmpdir);
    CHECK(mkdtemp(folder));
    snprintf(cache, sizeof(cache), "%s/cache", folder);
    setenv("XDG_CACHE_HOME", cache, 1);
    test_write(folder, "tiny.onnx", "no model"); // nobody opens it: no model runs
    test_write(folder, "tiny.json", "{\"name\": \"tiny\", \"task\": \"segment\", \"file\": \"tiny.onnx\", \"input\": {\"width\": 16, "
                            "\"height\": 16, \"layout\": \"nhwc\", \"channels\": \"luma\"}, \"output\": {\"meaning\": "
                            "\"probability\"}}");
}

static tachy_task *open_task(const char *mode, const char *refine)
{
    tachy_settings *set = NULL;
    tachy_task *t = NULL;
    CHECK_INT(tachy_settings_new(&set, NULL), TACHY_OK);
    const char *const with[][2] = {{"model.name", "tiny"}, {"model.dir", folder}, {"model.provider", "null"},
                                   {"segment.mode", mode}, {"segment.refine", refine}, {"gpu.device", "cuda"}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(with); i++)
        CHECK_INT(tachy_settings_set(set, with[i][0], with[i][1], "test"), TACHY_OK);
    CHECK_INT(tachy_task_open(&t, "segment", set, &log_errors), TACHY_OK);
    tachy_settings_free(&set);
    return t;
}

static void calibrate(const char *mode, const char *refine, struct tachy_summary *sum)
{
    tachy_source *source = NULL;
    tachy_sink *sink = NULL;
    tachy_task *t = open_task(mode, refine);
    CHECK_INT(tachy_source_open(&source, tachy_source_params(.url = "null:64x32@25,frames=40", .log = &log_errors)), TACHY_OK);
    CHECK_INT(tachy_sink_open(&sink, tachy_sink_params(.url = "-", .format = "null", .log = &log_errors)), TACHY_OK);
    CHECK_INT(tachy_run(tachy_run_params(.task = t, .source = source, .sink = sink, .workers = 2, .calibrate = true,
                                         .cache_dir = cache, .log = &log_errors), sum), TACHY_OK);
    tachy_sink_close(&sink);
    tachy_source_close(&source);
    tachy_task_close(&t);
    CHECK_INT(sum->frames, 40);
    CHECK_INT(counts()->allocations + counts()->events + counts()->streams + counts()->contexts, 0);
}

static bool near(double v, double expected)
{
    if (v > 0.9 * expected && v < 1.1 * expected)
        return true;
    fprintf(stderr, "%g is not near %g\n", v, expected);
    return false;
}

// Milliseconds of the kernel alone, with the best number of streams.
static double kernel_ms(const struct tachy_summary *s)
{
    return KERNEL_NS * 1e-6 / TACHY_MAX(s->resources[TACHY_RESOURCE_SMS].copies, 1);
}

TEST(frames_are_queued_as_a_worker_does)
{
    struct tachy_summary s;
    calibrate("mask", "no", &s);
    CHECK(s.light_ratio > 0 && s.resources[TACHY_RESOURCE_SMS].copies > 0);
    CHECK(near(s.steps[TEST_STEP_POSTPROCESS].light_ms, kernel_ms(&s) / GROUP));
    CHECK(near(s.steps[TEST_STEP_COMPOSITE].light_ms, kernel_ms(&s) / GROUP));
    for (int r = TACHY_RESOURCE_TO_HOST; r <= TACHY_RESOURCE_TO_DEVICE; r++) // frames of the host's: pictures go both ways
        CHECK(s.resources[r].light_ms > 0 && s.resources[r].copies > 0);
}

// A guide of each frame with the masks of eight; coefficients that are the next frame's once a frame is composited.
TEST(what_goes_frame_by_frame_is_queued_so)
{
    struct tachy_summary s;
    calibrate("cutout", "yes", &s);
    CHECK(near(s.steps[TEST_STEP_POSTPROCESS].light_ms, kernel_ms(&s) * (1 + 1.0 / GROUP)));
    CHECK(near(s.steps[TEST_STEP_COMPOSITE].light_ms, 2 * kernel_ms(&s)));
}

TEST(cleans)
{
    const char *const files[] = {"tiny.onnx", "tiny.json", "cache/light.json", "cache/tachy/gpu-rates.json",
                                 "cache/tachy", "cache"};
    char path[128];
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(files); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
        remove(path);
    }
    CHECK_INT(rmdir(folder), 0);
}

TEST_MAIN(TEST_CASE(opens), TEST_CASE(frames_are_queued_as_a_worker_does),
          TEST_CASE(what_goes_frame_by_frame_is_queued_so), TEST_CASE(cleans))
