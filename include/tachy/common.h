#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Error codes, the log callback and versions, which every other header needs.
//
// Conventions that hold for the whole library
// - A function that can fail returns TACHY_OK (0) or a negative code of `enum tachy_err`;
//   output parameters are set to NULL or zero on failure.
// - What went wrong is logged once, at TACHY_LOG_ERR, as one sentence that names the file,
//   option or library and what to do about it. The library never prints, exits or aborts.
// - `{0}` is a valid params struct unless a field says "required"; 0 means the default.
// - Signals are the process's: one that ignores SIGPIPE and SIGXFSZ gets an error with a sentence
//   where a reader has gone or a file meets its limit on size; the default would end the process.
// - Strings are UTF-8. A `const char *` that is passed in need only live until the call
//   returns, unless its comment says otherwise.
// - Functions that end an object (`_close`, `_free`, `_leave`, `_unref`) take a pointer to it, which they
//   clear. They accept NULL, a pointer to NULL and half-open objects.
// - Any other pointer must not be NULL unless the function's comment says "`x` may be NULL"; a log always
//   may. A NULL that is not allowed changes nothing: the function returns TACHY_ERR_INVAL, NULL, false or 0,
//   by its type, and logs it if the call or one of its objects has a log.

// - The library may grow without a rebuild of the programs that use it. A function that takes a params struct, or fills one
//   with figures, is a macro that adds sizeof: tachy_run(p, summary) calls tachy_run_sized(sizeof ..., sizeof ..., p, summary),
//   so the library reads and writes no more than the program knows, and what it does not know is 0. Such structs grow at
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

// X(name, code, text): one row an error. Codes are stable.
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
    TACHY_LOG_ERR = 1,     // the call fails; one sentence a failure
    TACHY_LOG_WARN = 2,    // goes on, but the user should know
    TACHY_LOG_INFO = 3,    // once or twice a run
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

// Covers the secrets of network addresses in `text` by stars, in place; NULL does nothing: "user:password@", the last part of
// an address of RTMP, which is the stream's key, and the values of key, passphrase, password, sig, signature, streamid and
// token in a query. The library does this to each message that it logs, and to names in summaries and figures.
TACHY_API void tachy_hide_secrets(char *text);

// Closest of `n` names to `word` by edit distance, for "did you mean"; NULL: none is near. Entries may be NULL. Of two that
// are as near, the one with the word's first letter.
TACHY_API const char *tachy_nearest(const char *word, const char *const *names, size_t n);

#ifdef __cplusplus
}
#endif
