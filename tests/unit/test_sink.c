#include "sink/choice.h"
#include "sink/nvenc.h"
#include "sink/output.h"
#include "sink/pixels.h"
#include "sink/sink_ops.h"
#include "test.h"

#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <sys/stat.h>
#include <unistd.h>

// The last message at each level, and how many there were.
static char last[6][1024];
static int count[6];

static void note(void *user, enum tachy_log_level level, const char *msg)
{
    snprintf(last[level], sizeof(last[level]), "%s", msg);
    count[level]++;
}

static const struct tachy_log log_ = {.fn = note};
static char dir[] = P_tmpdir "/tachy-sink-XXXXXX";

static const char *in_dir(const char *name)
{
    static char path[4][300];
    static int n;
    snprintf(path[++n % 4], sizeof(path[0]), "%s/%s", dir, name);
    return path[n % 4];
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

// Files in the test's folder.
static int files(void)
{
    char cmd[100];
    snprintf(cmd, sizeof(cmd), "ls -A %s | wc -l", dir);
    FILE *p = popen(cmd, "r");
    int n = -1;
    if (fscanf(p, "%d", &n) != 1)
        n = -1;
    pclose(p);
    return n;
}

static void clean(void)
{
    char cmd[100];
    snprintf(cmd, sizeof(cmd), "rm -rf %s/* %s/.[!.]*", dir, dir);
    CHECK(system(cmd) == 0);
}

static struct tachy_video_info info_of(enum tachy_pix format, int w, int h)
{
    return (struct tachy_video_info){
        .format = format, .width = w, .height = h, .time_base = {1, 12800}, .fps = {25, 1},
        .color = {.matrix = 2, .primaries = 2, .transfer = 2},
    };
}

static tachy_frame *frame_of(const struct tachy_video_info *i, int64_t n)
{
    struct tachy_frame_params p = {.format = i->format, .width = i->width, .height = i->height,
                                   .color = i->color, .pts = n * 512, .duration = 512};
    tachy_frame *f = NULL;
    CHECK(tachy_frame_new(&f, &p) == TACHY_OK);
    const struct tachy_pix_desc *d = tachy_pix_desc(i->format);
    for (int k = 0; k < d->planes; k++) {
        int rows = k ? (i->height + (1 << d->chroma_shift_y) - 1) >> d->chroma_shift_y : i->height;
        memset(tachy_frame_writable(f, k), (int)(16 + n * 3 % 64), (size_t)(rows * f->stride[k]));
    }
    f->id = n;
    return f;
}

static tachy_sink *open_sink(const char *url, const char *format, const char *codec)
{
    struct tachy_sink_params p = {.url = url, .format = format, .codec = codec,
                                  .preset = codec ? NULL : "ultrafast", .log = &log_};
    if (format)
        p.preset = NULL;
    tachy_sink *s = NULL;
    CHECK_INT(tachy_sink_open(&s, &p), TACHY_OK);
    return s;
}

static int put(tachy_sink *s, const struct tachy_video_info *i, int64_t n)
{
    tachy_frame *f = frame_of(i, n);
    int err = tachy_sink_write(s, f, NULL);
    tachy_frame_unref(&f);
    return err;
}

TEST(null_counts)
{
    tachy_sink *s = open_sink(NULL, "null", NULL);
    struct tachy_video_info i = info_of(TACHY_PIX_GRAY8, 16, 16);
    CHECK_INT(tachy_sink_start(s, &i), TACHY_OK);
    for (int n = 0; n < 5; n++)
        CHECK_INT(put(s, &i, n), TACHY_OK);
    CHECK_INT(s->frames, 5);
    CHECK_INT(tachy_sink_finish(s, false), TACHY_OK);
    CHECK(!tachy_sink_path(s));
    tachy_sink_close(&s);
    CHECK(!s);
    tachy_sink_close(&s);
}

TEST(backends_by_name)
{
    static const struct {
        const char *url, *format, *backend;
    } cases[] = {
        {"-", "null", "null"},     {"x", "framemd5", "hash"},  {"x.json", NULL, "json"},
        {"x.mp4", "json", "json"}, {"x_%04d.png", NULL, "images"}, {"x.JPG", NULL, "images"},
        {"x.mp4", NULL, "file"},   {"x.mkv", NULL, "file"},    {"x.png", "matroska", "file"},
    };
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(cases); k++) {
        struct tachy_sink_params p = {.url = *cases[k].url == 'x' ? in_dir(cases[k].url) : "-",
                                      .format = cases[k].format, .log = &log_};
        tachy_sink *s = NULL;
        CHECK_INT(tachy_sink_open(&s, &p), TACHY_OK);
        if (s)
            CHECK_STR(s->ops->name, cases[k].backend);
        tachy_sink_close(&s);
    }
    CHECK_INT(files(), 0); // opening writes nothing
}

