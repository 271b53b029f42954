#include "test.h"

#include "base/base.h"
#include "clips.h"
#include "fakes/fake.h"
#include "fakes/symbol.h"
#include "media/convert.h"
#include "media/frame_priv.h"
#include "postprocess/composite.h"
#include "postprocess/mask.h"
#include "preprocess/signature.h"
#include "source/source_ops.h"

#include <jansson.h>
#include <libavutil/hwcontext.h>
#include <tachy/preprocess.h>
#include <tachy/doctor.h>
#include <tachy/sink.h>
#include <tachy/source.h>
#include <unistd.h>

// Frames in GPU memory, over a driver without a GPU (fakes/), whose memory is really the host's, so that copies can be
// inspected. Crops are compared with FFmpeg's own cropping of the same picture. tests/gpu/test_gpu_decode.c covers the
// real device.

static char last_message[1024];
static void on_message(void *user, enum tachy_log_level level, const char *msg)
{
    snprintf(last_message, sizeof(last_message), "%s", msg);
}
static const struct tachy_log log_errors = {.fn = on_message, .max_level = TACHY_LOG_WARN};

static struct fake_cuda_counts *counts(void)
{
    static __typeof__(fake_cuda_count) *fn;
    if (!fn)
        fn = (__typeof__(fn))fake_symbol("libcuda.so.1", "fake_cuda_count");
    return fn();
}

static struct tachy_gpu *open_gpu(void)
{
    struct tachy_gpu *g;
    counts(); // ends here with another driver
    CHECK_INT(tachy_gpu_open(&g, 0, NULL, &log_errors), TACHY_OK);
    return g;
}

static uint8_t sample(int plane, size_t x, int y) { return (uint8_t)(plane * 80 + (int)x * 7 + y * 13); }

// A frame of the GPU's with a pattern in it.
static tachy_frame *on_gpu(tachy_frame_pool *pool)
{
    tachy_frame *f = NULL;
    CHECK_INT(tachy_frame_pool_get(pool, &f), TACHY_OK);
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    for (int i = 0; i < d->planes; i++)
        for (int y = 0; y < tachy_plane_rows(d, i, f->height); y++)
            for (size_t x = 0; x < tachy_plane_row_bytes(d, i, f->width); x++)
                tachy_frame_writable(f, i)[y * f->stride[i] + (ptrdiff_t)x] = sample(i, x, y);
    return f;
}

TEST(download)
{
    static const enum tachy_pix formats[] = {TACHY_PIX_NV12, TACHY_PIX_P010, TACHY_PIX_YUV444P};
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(formats); k++) {
        struct tachy_gpu *g = open_gpu();
        tachy_frame_pool *pool;
        CHECK_INT(tachy_frame_pool_open_gpu(&pool, g, formats[k], 37, 21), TACHY_OK);
        tachy_frame *f = on_gpu(pool), *host = NULL;
        CHECK_INT(f->mem, TACHY_DEVICE);
        CHECK(f->device == 0 && f->stream == g->stream && f->stride[0] % 256 == 0);
        f->id = 7;
        f->pts = 70;
        f->duration = 3;
        f->key = true;
        f->discontinuity = 1;
        f->color.matrix = 9;
        tachy_frame_pool_close(&pool); // the frame is still out
        tachy_gpu_unref(&g);
        CHECK_INT(tachy_frame_download(&host, f, &log_errors), TACHY_OK);
        tachy_frame_unref(&f);
        CHECK_INT(counts()->allocations + counts()->streams + counts()->contexts, 0);
        CHECK(host->mem == TACHY_HOST && host->id == 7 && host->pts == 70 && host->duration == 3 &&
              host->key && host->discontinuity && host->color.matrix == 9);
        const struct tachy_pix_desc *d = tachy_pix_desc(host->format);
        int wrong = 0;
        for (int i = 0; i < d->planes; i++)
            for (int y = 0; y < tachy_plane_rows(d, i, host->height); y++)
                for (size_t x = 0; x < tachy_plane_row_bytes(d, i, host->width); x++)
                    wrong += host->data[i][y * host->stride[i] + (ptrdiff_t)x] != sample(i, x, y);
        CHECK_INT(wrong, 0);
        tachy_frame *same = NULL;
        CHECK_INT(tachy_frame_download(&same, host, NULL), TACHY_OK);
        CHECK(same == host);
        tachy_frame_unref(&same);
        tachy_frame_unref(&host);
    }
}

