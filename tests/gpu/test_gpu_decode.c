#include "../unit/test.h"

#include "base/base.h"
#include "media/device.h"
#include "source/source_ops.h"

#include <tachy/source.h>

// NVDEC against FFmpeg's decoders on the CPU: every frame's bits, order, times and flags, for the clips of make_clips
// (in the folder clips/ beside the program), with one session and with several, with frames returned at once and kept
// until many are out; and the same over all GPUs, if there are several. Exit status 77 if there is no GPU. With
// --rehearse the CPU's decoders stand in for NVDEC, which checks clips and comparison on any machine; with names of
// tests, only these run.

enum { MOST = 400, KEPT = 60, REHEARSED = 9 };

static char messages[16384];
static void on_message(void *user, enum tachy_log_level level, const char *msg)
{
    size_t n = strlen(messages);
    snprintf(messages + n, sizeof(messages) - n, "%s\n", msg);
}
static const struct tachy_log log_all = {.fn = on_message, .max_level = TACHY_LOG_VERBOSE};
static char folder[512];
static bool rehearse;
static const int gpus[TACHY_MAX_GPUS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static int nb_gpus; // that clips are decoded on; 0: the first
static int64_t frames_of[TACHY_MAX_GPUS]; // that came from each

static tachy_source *open_clip(const char *clip, struct tachy_source_params p)
{
    char path[640];
    tachy_source *s = NULL;
    snprintf(path, sizeof(path), "%s/clips/%s", folder, clip);
    messages[0] = '\0';
    p.url = path;
    p.log = &log_all;
    int err = tachy_source_open(&s, &p);
    if (err)
        fprintf(stderr, "%s: %s: %s", path, tachy_err_text(err), messages);
    return s;
}

static int sample_at(const tachy_frame *f, int c, int x, int y)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    bool pairs = d->planes == 2;
    int plane = pairs ? c > 0 : c, at = pairs && c ? 2 * x + c - 1 : x;
    const uint8_t *row = f->data[plane] + y * f->stride[plane];
    return d->bytes == 2 ? ((const uint16_t *)(const void *)row)[at] >> d->shift : row[at];
}

// Samples that differ; the two may keep their chroma in one plane or in two.
static int64_t differing(const tachy_frame *a, const tachy_frame *b)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(a->format);
    int64_t n = 0;
    for (int c = 0; c < 3; c++) {
        int sx = c ? d->chroma_shift_x : 0, sy = c ? d->chroma_shift_y : 0;
        for (int y = 0; y < -(-a->height >> sy); y++)
            for (int x = 0; x < -(-a->width >> sx); x++)
                n += sample_at(a, c, x, y) != sample_at(b, c, x, y);
    }
    return n;
}

// True if g, from NVDEC, equals the frame f of the CPU's decoder.
static bool check_frame(const char *clip, const tachy_frame *f, tachy_frame *g, bool on_gpu)
{
    tachy_frame *host = NULL;
    CHECK_INT(g->mem, on_gpu ? TACHY_DEVICE : TACHY_HOST);
    CHECK(!on_gpu || tachy_frame_need_host(g, NULL, "a test") == TACHY_ERR_UNSUPPORTED);
    CHECK_INT(tachy_frame_download(&host, g, &log_all), TACHY_OK);
    if (!host)
        return false;
    bool same = f->width == g->width && f->height == g->height && f->pts == g->pts && f->id == g->id &&
                f->duration == g->duration && f->discontinuity == g->discontinuity && f->key == g->key &&
                f->color.matrix == g->color.matrix && f->color.range == g->color.range;
    int64_t wrong = f->width == g->width && f->height == g->height ? differing(f, host) : -1;
    if (!same || wrong)
        fprintf(stderr, "%s: frame %lld: %dx%d pts %lld +%lld key %d break %d on the CPU, %dx%d pts %lld "
                "+%lld key %d break %d from NVDEC; %lld samples differ\n", clip, (long long)f->id, f->width,
                f->height, (long long)f->pts, (long long)f->duration, f->key, f->discontinuity, g->width,
                g->height, (long long)g->pts, (long long)g->duration, g->key, g->discontinuity, (long long)wrong);
    tachy_frame_unref(&host);
    return same && !wrong;
}

