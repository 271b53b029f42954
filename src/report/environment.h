#pragma once
#include <jansson.h>

// What a result depends on besides the program: `tachy`, `cpu`, `memory_mib`, `os`, `ffmpeg`, `gpus` (names), `governor` (null:
// the system does not say), and what passes: `time` (seconds since 1970), `load` (of the last minute). Cheap: it opens no
// library. docs/result-files.md documents it. NULL: no memory.
json_t *report_environment(void);
