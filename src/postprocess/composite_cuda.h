#pragma once
#include "base/memory.h"
#include "cuda/kernels.h"
#include "cuda/loader.h"
#include "postprocess/composite.h"

// The composite on a GPU: what tachy_composite_planes() writes, bit for bit except where alpha is solved for, with frames, masks and
// outputs in the GPU's memory, for frames of every format. Grey, 4:2:0 and 4:4:4 without transparency go through one
// kernel; of the others alpha is made first, then their planes are blended by it.

struct tachy_composite_cuda_params {
    struct tachy_composite_params composite; // `isa` is not used; mode json is refused
    struct tachy_memory *memory;             // tables and scratch lie in its `place`; outlives it
    const struct tachy_cu *cu;
    enum tachy_mem mem;                  // of the GPU; TACHY_HOST: TACHY_DEVICE, the first one
    bool natural; // alpha is solved for around the masks' boundaries (postprocess/edges.h), and no item has a refinement
};

// One frame of a call. Every address is the GPU's and stays valid and unchanged until the stream has
// passed this point; the structs themselves are read during the call only.
struct tachy_composite_cuda_item {
    const tachy_frame *in;             // place TACHY_DEVICE
    const struct tachy_result *result; // mask[i].data
    const struct tachy_refine *refine; // a and b of result->eyes planes; NULL: plain upsampling
    const tachy_frame *background;     // mode replace: format and size of `in`
    uint8_t *data[4];                  // output, of the format and size that output() said; not `in`
    ptrdiff_t stride[4];               // bytes, may be negative
    cuda_address counted; // uint32_t that the number of pixels with alpha >= 128 is added to; 0: none
};

// True if frames of this format are supported.
bool tachy_composite_cuda_takes(const struct tachy_composite_params *p, enum tachy_pix format);

// The luma kernel's arguments for n R'G'B' frames like this one, into rows of `stride` bytes: everything but addresses.
struct tachy_cuda_luma tachy_luma_cuda_of(const tachy_frame *f, int n, int64_t stride);

// Keeps tables and scratch on the GPU from call to call: one object a stream, used by one thread at a
// time whose current context is the device's (tachy_device_enter).
typedef struct tachy_composite_cuda tachy_composite_cuda;

// TACHY_ERR_UNAVAILABLE: this build has no kernels.
int tachy_composite_cuda_open(tachy_composite_cuda **out, const struct tachy_composite_cuda_params *p);
// Queues n frames on `stream` and does not wait; neighbours of one format, size and strides go into
// one launch, eight at most. On failure some of them may have been queued.
int tachy_composite_cuda_run(tachy_composite_cuda *c, const struct tachy_composite_cuda_item items[], int n,
                             cuda_stream stream);
// After the stream has passed the last run.
void tachy_composite_cuda_close(tachy_composite_cuda **c);
