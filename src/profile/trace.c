#include "profile/profile_priv.h"

#include <inttypes.h>
#include <stdlib.h>

// Trace Event JSON ("Trace Event Format", the format of chrome://tracing, which Perfetto reads):
// times in microseconds since the profile was opened.

enum event_kind { EVENT_SPAN, EVENT_OP, EVENT_SAMPLE, EVENT_GPU, EVENT_GPU_SAMPLE };

struct event {
    uint64_t start, end; // ns, CLOCK_MONOTONIC
    enum event_kind kind;
    uint32_t lane;
    char flow; // of a span: 's', 't', 'f'; 0: none
    union {
        struct tachy_span span; // its times are ticks
        struct tachy_sample sample;
        uint32_t op;
        uint32_t record; // in `activity`, or `samples` of the GPU `lane`
    };
};

// Upper bounds of what one event takes in the file.
enum {
    BYTES_SPAN = 380,
    BYTES_OP = 160,
    BYTES_SAMPLE = 460,
    BYTES_GPU = 420,
    BYTES_GPU_SAMPLE = 1100,
    BYTES_FRAME = 64 << 10
};

struct trace {
    struct tachy_profile *p;
    struct tachy_tick_anchor now;
    struct event *event;
    size_t n, room;
    uint64_t dropped;
    int err;
    struct gpu_activity *activity; // what CUPTI recorded
    size_t nb_activity;
    struct gpu_sample *samples[TACHY_MAX_GPUS]; // what NVML says, as the sampler lists GPUs
};

static struct event *add(struct trace *t)
{
    if (t->n == t->room) {
        size_t room = t->room ? t->room * 2 : 4096;
        struct event *more = realloc(t->event, room * sizeof(*more));
        if (!more) {
            t->err = TACHY_ERR_NOMEM;
            return NULL;
        }
        t->event = more;
        t->room = room;
    }
    struct event *e = &t->event[t->n++];
    memset(e, 0, sizeof(*e));
    return e;
}

static uint64_t on_clock(const struct trace *t, uint64_t ticks)
{
    return tachy_ticks_at(ticks, &t->p->start, &t->now);
}

static uint64_t (*read_ring(struct trace *t, const struct tachy_ring *r, uint64_t *n,
                            uint64_t *dropped))[TACHY_RING_WORDS]
{
    uint64_t(*records)[TACHY_RING_WORDS] = tachy_ring_records(r, n, dropped);
    if (!records)
        t->err = TACHY_ERR_NOMEM;
    return records;
}

static void add_spans(struct trace *t, uint32_t lane)
{
    uint64_t n, dropped = 0;
    uint64_t(*records)[TACHY_RING_WORDS] = read_ring(t, t->p->lane[lane]->spans, &n, &dropped);
    t->dropped += dropped;
    for (uint64_t i = 0; i < n && !t->err; i++) {
        struct event *e = add(t);
        if (!e)
            break;
        e->kind = EVENT_SPAN;
        e->lane = lane;
        e->span = tachy_span_of(records[i]);
        e->start = on_clock(t, e->span.start);
        e->end = TACHY_MAX(on_clock(t, e->span.end), e->start + 1);
    }
    free(records);
}

static void add_samples(struct trace *t, uint32_t lane)
{
    const struct tachy_ring *ring = t->p->lane[lane]->samples;
    uint64_t n = 0, dropped;
    uint64_t(*records)[TACHY_RING_WORDS] = ring ? read_ring(t, ring, &n, &dropped) : NULL;
    for (uint64_t i = 0; i < n && !t->err; i++) {
        struct event *e = add(t);
        if (!e)
            break;
        e->kind = EVENT_SAMPLE;
        e->lane = lane;
        e->sample = tachy_sample_of(records[i]);
        e->start = e->end = on_clock(t, e->sample.time);
    }
    free(records);
}

static void add_gpu_samples(struct trace *t, int i)
{
    size_t n;
    t->samples[i] = gpu_sampler_samples(t->p->gpu.sampler, i, &n);
    if (!t->samples[i])
        t->err = TACHY_ERR_NOMEM;
    for (size_t k = 0; k < n && !t->err; k++) {
        uint64_t ns = t->samples[i][k].ns;
        struct event *e = add(t);
        if (e)
            *e = (struct event){ns, ns, EVENT_GPU_SAMPLE, (uint32_t)i, .record = (uint32_t)k};
    }
}

