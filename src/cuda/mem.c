#include "cuda/mem.h"

#include <stdlib.h>

enum { PINNED_PORTABLE = 1 }; // CU_MEMHOSTALLOC_PORTABLE: for every context

// Argument of the functions for one GPU's memory; one per kind of memory.
struct gpu_mem {
    struct tachy_device d; // with a reference to its context
    const struct tachy_log *log;
    double vram_most;
};

// Within the share of the GPU that may be taken by whomever.
static int alloc_within(const struct gpu_mem *g, size_t size, cuda_address *at)
{
    const struct tachy_cu *cu = g->d.cu;
    size_t idle = 0, all = 0;
    int err = tachy_cu_check(cu, cu->memory_info(&idle, &all), g->log, g->d.name);
    if (err < 0)
        return err;
    size_t most = (size_t)(g->vram_most * (double)all), taken = all - idle;
    if (size > most || taken > most - size)
        return TACHY_ERR_NOMEM;
    return tachy_cu_check_memory(cu, cu->memory_alloc(at, size), g->log);
}

static int device_alloc(void *user, size_t size, void **data)
{
    struct gpu_mem *g = user;
    cuda_address at = 0;
    int err = tachy_device_enter(&g->d, g->log);
    if (err < 0)
        return err;
    err = alloc_within(g, size, &at);
    tachy_device_leave(&g->d);
    *data = err == TACHY_OK ? (void *)(uintptr_t)at : NULL;
    return err;
}

static void device_free(void *user, void *data)
{
    struct gpu_mem *g = user;
    if (tachy_device_enter(&g->d, g->log) < 0)
        return;
    g->d.cu->memory_free(tachy_cu_address(data));
    tachy_device_leave(&g->d);
}

static int pinned_alloc(void *user, size_t size, void **data)
{
    struct gpu_mem *g = user;
    int err = tachy_device_enter(&g->d, g->log);
    if (err < 0)
        return err;
    err = tachy_cu_check_memory(g->d.cu, g->d.cu->pinned_alloc(data, size, PINNED_PORTABLE), g->log);
    tachy_device_leave(&g->d);
    if (err < 0)
        *data = NULL;
    return err;
}

static void pinned_free(void *user, void *data)
{
    struct gpu_mem *g = user;
    if (tachy_device_enter(&g->d, g->log) < 0)
        return;
    g->d.cu->pinned_free(data);
    tachy_device_leave(&g->d);
}

static void place_close(void *user)
{
    struct gpu_mem *g = user;
    tachy_device_close(&g->d);
    free(g);
}

static int open_place(struct gpu_mem **out, const struct tachy_device *d, const struct tachy_gpu_mem_params *p)
{
    struct gpu_mem *g = *out = calloc(1, sizeof(*g));
    if (!g)
        return TACHY_ERR_NOMEM;
    *g = (struct gpu_mem){.d = *d, .log = p->log, .vram_most = p->vram_most > 0 ? p->vram_most : 1};
    g->d.context = NULL; // its own reference
    int err = tachy_device_enter(&g->d, p->log);
    if (err == TACHY_OK)
        tachy_device_leave(&g->d);
    else
        place_close(g);
    return err;
}

static int open_pinned(struct tachy_memory *m, const struct tachy_device *d, const struct tachy_gpu_mem_params *p)
{
    struct gpu_mem *g;
    if (tachy_memory_has(m, TACHY_PINNED))
        return TACHY_OK;
    int err = open_place(&g, d, p);
    if (err < 0)
        return err;
    tachy_memory_set_budget(m, TACHY_PINNED, p->pinned ? p->pinned : tachy_memory_of_machine() / 4);
    tachy_memory_set_ops(m, TACHY_PINNED, &(struct tachy_mem_ops){pinned_alloc, pinned_free, place_close, g});
    return TACHY_OK;
}

static int open_device(struct tachy_memory *m, const struct tachy_device *d, const struct tachy_gpu_mem_params *p)
{
    struct gpu_mem *g;
    size_t idle = 0, all = 0;
    int err = open_place(&g, d, p);
    if (err < 0)
        return err;
    err = tachy_device_enter(&g->d, p->log);
    if (err == TACHY_OK) {
        err = tachy_cu_check(d->cu, d->cu->memory_info(&idle, &all), p->log, d->name);
        tachy_device_leave(&g->d);
    }
    if (err < 0) {
        place_close(g);
        return err;
    }
    enum tachy_mem mem = tachy_mem_of_gpu(d->ordinal);
    tachy_memory_set_budget(m, mem, p->fraction > 0 ? (uint64_t)(p->fraction * (double)all) : (uint64_t)idle);
    tachy_memory_set_ops(m, mem, &(struct tachy_mem_ops){device_alloc, device_free, place_close, g});
    return TACHY_OK;
}

int tachy_gpu_mem_open(struct tachy_memory *m, const struct tachy_device *d,
                          const struct tachy_gpu_mem_params *p)
{
    if (d->ordinal < 0 || d->ordinal >= TACHY_MAX_GPUS)
        return tachy_fail(p->log, TACHY_ERR_UNSUPPORTED, "GPU %d: only those below %d are used; CUDA_VISIBLE_DEVICES "
                          "numbers them anew", d->ordinal, TACHY_MAX_GPUS);
    int err = open_pinned(m, d, p);
    if (err < 0 || tachy_memory_has(m, tachy_mem_of_gpu(d->ordinal)))
        return err;
    return open_device(m, d, p);
}

int tachy_gpu_scratch_need(const struct tachy_gpu_scratch *s, struct tachy_block *b, size_t size)
{
    if (b->size >= size)
        return TACHY_OK;
    int err = b->data ? tachy_cu_check(s->cu, s->cu->stream_wait(s->stream), s->log, "waiting for a stream") : TACHY_OK;
    if (err < 0)
        return err;
    tachy_memory_give(s->memory, b);
    return tachy_memory_take(s->memory, b, s->mem, TACHY_MEMORY_RESULTS, size);
}
