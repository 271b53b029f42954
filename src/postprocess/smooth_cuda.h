#pragma once
#include "base/memory.h"
#include "cuda/kernels.h"
#include "cuda/loader.h"
#include "postprocess/mask.h"

// tachy_smooth on a GPU, bit for bit: the masks of one stream and one eye in frame order, in the GPU's
// memory. Calls come from one thread at a time, whose current context is the device's
// (tachy_device_enter), and with one stream.
typedef struct tachy_smooth_cuda tachy_smooth_cuda;

struct tachy_smooth_cuda_params {
    int width, height;           // of the masks, 1..65535
    float strength;              // 0..1
    struct tachy_memory *memory; // the state lies in its `place`; outlives the object
    enum tachy_mem mem;      // of the GPU; TACHY_HOST: TACHY_DEVICE, the first one
    const struct tachy_cu *cu;
    const struct tachy_log *log;
};

// TACHY_ERR_UNAVAILABLE: this build has no kernels. TACHY_ERR_NOMEM, TACHY_ERR_INVAL.
int tachy_smooth_cuda_open(tachy_smooth_cuda **out, const struct tachy_smooth_cuda_params *p);
// Queues the smoothing of `mask` in place and does not wait. Rows of both pictures are dense.
// `discontinuity`: forget the past.
int tachy_smooth_cuda_apply(tachy_smooth_cuda *s, cuda_address mask, cuda_address guide, bool discontinuity,
                            cuda_stream stream);
// The state as tachy_smooth_save() writes it and tachy_smooth_load() reads it. save waits for the stream; load
// has taken `data` when it returns.
size_t tachy_smooth_cuda_state_size(const tachy_smooth_cuda *s);
int tachy_smooth_cuda_save(const tachy_smooth_cuda *s, void *data, cuda_stream stream);
int tachy_smooth_cuda_load(tachy_smooth_cuda *s, const void *data, size_t size, cuda_stream stream);
// After the stream has passed the last call.
void tachy_smooth_cuda_close(tachy_smooth_cuda **s);