static void add_gpu(struct trace *t)
{
    const struct profile_gpu *g = &t->p->gpu;
    if (g->collector) {
        gpu_collector_flush(g->collector);
        t->activity = gpu_collector_records(g->collector, &t->nb_activity);
        if (!t->activity)
            t->err = TACHY_ERR_NOMEM;
    }
    for (size_t i = 0; i < t->nb_activity && !t->err; i++) {
        const struct gpu_activity *a = &t->activity[i];
        struct event *e = add(t);
        if (e)
            *e = (struct event){a->start, a->end, EVENT_GPU, a->device, .record = (uint32_t)i};
    }
    for (int i = 0; i < gpu_sampler_count(g->sampler) && !t->err; i++)
        add_gpu_samples(t, i);
}

// Operators lie within the model step that ran them: ONNX Runtime's times are whole
// microseconds on another clock, so their ends are cut to fit. Those of a step that is no longer
// kept are left out.
static void add_operators(struct trace *t)
{
    size_t n, spans = t->n, at = 0;
    struct profile_op *run = profile_ops_runs(&t->p->ops, &n); // by lane and time, as spans are
    uint64_t last_end = 0;
    if (!run)
        t->err = TACHY_ERR_NOMEM;
    for (size_t i = 0; i < n && !t->err; i++) {
        uint64_t middle = run[i].start_ns + (run[i].end_ns - run[i].start_ns) / 2;
        if (i && run[i].lane != run[i - 1].lane)
            last_end = 0;
        for (; at < spans; at++) {
            const struct event *s = &t->event[at];
            if (s->lane > run[i].lane ||
                (s->lane == run[i].lane && s->end > middle &&
                 tachy_rows_has(&t->p->steps, (int)s->span.step, TACHY_STEP_MODEL)))
                break;
        }
        if (at == spans || t->event[at].lane != run[i].lane || t->event[at].start > middle)
            continue;
        uint64_t start = TACHY_MAX(TACHY_MAX(run[i].start_ns, t->event[at].start), last_end);
        uint64_t end = TACHY_MIN(run[i].end_ns, t->event[at].end);
        struct event *e = end > start ? add(t) : NULL;
        if (!e)
            continue;
        *e = (struct event){start, end, EVENT_OP, run[i].lane, 0, .op = run[i].name};
        last_end = end;
    }
    free(run);
}

static int by_start(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (int)x->kind - (int)y->kind; // the step before its operators
}

static int by_frame(const void *a, const void *b)
{
    const struct event *x = *(struct event *const *)a, *y = *(struct event *const *)b;
    if (x->span.stream != y->span.stream)
        return x->span.stream < y->span.stream ? -1 : 1;
    if (x->span.frame != y->span.frame)
        return x->span.frame < y->span.frame ? -1 : 1;
    return by_start(x, y);
}

// Keeps the newest events that fit the file.
static void cut_to_size(struct trace *t)
{
    static const uint32_t bytes[] = {BYTES_SPAN, BYTES_OP, BYTES_SAMPLE, BYTES_GPU,
                                     BYTES_GPU_SAMPLE};
    int64_t left = t->p->params.max_trace_bytes - BYTES_FRAME - (int64_t)t->p->nb_lanes * 256;
    size_t begin = t->n;
    while (begin > 0 && left >= bytes[t->event[begin - 1].kind])
        left -= bytes[t->event[--begin].kind];
    for (size_t i = 0; i < begin; i++)
        t->dropped += t->event[i].kind == EVENT_SPAN;
    if (begin) // without events there is no array either
        memmove(t->event, t->event + begin, (t->n - begin) * sizeof(*t->event));
    t->n -= begin;
}

// Marks where a frame passes from thread to thread or out of a queue.
static void mark_flows(struct trace *t)
{
    struct event **list = calloc(t->n + 1, sizeof(struct event *));
    size_t n = 0;
    for (size_t i = 0; list && i < t->n; i++)
        if (t->event[i].kind == EVENT_SPAN && t->event[i].span.frame >= 0)
            list[n++] = &t->event[i];
    if (!list) {
        t->err = TACHY_ERR_NOMEM;
        return;
    }
    qsort(list, n, sizeof(struct event *), by_frame);
    for (size_t i = 0; i < n; i++) {
        const struct tachy_span *s = &list[i]->span;
        bool before =
            i > 0 && list[i - 1]->span.frame == s->frame && list[i - 1]->span.stream == s->stream;
        bool after = i + 1 < n && list[i + 1]->span.frame == s->frame &&
                     list[i + 1]->span.stream == s->stream;
        bool moved = before && (list[i - 1]->lane != list[i]->lane || s->wait);
        list[i]->flow = !before && after ? 's' : before && !after ? 'f' : moved ? 't' : 0;
    }
    free(list);
}

