#include "test.h"

#include "pipeline/stage_save.h"

#include "fakes/fake.h"
#include "fakes/marks.h"
#include "fakes/symbol.h"
#include "media/device.h"
#include "pipeline/pipeline.h"

#include <tachy/settings.h>
#include <unistd.h>

// segment on a GPU over a driver without one (fakes/), with kernels that only mark their inputs: every picture comes
// out once, in order, made from its own frame; frames, events and memory are released, also after failures and when
// closed in the middle; and the number of driver calls per frame. tests/gpu/run covers, on a device, the kernels'
// results and the waits for the device.

enum { W = 64, H = 32 };

// ---- The driver

static void *symbol(const char *name) { return fake_symbol("libcuda.so.1", name); }

static struct fake_cuda_counts *counts(void)
{
    __typeof__(fake_cuda_count) *fn = (__typeof__(fn))symbol("fake_cuda_count");
    return fn();
}

static void list(int gpus)
{
    __typeof__(fake_cuda_list) *fn = (__typeof__(fn))symbol("fake_cuda_list");
    fn(gpus);
}

static void fail(int status)
{
    __typeof__(fake_cuda_fail) *fn = (__typeof__(fn))symbol("fake_cuda_fail");
    fn(status);
}

// ---- The task

static char folder[64];
// Any thread of a pipeline may log.
static _Atomic int messages;
static void on_message(void *user, enum tachy_log_level level, const char *msg) { messages++; }
static const struct tachy_log log_errors = {.fn = on_message, .max_level = TACHY_LOG_WARN};

static const char *behind = "behind.ppm";

// Three pictures of another size and format than the stream's, grey.
static void write_video(void)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/behind.y4m", folder);
    FILE *f = fopen(path, "w");
    fprintf(f, "YUV4MPEG2 W%d H%d F5:1 Ip A1:1 C420jpeg\n", W / 2, H / 4);
    for (int i = 0; i < 3; i++) {
        fputs("FRAME\n", f);
        for (int k = 0; k < W / 2 * (H / 4) * 3 / 2; k++)
            fputc(k < W / 2 * (H / 4) ? GREY : 128, f);
    }
    fclose(f);
}

static void write_device(void)
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
    snprintf(path, sizeof(path), "%s/behind.ppm", folder);
    f = fopen(path, "w");
    fprintf(f, "P6 4 2 255\n");
    for (int i = 0; i < 4 * 2 * 3; i++)
        fputc(128, f);
    fclose(f);
}

// A way of running it, and what it is to show.
struct way {
    const char *mode;
    bool on_gpu; // decoded frames are
    int workers, lanes, frames, most;
    int fail_at; // the device fails when this many have been pulled; -1: never
    bool smooth, refine;
    int devices; // that the run is spread over; 0: one, without a list of them
    enum tachy_pix format; // of the frames; 0: NV12
    const char *edge, *grow; // NULL: the default
};

static tachy_task *open_task(const struct way *way)
{
    tachy_settings *set = NULL;
    tachy_task *t = NULL;
    char picture[128];
    snprintf(picture, sizeof(picture), "%s/%s", folder, behind);
    CHECK_INT(tachy_settings_new(&set, NULL), TACHY_OK);
    const char *const with[][2] = {{"model.name", "tiny"}, {"model.dir", folder}, {"model.provider", "null"},
                                   {"segment.mode", way->mode}, {"gpu.device", "cuda"},
                                   {"segment.smooth", way->smooth ? "0.5" : "0"},
                                   {"segment.refine", way->refine ? "yes" : "no"},
                                   {"segment.edge", way->edge ? way->edge : "soft"},
                                   {"segment.grow", way->grow ? way->grow : "0"},
                                   {"segment.background", strcmp(way->mode, "replace") ? "black" : picture}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(with); i++)
        CHECK_INT(tachy_settings_set(set, with[i][0], with[i][1], "test"), TACHY_OK);
    if (way->devices)
        CHECK_INT(tachy_settings_set(set, "gpu.ids", "all", "test"), TACHY_OK);
    CHECK_INT(tachy_task_open(&t, "segment", set, &log_errors), TACHY_OK);
    tachy_settings_free(&set);
    return t;
}

// ---- Streams

enum { CARDS = 3 };

struct feed {
    tachy_stream *s;
    tachy_frame_pool **pool; // one per device
    int frames, lanes, lane, devices;
};

static uint8_t byte_of(int64_t id) { return (uint8_t)(id * STEP + 5); }

