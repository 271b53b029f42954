#include "media/side.h"
#include "source/counter.h"
#include "source/source_ops.h"
#include "clips.h"

#include <dlfcn.h>
#include <libavcodec/avcodec.h>
#include <libavutil/crc.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

// One file over several decoders gives what a single decoder gives: every frame's pixels, time,
// length, key and discontinuity are compared, for frames in order and for frames by position
// from several threads. The reference is the same source with one decoder, whose frames
// test_source.c checks against the numbers in the pixels; the numbers are checked here too.

enum { W = 256, H = 96, FRAMES = 200, MOST = 2000 };

static char messages[8192]; // what was logged since the last open
static pthread_mutex_t message_lock = PTHREAD_MUTEX_INITIALIZER;

static void on_log(void *user, enum tachy_log_level level, const char *msg)
{
    pthread_mutex_lock(&message_lock);
    size_t n = strlen(messages);
    snprintf(messages + n, sizeof(messages) - n, "%s\n", msg);
    pthread_mutex_unlock(&message_lock);
}

static const struct tachy_log quiet = {on_log, NULL, TACHY_LOG_VERBOSE};

// Feeds `frames` numbered, moving yuv420p frames to ffmpeg with the options given.
static bool make(const char *file, int frames, const char *input_options, const char *options)
{
    char command[2048];
    snprintf(command, sizeof(command),
             "ffmpeg -v error -nostdin -y -f rawvideo -pix_fmt yuv420p -s %dx%d -r 25 -i - %s %s %s",
             W, H, input_options, options, path(file));
    FILE *f = popen(command, "w");
    uint8_t *pixels = malloc(W * H * 3 / 2);
    double across[W];
    for (int n = 0; n < frames; n++) {
        for (int x = 0; x < W; x++)
            across[x] = 60 * sin((x + 3 * n) * 0.05);
        for (int y = 0; y < H; y++) {
            double down = cos((y - n) * 0.08);
            for (int x = 0; x < W; x++)
                pixels[y * W + x] = (uint8_t)(128 + across[x] * down);
        }
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

struct seen {
    bool any;
    int64_t number, pts, duration, id;
    int discontinuity, width;
    bool key, breaks;
    uint32_t hash;
};

struct reading {
    struct seen frames[MOST];
    int64_t n; // positions
    int holes, err;
    int64_t damaged, farthest; // positions that a frame came before a lower one
    int64_t apart;             // of the threads' first frames, read before any was handed on
    bool twice;
};

static uint32_t hash_of(const tachy_frame *f)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    const AVCRC *table = av_crc_get_table(AV_CRC_32_IEEE);
    uint32_t h = 1;
    for (int i = 0; i < d->planes; i++) {
        bool chroma = !d->rgb && (i == 1 || i == 2);
        int rows = chroma ? -(-f->height >> d->chroma_shift_y) : f->height;
        size_t columns = (size_t)(chroma ? -(-f->width >> d->chroma_shift_x) : f->width) * d->components[i] *
                         d->bytes;
        for (int y = 0; y < rows; y++)
            h = av_crc(table, h, f->data[i] + y * f->stride[i], columns);
    }
    return h;
}

static struct seen describe(const tachy_frame *f)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    return (struct seen){
        .any = true,
        .number = tachy_counter_read(f->data[0], f->stride[0], f->width, f->height,
                                     d->components[0], d->bytes, d->bits, d->shift),
        .pts = f->pts,
        .duration = f->duration,
        .id = f->id,
        .discontinuity = f->discontinuity,
        .width = f->width,
        .key = f->key,
        .hash = hash_of(f),
    };
}

static int open_with(tachy_source **s, const char *file, struct tachy_source_params p)
{
    messages[0] = '\0';
    p.url = strchr(file, ':') ? file : path(file);
    p.log = &quiet;
    return tachy_source_open(s, &p);
}

static void read_in_order(struct reading *r, const char *file, struct tachy_source_params p)
{
    tachy_source *s = NULL;
    *r = (struct reading){0};
    r->err = open_with(&s, file, p);
    if (r->err)
        return;
    tachy_frame *f = NULL;
    while (r->n < MOST && !(r->err = tachy_source_read(s, &f))) {
        r->frames[r->n] = describe(f);
        CHECK_INT(f->id, r->n);
        r->n++;
        tachy_frame_unref(&f);
    }
    r->damaged = tachy_source_damaged(s);
    tachy_source_close(&s);
}

