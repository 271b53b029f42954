#pragma once
#include "cuda/gpu.h"

// Flow on a GPU between two pictures in the host's memory, both ways at once: the bits of tachy_flow_run() with TACHY_FLOW_PICTURE.
// One object is used by one thread at a time.
struct flow_gpu;

// Keeps a reference to `gpu`, whose kernels run (tachy_cuda_need()). Pictures of 1..65535 pixels along each axis. Its memory, about 18 bytes
// per pixel of a picture and direction, is the driver's. Negative, logged unless it is TACHY_ERR_NOMEM: *out is NULL. Free *out with flow_gpu_close().
int flow_gpu_open(struct flow_gpu **out, struct tachy_gpu *gpu, int width, int height, const struct tachy_log *log);
// `back`: the flow from `here` to `there`, `on` from `there` to `here`; each u, then v, dense. Waits for the GPU.
int flow_gpu_run(struct flow_gpu *f, const uint8_t *here, const uint8_t *there, float *back, float *on);
void flow_gpu_close(struct flow_gpu **f);
