#pragma once
#include "base/base.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes" // its table has () for (void)
#include <onnxruntime_c_api.h>
#pragma GCC diagnostic pop
#include <tachy/engine.h>

// Loader of ONNX Runtime: the library is found and opened at run time, once, and has one
// environment a process. Everything here may be called from any thread.

// The API that is asked for: functions of the header beyond it must not be called.
#define TACHY_ORT_API 23
// The ONNX Runtime version that introduced this API.
#define TACHY_ORT_MINOR 23

struct tachy_ort {
    const OrtApi *api;
    OrtEnv *env;
    OrtMemoryInfo *host; // describes the caller's buffers
    struct tachy_ep_library *libraries; // plugins, ep.c's
    char *path;          // of the library as it was opened
    char version[32];    // "1.31.1"
    // Private to ort.c, under its lock.
    void *handle;
    int refs;
    struct tachy_ort *next;
};

// Opens `library` (NULL: the search order of docs/models.md) or takes another reference to
// it. TACHY_ERR_UNAVAILABLE: not found, too old, or not ONNX Runtime.
int tachy_ort_open(struct tachy_ort **out, const char *library, const struct tachy_log *log);
void tachy_ort_close(struct tachy_ort **ort);

// While set, what ONNX Runtime reports on the calling thread goes to `log`, as VERBOSE;
// otherwise it is dropped (it never reaches standard error). Returns the one before.
const struct tachy_log *tachy_ort_log(const struct tachy_log *log);

// Hands each line that ONNX Runtime reports on the calling thread to `line`, as far as a session's
// severity lets it through; NULL ends that.
void tachy_ort_watch(void (*line)(void *user, const char *text), void *user);

// Frees `status`, logs "<what>: <its text>" and returns its code as ours; TACHY_OK and
// nothing logged for NULL.
int tachy_ort_check(const struct tachy_ort *ort, OrtStatus *status, const struct tachy_log *log,
                    const char *fmt, ...) TACHY_PRINTF(4, 5);
