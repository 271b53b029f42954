#include "base/clock.h"
#include "media/media.h"
#include "source/counter.h"
#include "source/source_ops.h"

#include <stdio.h>
#include <libavutil/parseutils.h>
#include <stdlib.h>

// Made-up frames, made quickly: a few frames are painted once and used again as soon as nobody
// else holds them; the counter pattern then rewrites 32 blocks only. For measurement and tests.

enum { RING_MAX = 1024, DEFAULT_FRAMES = 250 };

enum pattern { PATTERN_COUNTER, PATTERN_NOISE };

struct priv {
    int width, height;
    enum tachy_pix format;
    struct tachy_rational fps;
    int64_t frames;
    enum pattern pattern;
    uint64_t cost_ns;  // simulated work per frame, on the calling thread
    uint64_t sleep_ns; // and waiting for a device or other threads
    uint64_t io_ns;    // and for a slow disk
    bool pace;         // frames come when they are due, as a camera's
    uint64_t start_ns; // of the first frame, with `pace`
    int64_t first, next, last; // number of the first frame, the next, and one past the last
    tachy_frame **ring;        // every frame made so far; one with no other owner is free
    size_t nb_ring, turn;
    uint32_t seed;
};

static bool null_probe(const char *url) { return !strncmp(url, "null:", 5) || !strcmp(url, "null"); }

static int bad(const tachy_source *s, const char *what)
{
    return tachy_fail(s->params.log, TACHY_ERR_INVAL,
                      "%s: %s; write null:WIDTHxHEIGHT@FPS,frames=N,format=NAME,"
                      "pattern=counter|noise,cost_us=N,sleep_us=N,io_us=N,pace=0|1",
                      s->url, what);
}

static bool parse_number(const char *text, long long max, long long *out)
{
    char *end = NULL;
    *out = strtoll(text, &end, 10);
    return end != text && !*end && *out >= 0 && *out <= max;
}

static int parse_time(tachy_source *s, const char *key, const char *value)
{
    struct priv *p = (void *)s->priv;
    static const char *const keys[] = {"cost_us", "sleep_us", "io_us"};
    uint64_t *const ns[] = {&p->cost_ns, &p->sleep_ns, &p->io_ns};
    long long n = 0;
    for (int i = 0; i < 3; i++) {
        if (strcmp(key, keys[i]))
            continue;
        if (!parse_number(value, 10000000, &n))
            return bad(s, "cost_us, sleep_us or io_us is not a number from 0 to 10000000");
        *ns[i] = (uint64_t)n * 1000;
        return TACHY_OK;
    }
    if (strcmp(key, "pace"))
        return bad(s, "there is an unknown key");
    if (!parse_number(value, 1, &n))
        return bad(s, "pace is neither 0 nor 1");
    p->pace = n;
    return TACHY_OK;
}

static int parse_key(tachy_source *s, const char *key, const char *value)
{
    struct priv *p = (void *)s->priv;
    long long n = 0;
    if (!strcmp(key, "frames")) {
        if (!parse_number(value, UINT32_MAX, &n))
            return bad(s, "frames is not a number from 0 to 4294967295");
        p->frames = n;
    } else if (!strcmp(key, "format")) {
        p->format = tachy_pix_by_name(value);
        if (!p->format)
            return bad(s, "format is not one of the supported pixel formats");
    } else if (!strcmp(key, "pattern")) {
        if (strcmp(value, "counter") && strcmp(value, "noise"))
            return bad(s, "pattern is neither counter nor noise");
        p->pattern = strcmp(value, "noise") ? PATTERN_COUNTER : PATTERN_NOISE;
    } else {
        return parse_time(s, key, value);
    }
    return TACHY_OK;
}

