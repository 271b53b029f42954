#include "cuda/loader.h"
#include "media/side.h"
#include "source/counter.h"
#include "source/source_ops.h"
#include "clips.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

// Clips are made with the ffmpeg program from frames with their number in the pixels
// (source/counter.h), then read through the source: which frame came at which time is known.

static char messages[4096]; // what was logged since the last open

static void on_log(void *user, enum tachy_log_level level, const char *msg)
{
    size_t n = strlen(messages);
    if (level <= TACHY_LOG_WARN)
        snprintf(messages + n, sizeof(messages) - n, "%s\n", msg);
}

static const struct tachy_log quiet = {on_log, NULL, TACHY_LOG_VERBOSE};

enum { W = 320, H = 176 };

// Feeds `frames` numbered yuv420p frames to ffmpeg with the options given. The rest of the
// picture moves, so that there is something to predict.
static bool make(const char *file, int frames, const char *input_options, const char *options)
{
    char command[2048];
    snprintf(command, sizeof(command),
             "ffmpeg -v error -nostdin -y -f rawvideo -pix_fmt yuv420p -s %dx%d -r 25 -i - %s %s %s",
             W, H, input_options, options, path(file));
    FILE *f = popen(command, "w");
    uint8_t *pixels = malloc(W * H * 3 / 2);
    for (int n = 0; n < frames; n++) {
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                pixels[y * W + x] = (uint8_t)(128 + 60 * sin((x + 3 * n) * 0.05) * cos((y - n) * 0.08));
        memset(pixels + W * H, 128, W * H / 2);
        tachy_counter_write(pixels, W, W, H, 1, 1, 8, 0, (uint32_t)n);
        fwrite(pixels, 1, W * H * 3 / 2, f);
    }
    free(pixels);
    int status = pclose(f);
    if (status)
        fprintf(stderr, "status %d: %s\n", status, command);
    return status == 0;
}

static int64_t number_of(const tachy_frame *f)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    return tachy_counter_read(f->data[0], f->stride[0], f->width, f->height, d->components[0],
                              d->bytes, d->bits, d->shift);
}

static int open_with(tachy_source **s, const char *file, struct tachy_source_params p)
{
    messages[0] = '\0';
    p.url = strchr(file, ':') || file[0] == '/' || !strcmp(file, "-") ? file : path(file);
    p.log = &quiet;
    return tachy_source_open(s, &p);
}

enum { MAX_FRAMES = 1024 };

struct reading {
    int n, err;
    int64_t number[MAX_FRAMES];
    double time[MAX_FRAMES];
    int discontinuities;
    int64_t damaged;
    struct tachy_video_info info;
};

// Opens and reads everything. The codec name in `info` is not valid any more.
static struct reading *read_all(const char *file, struct tachy_source_params p)
{
    static struct reading r;
    r = (struct reading){0};
    tachy_source *s = NULL;
    r.err = open_with(&s, file, p);
    if (r.err)
        return &r;
    r.info = *tachy_source_info(s);
    double tick = (double)r.info.time_base.num / r.info.time_base.den;
    tachy_frame *f = NULL;
    while (r.n < MAX_FRAMES && !(r.err = tachy_source_read(s, &f))) {
        CHECK_INT(f->id, r.n);
        r.number[r.n] = number_of(f);
        r.time[r.n] = (double)f->pts * tick;
        if (r.n && r.time[r.n] <= r.time[r.n - 1])
            CHECK(!"times rise");
        r.discontinuities += f->discontinuity;
        r.n++;
        tachy_frame_unref(&f);
    }
    CHECK_INT(tachy_source_read(s, &f), TACHY_ERR_EOF);
    r.damaged = tachy_source_damaged(s);
    tachy_source_close(&s);
    return &r;
}

// Frames first, first + step, ... in order, none lost or doubled.
static void check_run(const struct reading *r, int n, int64_t first, int step)
{
    CHECK_INT(r->err, TACHY_ERR_EOF);
    CHECK_INT(r->n, n);
    int wrong = 0;
    for (int i = 0; i < r->n; i++)
        if (r->number[i] != first + (int64_t)i * step && !wrong++)
            fprintf(stderr, "frame %d shows %lld\n", i, (long long)r->number[i]);
    CHECK_INT(wrong, 0);
}

static bool near(double a, double b) { return fabs(a - b) < 0.0011; } // Matroska has 1 ms ticks

