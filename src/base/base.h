#pragma once
#include <stdarg.h>
#include <string.h>
#include <tachy/common.h>

// Small helpers that every folder uses.

#define TACHY_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define TACHY_MIN(a, b) ((a) < (b) ? (a) : (b))
#define TACHY_MAX(a, b) ((a) > (b) ? (a) : (b))
#define TACHY_CLAMP(v, lo, hi) TACHY_MIN(TACHY_MAX(v, lo), hi)
#define TACHY_DEF(v, def) ((v) ? (v) : (def)) // 0 means the default
#define TACHY_ALIGN(v, a) (((v) + ((a) - 1)) / (a) * (a))

// Formats and hands a message to the log; NULL logs are silent. One message is one line of
// at most 1023 bytes.
void tachy_msg(const struct tachy_log *log, enum tachy_log_level level, const char *fmt, ...)
    TACHY_PRINTF(3, 4);

// Logs at ERR and returns `err`: `return tachy_fail(log, TACHY_ERR_IO, "...", ...)`.
int tachy_fail(const struct tachy_log *log, int err, const char *fmt, ...) TACHY_PRINTF(3, 4);

// True if `cond` holds; else logs the condition's text and returns false.
#define TACHY_CHECK(log, cond)                                                                     \
    ((cond) || (tachy_msg((log), TACHY_LOG_ERR, "%s: the argument check `%s` failed", __func__,    \
                          #cond),                                                                  \
                false))

// The log in an object or in parameters that may be NULL: TACHY_LOG_OF(p, log).
#define TACHY_LOG_OF(object, log) ((object) ? (object)->log : NULL)
// Sets an output pointer to NULL, if there is one.
#define TACHY_CLEAR(out) ((void)((out) ? (*(out) = NULL) : NULL))

// Structs that cross between a program and the library go with the size that the program knows (common.h). In: `own`, filled
// with *theirs, zeros after what they know; NULL if theirs is. Out: as much of *own as theirs holds, zeros after it.
const void *tachy_sized_in(void *own, size_t own_size, const void *theirs, size_t size);
void tachy_sized_out(void *theirs, size_t size, const void *own, size_t own_size);

// errno -> our code (ENOENT -> NOT_FOUND, ENOSPC, EDQUOT, EFBIG -> NO_SPACE, ENOMEM -> NOMEM, else IO).
int tachy_err_from_errno(int err);

// 64-byte aligned memory, freed with tachy_aligned_free(). NULL on failure or size 0.
void *tachy_aligned_alloc(size_t size);
void tachy_aligned_free(void *p);

// Heap text of a format; NULL when out of memory. Free with tachy_free().
char *tachy_asprintf(const char *fmt, ...) TACHY_PRINTF(1, 2);

// $XDG_CACHE_HOME/tachy, $XDG_DATA_HOME/tachy (or ~/.cache, ~/.local/share); created. Free with tachy_free(). NULL if
// there is no home folder.
char *tachy_cache_dir(void);
char *tachy_data_dir(void);

// mkdir -p. TACHY_OK also if the folder exists.
int tachy_make_folders(const char *path, const struct tachy_log *log);

// Reads a whole regular file of at most `limit` bytes; a NUL follows the data. Free with
// tachy_free().
int tachy_read_file(const char *path, size_t limit, char **data, size_t *size,
                    const struct tachy_log *log);
// Refuses a file that is there, unless it is to be overwritten, and one whose folder is not; `option` names another one:
// "--embeddings FILE".
int tachy_check_free(const char *path, bool overwrite, const char *option, const struct tachy_log *log);
// Writes beside the name and renames: a reader sees the old or the new file, whole.
int tachy_write_file(const char *path, const void *data, size_t size, const struct tachy_log *log);