TEST(order_of_calls)
{
    struct tachy_video_info i = info_of(TACHY_PIX_YUV420P, 32, 32);
    tachy_sink *s = open_sink(in_dir("a.mp4"), NULL, NULL);
    CHECK_INT(put(s, &i, 0), TACHY_ERR_STATE);
    CHECK_INT(tachy_sink_start(s, &i), TACHY_OK);
    CHECK_INT(tachy_sink_start(s, &i), TACHY_ERR_STATE);
    CHECK_INT(put(s, &i, 4), TACHY_OK);
    CHECK_INT(put(s, &i, 4), TACHY_ERR_INVAL);
    CHECK(strstr(last[TACHY_LOG_ERR], "frame 4") != NULL);
    CHECK_INT(put(s, &i, 3), TACHY_ERR_INVAL);
    CHECK_INT(put(s, &i, 5), TACHY_OK); // a refused frame does not end the stream
    CHECK_INT(tachy_sink_write(s, NULL, NULL), TACHY_ERR_INVAL);
    uint8_t few[8] = {0}; // of 32 x 32 pixels
    tachy_frame f = {.format = TACHY_PIX_GRAY8, .width = 32, .height = 32, .data = {few}, .stride = {8}, .pts = 6};
    CHECK_INT(tachy_sink_write(s, &f, NULL), TACHY_ERR_INVAL);
    CHECK(!tachy_sink_path(s) && !exists(in_dir("a.mp4")));
    CHECK_INT(tachy_sink_finish(s, false), TACHY_OK);
    CHECK_STR(tachy_sink_path(s), in_dir("a.mp4"));
    CHECK_INT(put(s, &i, 6), TACHY_ERR_STATE);
    CHECK_INT(tachy_sink_finish(s, false), TACHY_ERR_STATE);
    struct stat st;
    CHECK(stat(in_dir("a.mp4"), &st) == 0 && st.st_size == tachy_sink_bytes(s));
    tachy_sink_close(&s);
    CHECK_INT(files(), 1);
    clean();
}