TEST(null_source)
{
    struct reading *r = read_all("null:320x180@30,frames=20", (struct tachy_source_params){0});
    check_run(r, 20, 0, 1);
    CHECK_INT(r->info.frames, 20);
    CHECK(near(r->time[19], 19.0 / 30));
    check_run(read_all("null:320x180@30,frames=20", (struct tachy_source_params){.every_nth = 7}),
              3, 0, 7);
    check_run(read_all("null:320x180@30,frames=20",
                       (struct tachy_source_params){.start = 0.2, .duration = 0.1}), 3, 6, 1);
    check_run(read_all("null:320x180@30,frames=20", (struct tachy_source_params){.max_frames = 4}),
              4, 0, 1);
    for (int f = TACHY_PIX_NONE + 1; f < TACHY_PIX_COUNT; f++) {
        char url[128];
        snprintf(url, sizeof(url), "null:257x99@30000/1001,frames=3,format=%s",
                 tachy_pix_desc((enum tachy_pix)f)->name);
        check_run(read_all(url, (struct tachy_source_params){0}), 3, 0, 1);
    }
    r = read_all("null:1x1,frames=2,pattern=noise", (struct tachy_source_params){0});
    CHECK_INT(r->n, 2);
    const char *bad[] = {"null:", "null:0x5", "null:70000x5", "null:8x8@0", "null:8x8@x",
                         "null:8x8,frames=-1", "null:8x8,format=x", "null:8x8,pattern=x",
                         "null:8x8,what=1", "null:8x8z"};
    for (size_t i = 1; i < TACHY_ARRAY_SIZE(bad); i++) {
        CHECK_INT(read_all(bad[i], (struct tachy_source_params){0})->err, TACHY_ERR_INVAL);
        CHECK(messages[0]);
    }
}

// Frames that the reader still holds are not painted over.
TEST(null_source_keeps_held_frames)
{
    tachy_source *s = NULL;
    tachy_frame *held[8];
    CHECK_INT(open_with(&s, "null:320x180,frames=8", (struct tachy_source_params){0}), TACHY_OK);
    for (int i = 0; i < 8; i++)
        CHECK_INT(tachy_source_read(s, &held[i]), TACHY_OK);
    tachy_source_close(&s);
    for (int i = 0; i < 8; i++) {
        CHECK_INT(number_of(held[i]), i);
        CHECK_INT(held[i]->id, i);
        tachy_frame_unref(&held[i]);
    }
}

TEST(parameters_are_checked)
{
    struct tachy_source_params bad[] = {{.start = -1}, {.start = NAN}, {.duration = -1},
                                        {.max_frames = -1}, {.every_nth = -1}, {.threads = -1},
                                        {.rate = {1, 0}}, {.rate = {-1, 1}}, {.backend = "camera"}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(bad); i++)
        CHECK_INT(read_all("null:8x8", bad[i])->err, TACHY_ERR_INVAL);
    tachy_source *s = NULL;
    CHECK_INT(tachy_source_open(&s, &(struct tachy_source_params){0}), TACHY_ERR_INVAL);
    tachy_source_close(&s);
}

static const struct {
    const char *file, *options;
} clips[] = {
    {"b.mp4", "-c:v libx264 -preset veryfast -crf 18 -bf 3 -b_strategy 0 -g 20"},
    {"open.mkv", "-c:v libx264 -preset veryfast -crf 18 -bf 3 -g 15 -x264-params open-gop=1"},
    {"open.ts", "-c:v libx264 -preset veryfast -crf 18 -bf 2 -g 15 -x264-params open-gop=1"},
    {"hevc.mp4", "-c:v libx265 -preset ultrafast -crf 18 -x265-params log-level=0:keyint=20"},
    {"mpeg2.mpg", "-c:v mpeg2video -q:v 2 -bf 2 -g 12"},
    {"mpeg4.avi", "-c:v mpeg4 -q:v 2 -bf 2 -g 12"},
    {"intra.mov", "-c:v prores_ks -profile:v 0"},
    {"vp9.webm", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 20 -crf 20 -b:v 0"},
    {"raw.h264", "-c:v libx264 -preset veryfast -crf 18 -bf 3 -g 20"},
    {"lossless.mkv", "-c:v ffv1 -g 1"},
};

enum { FRAMES = 60 };

TEST(every_frame_once_in_order)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(clips); i++) {
        fprintf(stderr, "     %s\n", clips[i].file);
        CHECK(make(clips[i].file, FRAMES, "", clips[i].options));
        struct reading *r = read_all(clips[i].file, (struct tachy_source_params){0});
        check_run(r, FRAMES, 0, 1);
        for (int n = 0; n < r->n; n++)
            CHECK(near(r->time[n] - r->time[0], n / 25.0));
        CHECK(!r->info.vfr);
        CHECK_INT(r->damaged, 0);
        CHECK_INT(r->discontinuities, 0);
        CHECK(r->info.width == W && r->info.height == H);
        CHECK(fabs((double)r->info.fps.num / r->info.fps.den - 25) < 1e-6);
        for (int threads = 1; threads <= 3; threads += 2)
            check_run(read_all(clips[i].file, (struct tachy_source_params){.threads = threads}),
                      FRAMES, 0, 1);
        check_run(read_all(clips[i].file, (struct tachy_source_params){.every_nth = 4}), 15, 0, 4);
    }
}