// "1280x720", "1280x720@30" or "1280x720@30000/1001".
static int parse_size(tachy_source *s, const char *text)
{
    struct priv *p = (void *)s->priv;
    int used = 0;
    if (sscanf(text, "%dx%d%n", &p->width, &p->height, &used) != 2)
        return bad(s, "there is no size");
    if (text[used] == '@') {
        AVRational r = {0};
        if (av_parse_ratio(&r, text + used + 1, 1001000, 0, NULL) < 0 || r.num <= 0 || r.den <= 0)
            return bad(s, "the rate after @ is not a positive number or fraction");
        p->fps = (struct tachy_rational){r.num, r.den};
    } else if (text[used]) {
        return bad(s, "the size is not WIDTHxHEIGHT@FPS");
    }
    return TACHY_OK;
}

static int parse(tachy_source *s)
{
    const char *colon = strchr(s->url, ':');
    char *text = strdup(colon ? colon + 1 : ""), *rest = NULL;
    if (!text)
        return TACHY_ERR_NOMEM;
    int err = TACHY_OK;
    for (char *item = strtok_r(text, ",", &rest); item && !err; item = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(item, '=');
        if (value)
            *value++ = '\0';
        err = value ? parse_key(s, item, value) : parse_size(s, item);
    }
    free(text);
    return err;
}

static uint32_t random32(uint32_t *seed) // xorshift: quick, the same in every run
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    return *seed ^= *seed << 5;
}

// A smooth background that differs a little from frame to frame, or noise.
static void paint(struct priv *p, tachy_frame *f)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    for (int i = 0; i < d->planes; i++) {
        uint8_t *plane = tachy_frame_writable(f, i);
        bool chroma = !d->rgb && (i == 1 || i == 2);
        int rows = chroma ? -(-f->height >> d->chroma_shift_y) : f->height;
        int columns = (int)(f->stride[i] / d->bytes);
        for (int y = 0; y < rows; y++)
            for (int x = 0; x < columns; x++) {
                int v = p->pattern == PATTERN_NOISE ? (int)(random32(&p->seed) >> 24)
                        : chroma                    ? 128
                        : i == 3                    ? 255
                                                    : 64 + (x + 2 * y + 5 * (int)p->nb_ring) % 128;
                uint8_t *at = plane + y * f->stride[i] + (ptrdiff_t)x * d->bytes;
                int word = v << (d->bits - 8) << d->shift;
                at[0] = (uint8_t)word;
                if (d->bytes == 2)
                    at[1] = (uint8_t)(word >> 8);
            }
    }
}

static int grow(struct priv *p, tachy_frame **out)
{
    struct tachy_frame_params fp = {.format = p->format, .width = p->width, .height = p->height};
    tachy_frame *f = NULL;
    if (p->nb_ring == RING_MAX) // somebody keeps frames for good
        return TACHY_ERR_LIMIT;
    void *ring = realloc(p->ring, (p->nb_ring + 1) * sizeof(p->ring[0]));
    if (!ring)
        return TACHY_ERR_NOMEM;
    p->ring = ring;
    int err = tachy_frame_new(&f, &fp);
    if (err)
        return err;
    paint(p, f);
    p->ring[p->nb_ring++] = f;
    *out = f;
    return TACHY_OK;
}

static int free_frame(struct priv *p, tachy_frame **out)
{
    for (size_t i = 0; i < p->nb_ring; i++) {
        tachy_frame *f = p->ring[p->turn++ % p->nb_ring];
        if (tachy_frame_writable(f, 0)) {
            *out = f;
            return TACHY_OK;
        }
    }
    return grow(p, out);
}

static double frame_time(const struct priv *p, int64_t n)
{
    return (double)n * p->fps.den / p->fps.num;
}

// start, duration and rate as for a file of constant rate.
static void place(tachy_source *s)
{
    struct priv *p = (void *)s->priv;
    double half_tick = 0.5 * p->fps.den / p->fps.num * 1e-3;
    double fps = (double)p->fps.num / p->fps.den;
    p->first = (int64_t)(s->params.start * fps);
    while (frame_time(p, p->first) < s->params.start - half_tick)
        p->first++;
    p->last = TACHY_MAX(p->frames, p->first);
    double end = s->params.start + s->params.duration;
    if (s->params.duration > 0 && frame_time(p, p->last) > end)
        for (p->last = (int64_t)(end * fps); frame_time(p, p->last) < end - half_tick;)
            p->last++;
    p->next = p->first;
}

