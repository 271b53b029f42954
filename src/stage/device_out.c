#include "stage/device_out.h"

enum {
    // FFmpeg's encoder registers each surface once and remembers 64; beyond that it gives up old ones. Beside NVDEC
    // there are 32 of finished pictures and about 20 of the encoder's; software decoders let more pictures wait.
    MOST_OUT = 56,
};

void device_out_close(struct device_out *o) { tachy_frame_pool_close(&o->surfaces); }

int device_out_open(struct device_out *o, struct tachy_stage *st, const struct tachy_surface_spec *spec)
{
    const struct task_device *device = device_with(st->task->devices, spec->device);
    device_out_close(o);
    o->spec = *spec;
    int err = device ? tachy_surface_pool_open(&o->surfaces, device->gpu, spec) : TACHY_OK;
    if (o->surfaces)
        tachy_frame_pool_account(o->surfaces, st->task->memory);
    return err;
}

int device_out_get(const struct device_out *o, const struct task_device *device, tachy_frame_pool *host, tachy_frame **out)
{
    bool there = o->surfaces && device->gpu->device.ordinal == o->spec.device && tachy_frame_pool_out(o->surfaces) < MOST_OUT;
    return there ? tachy_surface_get(o->surfaces, out) : tachy_frame_pool_get(host, out);
}
