#pragma once
// Tests over libraries that have the names and functions of NVIDIA's (fakes/), found as those would be. The real ones: tests/gpu.
#include "test.h"

#include "base/base.h"
#include "cuda/kernels.h"
#include "cuda/mem.h"
#include "fakes/fake.h"
#include "fakes/symbol.h"

#include <math.h>

// Asked for once at each place: ThreadSanitizer makes dlopen() slow.
#define FAKE(file, fn, ...)                                                                        \
    ({                                                                                             \
        static __typeof__(fn) *fn_;                                                                \
        if (!fn_)                                                                                  \
            fn_ = (__typeof__(fn) *)fake_symbol(file, #fn);                                        \
        fn_(__VA_ARGS__);                                                                          \
    })
#define CUDA(fn, ...) FAKE("libcuda.so.1", fn, __VA_ARGS__)
#define NVML(fn, ...) FAKE("libnvidia-ml.so.1", fn, __VA_ARGS__)
#define CUPTI(fn, ...) FAKE("libcupti.so.13", fn, __VA_ARGS__)

static char last_message[1024];
static int messages;

static inline void on_message(void *user, enum tachy_log_level level, const char *msg)
{
    snprintf(last_message, sizeof(last_message), "%s", msg);
    messages++;
}
static const struct tachy_log log_errors = {.fn = on_message, .max_level = TACHY_LOG_WARN};

static struct tachy_device device;

static inline void open_device(void)
{
    const struct tachy_cu *cu;
    CHECK_INT(tachy_cu_load(&cu, TACHY_LOG_ERR, &log_errors), TACHY_OK);
    CHECK_INT(tachy_device_describe(&device, cu, 0, &log_errors), TACHY_OK);
}

static inline bool near(double v, double expected, double tolerance)
{
    if (fabs(v / expected - 1) <= tolerance)
        return true;
    fprintf(stderr, "%g is not within %g of %g\n", v, tolerance, expected);
    return false;
}
