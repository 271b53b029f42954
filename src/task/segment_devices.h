#pragma once
#include "base/memory.h"
#include "cuda/gpu.h"
#include "task/segment_gpu.h"

#include <pthread.h>

// The GPUs that a task is spread over. A frame is worked on where it lies; one of the host's goes to the
// device with its stream's state of a recurrent model, else to that with the fewest workers at a frame. A worker has
// a part of its own on each device: on the first from the start, on another once a frame of it comes.

struct segment_device {
    struct tachy_gpu *gpu;   // reference
    enum tachy_mem mem;  // of its memory
    struct segment_gpu_masks *masks;
    // Where the provider runs a model there (segment_gpu_model.c): held while a run is queued, and for `first`.
    pthread_mutex_t running;
    tachy_engine *first;     // opened with the task; the first worker that comes takes it. NULL on the first device
    size_t model_bytes;      // that the engines were seen to take
    struct tachy_memory *memory; // reference; NULL: they are not counted
    struct tachy_block model;    // reservation of them
    atomic_int busy;         // workers that are at a frame there, from its preprocess to its mask
    atomic_int states;       // streams whose states are there
};

// The devices that the settings ask for, each with its kernels tried. Negative, said: the device is named.
int segment_devices_open(tachy_task *t, struct segment *s);
// Their memory becomes places of the task's memory manager, once for each manager.
int segment_devices_start(tachy_task *t, struct segment *s);
void segment_devices_close(struct segment *s);

// The worker's part on the first device, in w->gpu too.
int segment_devices_open_worker(struct segment_worker *w);
void segment_devices_close_worker(struct segment_worker *w);

// In front of the item's preprocess and, where another worker may have done that, of its postprocess:
// w->gpu is its device's part from here on.
int segment_devices_begin(struct segment_worker *w, struct tachy_item *item);
// One eye more was preprocessed there.
void segment_devices_count(struct segment_worker *w);
// Behind the mask of one eye.
void segment_devices_end(struct segment_worker *w);
// The device that an item will be composited on: that of its frame or, where that is gone or the host's, of its
// masks. TACHY_ERR_UNSUPPORTED, said: none of the task's.
int segment_devices_of(const struct segment *s, const tachy_task *t, const struct tachy_item *item,
                     struct segment_device **out);
// For composite, which other items' steps may surround: the worker's part on that device. w->gpu stays.
int segment_devices_composite(struct segment_worker *w, struct tachy_item *item, struct segment_gpu_worker **out);

// For the light ratio: the device that tachy_task.pinned names, else the first.
struct segment_device *segment_device_pinned(const struct segment *s);