// Times that no file has are refused before anything is computed from them; the largest that are taken do not
// overflow in any time base.
TEST(absurd_times)
{
    static const char *const outputs[][3] = {{"a.mkv"}, {"a.mp4"}, {"a.json"}, {"a.md5", "framemd5"},
                                             {"p_%04d.png", NULL, "png"}, {NULL, "null"}};
    for (size_t k = 0; k < sizeof(outputs) / sizeof(outputs[0]); k++) {
        struct tachy_video_info i = info_of(TACHY_PIX_YUV420P, 32, 32);
        tachy_sink *s = open_sink(outputs[k][0] ? in_dir(outputs[k][0]) : NULL, outputs[k][1], outputs[k][2]);
        CHECK_INT(tachy_sink_start(s, &i), TACHY_OK);
        static const int64_t bad[] = {INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1, INT64_C(1) << 62};
        for (size_t b = 0; b < sizeof(bad) / sizeof(bad[0]); b++) {
            tachy_frame *f = NULL;
            struct tachy_frame_params p = {.format = i.format, .width = 32, .height = 32, .pts = bad[b], .duration = 1};
            CHECK_INT(tachy_frame_new(&f, &p), TACHY_OK);
            struct tachy_result r = {.pts = bad[b], .json = "{}"};
            CHECK_INT(tachy_sink_write(s, f, &r), TACHY_ERR_INVAL);
            f->pts = 1;
            f->duration = bad[b];
            CHECK_INT(tachy_sink_write(s, f, &r), TACHY_ERR_INVAL);
            tachy_frame_unref(&f);
        }
        tachy_sink_close(&s);
        clean();
    }
    static const int dens[] = {1, 1000, 90000, INT32_MAX};
    for (size_t k = 0; k < sizeof(dens) / sizeof(dens[0]); k++) {
        struct tachy_video_info i = info_of(TACHY_PIX_YUV420P, 32, 32);
        i.time_base = (struct tachy_rational){1, dens[k]};
        tachy_sink *s = open_sink(in_dir("a.md5"), "framemd5", NULL);
        CHECK_INT(tachy_sink_start(s, &i), TACHY_OK);
        for (int64_t seconds = -4000000000; seconds <= 4000000000; seconds += 4000000000) {
            tachy_frame *f = frame_of(&i, 0);
            f->pts = seconds * dens[k];
            CHECK_INT(tachy_sink_write(s, f, NULL), TACHY_OK);
            tachy_frame_unref(&f);
        }
        CHECK_INT(tachy_sink_finish(s, false), TACHY_OK);
        tachy_sink_close(&s);
        clean();
    }
}

TEST(bad_info)
{
    static const struct tachy_rational bases[] = {{0, 25}, {1, 0}, {-1, 25}};
    tachy_sink *s = open_sink("-", "null", NULL);
    struct tachy_video_info i = info_of(TACHY_PIX_NONE, 32, 32);
    CHECK_INT(tachy_sink_start(s, &i), TACHY_ERR_INVAL);
    i = info_of(TACHY_PIX_GRAY8, 0, 32);
    CHECK_INT(tachy_sink_start(s, &i), TACHY_ERR_INVAL);
    i = info_of(TACHY_PIX_GRAY8, 32, 65536);
    CHECK_INT(tachy_sink_start(s, &i), TACHY_ERR_INVAL);
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(bases); k++) {
        i = info_of(TACHY_PIX_GRAY8, 32, 32);
        i.time_base = bases[k];
        CHECK_INT(tachy_sink_start(s, &i), TACHY_ERR_INVAL);
    }
    tachy_sink_close(&s);
}

// Files left if the output was not finished, was stopped, or had no frame.
TEST(unfinished)
{
    struct tachy_video_info i = info_of(TACHY_PIX_YUV420P, 32, 32);
    static const char *const names[] = {"a.mp4", "a.mkv", "a_%d.png", "a.png", "a.webm"};
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(names); k++)
        for (int how = 0; how < 4; how++) {
            bool plain = k > 1;
            tachy_sink *s = open_sink(in_dir(names[k]), NULL, plain ? (k == 4 ? "libvpx-vp9" : "png") : NULL);
            CHECK_INT(tachy_sink_start(s, &i), TACHY_OK);
            if (how != 1)
                CHECK_INT(put(s, &i, 0), TACHY_OK);
            if (how == 1) // stopped before the first frame
                CHECK_INT(tachy_sink_finish(s, true), TACHY_OK);
            if (how == 2)
                CHECK_INT(tachy_sink_finish(s, true), TACHY_OK);
            if (how == 3)
                CHECK_INT(tachy_sink_finish(s, false), TACHY_OK);
            tachy_sink_close(&s);
            CHECK_INT(files(), how >= 2 ? 1 : 0);
            clean();
        }
}

