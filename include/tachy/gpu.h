#pragma once
#include <tachy/settings.h>
#include <tachy/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

// Which GPUs a run is to use, from its settings: those that `gpu.ids` lists ("0,1"; "all": each that the
// driver counts), else `gpu.id` alone. ids[] gets CUDA's ordinals as they are listed, below
// TACHY_MAX_GPUS, and *n how many; 0 where neither frames (`gpu.device`) nor decoding (`pipeline.stages.decode.device`)
// are asked to be on one. With `gpu.ids` the driver is asked whether it counts them.
// Errors, logged: TACHY_ERR_INVAL (no such list, a number twice, a GPU that is not there, both options
// given), TACHY_ERR_UNAVAILABLE (no driver), TACHY_ERR_EXTERNAL. Thread-safe.
TACHY_API int tachy_gpus_asked(const tachy_settings *s, int ids[TACHY_MAX_GPUS], int *n, const struct tachy_log *log);

// Whether this build's kernels run on the GPU that the settings name (the first of `gpu.ids`, else `gpu.id`): its name in
// `text`, else why not. Asks the driver, and opens no context. `s` may be NULL: GPU 0. `text` may be NULL. Thread-safe.
TACHY_API bool tachy_gpu_runs(const tachy_settings *s, char *text, size_t size);

#ifdef __cplusplus
}
#endif
