#pragma once
#include "stage/composite.h"
#include "stage/device_out.h"
#include "stage/mask_cuda.h"

// Shared by composite and lines on devices.

// The memory of the stage.
struct composite_cuda {
    struct tachy_composite_stage base; // first
    struct device_out surfaces; // that an encoder reads on a device
};

struct composite_cuda_item {
    struct tachy_mask_line_item line; // first; of lines
    struct device_flight *flight; // the work that its composite is a part of
    uint64_t part;
    uint32_t counted; // the first region's count before it
    double pixels;
};

// Queues the composites and sets item->pending; on failure nothing is on its way any more.
void composite_cuda_run(struct tachy_stage *st, struct device_set *set, const struct tachy_piece pieces[], int n, int err[]);
// The worker's writer of lines on the device that the item was composited on.
tachy_composite *composite_cuda_lines(const struct tachy_stage *st, const struct tachy_item *item);

// See struct tachy_stage_ops.
int composite_cuda_open(struct tachy_stage *st, const tachy_settings *set, bool lines);
void composite_cuda_close(struct tachy_stage *st);
int composite_cuda_start(struct tachy_stage *st, struct tachy_video_info *video);
int composite_cuda_part_open(struct tachy_stage *st, int batch, void **part);
void composite_cuda_part_close(void *part);
int composite_cuda_sync(struct tachy_stage *st, struct tachy_item *item);
int composite_cuda_queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n);
