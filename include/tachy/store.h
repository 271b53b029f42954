#pragma once
#include <tachy/common.h>

#ifdef __cplusplus
extern "C" {
#endif

// The engine store keeps findings about a network on a machine from one process to the next, such as the fastest kernel
// for each step. One small file per entry, KEY.plan in $XDG_CACHE_HOME/tachy/engines (~/.cache/tachy/engines). Nothing
// in it is required: a missing or damaged entry is made again, and results have the same bits with and without it.
//
// Any number of threads and processes may use one store. An entry appears complete or not at all.

enum tachy_store_state {
    TACHY_STORE_GOOD = 0,
    TACHY_STORE_OUTDATED, // from another version of this library, not readable by this one
    TACHY_STORE_DAMAGED,  // truncated, changed, or a foreign file with an entry's name
};
// "good", "outdated", "damaged". Static strings.
TACHY_API const char *tachy_store_state_name(enum tachy_store_state s);

struct tachy_store_entry {
    const char *key;   // 32 hexadecimal digits
    const char *title; // network, processor and finding, one line; "" if damaged
    uint64_t bytes;    // of the file
    int64_t used;      // time of last write or read, seconds since 1970, accurate to a day
    enum tachy_store_state state;
};

struct tachy_store_entries {
    const char *dir;
    const struct tachy_store_entry *entries; // most recently used first
    int nb_entries;
    uint64_t bytes; // in total
};

struct tachy_store_params { // {0} is valid
    const char *dir; // NULL: the user's folder
    const struct tachy_log *log;
};

// Lists the store; a folder that does not exist is an empty store. Files without an entry's name are ignored. On
// success *out is the caller's, to be freed with tachy_store_list_free(); NULL on failure. TACHY_ERR_IO: the folder
// cannot be read; TACHY_ERR_NOT_FOUND: no `dir`, and neither XDG_CACHE_HOME nor HOME is set; TACHY_ERR_NOMEM.
TACHY_API int tachy_store_list_sized(size_t p_size, struct tachy_store_entries **out,
                                     const struct tachy_store_params *p);
#define tachy_store_list(...) tachy_store_list_sized(sizeof(struct tachy_store_params), __VA_ARGS__)
TACHY_API void tachy_store_list_free(struct tachy_store_entries **l);

struct tachy_store_gc { // entries to remove besides damaged and outdated ones; {0} is valid
    int unused_days; // entries unused for this many days; 0: 90
    bool all;        // every entry
};

// Removes entries, and files that interrupted writers left behind at least an hour ago. Other files stay. `what` may be
// NULL: as {0}. *entries and *bytes count what was removed; `entries` and `bytes` may be NULL. Returns as
// tachy_store_list(); TACHY_ERR_IO also if a file cannot be removed (the others still are).
TACHY_API int tachy_store_remove_sized(size_t p_size, size_t what_size, const struct tachy_store_params *p,
                                       const struct tachy_store_gc *what, int *entries, uint64_t *bytes);
#define tachy_store_remove(...) \
    tachy_store_remove_sized(sizeof(struct tachy_store_params), sizeof(struct tachy_store_gc), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