static void *feed_main(void *arg)
{
    struct feed *f = arg;
    for (int64_t i = f->lane; i < f->frames; i += f->lanes) {
        tachy_frame *frame = NULL;
        if (tachy_frame_pool_get(f->pool[i / 2 % f->devices], &frame) < 0)
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

enum { LANES = 4 };

static void check_picture(const struct way *way, int n, const tachy_frame *f)
{
    CHECK(f->id == n && f->pts == n * 10 && f->mem == TACHY_PINNED);
    if (way->fail_at < 0)
        CHECK_INT(f->data[0][0], strcmp(way->mode, "mask") ? byte_of(n) : 200);
}

static void check_result(const struct way *way, int n, const struct tachy_result *r)
{
    char frame[32];
    snprintf(frame, sizeof(frame), "{\"frame\":%d,", n);
    CHECK(r->frame_id == n && r->pts == n * 10 && r->eyes == 1 && r->mask[0].width == 16);
    if (!strcmp(way->mode, "json"))
        CHECK(r->json && !strncmp(r->json, frame, strlen(frame)));
    else if (way->fail_at < 0)
        CHECK(r->coverage == (float)COUNT / (W * H));
    if (way->fail_at < 0)
        CHECK_INT(r->mask[0].data[0], 200);
}

// Returns the number of pictures, *end: the code after them.
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
        CHECK(!f == !strcmp(way->mode, "json"));
        if (f)
            check_picture(way, n, f);
        check_result(way, n, r);
        tachy_frame_unref(&f);
        n++;
    }
    return n;
}

// Frames that were on a device are worked on there, all of them once.
static void check_shares(const tachy_task *t, const struct way *way)
{
    struct tachy_gpu_share share[TACHY_MAX_GPUS];
    int devices = TACHY_MAX(way->devices, 1), all = 0;
    CHECK_INT(tachy_task_gpus(t, share), devices);
    for (int i = 0; i < devices; i++) {
        CHECK_INT(share[i].gpu, i);
        CHECK(!way->on_gpu || share[i].frames == way->frames / devices);
        all += (int)share[i].frames;
    }
    CHECK_INT(all, way->frames);
}

static int run(const struct way *way, int *end)
{
    int devices = TACHY_MAX(way->devices, 1);
    enum tachy_pix format = TACHY_DEF(way->format, TACHY_PIX_NV12);
    list(devices);
    tachy_task *t = open_task(way);
    struct tachy_gpu *g[CARDS] = {0};
    tachy_pipeline *p = NULL;
    tachy_stream *s = NULL;
    tachy_frame_pool *pool[CARDS] = {0};
    struct feed feed[LANES];
    pthread_t thread[LANES];
    for (int i = 0; i < devices; i++) {
        CHECK_INT(tachy_gpu_open(&g[i], i, NULL, &log_errors), TACHY_OK);
        CHECK_INT(tachy_frame_pool_open_gpu(&pool[i], way->on_gpu ? g[i] : NULL, format, W, H), TACHY_OK);
    }
    struct tachy_video_info in = {.format = format, .width = W, .height = H, .time_base = {1, 250},
                                  .fps = {25, 1}, .mem = way->on_gpu ? TACHY_DEVICE : TACHY_HOST};
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = way->workers, .log = &log_errors)), TACHY_OK);
    CHECK_INT(tachy_pipeline_join(p, &s, tachy_stream_params(.task = t, .input = in, .window = 96)), TACHY_OK);
    for (int i = 0; i < way->lanes && s; i++) {
        feed[i] = (struct feed){s, pool, way->frames, way->lanes, i, devices};
        pthread_create(&thread[i], NULL, feed_main, &feed[i]);
    }
    int n = pull_all(s, way, end);
    tachy_pipeline_stop(p);
    for (int i = 0; i < way->lanes; i++)
        pthread_join(thread[i], NULL);
    fail(0);
    if (n == way->frames)
        check_shares(t, way);
    tachy_stream_leave(&s);
    tachy_pipeline_close(&p);
    for (int i = 0; i < devices; i++) {
        tachy_frame_pool_close(&pool[i]);
        tachy_gpu_unref(&g[i]);
    }
    tachy_task_close(&t);
    list(1);
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
        struct way way = {modes[i & 1], i & 2, 1 + i % 3, 1 + i % LANES, 150, 150, .fail_at = -1};
        CHECK_INT(run(&way, &end), 150);
        CHECK_INT(end, TACHY_OK);
    }
}