TEST(start_is_exact)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(clips); i++) {
        fprintf(stderr, "     %s\n", clips[i].file);
        // Time of frame 0: some muxers begin a little after the file's time 0.
        double zero = read_all(clips[i].file, (struct tachy_source_params){0})->time[0];
        for (int first = 1; first < FRAMES; first += 4) {
            double at = zero + first / 25.0;
            struct reading *r = read_all(clips[i].file, (struct tachy_source_params){.start = at});
            check_run(r, FRAMES - first, first, 1);
            CHECK(r->n && near(r->time[0], 0));
            if (r->info.time_base.den / r->info.time_base.num < 1000)
                continue; // a tick is a whole frame
            // A little later: that frame is gone, and the next keeps its distance.
            r = read_all(clips[i].file, (struct tachy_source_params){.start = at - 0.03,
                                                                     .duration = 0.4});
            check_run(r, first + 10 <= FRAMES ? 10 : FRAMES - first, first, 1);
            CHECK(r->n && near(r->time[0], 0.03));
        }
    }
    struct reading *r = read_all("b.mp4", (struct tachy_source_params){.start = 99});
    CHECK_INT(r->err, TACHY_ERR_INVAL);
    CHECK(strstr(messages, "before the start"));
}

TEST(variable_rate_is_kept)
{
    const char *files[] = {"vfr.mp4", "vfr.mkv"};
    for (int i = 0; i < 2; i++) {
        // Times n + (n mod 3) / 2 frames; three distances in turn.
        CHECK(make(files[i], 45, "", "-vf \"settb=1/1000,setpts='(N+mod(N,3)/2)/25/TB'\" -fps_mode vfr "
                   "-enc_time_base 1:1000 -c:v libx264 -preset veryfast -crf 18 -bf 3 -g 20"));
        struct reading *r = read_all(files[i], (struct tachy_source_params){0});
        check_run(r, 45, 0, 1);
        CHECK(r->info.vfr);
        for (int n = 0; n < r->n; n++)
            CHECK(near(r->time[n], (n + n % 3 / 2.0) / 25));
        r = read_all(files[i], (struct tachy_source_params){.start = (20 + 20 % 3 / 2.0) / 25});
        check_run(r, 25, 20, 1);
        // To 50 frames per second: every frame is shown, some twice or more.
        r = read_all(files[i], (struct tachy_source_params){.rate = {50, 1}});
        CHECK(!r->info.vfr && r->info.fps.num == 50);
        for (int n = 0; n < r->n; n++) {
            CHECK(near(r->time[n], n / 50.0));
            int64_t m = r->number[n]; // the last frame that has begun
            CHECK((int)(2 * m + m % 3) <= n && n < (int)(2 * (m + 1) + (m + 1) % 3 + (m == 44 ? 2 : 0)));
        }
        CHECK(r->n >= 89);
    }
}

// The constant rate against FFmpeg's own filter.
TEST(rate_agrees_with_ffmpeg)
{
    const struct tachy_rational rates[] = {{10, 1}, {24, 1}, {30000, 1001}, {60, 1}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(rates); i++) {
        CHECK(shell("ffmpeg -v error -nostdin -y -i %s -vf fps=%d/%d -c:v ffv1 %s", path("vfr.mp4"),
                    rates[i].num, rates[i].den, path("fps.mkv")));
        static struct reading want;
        want = *read_all("fps.mkv", (struct tachy_source_params){0});
        struct reading *got = read_all("vfr.mp4", (struct tachy_source_params){.rate = rates[i]});
        // At the end the tool forgets the last frame's length (0.1 s here) and so the frame.
        CHECK(got->n >= want.n && got->n <= want.n + 1 + rates[i].num / rates[i].den / 10);
        for (int n = 0; n < got->n && n < want.n; n++)
            CHECK_INT(got->number[n], want.number[n]);
    }
}

