#pragma once
#include <tachy/settings.h>

#ifdef __cplusplus
extern "C" {
#endif

// Searches the vectors in a file for those nearest to texts and pictures (docs/categorize.md). Settings:
// categorize.embeddings (required), .search and .like (at least one), .hits, and the network (model.name, ...). *json:
// an array of {"query": the text or the picture's name, "hits": [{"score": the cosine, "row", "file", "frame",
// "time"}]}, best first. Free with tachy_free(); NULL on failure. Blocks; texts and pictures run on the CPU.
// TACHY_ERR_INVAL: the settings are wrong; TACHY_ERR_MISMATCH: the file's vectors are from another network;
// TACHY_ERR_NOT_FOUND, TACHY_ERR_FORMAT, TACHY_ERR_IO: a file, which the log names. `log` may be NULL.
TACHY_API int tachy_search(char **json, const tachy_settings *settings, const struct tachy_log *log);

#ifdef __cplusplus
}
#endif
