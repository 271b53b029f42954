#pragma once
#include "engine/ort.h"

// Execution providers that come with ONNX Runtime, by the names that --provider has.

struct tachy_ep_builtin {
    const char *name;    // "openvino"
    const char *ort;     // ONNX Runtime's, "OpenVINO"
    const char *library; // that has it; NULL: ONNX Runtime's own
    const char *package; // of Python's registry, which brings that; NULL: none
    const char *threads; // its option for threads inside of a run; NULL: none
    const char *memory;  // ONNX Runtime's name of the memory that its tensors may lie in, where it works
                         // on a stream that it is given (user_compute_stream, device_id); NULL: it does not
    // NULL: ONNX Runtime's generic call.
    OrtStatus *(*append)(const OrtApi *api, OrtSessionOptions *o, const char *const *keys,
                         const char *const *values, size_t nb);
};

const struct tachy_ep_builtin *tachy_ep_builtin(const char *name); // NULL: there is none
const char *tachy_ep_builtin_name(size_t i);                       // NULL behind the last

// TACHY_ERR_UNAVAILABLE, logged: the library that is missing, or what it said.
int tachy_ep_builtin_add(struct tachy_ort *ort, OrtSessionOptions *options, const struct tachy_ep_builtin *b,
                         const char *const *keys, const char *const *values, size_t nb,
                         const struct tachy_log *log);
