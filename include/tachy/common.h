#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Error codes, the log callback and versions, which every other header needs.
//
// Conventions that hold for the whole library
// - A function that can fail returns TACHY_OK (0) or a negative code of `enum tachy_err`;
//   output parameters are set to NULL or zero on failure.
// - A failure is logged once, at TACHY_LOG_ERR, as one sentence that names the file,
//   option or library and what to do about it. The library never prints, exits or aborts.
// - `{0}` is a valid params struct unless a field says "required"; 0 means the default.
// - The library leaves signals alone. A process that ignores SIGPIPE and SIGXFSZ gets an error and a message
//   if a reader has gone or a file reaches its size limit; by default these signals end the process.
// - Strings are UTF-8. A `const char *` that is passed in need only live until the call
//   returns, unless its comment says otherwise.
// - Functions that end an object (`_close`, `_free`, `_leave`, `_unref`) take a pointer to it, which they
//   clear. They accept NULL, a pointer to NULL and half-open objects.
// - Any other pointer must not be NULL unless the function's comment says "`x` may be NULL"; a log may always
//   be NULL. On a NULL that is not allowed the function does nothing and returns TACHY_ERR_INVAL, NULL, false or 0,
//   by its type. It logs this if the call or one of its objects has a log.

// - A newer library works with programs that were built for an older one. A function that takes a params struct, or fills one
//   with figures, is a macro that adds sizeof: tachy_run(p, summary) calls tachy_run_sized(sizeof ..., sizeof ..., p, summary),
//   so the library reads and writes no more than the program knows; other fields count as 0. Such structs grow at
//   their end only. Structs inside them, elements of arrays and plain values (tachy_log, tachy_color, tachy_tensor, ...)
//   keep their size; those that the library hands out by pointer grow at their end. Bindings call the functions in _sized.

#if defined(__GNUC__) || defined(__clang__)
#define TACHY_API __attribute__((visibility("default")))
#define TACHY_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TACHY_API
#define TACHY_PRINTF(fmt, args)
#endif

#ifdef __cplusplus
extern "C" {
#endif

// X(name, code, text): one row per error. Codes are stable.
#define TACHY_ERRORS(X)                                                                            \
    X(OK, 0, "done")                                                                               \
    X(ERR_NOMEM, -1, "out of memory")                                                              \
    X(ERR_INVAL, -2, "invalid argument or option")                                                 \
    X(ERR_NOT_FOUND, -3, "not found")                                                              \
    X(ERR_EXISTS, -4, "exists already")                                                            \
    X(ERR_IO, -5, "input or output failed")                                                        \
    X(ERR_NO_SPACE, -6, "no space left on the device, or a limit on file size is met")             \
    X(ERR_FORMAT, -7, "data is damaged or not of the expected format")                             \
    X(ERR_UNSUPPORTED, -8, "not supported")                                                        \
    X(ERR_UNAVAILABLE, -9, "a needed library, device or service is missing")                       \
    X(ERR_DIGEST, -10, "SHA-256 differs from the expected one")                                    \
    X(ERR_MISMATCH, -11, "a model does not fit its card")                                          \
    X(ERR_EXTERNAL, -12, "a library that is used failed")                                          \
    X(ERR_INTERRUPTED, -13, "stopped on request")                                                  \
    X(ERR_AGAIN, -14, "try again later")                                                           \
    X(ERR_EOF, -15, "end of stream")                                                               \
    X(ERR_STATE, -16, "call out of order")                                                         \
    X(ERR_LIMIT, -17, "larger than a limit allows")

enum tachy_err {
#define TACHY_X(name, code, text) TACHY_##name = code,
    TACHY_ERRORS(TACHY_X)
#undef TACHY_X
};

// "ERR_NOT_FOUND" / "not found" for a code; "ERR_UNKNOWN" / "unknown error" otherwise.
// Static strings. Thread-safe.
TACHY_API const char *tachy_err_name(int err);
TACHY_API const char *tachy_err_text(int err);

enum tachy_log_level {
    TACHY_LOG_NONE = 0,
    TACHY_LOG_ERR = 1,     // the call fails; one sentence per failure
    TACHY_LOG_WARN = 2,    // the call goes on, but the user should know
    TACHY_LOG_INFO = 3,    // once or twice per run
    TACHY_LOG_VERBOSE = 4, // what was picked and why
    TACHY_LOG_DEBUG = 5,
};

// Receives messages without a final newline. `fn` may be called from any thread, also from
// several at once; it must not call back into the object that logs.
struct tachy_log {
    void (*fn)(void *user, enum tachy_log_level level, const char *msg);
    void *user;
    enum tachy_log_level max_level; // messages above are not formatted; 0: TACHY_LOG_INFO
};

// Version of this library, "MAJOR.MINOR.PATCH". Static string.
TACHY_API const char *tachy_version(void);

// Frees memory that a function of this library returned and whose comment names this
// function (JSON texts and the like). `p` may be NULL.
TACHY_API void tachy_free(void *p);

// A fraction: time bases (seconds per tick) and frame rates (frames per second).
struct tachy_rational {
    int num, den;
};

// Replaces secrets of network addresses in `text` by stars, in place: "user:password@", the last part of an RTMP
// address (the stream key), and the query values of key, passphrase, password, sig, signature, streamid and token. The
// library applies this to each message that it logs, and to names in summaries and figures. `text` may be NULL.
TACHY_API void tachy_hide_secrets(char *text);

// Returns the closest of `n` names to `word` by edit distance, for "did you mean", or NULL if none is near. Entries may
// be NULL. Of two equally close names, one with the same first letter wins.
TACHY_API const char *tachy_nearest(const char *word, const char *const *names, size_t n);

#ifdef __cplusplus
}
#endif
