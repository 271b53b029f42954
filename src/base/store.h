#pragma once
#include <tachy/store.h>

// Reads and writes the engine store (see tachy/store.h). Texts of any back end, which alone interprets keys and texts.
// Thread-safe.

enum { TACHY_STORE_KEY = 32 }; // hexadecimal digits of a key

// A digest as a key; `key` has room for TACHY_STORE_KEY + 1.
void tachy_store_key(const uint64_t digest[2], char *key);

// The text stored under `key`, to be freed with tachy_free(). TACHY_ERR_NOT_FOUND: there is no usable one; if a file
// exists, a line at WARN names it and the reason. TACHY_ERR_NOMEM. `dir` NULL: the user's.
int tachy_store_load(const char *dir, const char *key, char **text, const struct tachy_log *log);

// Stores a text; `title` is one line for people. A store that cannot be written (read-only, disk
// full) is a line at VERBOSE and the code of what happened: nothing for a caller to fail for.
int tachy_store_save(const char *dir, const char *key, const char *title, const char *text,
                     const struct tachy_log *log);
