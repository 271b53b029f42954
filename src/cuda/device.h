#pragma once
#include "cuda/loader.h"

// One GPU: what it is, and its primary context, which is the one that every library in the
// process shares.
struct tachy_device {
    const struct tachy_cu *cu;
    int ordinal; // CUDA's
    cuda_device id;
    char name[128], pci[32];
    int cc_major, cc_minor, sm_count;
    size_t bytes, l2_bytes;
    int driver;           // CUDA version that the driver offers, 13000 for 13.0
    cuda_context context; // NULL until retained
};

// Fills *d without creating a context. `cu` from tachy_cu_load().
int tachy_device_describe(struct tachy_device *d, const struct tachy_cu *cu, int ordinal,
                          const struct tachy_log *log);
// Makes the device's primary context current to the calling thread; undo with leave, in the reverse order. May be
// nested, also for several devices; if the last enter made it current already, the driver is not asked. If it fails,
// objects created in the context cannot be freed individually: they go with the process's last reference to the
// context.
int tachy_device_enter(struct tachy_device *d, const struct tachy_log *log);
void tachy_device_leave(struct tachy_device *d);
// A thread of the library's own that enters again and again: from `true` on the last context stays current when it is
// left, until another is entered or `false`, before which no device may be closed.
void tachy_device_linger(bool on);
// Gives the context back. `d` may be zeroed or only described.
void tachy_device_close(struct tachy_device *d);

// NVML's handle of the GPU that CUDA counts as `ordinal`, found by its address on the bus: NVML counts in another order,
// and GPUs that CUDA_VISIBLE_DEVICES hides as well. False: there is none, which is not logged. `nvml` is initialised.
bool tachy_device_nvml(const struct tachy_cu *cu, int ordinal, const struct tachy_nvml *nvml, nvml_device *out);

// Checks that the kernels run on this device: NULL, or one sentence in `why` that names the oldest supported driver or
// chip and what to do.
const char *tachy_cuda_refuses(const struct tachy_device *d, char why[256]);
// TACHY_OK, or the sentence as an error (TACHY_ERR_UNAVAILABLE).
int tachy_cuda_need(const struct tachy_device *d, const struct tachy_log *log);
