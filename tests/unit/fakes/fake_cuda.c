// A CUDA driver without a GPU: streams are moments up to which they are busy, events moments at
// which they happen. Time passes as the host's does, on a clock that is 150 ppm faster and starts
// elsewhere, as a device's own would. Nothing is computed; device memory is memory of the host's that
// nobody has touched, which pictures (cuMemcpy2D) and small pieces are copied from and to, and filled.
#include "cuda/abi.h"
#include "fake.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { SMALL = 1 << 19 }; // bytes of a copy in one piece that is made; larger ones only take their time

struct cuda_stream_handle {
    uint64_t busy_until; // host ns
    cuda_context of;
    cuda_stream next; // that exists
};
struct cuda_event_handle {
    uint64_t at; // host ns
    int recorded;
    cuda_context of;
    cuda_event next;
};
enum { OTHER_CONTEXT = 400 }; // CUDA_ERROR_INVALID_HANDLE

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int failure, init_failure;
static struct fake_cuda_counts counts;
static cuda_stream all_streams;
static cuda_event all_events;

// The call that fails. Calls that release something are not counted, since a caller can only try once: they succeed.
// After a persistent error they fail too, and the context frees everything when it ends.
static struct {
    _Atomic int at, status, how, calls; // at: its number; -1: none
    const char *_Atomic name;             // NULL: it was not reached
} fault = {.at = -1};

FAKE_API int fake_cuda_fail_at(int n, int status, int how)
{
    fault.at = -1;
    fault.name = NULL;
    fault.status = status;
    fault.how = how;
    int calls = atomic_exchange(&fault.calls, 0);
    fault.at = n;
    return calls;
}

FAKE_API const char *fake_cuda_failed(void) { return fault.name; }

int fake_cuda_refused(const char *name) // also of what is in the other file
{
    int n = fault.calls++;
    if (fault.name)
        return fault.how & FAKE_STAYS ? fault.status : 0;
    if (n != fault.at)
        return 0;
    fault.name = name;
    return fault.status;
}

static int refused_for_good(void) { return fault.name && fault.how & FAKE_STAYS ? fault.status : 0; }

#define MAY_FAIL()                                                                                            \
    do {                                                                                                      \
        int refused_ = fake_cuda_refused(__func__);                                                                     \
        if (refused_)                                                                                         \
            return refused_;                                                                                  \
    } while (0)
#define MAY_STAY()                                                                                            \
    do {                                                                                                      \
        if (refused_for_good())                                                                               \
            return refused_for_good();                                                                        \
    } while (0)

enum { NAMES = 32 };
static struct {
    const char *_Atomic name;
    _Atomic int times;
} names[NAMES];

static void called(const char *name)
{
    counts.calls++;
    for (int i = 0; i < NAMES; i++) {
        const char *is = NULL;
        if (names[i].name == name || atomic_compare_exchange_strong(&names[i].name, &is, name) || is == name) {
            names[i].times++;
            return;
        }
    }
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
        ;
}

static void occupy(cuda_stream s, double seconds)
{
    uint64_t now = now_ns();
    if (!s) // the default stream, which nobody of ours works on
        return;
    pthread_mutex_lock(&lock);
    if (s->busy_until < now)
        s->busy_until = now;
    s->busy_until += (uint64_t)(seconds * 1e9);
    pthread_mutex_unlock(&lock);
}

FAKE_API int fake_cuda_launch(cuda_stream s, uint64_t ns)
{
    MAY_FAIL();
    occupy(s, (double)ns * 1e-9);
    return 0;
}

FAKE_API uint64_t fake_cuda_busy(cuda_stream s)
{
    pthread_mutex_lock(&lock);
    uint64_t until = s->busy_until;
    pthread_mutex_unlock(&lock);
    return until;
}

FAKE_API void fake_cuda_fail(int status) { failure = status; }
FAKE_API void fake_cuda_fail_init(int status) { init_failure = status; }
FAKE_API struct fake_cuda_counts *fake_cuda_count(void) { return &counts; }