// Reads both to the end; frames of NVDEC are kept until `keep` of them are out.
static int64_t compare(const char *clip, int decoders, int keep, bool on_gpu)
{
    struct tachy_source_params cpu = {.decode = TACHY_DECODE_CPU, .decoders = 1};
    struct tachy_source_params gpu = {.decode = TACHY_DECODE_NVDEC, .on_gpu = on_gpu, .decoders = decoders,
                                      .gpus = gpus, .nb_gpus = nb_gpus};
    if (rehearse) {
        gpu.decode = TACHY_DECODE_CPU;
        on_gpu = false;
    }
    tachy_source *a = open_clip(clip, cpu), *b = open_clip(clip, gpu);
    tachy_frame *kept[KEPT], *wanted[KEPT];
    int64_t n = 0;
    int nb = 0, ea = 0, eb = 0;
    CHECK(a && b);
    bool ok = a && b;
    if (ok)
        CHECK_INT(tachy_source_info(b)->mem, on_gpu ? TACHY_DEVICE : TACHY_HOST);
    while (ok && n < MOST) {
        ea = tachy_source_read(a, &wanted[nb]);
        eb = tachy_source_read(b, &kept[nb]);
        CHECK_INT(ea, eb);
        nb += !ea && !eb;
        n += !ea && !eb;
        if (nb < keep && !ea && !eb)
            continue;
        for (int i = 0; i < nb; i++) {
            ok &= check_frame(clip, wanted[i], kept[i], on_gpu);
            frames_of[kept[i]->device % TACHY_MAX_GPUS] += on_gpu;
            tachy_frame_unref(&wanted[i]);
            tachy_frame_unref(&kept[i]);
        }
        nb = 0;
        ok &= !ea && !eb;
        if (ea || eb)
            break;
    }
    CHECK(ok || (ea == TACHY_ERR_EOF && eb == TACHY_ERR_EOF));
    if (b && n < 10)
        fprintf(stderr, "%s: %lld frames; %s", clip, (long long)n, messages);
    tachy_source_close(&a);
    tachy_source_close(&b);
    return n;
}

// One session, four, frames kept beyond the decoder's own surfaces, frames on the host.
static void all_ways(const char *clip, int frames)
{
    CHECK_INT(compare(clip, 1, 1, true), frames);
    CHECK_INT(compare(clip, 4, 1, true), frames);
    CHECK_INT(compare(clip, 4, KEPT, true), frames);
    CHECK_INT(compare(clip, 2, 1, false), frames);
}

TEST(h264_b_frames) { all_ways("b_frames.mp4", 200); }
TEST(h264_open_gop) { all_ways("open_gop.mkv", 200); }
TEST(h264_vfr) { all_ways("vfr.mkv", 137); }
TEST(hevc_8_bit) { all_ways("hevc8.mkv", 200); }
TEST(hevc_10_bit) { all_ways("hevc10.mkv", 200); }
TEST(vp9) { all_ways("vp9.mkv", 150); }
TEST(cropped_rows) { all_ways("fullhd.mp4", 75); }
TEST(cropped_sides)
{
    all_ways("crop_odd.mp4", 75);
    all_ways("crop_left.mp4", 75);
    CHECK(compare("crop_hevc10.mkv", 2, 1, true) > 50);
}
TEST(size_changes) { all_ways("size.ts", 150); }

static int spread_over(const char *clip, int decoders)
{
    struct tachy_source_params gpu = {.decode = TACHY_DECODE_NVDEC, .on_gpu = true};
    tachy_source *s = open_clip(clip, gpu);
    int n = s ? tachy_source_spread(s, decoders, 1000) : 0;
    tachy_source_close(&s);
    return n;
}

TEST(several_sessions_are_used)
{
    CHECK_INT(spread_over("b_frames.mp4", 4), 4);
    CHECK_INT(spread_over("open_gop.mkv", 4), 4);
    CHECK_INT(spread_over("hevc10.mkv", 4), 4);
    CHECK_INT(spread_over("vp9.mkv", 4), 4);
}

// AUTO uses the CPU for streams that NVDEC does not decode, and logs it; with NVDEC this is an error.
TEST(falls_back)
{
    struct tachy_source_params p = {.on_gpu = true};
    tachy_source *s = open_clip("h264_422.mp4", p);
    tachy_frame *f = NULL;
    CHECK(s && tachy_source_info(s)->mem == TACHY_HOST);
    CHECK(strstr(messages, "decoded on the CPU: "));
    CHECK(s && tachy_source_read(s, &f) == TACHY_OK && f->mem == TACHY_HOST);
    tachy_frame_unref(&f);
    tachy_source_close(&s);
    p.decode = TACHY_DECODE_NVDEC;
    messages[0] = '\0';
    p.url = "clips/h264_422.mp4";
    char path[640];
    snprintf(path, sizeof(path), "%s/%s", folder, p.url);
    p.url = path;
    p.log = &log_all;
    CHECK_INT(tachy_source_open(&s, &p), TACHY_ERR_UNSUPPORTED);
    CHECK(strstr(messages, "NVDEC was asked for and cannot decode it"));
    p.decode = TACHY_DECODE_AUTO;
    p.gpu = 15;
    CHECK_INT(tachy_source_open(&s, &p), TACHY_OK);
    CHECK(strstr(messages, "there is no GPU 15"));
    tachy_source_close(&s);
}

