#pragma once
#include "check.h"

#include "cuda/device.h"
#include "cuda/kernels.h"

// The GPU that the kernels of src/cuda are checked on. An operation of the checker for them has
// `cuda` set; its context is current while run() runs.
struct check_gpu {
    struct tachy_device device;
    const struct tachy_cu *cu;
    const struct tachy_cuda_kernels *kernels;
    cuda_stream stream;
    cuda_event from, to;
    cuda_address flush; // written between timed runs: more than the L2 holds
    size_t flush_bytes;
};

// false after a sentence on standard output: no kernels in this build, no driver, no GPU.
bool check_gpu_open(struct check_gpu *g);
void check_gpu_close(struct check_gpu *g); // also of a zeroed one

// GPU memory that ends at the end of its block, so that compute-sanitizer sees accesses past it. The program ends if
// there is none left. put: with these bytes; poison: with a pattern that is neither zero nor a likely result.
cuda_address check_gpu_put(struct check *c, const void *data, size_t bytes);
cuda_address check_gpu_poison(struct check *c, size_t bytes);
void check_gpu_free(struct check *c, cuda_address at);
// Waits for the stream, then copies. A failed kernel is a failed case.
void check_gpu_get(struct check *c, void *data, cuda_address at, size_t bytes);
// Counts a launch's status: 0 or a failed case that names `what`.
void check_gpu_launched(struct check *c, int status, const char *what);

// For check_gpu_time() of a kernel in the table: defines `struct timed_<kernel>`, which is {c, {arguments}}, and
// launch_<kernel>(), which takes one. A refused launch is a failed case.
#define CHECK_GPU_TIMED(kernel, arguments)                                                         \
    struct timed_##kernel {                                                                        \
        struct check *c;                                                                           \
        arguments p;                                                                               \
    };                                                                                             \
    static void launch_##kernel(void *arg)                                                         \
    {                                                                                              \
        struct timed_##kernel *t = arg;                                                            \
        int status = t->c->gpu->kernels->kernel(&t->p, t->c->gpu->stream);                         \
        if (status != CUDA_OK)                                                                     \
            check_gpu_launched(t->c, status, #kernel);                                             \
    }

// Median seconds on the GPU of launch(arg), between events, after warm-up, with the L2 flushed before
// each run. To time many small launches put a loop into launch and divide.
double check_gpu_time(struct check *c, void (*launch)(void *), void *arg);
// As above for a launch that passes through several times the L2's size before it touches a byte again: instead of
// flushing (the write-back of flushed lines would be counted), it runs eight times round.
double check_gpu_time_rotating(struct check *c, void (*launch)(void *), void *arg);
// "op  gpu  case  microseconds  GB/s  share of the copy rate measured in this run"
void check_gpu_row(struct check *c, const char *op, const char *what, double seconds, double bytes);