FAKE_API const char *fake_cuda_called(int i, int *times)
{
    *times = i < NAMES ? names[i].times : 0;
    return i < NAMES ? names[i].name : NULL;
}

FAKE_API int cuInit(unsigned flags) { return init_failure; }

FAKE_API int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

FAKE_API int cuGetErrorName(int error, const char **text)
{
    *text = error == CUDA_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_FAKE";
    return 0;
}

FAKE_API int cuGetErrorString(int error, const char **text)
{
    *text = error == CUDA_NO_DEVICE ? "no CUDA-capable device is detected" : "a fake failure";
    return 0;
}

static int gpus = 1;

FAKE_API void fake_cuda_list(int n) { gpus = n; }

// FAKE_CUDA_GPUS="1,0": those that the driver counts, in this order, as CUDA_VISIBLE_DEVICES says it to a real one. Each is one digit.
static const char *visible(void)
{
    const char *order = getenv("FAKE_CUDA_GPUS");
    return order && *order ? order : NULL;
}

static int count_gpus(void) { return visible() ? (int)strlen(visible()) / 2 + 1 : gpus; }

FAKE_API int cuDeviceGetCount(int *n)
{
    MAY_FAIL();
    *n = count_gpus();
    return 0;
}

FAKE_API int cuDeviceGet(cuda_device *device, int ordinal)
{
    MAY_FAIL();
    *device = ordinal;
    return ordinal < count_gpus() ? 0 : 101;
}

FAKE_API int cuDeviceGetName(char *name, int size, cuda_device device)
{
    MAY_FAIL();
    snprintf(name, (size_t)size, "Fake GPU");
    return 0;
}

FAKE_API int cuDeviceTotalMem_v2(size_t *bytes, cuda_device device)
{
    MAY_FAIL();
    *bytes = (size_t)16 << 30;
    return 0;
}

enum { TEXTURE_ALIGNMENT = 14 };

FAKE_API int cuDeviceGetAttribute(int *value, int attribute, cuda_device device)
{
    MAY_FAIL();
    *value = attribute == CUDA_ATTR_CC_MAJOR   ? 9
             : attribute == CUDA_ATTR_CC_MINOR ? 0
             : attribute == CUDA_ATTR_SM_COUNT ? 132
             : attribute == TEXTURE_ALIGNMENT  ? 512
                                               : 50 << 20;
    return 0;
}

FAKE_API int cuDeviceGetPCIBusId(char *id, int size, cuda_device device)
{
    MAY_FAIL();
    snprintf(id, (size_t)size, "0000:%02x:00.0", (visible() ? visible()[2 * device] - '0' : device) + 1);
    return 0;
}

enum { MOST = 32, PUSHED = 32, MADE = 16 };

// Primary ones, then those that were made; a thread has a stack of current ones.
static struct { int device, made; } contexts[MOST + MADE];
static _Thread_local struct { cuda_context on[PUSHED]; int n; } current;

static cuda_context context_at(int i) { return (cuda_context)&contexts[i]; }
static cuda_context now_in(void) { return current.n ? current.on[current.n - 1] : NULL; }

FAKE_API int fake_cuda_device_of(const void *context)
{
    for (int i = 0; i < MOST + MADE; i++)
        if ((const void *)context_at(i) == context)
            return i < MOST ? i : contexts[i].device;
    return -1;
}

enum { DEVICE_GIB = 16, BLOCKS = 2048 };
static struct {
    cuda_address at;
    size_t bytes;
    cuda_context of;
    int pinned;
} blocks[BLOCKS];
static size_t others = (size_t)1 << 30, ours; // bytes taken on the device

// Under the lock.
static int free_block(void)
{
    int i = 0;
    while (i < BLOCKS && blocks[i].at)
        i++;
    return i;
}

static void set_block(int i, void *data, size_t bytes, int pinned)
{
    blocks[i].at = (cuda_address)(uintptr_t)data;
    blocks[i].bytes = bytes;
    blocks[i].of = now_in();
    blocks[i].pinned = pinned;
    ours += pinned ? 0 : bytes;
    counts.allocations++;
}