TEST(smoothing_sees_every_frame_in_order)
{
    static const char *const modes[] = {"mask", "cutout", "replace", "json"};
    int end;
    for (int i = 0; i < 16; i++) {
        struct way way = {modes[i & 3], i & 4, 1 + i % 3, 1 + i % LANES, 120, 120, -1, i % 5 < 4, i % 3 < 2, 0, TACHY_PIX_NV12, NULL, NULL};
        CHECK_INT(run(&way, &end), 120);
        CHECK_INT(end, TACHY_OK);
        CHECK_INT(wrong, 0);
    }
}

// Frames by twos on each device, or dealt from the host: every mode, and what hangs on the frame before.
TEST(several_devices_share_a_stream)
{
    static const char *const modes[] = {"mask", "cutout", "replace", "json"};
    int end;
    for (int i = 0; i < 24; i++) {
        struct way way = {modes[i & 3], i & 4, 1 + i % 3, 1 + i % LANES, 48, 48, -1, i % 5 < 3, i % 3 < 2, 2 + (i & 1),
                          TACHY_PIX_NV12, NULL, NULL};
        CHECK_INT(run(&way, &end), 48);
        CHECK_INT(end, TACHY_OK);
    }
    struct way middle = {"cutout", true, 2, 3, 120, 31, -1, true, true, 2, TACHY_PIX_NV12, NULL, NULL};
    CHECK_INT(run(&middle, &end), 31);
}

// Formats that only the host decodes, and screens: uploaded, and composited through alpha.
TEST(frames_of_other_formats)
{
    static const enum tachy_pix formats[] = {TACHY_PIX_RGB24, TACHY_PIX_YUV422P, TACHY_PIX_BGRA, TACHY_PIX_YUVA420P};
    static const char *const modes[] = {"cutout", "blur", "replace", "mask", "overlay", "side-by-side", "json",
                                        "alpha"};
    int end;
    for (int i = 0; i < 16; i++) {
        struct way way = {modes[i % 8], i % 5 == 3, 1 + i % 3, 1, 40, 40, -1, i % 3 < 2, i % 5 < 3, i % 3,
                          formats[(i + i / 8) % 4], NULL, NULL};
        CHECK_INT(run(&way, &end), 40);
        CHECK_INT(end, TACHY_OK);
        CHECK_INT(wrong, 0);
    }
}

// Alpha that is solved for, or whose edge is moved, is made before anything is blended by it.
TEST(edges_in_every_mode)
{
    static const enum tachy_pix formats[] = {TACHY_PIX_NV12, TACHY_PIX_RGB24, TACHY_PIX_YUV422P};
    static const char *const modes[] = {"cutout", "blur", "replace", "mask", "overlay", "side-by-side", "json",
                                        "alpha"}, *const edge[] = {"natural", "soft", "hard"};
    int end;
    for (int i = 0; i < 24; i++) {
        struct way way = {modes[i % 8], i & 1, 1 + i % 3, 1, 40, 40, -1, i % 5 < 2, i % 3 == 1, i % 3, formats[i / 8],
                          edge[i % 3], i % 4 ? "9.5" : "0"};
        CHECK_INT(run(&way, &end), 40);
        CHECK_INT(end, TACHY_OK);
        CHECK_INT(wrong, 0);
    }
}

// Each of its pictures is fitted once on every device that has frames of that time.
TEST(a_video_behind_is_fitted_on_the_device)
{
    behind = "behind.y4m";
    for (int i = 0; i < 4; i++) {
        struct way way = {"replace", i & 1, 1 + i % 3, 1 + i % LANES, 60, 60, -1, i & 2, i % 3 == 1, i / 2 * 2, TACHY_PIX_NV12, NULL, NULL};
        int end, before = fits;
        CHECK_INT(run(&way, &end), 60); // 2.4 s: twelve pictures of it
        CHECK_INT(end, TACHY_OK);
        CHECK_INT(wrong, 0);
        CHECK(fits - before >= 12 * 3 && fits - before <= 12 * 3 * TACHY_MAX(way.devices, 1));
    }
    behind = "behind.ppm";
}

TEST(a_device_that_fails_ends_the_stream)
{
    int end;
    for (int i = 0; i < 6; i++) {
        struct way way = {i & 1 ? "cutout" : "mask", true, 2, 2, 100, 100, 5 + i, i & 2, i & 4, 0,
                          TACHY_PIX_NV12, NULL, NULL};
        int before = messages, n = run(&way, &end);
        CHECK(n >= 5 + i && n < 100);
        CHECK(messages > before);
        CHECK_INT(end, TACHY_ERR_EXTERNAL);
    }
}

