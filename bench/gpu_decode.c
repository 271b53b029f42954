#include "base/base.h"
#include "base/clock.h"
#include "base/thread.h"
#include "media/device.h"
#include "source/source_ops.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

// gpu_decode FILE [--sessions 1,4,8,14] [--seconds S] [--gpu N] [--window N] [--cpu] [--json]: frames per second of one
// file with that many parallel decoders. A separate thread takes each decoder's frames and returns them at once. NVDEC,
// or with --cpu FFmpeg's decoders with one thread each. A run ends with the file, or S seconds after every decoder has
// given a frame. `fps` counts from the first frame after the one that opening the file decodes, `steady_fps` from when
// every decoder has given one: opening a session of NVDEC takes 0.1 s or more.

enum { SESSIONS_MAX = 64, RUNS_MAX = 16 };

struct measured {
    int sessions, asked;
    int64_t frames, steady_frames;
    double seconds, steady_seconds, open_seconds, cpu_us; // CPU time of the process per frame, including decoders
    int width, height;
    const char *codec;
};

struct reading {
    tachy_source *source;
    uint64_t seconds_ns;
    _Atomic uint64_t steady_ns, until_ns; // UINT64_MAX until each thread, so each decoder, has given a frame
    _Atomic int64_t frames, steady_frames;
    atomic_int err, began;
    int sessions;
    bool cpu;
};

static void count(struct reading *r, bool first)
{
    uint64_t now = tachy_now_ns();
    atomic_fetch_add(&r->frames, 1);
    if (now >= atomic_load(&r->steady_ns))
        atomic_fetch_add(&r->steady_frames, 1);
    if (first && atomic_fetch_add(&r->began, 1) + 1 == r->sessions) {
        atomic_store(&r->steady_ns, now);
        atomic_store(&r->until_ns, now + r->seconds_ns);
    }
}

