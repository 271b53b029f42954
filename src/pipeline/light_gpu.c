#include "pipeline/light_priv.h"

#include "base/clock.h"
#include "base/side_by_side.h"
#include "cuda/saturate.h"
#include "sink/sink_ops.h"
#include "source/source_ops.h"

#include <stdlib.h>

// The GPU's part of the light time: its decoders with as many sessions of the file as give the most, its
// multiprocessors with as many streams as give the most.

static const int tries[] = {1, 2, 4, 8, 14, 20, 28, 0};
enum { MOST_SESSIONS = 28 };
static const double lead_in_s = 0.15, longest_s = 10;

void light_gpu_find(struct light_bench *b, const struct light_lane *lanes, struct tachy_light *l)
{
    tachy_task *t = b->p->task;
    b->gpu.task = (struct light_gpu_task){0};
    for (int i = 0; i < t->nb_stages; i++) {
        struct tachy_stage *st = t->stage[i];
        struct tachy_stage_load load = {0};
        if (!st->ops->load || !st->ops->load(st, tachy_stage_worker(st, lanes[0].worker), &lanes[0].items[0], &load))
            continue;
        b->gpu.task.device = load.device;
        b->gpu.task.steps |= load.computes ? (uint64_t)1 << st->step : 0;
        b->gpu.task.writes |= load.computes && st->flags & TACHY_STAGE_WRITES;
        b->gpu.task.to_host += load.to_host;
        b->gpu.task.to_device += load.to_device;
    }
    for (int s = 0; s < TACHY_MAX_STEPS; s++)
        l->of[s] = b->gpu.task.steps & ((uint64_t)1 << s) ? TACHY_RESOURCE_SMS : TACHY_RESOURCE_CORES;
    if (b->gpu.decodes)
        l->of[TACHY_STEP_DECODE] = TACHY_RESOURCE_NVDEC;
    const tachy_sink *k = b->p->sink;
    const char *codec = k ? k->params.codec : NULL;
    if (k && (k->nvenc || (codec && strstr(codec, "_nvenc"))))
        l->of[b->encode] = TACHY_RESOURCE_NVENC;
}

// ---- Decoders

static void *open_main(void *arg)
{
    struct light_lane *l = arg;
    l->err = l->source ? TACHY_OK : light_open_decode(l);
    return NULL;
}

// Frames that NVDEC had decoded ahead when the others began are not counted, nor are those in progress at the end.
static void *decode_main(void *arg)
{
    struct light_lane *l = arg;
    const struct light_bench *b = l->b;
    uint64_t now = tachy_now_ns();
    l->frames = 0;
    l->err = TACHY_OK;
    while (now < b->until_ns && l->err == TACHY_OK) {
        tachy_frame *f = NULL;
        l->err = tachy_source_read(l->source, &f);
        now = tachy_now_ns();
        l->frames += l->err == TACHY_OK && now >= b->from_ns && now < b->until_ns;
        tachy_frame_unref(&f);
        if (l->err != TACHY_ERR_EOF)
            continue;
        // Starts again from the beginning; keeps the decoder if the input can seek.
        l->err = tachy_source_seek(l->source, 0, INT64_MIN);
        if (l->err == TACHY_OK)
            continue;
        tachy_source_close(&l->source);
        l->err = light_open_decode(l);
    }
    return NULL;
}

// A thread for each of the first n sessions.
static int in_threads(struct light_bench *b, int n, void *(*main)(void *))
{
    int err = light_in_threads(b->gpu.sessions, sizeof(*b->gpu.sessions), n, main);
    for (int i = 0; i < n && err == TACHY_OK; i++)
        err = TACHY_MIN(b->gpu.sessions[i].err, TACHY_OK);
    return err;
}

struct sessions {
    struct light_bench *b;
    double seconds, most; // the highest rate so far
};

// Frames per second of n sessions together; *rate is 0 on entry, and stays 0 if the device has no room for n. On a
// loaded machine a first frame may need longer than the time given.
static int sessions_rate(void *user, int n, double *rate)
{
    const struct sessions *s = user;
    struct light_bench *b = s->b;
    double seconds = s->seconds;
    if (n > b->gpu.nb_sessions && in_threads(b, n, open_main) < 0)
        return TACHY_OK;
    b->gpu.nb_sessions = TACHY_MAX(b->gpu.nb_sessions, n);
    int err = TACHY_OK;
    for (; *rate <= 0 && seconds < longest_s && err == TACHY_OK; seconds *= 4) {
        b->from_ns = tachy_now_ns() + (uint64_t)(lead_in_s * 1e9);
        b->until_ns = b->from_ns + (uint64_t)(seconds * 1e9);
        err = in_threads(b, n, decode_main);
        for (int i = 0; i < n; i++)
            *rate += (double)b->gpu.sessions[i].frames / seconds;
    }
    return err;
}

