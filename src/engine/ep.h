#pragma once
#include "base/ep_table.h"
#include "engine/ort.h"

// Execution providers: what runs a session's graph instead of ONNX Runtime's own CPU kernels.

struct tachy_ep {
    const char *name;    // how it is asked for: "tachy", "openvino"
    const char *library; // a plugin of ONNX Runtime's; NULL: the provider is part of ONNX Runtime
    const struct tachy_ep_table *table; // of libtachy_ep.so; NULL: another provider
    bool whole;          // one plan for all of the model, or none (with a table)
    const char *const *options; // "key=value" for the provider, ends with NULL; NULL: none
};

// Configures `options` for a session on the provider, and loads its library if needed. TACHY_ERR_UNAVAILABLE names the
// missing part.
int tachy_ep_add(struct tachy_ort *ort, OrtSessionOptions *options, const struct tachy_ep *ep,
                 const struct tachy_log *log);
// Unloads what was loaded, before the environment goes. No session may be left.
void tachy_ep_unload(struct tachy_ort *ort);

// Finds libtachy_ep.so (`library` NULL: as docs/models.md says), *path free()d by the caller, and
// its function table, which stays valid. TACHY_ERR_UNAVAILABLE: none, or of another version.
int tachy_ep_find(char **path, const struct tachy_ep_table **table, const char *library,
                  const struct tachy_log *log);