TEST(closing_in_the_middle)
{
    int end;
    for (int i = 0; i < 10; i++) {
        struct way way = {i & 1 ? "replace" : "mask", i & 2, 1 + i % 2, 3, 120, i * 5, -1, i & 4, i & 1, 0,
                          TACHY_PIX_NV12, NULL, NULL};
        CHECK_INT(run(&way, &end), i * 5);
    }
}

// Data that a step reads on the host before the composite (tachy_stage_ops.tensors, frame skip) is there.
TEST(a_mask_is_fetched_when_it_is_asked_for)
{
    tachy_task *t = open_task(&(struct way){.mode = "mask"});
    struct tachy_memory *memory;
    struct tachy_video_info out, in = {.format = TACHY_PIX_NV12, .width = W, .height = H, .time_base = {1, 250}};
    CHECK_INT(tachy_memory_open(&memory, &(struct tachy_memory_params){.log = &log_errors}), TACHY_OK);
    t->memory = memory;
    CHECK_INT(tachy_stages_start(t, &in, &out), TACHY_OK);
    void *worker[TACHY_MAX_STAGES];
    CHECK_INT(tachy_task_worker_open(t, worker), TACHY_OK);
    struct tachy_stage *copies = tachy_task_copies(t), *model = tachy_stage_save_of(t);
    struct tachy_item kept = {.priv = calloc(1, t->item_size)};
    for (int i = 0; i < 2; i++) {
        struct tachy_stage_tensors tensors;
        struct tachy_item one = {.priv = calloc(1, t->item_size)}, *item = &one;
        int err = TACHY_OK;
        CHECK_INT(tachy_frame_new(&one.in, &(struct tachy_frame_params){.format = TACHY_PIX_NV12, .width = W, .height = H}),
                  TACHY_OK);
        one.result.frame_id = i + 1;
        struct tachy_stage_pass p = {.task = t, .worker = worker, .items = &item, .n = 1, .err = &err};
        tachy_stage_pass(&p, 0, copies->index + 1);
        CHECK_INT(err, TACHY_OK);
        if (i)
            CHECK_INT(copies->ops->copy(copies, &kept, item, 0), TACHY_OK);
        else
            CHECK_INT(model->ops->tensors(model, tachy_stage_worker(model, worker), &(struct tachy_piece){item, 0}, &tensors),
                      TACHY_OK);
        CHECK_INT((i ? &kept : item)->result.mask[0].data[0], 200);
        CHECK_INT(one.result.mask[0].data[0], 200);
        tachy_frame_unref(&one.in);
        tachy_task_item_close(t, one.priv);
        free(one.priv);
    }
    tachy_task_item_close(t, kept.priv);
    free(kept.priv);
    tachy_task_worker_close(t, worker);
    tachy_task_close(&t);
    tachy_memory_close(&memory);
    CHECK_INT(counts()->allocations, 0);
    CHECK_INT(counts()->events + counts()->streams, 0);
}

// ---- Driver calls per frame, once tables and memory exist; kernels count too.

enum { NAMES = 32 };
struct calls {
    int all, kernels, of[NAMES];
};

static const char *read_calls(struct calls *c, int i)
{
    __typeof__(fake_cuda_called) *fn = (__typeof__(fn))symbol("fake_cuda_called");
    c->all = counts()->calls + launches;
    c->kernels = launches;
    return fn(i, &c->of[i]);
}

static void read_all_calls(struct calls *c)
{
    for (int i = 0; i < NAMES; i++)
        read_calls(c, i);
}

// Between `from` and `to`, for each of n frames. Looks at events are printed and not in *needed: how often who pulls
// looks depends on when it comes.
static double calls_each(const struct calls *from, const struct calls *to, int n, const char *what, double *needed)
{
    struct calls now;
    printf("  %s: kernels %.2f", what, (double)(to->kernels - from->kernels) / n);
    *needed = (double)(to->all - from->all) / n;
    for (int i = 0; i < NAMES; i++) {
        double each = (double)(to->of[i] - from->of[i]) / n;
        if (each > 0)
            printf(", %s %.2f", read_calls(&now, i), each);
        if (each > 0 && !strcmp(read_calls(&now, i), "cuEventQuery"))
            *needed -= each;
    }
    puts("");
    return (double)(to->all - from->all) / n;
}