static void *read_main(void *arg)
{
    struct reading *r = arg;
    tachy_frame *f;
    int64_t seq;
    bool breaks, first = true;
    int err = TACHY_OK;
    tachy_thread_name("tachy-reader"); // as in a run, because bench/gpu matches threads by name
    while (tachy_now_ns() < atomic_load(&r->until_ns) && !(err = tachy_source_read_any(r->source, &f, &seq, &breaks, NULL))) {
        if (f && f->mem != (r->cpu ? TACHY_HOST : TACHY_DEVICE))
            err = TACHY_ERR_STATE;
        if (f) {
            count(r, first);
            first = false;
        }
        tachy_frame_unref(&f);
        if (err)
            break;
    }
    if (err && err != TACHY_ERR_EOF)
        atomic_store(&r->err, err);
    return NULL;
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static int measure(struct measured *m, const struct tachy_source_params *p, double seconds, int64_t window)
{
    struct reading r = {.cpu = p->decode == TACHY_DECODE_CPU, .seconds_ns = (uint64_t)(seconds * 1e9),
                        .steady_ns = UINT64_MAX, .until_ns = UINT64_MAX};
    pthread_t threads[SESSIONS_MAX];
    uint64_t start = tachy_now_ns();
    int err = tachy_source_open(&r.source, p);
    if (err < 0)
        return err;
    m->width = tachy_source_info(r.source)->width;
    m->height = tachy_source_info(r.source)->height;
    m->sessions = r.sessions = tachy_source_spread(r.source, m->asked, window);
    uint64_t from = tachy_now_ns();
    double cpu = cpu_seconds();
    m->open_seconds = (double)(from - start) * 1e-9;
    int n = 0;
    while (n < m->sessions && !pthread_create(&threads[n], NULL, read_main, &r))
        n++;
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    uint64_t end = tachy_now_ns(), steady = atomic_load(&r.steady_ns);
    m->seconds = (double)(end - from) * 1e-9;
    m->frames = atomic_load(&r.frames);
    m->steady_frames = atomic_load(&r.steady_frames);
    m->steady_seconds = steady < end ? (double)(end - steady) * 1e-9 : 0;
    m->cpu_us = m->frames ? (cpu_seconds() - cpu) / (double)m->frames * 1e6 : 0;
    tachy_source_close(&r.source);
    return atomic_load(&r.err);
}

static void on_message(void *user, enum tachy_log_level level, const char *msg)
{
    fprintf(stderr, "%s\n", msg);
}

static int read_list(int list[RUNS_MAX], const char *text)
{
    int n = 0;
    for (char *end; *text && n < RUNS_MAX; text = *end ? end + 1 : end) {
        long v = strtol(text, &end, 10);
        if (end == text || v < 1 || v > SESSIONS_MAX)
            return 0;
        list[n++] = (int)v;
    }
    return n;
}

// 0: the file ended before every decoder had begun.
static double steady_fps(const struct measured *m)
{
    return m->steady_seconds > 0 ? (double)m->steady_frames / m->steady_seconds : 0;
}

static json_t *json_of(const struct measured *m, double first)
{
    double fps = (double)m->frames / m->seconds;
    return json_pack("{s:i, s:i, s:I, s:f, s:f, s:f, s:I, s:f, s:f, s:f, s:f}", "asked", m->asked, "sessions",
                     m->sessions, "frames", (json_int_t)m->frames, "seconds", m->seconds, "fps", fps, "times_one",
                     fps / first, "steady_frames", (json_int_t)m->steady_frames, "steady_seconds", m->steady_seconds,
                     "steady_fps", steady_fps(m), "open_seconds", m->open_seconds, "cpu_us_per_frame", m->cpu_us);
}

static int usage(void)
{
    fputs("usage: gpu_decode FILE [--sessions 1,4,8,14] [--seconds S] [--gpu N] [--window N] [--cpu] "
          "[--json]\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    static const struct tachy_log log = {.fn = on_message, .max_level = TACHY_LOG_WARN};
    struct tachy_source_params p = {.decode = TACHY_DECODE_NVDEC, .on_gpu = true, .log = &log};
    int list[RUNS_MAX] = {1, 4, 8, 14}, n = 4;
    double seconds = 1e6, first = 0;
    int64_t window = 1 << 20;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(a, "--json"))
            json = true;
        else if (!strcmp(a, "--cpu"))
            p = (struct tachy_source_params){.url = p.url, .decode = TACHY_DECODE_CPU, .threads = 1, .log = &log};
        else if (*a != '-' && !p.url)
            p.url = a;
        else if (!v)
            return usage();
        else if (!strcmp(a, "--sessions") && (n = read_list(list, v)))
            i++;
        else if (!strcmp(a, "--seconds") && (seconds = strtod(v, NULL)) > 0)
            i++;
        else if (!strcmp(a, "--gpu"))
            p.gpu = atoi(argv[++i]);
        else if (!strcmp(a, "--window") && (window = atoll(v)) > 1)
            i++;
        else
            return usage();
    }
    if (!p.url)
        return usage();
    json_t *runs = json_array();
    struct measured m = {0};
    for (int i = 0; i < n; i++) {
        m = (struct measured){.asked = list[i]};
        if (measure(&m, &p, seconds, window) < 0)
            return 1;
        if (!i)
            first = (double)m.frames / m.seconds;
        json_array_append_new(runs, json_of(&m, first));
        if (!json)
            printf("%2d sessions %8lld frames %8.1f frames/s %5.2fx, steady %8.1f, open %.3f s, CPU %.0f us a frame\n",
                   m.sessions, (long long)m.frames, (double)m.frames / m.seconds, (double)m.frames / m.seconds / first,
                   steady_fps(&m), m.open_seconds, m.cpu_us);
    }
    json_t *o = json_pack("{s:s, s:s, s:i, s:i, s:o}", "file", p.url, "decoder",
                          p.decode == TACHY_DECODE_CPU ? "cpu" : "nvdec", "width", m.width, "height",
                          m.height, "runs", runs);
    if (json)
        json_dumpf(o, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    if (json)
        putchar('\n');
    json_decref(o);
    return 0;
}
