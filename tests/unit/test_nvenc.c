#include "test.h"

#include "cuda/kernels.h"
#include "fakes/fake.h"
#include "fakes/symbol.h"
#include "media/device.h"
#include "rows.h"
#include "sink/nvenc.h"
#include "sink/sink_ops.h"

#include <dirent.h>
#include <pthread.h>
#include <tachy/run.h>
#include <tachy/settings.h>
#include <unistd.h>

// NVENC fed from a GPU's surfaces: segment over a driver, kernels and an encoder without a GPU (fakes/), whose files are
// held, by FFmpeg's command, against those of the CPU's encoder.

enum { W = 128, H = 64, FRAMES = 30, KERNEL_NS = 20000 };

// ---- The kernels: a cutout is its frame, a mask a slope.

static int (*launch)(cuda_stream s, uint64_t ns);
static uint8_t *at(cuda_address a) { return (uint8_t *)(uintptr_t)a; }

static int run_any(cuda_stream stream)
{
    return launch(stream, KERNEL_NS);
}

static size_t row_bytes(const struct tachy_cuda_composite *a, int plane)
{
    size_t w = (size_t)a->width * (size_t)a->bytes;
    bool half = plane && a->chroma == TACHY_CUDA_CHROMA_HALF;
    return half ? w / 2 : w;
}

static int rows(const struct tachy_cuda_composite *a, int plane)
{
    bool half = a->chroma == TACHY_CUDA_CHROMA_HALF || a->chroma == TACHY_CUDA_CHROMA_PAIRS;
    return plane && half ? a->height / 2 : a->height;
}

static void copy_frame(const struct tachy_cuda_composite *a, const struct tachy_cuda_composite_frame *f)
{
    int planes = a->chroma == TACHY_CUDA_CHROMA_NONE ? 1 : a->chroma == TACHY_CUDA_CHROMA_PAIRS ? 2 : 3;
    for (int p = 0; p < planes; p++)
        for (int y = 0; y < rows(a, p); y++)
            memcpy(at(f->out[p]) + y * a->out_stride[p], at(f->in[p]) + y * a->in_stride[p], row_bytes(a, p));
}

static int run_composite(const struct tachy_cuda_composite *a, cuda_stream stream)
{
    for (int i = 0; i < a->count; i++) {
        const struct tachy_cuda_composite_frame *f = &a->frame[i];
        if (a->own)
            copy_frame(a, f);
        for (int y = 0; y < a->height && !a->own; y++)
            for (int x = 0; x < a->width; x++)
                at(f->out[0])[y * a->out_stride[0] + x] = (uint8_t)(x + 2 * y);
        *(uint32_t *)(void *)at(f->counted) += 1;
    }
    return run_any(stream);
}

static int run_prob(const struct tachy_cuda_prob *a, cuda_stream stream) { return run_any(stream); }
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

// ---- The fakes

static struct fake_nvenc_state *nvenc;
static struct fake_cuda_counts *counts;
static void (*list_gpus)(int n);
static void (*fail_cuda)(int status);

// Restores the state before each case.
static void anew(void)
{
    *nvenc = (struct fake_nvenc_state){.sessions = nvenc->sessions};
    list_gpus(1);
}

static void check_all_back(void)
{
    CHECK_INT(nvenc->wrong + nvenc->other_version, 0);
    CHECK_INT(nvenc->sessions, 0);
    CHECK(nvenc->most_registered <= 64);
    CHECK_INT(counts->allocations, 0);
    CHECK_INT(counts->streams, 0);
    CHECK_INT(counts->events, 0);
    CHECK_INT(counts->contexts, 0);
}

// ---- Runs

static char folder[64], said[4096];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void on_message(void *user, enum tachy_log_level level, const char *msg)
{
    pthread_mutex_lock(&lock);
    size_t used = strlen(said);
    snprintf(said + used, sizeof(said) - used, "%s\n", msg);
    pthread_mutex_unlock(&lock);
}
static const struct tachy_log to_text = {.fn = on_message, .max_level = TACHY_LOG_VERBOSE};

