#pragma once
#include "provider/provider.h"

// What a program gives the provider as key=value with the session (add_provider_for_devices(devices,
// {"threads": "2"}), which ONNX Runtime keeps as the session's entry ep.tachy.threads).
//   threads  inside of one run, 1..256 [1]
//
// NULL, or a status that names the key and what it takes.
OrtStatus *provider_options_read(struct provider_options *o, const struct provider *p, const char *name,
                                 const OrtSessionOptions *session);