TEST(file_that_came_meanwhile)
{
    struct tachy_video_info i = info_of(TACHY_PIX_YUV420P, 32, 32);
    tachy_sink *s = open_sink(in_dir("a.mp4"), NULL, NULL);
    CHECK_INT(tachy_sink_start(s, &i), TACHY_OK);
    CHECK_INT(put(s, &i, 0), TACHY_OK);
    FILE *f = fopen(in_dir("a.mp4"), "w");
    fputs("mine", f);
    fclose(f);
    CHECK_INT(tachy_sink_finish(s, false), TACHY_ERR_EXISTS);
    CHECK(strstr(last[TACHY_LOG_ERR], "-y") != NULL);
    tachy_sink_close(&s);
    struct stat st;
    CHECK(stat(in_dir("a.mp4"), &st) == 0 && st.st_size == 4);
    CHECK_INT(files(), 1);
    clean();
}

TEST(two_outputs_of_one_name)
{
    struct tachy_output a, b;
    CHECK_INT(tachy_output_open(&a, in_dir("x"), true, &log_), TACHY_OK);
    CHECK_INT(tachy_output_open(&b, in_dir("x"), true, &log_), TACHY_OK);
    CHECK_INT(tachy_output_write(&a, "first", 5), 0);
    CHECK_INT(tachy_output_write(&b, "second", 6), 0);
    CHECK_INT(tachy_output_finish(&a), TACHY_OK);
    CHECK_INT(tachy_output_finish(&b), TACHY_OK);
    tachy_output_close(&a);
    tachy_output_close(&b);
    struct stat st;
    CHECK(stat(in_dir("x"), &st) == 0 && st.st_size == 6);
    clean();
}

TEST(long_names)
{
    char name[256];
    memset(name, 'n', sizeof(name) - 1);
    name[255] = '\0';
    struct tachy_output o;
    CHECK_INT(tachy_output_open(&o, in_dir(name), false, &log_), TACHY_OK);
    CHECK_INT(tachy_output_finish(&o), TACHY_OK);
    tachy_output_close(&o);
    CHECK(exists(in_dir(name)));
    clean();
    CHECK_INT(tachy_output_check("file:", false, &log_), TACHY_ERR_INVAL);
    CHECK(tachy_output_file("pipe:1") == NULL);
    CHECK_STR(tachy_output_file("file:a:b.mp4"), "a:b.mp4");
}

TEST(full_device_is_named)
{
    if (!exists("/dev/full"))
        return;
    struct tachy_output o;
    CHECK_INT(tachy_output_open(&o, "/dev/full", false, &log_), TACHY_OK);
    CHECK(tachy_output_write(&o, "x", 1) < 0);
    CHECK_INT(tachy_output_fail(&o), TACHY_ERR_NO_SPACE);
    CHECK(strstr(last[TACHY_LOG_ERR], "/dev/full") != NULL);
    tachy_output_close(&o);

    struct tachy_video_info i = info_of(TACHY_PIX_YUV420P, 64, 64);
    tachy_sink *s = open_sink("/dev/full", "matroska", NULL);
    int before = count[TACHY_LOG_ERR];
    int err = tachy_sink_start(s, &i);
    for (int n = 0; err >= 0 && n < 100; n++)
        err = put(s, &i, n);
    CHECK_INT(err, TACHY_ERR_NO_SPACE);
    CHECK_INT(tachy_sink_finish(s, true), TACHY_ERR_NO_SPACE);
    CHECK_INT(count[TACHY_LOG_ERR], before + 1); // told once
    tachy_sink_close(&s);
}