static void drop_block(int i)
{
    void *data = (void *)(uintptr_t)blocks[i].at;
    if (blocks[i].pinned)
        free(data);
    else
        munmap(data, blocks[i].bytes);
    ours -= blocks[i].pinned ? 0 : blocks[i].bytes;
    blocks[i].at = 0;
    counts.allocations--;
}

FAKE_API int cuDevicePrimaryCtxRetain(cuda_context *context, cuda_device device)
{
    MAY_FAIL();
    pthread_mutex_lock(&lock);
    counts.contexts++;
    contexts[device % MOST].made++;
    pthread_mutex_unlock(&lock);
    *context = context_at(device % MOST);
    return 0;
}

// A context's end frees its streams, events and memory, which nobody can release after an error. Only after a planned
// failure, so that leaks are found everywhere else.
static void end_context(cuda_context c)
{
    for (cuda_stream *s = &all_streams; *s;) {
        cuda_stream it = *s;
        if (it->of != c) {
            s = &it->next;
            continue;
        }
        *s = it->next;
        free(it);
        counts.streams--;
        counts.taken_along++;
    }
    for (cuda_event *e = &all_events; *e;) {
        cuda_event it = *e;
        if (it->of != c) {
            e = &it->next;
            continue;
        }
        *e = it->next;
        free(it);
        counts.events--;
        counts.taken_along++;
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].at && blocks[i].of == c) {
            drop_block(i);
            counts.taken_along++;
        }
    }
}

FAKE_API int cuDevicePrimaryCtxRelease_v2(cuda_device device)
{
    pthread_mutex_lock(&lock);
    counts.contexts--;
    if (!--contexts[device % MOST].made && fault.name)
        end_context(context_at(device % MOST));
    pthread_mutex_unlock(&lock);
    return 0;
}

static _Atomic int pushes = -1;
FAKE_API void fake_cuda_fail_push(int n) { pushes = n; }

FAKE_API int cuCtxPushCurrent_v2(cuda_context context)
{
    called(__func__);
    if (!(fault.how & FAKE_INSIDE))
        MAY_FAIL();
    if (pushes >= 0 && pushes-- <= 0) {
        pushes = 0;
        return 201; // CUDA_ERROR_INVALID_CONTEXT
    }
    if (!context || current.n == PUSHED)
        return 201;
    current.on[current.n++] = context;
    return 0;
}

FAKE_API int cuCtxPopCurrent_v2(cuda_context *context)
{
    called(__func__);
    if (!current.n)
        return 201;
    *context = current.on[--current.n];
    return 0;
}

FAKE_API int fake_cuda_depth(void) { return current.n; }

FAKE_API int cuCtxGetDevice(cuda_device *device)
{
    MAY_FAIL();
    *device = current.n ? fake_cuda_device_of(current.on[current.n - 1]) : 0;
    return current.n ? 0 : 201;
}

FAKE_API int cuCtxCreate_v2(cuda_context *context, unsigned flags, cuda_device device)
{
    MAY_FAIL();
    int i = MOST;
    pthread_mutex_lock(&lock);
    while (i < MOST + MADE && contexts[i].made)
        i++;
    if (i < MOST + MADE) {
        contexts[i].made = 1;
        contexts[i].device = device;
        counts.contexts++;
    }
    pthread_mutex_unlock(&lock);
    if (i == MOST + MADE)
        return CUDA_OUT_OF_MEMORY;
    *context = context_at(i);
    return cuCtxPushCurrent_v2(*context); // as the driver does
}

FAKE_API int cuCtxDestroy_v2(cuda_context context)
{
    for (int i = MOST; i < MOST + MADE; i++) {
        if (context_at(i) != context || !contexts[i].made)
            continue;
        pthread_mutex_lock(&lock);
        contexts[i].made = 0;
        counts.contexts--;
        if (fault.name)
            end_context(context);
        pthread_mutex_unlock(&lock);
        return 0;
    }
    return 201;
}

FAKE_API void fake_cuda_others(size_t bytes)
{
    pthread_mutex_lock(&lock);
    others = bytes;
    pthread_mutex_unlock(&lock);
}

