#pragma once
#include "base/memory.h"
#include "cuda/loader.h"

#include <tachy/frame.h>

// A picture of 8-bit 4:2:0 or 4:4:4 brought to another size, and where that is needed to another matrix, range and
// depth, on a GPU: what tachy_convert_frame() does on the CPU, for pictures that come frame by frame (a video behind).
// Along an axis that grows it is bilinear, else the mean of what a sample covers. Chroma counts as lying in the middle
// of its pixels.
struct tachy_fit_cuda_params {
    struct tachy_memory *memory; // whose `place` is the GPU's; must outlive the object
    enum tachy_place place;
    const struct tachy_cu *cu;
    const struct tachy_log *log; // NULL: silent; must outlive the object
};

// Whether `from` (place and pixels are not looked at) can become a picture of this format and size. False also in a
// build without kernels.
bool tachy_fit_cuda_takes(const tachy_frame *from, enum tachy_pix format, int width, int height);

// Keeps tables and scratch on the GPU: one object a stream, used by one thread at a time whose current context is
// the device's.
typedef struct tachy_fit_cuda tachy_fit_cuda;
int tachy_fit_cuda_open(tachy_fit_cuda **out, const struct tachy_fit_cuda_params *p);
// Queues it on `stream` and does not wait. `to`: ours to write, on the GPU, its colours are those that
// tachy_color_resolve() gives for the tags of `from` at its size. TACHY_ERR_UNSUPPORTED: not taken.
int tachy_fit_cuda_run(tachy_fit_cuda *f, const tachy_frame *from, tachy_frame *to, cuda_stream stream);
// After the stream has passed the last run.
void tachy_fit_cuda_close(tachy_fit_cuda **f);