static int gather(struct trace *t)
{
    struct tachy_profile *p = t->p;
    profile_ops_collect(p);
    t->now = tachy_ticks_anchor();
    for (int i = 0; i < p->nb_lanes && !t->err; i++)
        add_spans(t, (uint32_t)i);
    if (!t->err)
        add_operators(t); // before anything else: it walks along the spans
    for (int i = 0; i < p->nb_lanes && !t->err; i++)
        add_samples(t, (uint32_t)i);
    if (!t->err)
        add_gpu(t);
    if (t->n)
        qsort(t->event, t->n, sizeof(*t->event), by_start);
    return t->err;
}

static double us(const struct trace *t, uint64_t ns)
{
    return (double)(int64_t)(ns - t->p->start.ns) * 1e-3;
}

static void put_span(FILE *f, const struct trace *t, const struct event *e)
{
    const struct tachy_span *s = &e->span;
    const char *name = t->p->steps.row[s->step].name;
    fprintf(f,
            "{\"ph\":\"X\",\"cat\":\"step\",\"name\":\"%s\",\"pid\":1,\"tid\":%u,\"ts\":%.3f,"
            "\"dur\":%.3f,"
            "\"args\":{\"frame\":%" PRId64 ",\"stream\":%u,\"wait_us\":%.3f}},\n",
            name, e->lane + 1, us(t, e->start), (double)(e->end - e->start) * 1e-3, s->frame,
            s->stream, (double)tachy_ticks_ns(s->wait) * 1e-3);
    if (e->flow)
        fprintf(f,
                "{\"ph\":\"%c\",\"cat\":\"frame\",\"name\":\"frame\",\"id\":\"0x%" PRIx64
                "\",\"pid\":1,\"tid\":%u,\"ts\":%.3f%s},\n",
                e->flow, (uint64_t)s->stream << 40 | (uint64_t)s->frame, e->lane + 1,
                us(t, e->start), e->flow == 's' ? "" : ",\"bp\":\"e\"");
}

static void put_operator(FILE *f, const struct trace *t, const struct event *e)
{
    const struct profile_op_sum *op = &t->p->ops.sum[e->op];
    char name[64];
    snprintf(name, sizeof(name), "%.31s %.31s", op->type, op->name);
    fputs("{\"ph\":\"X\",\"cat\":\"operator\",\"name\":", f);
    profile_put_string(f, name);
    fprintf(f, ",\"pid\":1,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f},\n", e->lane + 1, us(t, e->start),
            (double)(e->end - e->start) * 1e-3);
}

static void put_sample(FILE *f, const struct trace *t, const struct event *e)
{
    const struct tachy_sample *s = &e->sample;
    char stream[32] = "";
    if (s->stream)
        snprintf(stream, sizeof(stream), " of stream %u", s->stream);
    fprintf(
        f,
        "{\"ph\":\"C\",\"name\":\"queue depth%s\",\"pid\":1,\"ts\":%.3f,\"args\":{\"worker\":%u,"
        "\"composite\":%u,\"sink\":%u}},\n",
        stream, us(t, e->start), s->to_infer, s->to_composite, s->to_write);
    fprintf(f,
            "{\"ph\":\"C\",\"name\":\"frames in "
            "flight%s\",\"pid\":1,\"ts\":%.3f,\"args\":{\"frames\":%u}},\n"
            "{\"ph\":\"C\",\"name\":\"memory in "
            "flight%s\",\"pid\":1,\"ts\":%.3f,\"args\":{\"MiB\":%.3f}},\n",
            stream, us(t, e->start), s->in_flight, stream, us(t, e->start),
            (double)s->bytes / (1 << 20));
}

static void put_lanes(FILE *f, const struct trace *t)
{
    char name[32];
    for (int i = 0; i < t->p->nb_lanes; i++) {
        const struct tachy_lane *l = t->p->lane[i];
        if (l->kind == TACHY_LANE_SAMPLES)
            continue;
        fprintf(f,
                "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":%d,\"args\":{\"name\":\"%"
                "s\"}},\n"
                "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":1,\"tid\":%d,\"args\":{"
                "\"sort_index\":%d}},\n",
                i + 1, profile_lane_name(l, name), i + 1,
                (int)l->kind * PROFILE_MAX_LANES + l->index);
    }
}

