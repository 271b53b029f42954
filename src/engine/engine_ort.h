#pragma once
#include "engine/engine_ops.h"
#include "engine/session.h"

// Shared by engines over an ONNX Runtime session: provider options, bindings of the caller's buffers, runs.

struct tachy_ort_engine {
    struct tachy_session *session;
    OrtIoBinding *binding; // NULL if the session is a plan
    OrtValue *in[TACHY_MAX_IO], *out[TACHY_MAX_IO]; // views of the caller's buffers
    const void *in_data[TACHY_MAX_IO], *out_data[TACHY_MAX_IO]; // ... at these addresses
    // Inputs on the host are bound before every run: what lies elsewhere when the graph runs is copied there by
    // the binding itself.
    bool bind_always;
    // For an engine on the caller's stream; else NULL.
    OrtMemoryInfo *device; // describes the GPU's memory
    OrtRunOptions *queued; // a run returns when it has been queued
};

enum { TACHY_ORT_OPTIONS = 32, TACHY_ORT_OWN = 8 };

// provider_options sorted out. Strings belong to the parameters.
struct tachy_ort_options {
    struct tachy_session_params session;
    const char *library; // library=PATH; NULL: not given
    // The provider's own, with room for OWN more; end with NULL.
    const char *ep[TACHY_ORT_OPTIONS + TACHY_ORT_OWN + 1];
    int nb_ep;
    const char *entries[TACHY_ORT_OPTIONS + 1]; // "session.key=value"
};

// "arena=0|1", "profile=DIR" and "profile_runs=N" are for the session; names that start with "session." are ONNX
// Runtime's entries. The rest goes to the provider if `any`; otherwise it is an error.
int tachy_ort_options(struct tachy_ort_options *o, const tachy_engine *e, bool any);

// Opens the session and fills in what e->ops->open has to. `r` is zeroed; close it also on failure.
int tachy_ort_engine_open(tachy_engine *e, struct tachy_ort_engine *r, const struct tachy_session_params *p);
int tachy_ort_engine_run(tachy_engine *e, struct tachy_ort_engine *r, const struct tachy_tensor in[],
                         struct tachy_tensor out[]);
// True if the provider's option was given by name.
bool tachy_ort_options_have(const struct tachy_ort_options *o, const char *key);
// After open: tensors may lie in the memory of GPU `gpu`, which ONNX Runtime calls `memory`, and runs are queued
// on the stream that the session was opened with.
int tachy_ort_engine_use_device(tachy_engine *e, struct tachy_ort_engine *r, const char *memory, int gpu);
void tachy_ort_engine_close(struct tachy_ort_engine *r);