// Formats that each container is written in, and the encoder for it.
TEST(choices)
{
    static const struct {
        const char *container;
        enum tachy_pix in;
        int w, h;
        const char *codec, *format; // NULL: refused
    } cases[] = {
        {"mp4", TACHY_PIX_YUV420P, 64, 64, "libx264", "yuv420p"},
        {"mp4", TACHY_PIX_NV12, 64, 64, "libx264", "nv12"},
        {"mp4", TACHY_PIX_P010, 64, 64, "libx264", "yuv420p10le"},
        {"mp4", TACHY_PIX_YUV422P10, 64, 64, "libx264", "yuv422p10le"},
        {"mp4", TACHY_PIX_YUV444P, 64, 64, "libx264", "yuv444p"},
        {"mp4", TACHY_PIX_GRAY8, 64, 64, "libx264", "yuv420p"},
        {"mp4", TACHY_PIX_GRAY10, 64, 64, "libx264", "yuv420p10le"},
        {"mp4", TACHY_PIX_RGB24, 64, 64, "libx264", "yuv420p"},
        {"mp4", TACHY_PIX_YUV420P, 4096, 64, "libx264", "yuv420p"},
        {"mp4", TACHY_PIX_YUV420P10, 4098, 64, "libx265", "yuv420p10le"},
        {"mp4", TACHY_PIX_NV12, 8192, 64, "libx265", "yuv420p"},
        {"mov", TACHY_PIX_NV12, 63, 64, "libx264", "yuv444p"},
        {"mp4", TACHY_PIX_YUV422P, 64, 63, "libx264", "yuv422p"},
        {"mp4", TACHY_PIX_YUV422P10, 63, 63, "libx264", "yuv444p10le"},
        {"webm", TACHY_PIX_YUV420P, 63, 63, "libvpx-vp9", "yuv420p"},
        {"webm", TACHY_PIX_NV12, 64, 64, "libvpx-vp9", "yuv420p"},
        {"webm", TACHY_PIX_P010, 64, 64, "libvpx-vp9", "yuv420p10le"},
        {"webm", TACHY_PIX_YUVA420P, 64, 64, "libvpx-vp9", "yuva420p"},
        {"webm", TACHY_PIX_RGBA, 64, 64, "libvpx-vp9", "yuva420p"},
        {"mov", TACHY_PIX_YUVA444P10, 64, 64, "prores_ks", "yuva444p10le"},
        {"mov", TACHY_PIX_RGBA, 64, 64, "prores_ks", "yuva444p10le"},
        {"matroska", TACHY_PIX_RGBA, 64, 64, "ffv1", "bgra"},
        {"matroska", TACHY_PIX_YUVA420P, 64, 64, "ffv1", "yuva420p"},
        {"matroska", TACHY_PIX_BGRA, 64, 64, "ffv1", "bgra"},
        {"mpegts", TACHY_PIX_YUV420P, 64, 64, "libx264", "yuv420p"},
        {"avi", TACHY_PIX_YUV420P, 64, 64, "libx264", "yuv420p"},
        {"mp4", TACHY_PIX_RGBA, 64, 64, NULL, NULL},
        {"gif", TACHY_PIX_YUV420P, 64, 64, NULL, NULL},
    };
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(cases); k++) {
        struct tachy_sink_params p = {.log = &log_};
        struct tachy_video_info i = info_of(cases[k].in, cases[k].w, cases[k].h);
        struct tachy_choice c;
        i.transparent = tachy_pix_desc(cases[k].in)->alpha;
        int err = tachy_choice_make(&c, &p, av_guess_format(cases[k].container, NULL, NULL), &i);
        CHECK_INT(err, cases[k].codec ? TACHY_OK : TACHY_ERR_UNSUPPORTED);
        if (err < 0 || !cases[k].codec)
            continue;
        CHECK_STR(c.codec->name, cases[k].codec);
        CHECK_STR(av_get_pix_fmt_name(c.format), cases[k].format);
        tachy_choice_free(&c);
    }
}

// Incidental alpha of the source is dropped if the container cannot hold it.
TEST(alpha_by_chance)
{
    static const struct {
        const char *container;
        enum tachy_pix in;
        const char *codec, *format;
    } cases[] = {
        {"mp4", TACHY_PIX_RGBA, "libx264", "yuv420p"},
        {"mp4", TACHY_PIX_YUVA444P10, "libx264", "yuv444p10le"},
        {"nut", TACHY_PIX_YUVA420P, "libx264", "yuv420p"},
        {"mov", TACHY_PIX_RGBA, "prores_ks", "yuva444p10le"},
    };
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(cases); k++) {
        struct tachy_sink_params p = {.log = &log_};
        struct tachy_video_info i = info_of(cases[k].in, 64, 64);
        struct tachy_choice c;
        CHECK_INT(tachy_choice_make(&c, &p, av_guess_format(cases[k].container, NULL, NULL), &i),
                  TACHY_OK);
        CHECK_STR(c.codec->name, cases[k].codec);
        CHECK_STR(av_get_pix_fmt_name(c.format), cases[k].format);
        tachy_choice_free(&c);
    }
}

