#pragma once
#include <tachy/common.h>

#ifdef __cplusplus
extern "C" {
#endif

// Describes what this machine offers and what is missing. *json (free it with tachy_free())
// is an object:
//   tachy        version text
//   cpu          {name, cores, isa ("avx2": what the kernels use), features[]}
//   machine      {caches: [{level, type ("data", "instruction", "unified"), kib, cores that share it}], governor,
//                 celsius (the hottest sensor), throttled (times that a core slowed down because of heat)};
//                 null: unknown
//   gpu          [{name, driver, memory_mib, ..., state: {pcie: {generation, generation_max, width, width_max},
//                 persistence, power_limit_w, power_default_w, celsius, slowed[]} or null, decode: [{codec, chroma ("4:2:0"), bits, max_width,
//                 max_height, engines}] or null}], empty without an NVIDIA driver
//   ffmpeg       {libavcodec, libavformat, libavutil, libswscale: "59.37.100",
//                 encoders: {name: whether it is there}}
//   onnxruntime  {path, version, providers[], tachy: {path, version} or null} or null
//   models       [{name, present, path}]
//   missing      [{what, command}]: what normal use still needs, and the command that gets it
//   advice       [{what, command}]: what makes runs needlessly slow, and the command that fixes it or
//                shows more about it
// Downloads and changes nothing. Missing parts are not an error. TACHY_ERR_NOMEM.
// Thread-safe.
TACHY_API int tachy_doctor(char **json, const struct tachy_log *log);
// Measures the bytes per second that all cores together read from memory: the best of five rounds over 192 MiB; 0: not
// enough memory. Keeps every core busy for about 0.1 s, so tachy_doctor() does not call it; tachy_doctor_text() prints
// the figure if it is set as machine.memory_bytes_per_s. Thread-safe.
TACHY_API double tachy_doctor_bandwidth(void);
// Formats that object as text. Free *text with tachy_free(); it is NULL on failure: TACHY_ERR_FORMAT (`json` is
// no object), TACHY_ERR_NOMEM. Thread-safe.
TACHY_API int tachy_doctor_text(char **text, const char *json);

#ifdef __cplusplus
}
#endif
