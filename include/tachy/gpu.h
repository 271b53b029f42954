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

// A line for each GPU that NVML lists: its name, utilisation, memory in use (by all processes) and power at this moment, as far as
// the driver tells them. An empty text: no NVML, or no GPU. Takes some tens of milliseconds. Free *text with tachy_free().
// TACHY_ERR_NOMEM sets it to NULL. Thread-safe.
TACHY_API int tachy_gpu_now_text(char **text);

#ifdef __cplusplus
}
#endif
