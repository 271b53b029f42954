#include "cuda/saturate.h"

#include "base/base.h"
#include "base/side_by_side.h"

enum {
    CALLS = 24,       // of a lane, timed
    FILLS = 64,       // that hold the lanes back, at first
    MOST_FILLS = 1024,
    MOST_TRIES = 12, // of a round
    MAX_LANES = 32,
};
static const size_t fill_bytes = (size_t)64 << 20;

struct bench {
    const struct tachy_cu *cu;
    const struct tachy_log *log;
    const struct tachy_gpu_load *load;
    cuda_stream gate_stream;
    cuda_event gate, end[MAX_LANES];
    int fills;           // that hold the lanes back
    cuda_address memory; // that is filled while the work is being queued
};

static int check(const struct bench *b, int status)
{
    return tachy_cu_check(b->cu, status, b->log, "the GPU's work cannot be timed");
}

static int bench_open(struct bench *b)
{
    int err = check(b, b->cu->stream_create(&b->gate_stream, CUDA_STREAM_OWN_ORDER));
    if (err == TACHY_OK)
        err = check(b, b->cu->event_create(&b->gate, CUDA_EVENT_TIMED));
    for (int i = 0; i < b->load->lanes && err == TACHY_OK; i++)
        err = check(b, b->cu->event_create(&b->end[i], CUDA_EVENT_TIMED));
    return err < 0 ? err : check(b, b->cu->memory_alloc(&b->memory, fill_bytes));
}

static void bench_close(struct bench *b)
{
    if (b->memory)
        b->cu->memory_free(b->memory);
    for (int i = 0; i < b->load->lanes; i++)
        if (b->end[i])
            b->cu->event_destroy(b->end[i]);
    if (b->gate)
        b->cu->event_destroy(b->gate);
    if (b->gate_stream)
        b->cu->stream_destroy(b->gate_stream);
}

// Queues the calls of the first n lanes after the gate, in turn.
static int queue_all(struct bench *b, int n, int fills)
{
    int err = TACHY_OK;
    for (int i = 0; i < fills && err == TACHY_OK; i++)
        err = check(b, b->cu->fill_async(b->memory, 0, fill_bytes, b->gate_stream));
    if (err == TACHY_OK)
        err = check(b, b->cu->event_record(b->gate, b->gate_stream));
    for (int i = 0; i < n && err == TACHY_OK; i++)
        err = check(b, b->cu->stream_wait_event(b->load->streams[i], b->gate, 0));
    for (int c = 0; c < CALLS && err == TACHY_OK; c++)
        for (int i = 0; i < n && err == TACHY_OK; i++)
            err = b->load->queue(b->load->user, i);
    for (int i = 0; i < n && err == TACHY_OK; i++)
        err = check(b, b->cu->event_record(b->end[i], b->load->streams[i]));
    return err;
}

// One try. *late: the gate had opened before all was queued, so that the host's time is in it.
static int one_try(struct bench *b, int n, int fills, double *fps, bool *late)
{
    float longest = 0;
    int err = queue_all(b, n, fills);
    *late = err == TACHY_OK && b->cu->event_query(b->gate) == CUDA_OK;
    for (int i = 0; i < n && err == TACHY_OK; i++) {
        float ms = 0;
        err = check(b, b->cu->event_wait(b->end[i]));
        if (err == TACHY_OK)
            err = check(b, b->cu->event_elapsed(&ms, b->gate, b->end[i]));
        longest = TACHY_MAX(longest, ms);
    }
    double frames = (double)n * CALLS * TACHY_DEF(b->load->frames, 1);
    *fps = longest > 0 ? frames / ((double)longest * 1e-3) : 0;
    return err;
}

// Frames a second of n lanes. The better of two, each with the gate held until everything is queued. A host that is held up is late again and
// again; it makes a rate lower, never higher.
static int rate_of(void *user, int n, double *fps)
{
    struct bench *b = user;
    int err = TACHY_OK;
    for (int round = 0; round < 2 && err == TACHY_OK; round++) {
        double rate;
        bool late = true;
        for (int i = 0; i < MOST_TRIES && late && err == TACHY_OK; i++) {
            err = one_try(b, n, b->fills, &rate, &late);
            *fps = TACHY_MAX(*fps, rate);
            if (late && b->fills < MOST_FILLS)
                b->fills *= 2;
        }
    }
    return err;
}

int tachy_gpu_saturate(double *fps, int *best, struct tachy_device *d, const struct tachy_gpu_load *load,
                       const struct tachy_log *log)
{
    struct bench b = {.cu = d->cu, .log = log, .load = load, .fills = FILLS};
    *fps = 0;
    if (!TACHY_CHECK(log, load->lanes >= 1 && load->lanes <= MAX_LANES && *best <= load->lanes))
        return TACHY_ERR_INVAL;
    int err = tachy_device_enter(d, log);
    if (err < 0)
        return err;
    err = bench_open(&b);
    if (err == TACHY_OK)
        err = tachy_side_by_side(best, fps, load->lanes, NULL, rate_of, &b);
    bench_close(&b);
    tachy_device_leave(d);
    return err;
}
