#include "profile/gpu_priv.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/thread.h"
#include "cuda/device.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

// A thread asks the driver for the sensors of every GPU, which takes some tens of microseconds each time. Memory is
// bounded: a ring of samples and the totals.

enum { SAMPLES = 1 << 13 };

struct gpu {
    int ordinal; // CUDA's
    nvml_device handle;
    char name[96];
    double power_limit_w, sm_mhz_max;
    struct tachy_ring *ring;
    struct gpu_sampled sum; // under the sampler's lock
    uint64_t last_ns;
};

struct gpu_sampler {
    const struct tachy_nvml *nvml;
    const struct tachy_log *log;
    int interval_ms, count;
    struct gpu gpu[TACHY_MAX_GPUS];
    pthread_mutex_t lock; // guards `sum`, `stop`
    pthread_cond_t wake;
    bool stop, started;
    pthread_t thread;
};

static const struct {
    const char *name, *unit;
} sensors[GPU_SENSORS] = {
    [GPU_UTILIZATION] = {"utilisation", "%"},
    [GPU_MEMORY_UTILIZATION] = {"memory controller", "%"},
    [GPU_ENCODER] = {"encoder", "%"},
    [GPU_DECODER] = {"decoder", "%"},
    [GPU_MEMORY] = {"memory", "MiB"},
    [GPU_SM_CLOCK] = {"SM clock", "MHz"},
    [GPU_MEMORY_CLOCK] = {"memory clock", "MHz"},
    [GPU_POWER] = {"power", "W"},
    [GPU_TEMPERATURE] = {"temperature", "C"},
};

const char *gpu_sensor_name(enum gpu_sensor s) { return sensors[s].name; }
const char *gpu_sensor_unit(enum gpu_sensor s) { return sensors[s].unit; }

double gpu_sample_value(const struct gpu_sample *s, enum gpu_sensor which)
{
    const uint16_t small[GPU_SENSORS] = {
        [GPU_UTILIZATION] = s->gpu,     [GPU_MEMORY_UTILIZATION] = s->memory,
        [GPU_ENCODER] = s->encoder,     [GPU_DECODER] = s->decoder,
        [GPU_SM_CLOCK] = s->sm_mhz,     [GPU_MEMORY_CLOCK] = s->memory_mhz,
        [GPU_TEMPERATURE] = s->celsius,
    };
    if (which == GPU_MEMORY)
        return s->used_bytes == UINT64_MAX ? NAN : (double)s->used_bytes / (1 << 20);
    if (which == GPU_POWER)
        return s->milliwatt == UINT32_MAX ? NAN : s->milliwatt * 1e-3;
    return small[which] == GPU_UNKNOWN ? NAN : small[which];
}

static uint64_t pack(unsigned a, unsigned b, unsigned c, unsigned d)
{
    return (uint64_t)(a & 0xffff) | (uint64_t)(b & 0xffff) << 16 | (uint64_t)(c & 0xffff) << 32 |
           (uint64_t)(d & 0xffff) << 48;
}

static uint16_t part(uint64_t word, int i) { return (uint16_t)(word >> 16 * i); }

static void add_sample(struct tachy_ring *r, const struct gpu_sample *s)
{
    const uint64_t word[TACHY_RING_WORDS] = {
        s->ns, s->used_bytes, pack(s->gpu, s->memory, s->encoder, s->decoder),
        pack(s->celsius, s->sm_mhz, s->memory_mhz, s->throttle), s->milliwatt};
    tachy_ring_add(r, word);
}

static struct gpu_sample sample_of(const uint64_t w[TACHY_RING_WORDS])
{
    return (struct gpu_sample){
        .ns = w[0],
        .used_bytes = w[1],
        .gpu = part(w[2], 0),
        .memory = part(w[2], 1),
        .encoder = part(w[2], 2),
        .decoder = part(w[2], 3),
        .celsius = part(w[3], 0),
        .sm_mhz = part(w[3], 1),
        .memory_mhz = part(w[3], 2),
        .throttle = part(w[3], 3),
        .milliwatt = (uint32_t)w[4],
    };
}

// A reading of up to 16 bits; UNKNOWN if the call is missing or fails.
#define READ(fn, ...) (nvml->fn && nvml->fn(__VA_ARGS__) == NVML_OK)
static uint16_t small(bool ok, const unsigned *v) // *v may be written while `ok` is found out
{
    return (uint16_t)(ok ? TACHY_MIN(*v, GPU_UNKNOWN - 1u) : GPU_UNKNOWN);
}

