#include "test.h"

#include "cuda/kernels.h"
#include "fakes/fake.h"
#include "media/device.h"
#include "pipeline/pipeline.h"

#include <dlfcn.h>
#include <tachy/settings.h>
#include <unistd.h>

// segment on a GPU over a driver without one (fakes/) and kernels that only mark what they were given: every
// picture comes out once, in order, made of its own frame; frames, events and memory go back, also after
// failures and when closed in the middle; how many calls of the driver a frame takes. What the kernels
// compute and whether the card is waited for where it must be: tests/gpu/run on a card.

enum { W = 64, H = 32, COUNT = 512, KERNEL_NS = 50000 };

// ---- The kernels: the composite's picture begins with the byte that its frame begins with.

static void (*launch)(cuda_stream s, uint64_t ns);
static _Atomic int launches;

static int run_any(cuda_stream stream)
{
    launches++;
    launch(stream, KERNEL_NS);
    return CUDA_OK;
}

static uint8_t *at(cuda_address a) { return (uint8_t *)(uintptr_t)a; }

static int run_composite(const struct tachy_cuda_composite *a, cuda_stream stream)
{
    for (int i = 0; i < a->count; i++) {
        const struct tachy_cuda_composite_frame *f = &a->frame[i];
        *at(f->out[0]) = a->own ? *at(f->in[0]) : *at(f->eye[0].mask);
        *(uint32_t *)(void *)at(f->counted) += COUNT;
    }
    return run_any(stream);
}

static int run_prob(const struct tachy_cuda_prob *a, cuda_stream stream)
{
    *at(a->dst) = 200;
    return run_any(stream);
}

static int run_preprocess(const struct tachy_cuda_preprocess *a, cuda_stream stream) { return run_any(stream); }
static int run_border(const struct tachy_cuda_pre_border *a, cuda_stream stream) { return run_any(stream); }

const struct tachy_cuda_kernels *tachy_cuda_kernels(void)
{
    static const struct tachy_cuda_kernels all = {.composite = run_composite, .prob = run_prob,
                                                  .preprocess = run_preprocess, .preprocess_border = run_border};
    return &all;
}
const char *tachy_cuda_refuses(const struct tachy_device *d, char why[256]) { return NULL; }
int tachy_cuda_need(const struct tachy_device *d, const struct tachy_log *log) { return TACHY_OK; }

// ---- The driver

static void *symbol(const char *name)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *fn = lib ? dlsym(lib, name) : NULL;
    if (!fn) {
        puts("FAIL the fake driver is not there: `meson test test_segment_gpu` sets LD_LIBRARY_PATH");
        exit(1);
    }
    return fn;
}

static struct fake_cuda_counts *counts(void)
{
    __typeof__(fake_cuda_count) *fn = (__typeof__(fn))symbol("fake_cuda_count");
    return fn();
}

static void fail(int status)
{
    __typeof__(fake_cuda_fail) *fn = (__typeof__(fn))symbol("fake_cuda_fail");
    fn(status);
}

// ---- The task

static char folder[64];
static char last_message[512];
static void on_message(void *user, enum tachy_log_level level, const char *msg)
{
    snprintf(last_message, sizeof(last_message), "%s", msg);
}
static const struct tachy_log log_errors = {.fn = on_message, .max_level = TACHY_LOG_WARN};

static void write_card(void)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/tiny.json", folder);
    FILE *f = fopen(path, "w");
    fprintf(f, "{\"name\": \"tiny\", \"task\": \"segment\", \"file\": \"tiny.onnx\", \"input\": {\"width\": 16, "
               "\"height\": 16, \"layout\": \"nhwc\", \"channels\": \"luma\"}, \"output\": {\"meaning\": "
               "\"probability\"}}");
    fclose(f);
    snprintf(path, sizeof(path), "%s/tiny.onnx", folder);
    f = fopen(path, "w"); // nobody opens it: no model runs
    fputs("no model", f);
    fclose(f);
}

static tachy_task *open_task(const char *mode)
{
    tachy_settings *set = NULL;
    tachy_task *t = NULL;
    CHECK_INT(tachy_settings_new(&set, NULL), TACHY_OK);
    const char *const with[][2] = {{"model.name", "tiny"}, {"model.dir", folder}, {"model.provider", "null"},
                                   {"segment.mode", mode}, {"gpu.device", "cuda"}, {"segment.smooth", "0"}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(with); i++)
        CHECK_INT(tachy_settings_set(set, with[i][0], with[i][1], "test"), TACHY_OK);
    CHECK_INT(tachy_task_open(&t, "segment", set, &log_errors), TACHY_OK);
    tachy_settings_free(&set);
    return t;
}

// ---- Streams

struct feed {
    tachy_stream *s;
    tachy_frame_pool *pool;
    int frames, lanes, lane;
};

static uint8_t byte_of(int64_t id) { return (uint8_t)(id * 3 + 5); }

static void *feed_main(void *arg)
{
    struct feed *f = arg;
    for (int64_t i = f->lane; i < f->frames; i += f->lanes) {
        tachy_frame *frame = NULL;
        if (tachy_frame_pool_get(f->pool, &frame) < 0)
            break;
        tachy_frame_writable(frame, 0)[0] = byte_of(i);
        frame->id = i;
        frame->pts = i * 10;
        int err = tachy_stream_push_at(f->s, frame, i);
        tachy_frame_unref(&frame);
        if (err < 0)
            break;
    }
    return NULL;
}

struct way {
    const char *mode;
    bool on_gpu; // decoded frames are
    int workers, lanes, frames, most;
    int fail_at; // the card fails when this many have been pulled; -1: never
};

