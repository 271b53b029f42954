#pragma once
#include <tachy/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

// A loaded model that maps one batch of input tensors to output tensors.
// Thread-safety: use one engine from one thread; separate engines are independent, and
// engines of one model share its weights.
typedef struct tachy_engine tachy_engine;

#define TACHY_MAX_IO 16

// A float32 input that is the same in every run: one number for all its elements, or one for each. Dimensions that the
// model leaves free are 1.
struct tachy_engine_constant {
    const char *input;
    const float *values;
    int n;
};

struct tachy_io;
struct tachy_engine_params {
    // "tachy" (our own plans; ONNX Runtime runs the remaining nodes), "cpu" (ONNX Runtime's own kernels), "null";
    // "openvino", "tensorrt" and others that docs/models.md lists: ONNX Runtime's, or any name for a plugin with the
    // option library=PATH. NULL or "auto": "tachy" if it runs the whole model, else "cpu" and a log line that says why.
    const char *provider;
    const char *model_path;   // ONNX file; required except for "null"
    const char *library;      // libonnxruntime.so; NULL: searched for as docs/models.md says
    int threads;              // inside one run; 0: 1
    int batch_max;            // images per run, 1..256; 0: 1
    // Sizes of dimensions that the model leaves free: an input's name (NULL: the first) and its shape, with -1 for
    // unknown extents. With one input, only dimensions that have a name in the model are set, and with them every
    // dimension of that name. With several inputs, or with `constants` or `settle`, any dimension can be set, and only
    // those given are, except that a leading dimension that is named as the first input's leading one is the batch as well.
    // May be NULL.
    const struct tachy_io *shapes;
    int nb_shapes;
    // Inputs to fold into the model, which then no longer has them; at most TACHY_MAX_IO. TACHY_ERR_MISMATCH: one does
    // not fit. May be NULL.
    const struct tachy_engine_constant *constants;
    int nb_constants;
    // If the loaded model leaves output shapes open, run it once on zeros (free dimensions of an input: 1), so that
    // tachy_engine_outputs() has the resulting shapes. TACHY_ERR_MISMATCH: it does not run on these.
    bool settle;
    // "tachy": 0..3, the time to spend on timing kernels against each other if the engine store (tachy/store.h) does
    // not know the fastest: none, or at most 0.5, 3 or 30 seconds. Results have the same bits.
    int build_effort;
    bool strict;              // nodes that the provider does not run are an error that names them
    // "tachy": where plans run, "cpu" or "cuda" (GPU `gpu`). NULL: "cuda" with a gpu_stream, else "cpu".
    const char *device;
    // "fp32", "tf32", "fp16" or "mixed" (docs/provider.md); NULL: "mixed" for "tachy" on a GPU, else the provider's own
    // default. TACHY_ERR_UNSUPPORTED: the provider cannot compute in it here; the log names the ones it can.
    const char *precision;
    bool deterministic; // "tachy" on a GPU: the same kernels in every process, so the same bits; none are timed
    // "key=value" strings, terminated by NULL; may be NULL. All but "null": arena=0|1; profile=DIR (ONNX Runtime's
    // operator profile of the first profile_runs=N runs (64), or the plan's steps in the same form, is written there as
    // <its start in ns on CLOCK_MONOTONIC>.ort.json when the model's last engine is closed); and ONNX Runtime's
    // session.* entries. "tachy": library=PATH (libtachy_ep.so; default as docs/models.md says) and the provider's own
    // (docs/provider.md). Others: library=PATH (a plugin); the rest is passed to it. "null": cost_us=N (busy time per
    // run), sleep_us=N (waiting time per run), fail_every=N (each Nth run fails).
    const char *const *provider_options;
    // "tachy" on a GPU, "cuda-ort": the CUDA stream (a CUstream of the primary context of GPU `gpu`) on which runs are
    // queued. Tensors may then lie in that GPU's memory. If all outputs do, a run returns as soon as it is queued, and
    // inputs and outputs must stay unchanged until the stream has passed it. The stream must outlive the engine.
    // "tachy" takes either all tensors there or all on the host, and only host tensors if it does not run the whole
    // model. NULL: tensors on the host. Other providers ignore it.
    void *gpu_stream;
    int gpu;
    // "null": shapes to pretend. Without them its inputs and outputs are those of model_path, for which ONNX Runtime is needed;
    // without a model they are 1x256x256x3 and 1x256x256x1.
    int64_t null_shape_in[4], null_shape_out[4];
    const struct tachy_log *log; // NULL: silent; must outlive the engine
    // What the model leaves free may differ from run to run, as for a network that reads a growing memory: shapes of inputs
    // are checked against the model alone, those of outputs when it has run. Plans have fixed shapes, so ONNX Runtime's own
    // kernels ("cpu") run it also for "auto" and "tachy"; TACHY_ERR_UNSUPPORTED: with `strict`. With `settle` the outputs
    // have the shapes that free extents of 1 give.
    bool varying;
};
#define tachy_engine_params(...) (&(struct tachy_engine_params){__VA_ARGS__})

// Returns TACHY_OK and sets *out, or a negative code and sets *out to NULL:
// TACHY_ERR_UNAVAILABLE (library or provider missing, named in the log),
// TACHY_ERR_NOT_FOUND, TACHY_ERR_FORMAT, TACHY_ERR_INVAL, TACHY_ERR_NOMEM.
TACHY_API int tachy_engine_open_sized(size_t p_size, tachy_engine **out, const struct tachy_engine_params *p);
#define tachy_engine_open(...) tachy_engine_open_sized(sizeof(struct tachy_engine_params), __VA_ARGS__)