static int null_open(tachy_source *s)
{
    struct priv *p = (void *)s->priv;
    *p = (struct priv){.width = 1280, .height = 720, .format = TACHY_PIX_YUV420P, .fps = {30, 1},
                       .frames = DEFAULT_FRAMES, .seed = 2463534242u};
    tachy_av_quiet();
    int err = parse(s);
    if (err)
        return err;
    if (!tachy_frame_bytes(p->format, p->width, p->height))
        return bad(s, "width and height are not from 1 to 65535");
    if (s->params.rate.num)
        p->fps = s->params.rate;
    place(s);
    s->info = (struct tachy_video_info){
        .format = p->format,
        .width = p->width,
        .height = p->height,
        // a thousandth of a frame, or a frame if that does not fit
        .time_base = {p->fps.den, p->fps.num * (p->fps.num > INT32_MAX / 1000 ? 1 : 1000)},
        .fps = p->fps,
        .sar = {1, 1},
        .frames = p->last - p->first,
        .duration = frame_time(p, p->last - p->first),
        .stereo = s->params.stereo ? s->params.stereo : TACHY_STEREO_MONO,
        .codec = "null",
    };
    return TACHY_OK;
}

static void spend(uint64_t ns)
{
    for (uint64_t end = tachy_thread_cpu_ns() + ns; tachy_thread_cpu_ns() < end;)
        continue;
}

static void wait_until(_Atomic uint64_t *sum, uint64_t ns)
{
    uint64_t start = tachy_now_ns();
    tachy_sleep_until(ns);
    *sum += tachy_now_ns() - start;
}

// Spends the simulated cost of a frame.
static void spend_all(tachy_source *s)
{
    struct priv *p = (void *)s->priv;
    if (p->cost_ns)
        spend(p->cost_ns);
    if (p->sleep_ns)
        tachy_sleep_until(tachy_now_ns() + p->sleep_ns);
    if (p->io_ns)
        wait_until(&s->read_ns, tachy_now_ns() + p->io_ns);
    if (!p->pace)
        return;
    if (!p->start_ns)
        p->start_ns = tachy_now_ns();
    wait_until(&s->pace_ns,
               p->start_ns + (uint64_t)(1e9 * frame_time(p, p->next - p->first)));
}

static int null_read(tachy_source *s, tachy_frame **out)
{
    struct priv *p = (void *)s->priv;
    tachy_frame *f = NULL;
    if (p->next >= p->last)
        return TACHY_ERR_EOF;
    int err = free_frame(p, &f);
    if (err)
        return tachy_fail(s->params.log, err, "%s: no frame could be made: %s", s->url,
                          tachy_err_text(err));
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    if (p->pattern == PATTERN_COUNTER)
        tachy_counter_write(tachy_frame_writable(f, 0), f->stride[0], f->width, f->height,
                            d->components[0], d->bytes, d->bits, d->shift, (uint32_t)p->next);
    spend_all(s);
    int64_t ticks = s->info.time_base.den / p->fps.num; // a frame's
    f->pts = (p->next - p->first) * ticks;
    f->duration = ticks;
    f->key = true;
    f->discontinuity = 0;
    p->next++;
    *out = tachy_frame_ref(f);
    return TACHY_OK;
}

static void null_close(tachy_source *s)
{
    struct priv *p = (void *)s->priv;
    for (size_t i = 0; i < p->nb_ring; i++)
        tachy_frame_unref(&p->ring[i]);
    free(p->ring);
}

const struct tachy_source_ops tachy_source_null = {
    .name = "null",
    .priv_size = sizeof(struct priv),
    .probe = null_probe,
    .open = null_open,
    .read = null_read,
    .close = null_close,
};