FAKE_API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    MAY_FAIL();
    pthread_mutex_lock(&lock);
    *total = (size_t)DEVICE_GIB << 30;
    *free_bytes = *total - others - ours;
    pthread_mutex_unlock(&lock);
    return 0;
}

FAKE_API int cuMemAlloc_v2(cuda_address *at, size_t bytes)
{
    MAY_FAIL();
    int err = CUDA_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    int i = free_block();
    if (i < BLOCKS && bytes <= ((size_t)DEVICE_GIB << 30) - others - ours) {
        void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (data != MAP_FAILED) {
            set_block(i, data, bytes, 0);
            *at = blocks[i].at;
            err = 0;
        }
    }
    pthread_mutex_unlock(&lock);
    return err;
}

static int free_at(cuda_address at, int pinned)
{
    int err = 1; // CUDA_ERROR_INVALID_VALUE
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BLOCKS && err; i++) {
        if (!at || blocks[i].at != at || blocks[i].pinned != pinned)
            continue;
        drop_block(i);
        err = 0;
    }
    pthread_mutex_unlock(&lock);
    return err;
}

FAKE_API int cuMemFree_v2(cuda_address at)
{
    MAY_STAY();
    return free_at(at, 0);
}

FAKE_API int cuMemHostAlloc(void **data, size_t bytes, unsigned flags)
{
    MAY_FAIL();
    int err = CUDA_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    int i = free_block();
    *data = i < BLOCKS ? aligned_alloc(4096, (bytes + 4095) / 4096 * 4096) : NULL;
    if (*data) {
        set_block(i, *data, bytes, 1);
        err = 0;
    }
    pthread_mutex_unlock(&lock);
    return err;
}

FAKE_API int cuMemFreeHost(void *data)
{
    MAY_STAY();
    return free_at((cuda_address)(uintptr_t)data, 1);
}

FAKE_API size_t fake_cuda_bytes_at(cuda_address at)
{
    size_t bytes = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].at && !blocks[i].pinned && at >= blocks[i].at && at < blocks[i].at + blocks[i].bytes)
            bytes = (size_t)(blocks[i].at + blocks[i].bytes - at);
    pthread_mutex_unlock(&lock);
    return bytes;
}

static void count_pageable(const void *from)
{
    const cuda_address at = (cuda_address)(uintptr_t)from;
    bool pinned = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BLOCKS && !pinned; i++)
        pinned = blocks[i].at && blocks[i].pinned && at >= blocks[i].at && at < blocks[i].at + blocks[i].bytes;
    counts.pageable += !pinned;
    pthread_mutex_unlock(&lock);
}

static int copy_small(void *to, const void *from, size_t bytes)
{
    if (!failure && bytes <= SMALL)
        memcpy(to, from, bytes);
    return failure;
}

FAKE_API int cuMemcpyHtoD_v2(cuda_address to, const void *from, size_t bytes)
{
    MAY_FAIL();
    return copy_small((void *)(uintptr_t)to, from, bytes);
}

FAKE_API int cuMemcpyDtoH_v2(void *to, cuda_address from, size_t bytes)
{
    MAY_FAIL();
    return copy_small(to, (const void *)(uintptr_t)from, bytes);
}

static int fill_small(cuda_address at, unsigned char value, size_t bytes)
{
    if (!failure && bytes <= SMALL)
        memset((void *)(uintptr_t)at, value, bytes);
    return failure;
}

FAKE_API int cuMemsetD8_v2(cuda_address at, unsigned char value, size_t bytes)
{
    MAY_FAIL();
    return fill_small(at, value, bytes);
}

FAKE_API int cuMemcpyHtoDAsync_v2(cuda_address to, const void *from, size_t bytes, cuda_stream stream)
{
    called(__func__);
    MAY_FAIL();
    if (stream && stream->of != now_in())
        return OTHER_CONTEXT;
    count_pageable(from);
    copy_small((void *)(uintptr_t)to, from, bytes);
    occupy(stream, 2 * (double)bytes / FAKE_COPY_BPS);
    return failure;
}

