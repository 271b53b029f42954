#pragma once
#include <tachy/common.h>

#ifdef __cplusplus
extern "C" {
#endif

// What this machine has for the work, and what is missing. *json, to be freed with
// tachy_free(), is an object:
//   tachy        version text
//   cpu          {name, cores, isa ("avx2": what the kernels use), features[]}
//   gpu          [{name, driver, memory_mib, ..., decode: [{codec, chroma ("4:2:0"), bits, max_width,
//                 max_height, engines}] or null}], empty without an NVIDIA driver
//   ffmpeg       {libavcodec, libavformat, libavutil, libswscale: "59.37.100",
//                 encoders: {name: whether it is there}}
//   onnxruntime  {path, version, providers[], tachy: {path, version} or null} or null
//   models       [{name, present, path}]
//   missing      [{what, command}]: what the main job needs and the command that gets it
// Looks only: nothing is fetched. What is missing is no failure; TACHY_ERR_NOMEM.
// Thread-safe.
TACHY_API int tachy_doctor(char **json, const struct tachy_log *log);
// Formats that object as text. Free *text with tachy_free(); it is NULL on failure: TACHY_ERR_FORMAT (`json` is
// no object), TACHY_ERR_NOMEM. Thread-safe.
TACHY_API int tachy_doctor_text(char **text, const char *json);

#ifdef __cplusplus
}
#endif