TEST(quality_defaults)
{
    static const struct {
        const char *container, *codec, *crf, *key, *value;
    } cases[] = {
        {"mp4", NULL, NULL, "crf", "18"},        {"mp4", "libx265", NULL, "crf", "18"},
        {"mp4", NULL, "0", "crf", "0"},          {"webm", NULL, NULL, "crf", "24"},
        {"webm", NULL, NULL, "b", "0"},          {"webm", NULL, NULL, "row-mt", "1"},
        {"matroska", "h264", "23.5", "crf", "23.5"},
    };
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(cases); k++) {
        struct tachy_sink_params p = {.log = &log_, .codec = cases[k].codec, .crf = cases[k].crf};
        struct tachy_video_info i = info_of(TACHY_PIX_YUV420P, 64, 64);
        struct tachy_choice c;
        CHECK_INT(tachy_choice_make(&c, &p, av_guess_format(cases[k].container, NULL, NULL), &i), TACHY_OK);
        const AVDictionaryEntry *e = av_dict_get(c.options, cases[k].key, NULL, 0);
        CHECK_STR(e ? e->value : NULL, cases[k].value);
        tachy_choice_free(&c);
    }
}

// NVENC is tried only where frames are on a GPU, or it is asked for. No GPU encodes pictures this small, so
// what follows is the same on every machine.
TEST(gpu_encoder_is_tried_where_it_may)
{
    static const struct {
        const char *container;
        enum tachy_encode encode;
        bool on_gpu, resume;
        const char *codec, *said; // NULL: refused; nothing
    } cases[] = {
        {"mp4", TACHY_ENCODE_AUTO, false, false, "libx264", NULL},
        {"mp4", TACHY_ENCODE_AUTO, true, false, "libx264", "encoder: libx264 on the CPU: h264_nvenc does not open for 64x48 nv12"},
        {"mp4", TACHY_ENCODE_AUTO, true, true, "libx264", NULL},
        {"mp4", TACHY_ENCODE_CPU, true, false, "libx264", NULL},
        {"webm", TACHY_ENCODE_AUTO, true, false, "libvpx-vp9", NULL},
        {"mp4", TACHY_ENCODE_NVENC, false, false, NULL, "--encoder nvenc: h264_nvenc does not open"},
        {"webm", TACHY_ENCODE_NVENC, true, false, NULL, "no NVENC encoder that stands for libvpx-vp9"},
    };
    const struct tachy_log info = {.fn = note, .max_level = TACHY_LOG_INFO};
    if (!avcodec_find_encoder_by_name("h264_nvenc")) {
        puts("skipped: gpu_encoder_is_tried_where_it_may, because this FFmpeg has no NVENC");
        return;
    }
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(cases); k++) {
        struct tachy_sink_params p = {.log = &info, .encode = cases[k].encode, .on_gpu = cases[k].on_gpu,
                                      .resume = cases[k].resume, .preset = "veryfast"};
        struct tachy_video_info i = info_of(TACHY_PIX_NV12, 64, 48);
        struct tachy_choice c;
        p.preset = strcmp(cases[k].container, "mp4") ? NULL : p.preset; // x264's, which NVENC has by other names
        last[TACHY_LOG_INFO][0] = last[TACHY_LOG_ERR][0] = '\0';
        int err = tachy_choice_make(&c, &p, av_guess_format(cases[k].container, NULL, NULL), &i);
        CHECK_INT(err, cases[k].codec ? TACHY_OK : TACHY_ERR_UNAVAILABLE);
        const char *said = last[cases[k].codec ? TACHY_LOG_INFO : TACHY_LOG_ERR];
        CHECK(cases[k].said ? strstr(said, cases[k].said) != NULL : !*said);
        if (err < 0)
            continue;
        CHECK_STR(c.codec->name, cases[k].codec);
        CHECK(!av_dict_get(c.options, "cq", NULL, 0) && !c.nvenc);
        tachy_choice_free(&c);
    }
    const struct tachy_sink_params both = {.url = "x.mp4", .codec = "libx264", .encode = TACHY_ENCODE_NVENC, .log = &info};
    CHECK_INT(tachy_choice_check(&both, NULL), TACHY_ERR_INVAL);
    CHECK(strstr(last[TACHY_LOG_ERR], "give one of them"));
}

