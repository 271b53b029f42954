#include "base/base.h"
#include "base/mix.h"
#include "base/store.h"
#include "plan/cuda/parts.h"

#include <stdio.h>
#include <stdlib.h>

// Data that plans on one GPU share, and a GPU's name.

struct cuda_weights {
    struct cuda_weights *next;
    struct tachy_gpu *gpu;
    uint64_t digest[2];
    size_t size;
    int owners;
    void *data; // on the device
};

// The process's, under the lock: sessions that know nothing of each other share.
static struct cuda_weights *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct cuda_weights *find(int ordinal, const uint64_t digest[2], size_t size)
{
    struct cuda_weights *w = all;
    while (w && (w->gpu->device.ordinal != ordinal || w->size != size || memcmp(w->digest, digest, sizeof(w->digest)) != 0))
        w = w->next;
    return w;
}

static int upload(struct cuda_weights *w, const void *data, const struct tachy_log *log)
{
    struct tachy_device *d = &w->gpu->device;
    int err = tachy_gpu_alloc(w->gpu, TACHY_MAX(w->size, 256), &w->data, log);
    if (err == TACHY_OK)
        err = tachy_device_enter(d, log);
    if (err < 0)
        return err;
    err = tachy_cu_check(d->cu, d->cu->copy_to_device(tachy_cu_address(w->data), data, w->size), log, "weights of a plan");
    tachy_device_leave(d);
    return err;
}

int cuda_weights_share(struct cuda_weights **out, struct tachy_gpu *gpu, const void *data, size_t size,
                       const struct tachy_log *log)
{
    uint64_t digest[2] = {0, 1};
    int err = TACHY_OK;
    *out = NULL;
    if (!tachy_mix_parts(digest, &(struct tachy_mix_part){data, size}, 1))
        return TACHY_ERR_NOMEM;
    pthread_mutex_lock(&lock);
    struct cuda_weights *w = find(gpu->device.ordinal, digest, size);
    if (w) {
        w->owners++;
    } else if (!(w = calloc(1, sizeof(*w)))) {
        err = TACHY_ERR_NOMEM;
    } else {
        *w = (struct cuda_weights){.gpu = tachy_gpu_ref(gpu), .digest = {digest[0], digest[1]}, .size = size, .owners = 1,
                                   .next = all};
        all = w;
        err = size ? upload(w, data, log) : TACHY_OK;
    }
    pthread_mutex_unlock(&lock);
    *out = w;
    if (err < 0)
        cuda_weights_unref(out);
    return err;
}

void cuda_weights_unref(struct cuda_weights **pw)
{
    struct cuda_weights *w = *pw;
    *pw = NULL;
    if (!w)
        return;
    pthread_mutex_lock(&lock);
    bool last = --w->owners == 0;
    for (struct cuda_weights **at = &all; last && *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    if (w->data)
        tachy_gpu_free(w->gpu, w->data);
    tachy_gpu_unref(&w->gpu);
    free(w);
}

cuda_address cuda_weights_at(const struct cuda_weights *w) { return tachy_cu_address(w->data); }

bool cuda_weights_shared(const struct cuda_weights *w)
{
    pthread_mutex_lock(&lock);
    bool shared = w->owners > 1;
    pthread_mutex_unlock(&lock);
    return shared;
}

void cuda_about(const struct tachy_plan_params *params, char *text, size_t size)
{
    const struct tachy_cu *cu;
    struct tachy_device d = {0};
    if (tachy_cu_load(&cu, TACHY_LOG_VERBOSE, NULL) < 0 || tachy_device_describe(&d, cu, params->gpu, NULL) < 0)
        snprintf(d.name, sizeof(d.name), "GPU %d", params->gpu);
    snprintf(text, size, "%s, %s", d.name, tachy_plan_precisions[params->precision]);
}

// Everything that the time of a kernel may depend on.
int cuda_key(const struct tachy_graph *g, const struct tachy_plan_params *params, char *key)
{
    const struct tachy_cu *cu;
    struct tachy_device d;
    uint64_t digest[2];
    int err = tachy_cu_load(&cu, TACHY_LOG_ERR, g->log);
    if (!err)
        err = tachy_device_describe(&d, cu, params->gpu, g->log);
    if (!err)
        err = tachy_graph_digest(g, digest);
    if (err)
        return err;
    char *machine = tachy_asprintf("%s, %d.%d, driver %d, cuBLASLt %zu, cuDNN %d, %s, tachy %s", d.name, d.cc_major, d.cc_minor,
                                   d.driver, tachy_nn_gemm_version(), tachy_nn_cudnn_version(), tachy_plan_precisions[params->precision], TACHY_VERSION);
    if (!machine)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < 2; i++)
        digest[i] = tachy_mix(digest[i], machine, strlen(machine));
    tachy_store_key(digest, key);
    tachy_free(machine);
    return TACHY_OK;
}
