#pragma once
#include "media/surface.h"
#include "stage/device.h"

// As tachy_stage_pool(), for pinned memory of the host, which the task's devices copy into directly.
int device_host_pool(const struct tachy_stage *st, tachy_frame_pool **pool, enum tachy_pix format, int width, int height);
// A pool in the worker's device's memory, counted in the task's.
int device_pool(const struct device_worker *g, tachy_frame_pool **pool, enum tachy_pix format, int width, int height);

// Destination of a stage's finished pictures: surfaces that an encoder reads on a device, or pinned host memory. A
// surface is complete when its item is synced, before the encoder gets it, and returns to the pool when the encoder has
// read it; so neither waits for the other's stream.
struct device_out {
    tachy_frame_pool *surfaces; // NULL: the encoder reads the host's
    struct tachy_surface_spec spec;
};

// `surfaces` of struct tachy_stage_ops; the stage has checked format and size. Surfaces from before go.
int device_out_open(struct device_out *o, struct tachy_stage *st, const struct tachy_surface_spec *spec);
void device_out_close(struct device_out *o);
// A picture for what is made on the device; `host`: the pool of the host's.
int device_out_get(const struct device_out *o, const struct task_device *device, tachy_frame_pool *host, tachy_frame **out);

// ---- Stages that make the picture of an item by themselves, one after the other

// A worker's part of such a stage begins with it, and an item's bytes with struct device_painted.
struct device_painter {
    struct device_worker *g;
    tachy_frame_pool *surfaces; // painted, for pictures of the host's
    // Queues the item's picture, with its colour description, into `surface`.
    int (*paint)(struct device_group *p, struct tachy_item *item, tachy_frame *surface);
    const struct device_out *out;  // the stage's
    tachy_frame_pool *const *host; // the stage's, of pictures of the host's
};

struct device_painted {
    struct device_flight *flight; // where its picture is: part of it
    uint64_t part;
};

// The rest is the stage's; to be closed also on failure. Then see struct tachy_stage_ops.
int device_painter_open(struct device_painter *t, struct device_worker *g, enum tachy_pix format, int width, int height);
void device_painter_close(struct device_painter *t);
void device_painter_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[]);
int device_painter_sync(struct tachy_stage *st, struct tachy_item *item);
int device_painter_queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n);