// FFmpeg's NVENC encoders know every option that is set for them; that is known without a GPU.
TEST(gpu_encoders_know_their_options)
{
    static const char *const presets[] = {"ultrafast", "superfast", "veryfast", "faster", "fast",     "medium",
                                          "slow",      "slower",    "veryslow", "placebo", "p5",      "lossless"};
    static const char *const cpu[] = {"libx264", "libx265"};
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(cpu); k++) {
        const AVCodec *x = avcodec_find_encoder_by_name(cpu[k]), *c = x ? tachy_nvenc_for(x) : NULL;
        for (size_t i = 0; c && i < TACHY_ARRAY_SIZE(presets); i++) {
            AVDictionary *d = NULL;
            double cq = 0;
            int64_t gpu = 0, rc = -1;
            AVCodecContext *ctx = avcodec_alloc_context3(c);
            CHECK_INT(tachy_nvenc_options(&d, "23.5", 3), TACHY_OK);
            CHECK(av_dict_set(&d, "preset", tachy_nvenc_preset(presets[i]), 0) >= 0);
            CHECK(av_opt_set_dict2(ctx, &d, AV_OPT_SEARCH_CHILDREN) >= 0);
            const AVDictionaryEntry *left = av_dict_get(d, "", NULL, AV_DICT_IGNORE_SUFFIX);
            CHECK_STR(left ? left->key : "", "");
            CHECK(av_opt_get_double(ctx->priv_data, "cq", 0, &cq) >= 0 && cq == 23.5);
            CHECK(av_opt_get_int(ctx->priv_data, "gpu", 0, &gpu) >= 0 && gpu == 3);
            CHECK(av_opt_get_int(ctx->priv_data, "rc", 0, &rc) >= 0 && rc == 1);
            CHECK_INT(ctx->bit_rate, 0);
            av_dict_free(&d);
            avcodec_free_context(&ctx);
        }
    }
    CHECK(!tachy_nvenc_for(avcodec_find_encoder_by_name("mpeg4")));
}

TEST(containers)
{
    static const struct {
        const char *container;
        enum AVCodecID id;
        bool holds;
    } cases[] = {
        {"mp4", AV_CODEC_ID_AAC, true},       {"mp4", AV_CODEC_ID_MP3, true},
        {"mp4", AV_CODEC_ID_AC3, true},       {"mp4", AV_CODEC_ID_EAC3, true},
        {"mp4", AV_CODEC_ID_ALAC, true},      {"mp4", AV_CODEC_ID_OPUS, true},
        {"mp4", AV_CODEC_ID_FLAC, true},      {"mp4", AV_CODEC_ID_VORBIS, false},
        {"mp4", AV_CODEC_ID_SUBRIP, false},   {"mp4", AV_CODEC_ID_MOV_TEXT, true},
        {"mov", AV_CODEC_ID_PCM_S16LE, true}, {"mov", AV_CODEC_ID_OPUS, false},
        {"webm", AV_CODEC_ID_OPUS, true},     {"webm", AV_CODEC_ID_VORBIS, true},
        {"webm", AV_CODEC_ID_AAC, false},     {"webm", AV_CODEC_ID_WEBVTT, true},
        {"matroska", AV_CODEC_ID_FLAC, true}, {"matroska", AV_CODEC_ID_HDMV_PGS_SUBTITLE, true},
        {"matroska", AV_CODEC_ID_PCM_S24LE, true}, {"matroska", AV_CODEC_ID_MOV_TEXT, false},
    };
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(cases); k++)
        CHECK_INT(tachy_choice_holds(av_guess_format(cases[k].container, NULL, NULL), cases[k].id),
                  cases[k].holds);
}