// --- By position from several threads, with a window as a pipeline has it --------------------
struct window {
    tachy_source *s;
    int64_t size, next;
    struct reading *r;
    bool *given;
    uint32_t seed;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    pthread_barrier_t begun; // every thread has read once
};

static void note(struct window *w, int64_t seq, const struct seen *seen)
{
    pthread_mutex_lock(&w->lock);
    while (seq >= w->next + w->size)
        pthread_cond_wait(&w->moved, &w->lock);
    struct reading *r = w->r;
    if (seq < 0 || seq >= MOST || w->given[seq]) {
        r->twice = true;
    } else {
        w->given[seq] = true;
        r->frames[seq] = *seen;
        r->holes += !seen->any;
        r->n = TACHY_MAX(r->n, seq + 1);
        r->farthest = TACHY_MAX(r->farthest, seq - w->next);
    }
    while (w->next < MOST && w->given[w->next])
        w->next++;
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
}

static void *reader_main(void *arg)
{
    struct window *w = arg;
    tachy_frame *f;
    int64_t seq;
    int err;
    bool first = true, breaks;
    while (!(err = tachy_source_read_any(w->s, &f, &seq, &breaks, NULL))) {
        if (first) {
            pthread_mutex_lock(&w->lock);
            w->r->apart = TACHY_MAX(w->r->apart, seq);
            pthread_mutex_unlock(&w->lock);
            pthread_barrier_wait(&w->begun);
        }
        first = false;
        struct seen seen = f ? describe(f) : (struct seen){0};
        if (f && f->id != seq)
            w->r->twice = true;
        tachy_frame_unref(&f);
        pthread_mutex_lock(&w->lock);
        w->seed = w->seed * 1664525u + 1013904223u;
        unsigned wait = w->seed >> 28;
        pthread_mutex_unlock(&w->lock);
        if (wait == 1)
            usleep(500); // threads do not keep step
        seen.breaks = breaks;
        note(w, seq, &seen);
    }
    if (first)
        pthread_barrier_wait(&w->begun);
    pthread_mutex_lock(&w->lock);
    if (!w->r->err || w->r->err == TACHY_ERR_EOF)
        w->r->err = err;
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

// Returns the number of decoders.
static int read_by_position(struct reading *r, const char *file, struct tachy_source_params p,
                            int decoders, int64_t size)
{
    struct window w = {.size = size, .r = r, .seed = 7, .lock = PTHREAD_MUTEX_INITIALIZER,
                       .moved = PTHREAD_COND_INITIALIZER, .given = calloc(MOST, sizeof(bool))};
    *r = (struct reading){0};
    pthread_t threads[8];
    int n = 0;
    r->err = open_with(&w.s, file, p);
    if (!r->err) {
        n = tachy_source_spread(w.s, decoders, size);
        pthread_barrier_init(&w.begun, NULL, (unsigned)n);
        for (int i = 0; i < n; i++)
            pthread_create(&threads[i], NULL, reader_main, &w);
        for (int i = 0; i < n; i++)
            pthread_join(threads[i], NULL);
        r->damaged = tachy_source_damaged(w.s);
        pthread_barrier_destroy(&w.begun);
    }
    tachy_source_close(&w.s);
    free(w.given);
    return n;
}

static int differences(const struct reading *want, const struct reading *got)
{
    int wrong = 0;
    for (int64_t i = 0; i < TACHY_MAX(want->n, got->n); i++) {
        const struct seen *a = &want->frames[i], *b = &got->frames[i];
        bool same = a->any == b->any && a->number == b->number && a->pts == b->pts &&
                    a->duration == b->duration && a->discontinuity == b->discontinuity &&
                    a->key == b->key && a->hash == b->hash && a->width == b->width;
        if (!same && wrong++ < 3)
            fprintf(stderr, "frame %lld: number %lld pts %lld duration %lld key %d%s, not %lld %lld %lld %d\n",
                    (long long)i, (long long)b->number, (long long)b->pts, (long long)b->duration, b->key,
                    a->hash == b->hash ? "" : " pixels", (long long)a->number, (long long)a->pts,
                    (long long)a->duration, a->key);
    }
    return wrong;
}

static void check_same(const struct reading *want, const struct reading *got)
{
    CHECK_INT(got->n, want->n);
    CHECK_INT(got->err, want->err);
    CHECK(!got->twice);
    CHECK_INT(differences(want, got), 0);
    CHECK_INT(got->damaged, want->damaged);
}

static struct reading one, many, whole; // too large for the stack

// One decoder against two with a small window and three with a large one, in order and by position. `spreads`: there must really be
// several. Returns the frames.
static int64_t compare(const char *file, struct tachy_source_params p, bool spreads)
{
    fprintf(stderr, "     %s start %.2f\n", file, p.start);
    read_in_order(&one, file, p);
    CHECK_INT(one.err, TACHY_ERR_EOF);
    for (p.decoders = 2; p.decoders <= 3; p.decoders++) {
        read_in_order(&many, file, p);
        check_same(&one, &many);
        CHECK(!strstr(messages, "side by side") == !spreads);
        int window = p.decoders == 2 ? 40 : 400;
        int n = read_by_position(&many, file, p, p.decoders, window);
        CHECK(spreads ? n == p.decoders : n == 1);
        check_same(&one, &many);
        CHECK(many.farthest < window);
        if (spreads && window == 400 && !p.duration) // a short range may have one segment
            CHECK(many.apart >= 24);
    }
    return one.n;
}

static const struct {
    const char *file, *options;
    bool spreads;
} clips[] = {
    {"closed.mp4", "-c:v libx264 -preset veryfast -crf 18 -bf 3 -b_strategy 0 -g 30", true},
    {"open.mkv", "-c:v libx264 -preset veryfast -crf 18 -bf 3 -b_strategy 0 -g 25 -x264-params open-gop=1:b-pyramid=normal", true},
    {"open.mp4", "-c:v libx264 -preset medium -crf 18 -bf 5 -b_strategy 0 -g 33 -x264-params open-gop=1:b-pyramid=normal:ref=5", true},
    {"open.ts", "-c:v libx264 -preset veryfast -crf 18 -bf 2 -g 25 -x264-params open-gop=1", true},
    {"short.mp4", "-c:v libx264 -preset veryfast -crf 18 -g 5", true},
    {"hevc.mp4", "-c:v libx265 -preset ultrafast -crf 18 -x265-params log-level=0:keyint=30:open-gop=1:bframes=4", true},
    {"closed265.mkv", "-c:v libx265 -preset ultrafast -crf 18 -x265-params log-level=0:keyint=30:open-gop=0:bframes=3", true},
    {"ten.mp4", "-pix_fmt yuv420p10le -c:v libx265 -preset ultrafast -crf 18 -x265-params log-level=0:keyint=28", true},
    {"mpeg2.mp4", "-c:v mpeg2video -q:v 2 -bf 2 -g 12", true},
    {"mpeg2.mkv", "-c:v mpeg2video -q:v 2 -bf 2 -g 15 -flags +cgop -sc_threshold 1000000000", true},
    {"mpeg2.ts", "-c:v mpeg2video -q:v 2 -bf 2 -g 15", true},
    {"mpeg4.mp4", "-c:v mpeg4 -q:v 2 -bf 2 -g 25", true},
    {"vp8.webm", "-c:v libvpx -threads 1 -deadline realtime -cpu-used 16 -g 30 -auto-alt-ref 0 -b:v 1M", true},
    {"vp8alt.webm", "-c:v libvpx -threads 1 -deadline good -cpu-used 5 -g 40 -auto-alt-ref 1 -lag-in-frames 16 -b:v 500k", true},
    {"vp9.webm", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 30 -crf 20 -b:v 0", true},
    {"vp9alt.mp4", "-c:v libvpx-vp9 -deadline good -cpu-used 5 -g 40 -auto-alt-ref 1 -lag-in-frames 16 -crf 30 -b:v 0", true},
    {"intra.mov", "-c:v prores_ks -profile:v 0", true},
    {"motion.avi", "-c:v mjpeg -q:v 2 -pix_fmt yuvj420p", true},
    {"gray.mkv", "-pix_fmt gray16le -c:v ffv1 -g 10", true}, // pictures are converted
    {"intrarefresh.mp4", "-c:v libx264 -preset veryfast -g 30 -x264-params intra-refresh=1", true}, // never cut
    {"mpeg4.avi", "-c:v mpeg4 -q:v 2 -bf 2 -g 25", false},
    {"raw.h264", "-c:v libx264 -preset veryfast -crf 18 -bf 3 -g 25", false},
    {"paff.mp4", "-c:v libx264 -preset veryfast -flags +ildct -g 25 -x264-params tff=1", false},
};

TEST(all_codecs)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(clips); i++) {
        CHECK(make(clips[i].file, FRAMES, "", clips[i].options));
        bool refresh = strstr(clips[i].file, "refresh") != NULL;
        if (!refresh) {
            CHECK_INT(compare(clips[i].file, (struct tachy_source_params){0}, clips[i].spreads), FRAMES);
            continue;
        }
        // Its keyframes are none: several decoders, but never a second segment.
        read_in_order(&one, clips[i].file, (struct tachy_source_params){0});
        read_by_position(&many, clips[i].file, (struct tachy_source_params){0}, 2, 400);
        check_same(&one, &many);
        CHECK(many.apart < 24);
    }
}

