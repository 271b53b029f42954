#pragma once
#include <tachy/settings.h>
#include <tachy/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

// Reads from the settings which GPUs a run uses: those that `gpu.ids` lists ("0,1"; "all": every one that the driver
// counts), else `gpu.id` alone. ids[] receives their CUDA ordinals, below TACHY_MAX_GPUS, in the order listed, and *n
// their number; 0 if neither frames (`gpu.device`) nor decoding (`pipeline.stages.decode.device`) shall be on a GPU.
// With `gpu.ids` the driver is asked whether they exist. Errors, logged: TACHY_ERR_INVAL (not a list, a number twice, a
// GPU that does not exist, both options given), TACHY_ERR_UNAVAILABLE (no driver), TACHY_ERR_EXTERNAL. Thread-safe.
TACHY_API int tachy_gpus_asked(const tachy_settings *s, int ids[TACHY_MAX_GPUS], int *n, const struct tachy_log *log);

// True if this build's kernels run on the GPU that the settings name (the first of `gpu.ids`, else `gpu.id`). `text`
// receives the GPU's name, or why not. Asks the driver, but creates no context. `s` may be NULL: GPU 0. `text` may be
// NULL. Thread-safe.
TACHY_API bool tachy_gpu_runs(const tachy_settings *s, char *text, size_t size);

// A line for each GPU that CUDA counts, by CUDA's number: its name, utilisation, memory in use (by all processes) and power at this
// moment, as far as NVML tells them. An empty text: no driver, no NVML, or no GPU. Initialises CUDA if nothing has yet, but creates
// no context. Takes some tens of milliseconds, and more if it initialises CUDA. Free *text with tachy_free(). TACHY_ERR_NOMEM sets it
// to NULL. Thread-safe.
TACHY_API int tachy_gpu_now_text(char **text);

// How much memory is in use on some GPUs beyond what was in use when the watch was opened, by all processes. A thread asks NVML every
// 10 ms. Thread-safety: use one watch from one thread.
typedef struct tachy_gpu_watch tachy_gpu_watch;

// Watches the GPUs that the settings name (`gpu.ids`, else `gpu.id`), even if a run with them uses no GPU. `s` need only live
// until this returns. Errors, to the log of `s`: those of tachy_gpus_asked(); TACHY_ERR_UNAVAILABLE, logged as verbose: no NVML, or it
// does not know each of the GPUs; TACHY_ERR_NOMEM. Failures set *out to NULL. Free it with tachy_gpu_watch_close().
TACHY_API int tachy_gpu_watch_open(tachy_gpu_watch **out, const tachy_settings *s);
// *mib: the most so far, of the GPU where that is most. TACHY_ERR_UNAVAILABLE: NVML does not say it of each GPU; *mib is 0.
TACHY_API int tachy_gpu_watch_read(tachy_gpu_watch *w, double *mib);
TACHY_API void tachy_gpu_watch_close(tachy_gpu_watch **w); // sets *w to NULL; *w may be NULL

#ifdef __cplusplus
}
#endif