// Grey becomes YUV without a copy, and the chroma says nothing.
TEST(gray_shares_its_pixels)
{
    struct tachy_pixels_params p = {.format = AV_PIX_FMT_YUV420P, .width = 33, .height = 17,
                                    .color = {.matrix = 2, .primaries = 2, .transfer = 2}};
    struct tachy_video_info i = info_of(TACHY_PIX_GRAY8, 33, 17);
    tachy_pixels *x;
    CHECK_INT(tachy_pixels_open(&x, &p), TACHY_OK);
    tachy_frame *f = frame_of(&i, 7);
    AVFrame *in, *out;
    CHECK_INT(tachy_frame_to_av(&in, f), TACHY_OK);
    CHECK_INT(tachy_pixels_run(x, in, f->color, &out), TACHY_OK);
    CHECK(out->data[0] == f->data[0]);
    for (int y = 0; y < 9; y++)
        for (int c = 0; c < 17; c++)
            CHECK(out->data[1][y * out->linesize[1] + c] == 128 &&
                  out->data[2][y * out->linesize[2] + c] == 128);
    tachy_pixels_close(&x); // the picture outlives it
    tachy_frame_unref(&f);
    av_frame_free(&in);
    CHECK(out->data[1][0] == 128 && out->data[0][0] == 16 + 21);
    av_frame_free(&out);
}

// Limited range to full range and back, 601 to 709: against the formulas in double.
TEST(ranges)
{
    struct tachy_video_info i = info_of(TACHY_PIX_YUV420P, 16, 16);
    struct tachy_pixels_params p = {.format = AV_PIX_FMT_YUV420P, .width = 16, .height = 16,
                                    .color = {.matrix = 6, .primaries = 2, .transfer = 2, .range = 2}};
    i.color.range = 1;
    tachy_pixels *x;
    CHECK_INT(tachy_pixels_open(&x, &p), TACHY_OK);
    for (int n = 0; n < 20; n++) {
        tachy_frame *f = frame_of(&i, n);
        memset(tachy_frame_writable(f, 1), 128, (size_t)(8 * f->stride[1]));
        memset(tachy_frame_writable(f, 2), 128, (size_t)(8 * f->stride[2]));
        double want = (f->data[0][0] - 16) * 255. / 219;
        AVFrame *in, *out;
        CHECK_INT(tachy_frame_to_av(&in, f), TACHY_OK);
        CHECK_INT(tachy_pixels_run(x, in, f->color, &out), TACHY_OK);
        CHECK(out->data[0][5] >= want - 1.01 && out->data[0][5] <= want + 1.01);
        CHECK(abs(out->data[1][3] - 128) <= 1);
        av_frame_free(&in);
        av_frame_free(&out);
        tachy_frame_unref(&f);
    }
    tachy_pixels_close(&x);
}

int main(void)
{
    static const struct test_case cases[] = {
        TEST_CASE(null_counts),       TEST_CASE(backends_by_name),         TEST_CASE(order_of_calls),
        TEST_CASE(absurd_times), TEST_CASE(bad_info),          TEST_CASE(unfinished),               TEST_CASE(file_that_came_meanwhile),
        TEST_CASE(two_outputs_of_one_name), TEST_CASE(long_names),         TEST_CASE(full_device_is_named),
        TEST_CASE(choices),  TEST_CASE(alpha_by_chance),           TEST_CASE(quality_defaults), TEST_CASE(gpu_encoder_is_tried_where_it_may),
        TEST_CASE(gpu_encoders_know_their_options),         TEST_CASE(containers),
        TEST_CASE(gray_shares_its_pixels), TEST_CASE(ranges),
    };
    if (!mkdtemp(dir))
        return 1;
    int status = test_run(cases, sizeof(cases) / sizeof(cases[0]));
    clean();
    rmdir(dir);
    return status;
}
