#pragma once
#include "media/surface.h"
#include "stage/device.h"

// Where the finished pictures of a stage go: surfaces that an encoder reads on a device, else pinned memory of the host's.
// A surface is whole when its item is synced, before the encoder is given it, and comes back to the pool when the encoder has
// read it, so neither waits for the other's stream.
struct device_out {
    tachy_frame_pool *surfaces; // NULL: the encoder reads the host's
    struct tachy_surface_spec spec;
};

// `surfaces` of struct tachy_stage_ops; the stage has checked format and size. Surfaces from before go.
int device_out_open(struct device_out *o, struct tachy_stage *st, const struct tachy_surface_spec *spec);
void device_out_close(struct device_out *o);
// A picture for what is made on the device; `host`: the pool of the host's.
int device_out_get(const struct device_out *o, const struct task_device *device, tachy_frame_pool *host, tachy_frame **out);
