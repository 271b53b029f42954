#include "cuda/rates.h"

#include "base/base.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPEATS = 7, WARM_UP = 30, MATRIX = 8192 };
static const size_t block_bytes = (size_t)16 << 20; // of random numbers, repeated
static const size_t link_bytes = (size_t)64 << 20;

static const char *rate_name(enum tachy_rate r)
{
    static const char *const names[TACHY_RATE_COUNT] = {"fp16", "tf32"};
    return names[r];
}

// One measurement: a stream, two events, device memory.
struct bench {
    const struct tachy_device *d;
    const struct tachy_cu *cu;
    const struct tachy_log *log;
    cuda_stream stream;
    cuda_event begin, end;
    const struct tachy_cublas *blas;
    cublas_handle handle;
    cuda_address a, b, c;
    size_t bytes; // of each
    void *pinned; // of the host's, to and from which `a` is copied
    enum tachy_rate rate;
};

static int check(const struct bench *x, int status)
{
    return tachy_cu_check(x->cu, status, x->log, "the GPU's rates cannot be measured");
}

static int bench_open(struct bench *x)
{
    int err = check(x, x->cu->stream_create(&x->stream, CUDA_STREAM_OWN_ORDER));
    if (err == TACHY_OK)
        err = check(x, x->cu->event_create(&x->begin, CUDA_EVENT_TIMED));
    if (err == TACHY_OK)
        err = check(x, x->cu->event_create(&x->end, CUDA_EVENT_TIMED));
    return err;
}

static void free_memory(struct bench *x)
{
    cuda_address *const all[] = {&x->a, &x->b, &x->c};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++) {
        if (*all[i])
            x->cu->memory_free(*all[i]);
        *all[i] = 0;
    }
}

static void bench_close(struct bench *x)
{
    if (x->handle)
        x->blas->destroy(x->handle);
    free_memory(x);
    if (x->begin)
        x->cu->event_destroy(x->begin);
    if (x->end)
        x->cu->event_destroy(x->end);
    if (x->stream)
        x->cu->stream_destroy(x->stream);
}

// Random numbers of both signs (xorshift32), fp16 or float32.
static void fill_block(void *block, enum tachy_rate rate)
{
    uint32_t x = 0x9e3779b9u, *word = block;
    for (size_t i = 0; i < block_bytes / 4; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        float v = (float)(int32_t)x / 2147483648.0f;
        // fp16: the exponent's two high bits are 01, so 2^-7 to 2; the rest is random.
        if (rate == TACHY_RATE_FP16)
            word[i] = (x & 0xbfffbfffu) | 0x20002000u;
        else
            memcpy(&word[i], &v, 4);
    }
}

static int upload(struct bench *x, cuda_address to, const void *block)
{
    int err = check(x, x->cu->copy_to_device_async(to, block, TACHY_MIN(block_bytes, x->bytes), x->stream));
    for (size_t at = block_bytes; at < x->bytes && err == TACHY_OK; at += block_bytes)
        err = check(x, x->cu->copy_on_device(to + at, to, TACHY_MIN(block_bytes, x->bytes - at),
                                             x->stream));
    return err;
}

// Device memory for a and b (and c) with random contents in a and b.
static int take_memory(struct bench *x, size_t bytes, bool third)
{
    void *block = malloc(block_bytes);
    x->bytes = bytes;
    int err = block ? check(x, x->cu->memory_alloc(&x->a, bytes)) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = check(x, x->cu->memory_alloc(&x->b, bytes));
    if (err == TACHY_OK && third)
        err = check(x, x->cu->memory_alloc(&x->c, bytes));
    if (err == TACHY_OK) {
        fill_block(block, x->rate);
        err = upload(x, x->a, block);
    }
    if (err == TACHY_OK)
        err = upload(x, x->b, block);
    if (err == TACHY_OK)
        err = check(x, x->cu->stream_wait(x->stream));
    free(block);
    return err;
}

static int run_copy(struct bench *x)
{
    return check(x, x->cu->copy_on_device(x->b, x->a, x->bytes, x->stream));
}

static int run_to_host(struct bench *x)
{
    return check(x, x->cu->copy_to_host_async(x->pinned, x->a, x->bytes, x->stream));
}

static int run_to_device(struct bench *x)
{
    return check(x, x->cu->copy_to_device_async(x->a, x->pinned, x->bytes, x->stream));
}