TEST(formats)
{
    static const struct {
        const char *options, *file;
        enum tachy_pix format;
        int range;
    } cases[] = {
        {"-pix_fmt yuv420p10le -c:v libx265 -preset ultrafast -crf 18 -x265-params log-level=0", "f10.mp4", TACHY_PIX_YUV420P10, 1},
        {"-pix_fmt yuv422p10le -c:v ffv1", "f422.mkv", TACHY_PIX_YUV422P10, 0},
        {"-pix_fmt yuv444p -c:v libx264 -preset ultrafast -crf 10", "f444.mkv", TACHY_PIX_YUV444P, 0},
        {"-pix_fmt nv12 -c:v rawvideo", "nv12.nut", TACHY_PIX_NV12, 0},
        {"-pix_fmt yuvj420p -c:v mjpeg -q:v 2", "j.avi", TACHY_PIX_YUV420P, 2},
        {"-pix_fmt gray -c:v ffv1", "gray.mkv", TACHY_PIX_GRAY8, 0},
        {"-pix_fmt gray16le -c:v ffv1", "gray16.mkv", TACHY_PIX_GRAY10, 0},
        {"-pix_fmt yuv411p -c:v ffv1", "f411.mkv", TACHY_PIX_YUV422P, 0},
        {"-pix_fmt yuv420p12le -c:v ffv1", "f12.mkv", TACHY_PIX_YUV420P10, 0},
        {"-pix_fmt yuva420p -c:v ffv1", "a420.mkv", TACHY_PIX_YUVA420P, 0},
        {"-pix_fmt yuva444p10le -c:v ffv1", "a444.mkv", TACHY_PIX_YUVA444P10, 0},
        {"-pix_fmt gbrp -c:v ffv1", "gbrp.mkv", TACHY_PIX_RGB24, 2},
        {"-pix_fmt rgb48le -c:v rawvideo", "rgb48.nut", TACHY_PIX_YUV444P10, 1},
        {"-pix_fmt rgb24 -c:v qtrle", "rgb.mov", TACHY_PIX_RGB24, 2},
        {"-pix_fmt bgra -c:v ffv1", "bgra.mkv", TACHY_PIX_BGRA, 2},
        {"-pix_fmt argb -c:v qtrle", "argb.mov", TACHY_PIX_RGBA, 2},
        {"-pix_fmt uyvy422 -c:v rawvideo", "uyvy.nut", TACHY_PIX_YUV422P, 0},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(cases); i++) {
        CHECK(make(cases[i].file, 5, "", cases[i].options));
        struct reading *r = read_all(cases[i].file, (struct tachy_source_params){0});
        check_run(r, 5, 0, 1);
        if (r->info.format != cases[i].format)
            fprintf(stderr, "%s is %s\n", cases[i].file, r->n ? tachy_pix_desc(r->info.format)->name : "?");
        CHECK_INT(r->info.format, cases[i].format);
        if (cases[i].range)
            CHECK_INT(tachy_color_resolve(r->info.color, r->info.format, W, H).range, cases[i].range);
    }
}

TEST(pictures)
{
    CHECK(make("shot_%04d.png", 7, "", "-start_number 98"));
    struct reading *r = read_all("shot_%04d.png", (struct tachy_source_params){0});
    check_run(r, 7, 0, 1);
    CHECK(!r->info.still && near(r->time[6], 6 / 25.0));
    r = read_all("shot_%04d.png", (struct tachy_source_params){.rate = {10, 1}});
    check_run(r, 7, 0, 1);
    CHECK(near(r->time[6], 0.6));
    r = read_all("shot_0100.png", (struct tachy_source_params){.rate = {10, 1}});
    check_run(r, 1, 2, 1);
    CHECK(r->info.still && r->info.frames == 1);
    CHECK(shell("cp %s %s && ffmpeg -v error -y -i %s -pix_fmt pal8 %s", path("shot_0100.png"),
                path("100%d.png"), path("shot_0100.png"), path("pal.png")));
    check_run(read_all("100%d.png", (struct tachy_source_params){0}), 1, 2, 1);
    r = read_all("pal.png", (struct tachy_source_params){0});
    check_run(r, 1, 2, 1);
    CHECK_INT(r->info.format, TACHY_PIX_RGB24);
    r = read_all("none_%d.png", (struct tachy_source_params){0});
    CHECK_INT(r->err, TACHY_ERR_NOT_FOUND);
    const char *sizes[] = {"1:1", "1:7", "17:3", "2:2", "7680:4320"};
    for (int i = 0; i < 5; i++) {
        CHECK(shell("ffmpeg -v error -y -f lavfi -i color=red -vf scale=%s:flags=area -frames:v 1 -pix_fmt rgb24 %s",
                    sizes[i], path("tiny.png")));
        r = read_all("tiny.png", (struct tachy_source_params){0});
        CHECK_INT(r->n, 1);
        CHECK_INT(r->info.width, atoi(sizes[i]));
    }
}

