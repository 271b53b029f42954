#pragma once
#include "cuda/kernels.h"
#include "cuda/loader.h"
#include "postprocess/mask.h"

#include <tachy/frame.h>

// tachy_luma_guide() and tachy_refine_fit() on a GPU, bit for bit, for many eyes in one go. Addresses
// are the GPU's; they stay valid and unchanged until the stream has passed this point. The device's
// context is current (tachy_device_enter). Nothing is kept between calls, so any thread may call.

// One eye of one frame. All of a call have one format and one size of mask.
struct tachy_refine_cuda_eye {
    const tachy_frame *frame; // NULL: the guide is there already
    struct tachy_rect region;
    uint8_t *guide;           // written, or read if there is no frame; `guide_stride` bytes per row
    const uint8_t *mask;      // NULL: only the guide is made
    struct tachy_refine fit;  // a and b are written
};
struct tachy_refine_cuda {
    const struct tachy_refine_cuda_eye *eye;
    int count, width, height; // eyes; of the masks
    ptrdiff_t guide_stride, mask_stride;
    const struct tachy_log *log;
};

// Queues guides and, if there are masks, coefficients on `stream` and does not wait. TACHY_ERR_INVAL: a region that is
// empty or leaves its frame. TACHY_ERR_UNSUPPORTED: RGB. TACHY_ERR_UNAVAILABLE: this build has no kernels.
int tachy_refine_cuda_run(const struct tachy_refine_cuda *r, const struct tachy_cu *cu, cuda_stream stream);