TEST(av1)
{
    if (system("ffmpeg -v error -encoders | grep -q libsvtav1"))
        SKIP("this ffmpeg has no libsvtav1");
    CHECK(make("av1.mp4", FRAMES, "", "-c:v libsvtav1 -preset 12 -g 40 -crf 35 2>/dev/null"));
    CHECK_INT(compare("av1.mp4", (struct tachy_source_params){0}, true), FRAMES);
}


// Ranges, and frames left out: by position only where nothing must be counted.
TEST(ranges)
{
    static const double starts[] = {0, 0.5, 1.96, 3.2, 7.9};
    static const char *files[] = {"open.mkv", "open.mp4", "hevc.mp4", "open.ts"};
    for (size_t f = 0; f < TACHY_ARRAY_SIZE(files); f++)
        for (size_t i = f % 2; i < TACHY_ARRAY_SIZE(starts); i += 2)
            compare(files[f], (struct tachy_source_params){.start = starts[i],
                                                           .duration = (i / 2 + f / 2) % 2 * 3.1},
                    starts[i] < 7); // what is left is short
}

TEST(counted_frames_in_order)
{
    static const struct tachy_source_params cases[] = {
        {.every_nth = 3}, {.max_frames = 77}, {.start = 1.5, .every_nth = 4, .max_frames = 20},
        {.max_frames = 1}, {.rate = {30, 1}},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(cases); i++) {
        struct tachy_source_params p = cases[i];
        read_in_order(&one, "open.mkv", p);
        p.decoders = 2;
        read_in_order(&many, "open.mkv", p);
        check_same(&one, &many);
        CHECK_INT(read_by_position(&many, "open.mkv", p, 2, 300), 1);
        check_same(&one, &many);
        CHECK(strstr(messages, "decoded by one decoder: ")); // and why
    }
}