// "-" is standard input: nothing can be seeked in, so the start is reached by decoding.
TEST(standard_input)
{
    const char *files[] = {"open.mkv", "open.ts", "raw.h264"};
    int saved = dup(0);
    for (int i = 0; i < 3; i++)
        for (int first = 0; first < 30; first += 23) {
            char command[160];
            snprintf(command, sizeof(command), "cat %s", path(files[i]));
            FILE *f = popen(command, "r");
            dup2(fileno(f), 0);
            struct tachy_source_params p = {.url = "-"};
            struct reading *r = read_all("-", p);
            if (first) { // once more, from the start that the first round found
                pclose(f);
                f = popen(command, "r");
                dup2(fileno(f), 0);
                p.start = (r->n ? r->time[0] : 0) + first / 25.0;
                r = read_all("-", p);
            }
            check_run(r, FRAMES - first, first, 1);
            dup2(saved, 0);
            pclose(f);
        }
    close(saved);
}

TEST(rotation_and_stereo)
{
    static const struct {
        const char *name;
        enum tachy_stereo stereo;
    } names[] = {{"film_sbs.mp4", TACHY_STEREO_SBS},   {"a_180_LR.mp4", TACHY_STEREO_SBS},
                 {"a-3dv-x.mp4", TACHY_STEREO_TB},     {"x_OU.mp4", TACHY_STEREO_TB},
                 {"tb.mp4", TACHY_STEREO_MONO},        {"sbsfilm.mp4", TACHY_STEREO_MONO},
                 {"album_tbs.mp4", TACHY_STEREO_MONO}};
    // Pictures that are turned, and tagged so that FFmpeg's own tool shows them upright.
    const char *turned[] = {"null", "transpose=cclock", "hflip,vflip", "transpose=clock"};
    for (int i = 0; i < 4; i++) {
        // This FFmpeg's `rotate` tag turns counterclockwise when written.
        CHECK(shell("ffmpeg -v error -y -i %s -vf %s -c:v libx264 -crf 10 -preset ultrafast %s && "
                    "ffmpeg -v error -y -i %s -c copy -metadata:s:v rotate=%d %s && "
                    "ffmpeg -v error -y -i %s -c:v ffv1 %s", path("b.mp4"), turned[i],
                    path("turned0.mp4"), path("turned0.mp4"), (360 - 90 * i) % 360,
                    path("turned.mp4"), path("turned.mp4"), path("upright.mkv")));
        check_run(read_all("upright.mkv", (struct tachy_source_params){0}), FRAMES, 0, 1);
        struct reading *r = read_all("turned.mp4", (struct tachy_source_params){0});
        CHECK_INT(r->info.rotation, 90 * i);
        CHECK(!r->info.flipped);
    }
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++) {
        CHECK(shell("cp %s %s", path("b.mp4"), path(names[i].name)));
        CHECK_INT(read_all(names[i].name, (struct tachy_source_params){0})->info.stereo,
                  names[i].stereo);
    }
    struct reading *r = read_all("film_sbs.mp4",
                                 (struct tachy_source_params){.stereo = TACHY_STEREO_MONO});
    CHECK_INT(r->info.stereo, TACHY_STEREO_MONO);
    CHECK(make("packed.mkv", 3, "", "-c:v libx264 -preset ultrafast -x264-params frame-packing=4"));
    CHECK_INT(read_all("packed.mkv", (struct tachy_source_params){0})->info.stereo, TACHY_STEREO_TB);
    CHECK(make("box.mkv", 3, "", "-c:v libx264 -preset ultrafast -metadata:s:v stereo_mode=left_right"));
    CHECK_INT(read_all("box.mkv", (struct tachy_source_params){0})->info.stereo, TACHY_STEREO_SBS);
}

TEST(size_change_in_the_middle)
{
    CHECK(make("one.h264", 12, "", "-c:v libx264 -preset ultrafast -crf 18"));
    CHECK(make("two.h264", 12, "", "-vf scale=640:352:flags=neighbor -c:v libx264 -preset ultrafast -crf 18"));
    CHECK(shell("cat %s %s > %s", path("one.h264"), path("two.h264"), path("joined.h264")));
    tachy_source *s = NULL;
    CHECK_INT(open_with(&s, "joined.h264", (struct tachy_source_params){0}), TACHY_OK);
    tachy_frame *f = NULL;
    int n = 0;
    for (; !tachy_source_read(s, &f); n++) {
        CHECK_INT(f->width, n < 12 ? 320 : 640);
        CHECK_INT(f->discontinuity, n == 12);
        tachy_frame_unref(&f);
    }
    CHECK_INT(n, 24);
    CHECK(strstr(messages, "change from 320x176"));
    tachy_source_close(&s);
}