static void write_to_sink(const char *format, tachy_frame *f, int expected)
{
    tachy_sink *s;
    struct tachy_video_info info = {.format = f->format, .width = f->width, .height = f->height,
                                    .time_base = {1, 25}, .fps = {25, 1}};
    CHECK_INT(tachy_sink_open(&s, &(struct tachy_sink_params){.url = "-", .format = format,
                                                              .log = &log_errors}), TACHY_OK);
    CHECK_INT(tachy_sink_start(s, &info), TACHY_OK);
    CHECK_INT(tachy_sink_write(s, f, NULL), expected);
    tachy_sink_close(&s);
}

// Frames of each kind of memory are allocated and freed there; host frames need no GPU, even if one is named.
TEST(places)
{
    static const enum tachy_mem places[] = {TACHY_HOST, TACHY_PINNED, TACHY_DEVICE};
    struct tachy_gpu *g = open_gpu();
    tachy_frame_pool *pool;
    tachy_frame *f;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(places); i++) {
        const int before = counts()->allocations;
        CHECK_INT(tachy_frame_pool_open_mem(&pool, g, places[i], TACHY_PIX_NV12, 64, 48), TACHY_OK);
        CHECK_INT(tachy_frame_pool_get(pool, &f), TACHY_OK);
        CHECK_INT(f->mem, places[i]);
        CHECK_INT(counts()->allocations, before + (places[i] != TACHY_HOST));
        tachy_frame_unref(&f);
        tachy_frame_pool_close(&pool);
        CHECK_INT(counts()->allocations, before);
        int err = tachy_frame_pool_open_mem(&pool, NULL, places[i], TACHY_PIX_NV12, 64, 48);
        CHECK_INT(err, i ? TACHY_ERR_INVAL : TACHY_OK);
        CHECK(!pool == (i > 0));
        tachy_frame_pool_close(&pool);
    }
    tachy_gpu_unref(&g);
    CHECK_INT(counts()->contexts, 0);
}

