#include "cuda/nvjpeg.h"

#include "base/base.h"

#include <stdlib.h>

// Each decoder has a stream of its own and waits for it. Several pictures of one call go to several engines, but those of several
// calls hardly: an H100 with seven engines decodes 640x480 at 4,000 pictures/s one by one, at 5,300 by 16 threads one by one, at 13,700
// eight by eight and at 24,300 by 32.

struct tachy_nvjpeg {
    struct tachy_gpu *gpu;
    const struct tachy_nvjpeg_library *lib;
    nvjpeg_handle handle;
    nvjpeg_state state;
    int output, pictures; // that the state was made ready for; 0: none
    cuda_stream stream;
    cuda_event before, done;
};

static int open_library(struct tachy_nvjpeg *j, const struct tachy_log *log)
{
    int status = j->lib->create(NVJPEG_HARDWARE, NULL, NULL, 0, &j->handle);
    if (status == NVJPEG_OK)
        status = j->lib->state_create(j->handle, &j->state);
    return status ? tachy_fail(log, TACHY_ERR_UNSUPPORTED, "GPU %d (%s) has no engines that decode JPEG pictures (nvJPEG's status %d)",
                               j->gpu->device.ordinal, j->gpu->device.name, status)
                  : TACHY_OK;
}

static int open_stream(struct tachy_nvjpeg *j, const struct tachy_log *log)
{
    const struct tachy_cu *cu = j->gpu->device.cu;
    int err = tachy_cu_check(cu, cu->stream_create(&j->stream, CUDA_STREAM_OWN_ORDER), log, "a stream");
    if (err == TACHY_OK)
        err = tachy_cu_check(cu, cu->event_create(&j->before, CUDA_EVENT_ORDERS), log, "an event");
    return err < 0 ? err : tachy_cu_check(cu, cu->event_create(&j->done, CUDA_EVENT_BLOCKS), log, "an event");
}

int tachy_nvjpeg_open(struct tachy_nvjpeg **out, struct tachy_gpu *g, const struct tachy_log *log)
{
    struct tachy_nvjpeg *j = *out = calloc(1, sizeof(*j));
    if (!j)
        return TACHY_ERR_NOMEM;
    j->gpu = g;
    int err = tachy_nvjpeg_library_load(&j->lib, TACHY_LOG_ERR, log);
    if (err == TACHY_OK)
        err = tachy_device_enter(&g->device, log);
    if (err == TACHY_OK) {
        err = open_library(j, log);
        if (err == TACHY_OK)
            err = open_stream(j, log);
        tachy_device_leave(&g->device);
    }
    if (err < 0)
        tachy_nvjpeg_close(out);
    return err;
}

void tachy_nvjpeg_close(struct tachy_nvjpeg **nvjpeg)
{
    struct tachy_nvjpeg *j = *nvjpeg;
    *nvjpeg = NULL;
    bool in = j && tachy_device_enter(&j->gpu->device, NULL) == TACHY_OK;
    if (in) {
        const struct tachy_cu *cu = j->gpu->device.cu;
        if (j->state)
            j->lib->state_destroy(j->state);
        if (j->handle)
            j->lib->destroy(j->handle);
        if (j->before)
            cu->event_destroy(j->before);
        if (j->done)
            cu->event_destroy(j->done);
        if (j->stream)
            cu->stream_destroy(j->stream);
        tachy_device_leave(&j->gpu->device);
    }
    free(j);
}

// Makes the state ready for so many. Returns nvJPEG's status.
static int ready(struct tachy_nvjpeg *j, int output, int n)
{
    if (j->output == output && j->pictures == n)
        return NVJPEG_OK;
    int status = j->lib->begin(j->handle, j->state, n, 1, output);
    j->output = status ? 0 : output;
    j->pictures = n;
    return status;
}

// *taken: the library took them.
static int run(struct tachy_nvjpeg *j, const struct tachy_nvjpeg_picture pictures[], int n, int planes, bool *taken)
{
    const struct tachy_cu *cu = j->gpu->device.cu;
    struct nvjpeg_image image[TACHY_NVJPEG_MOST] = {0};
    const uint8_t *data[TACHY_NVJPEG_MOST];
    size_t size[TACHY_NVJPEG_MOST];
    for (int i = 0; i < n; i++) {
        data[i] = pictures[i].data;
        size[i] = pictures[i].size;
        for (int k = 0; k < planes; k++) {
            image[i].plane[k] = tachy_cu_address(pictures[i].plane[k]);
            image[i].pitch[k] = (size_t)pictures[i].stride[k];
        }
    }
    int refused = ready(j, planes == 1 ? NVJPEG_Y : NVJPEG_YUV, n);
    int status = cu->event_record(j->before, j->gpu->stream);
    if (status == CUDA_OK)
        status = cu->stream_wait_event(j->stream, j->before, 0);
    if (status == CUDA_OK && !refused)
        refused = j->lib->decode(j->handle, j->state, data, size, image, j->stream);
    *taken = !refused;
    if (status == CUDA_OK)
        status = cu->event_record(j->done, j->stream);
    return status == CUDA_OK ? cu->event_wait(j->done) : status; // also after a refusal: a part may be under way
}

int tachy_nvjpeg_decode(struct tachy_nvjpeg *j, const struct tachy_nvjpeg_picture pictures[], int n, int planes,
                        const struct tachy_log *log)
{
    bool taken = false;
    int err = tachy_device_enter(&j->gpu->device, log);
    if (err < 0)
        return err;
    err = tachy_cu_check(j->gpu->device.cu, run(j, pictures, n, planes, &taken), log, "JPEG pictures cannot be decoded");
    tachy_device_leave(&j->gpu->device);
    return err < 0 ? err : taken ? TACHY_OK : TACHY_ERR_UNSUPPORTED;
}
