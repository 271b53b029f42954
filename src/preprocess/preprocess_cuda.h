#pragma once
#include "cuda/device.h"
#include "cuda/preprocess.h"

#include <tachy/preprocess.h>

// Preprocess of frames in a GPU's memory: what tachy/preprocess.h says, computed there (docs/
// preprocess.md has the errors), several frames a launch, each with its own size, view and format.
//
// Thread-safety: one object from one thread; separate objects are independent.
struct tachy_preprocess_gpu;

// One image of a batch. The frame's data are addresses in the GPU's memory, its strides bytes; planes
// whose addresses and strides are multiples of 4 are read fastest (16 for formats but NV12 and P010). Stereo: two pictures of one frame.
struct tachy_preprocess_picture {
    const tachy_frame *frame;
    struct tachy_view view;
};

// `p` as for tachy_preprocess_open(), except that `isa` is ignored and TACHY_I8 is allowed, which rounds to nearest and
// saturates. `d` has its context and must outlive the object, whose work all goes to `stream`. *out is NULL on failure:
// TACHY_ERR_INVAL, TACHY_ERR_NOMEM, TACHY_ERR_UNAVAILABLE (built without CUDA kernels).
int tachy_preprocess_gpu_open(struct tachy_preprocess_gpu **out, const struct tachy_preprocess_params *p,
                              struct tachy_device *d, cuda_stream stream);

// Queues pictures[0 .. n-1] into images 0 .. n-1 of `out`, a tensor of rank 4 in this GPU's memory with
// at least n images, and does not wait: frames and tensor stay as they are until the stream has
// passed. Extents: N, H, W, C or N, C, H, W; C may exceed the channels (padding), the elements behind
// them are set to 0. Dense, or with strides between images, rows and channel planes. `placement`: n of
// them, or NULL. Tables of the last 16 (format, size, colour, view) stay on the GPU.
// Errors as tachy_preprocess_run(), and TACHY_ERR_EXTERNAL (the GPU failed); then some images may have
// been queued.
int tachy_preprocess_gpu_run(struct tachy_preprocess_gpu *g, const struct tachy_preprocess_picture pictures[], int n,
                             const struct tachy_tensor *out, struct tachy_placement placement[]);

// Lines that a warp makes one after the other, 1..32, for measurements; 0: chosen by size.
void tachy_preprocess_gpu_set_rows(struct tachy_preprocess_gpu *g, int rows);
// No later kernel than this, for measurements and tests; TACHY_CUDA_PRE_CHOSEN: the best.
void tachy_preprocess_gpu_set_kernel(struct tachy_preprocess_gpu *g, enum tachy_cuda_pre_kernel k);
// The kernel of the last launch.
enum tachy_cuda_pre_kernel tachy_preprocess_gpu_ran(const struct tachy_preprocess_gpu *g);

// Waits for what was queued. *g may be NULL.
void tachy_preprocess_gpu_close(struct tachy_preprocess_gpu **g);