// Everything that reads pixels on the CPU says that it cannot.
TEST(the_cpu_refuses)
{
    struct tachy_gpu *g = open_gpu();
    tachy_frame_pool *pool;
    CHECK_INT(tachy_frame_pool_open_gpu(&pool, g, TACHY_PIX_NV12, 64, 64), TACHY_OK);
    tachy_frame *f = on_gpu(pool), *other = NULL;
    struct tachy_convert *c = NULL;
    static const char said[] = "cannot read a frame in the memory of GPU 0";
    struct tachy_convert_to to = {TACHY_PIX_RGB24, 64, 64, {0}};
    CHECK_INT(tachy_convert_frame(&c, f, &to, &other, &log_errors), TACHY_ERR_UNSUPPORTED);
    CHECK(!other && strstr(last_message, said));
    tachy_convert_close(&c);
    AVFrame *av = NULL;
    CHECK_INT(tachy_frame_to_av(&av, f), TACHY_ERR_UNSUPPORTED);

    last_message[0] = '\0';
    tachy_preprocess *pre;
    struct tachy_tensor t = {.dtype = TACHY_F32, .rank = 3, .shape = {3, 16, 16}};
    CHECK_INT(tachy_tensor_alloc(&t), TACHY_OK);
    CHECK_INT(tachy_preprocess_open(&pre, tachy_preprocess_params(.width = 16, .height = 16,
                                                                  .log = &log_errors)), TACHY_OK);
    CHECK_INT(tachy_preprocess_run(pre, f, NULL, &t, NULL), TACHY_ERR_UNSUPPORTED);
    CHECK(strstr(last_message, said));
    tachy_preprocess_close(&pre);
    tachy_tensor_free(&t);

    struct tachy_signature signature;
    uint8_t guide[16 * 16], mask[4] = {255, 0, 255, 0};
    struct tachy_rect all = {0, 0, 64, 64};
    CHECK_INT(tachy_signature_make(&signature, f, NULL), TACHY_ERR_UNSUPPORTED);
    CHECK_INT(tachy_luma_guide(f, &all, guide, 16, 16, 16), TACHY_ERR_UNSUPPORTED);

    last_message[0] = '\0';
    tachy_composite *composite;
    struct tachy_composite_params p = {.mode = TACHY_MODE_BLUR, .threshold = 0.5f, .log = &log_errors};
    struct tachy_result r = {.eyes = 1};
    r.mask[0] = (struct tachy_mask){.data = mask, .stride = 2, .width = 2, .height = 2, .region = all};
    struct tachy_frame_params host = {.format = TACHY_PIX_NV12, .width = 64, .height = 64};
    CHECK_INT(tachy_composite_open(&composite, &p), TACHY_OK);
    CHECK_INT(tachy_frame_new(&other, &host), TACHY_OK);
    CHECK_INT(tachy_composite_run(composite, f, &r, NULL, NULL, other), TACHY_ERR_UNSUPPORTED);
    CHECK(strstr(last_message, said));
    CHECK_INT(tachy_composite_run(composite, other, &r, NULL, NULL, f), TACHY_ERR_UNSUPPORTED);
    tachy_composite_close(&composite);
    tachy_frame_unref(&other);

    last_message[0] = '\0';
    write_to_sink("framemd5", f, TACHY_ERR_UNSUPPORTED);
    CHECK(strstr(last_message, said));
    write_to_sink("null", f, TACHY_OK);
    tachy_frame_unref(&f);
    tachy_frame_pool_close(&pool);
    tachy_gpu_unref(&g);
}

// A picture as NVDEC returns it: in one block, chroma after rows that are not shown.
static AVFrame *decoded(AVBufferRef *device, enum AVPixelFormat sw, int width, int height)
{
    AVBufferRef *frames = av_hwframe_ctx_alloc(device);
    AVHWFramesContext *ctx = (AVHWFramesContext *)(void *)frames->data;
    ctx->format = AV_PIX_FMT_CUDA;
    ctx->sw_format = sw;
    ctx->width = width;
    ctx->height = height;
    AVFrame *av = av_frame_alloc();
    size_t wide = sw == AV_PIX_FMT_P010LE ? 2 : 1, pitch = (size_t)width * wide + 32;
    av->buf[0] = av_buffer_alloc(pitch * (size_t)(height + 8) * 2);
    av->data[0] = av->buf[0]->data;
    av->data[1] = av->data[0] + pitch * (size_t)(height + 8);
    av->linesize[0] = av->linesize[1] = (int)pitch;
    for (size_t i = 0; i < av->buf[0]->size; i++)
        av->buf[0]->data[i] = (uint8_t)(i * 2654435761u >> 13);
    av->format = AV_PIX_FMT_CUDA;
    av->width = width;
    av->height = height;
    av->hw_frames_ctx = frames;
    return av;
}