static int run_matmul(struct bench *x)
{
    float one = 1, zero = 0;
    int type = x->rate == TACHY_RATE_FP16 ? CUBLAS_F16 : CUBLAS_F32;
    int compute = x->rate == TACHY_RATE_FP16 ? CUBLAS_COMPUTE_F32 : CUBLAS_COMPUTE_TF32;
    int status = x->blas->gemm(x->handle, CUBLAS_NOT_TRANSPOSED, CUBLAS_NOT_TRANSPOSED, MATRIX,
                               MATRIX, MATRIX, &one, x->a, type, MATRIX, x->b, type, MATRIX, &zero,
                               x->c, type, MATRIX, compute, CUBLAS_ALGO_DEFAULT);
    return status == CUBLAS_OK ? TACHY_OK
                               : tachy_fail(x->log, TACHY_ERR_EXTERNAL,
                                            "the GPU's rates cannot be measured: cublasGemmEx "
                                            "returns status %d",
                                            status);
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// Median seconds of `run`. Another one goes before each that is timed, so that the stream is never
// idle between an event and the work.
static int time_runs(struct bench *x, int (*run)(struct bench *x), double *seconds)
{
    float ms[REPEATS];
    int err = TACHY_OK;
    for (int i = 0; i < WARM_UP && err == TACHY_OK; i++)
        err = run(x);
    for (int i = 0; i < REPEATS && err == TACHY_OK; i++) {
        err = run(x);
        if (err == TACHY_OK)
            err = check(x, x->cu->event_record(x->begin, x->stream));
        if (err == TACHY_OK)
            err = run(x);
        if (err == TACHY_OK)
            err = check(x, x->cu->event_record(x->end, x->stream));
        if (err == TACHY_OK)
            err = check(x, x->cu->event_wait(x->end));
        if (err == TACHY_OK)
            err = check(x, x->cu->event_elapsed(&ms[i], x->begin, x->end));
    }
    if (err < 0)
        return err;
    qsort(ms, REPEATS, sizeof(ms[0]), by_value);
    *seconds = (double)ms[REPEATS / 2] * 1e-3;
    return *seconds > 0 ? TACHY_OK
                        : tachy_fail(x->log, TACHY_ERR_EXTERNAL,
                                     "the GPU's rates cannot be measured: its events say 0 s");
}

static int measure_copy(struct bench *x, struct tachy_gpu_rates *r)
{
    size_t bytes = TACHY_MAX((size_t)1 << 30, 8 * x->d->l2_bytes), free_bytes, total;
    double seconds;
    int err = check(x, x->cu->memory_info(&free_bytes, &total));
    if (err < 0)
        return err;
    bytes = TACHY_MIN(bytes, free_bytes / 8) / block_bytes * block_bytes;
    if (!bytes)
        return tachy_fail(x->log, TACHY_ERR_NOMEM,
                          "%s: %zu MiB are free, too few to measure its rates", x->d->name,
                          free_bytes >> 20);
    err = take_memory(x, bytes, false);
    if (err == TACHY_OK)
        err = time_runs(x, run_copy, &seconds);
    if (err == TACHY_OK)
        r->copy_bps = 2.0 * (double)bytes / seconds;
    free_memory(x);
    return err;
}

// Between the GPU and pinned host memory, each direction alone.
static int measure_link(struct bench *x, struct tachy_gpu_rates *r)
{
    double seconds = 0;
    x->bytes = link_bytes;
    int err = check(x, x->cu->memory_alloc(&x->a, x->bytes));
    if (err == TACHY_OK)
        err = check(x, x->cu->pinned_alloc(&x->pinned, x->bytes, 0));
    if (err == TACHY_OK) {
        memset(x->pinned, 0x5a, x->bytes);
        err = time_runs(x, run_to_device, &seconds);
        r->to_device_bps = (double)x->bytes / seconds;
    }
    if (err == TACHY_OK) {
        err = time_runs(x, run_to_host, &seconds);
        r->to_host_bps = (double)x->bytes / seconds;
    }
    if (x->pinned)
        x->cu->pinned_free(x->pinned);
    x->pinned = NULL;
    free_memory(x);
    return err;
}

static int measure_matmul(struct bench *x, enum tachy_rate rate, struct tachy_gpu_rates *r)
{
    size_t bytes = (size_t)MATRIX * MATRIX * (rate == TACHY_RATE_FP16 ? 2 : 4);
    size_t free_bytes, total;
    double seconds;
    int err = check(x, x->cu->memory_info(&free_bytes, &total));
    if (err < 0)
        return err;
    if (free_bytes / 4 < 3 * bytes) {
        tachy_msg(x->log, TACHY_LOG_WARN, "%s: too little memory is free to measure matmul in %s",
                  x->d->name, rate_name(rate));
        return TACHY_OK;
    }
    x->rate = rate;
    err = take_memory(x, bytes, true);
    if (err == TACHY_OK)
        err = time_runs(x, run_matmul, &seconds);
    if (err == TACHY_OK)
        r->flops[rate] = 2.0 * MATRIX * MATRIX * MATRIX / seconds;
    free_memory(x);
    return err;
}

static int measure(struct bench *x, struct tachy_gpu_rates *r)
{
    int err = measure_copy(x, r);
    if (err == TACHY_OK)
        err = measure_link(x, r);
    if (err < 0 || tachy_cublas_load(&x->blas, TACHY_LOG_WARN, x->log) < 0)
        return err;
    int status = x->blas->create(&x->handle);
    if (status == CUBLAS_OK)
        status = x->blas->set_stream(x->handle, x->stream);
    if (status != CUBLAS_OK)
        return tachy_fail(x->log, TACHY_ERR_EXTERNAL, "cuBLAS (%s) cannot be started: status %d",
                          tachy_cuda_library_path("cublas"), status);
    for (int rate = 0; rate < TACHY_RATE_COUNT && err == TACHY_OK; rate++)
        err = measure_matmul(x, (enum tachy_rate)rate, r);
    return err;
}

// The file's key of a device.
static void device_key(char *key, size_t size, const struct tachy_device *d)
{
    snprintf(key, size, "%s, %zu MiB, driver for CUDA %d.%d", d->name, d->bytes >> 20,
             d->driver / 1000, d->driver % 1000 / 10);
}

static json_t *read_cache(char **path)
{
    char *dir = tachy_cache_dir();
    *path = dir ? tachy_asprintf("%s/gpu-rates.json", dir) : NULL;
    tachy_free(dir);
    json_t *o = *path ? json_load_file(*path, 0, NULL) : NULL;
    if (json_is_object(o))
        return o;
    json_decref(o);
    return json_object();
}

bool tachy_gpu_rates_cached(struct tachy_gpu_rates *r, const struct tachy_device *d)
{
    char key[200], *path;
    json_t *o = read_cache(&path);
    device_key(key, sizeof(key), d);
    const json_t *e = json_object_get(o, key);
    *r = (struct tachy_gpu_rates){
        .copy_bps = json_number_value(json_object_get(e, "copy_bps")),
        .to_host_bps = json_number_value(json_object_get(e, "to_host_bps")),
        .to_device_bps = json_number_value(json_object_get(e, "to_device_bps")),
    };
    for (int i = 0; i < TACHY_RATE_COUNT; i++)
        r->flops[i] = json_number_value(json_object_get(e, rate_name((enum tachy_rate)i)));
    json_decref(o);
    tachy_free(path);
    return r->copy_bps > 0 && r->to_host_bps > 0 && r->to_device_bps > 0;
}

static void write_cache(const struct tachy_gpu_rates *r, const struct tachy_device *d,
                        const struct tachy_log *log)
{
    char key[200], *path;
    json_t *o = read_cache(&path), *e = json_object();
    device_key(key, sizeof(key), d);
    json_object_set_new(e, "copy_bps", json_real(r->copy_bps));
    json_object_set_new(e, "to_host_bps", json_real(r->to_host_bps));
    json_object_set_new(e, "to_device_bps", json_real(r->to_device_bps));
    for (int i = 0; i < TACHY_RATE_COUNT; i++)
        json_object_set_new(e, rate_name((enum tachy_rate)i), json_real(r->flops[i]));
    json_object_set_new(o, key, e);
    char *text = path ? json_dumps(o, JSON_INDENT(2)) : NULL;
    // Without a cache it is measured again the next time.
    if (text)
        tachy_write_file(path, text, strlen(text), log);
    json_decref(o);
    free(text);
    tachy_free(path);
}

int tachy_gpu_rates_measure(struct tachy_gpu_rates *r, struct tachy_device *d,
                            const struct tachy_log *log)
{
    struct bench x = {.d = d, .cu = d->cu, .log = log};
    *r = (struct tachy_gpu_rates){0};
    int err = tachy_device_enter(d, log);
    if (err < 0)
        return err;
    err = bench_open(&x);
    if (err == TACHY_OK)
        err = measure(&x, r);
    bench_close(&x);
    tachy_device_leave(d);
    if (err == TACHY_OK && r->flops[TACHY_RATE_FP16] > 0)
        write_cache(r, d, log);
    return err;
}

int tachy_gpu_rates(struct tachy_gpu_rates *r, struct tachy_device *d, const struct tachy_log *log)
{
    return tachy_gpu_rates_cached(r, d) ? TACHY_OK : tachy_gpu_rates_measure(r, d, log);
}
