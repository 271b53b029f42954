#pragma once
#include "stage/device.h"

// Queues tachy_luma_guide() of a region of a frame on the device: width x height bytes at `to`, rows `stride` apart. `luma`: memory of
// the worker's for the luma of frames of R'G'B', which the next call may write to.
int guide_cuda_queue(struct device_group *p, struct tachy_block *luma, const tachy_frame *f, const struct tachy_rect *region, void *to,
                     int width, int height, ptrdiff_t stride);
