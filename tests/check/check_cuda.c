#include "check_cuda.h"

#include "base/base.h"
#include "cuda/rates.h"

#include <stdio.h>
#include <stdlib.h>

static void on_message(void *user, enum tachy_log_level level, const char *msg)
{
    printf("%s\n", msg);
}
static const struct tachy_log log_all = {.fn = on_message, .max_level = TACHY_LOG_INFO};

// A fault in a kernel spoils the context for good: nothing after it would mean anything.
static void must(const struct check_gpu *g, int status, const char *what)
{
    if (tachy_cu_check(g->cu, status, &log_all, what) < 0)
        exit(1);
}

bool check_gpu_open(struct check_gpu *g)
{
    g->kernels = tachy_cuda_kernels();
    if (!g->kernels)
        printf("skipped: this build has no CUDA kernels (-Dcuda=enabled)\n");
    if (!g->kernels || tachy_cu_load(&g->cu, TACHY_LOG_INFO, &log_all) < 0 ||
        tachy_device_describe(&g->device, g->cu, 0, &log_all) < 0 ||
        tachy_device_enter(&g->device, &log_all) < 0)
        return false;
    must(g, g->cu->stream_create(&g->stream, CUDA_STREAM_OWN_ORDER), "a stream");
    must(g, g->cu->event_create(&g->from, CUDA_EVENT_TIMED), "an event");
    must(g, g->cu->event_create(&g->to, CUDA_EVENT_TIMED), "an event");
    g->flush_bytes = 2 * g->device.l2_bytes + 1;
    must(g, g->cu->memory_alloc(&g->flush, g->flush_bytes), "memory on the GPU");
    return true;
}

void check_gpu_close(struct check_gpu *g)
{
    if (!g->flush)
        return;
    g->cu->memory_free(g->flush);
    g->cu->event_destroy(g->from);
    g->cu->event_destroy(g->to);
    g->cu->stream_destroy(g->stream);
    tachy_device_leave(&g->device);
    tachy_device_close(&g->device);
}

// Copies and fills on the default stream may still run when their call returns, and kernels on a non-blocking stream do
// not wait for them.
static void settle(const struct check_gpu *g) { must(g, g->cu->stream_wait(NULL), "the default stream"); }

cuda_address check_gpu_put(struct check *c, const void *data, size_t bytes)
{
    cuda_address at = 0;
    must(c->gpu, c->gpu->cu->memory_alloc(&at, bytes ? bytes : 1), "memory on the GPU");
    must(c->gpu, c->gpu->cu->copy_to_device(at, data, bytes), "a copy to the GPU");
    settle(c->gpu);
    return at;
}

cuda_address check_gpu_poison(struct check *c, size_t bytes)
{
    cuda_address at = 0;
    must(c->gpu, c->gpu->cu->memory_alloc(&at, bytes ? bytes : 1), "memory on the GPU");
    must(c->gpu, c->gpu->cu->fill(at, 0xcd, bytes), "filling memory on the GPU");
    settle(c->gpu);
    return at;
}

void check_gpu_free(struct check *c, cuda_address at) { must(c->gpu, c->gpu->cu->memory_free(at), "freeing memory"); }

void check_gpu_get(struct check *c, void *data, cuda_address at, size_t bytes)
{
    must(c->gpu, c->gpu->cu->stream_wait(c->gpu->stream), "a kernel");
    must(c->gpu, c->gpu->cu->copy_to_host(data, at, bytes), "a copy from the GPU");
}

void check_gpu_launched(struct check *c, int status, const char *what)
{
    char text[256];
    check_case(c, status == CUDA_OK, "%s: %s", what, tachy_cu_text(c->gpu->cu, status, text, sizeof(text)));
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double time_of(struct check *c, void (*launch)(void *), void *arg, bool flush, int turns)
{
    enum { WARM = 5, RUNS = 41 };
    struct check_gpu *g = c->gpu;
    float ms[RUNS];
    for (int i = -WARM; i < RUNS; i++) {
        if (flush)
            must(g, g->cu->fill_async(g->flush, (unsigned char)i, g->flush_bytes, g->stream), "filling memory");
        must(g, g->cu->event_record(g->from, g->stream), "an event");
        for (int k = 0; k < turns; k++)
            launch(arg);
        must(g, g->cu->event_record(g->to, g->stream), "an event");
        must(g, g->cu->event_wait(g->to), "a kernel");
        if (i >= 0)
            must(g, g->cu->event_elapsed(&ms[i], g->from, g->to), "an event");
    }
    qsort(ms, RUNS, sizeof(ms[0]), by_value);
    return ms[RUNS / 2] * 1e-3 / turns;
}

double check_gpu_time(struct check *c, void (*launch)(void *), void *arg) { return time_of(c, launch, arg, true, 1); }

double check_gpu_time_rotating(struct check *c, void (*launch)(void *), void *arg)
{
    return time_of(c, launch, arg, false, 8);
}

void check_gpu_row(struct check *c, const char *op, const char *what, double seconds, double bytes)
{
    static double copy; // bytes per second, read and written
    struct tachy_gpu_rates rates;
    if (copy == 0)
        copy = tachy_gpu_rates(&rates, &c->gpu->device, &log_all) < 0 ? -1 : rates.copy_bps;
    printf("%-22s gpu %-44s %9.1f us %8.1f GB/s", op, what, seconds * 1e6, bytes / seconds * 1e-9);
    if (copy > 0)
        printf(" %5.1f %% of the copy rate", 100 * bytes / seconds / copy);
    printf("\n");
    fflush(stdout); // a run that is ended by its time limit keeps its rows
}