static void put_event(FILE *f, const struct trace *t, const struct event *e)
{
    switch (e->kind) {
    case EVENT_SPAN:
        put_span(f, t, e);
        break;
    case EVENT_OP:
        put_operator(f, t, e);
        break;
    case EVENT_SAMPLE:
        put_sample(f, t, e);
        break;
    case EVENT_GPU:
        profile_gpu_put_activity(f, t->p->gpu.collector, &t->activity[e->record], us(t, e->start));
        break;
    case EVENT_GPU_SAMPLE:
        profile_gpu_put_sample(f, gpu_sampler_gpu(t->p->gpu.sampler, (int)e->lane), &t->samples[e->lane][e->record], us(t, e->start));
        break;
    }
}

static void put_trace(FILE *f, const struct trace *t)
{
    json_t *env = profile_environment(t->p);
    char *text = json_dumps(env, JSON_COMPACT);
    json_decref(env);
    double window = t->n ? (double)(t->event[t->n - 1].end - t->event[0].start) * 1e-9 : 0;
    fprintf(f,
            "{\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"dropped_spans\":%" PRIu64
            ",\"window_s\":%.6f,\"clock_start_ns\":%" PRIu64
            ",\"environment\":%s},\n\"traceEvents\":[\n",
            t->dropped, window, t->p->start.ns, text ? text : "{}");
    free(text);
    put_lanes(f, t);
    profile_gpu_put_names(f, t->activity, t->nb_activity);
    for (size_t i = 0; i < t->n; i++)
        put_event(f, t, &t->event[i]);
    fputs("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":\"tachy\"}}\n]}\n",
          f);
}

static void free_trace(struct trace *t)
{
    for (int i = 0; i < TACHY_MAX_GPUS; i++)
        free(t->samples[i]);
    free(t->activity);
    free(t->event);
}

int tachy_profile_write_trace(tachy_profile *p, const char *path)
{
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && path))
        return TACHY_ERR_INVAL;
    struct trace t = {.p = p};
    struct profile_file o;
    pthread_mutex_lock(&p->lock);
    int err = gather(&t);
    if (err == TACHY_OK) {
        cut_to_size(&t);
        mark_flows(&t);
        err = t.err;
    }
    if (err == TACHY_OK)
        err = profile_file_open(&o, path, p->log);
    if (err == TACHY_OK) {
        put_trace(o.f, &t);
        err = profile_file_close(&o, TACHY_OK);
    }
    pthread_mutex_unlock(&p->lock);
    if (err == TACHY_OK && t.dropped)
        tachy_msg(p->log, TACHY_LOG_INFO,
                  "%s: holds the newest spans; %" PRIu64 " older ones were dropped", path,
                  t.dropped);
    free_trace(&t);
    return err;
}

int tachy_profile_write_csv(tachy_profile *p, const char *path)
{
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && path))
        return TACHY_ERR_INVAL;
    struct trace t = {.p = p};
    struct profile_file o;
    char name[32];
    pthread_mutex_lock(&p->lock);
    int err = profile_file_open(&o, path, p->log);
    if (err < 0) {
        pthread_mutex_unlock(&p->lock);
        return err;
    }
    t.now = tachy_ticks_anchor();
    for (int i = 0; i < p->nb_lanes && !t.err; i++)
        add_spans(&t, (uint32_t)i);
    if (t.n)
        qsort(t.event, t.n, sizeof(*t.event), by_start);
    fputs("lane,stream,frame,step,start_us,busy_us,wait_us\n", o.f);
    for (size_t i = 0; i < t.n; i++) {
        const struct event *e = &t.event[i];
        fprintf(o.f, "%s,%u,%" PRId64 ",%s,%.3f,%.3f,%.3f\n",
                profile_lane_name(p->lane[e->lane], name), e->span.stream, e->span.frame,
                p->steps.row[e->span.step].name, us(&t, e->start),
                (double)(e->end - e->start) * 1e-3, (double)tachy_ticks_ns(e->span.wait) * 1e-3);
    }
    pthread_mutex_unlock(&p->lock);
    free(t.event);
    err = profile_file_close(&o, t.err);
    if (err == TACHY_OK && t.dropped)
        tachy_msg(p->log, TACHY_LOG_INFO,
                  "%s: holds the newest spans; %" PRIu64 " older ones were dropped", path,
                  t.dropped);
    return err;
}