TEST(variable_rate)
{
    CHECK(make("vfr.mkv", FRAMES, "", "-vf \"settb=1/1000,setpts='(N+mod(N,3)/2)/25/TB'\" -fps_mode vfr "
               "-enc_time_base 1:1000 -c:v libx264 -preset veryfast -crf 18 -bf 3 -g 30 -x264-params open-gop=1"));
    CHECK_INT(compare("vfr.mkv", (struct tachy_source_params){0}, true), FRAMES);
    CHECK(make("vfr.mp4", FRAMES, "", "-vf \"settb=1/1000,setpts='(N+mod(N,3)/2)/25/TB'\" -fps_mode vfr "
               "-enc_time_base 1:1000 -c:v libx265 -preset ultrafast -x265-params log-level=0:keyint=30"));
    CHECK_INT(compare("vfr.mp4", (struct tachy_source_params){0}, true), FRAMES);
}

// An edit list that begins between keyframes: what lies before is decoded and not shown.
TEST(edit_lists)
{
    CHECK(shell("ffmpeg -v error -y -ss 1.5 -i %s -c copy %s", path("closed.mp4"), path("edit.mp4")));
    int64_t n = compare("edit.mp4", (struct tachy_source_params){0}, true);
    CHECK(n >= 160 && n < FRAMES - 30);
    CHECK(shell("ffmpeg -v error -y -itsoffset 0.7 -i %s -c copy %s", path("open.mp4"), path("late.mp4")));
    CHECK_INT(compare("late.mp4", (struct tachy_source_params){0}, true), FRAMES);
    compare("edit.mp4", (struct tachy_source_params){.start = 2.2, .duration = 3}, true);
}