// The same picture as from a CPU decoder.
static AVFrame *planar_of(const AVFrame *gpu, bool deep)
{
    AVFrame *av = av_frame_alloc();
    av->format = deep ? AV_PIX_FMT_YUV420P10LE : AV_PIX_FMT_YUV420P;
    av->width = gpu->width;
    av->height = gpu->height;
    CHECK(av_frame_get_buffer(av, 64) >= 0);
    int cw = (gpu->width + 1) / 2, ch = (gpu->height + 1) / 2;
    for (int p = 0; p < 3; p++)
        for (int y = 0; y < (p ? ch : gpu->height); y++)
            for (int x = 0; x < (p ? cw : gpu->width); x++) {
                int at = p ? 2 * x + p - 1 : x;
                const uint8_t *row = gpu->data[p > 0] + y * gpu->linesize[p > 0];
                uint8_t *to = av->data[p] + y * av->linesize[p];
                if (deep)
                    ((uint16_t *)(void *)to)[x] = ((const uint16_t *)(const void *)row)[at] >> 6;
                else
                    to[x] = row[at];
            }
    return av;
}

static int compare(const tachy_frame *f, const AVFrame *av, bool deep)
{
    int wrong = 0;
    for (int p = 0; p < 3; p++)
        for (int y = 0; y < (p ? (av->height + 1) / 2 : av->height); y++)
            for (int x = 0; x < (p ? (av->width + 1) / 2 : av->width); x++) {
                int at = p ? 2 * x + p - 1 : x;
                const uint8_t *row = f->data[p > 0] + y * f->stride[p > 0], *to = av->data[p] + y * av->linesize[p];
                wrong += deep ? ((const uint16_t *)(const void *)to)[x] != ((const uint16_t *)(const void *)row)[at] >> 6
                              : to[x] != row[at];
            }
    return wrong;
}

TEST(crops_are_ffmpegs)
{
    static const int crops[][4] = {{0, 0, 0, 0}, {0, 2, 0, 8}, {64, 0, 0, 0}, {32, 4, 6, 2},
                                   {1, 1, 1, 1}, {2, 6, 0, 0}, {65, 3, 5, 7}, {128, 9, 3, 0}};
    struct tachy_gpu *g = open_gpu();
    AVBufferRef *device;
    CHECK_INT(tachy_av_device_alloc(&device, g), TACHY_OK);
    for (size_t k = 0; k < 2 * TACHY_ARRAY_SIZE(crops); k++) {
        bool deep = k % 2;
        const int *crop = crops[k / 2];
        if (deep && crop[0] % 2)
            continue; // FFmpeg takes it for an error; no 4:2:0 stream can say so
        AVFrame *gpu = decoded(device, deep ? AV_PIX_FMT_P010LE : AV_PIX_FMT_NV12, 224, 64);
        AVFrame *cpu = planar_of(gpu, deep);
        for (AVFrame *av = gpu; av; av = av == gpu ? cpu : NULL) {
            av->crop_left = (size_t)crop[0];
            av->crop_top = (size_t)crop[1];
            av->crop_right = (size_t)crop[2];
            av->crop_bottom = (size_t)crop[3];
            CHECK(av_frame_apply_cropping(av, 0) >= 0); // as FFmpeg's decoders do
        }
        tachy_frame *f = NULL;
        CHECK_INT(tachy_frame_from_av(&f, gpu), TACHY_OK);
        CHECK(f->mem == TACHY_DEVICE && f->device == 0 && f->stream == g->stream);
        CHECK_INT(f->format, deep ? TACHY_PIX_P010 : TACHY_PIX_NV12);
        CHECK_INT(f->width, cpu->width);
        CHECK_INT(f->height, cpu->height);
        CHECK_INT(compare(f, cpu, deep), 0);
        tachy_frame_unref(&f);
        av_frame_free(&gpu);
        av_frame_free(&cpu);
    }
    AVFrame *gpu = decoded(device, AV_PIX_FMT_P016LE, 64, 64); // no format of ours
    tachy_frame *f = NULL;
    CHECK_INT(tachy_frame_from_av(&f, gpu), TACHY_ERR_INVAL);
    CHECK(!f && gpu->buf[0]);
    av_frame_free(&gpu);
    gpu = decoded(device, AV_PIX_FMT_NV12, 64, 64);
    gpu->crop_left = 64; // nothing is left
    CHECK_INT(tachy_frame_from_av(&f, gpu), TACHY_ERR_INVAL);
    av_frame_free(&gpu);
    av_buffer_unref(&device);
    tachy_gpu_unref(&g);
    CHECK_INT(counts()->streams + counts()->contexts, 0);
}