TEST(joined_transport_streams)
{
    CHECK(make("t1.ts", 20, "", "-output_ts_offset 30 -c:v libx264 -preset veryfast -bf 2"));
    CHECK(make("t2.ts", 20, "", "-output_ts_offset 5 -c:v libx264 -preset veryfast -bf 2"));
    CHECK(shell("cat %s %s > %s", path("t1.ts"), path("t2.ts"), path("joined.ts")));
    struct reading *r = read_all("joined.ts", (struct tachy_source_params){0});
    CHECK_INT(r->n, 40);
    for (int i = 0; i < r->n; i++)
        CHECK_INT(r->number[i], i % 20);
    CHECK(r->n && r->time[r->n - 1] - r->time[0] < 2.5);
}

static void flip_bits(const char *from, const char *to, int every, uint32_t seed)
{
    FILE *in = fopen(path(from), "rb"), *out = fopen(path(to), "wb");
    int c;
    for (long i = 0; (c = getc(in)) != EOF; i++) {
        seed = seed * 1664525u + 1013904223u;
        if (i > 3000 && (seed >> 8) % (unsigned)every == 0)
            c ^= 1 << (seed >> 28 & 7);
        putc(c, out);
    }
    fclose(in);
    fclose(out);
}

TEST(damage_is_survived_and_counted)
{
    int64_t damaged = 0;
    for (uint32_t seed = 1; seed <= 6; seed++) {
        flip_bits(seed % 2 ? "open.mkv" : "open.ts", "flipped", 400, seed);
        struct reading *r = read_all("flipped", (struct tachy_source_params){.want_side = true});
        CHECK(r->n > 10);
        damaged += r->damaged;
        int lines = 0;
        for (const char *m = messages; *m; m++)
            lines += *m == '\n';
        CHECK(lines <= 6); // a few warnings, not one per frame
    }
    CHECK(damaged > 0);
}

TEST(truncated_files_end_cleanly)
{
    struct stat st;
    CHECK(!stat(path("open.mkv"), &st));
    CHECK(shell("head -c %ld %s > %s", (long)st.st_size / 2, path("open.mkv"), path("half.mkv")));
    struct reading *r = read_all("half.mkv", (struct tachy_source_params){0});
    CHECK_INT(r->err, TACHY_ERR_EOF);
    CHECK(r->n > 10 && r->n < 60);
    CHECK(shell("head -c 3000 %s > %s", path("b.mp4"), path("head.mp4"))); // no index
    r = read_all("head.mp4", (struct tachy_source_params){0});
    CHECK_INT(r->err, TACHY_ERR_FORMAT);
    CHECK(shell("head -c 700 %s > %s", path("open.mkv"), path("head.mkv")));
    r = read_all("head.mkv", (struct tachy_source_params){0});
    CHECK_INT(r->err, TACHY_ERR_FORMAT);
}

// Each refusal is one sentence that names the file.
static void refused(const char *file, int err, const char *part)
{
    struct reading *r = read_all(file, (struct tachy_source_params){0});
    CHECK_INT(r->err, err);
    CHECK(strstr(messages, part));
    CHECK(strchr(messages, '\n') == messages + strlen(messages) - 1);
    if (!strstr(messages, part))
        fprintf(stderr, "%s: said: %s", file, messages);
}

TEST(refusals)
{
    CHECK(shell("ffmpeg -v error -y -f lavfi -i sine=d=1 %s && : > %s && mkdir %s && echo some text > %s && "
                "cp %s %s && chmod 0 %s", path("sound.m4a"), path("empty.mp4"), path("folder"),
                path("text.txt"), path("b.mp4"), path("locked.mp4"), path("locked.mp4")));
    refused("sound.m4a", TACHY_ERR_FORMAT, "holds no video, only sound");
    refused("empty.mp4", TACHY_ERR_FORMAT, "is empty");
    refused("folder", TACHY_ERR_INVAL, "is a folder");
    refused("text.txt", TACHY_ERR_FORMAT, "text.txt: is ");
    refused("missing.mp4", TACHY_ERR_NOT_FOUND, "No such file");
    if (geteuid())
        refused("locked.mp4", TACHY_ERR_IO, "may not be read");
    refused("gopher77:x", TACHY_ERR_UNSUPPORTED, "gopher77:x");
    struct reading *r = read_all("sound.m4a", (struct tachy_source_params){.want_side = true});
    CHECK_INT(r->err, TACHY_ERR_FORMAT);
}

// A clip whose sound beeps exactly with a picture, with two languages, subtitles and chapters.
static bool make_side(void)
{
    FILE *f = fopen(path("a.srt"), "w");
    fputs("1\n00:00:00,200 --> 00:00:01,000\nfirst\n\n2\n00:00:01,500 --> 00:00:02,000\nsecond\n", f);
    fclose(f);
    f = fopen(path("meta.txt"), "w");
    fputs(";FFMETADATA1\ntitle=A title\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=1000\ntitle=one\n"
          "[CHAPTER]\nTIMEBASE=1/1000\nSTART=1000\nEND=2400\ntitle=two\n", f);
    fclose(f);
    char inputs[512];
    snprintf(inputs, sizeof(inputs), "-f lavfi -i sine=d=2.4 -i %s -i %s", path("a.srt"), path("meta.txt"));
    return make("side.mkv", FRAMES, inputs,
                "-map 0 -map 1 -map 2 -map_metadata 3 -c:v libx264 -preset veryfast -c:a aac -c:s srt "
                "-metadata:s:a:0 language=deu");
}