static void read_sensors(const struct tachy_nvml *nvml, nvml_device d, struct gpu_sample *s)
{
    struct nvml_utilization u = {0};
    struct nvml_memory m = {0};
    unsigned v = 0, period;
    unsigned long long bits = 0;
    bool ok = READ(utilization, d, &u);
    s->gpu = small(ok, &u.gpu);
    s->memory = small(ok, &u.memory);
    ok = READ(memory, d, &m);
    s->used_bytes = ok ? m.used : UINT64_MAX;
    s->encoder = small(READ(encoder, d, &v, &period), &v);
    s->decoder = small(READ(decoder, d, &v, &period), &v);
    s->celsius = small(READ(temperature, d, NVML_SENSOR_GPU, &v), &v);
    s->sm_mhz = small(READ(clock, d, NVML_CLOCK_OF_SM, &v), &v);
    s->memory_mhz = small(READ(clock, d, NVML_CLOCK_OF_MEMORY, &v), &v);
    s->milliwatt = READ(power, d, &v) ? v : UINT32_MAX;
    s->throttle = (uint16_t)(READ(throttle, d, &bits) ? bits & 0x7ff : 0);
}

static void add_range(struct gpu_range *r, double v)
{
    if (isnan(v))
        return;
    r->min = r->n ? fmin(r->min, v) : v;
    r->max = r->n ? fmax(r->max, v) : v;
    r->sum += v;
    r->n++;
}

static void sample(struct gpu_sampler *s, struct gpu *g)
{
    struct gpu_sample x = {.ns = tachy_now_ns()};
    read_sensors(s->nvml, g->handle, &x);
    add_sample(g->ring, &x);
    // A state holds from one sample to the next.
    double seconds = g->last_ns ? (double)(x.ns - g->last_ns) * 1e-9 : 0;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < GPU_SENSORS; i++)
        add_range(&g->sum.range[i], gpu_sample_value(&x, (enum gpu_sensor)i));
    g->sum.seconds += seconds;
    for (int i = 0; i < NVML_THROTTLE_REASONS; i++)
        if (x.throttle & 1u << i)
            g->sum.throttled_s[i] += seconds;
    if (x.throttle & NVML_THROTTLE_SLOW)
        g->sum.slowed_s += seconds;
    pthread_mutex_unlock(&s->lock);
    g->last_ns = x.ns;
}

static void *sampler_main(void *arg)
{
    struct gpu_sampler *s = arg;
    uint64_t at = tachy_now_ns();
    for (bool stop = false; !stop;) {
        at += (uint64_t)s->interval_ms * 1000000;
        pthread_mutex_lock(&s->lock);
        while (!s->stop && !tachy_cond_wait_until(&s->wake, &s->lock, at))
            continue;
        stop = s->stop;
        pthread_mutex_unlock(&s->lock);
        for (int i = 0; i < s->count; i++)
            sample(s, &s->gpu[i]);
    }
    return NULL;
}

static int add_gpu(struct gpu_sampler *s, const struct tachy_cu *cu, int ordinal)
{
    const struct tachy_nvml *nvml = s->nvml;
    struct gpu *g = &s->gpu[s->count];
    unsigned v = 0;
    g->ordinal = ordinal;
    if (!tachy_device_nvml(cu, ordinal, nvml, &g->handle))
        return TACHY_OK;
    if (nvml->device_name(g->handle, g->name, sizeof(g->name)) != NVML_OK)
        snprintf(g->name, sizeof(g->name), "GPU %d", ordinal);
    g->power_limit_w = READ(power_limit, g->handle, &v) ? v * 1e-3 : 0;
    g->sm_mhz_max = READ(clock_max, g->handle, NVML_CLOCK_OF_SM, &v) ? v : 0;
    g->ring = tachy_ring_new(SAMPLES);
    if (!g->ring)
        return TACHY_ERR_NOMEM;
    s->count++;
    return TACHY_OK;
}