// A device that somebody else made says nothing of its stream.
TEST(foreign_device)
{
    AVBufferRef *device = av_hwdevice_ctx_alloc(AV_HWDEVICE_TYPE_CUDA);
    AVFrame *gpu = decoded(device, AV_PIX_FMT_NV12, 64, 64);
    tachy_frame *f = NULL;
    CHECK_INT(tachy_frame_from_av(&f, gpu), TACHY_ERR_INVAL);
    av_frame_free(&gpu);
    av_buffer_unref(&device);
}

static void count_release(void *user) { ++*(int *)user; }

TEST(wrapped)
{
    static uint8_t pixels[64 * 32];
    int released = 0;
    tachy_frame *f = NULL;
    struct tachy_frame_params p = {.format = TACHY_PIX_GRAY8, .width = 64, .height = 32, .data = {pixels},
                                   .stride = {64}, .release = count_release, .user = &released,
                                   .mem = TACHY_PINNED};
    CHECK_INT(tachy_frame_new(&f, &p), TACHY_OK);
    CHECK_INT(f->mem, TACHY_PINNED);
    CHECK_INT(tachy_frame_need_host(f, &log_errors, "a test"), TACHY_OK);
    tachy_frame_unref(&f);
    p.mem = TACHY_DEVICE;
    p.device = 0;
    CHECK_INT(tachy_frame_new(&f, &p), TACHY_OK);
    CHECK_INT(tachy_frame_need_host(f, &log_errors, "a test"), TACHY_ERR_UNSUPPORTED);
    tachy_frame_unref(&f);
    CHECK_INT(released, 2);
    p.stride[0] = -64;
    CHECK_INT(tachy_frame_new(&f, &p), TACHY_ERR_INVAL); // no copy of the GPU's goes upwards
    struct tachy_frame_params none = {.format = TACHY_PIX_GRAY8, .width = 4, .height = 4, .mem = TACHY_DEVICE};
    CHECK_INT(tachy_frame_new(&f, &none), TACHY_ERR_INVAL); // pools allocate there
}

// ---- Who decodes. The fake NVDEC says what it takes; FFmpeg finds no decoder in it and refuses.

static char said[4096];
static void on_said(void *user, enum tachy_log_level level, const char *msg)
{
    size_t n = strlen(said);
    snprintf(said + n, sizeof(said) - n, "%s\n", msg);
}
static const struct tachy_log log_info = {.fn = on_said, .max_level = TACHY_LOG_INFO};

// Opens, and expects a frame on the host; the error, and what was said in `said`.
static int open_source(const char *clip, struct tachy_source_params p)
{
    tachy_source *s;
    tachy_frame *f = NULL;
    said[0] = '\0';
    p.url = path(clip);
    p.log = &log_info;
    int err = tachy_source_open(&s, &p);
    if (err < 0)
        return err;
    CHECK_INT(tachy_source_info(s)->mem, TACHY_HOST);
    CHECK(tachy_source_read(s, &f) == TACHY_OK && f->mem == TACHY_HOST);
    tachy_frame_unref(&f);
    tachy_source_close(&s);
    return TACHY_OK;
}