TEST(side_has_everything_else)
{
    CHECK(make_side());
    for (int cut = 0; cut < 3; cut++) {
        tachy_source *s = NULL;
        struct tachy_source_params p = {.want_side = true};
        if (cut == 1)
            p.start = 0.8, p.duration = 1;
        if (cut == 2)
            p.max_frames = 25;
        CHECK_INT(open_with(&s, "side.mkv", p), TACHY_OK);
        tachy_side *side = tachy_side_ref(tachy_source_side(s));
        CHECK_INT(side->nb_streams, 2);
        CHECK_STR(av_dict_get(side->metadata, "title", NULL, 0)->value, "A title");
        CHECK_STR(av_dict_get(side->streams[0].metadata, "language", NULL, 0)->value, "deu");
        CHECK_INT(side->nb_chapters, 2);
        CHECK_INT(side->chapters[0]->start, 0);
        CHECK_INT(av_rescale_q(side->chapters[1]->start, side->chapters[1]->time_base,
                               (AVRational){1, 1000}), cut == 1 ? 200 : 1000);
        tachy_frame *f = NULL;
        int frames = 0, packets[2] = {0};
        while (!tachy_source_read(s, &f)) {
            frames++;
            tachy_frame_unref(&f);
        }
        CHECK_INT(frames, cut ? 25 : FRAMES);
        tachy_source_close(&s);
        AVPacket *packet = av_packet_alloc();
        double last = -1, end = 0;
        int err;
        while (!(err = tachy_side_take(side, INFINITY, packet))) {
            int i = packet->stream_index;
            double t = (double)packet->pts * av_q2d(side->streams[i].time_base);
            CHECK(t >= last);
            last = t;
            end = t + (double)packet->duration * av_q2d(side->streams[i].time_base);
            CHECK(t >= (cut ? -0.03 : -1) && t < (cut ? 1.03 : 2.5));
            packets[i]++;
            av_packet_unref(packet);
        }
        CHECK_INT(err, TACHY_ERR_EOF);
        CHECK(end > (cut ? 0.95 : 2.3)); // sound to the end of the range
        CHECK(packets[0] > (cut ? 40 : 100));
        CHECK_INT(packets[1], cut == 2 ? 1 : 2);
        av_packet_free(&packet);
        tachy_side_unref(&side);
    }
}

// The encoder's delay, sound before time 0, does not move the pictures.
TEST(sound_before_zero)
{
    CHECK(shell("ffmpeg -v error -y -i %s -map 0:v -map 0:a -c copy -output_ts_offset -0.023 "
                "-avoid_negative_ts disabled %s", path("side.mkv"), path("early.mkv")));
    struct reading *r = read_all("early.mkv", (struct tachy_source_params){.want_side = true});
    check_run(r, FRAMES, 0, 1);
    CHECK(near(r->time[0], 0));
}

static json_t *probe(const char *file)
{
    char *text = NULL;
    messages[0] = '\0';
    CHECK_INT(tachy_probe(&text, tachy_source_params(.url = path(file), .log = &quiet)), TACHY_OK);
    json_t *o = text ? json_loads(text, 0, NULL) : NULL;
    CHECK(o != NULL);
    tachy_free(text);
    return o;
}

static bool vfr_of(const char *file)
{
    json_t *o = probe(file);
    json_t *v = json_object_get(json_array_get(json_object_get(o, "streams"), 0), "vfr");
    CHECK(json_is_boolean(v));
    bool vfr = json_is_true(v);
    json_decref(o);
    return vfr;
}

