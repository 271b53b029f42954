#pragma once
#include "cuda/gpu.h"
#include "provider/reader.h"

// NVIDIA's GPUs as ONNX Runtime's devices: memory, copies and streams of theirs, for tensors that stay on a GPU from
// one session or program to the next. Plans run without: they have what they need from src/plan.

struct provider_gpus; // of a factory; closed after everything that was made with it

// Finds the GPUs that plans run on. None: *out is NULL, which is no failure.
void provider_gpus_open(struct provider_gpus **out, const OrtApi *api, const OrtEpApi *ep_api);
void provider_gpus_close(struct provider_gpus **g);
int provider_gpus_count(const struct provider_gpus *g); // 0 for NULL

// A device of ONNX Runtime's for GPU `i`, with the options that a session on it starts from.
OrtStatus *provider_gpu_device(struct provider_gpus *g, int i, OrtEpFactory *f, const OrtHardwareDevice *device,
                               OrtEpDevice **out);
// As in OrtEpFactory. For memory that is not a GPU's, *out is NULL.
OrtStatus *provider_gpu_allocator(struct provider_gpus *g, const OrtMemoryInfo *info, OrtAllocator **out);
void provider_gpu_allocator_free(OrtAllocator *a); // NULL is allowed
OrtStatus *provider_gpu_transfer(struct provider_gpus *g, OrtDataTransferImpl **out);
OrtStatus *provider_gpu_stream(struct provider_gpus *g, const OrtMemoryDevice *device, OrtSyncStreamImpl **out);