// As sessions_rate(), repeated once if there is no gain: sessions that have just started may have disturbed each other.
static int sessions_gain(void *user, int n, double *rate)
{
    struct sessions *s = user;
    double again = 0;
    int err = sessions_rate(s, n, rate);
    if (err == TACHY_OK && *rate > 0 && *rate < s->most)
        err = sessions_rate(s, n, &again);
    *rate = TACHY_MAX(*rate, again);
    s->most = TACHY_MAX(s->most, *rate);
    return err;
}

static int measure_decoders(struct light_bench *b, struct tachy_light *l)
{
    int *best = &l->copies[TACHY_STEP_DECODE], before = *best;
    double most;
    if (!b->gpu.sessions && !(b->gpu.sessions = calloc(MOST_SESSIONS, sizeof(*b->gpu.sessions))))
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < MOST_SESSIONS; i++)
        b->gpu.sessions[i].b = b;
    // Long enough for several frames of each session.
    struct sessions s = {b, light_seconds(b) / (before ? 2 : 1), 0};
    int err = tachy_side_by_side(best, &most, MOST_SESSIONS, tries, sessions_gain, &s);
    if (!before) {
        for (int i = *best; i < MOST_SESSIONS; i++)
            tachy_source_close(&b->gpu.sessions[i].source);
        b->gpu.nb_sessions = *best;
    }
    if (err == TACHY_OK)
        light_add_rate(l, TACHY_STEP_DECODE, most);
    return err;
}

// ---- Multiprocessors

struct step_load {
    struct light_bench *b;
    struct light_lane *lanes;
    int step;
    int frames; // at once
};

static int queue(void *user, int lane)
{
    struct step_load *x = user;
    struct light_lane *l = &x->lanes[lane];
    struct tachy_item *items[LIGHT_FRAMES];
    for (int i = 0; i < x->frames; i++)
        items[i] = &l->items[l->next + i];
    l->next = (l->next + x->frames) % x->b->nb_frames;
    const tachy_task *t = x->b->p->task;
    int err = TACHY_OK;
    for (int i = 0; i < t->nb_stages && err == TACHY_OK; i++) {
        struct tachy_stage *st = t->stage[i];
        if (st->ops->queue && st->step == x->step)
            err = st->ops->queue(st, tachy_stage_worker(st, l->worker), items, x->frames);
    }
    return err;
}

// The stream that a lane's worker queues a step on; a task's stages share it.
static cuda_stream stream_of(const struct light_lane *l, int step)
{
    const tachy_task *t = l->b->p->task;
    struct tachy_stage_load load = {0};
    for (int i = 0; i < t->nb_stages; i++) {
        struct tachy_stage *st = t->stage[i];
        if (st->ops->load && st->step == step)
            st->ops->load(st, tachy_stage_worker(st, l->worker), &l->items[0], &load);
    }
    return load.stream;
}

static int measure_step(struct light_bench *b, struct light_lane *lanes, int n, int step,
                        struct tachy_light *l)
{
    struct step_load x = {b, lanes, step, TACHY_MIN(b->group, b->nb_frames)};
    cuda_stream streams[LIGHT_STREAMS];
    double fps;
    struct tachy_gpu_load load = {.queue = queue, .user = &x, .frames = x.frames, .streams = streams,
                                  .lanes = TACHY_MIN(n, LIGHT_STREAMS)};
    for (int i = 0; i < load.lanes; i++)
        streams[i] = stream_of(&lanes[i], step);
    int err = tachy_gpu_saturate(&fps, &l->copies[step], b->gpu.task.device, &load, b->p->log);
    if (err == TACHY_OK)
        light_add_rate(l, step, fps);
    return err;
}

int light_gpu_measure(struct light_bench *b, struct light_lane *lanes, int n, int step,
                      struct tachy_light *l)
{
    return l->of[step] == TACHY_RESOURCE_NVDEC ? measure_decoders(b, l) : measure_step(b, lanes, n, step, l);
}

void light_gpu_close(struct light_bench *b)
{
    for (int i = 0; b->gpu.sessions && i < MOST_SESSIONS; i++)
        tachy_source_close(&b->gpu.sessions[i].source);
    free(b->gpu.sessions);
}