struct way {
    const char *name;   // of the file
    const char *format; // of the source's frames
    const char *mode;
    enum tachy_encode encode;
    const char *codec, *preset, *crf;
    int width, height, frames, gpus; // 0: the usual ones
    bool resume, calibrate;
};

static void path_of(const char *name, char path[160]) { snprintf(path, 160, "%s/%s", folder, name); }

static tachy_task *open_task(const struct way *way)
{
    tachy_settings *set = NULL;
    tachy_task *t = NULL;
    CHECK_INT(tachy_settings_new(&set, NULL), TACHY_OK);
    const char *const with[][2] = {{"model.name", "tiny"}, {"model.dir", folder}, {"model.provider", "null"},
                                   {"segment.mode", way->mode ? way->mode : "cutout"}, {"gpu.device", "cuda"}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(with); i++)
        CHECK_INT(tachy_settings_set(set, with[i][0], with[i][1], "test"), TACHY_OK);
    if (way->gpus > 1)
        CHECK_INT(tachy_settings_set(set, "gpu.ids", "all", "test"), TACHY_OK);
    CHECK_INT(tachy_task_open(&t, "segment", set, &to_text), TACHY_OK);
    tachy_settings_free(&set);
    return t;
}

// Moving pictures of this size and format, as they are.
static void make_input(const struct way *way, char path[160])
{
    char command[400], name[64];
    int width = TACHY_DEF(way->width, W), height = TACHY_DEF(way->height, H), frames = TACHY_DEF(way->frames, FRAMES);
    snprintf(name, sizeof(name), "in-%s-%dx%d-%d.nut", way->format, width, height, frames);
    path_of(name, path);
    if (access(path, F_OK) == 0)
        return;
    snprintf(command, sizeof(command), "ffmpeg -nostdin -v error -f lavfi -i testsrc2=s=%dx%d:r=25 -frames:v %d -pix_fmt %s "
             "-c:v rawvideo %s", width, height, frames, way->format, path);
    CHECK_INT(system(command), 0);
}

static struct tachy_summary sum; // of the last run

static int run(const struct way *way)
{
    char path[160], url[160];
    tachy_sink *sink = NULL;
    tachy_source *source = NULL;
    said[0] = '\0';
    list_gpus(TACHY_DEF(way->gpus, 1));
    path_of(way->name, path);
    make_input(way, url);
    tachy_task *t = open_task(way);
    CHECK_INT(tachy_source_open(&source, &(struct tachy_source_params){.url = url, .log = &to_text}), TACHY_OK);
    CHECK_INT(tachy_sink_open(&sink, &(struct tachy_sink_params){
                                         .url = path, .overwrite = true, .encode = way->encode, .codec = way->codec,
                                         .preset = way->preset, .crf = way->crf, .on_gpu = true, .resume = way->resume,
                                         .part_frames = way->resume ? 7 : 0, .log = &to_text}),
              TACHY_OK);
    int err = TACHY_ERR_STATE;
    if (t && source && sink)
        err = tachy_run(&(struct tachy_run_params){.task = t, .source = source, .sink = sink, .workers = 2,
                                                  .calibrate = way->calibrate, .cache_dir = folder, .log = &to_text}, &sum);
    if (err == TACHY_OK)
        err = tachy_sink_path(sink) ? TACHY_OK : TACHY_ERR_STATE;
    tachy_sink_close(&sink);
    tachy_source_close(&source);
    tachy_task_close(&t);
    check_all_back();
    return err;
}