FAKE_API int cuMemcpyDtoHAsync_v2(void *to, cuda_address from, size_t bytes, cuda_stream stream)
{
    called(__func__);
    MAY_FAIL();
    if (stream && stream->of != now_in())
        return OTHER_CONTEXT;
    copy_small(to, (const void *)(uintptr_t)from, bytes);
    occupy(stream, 2 * (double)bytes / FAKE_COPY_BPS);
    return failure;
}

static _Atomic int one_by_one;
FAKE_API void fake_cuda_one_by_one(int on) { one_by_one = on; }

FAKE_API int cuMemcpyBatchAsync_v2(cuda_address *to, cuda_address *from, size_t *bytes, size_t count,
                                   struct cuda_copy_attributes *attributes, size_t *first_of, size_t nb, cuda_stream stream)
{
    called(__func__);
    if (one_by_one)
        return 801; // CUDA_ERROR_NOT_SUPPORTED
    MAY_FAIL();
    if (!stream || stream->of != now_in() || nb != 1 || first_of[0] || attributes->order != CUDA_COPY_IN_ORDER)
        return CUDA_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        copy_small((void *)(uintptr_t)to[i], (const void *)(uintptr_t)from[i], bytes[i]);
        occupy(stream, 2 * (double)bytes[i] / FAKE_COPY_BPS);
    }
    return failure;
}

FAKE_API int cuMemsetD8Async(cuda_address at, unsigned char value, size_t bytes, cuda_stream stream)
{
    called(__func__);
    MAY_FAIL();
    if (stream && stream->of != now_in())
        return OTHER_CONTEXT;
    occupy(stream, (double)bytes / FAKE_COPY_BPS);
    return fill_small(at, value, bytes);
}

FAKE_API int cuStreamWaitEvent(cuda_stream stream, cuda_event event, unsigned flags)
{
    called(__func__);
    MAY_FAIL();
    pthread_mutex_lock(&lock);
    if (event->recorded && stream->busy_until < event->at)
        stream->busy_until = event->at;
    pthread_mutex_unlock(&lock);
    return failure;
}