// Frames that come when they come: pulled one by one, `wait` at a time.
static double calls_of(const char *mode, int wait, double *needed)
{
    enum { ALL = 96 };
    struct way way = {mode, true, 1, 1, ALL, ALL, .fail_at = -1};
    struct calls from = {0}, to;
    list(1);
    tachy_task *t = open_task(&way);
    struct tachy_gpu *g = NULL;
    tachy_pipeline *p = NULL;
    tachy_stream *s = NULL;
    tachy_frame_pool *pool = NULL;
    struct tachy_video_info in = {.format = TACHY_PIX_NV12, .width = W, .height = H, .time_base = {1, 250},
                                  .mem = TACHY_DEVICE};
    CHECK_INT(tachy_gpu_open(&g, 0, NULL, &log_errors), TACHY_OK);
    CHECK_INT(tachy_frame_pool_open_gpu(&pool, g, TACHY_PIX_NV12, W, H), TACHY_OK);
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = 1, .log = &log_errors)), TACHY_OK);
    CHECK_INT(tachy_pipeline_join(p, &s, tachy_stream_params(.task = t, .input = in, .window = 96)), TACHY_OK);
    for (int64_t n = 0; n < ALL; n++) {
        if (n == ALL / 3)
            read_all_calls(&from);
        if (n % wait == 0)
            tachy_pipeline_pause(p);
        tachy_frame *frame = NULL;
        CHECK_INT(tachy_frame_pool_get(pool, &frame), TACHY_OK);
        tachy_frame_writable(frame, 0)[0] = byte_of(n);
        frame->id = n;
        frame->pts = n * 10;
        CHECK_INT(tachy_stream_push_at(s, frame, n), TACHY_OK);
        tachy_frame_unref(&frame);
        if (n % wait < wait - 1)
            continue;
        tachy_pipeline_resume(p);
        usleep(4000); // a worker has come and the device is done: the pulling thread need not poll
        for (int64_t k = n - wait + 1; k <= n; k++) {
            const struct tachy_result *r;
            tachy_frame *f = NULL;
            CHECK_INT(tachy_stream_pull(s, &f, &r), TACHY_OK);
            check_picture(&way, (int)k, f);
            check_result(&way, (int)k, r);
            tachy_frame_unref(&f);
        }
    }
    read_all_calls(&to);
    tachy_stream_leave(&s);
    tachy_pipeline_close(&p);
    tachy_frame_pool_close(&pool);
    tachy_gpu_unref(&g);
    tachy_task_close(&t);
    char what[64];
    snprintf(what, sizeof(what), "%s, %d at a time", mode, wait);
    return calls_each(&from, &to, ALL - ALL / 3, what, needed);
}

TEST(few_calls)
{
    static const char *const modes[] = {"mask", "cutout"};
    for (int i = 0; i < 2; i++) {
        double alone, together, one = calls_of(modes[i], 1, &alone), eight = calls_of(modes[i], 8, &together);
        printf("figure driver_calls_%s %.1f a_frame\n", modes[i], one);
        printf("figure driver_calls_%s_of_8 %.1f a_frame\n", modes[i], eight);
        CHECK(alone <= 12 && together <= 4);
    }
}

static void open_folder(void)
{
    snprintf(folder, sizeof(folder), "/tmp/test_segment_gpu-XXXXXX");
    CHECK(mkdtemp(folder));
    launch = (__typeof__(launch))symbol("fake_cuda_launch");
    write_device();
    write_video();
}

static void remove_folder(void)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/tiny.json", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/tiny.onnx", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/behind.ppm", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/behind.y4m", folder);
    unlink(path);
    rmdir(folder);
}

TEST(opens) { open_folder(); }
TEST(cleans) { remove_folder(); }

TEST_MAIN(TEST_CASE(opens), TEST_CASE(pictures_are_of_their_frames),
          TEST_CASE(smoothing_sees_every_frame_in_order), TEST_CASE(several_devices_share_a_stream),
          TEST_CASE(frames_of_other_formats), TEST_CASE(edges_in_every_mode),
          TEST_CASE(a_video_behind_is_fitted_on_the_device),
          TEST_CASE(a_device_that_fails_ends_the_stream), TEST_CASE(closing_in_the_middle),
          TEST_CASE(a_mask_is_fetched_when_it_is_asked_for), TEST_CASE(few_calls), TEST_CASE(cleans))
