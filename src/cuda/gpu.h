#pragma once
#include "cuda/device.h"

#include <stdatomic.h>
#include <tachy/tensor.h>

// A GPU's retained primary context with one stream in it. Decoders, their frames and pools hold references to it, so
// that they can be freed in any order. Thread-safe.
struct tachy_gpu {
    atomic_int refs;
    struct tachy_device device;
    cuda_stream stream;
    bool own_stream; // destroyed with it
};

// `stream`: the caller's (a CUstream of the primary context), which must outlive *out; NULL: a new
// one that is not ordered with the default stream. Failures are logged: TACHY_ERR_UNAVAILABLE (the
// driver, named), TACHY_ERR_INVAL (no such GPU), TACHY_ERR_EXTERNAL.
int tachy_gpu_open(struct tachy_gpu **out, int ordinal, void *stream, const struct tachy_log *log);
// As above with a new stream, whose work goes before other streams' that waits for multiprocessors as well.
int tachy_gpu_open_first(struct tachy_gpu **out, int ordinal, const struct tachy_log *log);
struct tachy_gpu *tachy_gpu_ref(struct tachy_gpu *g);
void tachy_gpu_unref(struct tachy_gpu **g);

// Chooses the GPU with the fewest decoders of this process, the first of equals, and counts one more there until
// tachy_gpu_give_decoder().
int tachy_gpu_take_decoder(struct tachy_gpu *const gpus[], int n);
void tachy_gpu_give_decoder(const struct tachy_gpu *g);

// Memory of the GPU. TACHY_ERR_NOMEM: there is none; other failures are logged. *data is NULL then. Freeing waits
// for the GPU.
int tachy_gpu_alloc(struct tachy_gpu *g, size_t bytes, void **data, const struct tachy_log *log);
void tachy_gpu_free(struct tachy_gpu *g, void *data);

// As above, for host memory that the GPU reads and writes directly.
int tachy_gpu_pinned_alloc(struct tachy_gpu *g, size_t bytes, void **data, const struct tachy_log *log);
void tachy_gpu_pinned_free(struct tachy_gpu *g, void *data);

// One plane of a copy; which of the two ends lie on the GPU is in the pointers' places.
struct tachy_gpu_plane {
    const void *from;
    void *to;
    size_t from_pitch, to_pitch, width, height; // bytes, bytes, bytes, rows
    bool from_gpu, to_gpu;
};
// Queues the copies on `stream`, in no order among themselves; `wait`: returns when they are done.
int tachy_gpu_copy(struct tachy_device *d, const struct tachy_gpu_plane *planes, int n,
                   cuda_stream stream, bool wait, const struct tachy_log *log);