TEST(size_change_in_the_middle)
{
    CHECK(make("one.ts", 100, "", "-c:v libx264 -preset ultrafast -crf 18 -g 30"));
    CHECK(make("two.ts", 100, "", "-vf scale=640:240:flags=neighbor -c:v libx264 -preset ultrafast -crf 18 -g 30 "
               "-output_ts_offset 4"));
    CHECK(shell("cat %s %s > %s", path("one.ts"), path("two.ts"), path("joined.ts")));
    compare("joined.ts", (struct tachy_source_params){0}, true);
    CHECK_INT(one.n, FRAMES);
    CHECK_INT(one.frames[100].discontinuity, 1);
    CHECK_INT(one.frames[100].width, 640);
    // Times that restart.
    CHECK(make("again.ts", 100, "", "-c:v libx264 -preset ultrafast -crf 18 -g 30 -output_ts_offset 2"));
    CHECK(shell("cat %s %s > %s", path("one.ts"), path("again.ts"), path("jump.ts")));
    compare("jump.ts", (struct tachy_source_params){0}, true);
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

static bool has_picture(const struct reading *r, uint32_t hash)
{
    for (int64_t i = 0; i < r->n; i++)
        if (r->frames[i].hash == hash)
            return true;
    return false;
}

// Each position once, ends as it should, frames rise; what is concealed may differ, but what one decoder gives
// as it was before the damage (`whole`), several do.
static void check_survives(const char *file)
{
    read_in_order(&one, file, (struct tachy_source_params){0});
    read_in_order(&many, file, (struct tachy_source_params){.decoders = 3});
    CHECK_INT(many.err, one.err);
    for (int64_t i = 0; i < one.n; i++)
        if (has_picture(&whole, one.frames[i].hash))
            CHECK(has_picture(&many, one.frames[i].hash));
    for (int64_t i = 1; i < many.n; i++)
        if (many.frames[i].pts <= many.frames[i - 1].pts)
            CHECK(!"times rise");
    int64_t near = llabs(many.n - one.n);
    if (near > one.n / 10)
        fprintf(stderr, "%s: %lld frames, %lld with one decoder\n", file, (long long)many.n, (long long)one.n);
    CHECK(near <= one.n / 10 + 30);
    int64_t in_order = many.n;
    read_by_position(&many, file, (struct tachy_source_params){0}, 3, 100);
    CHECK(!many.twice);
    CHECK_INT(many.err, one.err);
    CHECK(llabs(many.n - many.holes - in_order) <= one.n / 10 + 30);
}

TEST(damage)
{
    static const char *files[] = {"open.mkv", "closed.mp4", "open.ts", "hevc.mp4", "mpeg2.ts", "vp9.webm"};
    for (uint32_t seed = 1; seed <= 12; seed++) {
        const char *file = files[seed % TACHY_ARRAY_SIZE(files)];
        read_in_order(&whole, file, (struct tachy_source_params){0});
        flip_bits(file, "flipped", seed > 6 ? 20000 : 1500, seed);
        check_survives("flipped");
    }
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(files); i++) {
        if (strstr(files[i], "mp4"))
            continue; // their index is at the end
        struct stat st;
        CHECK(!stat(path(files[i]), &st));
        read_in_order(&whole, files[i], (struct tachy_source_params){0});
        CHECK(shell("head -c %ld %s > %s", (long)st.st_size * 2 / 3, path(files[i]), path("cut")));
        check_survives("cut");
    }
}

// Moves a reported break to the next frame; removes positions without a frame.
static void apply_breaks(struct reading *r)
{
    int64_t n = 0;
    bool breaks = false;
    for (int64_t i = 0; i < r->n; i++) {
        struct seen f = r->frames[i];
        f.discontinuity |= f.any && breaks;
        breaks = f.breaks || (breaks && !f.any);
        if (f.any)
            r->frames[n++] = f;
    }
    r->n = n;
}

