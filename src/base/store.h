#pragma once
#include <tachy/store.h>

// What reads and writes the engine store (see tachy/store.h). Texts of any back end: what a key
// and a text mean is theirs. Thread-safe.

enum { TACHY_STORE_KEY = 32 }; // hexadecimal digits of a key

// A digest as a key; `key` has room for TACHY_STORE_KEY + 1.
void tachy_store_key(const uint64_t digest[2], char *key);

// The text that was stored under `key`, to be freed with tachy_free(). TACHY_ERR_NOT_FOUND: there is
// none that can be used; where a file was there, a line at WARN names it and why. TACHY_ERR_NOMEM.
// `dir` NULL: the user's.
int tachy_store_load(const char *dir, const char *key, char **text, const struct tachy_log *log);

// Stores a text; `title` is one line for people. A store that cannot be written (read-only, disk
// full) is a line at VERBOSE and the code of what happened: nothing for a caller to fail for.
int tachy_store_save(const char *dir, const char *key, const char *title, const char *text,
                     const struct tachy_log *log);