FAKE_API int cuMemcpyDtoDAsync_v2(cuda_address to, cuda_address from, size_t bytes,
                                  cuda_stream stream)
{
    called(__func__);
    MAY_FAIL();
    occupy(stream, 2 * (double)bytes / FAKE_COPY_BPS);
    return copy_small((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
}

FAKE_API int cuMemcpy2DAsync_v2(const struct cuda_copy_2d *c, cuda_stream stream)
{
    called(__func__);
    MAY_FAIL();
    const char *from = c->from_kind == CUDA_MEMORY_DEVICE ? (char *)(uintptr_t)c->from_device : c->from_host;
    char *to = c->to_kind == CUDA_MEMORY_DEVICE ? (char *)(uintptr_t)c->to_device : c->to_host;
    if (c->width > c->from_pitch || c->width > c->to_pitch)
        return 1; // CUDA_ERROR_INVALID_VALUE
    if (c->from_kind != CUDA_MEMORY_DEVICE && c->to_kind == CUDA_MEMORY_DEVICE)
        count_pageable(from);
    for (size_t y = 0; y < c->height && !failure; y++)
        memcpy(to + y * c->to_pitch, from + y * c->from_pitch, c->width);
    occupy(stream, 2 * (double)(c->width * c->height) / FAKE_COPY_BPS);
    return failure;
}

// Each capture is spoilt, as happens while other threads open decoders; launches meanwhile still run.
FAKE_API int cuStreamBeginCapture_v2(cuda_stream stream, int mode)
{
    called(__func__);
    MAY_FAIL();
    return 0;
}

FAKE_API int cuStreamEndCapture(cuda_stream stream, cuda_capture *capture)
{
    *capture = NULL;
    return 901; // CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
}

FAKE_API int cuGraphDestroy(cuda_capture capture) { return 0; }
FAKE_API int cuGraphInstantiateWithFlags(cuda_graph_exec *graph, cuda_capture capture, unsigned long long flags) { return 801; }
FAKE_API int cuGraphExecDestroy(cuda_graph_exec graph) { return 0; }
FAKE_API int cuGraphLaunch(cuda_graph_exec graph, cuda_stream stream) { return 801; } // CUDA_ERROR_NOT_SUPPORTED

FAKE_API int cuStreamCreate(cuda_stream *stream, unsigned flags)
{
    MAY_FAIL();
    cuda_stream s = *stream = calloc(1, sizeof(*s));
    if (!s)
        return CUDA_OUT_OF_MEMORY;
    s->of = now_in();
    pthread_mutex_lock(&lock);
    s->next = all_streams;
    all_streams = s;
    counts.streams++;
    pthread_mutex_unlock(&lock);
    return 0;
}

FAKE_API int cuStreamCreateWithPriority(cuda_stream *stream, unsigned flags, int priority)
{
    pthread_mutex_lock(&lock);
    counts.first += priority < 0;
    pthread_mutex_unlock(&lock);
    return cuStreamCreate(stream, flags);
}

FAKE_API int cuStreamDestroy_v2(cuda_stream stream)
{
    MAY_STAY();
    pthread_mutex_lock(&lock);
    cuda_stream *s = &all_streams;
    while (*s != stream)
        s = &(*s)->next;
    *s = stream->next;
    counts.streams--;
    pthread_mutex_unlock(&lock);
    free(stream);
    return 0;
}

FAKE_API int cuStreamSynchronize(cuda_stream stream)
{
    called(__func__);
    MAY_FAIL();
    pthread_mutex_lock(&lock);
    uint64_t until = stream ? stream->busy_until : 0; // NULL: the default one
    counts.waits++;
    pthread_mutex_unlock(&lock);
    sleep_until(until);
    return failure;
}

FAKE_API int cuEventCreate(cuda_event *event, unsigned flags)
{
    MAY_FAIL();
    cuda_event e = *event = calloc(1, sizeof(*e));
    if (!e)
        return CUDA_OUT_OF_MEMORY;
    e->of = now_in();
    pthread_mutex_lock(&lock);
    e->next = all_events;
    all_events = e;
    counts.events++;
    pthread_mutex_unlock(&lock);
    return 0;
}

FAKE_API int cuEventDestroy_v2(cuda_event event)
{
    MAY_STAY();
    pthread_mutex_lock(&lock);
    cuda_event *e = &all_events;
    while (*e != event)
        e = &(*e)->next;
    *e = event->next;
    counts.events--;
    pthread_mutex_unlock(&lock);
    free(event);
    return 0;
}

FAKE_API int cuEventRecord(cuda_event event, cuda_stream stream)
{
    called(__func__);
    MAY_FAIL();
    uint64_t now = now_ns();
    if (event->of != stream->of)
        return OTHER_CONTEXT;
    pthread_mutex_lock(&lock);
    event->at = stream->busy_until > now ? stream->busy_until : now;
    event->recorded = 1;
    pthread_mutex_unlock(&lock);
    return failure;
}

FAKE_API int cuEventQuery(cuda_event event)
{
    called(__func__);
    MAY_FAIL();
    if (!pushes)
        return 201; // CUDA_ERROR_INVALID_CONTEXT, as a driver might say outside of one
    pthread_mutex_lock(&lock);
    uint64_t at = event->at;
    pthread_mutex_unlock(&lock);
    return failure ? failure : now_ns() >= at ? 0 : CUDA_NOT_READY;
}

FAKE_API int cuEventSynchronize(cuda_event event)
{
    called(__func__);
    MAY_FAIL();
    pthread_mutex_lock(&lock);
    counts.waits++;
    pthread_mutex_unlock(&lock);
    sleep_until(event->at);
    return failure;
}

FAKE_API int cuEventElapsedTime(float *ms, cuda_event from, cuda_event to)
{
    MAY_FAIL();
    if (!from->recorded || !to->recorded)
        return 400;
    if (failure)
        return failure;
    *ms = (float)((double)(int64_t)(to->at - from->at) * FAKE_GPU_CLOCK * 1e-6);
    return 0;
}