// Inputs and outputs in the model's order: shape (a free dimension is -1), dtype and name;
// `data` is NULL. Valid until close.
struct tachy_io {
    const char *name;
    struct tachy_tensor spec;
};
TACHY_API int tachy_engine_inputs(const tachy_engine *e, const struct tachy_io **io);  // count
TACHY_API int tachy_engine_outputs(const tachy_engine *e, const struct tachy_io **io); // count

// Runs one batch on the calling thread and waits (but see gpu_stream). `in` and `out` have one dense host tensor
// for each of the model's inputs and outputs, in its order; they stay the caller's. Passing
// the same addresses every time is faster: bindings are kept while they do not change.
// Free dimensions are fixed by `shapes` and `batch_max` ("tachy": the batch in any case), else by
// the tensors of the first run, unless they are `varying`. TACHY_ERR_MISMATCH names the tensor and both shapes where one does not
// fit; TACHY_ERR_EXTERNAL: the run itself failed.
TACHY_API int tachy_engine_run(tachy_engine *e, const struct tachy_tensor in[],
                               struct tachy_tensor out[]);

// Measures the mean time of `runs` (>= 1) consecutive runs, in ms. "tachy" on a GPU measures there, without copying the
// tensors, and leaves `out` unchanged; `in` and `out` are host tensors. Errors as tachy_engine_run().
TACHY_API int tachy_engine_time(tachy_engine *e, const struct tachy_tensor in[], struct tachy_tensor out[], int runs, double *ms);

// Peak bytes that a model's plan holds where it runs: weights, including those shared with other engines, and all
// values that are live at the same time in one run, without the caller's tensors. 0: "tachy" does not run the model as
// one plan. Thread-safe.
TACHY_API int64_t tachy_engine_memory(const tachy_engine *e);

// The provider in use, "cpu"; and its version text, "ONNX Runtime 1.31.1". Engines with the same version text, model
// and options give the same bits.
TACHY_API const char *tachy_engine_provider(const tachy_engine *e);
TACHY_API const char *tachy_engine_version(const tachy_engine *e);

// Time that this engine's runs have spent on copies between host and device, in ns; 0: none. Any thread.
TACHY_API uint64_t tachy_engine_transfer_ns(const tachy_engine *e);

TACHY_API void tachy_engine_close(tachy_engine **e);

// Describes the ONNX Runtime found here: JSON {"path", "version", "providers": [ONNX Runtime's names], "tachy":
// {"path", "version"} of the provider library of "tachy", or null}. `library` may be NULL, as in tachy_engine_params.
// Free with tachy_free(). TACHY_ERR_UNAVAILABLE: none is found, or it is too old.
TACHY_API int tachy_engine_library(char **json, const char *library, const struct tachy_log *log);

// Explains how the provider "tachy" would run a model, without running it: JSON
//  {"model", "provider": "0.1.0 avx2", "runtime", "whole": one plan covers it, "ours", "left": numbers of nodes,
//   "nodes": [{"op", "name", "by": "tachy" or "onnxruntime", "plan": its number or null, "why": the reason if it is left, or null}],
//   "plans": [{"nodes", "steps", "multiply_adds", "weights", "arena", "scratch": bytes, "layers":
//   [[multiply-adds, bytes of operands and result], ...] of the nodes that compute, "graph": its text}]}.
// Nodes are those of the model after ONNX Runtime's first passes, in an order in which they can run; nested graphs are
// not listed. `after` selects the pass after which "graph" is printed, one line per node: "": the last; "none": before
// the first; else the pass of this name. `after` may be NULL: there is no "graph". `p` is as for tachy_engine_open();
// its provider and `strict` are ignored. Free *json with tachy_free(); it is NULL on failure. TACHY_ERR_INVAL: no such
// pass, the log lists the passes; else as tachy_engine_open(). Any thread.
TACHY_API int tachy_engine_explain_sized(size_t p_size, char **json, const struct tachy_engine_params *p,
                                         const char *after);
#define tachy_engine_explain(...) tachy_engine_explain_sized(sizeof(struct tachy_engine_params), __VA_ARGS__)

// Runs the model on `in` in double precision, by plain loops: the reference for an engine's error. Slow (about 10^8
// multiply-adds per second), and keeps all values in memory at once. `in`: a dense host tensor for each of the model's
// inputs, in its order; `out`: room for all elements of each output, in its order. All are the caller's.
// TACHY_ERR_UNSUPPORTED: the provider "tachy" does not run the model as one plan; else as tachy_engine_open(). Any
// thread.
TACHY_API int tachy_engine_reference_sized(size_t p_size, const struct tachy_engine_params *p,
                                           const struct tachy_tensor in[], double *const out[]);
#define tachy_engine_reference(...) tachy_engine_reference_sized(sizeof(struct tachy_engine_params), __VA_ARGS__)

// Measures, in about 10 ms, the multiply-adds per second that one core reaches in registers with the instruction set
// that "tachy" uses. Of `p` only the log and the provider option library=PATH are read. TACHY_ERR_UNAVAILABLE:
// libtachy_ep.so is not found; *multiply_adds is then 0.
TACHY_API int tachy_engine_peak_sized(size_t p_size, double *multiply_adds, const struct tachy_engine_params *p);
#define tachy_engine_peak(...) tachy_engine_peak_sized(sizeof(struct tachy_engine_params), __VA_ARGS__)

// Measures, in about 10 ms, the bytes per second that one core reads and writes when it passes over `bytes` of memory
// repeatedly. `p` and errors as above, and TACHY_ERR_NOMEM.
TACHY_API int tachy_engine_bandwidth(double *bytes_per_s, size_t bytes, const struct tachy_engine_params *p);

#ifdef __cplusplus
}
#endif
