#pragma once
#include "base/memory.h"
#include "cuda/loader.h"

#include <tachy/frame.h>

// Scales an 8-bit 4:2:0 or 4:4:4 picture on a GPU, and converts its matrix, range and depth if needed: what
// tachy_convert_frame() does on the CPU, for pictures that come frame by frame (a background video). Same filter:
// bilinear along an axis that grows, else the mean of what a sample covers; chroma is taken to lie in the middle of its
// pixels.
struct tachy_fit_cuda_params {
    struct tachy_memory *memory; // whose `place` is the GPU's; must outlive the object
    enum tachy_mem mem;
    const struct tachy_cu *cu;
    const struct tachy_log *log; // NULL: silent; must outlive the object
};

// True if `from` can be converted to the format, size and colours of `to`; memory and pixels are ignored. False also in
// a build without kernels.
bool tachy_fit_cuda_takes(const tachy_frame *from, const tachy_frame *to);

// Keeps tables and scratch on the GPU: one object a stream, used by one thread at a time whose current context is
// the device's.
typedef struct tachy_fit_cuda tachy_fit_cuda;
int tachy_fit_cuda_open(tachy_fit_cuda **out, const struct tachy_fit_cuda_params *p);
// Queues it on `stream` and does not wait. `to`: ours to write, on the GPU. TACHY_ERR_UNSUPPORTED: not taken.
int tachy_fit_cuda_run(tachy_fit_cuda *f, const tachy_frame *from, tachy_frame *to, cuda_stream stream);
// After the stream has passed the last run.
void tachy_fit_cuda_close(tachy_fit_cuda **f);