// FFmpeg's output for a file: one line per picture, with its time and checksum.
static char *decoded(const char *name, bool times)
{
    char path[160], command[256], line[256];
    path_of(name, path);
    snprintf(command, sizeof(command), "ffmpeg -nostdin -v error -i %s -f framemd5 -", path);
    FILE *f = popen(command, "r");
    size_t size = 1 << 18, used = 0;
    char *text = calloc(1, size);
    while (f && fgets(line, sizeof(line), f)) {
        const char *hash = strrchr(line, ',');
        if (line[0] != '#' && hash)
            used += (size_t)snprintf(text + used, size - used, "%s", times ? line : hash);
    }
    CHECK(f && pclose(f) == 0);
    return text;
}

static int lines(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void check_same(const char *a, const char *b, int frames, bool times)
{
    char *x = decoded(a, times), *y = decoded(b, times);
    CHECK_INT(lines(x), frames);
    size_t same = 0;
    while (x[same] && x[same] == y[same])
        same++;
    bool differ = x[same] != y[same];
    while (same && x[same - 1] != '\n')
        same--;
    if (differ)
        fprintf(stderr, "%s and %s differ from here on:\n%.200s\n%.200s\n", a, b, x + same, y + same);
    CHECK(!differ);
    free(x);
    free(y);
}

// The reference: the same pictures through x264 without loss.
static void by_cpu(struct way way, const char *name)
{
    way.name = name;
    way.encode = TACHY_ENCODE_CPU;
    way.preset = "ultrafast";
    way.crf = "0";
    way.resume = false;
    CHECK_INT(run(&way), TACHY_OK);
}

static void need(void)
{
    if (!HAVE_NVENC_HEADER)
        SKIP("ffnvcodec/nvEncodeAPI.h is not installed (libffmpeg-nvenc-dev)");
    if (!avcodec_find_encoder_by_name("h264_nvenc") || !avcodec_find_encoder_by_name("libx264"))
        SKIP("this FFmpeg has no h264_nvenc or no libx264");
    tachy_av_quiet();
    launch = (__typeof__(launch))fake_symbol("libcuda.so.1", "fake_cuda_launch");
    list_gpus = (__typeof__(list_gpus))fake_symbol("libcuda.so.1", "fake_cuda_list");
    fail_cuda = (__typeof__(fail_cuda))fake_symbol("libcuda.so.1", "fake_cuda_fail");
    __typeof__(fake_cuda_count) *count = (__typeof__(count))fake_symbol("libcuda.so.1", "fake_cuda_count");
    __typeof__(fake_nvenc) *state = (__typeof__(state))fake_symbol("libnvidia-encode.so.1", "fake_nvenc");
    counts = count();
    nvenc = state();
    char why[300] = "";
    int err = tachy_nvenc_try(avcodec_find_encoder_by_name("h264_nvenc"), NULL, AV_PIX_FMT_NV12, W, H, why, sizeof(why));
    if (err < 0 && (nvenc->other_version || err == TACHY_ERR_UNSUPPORTED))
        SKIP("FFmpeg's NVENC is of another version than nvEncodeAPI.h");
}

static void write_text(const char *name, const char *text)
{
    char path[160];
    path_of(name, path);
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

TEST(opens)
{
    snprintf(folder, sizeof(folder), "/tmp/test_nvenc-XXXXXX");
    CHECK(mkdtemp(folder));
    write_text("tiny.json", "{\"name\": \"tiny\", \"task\": \"segment\", \"file\": \"tiny.onnx\", \"input\": {\"width\": 16, "
                            "\"height\": 16, \"layout\": \"nhwc\", \"channels\": \"luma\"}, \"output\": {\"meaning\": "
                            "\"probability\"}}");
    write_text("tiny.onnx", "no model"); // nobody opens it
}

// ---- Cases

TEST(surfaces_are_encoded_where_they_are)
{
    const struct way ways[] = {{.name = "a.mp4", .format = "nv12"}, {.name = "b.mp4", .format = "yuv420p"},
                               {.name = "c.mkv", .format = "yuv444p"}, {.name = "d.mp4", .format = "nv12", .mode = "mask"},
                               {.name = "e.ts", .format = "nv12", .preset = "veryfast", .crf = "23.5"}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(ways); i++) {
        char name[32];
        anew();
        nvenc->interval = i % 2 ? 4 : 1; // it holds some back
        CHECK_INT(run(&ways[i]), TACHY_OK);
        CHECK_INT(nvenc->surfaces, FRAMES + 1); // and the one that tries it
        CHECK_INT(nvenc->uploads, 0);
        CHECK(nvenc->stream);
        CHECK_INT(nvenc->quality, ways[i].crf ? 23.5 * 256 : 18 * 256);
        CHECK_INT(nvenc->bit_rate, 0);
        CHECK_INT(nvenc->preset, ways[i].preset ? 2 : 4);
        CHECK(strstr(said, "encoder: h264_nvenc on GPU 0, which reads the pictures from its memory"));
        snprintf(name, sizeof(name), "cpu-%s", ways[i].name);
        by_cpu(ways[i], name);
        check_same(ways[i].name, name, FRAMES, true);
    }
}

static void remove_one(const char *name)
{
    char path[160];
    path_of(name, path);
    remove(path);
}

// It is the device's resource, not the cores', in the light ratio; surfaces are not copied to the host.
TEST(the_light_ratio_counts_it)
{
    struct way way = {.name = "light.mp4", .format = "nv12", .calibrate = true};
    anew();
    nvenc->most_sessions = 2; // the run's and one that is measured
    setenv("XDG_CACHE_HOME", folder, 1);
    CHECK_INT(run(&way), TACHY_OK);
    remove_one("tachy/gpu-rates.json");
    remove_one("tachy");
    const struct tachy_resource_stats *r = sum.resources;
    CHECK(sum.light_ratio > 0 && r[TACHY_RESOURCE_NVENC].light_ms > 0);
    CHECK(r[TACHY_RESOURCE_NVENC].light_ms == sum.steps[TEST_STEP_ENCODE].light_ms);
    CHECK_INT(r[TACHY_RESOURCE_NVENC].copies, 1);
    CHECK(r[TACHY_RESOURCE_TO_HOST].light_ms < 0.1 * r[TACHY_RESOURCE_TO_DEVICE].light_ms); // masks; pictures of a file's
    CHECK_INT(nvenc->uploads, 0);
}

// Pictures that surfaces do not suit go through host memory.
TEST(the_host_steps_in)
{
    const struct way way = {.name = "host.mp4", .format = "nv12"}, deep = {.name = "deep.mkv", .format = "yuv444p10le"};
    anew();
    nvenc->no_surfaces = 1;
    CHECK_INT(run(&way), TACHY_OK);
    CHECK_INT(nvenc->uploads, FRAMES);
    CHECK_INT(nvenc->surfaces, 0);
    CHECK(strstr(said, "h264_nvenc does not take 128x64 nv12 surfaces"));
    CHECK(strstr(said, "encoder: h264_nvenc on GPU 0, which reads the pictures from host memory"));
    by_cpu(way, "cpu-host.mp4");
    check_same(way.name, "cpu-host.mp4", FRAMES, true);
    anew();
    CHECK_INT(run(&deep), TACHY_OK); // 10 bits are nothing for H.264's
    CHECK_INT(nvenc->surfaces + nvenc->uploads, 0);
    CHECK(strstr(said, "encoder: libx264 on the CPU"));
}

TEST(there_is_none)
{
    struct way way = {.name = "none.mp4", .format = "nv12"};
    for (int i = 0; i < 3; i++) {
        anew();
        nvenc->without = i == 0;
        nvenc->old_driver = i == 1;
        nvenc->most_sessions = i == 2 ? -1 : 0; // others have them all
        way.encode = TACHY_ENCODE_AUTO;
        CHECK_INT(run(&way), TACHY_OK);
        CHECK_INT(nvenc->surfaces + nvenc->uploads, 0);
        CHECK(strstr(said, "encoder: libx264 on the CPU: h264_nvenc does not open for 128x64 nv12 pictures"));
        way.encode = TACHY_ENCODE_NVENC;
        CHECK_INT(run(&way), TACHY_ERR_UNAVAILABLE);
        CHECK(strstr(said, "--encoder nvenc: h264_nvenc does not open"));
    }
}

static int files_left(const char *prefix)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (const struct dirent *e; d && (e = readdir(d));)
        n += strstr(e->d_name, prefix) != NULL;
    closedir(d);
    return n;
}

TEST(it_fails_on_the_way)
{
    const struct way way = {.name = "fails.mp4", .format = "nv12"};
    for (int i = 2; i < 30; i += 9) {
        anew();
        nvenc->interval = i % 2 ? 3 : 1;
        nvenc->fail_at = i;
        CHECK_INT(run(&way), TACHY_ERR_EXTERNAL);
        CHECK(strstr(said, "the encoder h264_nvenc failed at frame"));
    }
}

// Frames of another GPU than the encoder's come by way of the host.
TEST(several_gpus)
{
    const struct way way = {.name = "several.mp4", .format = "nv12", .gpus = 3};
    anew();
    CHECK_INT(run(&way), TACHY_OK);
    CHECK_INT(nvenc->surfaces, FRAMES + 1);
    CHECK_INT(nvenc->device, 0);
    by_cpu(way, "cpu-several.mp4");
    check_same(way.name, "cpu-several.mp4", FRAMES, true);
}

// Pictures may wait for their turn in hundreds, surfaces not.
TEST(surfaces_stay_few)
{
    const struct way way = {.name = "many.mp4", .format = "nv12", .frames = 160};
    anew();
    nvenc->interval = 8;
    CHECK_INT(run(&way), TACHY_OK);
    CHECK_INT(nvenc->surfaces, 161);
    printf("figure surfaces_registered %d at_once, %d in_160_frames\n", nvenc->most_registered, nvenc->registrations);
    by_cpu(way, "cpu-many.mp4");
    check_same(way.name, "cpu-many.mp4", 160, true);
}

TEST(in_parts)
{
    struct way way = {.name = "parts.mp4", .format = "nv12", .encode = TACHY_ENCODE_NVENC, .resume = true};
    anew();
    CHECK_INT(run(&way), TACHY_OK);
    CHECK_INT(nvenc->surfaces, FRAMES + 1);
    CHECK(nvenc->opened >= FRAMES / 7 + 1);
    by_cpu(way, "cpu-parts.mp4");
    check_same(way.name, "cpu-parts.mp4", FRAMES, true);
    anew();
    way.encode = TACHY_ENCODE_AUTO; // which is to be the same wherever it goes on
    CHECK_INT(run(&way), TACHY_OK);
    CHECK_INT(nvenc->opened, 0);
}

// ---- Only the sink

static tachy_frame *frame_on(tachy_frame_pool *pool, bool surface, int64_t pts)
{
    tachy_frame *f = NULL;
    CHECK_INT(surface ? tachy_surface_get(pool, &f) : tachy_frame_pool_get(pool, &f), TACHY_OK);
    for (int i = 0; f && i < 2; i++)
        memset(tachy_frame_writable(f, i), 40 + (int)pts, (size_t)f->stride[i] * (size_t)(i ? f->height / 2 : f->height));
    if (f)
        f->pts = pts;
    return f;
}

// A stream whose pictures change their size, place and GPU.
TEST(pictures_of_every_kind)
{
    char path[160];
    tachy_sink *s = NULL;
    struct tachy_gpu *g[2];
    tachy_frame_pool *pool[5];
    const struct tachy_video_info info = {.format = TACHY_PIX_NV12, .width = W, .height = H, .time_base = {1, 25},
                                          .fps = {25, 1}};
    struct tachy_surface_spec spec[] = {{0, TACHY_PIX_NV12, W, H}, {0, TACHY_PIX_NV12, 2 * W, H}, {1, TACHY_PIX_NV12, W, H}};
    anew();
    list_gpus(2);
    said[0] = '\0';
    path_of("kinds.mp4", path);
    for (int i = 0; i < 2; i++)
        CHECK_INT(tachy_gpu_open(&g[i], i, NULL, &to_text), TACHY_OK);
    for (int i = 0; i < 3; i++)
        CHECK_INT(tachy_surface_pool_open(&pool[i], g[spec[i].device], &spec[i]), TACHY_OK);
    CHECK_INT(tachy_frame_pool_open(&pool[3], TACHY_PIX_NV12, W, H), TACHY_OK);
    CHECK_INT(tachy_frame_pool_open(&pool[4], TACHY_PIX_NV12, W, 2 * H), TACHY_OK);
    CHECK_INT(tachy_sink_open(&s, &(struct tachy_sink_params){.url = path, .overwrite = true, .on_gpu = true, .log = &to_text}),
              TACHY_OK);
    CHECK(!tachy_sink_surfaces(s));
    CHECK_INT(tachy_sink_start(s, &info), TACHY_OK);
    const struct tachy_surface_spec *takes = tachy_sink_surfaces(s);
    CHECK(takes && takes->device == 0 && takes->format == TACHY_PIX_NV12 && takes->width == W && takes->height == H);
    for (int i = 0; i < 15; i++) {
        tachy_frame *f = frame_on(pool[i % 5], i % 5 < 3, i);
        CHECK_INT(tachy_sink_write(s, f, NULL), TACHY_OK);
        tachy_frame_unref(&f);
    }
    CHECK_INT(tachy_sink_finish(s, false), TACHY_OK);
    CHECK(strstr(said, "frame 0 is 256x64 nv12 where the stream began as 128x64"));
    tachy_sink_close(&s);
    for (int i = 0; i < 5; i++)
        tachy_frame_pool_close(&pool[i]);
    for (int i = 0; i < 2; i++)
        tachy_gpu_unref(&g[i]);
    check_all_back();
    char *text = decoded("kinds.mp4", true);
    CHECK_INT(lines(text), 15);
    free(text);
}

enum { WIDE = 4112, TEN_BITS = 6 };

static void fill_ten_bits(tachy_frame *f, int n)
{
    for (int i = 0; i < 2; i++)
        for (int y = 0; y < (i ? H / 2 : H) / 2; y++) {
            uint16_t *row = (uint16_t *)(void *)(tachy_frame_writable(f, i) + y * f->stride[i]);
            for (int x = 0; x < WIDE; x++)
                row[x] = (uint16_t)((64 + (x + 3 * y + 40 * n + 200 * i) % 800) << 6);
        }
    f->pts = n;
}

// A file of made-up pictures of 10 bits, in surfaces or on the host.
static void write_ten_bits(const char *name, struct tachy_gpu *g)
{
    char path[160];
    tachy_sink *s = NULL;
    tachy_frame_pool *pool;
    const struct tachy_video_info info = {.format = TACHY_PIX_P010, .width = WIDE, .height = H / 2, .time_base = {1, 25},
                                          .fps = {25, 1}};
    const struct tachy_surface_spec spec = {0, info.format, info.width, info.height};
    path_of(name, path);
    CHECK_INT(g ? tachy_surface_pool_open(&pool, g, &spec) : tachy_frame_pool_open(&pool, info.format, WIDE, H / 2), TACHY_OK);
    CHECK_INT(tachy_sink_open(&s, &(struct tachy_sink_params){.url = path, .overwrite = true, .on_gpu = g,
                                                              .codec = g ? NULL : "ffv1", .log = &to_text}), TACHY_OK);
    CHECK_INT(tachy_sink_start(s, &info), TACHY_OK);
    for (int i = 0; i < TEN_BITS; i++) {
        tachy_frame *f = NULL;
        CHECK_INT(g ? tachy_surface_get(pool, &f) : tachy_frame_pool_get(pool, &f), TACHY_OK);
        fill_ten_bits(f, i);
        CHECK_INT(tachy_sink_write(s, f, NULL), TACHY_OK);
        tachy_frame_unref(&f);
    }
    CHECK_INT(tachy_sink_finish(s, false), TACHY_OK);
    tachy_sink_close(&s);
    tachy_frame_pool_close(&pool);
}

// HEVC's NVENC stands for x265, which is the default above 4096 pixels.
TEST(ten_bits)
{
    struct tachy_gpu *g;
    anew();
    if (!avcodec_find_encoder_by_name("hevc_nvenc") || !avcodec_find_encoder_by_name("libx265")) {
        puts("skipped: ten_bits, because this FFmpeg has no hevc_nvenc or no libx265");
        return;
    }
    CHECK_INT(tachy_gpu_open(&g, 0, NULL, &to_text), TACHY_OK);
    write_ten_bits("ten.ts", g);
    tachy_gpu_unref(&g);
    CHECK(nvenc->hevc && !nvenc->uploads);
    CHECK_INT(nvenc->surfaces, TEN_BITS + 1);
    check_all_back();
    write_ten_bits("ten.mkv", NULL);
    check_same("ten.ts", "ten.mkv", TEN_BITS, false);
}

// Pictures that have to be turned are turned by the CPU.
TEST(turned_pictures)
{
    char path[160];
    tachy_sink *s = NULL;
    const struct tachy_video_info info = {.format = TACHY_PIX_YUV420P, .width = W, .height = H, .time_base = {1, 25},
                                          .fps = {25, 1}, .rotation = 90};
    anew();
    path_of("turned.avi", path);
    CHECK_INT(tachy_sink_open(&s, &(struct tachy_sink_params){.url = path, .overwrite = true, .on_gpu = true, .log = &to_text}),
              TACHY_OK);
    CHECK_INT(tachy_sink_start(s, &info), TACHY_OK);
    CHECK(!tachy_sink_surfaces(s) && s->nvenc);
    tachy_sink_close(&s);
    check_all_back();
}

TEST(the_device_fails)
{
    const struct way way = {.name = "device.mp4", .format = "nv12"};
    char path[160];
    anew();
    fail_cuda(700);
    tachy_sink *s = NULL;
    const struct tachy_video_info info = {.format = TACHY_PIX_NV12, .width = W, .height = H, .time_base = {1, 25}};
    path_of(way.name, path);
    CHECK_INT(tachy_sink_open(&s, &(struct tachy_sink_params){.url = path, .overwrite = true, .on_gpu = true, .log = &to_text}),
              TACHY_OK);
    int err = tachy_sink_start(s, &info);
    CHECK(err == TACHY_OK || err == TACHY_ERR_EXTERNAL);
    tachy_sink_close(&s);
    fail_cuda(0);
    check_all_back();
}

TEST(cleans)
{

    CHECK_INT(files_left("fails"), 0);
    CHECK_INT(files_left("parts"), 2); // parts.mp4 and the CPU's
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));) {
        char path[400];
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        unlink(path);
    }
    closedir(d);
    rmdir(folder);
}

int main(void)
{
    need();
    static const struct test_case cases[] = {
        TEST_CASE(opens), TEST_CASE(surfaces_are_encoded_where_they_are), TEST_CASE(the_host_steps_in), TEST_CASE(ten_bits),
        TEST_CASE(there_is_none), TEST_CASE(it_fails_on_the_way), TEST_CASE(several_gpus), TEST_CASE(surfaces_stay_few),
        TEST_CASE(in_parts), TEST_CASE(pictures_of_every_kind), TEST_CASE(turned_pictures), TEST_CASE(the_device_fails),
        TEST_CASE(the_light_ratio_counts_it), TEST_CASE(cleans)};
    return test_run(cases, TACHY_ARRAY_SIZE(cases));
}
