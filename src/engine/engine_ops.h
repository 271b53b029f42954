#pragma once
#include "base/base.h"

#include <stdatomic.h>
#include <tachy/engine.h>

// Interface of an engine backend (a provider). engine.c validates parameters and tensors; backends trust them and stay
// short.
struct tachy_engine_ops {
    const char *name;       // value of `provider`, unique; "": any other name
    bool needs_model;       // model_path is required and names a readable file
    size_t priv_size;       // zeroed bytes at tachy_engine.priv
    int (*open)(tachy_engine *e); // fills in, out, n_in, n_out, version
    // Every tensor fits in[] / out[], is dense, on the host (or on a GPU, with `device`), and has data.
    int (*run)(tachy_engine *e, const struct tachy_tensor in[], struct tachy_tensor out[]);
    void (*close)(tachy_engine *e); // also after a failed open
    // NULL, or TACHY_ERR_UNSUPPORTED: runs are timed on the host. *ms: of one of `runs`, on the device.
    int (*time)(tachy_engine *e, const struct tachy_tensor in[], int runs, double *ms);
    bool device;            // run() takes tensors in a GPU's memory
};

struct tachy_session_look;
struct tachy_engine {
    const struct tachy_engine_ops *ops;
    struct tachy_engine_params params; // strings: valid during open() only
    char name[32];                     // of the provider
    char *path;                        // copy of model_path or the provider's name, for messages
    char version[160];
    struct tachy_io in[TACHY_MAX_IO], out[TACHY_MAX_IO]; // names live until close
    int n_in, n_out;
    const struct tachy_session_look *look; // NULL: it is to run; see session.h
    bool on_device;       // run() takes tensors in a GPU's memory, whatever ops->device says
    void *stream;         // a CUstream that such a run is queued on; NULL: run() waits
    bool picking;         // opened by "auto": the provider must run all of the model
    bool on_gpu;          // of "tachy": plans run on GPU params.gpu
    _Atomic uint64_t transfer_ns; // of its runs so far: copies between host and device
    int64_t memory;       // tachy_engine_memory()
    bool fixed;           // the first run has set fixed_in and fixed_out
    struct tachy_tensor fixed_in[TACHY_MAX_IO], fixed_out[TACHY_MAX_IO]; // shapes only
    max_align_t priv[];
};

extern const struct tachy_engine_ops tachy_engine_tachy, tachy_engine_cpu, tachy_engine_null,
    tachy_engine_ep; // engine_ep.c: any other execution provider of ONNX Runtime

// True if run() takes tensors in GPU memory.
static inline bool tachy_engine_on_device(const tachy_engine *e) { return e->ops->device || e->on_device; }

static inline void *tachy_engine_stream(const tachy_engine *e) { return e->stream; }

// True if a provider of this name can work on the caller's stream (gpu_stream); `name` may be NULL.
bool tachy_engine_takes_stream(const char *name);

// True if the model shall run on a GPU, provided that its provider can.
bool tachy_engine_asks_gpu(const struct tachy_engine_params *p);

// Opens the model with the provider "tachy" only to call `look`.
int tachy_engine_look(const struct tachy_engine_params *p, const struct tachy_session_look *look);

// Splits "key=value" and finds the key in `keys` (terminated by NULL): returns its index and sets *value to the text
// after '='. Otherwise logs a sentence with the valid keys and returns TACHY_ERR_INVAL.
int tachy_engine_option(const tachy_engine *e, const char *option, const char *const keys[],
                        const char **value);
// TACHY_OK if the engine computes in one of `has` ("fp32|fp16") or none was asked for; else a sentence that names them
// and TACHY_ERR_UNSUPPORTED.
int tachy_engine_check_precision(const tachy_engine *e, const char *has);
// The whole of `value` as a number from lo to hi; otherwise TACHY_ERR_INVAL and a sentence.
int tachy_engine_option_int(const tachy_engine *e, const char *option, const char *value, int lo,
                            int hi, int *out);

// "1x256x256x3 float32", free dimensions as "?", in `buf`; returns buf.
const char *tachy_tensor_text(const struct tachy_tensor *t, char buf[128]);