TEST(who_decodes)
{
    static const struct {
        const char *clip, *why;
    } cases[] = {
        {"a.mp4", "NVDEC does not take its pictures (yuv420p, 64x64)"},
        {"deep.mp4", "the NVDEC of GPU 0 (Fake GPU) does not decode h264 of yuv420p10le"},
        {"half.mp4", "NVDEC has no form of h264 pictures (yuv422p)"},
        {"small.mp4", "from 48x48 to 4096x2304, not 32x32"},
        {"b.mkv", "this FFmpeg cannot have ffv1 decoded by NVDEC"},
        {"c.png", "it is single pictures"},
    };
    static const char in[] = "ffmpeg -v error -nostdin -y -f lavfi -i testsrc2=s=64x64:d=0.2";
    snprintf(dir, sizeof(dir), P_tmpdir "/tachy-gpu-XXXXXX");
    CHECK(mkdtemp(dir));
    CHECK(shell("%s -pix_fmt yuv420p -c:v libx264 %s", in, path("a.mp4")) &&
          shell("%s -pix_fmt yuv420p10le -c:v libx264 %s", in, path("deep.mp4")) &&
          shell("%s -pix_fmt yuv422p -c:v libx264 %s", in, path("half.mp4")) &&
          shell("%s -s 32x32 -pix_fmt yuv420p -c:v libx264 %s", in, path("small.mp4")) &&
          shell("%s -c:v ffv1 %s", in, path("b.mkv")) &&
          shell("%s -frames:v 1 %s", in, path("c.png")));
    struct tachy_source_params wanted = {.on_gpu = true}, only = {.decode = TACHY_DECODE_NVDEC},
                               cpu = {.on_gpu = true, .decode = TACHY_DECODE_CPU}, none = {0},
                               far = {.on_gpu = true, .gpu = 3};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(cases); i++) {
        CHECK_INT(open_source(cases[i].clip, wanted), TACHY_OK);
        CHECK(strstr(said, "decoded on the CPU: ") && strstr(said, cases[i].why));
        CHECK(open_source(cases[i].clip, only) < 0);
        const char *why = i ? cases[i].why : "does not take its pictures (yuv420p, 64x64)"; // known at its first picture
        CHECK(strstr(said, i ? "NVDEC was asked for and cannot decode it: " : "NVDEC was asked for and ") && strstr(said, why));
        if (!strstr(said, why))
            fprintf(stderr, "%s: %s", cases[i].clip, said);
        CHECK_INT(open_source(cases[i].clip, cpu), TACHY_OK);
        CHECK_STR(said, "");
        CHECK_INT(open_source(cases[i].clip, none), TACHY_OK);
        CHECK_STR(said, "");
    }
    CHECK_INT(open_source("a.mp4", far), TACHY_OK);
    CHECK(strstr(said, "there is no GPU 3"));
    tachy_source *s;
    wanted.url = path("a.mp4");
    CHECK_INT(tachy_source_open(&s, &wanted), TACHY_OK);
    CHECK_INT(s->decode_engines, 7);
    tachy_source_close(&s);
    CHECK_INT(counts()->streams + counts()->contexts, 0);
    CHECK(shell("rm -r %s", dir));
}

TEST(doctor_says_what_nvdec_decodes)
{
    char *text;
    CHECK_INT(tachy_doctor(&text, NULL), TACHY_OK);
    json_t *o = json_loads(text, 0, NULL), *rows = json_object_get(json_array_get(json_object_get(o, "gpu"), 0), "decode");
    CHECK_INT(json_array_size(rows), 3);
    json_t *last = json_array_get(rows, 2);
    CHECK_STR(json_string_value(json_object_get(last, "codec")), "hevc");
    CHECK_STR(json_string_value(json_object_get(last, "chroma")), "4:2:0");
    CHECK_INT(json_integer_value(json_object_get(last, "bits")), 10);
    CHECK_INT(json_integer_value(json_object_get(last, "max_width")), 4096);
    CHECK_INT(json_integer_value(json_object_get(last, "engines")), 7);
    json_decref(o);
    tachy_free(text);
    CHECK_INT(counts()->contexts, 0);
}

TEST_MAIN(TEST_CASE(download), TEST_CASE(places), TEST_CASE(the_cpu_refuses), TEST_CASE(crops_are_ffmpegs),
          TEST_CASE(foreign_device), TEST_CASE(wrapped),
          TEST_CASE(who_decodes), TEST_CASE(doctor_says_what_nvdec_decodes))
