#include "base/base.h"
#include "plan/cuda/parts.h"

#include <stdlib.h>

// Times a run with its tensors on the device: many consecutive runs between two events.

struct timing {
    struct cuda_plan *p;
    void *memory; // of all tensors
    const void **at; // inputs, then outputs
    cuda_stream stream;
    cuda_event from, to;
};

static int check(const struct timing *t, int status, const char *what)
{
    return tachy_cu_check(t->p->gpu->device.cu, status, NULL, what);
}

static int open_timing(struct timing *t, const void *const in[])
{
    const struct cuda_plan *p = t->p;
    const struct tachy_cu *cu = p->gpu->device.cu;
    int n = p->nb_in + p->nb_out;
    size_t size = 256;
    for (int i = 0; i < n; i++)
        size += TACHY_ALIGN(p->end_bytes[i], 256);
    t->at = calloc((size_t)n + 1, sizeof(*t->at));
    int err = t->at ? tachy_gpu_alloc(p->gpu, size, &t->memory, NULL) : TACHY_ERR_NOMEM;
    uint8_t *at = t->memory;
    for (int i = 0; i < n && !err; at += TACHY_ALIGN(p->end_bytes[i], 256), i++) {
        t->at[i] = at;
        if (i < p->nb_in)
            err = check(t, cu->copy_to_device(tachy_cu_address(at), in[i], p->end_bytes[i]), "a plan's tensors");
    }
    if (!err)
        err = check(t, cu->stream_create(&t->stream, CUDA_STREAM_OWN_ORDER), "a plan's stream");
    if (!err)
        err = check(t, cu->event_create(&t->from, CUDA_EVENT_TIMED), "a plan's event");
    return err ? err : check(t, cu->event_create(&t->to, CUDA_EVENT_TIMED), "a plan's event");
}

static void close_timing(struct timing *t)
{
    const struct tachy_cu *cu = t->p->gpu->device.cu;
    if (t->from)
        cu->event_destroy(t->from);
    if (t->to)
        cu->event_destroy(t->to);
    if (t->stream)
        cu->stream_destroy(t->stream);
    if (t->memory)
        tachy_gpu_free(t->p->gpu, t->memory);
    free(t->at);
}

static int run_all(struct timing *t, int runs, double *ms)
{
    enum { WARM = 3 }; // the second run is captured
    const struct tachy_cu *cu = t->p->gpu->device.cu;
    void *const *out = (void *const *)(uintptr_t)(t->at + t->p->nb_in);
    float all = 0;
    int err = TACHY_OK;
    for (int i = 0; i < WARM + runs && !err; i++) {
        if (i == WARM)
            err = check(t, cu->event_record(t->from, t->stream), "an event");
        if (!err)
            err = cuda_queue(&t->p->base, t->at, out, t->stream);
    }
    if (!err)
        err = check(t, cu->event_record(t->to, t->stream), "an event");
    int waited = check(t, cu->stream_wait(t->stream), "timing a plan");
    if (!err && !waited)
        err = check(t, cu->event_elapsed(&all, t->from, t->to), "timing a plan");
    *ms = (double)all / runs;
    return err ? err : waited;
}

int cuda_time(struct tachy_plan *plan, const void *const in[], int runs, double *ms)
{
    struct timing t = {.p = (struct cuda_plan *)plan};
    int err = tachy_device_enter(&t.p->gpu->device, NULL);
    if (err < 0)
        return err;
    err = open_timing(&t, in);
    if (!err)
        err = run_all(&t, TACHY_MAX(runs, 1), ms);
    close_timing(&t);
    tachy_device_leave(&t.p->gpu->device);
    return err;
}