// Packets that are missing: as many frames as from one decoder, which often does not see that any are.
TEST(lost_packets)
{
    static const char *files[] = {"short.mp4", "open.mp4", "closed265.mkv", "mpeg2.mkv", "vp8.webm"};
    uint32_t seed = 5;
    for (int i = 0; i < 10; i++) {
        const char *file = files[i % (int)TACHY_ARRAY_SIZE(files)], *suffix = strrchr(file, '.');
        char name[32], drop[160] = "0";
        snprintf(name, sizeof(name), "lost%s", suffix);
        for (int k = 0; k < 4; k++) {
            seed = seed * 1664525u + 1013904223u;
            snprintf(drop + strlen(drop), sizeof(drop) - strlen(drop), "+eq(n\\,%u)", (seed >> 8) % FRAMES);
        }
        fprintf(stderr, "     %s without %s\n", file, drop);
        CHECK(shell("ffmpeg -v error -y -i %s -c copy -bsf:v noise=drop=\"'%s'\" %s", path(file), drop, path(name)));
        read_in_order(&whole, file, (struct tachy_source_params){0});
        check_survives(name);
        CHECK_INT(many.n - many.holes, one.n);
    }
}

// Times of decoding instead of those of showing, as in files that were AVI once; pictures whose reference is
// lost; a file that begins within a group of pictures: one decoder, whose frames they are, says the rest.
TEST(times_of_decoding)
{
    static const struct {
        const char *from, *to, *filter;
    } files[] = {
        {"open.mkv", "decoding264.mkv", "setts=pts=DTS"},
        {"hevc.mp4", "decoding265.mkv", "setts=pts=DTS"},
        {"mpeg2.mp4", "decoding2.mkv", "setts=pts=DTS"},
        {"mpeg2.mkv", "decoding2c.mkv", "setts=pts=DTS"},
        {"mpeg4.mp4", "decoding4.mp4", "setts=pts=DTS"},
        {"mpeg2.mp4", "nofirst.mp4", "noise=drop='eq(n\\,37)+eq(n\\,61)+eq(n\\,85)'"}, // P after a keyframe
        {"mpeg4.mp4", "headless.mp4", "noise=drop='eq(n\\,0)'"},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(files); i++) {
        fprintf(stderr, "     %s\n", files[i].to);
        CHECK(shell("ffmpeg -v error -y -i %s -c copy -bsf:v \"%s\" %s", path(files[i].from), files[i].filter,
                    path(files[i].to)));
        read_in_order(&one, files[i].to, (struct tachy_source_params){0});
        CHECK(one.n >= FRAMES - 4);
        read_in_order(&many, files[i].to, (struct tachy_source_params){.decoders = 3});
        check_same(&one, &many);
        read_by_position(&many, files[i].to, (struct tachy_source_params){0}, 3, 200);
        apply_breaks(&many);
        check_same(&one, &many);
    }
}

// Damage in a segment's last picture, and in others: the same frames are discontinuities as with one decoder. `noise`:
// FFmpeg's expression; if not 0, 1 in that many bytes of the packets is damaged.
static void damaged_alike(const char *noise, int anew)
{
    CHECK(shell("ffmpeg -v error -y -i %s -c copy -bsf:v noise=amount=\"'%s'\" %s", path("plain.mkv"), noise, path("noisy.mkv")));
    read_in_order(&one, "noisy.mkv", (struct tachy_source_params){0});
    int marked = 0;
    for (int64_t i = 0; i < one.n; i++)
        marked += one.frames[i].discontinuity;
    CHECK_INT(marked, anew);
    read_in_order(&many, "noisy.mkv", (struct tachy_source_params){.decoders = 3});
    check_same(&one, &many);
    for (int size = 40; size <= 200; size += 160) {
        int n = read_by_position(&many, "noisy.mkv", (struct tachy_source_params){0}, 3, size);
        CHECK_INT(n, 3);
        apply_breaks(&many);
        check_same(&one, &many);
    }
}

