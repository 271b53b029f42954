#pragma once
#include "engine/ort.h"

// Execution providers that come with ONNX Runtime, by the names that --provider has.

struct tachy_ep_builtin {
    const char *name;    // "openvino"
    const char *ort;     // ONNX Runtime's, "OpenVINO"
    const char *library; // that has it; NULL: ONNX Runtime's own
    const char *package; // of Python's registry, which brings that; NULL: none
    const char *threads; // its option for threads within a run; NULL: none
    const char *memory;  // ONNX Runtime's name of the memory that its tensors may lie in, if it can work on the
                         // caller's stream (user_compute_stream, device_id); NULL: it cannot
    // NULL: ONNX Runtime's generic call.
    OrtStatus *(*append)(const OrtApi *api, OrtSessionOptions *o, const char *const *keys,
                         const char *const *values, size_t nb);
};

const struct tachy_ep_builtin *tachy_ep_builtin(const char *name); // NULL: there is none
const char *tachy_ep_builtin_name(size_t i);                       // NULL past the last

// TACHY_ERR_UNAVAILABLE, logged: the library that is missing, or what it said.
int tachy_ep_builtin_add(struct tachy_ort *ort, OrtSessionOptions *options, const struct tachy_ep_builtin *b,
                         const char *const *keys, const char *const *values, size_t nb,
                         const struct tachy_log *log);
