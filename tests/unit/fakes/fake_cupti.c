// CUPTI without a GPU: records are what the test adds, in buffers and sizes as CUPTI's own are.
#include "fake.h"

#include <string.h>
#include <time.h>

// Whole sizes of CUDA 13's records.
enum { KERNEL_BYTES = 208, COPY_BYTES = 88, OTHER_BYTES = 24, OTHER_KIND = 17 };

static cupti_requested_fn requested;
static cupti_completed_fn completed;
static uint8_t *buffer;
static size_t size, used, lost;
static int failure, enabled;

FAKE_API void fake_cupti_fail(int status) { failure = status; }
FAKE_API int fake_cupti_enabled(void) { return enabled; }

static uint64_t on_cupti(uint64_t ns)
{
    return (uint64_t)(FAKE_CUPTI_START) + (uint64_t)((double)ns * FAKE_CUPTI_CLOCK);
}

static void hand_over(void)
{
    if (buffer)
        completed(NULL, 0, buffer, size, used);
    buffer = NULL;
}

static void append(const void *record, size_t known, size_t bytes)
{
    size_t max_records = 0;
    if (buffer && used + bytes > size)
        hand_over();
    if (!buffer) {
        requested(&buffer, &size, &max_records);
        used = 0;
    }
    if (!buffer || size < bytes) {
        lost++;
        return;
    }
    memset(buffer + used, 0xee, bytes); // members that nobody may look at
    memcpy(buffer + used, record, known);
    used += bytes;
}

FAKE_API void fake_cupti_kernel(const char *name, uint32_t stream, uint64_t start, uint64_t end)
{
    struct cupti_kernel k = {.kind = CUPTI_CONCURRENT_KERNEL,
                             .start = start ? on_cupti(start) : 0,
                             .end = end ? on_cupti(end) : 0,
                             .stream = stream,
                             .name = name};
    append(&k, sizeof(k), KERNEL_BYTES);
}

FAKE_API void fake_cupti_copy(int copy, int from, int to, uint64_t bytes, uint32_t stream,
                              uint64_t start, uint64_t end)
{
    struct cupti_memcpy m = {.kind = CUPTI_MEMCPY,
                             .copy = (uint8_t)copy,
                             .from = (uint8_t)from,
                             .to = (uint8_t)to,
                             .bytes = bytes,
                             .start = on_cupti(start),
                             .end = on_cupti(end),
                             .stream = stream};
    append(&m, sizeof(m), COPY_BYTES);
}

FAKE_API void fake_cupti_other(uint32_t stream)
{
    struct cupti_record r = {OTHER_KIND};
    append(&r, sizeof(r), OTHER_BYTES);
}

FAKE_API int cuptiGetResultString(int result, const char **text)
{
    *text = "CUPTI_ERROR_FAKE";
    return 0;
}

FAKE_API int cuptiGetTimestamp(uint64_t *ns)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    *ns = on_cupti((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
    return 0;
}

FAKE_API int cuptiActivityRegisterCallbacks(cupti_requested_fn r, cupti_completed_fn c)
{
    requested = r;
    completed = c;
    return 0;
}

FAKE_API int cuptiActivityEnable(int kind)
{
    enabled += !failure;
    return failure;
}

FAKE_API int cuptiActivityDisable(int kind)
{
    enabled--;
    return 0;
}

FAKE_API int cuptiActivityFlushAll(uint32_t flags)
{
    hand_over();
    return 0;
}

static size_t size_of(uint32_t kind)
{
    return kind == CUPTI_CONCURRENT_KERNEL ? KERNEL_BYTES
           : kind == CUPTI_MEMCPY          ? COPY_BYTES
                                           : OTHER_BYTES;
}

FAKE_API int cuptiActivityGetNextRecord(uint8_t *at, size_t valid, struct cupti_record **record)
{
    uint8_t *next = *record ? (uint8_t *)*record + size_of((*record)->kind) : at;
    if (next >= at + valid)
        return CUPTI_NO_MORE_RECORDS;
    *record = (struct cupti_record *)(void *)next;
    return 0;
}

FAKE_API int cuptiActivityGetNumDroppedRecords(cuda_context context, uint32_t stream, size_t *n)
{
    *n = lost;
    lost = 0;
    return 0;
}