TEST(damage_at_a_segments_end)
{
    CHECK(make("plain.mkv", FRAMES, "", "-c:v libx264 -preset veryfast -crf 3 -g 30 -sc_threshold 0 -bf 0"));
    damaged_alike("if(eq(n\\,59)\\,1\\,0)", 1); // no picture comes out: the keyframe after it
    damaged_alike("if(eq(n\\,59)+eq(n\\,89)\\,1\\,0)", 2);
    damaged_alike("if(eq(n\\,59)\\,40\\,0)", 2); // it does, concealed: itself too
    damaged_alike("if(eq(n\\,59)+eq(n\\,75)\\,1\\,0)", 2); // and one in the middle
}

// One picture whose time is more than a second too early: later ones keep theirs. If later times continue from it, all
// are shifted.
TEST(times_that_step_back)
{
    static const struct {
        const char *name, *early;
    } files[] = {{"late1.mkv", "eq(N\\,120)"}, {"later.mkv", "gte(N\\,120)"}};
    CHECK(make("plain1.mkv", FRAMES, "", "-c:v mjpeg -q:v 2 -pix_fmt yuvj420p"));
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(files); i++) {
        CHECK(shell("ffmpeg -v quiet -y -i %s -c copy -bsf:v \"setts=pts=N*40-1510*%s:dts=N*40-4000\" %s", path("plain1.mkv"), files[i].early,
                    path(files[i].name)));
        compare(files[i].name, (struct tachy_source_params){0}, true);
        CHECK_INT(one.n, FRAMES);
        CHECK_INT(one.frames[FRAMES - 1].pts, 40 * (FRAMES - 1));
        CHECK_INT(one.frames[121].pts, 40 * 121);
    }
}

// A file that is cut off between packets loses nothing that one decoder gives.
TEST(lost_end)
{
    CHECK(shell("ffmpeg -v error -y -i %s -c copy -frames:v 137 %s", path("open.mkv"), path("part.mkv")));
    compare("part.mkv", (struct tachy_source_params){0}, true);
    CHECK(shell("ffmpeg -v error -y -i %s -c copy -frames:v 51 %s", path("open.mkv"), path("few.mkv")));
    compare("few.mkv", (struct tachy_source_params){0}, true);
}

// Sound, subtitles: the same packets, whoever decodes the pictures.
TEST(side_packets)
{
    CHECK(make("side.mkv", FRAMES, "-f lavfi -i sine=d=8",
               "-map 0 -map 1 -c:v libx264 -preset veryfast -g 30 -x264-params open-gop=1 -c:a aac"));
    for (int cut = 0; cut < 3; cut++) {
        int64_t count[2] = {0}, sum[2] = {0};
        for (int many_decoders = 0; many_decoders < 2; many_decoders++) {
            tachy_source *s = NULL;
            struct tachy_source_params p = {.want_side = true, .decoders = 1 + many_decoders};
            if (cut == 1)
                p.start = 1.3, p.duration = 4;
            if (cut == 2)
                p.max_frames = 60;
            CHECK_INT(open_with(&s, "side.mkv", p), TACHY_OK);
            tachy_side *side = tachy_side_ref(tachy_source_side(s));
            tachy_frame *f = NULL;
            while (!tachy_source_read(s, &f))
                tachy_frame_unref(&f);
            tachy_source_close(&s);
            AVPacket *packet = av_packet_alloc();
            while (!tachy_side_take(side, INFINITY, packet)) {
                count[many_decoders]++;
                sum[many_decoders] += packet->pts * 31 + packet->size;
                av_packet_unref(packet);
            }
            av_packet_free(&packet);
            tachy_side_unref(&side);
        }
        CHECK(count[0] > 80);
        CHECK_INT(count[1], count[0]);
        CHECK_INT(sum[1], sum[0]);
    }
}

// A reader that leaves in the middle ends the threads.
TEST(closing_early)
{
    for (int n = 0; n < 60; n += 7) {
        tachy_source *s = NULL;
        CHECK_INT(open_with(&s, "open.mkv", (struct tachy_source_params){.decoders = 3}), TACHY_OK);
        tachy_frame *f = NULL, *kept = NULL;
        for (int i = 0; i < n; i++) {
            CHECK_INT(tachy_source_read(s, &f), TACHY_OK);
            tachy_frame_unref(&kept);
            kept = f;
        }
        tachy_source_close(&s);
        if (kept) // outlives its source
            CHECK_INT(describe(kept).number, n - 1);
        tachy_frame_unref(&kept);
    }
    tachy_source *s = NULL;
    CHECK_INT(open_with(&s, "open.mkv", (struct tachy_source_params){0}), TACHY_OK);
    CHECK_INT(tachy_source_spread(s, 3, 100), 3);
    tachy_source_close(&s);
}

