#include "cuda/places.h"

#include <stdlib.h>

enum { PINNED_PORTABLE = 1 }; // CU_MEMHOSTALLOC_PORTABLE: for every context

struct tachy_gpu_places {
    struct tachy_device *d;
    const struct tachy_log *log;
    double vram_most;
};

// Bytes that are taken on the GPU, by whomever; all of it where the driver does not say.
static size_t taken_by_all(const struct tachy_gpu_places *g)
{
    size_t idle = 0, all = 0;
    return g->d->cu->memory_info(&idle, &all) == CUDA_OK ? all - idle : g->d->bytes;
}

static void *device_alloc(void *user, size_t size)
{
    struct tachy_gpu_places *g = user;
    cuda_address at = 0;
    if (tachy_device_enter(g->d, g->log) < 0)
        return NULL;
    size_t most = (size_t)(g->vram_most * (double)g->d->bytes), taken = taken_by_all(g);
    bool fits = size <= most && taken <= most - size;
    if (!fits || g->d->cu->memory_alloc(&at, size) != CUDA_OK)
        at = 0;
    tachy_device_leave(g->d);
    return (void *)(uintptr_t)at;
}

static void device_free(void *user, void *data)
{
    struct tachy_gpu_places *g = user;
    if (tachy_device_enter(g->d, g->log) < 0)
        return;
    g->d->cu->memory_free((cuda_address)(uintptr_t)data);
    tachy_device_leave(g->d);
}

static void *pinned_alloc(void *user, size_t size)
{
    struct tachy_gpu_places *g = user;
    void *data = NULL;
    if (tachy_device_enter(g->d, g->log) < 0)
        return NULL;
    if (g->d->cu->pinned_alloc(&data, size, PINNED_PORTABLE) != CUDA_OK)
        data = NULL;
    tachy_device_leave(g->d);
    return data;
}

static void pinned_free(void *user, void *data)
{
    struct tachy_gpu_places *g = user;
    if (tachy_device_enter(g->d, g->log) < 0)
        return;
    g->d->cu->pinned_free(data);
    tachy_device_leave(g->d);
}

int tachy_gpu_places_open(struct tachy_gpu_places **out, struct tachy_memory *m, struct tachy_device *d,
                          const struct tachy_gpu_places_params *p)
{
    *out = NULL;
    int err = tachy_device_enter(d, p->log);
    if (err < 0)
        return err;
    size_t idle = 0, all = 0;
    err = tachy_cu_check(d->cu, d->cu->memory_info(&idle, &all), p->log, d->name);
    tachy_device_leave(d);
    struct tachy_gpu_places *g = err < 0 ? NULL : calloc(1, sizeof(*g));
    if (!g)
        return err < 0 ? err : TACHY_ERR_NOMEM;
    *g = (struct tachy_gpu_places){.d = d, .log = p->log, .vram_most = p->vram_most > 0 ? p->vram_most : 1};
    uint64_t mine = p->fraction > 0 ? (uint64_t)(p->fraction * (double)all) : (uint64_t)idle;
    enum tachy_place place = tachy_place_of_gpu(p->number);
    tachy_memory_set_budget(m, place, mine);
    tachy_memory_set_place(m, place, &(struct tachy_place_ops){device_alloc, device_free, g});
    if (place == TACHY_DEVICE) {
        tachy_memory_set_budget(m, TACHY_PINNED, p->pinned ? p->pinned : tachy_memory_of_machine() / 4);
        tachy_memory_set_place(m, TACHY_PINNED, &(struct tachy_place_ops){pinned_alloc, pinned_free, g});
    }
    *out = g;
    return TACHY_OK;
}

void tachy_gpu_places_close(struct tachy_gpu_places **p)
{
    free(*p);
    *p = NULL;
}