TEST(probe_describes)
{
    json_t *o = probe("side.mkv"), *streams = json_object_get(o, "streams");
    CHECK_INT(json_array_size(streams), 3);
    json_t *v = json_array_get(streams, 0), *a = json_array_get(streams, 1);
    CHECK_STR(json_string_value(json_object_get(v, "codec")), "h264");
    CHECK_STR(json_string_value(json_object_get(v, "pix_fmt")), "yuv420p");
    CHECK_STR(json_string_value(json_object_get(v, "fps")), "25/1");
    CHECK_STR(json_string_value(json_object_get(v, "stereo")), "mono");
    CHECK_INT(json_integer_value(json_object_get(v, "width")), W);
    CHECK(json_is_null(json_object_get(v, "hdr")));
    CHECK_STR(json_string_value(json_object_get(a, "type")), "audio");
    CHECK_STR(json_string_value(json_object_get(a, "language")), "deu");
    CHECK_STR(json_string_value(json_object_get(a, "layout")), "mono");
    CHECK_INT(json_array_size(json_object_get(o, "chapters")), 2);
    CHECK_STR(json_string_value(json_object_get(json_object_get(o, "metadata"), "title")), "A title");
    json_decref(o);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(clips); i++)
        CHECK(!vfr_of(clips[i].file));
    CHECK(vfr_of("vfr.mkv") && vfr_of("vfr.mp4"));
    json_decref(probe("sound.m4a")); // has no video and is described all the same
    char *text = NULL, *lines;
    CHECK_INT(tachy_probe(&text, tachy_source_params(.url = path("missing.mp4"), .log = &quiet)), TACHY_ERR_NOT_FOUND);
    CHECK(!text && messages[0]);
    CHECK_INT(tachy_probe(&text, tachy_source_params(.url = path("side.mkv"), .log = &quiet)), TACHY_OK);
    CHECK_INT(tachy_probe_text(&lines, text), TACHY_OK);
    CHECK(strstr(lines, "h264") && strstr(lines, "25 fps") && strstr(lines, "2 chapters") && strstr(lines, "A title"));
    tachy_free(lines);
    tachy_free(text);
    CHECK_INT(tachy_probe_text(&lines, "[]"), TACHY_ERR_FORMAT);
    CHECK(!lines);
}

static void clean_up(void)
{
    if (dir[0])
        shell("rm -rf %s", dir);
}

static void on_any(void *user, enum tachy_log_level level, const char *msg)
{
    size_t n = strlen(messages);
    snprintf(messages + n, sizeof(messages) - n, "%s\n", msg);
}

// Without a driver: NVDEC is an error that names the library; AUTO uses the CPU and logs it if frames are wanted on a
// GPU. tests/unit/test_gpu_frame.c covers the other reasons.
TEST(no_driver_for_nvdec)
{
    const struct tachy_cu *cu;
    if (tachy_cu_load(&cu, TACHY_LOG_VERBOSE, NULL) == TACHY_OK)
        return;
    tachy_source *s = NULL;
    const struct tachy_log info = {on_any, NULL, TACHY_LOG_INFO};
    struct tachy_source_params p = {.url = path("cfr.mp4"), .log = &info, .decode = TACHY_DECODE_NVDEC};
    CHECK(make("cfr.mp4", 5, "", "-c:v libx264 -preset ultrafast"));
    messages[0] = '\0';
    CHECK_INT(tachy_source_open(&s, &p), TACHY_ERR_UNAVAILABLE);
    CHECK(!s && strstr(messages, "NVDEC was asked for") && strstr(messages, "libcuda.so.1"));
    p.decode = TACHY_DECODE_AUTO;
    for (int wanted = 0; wanted <= 1; wanted++) {
        messages[0] = '\0';
        p.on_gpu = wanted;
        CHECK_INT(tachy_source_open(&s, &p), TACHY_OK);
        CHECK(s && tachy_source_info(s)->mem == TACHY_HOST);
        CHECK_INT(strstr(messages, "decoded on the CPU: ") && strstr(messages, "libcuda.so.1"), wanted);
        tachy_source_close(&s);
    }
}

TEST(set_up)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%.40s/tachy-XXXXXX", tmp ? tmp : "/tmp");
    CHECK(mkdtemp(dir) != NULL);
    atexit(clean_up);
    if (system("ffmpeg -version > /dev/null 2>&1"))
        SKIP("the ffmpeg program, which makes the clips, is not installed");
}

TEST_MAIN(TEST_CASE(set_up), TEST_CASE(null_source), TEST_CASE(null_source_keeps_held_frames),
          TEST_CASE(parameters_are_checked), TEST_CASE(every_frame_once_in_order),
          TEST_CASE(start_is_exact), TEST_CASE(variable_rate_is_kept),
          TEST_CASE(rate_agrees_with_ffmpeg), TEST_CASE(formats), TEST_CASE(pictures),
          TEST_CASE(standard_input), TEST_CASE(rotation_and_stereo), TEST_CASE(size_change_in_the_middle),
          TEST_CASE(joined_transport_streams), TEST_CASE(damage_is_survived_and_counted),
          TEST_CASE(truncated_files_end_cleanly), TEST_CASE(refusals),
          TEST_CASE(side_has_everything_else), TEST_CASE(sound_before_zero),
          TEST_CASE(probe_describes), TEST_CASE(no_driver_for_nvdec))