static int list_gpus(struct gpu_sampler *s, const int *gpus, int n)
{
    const struct tachy_cu *cu;
    int err = tachy_cu_load(&cu, TACHY_LOG_VERBOSE, s->log);
    if (err == TACHY_OK && !gpus && cu->device_count(&n) != CUDA_OK)
        n = 0;
    for (int i = 0; err == TACHY_OK && i < TACHY_MIN(n, TACHY_MAX_GPUS); i++)
        err = add_gpu(s, cu, gpus ? gpus[i] : i);
    if (err == TACHY_OK && !s->count) {
        tachy_msg(s->log, TACHY_LOG_VERBOSE, "NVML (%s) knows no GPU that CUDA counts, so none is sampled",
                  tachy_cuda_library_path("nvml"));
        return TACHY_ERR_UNAVAILABLE;
    }
    return err;
}

static int start_thread(struct gpu_sampler *s)
{
    tachy_cond_init(&s->wake);
    int code = pthread_create(&s->thread, NULL, sampler_main, s);
    s->started = !code;
    return code ? tachy_fail(s->log, TACHY_ERR_NOMEM, "the GPU's sampling thread: %s",
                             strerror(code))
                : TACHY_OK;
}

int gpu_sampler_open(struct gpu_sampler **out, const int *gpus, int nb_gpus, int interval_ms, const struct tachy_log *log)
{
    const struct tachy_nvml *nvml;
    *out = NULL;
    int err = tachy_nvml_load(&nvml, TACHY_LOG_VERBOSE, log);
    if (err < 0)
        return err;
    int status = nvml->init();
    if (status != NVML_OK) {
        tachy_msg(log, TACHY_LOG_VERBOSE, "NVML (%s): nvmlInit returns status %d, so no GPU is sampled",
                  tachy_cuda_library_path("nvml"), status);
        return TACHY_ERR_UNAVAILABLE;
    }
    struct gpu_sampler *s = calloc(1, sizeof(*s));
    if (!s) {
        nvml->shutdown();
        return TACHY_ERR_NOMEM;
    }
    s->nvml = nvml;
    s->log = log;
    s->interval_ms = interval_ms;
    pthread_mutex_init(&s->lock, NULL);
    err = list_gpus(s, gpus, nb_gpus);
    for (int i = 0; i < s->count && err == TACHY_OK; i++)
        sample(s, &s->gpu[i]);
    if (err == TACHY_OK && interval_ms)
        err = start_thread(s);
    if (err < 0)
        gpu_sampler_close(&s);
    *out = s;
    return err;
}

void gpu_sampler_close(struct gpu_sampler **ps)
{
    struct gpu_sampler *s = *ps;
    *ps = NULL;
    if (!s)
        return;
    if (s->started) {
        pthread_mutex_lock(&s->lock);
        s->stop = true;
        pthread_cond_signal(&s->wake);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
        pthread_cond_destroy(&s->wake);
    }
    s->nvml->shutdown();
    for (int i = 0; i < TACHY_MAX_GPUS; i++)
        tachy_aligned_free(s->gpu[i].ring);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

int gpu_sampler_count(const struct gpu_sampler *s) { return s ? s->count : 0; }

int gpu_sampler_gpu(const struct gpu_sampler *s, int i) { return s->gpu[i].ordinal; }

void gpu_sampler_read(struct gpu_sampler *s, int i, struct gpu_sampled *out)
{
    const struct gpu *g = &s->gpu[i];
    pthread_mutex_lock(&s->lock);
    *out = g->sum;
    pthread_mutex_unlock(&s->lock);
    snprintf(out->name, sizeof(out->name), "%s", g->name);
    out->power_limit_w = g->power_limit_w;
    out->sm_mhz_max = g->sm_mhz_max;
}

struct gpu_sample *gpu_sampler_samples(struct gpu_sampler *s, int i, size_t *n)
{
    const struct tachy_ring *r = s->gpu[i].ring;
    uint64_t dropped;
    *n = 0;
    uint64_t(*words)[TACHY_RING_WORDS] = malloc(tachy_ring_capacity(r) * sizeof(*words));
    struct gpu_sample *list = malloc(tachy_ring_capacity(r) * sizeof(*list));
    if (words && list) {
        *n = tachy_ring_read(r, words, &dropped);
        for (size_t k = 0; k < *n; k++)
            list[k] = sample_of(words[k]);
    }
    free(words);
    if (!words || !list) {
        free(list);
        return NULL;
    }
    return list;
}