enum { LANES = 4 };

// Returns how many pictures came out, *end: the code behind them.
static int pull_all(tachy_stream *s, const struct way *way, int *end)
{
    int n = 0;
    for (*end = TACHY_OK; n < way->most;) {
        tachy_frame *f;
        const struct tachy_result *r;
        if (n == way->fail_at)
            fail(700);
        if ((*end = tachy_stream_pull(s, &f, &r)) < 0)
            break;
        CHECK(f->id == n && r->frame_id == n && f->pts == n * 10 && r->pts == n * 10);
        CHECK(f->place == TACHY_PINNED && r->eyes == 1 && r->mask[0].width == 16);
        if (way->fail_at < 0) {
            CHECK_INT(f->data[0][0], strcmp(way->mode, "mask") ? byte_of(n) : 200);
            CHECK_INT(r->mask[0].data[0], 200);
            CHECK(r->coverage == (float)COUNT / (W * H));
        }
        tachy_frame_unref(&f);
        n++;
    }
    return n;
}

static int run(const struct way *way, int *end)
{
    tachy_task *t = open_task(way->mode);
    struct tachy_gpu *g = NULL;
    tachy_pipeline *p = NULL;
    tachy_stream *s = NULL;
    tachy_frame_pool *pool = NULL;
    struct feed feed[LANES];
    pthread_t thread[LANES];
    CHECK_INT(tachy_gpu_open(&g, 0, NULL, &log_errors), TACHY_OK);
    CHECK_INT(tachy_frame_pool_open_gpu(&pool, way->on_gpu ? g : NULL, TACHY_PIX_NV12, W, H), TACHY_OK);
    struct tachy_video_info in = {.format = TACHY_PIX_NV12, .width = W, .height = H, .time_base = {1, 250},
                                  .fps = {25, 1}, .place = way->on_gpu ? TACHY_DEVICE : TACHY_HOST};
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = way->workers, .log = &log_errors)), TACHY_OK);
    CHECK_INT(tachy_pipeline_join(p, &s, tachy_stream_params(.task = t, .input = in, .window = 96)), TACHY_OK);
    for (int i = 0; i < way->lanes && s; i++) {
        feed[i] = (struct feed){s, pool, way->frames, way->lanes, i};
        pthread_create(&thread[i], NULL, feed_main, &feed[i]);
    }
    int n = pull_all(s, way, end);
    tachy_pipeline_stop(p);
    for (int i = 0; i < way->lanes; i++)
        pthread_join(thread[i], NULL);
    fail(0);
    tachy_stream_leave(&s);
    tachy_pipeline_close(&p);
    tachy_frame_pool_close(&pool);
    tachy_gpu_unref(&g);
    tachy_task_close(&t);
    struct fake_cuda_counts *c = counts();
    CHECK_INT(c->allocations, 0);
    CHECK_INT(c->events, 0);
    CHECK_INT(c->streams, 0);
    CHECK_INT(c->contexts, 0);
    return n;
}

TEST(pictures_are_of_their_frames)
{
    static const char *const modes[] = {"mask", "cutout"};
    int end;
    for (int i = 0; i < 12; i++) {
        struct way way = {modes[i & 1], i & 2, 1 + i % 3, 1 + i % LANES, 150, 150, -1};
        CHECK_INT(run(&way, &end), 150);
        CHECK_INT(end, TACHY_OK);
    }
}

TEST(a_card_that_fails_ends_the_stream)
{
    int end;
    for (int i = 0; i < 6; i++) {
        struct way way = {i & 1 ? "cutout" : "mask", true, 2, 2, 100, 100, 5 + i};
        int n = run(&way, &end);
        CHECK(n >= 5 + i && n < 100);
        CHECK_INT(end, TACHY_ERR_EXTERNAL);
    }
}

TEST(closing_in_the_middle)
{
    int end;
    for (int i = 0; i < 10; i++) {
        struct way way = {i & 1 ? "cutout" : "mask", i & 2, 1 + i % 2, 3, 120, i * 5, -1};
        CHECK_INT(run(&way, &end), i * 5);
    }
}

// Of the driver, a frame, once tables and memory are there; kernels are counted with them.
TEST(few_calls)
{
    for (int i = 0; i < 2; i++) {
        struct way way = {i ? "cutout" : "mask", true, 1, 1, 100, 100, -1};
        int end, before, few, many;
        before = counts()->calls + launches;
        run(&way, &end);
        few = counts()->calls + launches - before;
        way.frames = way.most = 500;
        before = counts()->calls + launches;
        run(&way, &end);
        many = counts()->calls + launches - before;
        double each = (many - few) / 400.0;
        printf("figure driver_calls_%s %.1f a_frame\n", way.mode, each);
        CHECK(each < 30);
    }
}

static void open_folder(void)
{
    snprintf(folder, sizeof(folder), "/tmp/test_segment_gpu-XXXXXX");
    CHECK(mkdtemp(folder));
    launch = (__typeof__(launch))symbol("fake_cuda_launch");
    write_card();
}

static void remove_folder(void)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/tiny.json", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/tiny.onnx", folder);
    unlink(path);
    rmdir(folder);
}

TEST(opens) { open_folder(); }
TEST(cleans) { remove_folder(); }

TEST_MAIN(TEST_CASE(opens), TEST_CASE(pictures_are_of_their_frames), TEST_CASE(a_card_that_fails_ends_the_stream),
          TEST_CASE(closing_in_the_middle), TEST_CASE(few_calls), TEST_CASE(cleans))