static bool divides_when_read(const char *file, int64_t frames)
{
    tachy_source *s = NULL;
    CHECK_INT(open_with(&s, file, (struct tachy_source_params){.decoders = 1}), TACHY_OK);
    tachy_frame *f = NULL;
    int64_t n = 0;
    for (; !tachy_source_read(s, &f); n++)
        tachy_frame_unref(&f);
    CHECK_INT(n, frames);
    bool divides = s->ops->divides(s);
    tachy_source_close(&s);
    return divides;
}

// The statistics of one decoder tell whether more would have helped.
TEST(more_decoders_need_keyframes)
{
    CHECK(make("onekey.mp4", 60, "", "-c:v libx264 -preset ultrafast -g 250 -sc_threshold 0"));
    CHECK(make("twokeys.mp4", 60, "", "-c:v libx264 -preset ultrafast -g 30 -sc_threshold 0"));
    CHECK(make("brief.mp4", 40, "", "-c:v libx264 -preset ultrafast -g 30 -sc_threshold 0"));
    CHECK(!divides_when_read("onekey.mp4", 60));
    CHECK(divides_when_read("twokeys.mp4", 60));
    CHECK(!divides_when_read("brief.mp4", 40));
    CHECK(!divides_when_read("raw.h264", FRAMES));
}

// A thread that returns takes the decoder that is furthest behind once its own has to wait; a single thread never
// leaves its own before its end.
TEST(one_thread_reads_in_order)
{
    tachy_source *s = NULL;
    CHECK_INT(open_with(&s, "closed.mp4", (struct tachy_source_params){0}), TACHY_OK);
    CHECK_INT(tachy_source_spread(s, 2, 10), 2);
    int64_t seq, n = 0;
    bool breaks;
    tachy_frame *f = NULL;
    for (; !tachy_source_read_any(s, &f, &seq, &breaks, NULL); n++) {
        CHECK_INT(seq, n);
        tachy_frame_unref(&f);
    }
    CHECK_INT(n, FRAMES);
    tachy_source_close(&s);
}

#ifdef TACHY_LANES_GO_ON
static atomic_int flushes;

void avcodec_flush_buffers(AVCodecContext *c)
{
    void (*flush)(AVCodecContext *);
    *(void **)&flush = dlsym(RTLD_NEXT, "avcodec_flush_buffers");
    atomic_fetch_add(&flushes, 1);
    flush(c);
}

// A flush costs a session on a GPU. A decoder that comes to its segment's end while the next one begins beyond the window goes on with it.
TEST(no_flush_before_the_end)
{
    read_in_order(&whole, "closed.mp4", (struct tachy_source_params){0});
    for (int decoders = 2; decoders <= 4; decoders++) {
        atomic_store(&flushes, 0);
        CHECK_INT(read_by_position(&many, "closed.mp4", (struct tachy_source_params){0}, decoders, 5), decoders);
        check_same(&whole, &many);
        CHECK(atomic_load(&flushes) <= decoders);
    }
}
#endif

static void clean_up(void)
{
    if (dir[0])
        shell("rm -rf %s", dir);
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

TEST_MAIN(TEST_CASE(set_up), TEST_CASE(all_codecs), TEST_CASE(av1), TEST_CASE(ranges),
          TEST_CASE(counted_frames_in_order), TEST_CASE(variable_rate), TEST_CASE(edit_lists),
          TEST_CASE(size_change_in_the_middle), TEST_CASE(damage), TEST_CASE(lost_packets),
          TEST_CASE(times_of_decoding), TEST_CASE(damage_at_a_segments_end), TEST_CASE(lost_end),
          TEST_CASE(times_that_step_back),
          TEST_CASE(side_packets), TEST_CASE(closing_early), TEST_CASE(more_decoders_need_keyframes),
#ifdef TACHY_LANES_GO_ON
          TEST_CASE(no_flush_before_the_end),
#endif
          TEST_CASE(one_thread_reads_in_order))