// Frames outlive their source, and everything is given back.
TEST(frames_outlive_the_source)
{
    struct tachy_source_params p = {.on_gpu = true, .decode = TACHY_DECODE_NVDEC};
    tachy_source *s = open_clip("b_frames.mp4", p);
    tachy_frame *f[8] = {0}, *host = NULL;
    for (int i = 0; s && i < 8; i++)
        CHECK_INT(tachy_source_read(s, &f[i]), TACHY_OK);
    tachy_source_close(&s);
    for (int i = 0; i < 8; i++) {
        CHECK(f[i] && tachy_frame_download(&host, f[i], &log_all) == TACHY_OK);
        tachy_frame_unref(&host);
        tachy_frame_unref(&f[i]);
    }
}

static int gpus_here(void)
{
    const struct tachy_cu *cu;
    int n = 0;
    return tachy_cu_load(&cu, TACHY_LOG_VERBOSE, &log_all) == TACHY_OK && cu->device_count(&n) == CUDA_OK ? n : 0;
}

// One file over all devices: the same frames in the same order, and each device has its part.
TEST(over_all_gpus)
{
    int n = gpus_here();
    if (n < 2) {
        puts("skipped: over_all_gpus, which needs two GPUs");
        return;
    }
    nb_gpus = TACHY_MIN(n, 4);
    memset(frames_of, 0, sizeof(frames_of));
    CHECK_INT(compare("b_frames.mp4", 4, 1, true), 200);
    CHECK_INT(compare("b_frames.mp4", 4, KEPT, true), 200);
    CHECK_INT(compare("vfr.mkv", 4, 1, true), 137);
    CHECK_INT(compare("hevc10.mkv", 4, 1, true), 200);
    CHECK_INT(compare("fullhd.mp4", 4, 1, false), 75);
    for (int i = 0; i < nb_gpus; i++) {
        printf("figure frames_of_gpu_%d %lld frames\n", i, (long long)frames_of[i]);
        CHECK(frames_of[i] > 50);
    }
    nb_gpus = 0;
}

// Sources with one decoder each: the next one goes to the device that has the fewest.
TEST(streams_are_dealt)
{
    struct tachy_source_params p = {.on_gpu = true, .decode = TACHY_DECODE_NVDEC, .gpus = gpus, .nb_gpus = 2};
    tachy_source *s[4] = {0};
    if (gpus_here() < 2) {
        puts("skipped: streams_are_dealt, which needs two GPUs");
        return;
    }
    for (int i = 0; i < 4; i++) {
        tachy_frame *f = NULL;
        s[i] = open_clip("b_frames.mp4", p);
        CHECK(s[i] && tachy_source_read(s[i], &f) == TACHY_OK && f->device == i % 2);
        tachy_frame_unref(&f);
    }
    tachy_source_close(&s[1]);
    s[1] = open_clip("hevc8.mkv", p);
    tachy_frame *f = NULL;
    CHECK(s[1] && tachy_source_read(s[1], &f) == TACHY_OK && f->device == 1);
    tachy_frame_unref(&f);
    for (int i = 0; i < 4; i++)
        tachy_source_close(&s[i]);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(h264_b_frames), TEST_CASE(h264_open_gop), TEST_CASE(h264_vfr), TEST_CASE(hevc_8_bit),
        TEST_CASE(hevc_10_bit), TEST_CASE(vp9), TEST_CASE(cropped_rows), TEST_CASE(cropped_sides),
        TEST_CASE(size_changes), TEST_CASE(several_sessions_are_used), TEST_CASE(falls_back),
        TEST_CASE(frames_outlive_the_source), TEST_CASE(over_all_gpus), TEST_CASE(streams_are_dealt),
    };
    const struct tachy_cu *cu;
    rehearse = argc > 1 && !strcmp(argv[1], "--rehearse");
    size_t n = rehearse ? REHEARSED : sizeof(cases) / sizeof(cases[0]);
    if (!rehearse && tachy_cu_load(&cu, TACHY_LOG_VERBOSE, &log_all) < 0)
        SKIP("there is no CUDA driver");
    const char *slash = strrchr(argv[0], '/');
    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - argv[0]) : 1, slash ? argv[0] : ".");
    if (rehearse || argc < 2)
        return test_run(cases, n);
    int failed = 0;
    for (size_t i = 0; i < n; i++) // those that are named
        for (int k = 1; k < argc; k++)
            if (!strcmp(argv[k], cases[i].name))
                failed |= test_run(&cases[i], 1);
    return failed;
}
