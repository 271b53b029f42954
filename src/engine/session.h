#pragma once
#include "engine/engine_ops.h"
#include "engine/ort.h"

#include <pthread.h>
#include <stdatomic.h>

// A model that ONNX Runtime has loaded: weights and graph, shared by every engine of the same
// file and options in the process. ONNX Runtime allows concurrent runs of one session.
struct tachy_session {
    struct tachy_ort *ort;
    OrtSession *session;
    struct tachy_io in[TACHY_MAX_IO], out[TACHY_MAX_IO]; // names are owned
    int n_in, n_out;
    // Operator profile; profile_dir NULL: none.
    char *profile_dir;
    atomic_int profile_runs;       // still to be recorded
    bool profiling;                // under profile_lock, which a run holds for reading
    pthread_rwlock_t profile_lock;
    // Private to session.c, under its lock.
    char *key;
    int refs;
    struct tachy_session *next;
};

// What a session is made with, besides the engine's parameters.
struct tachy_session_params {
    const char *path;
    int threads;
    int batch;     // fixes the leading dimension where it is free and has a name; 0: leave it
    bool arena;
    const char *const *entries; // "session.key=value" for ONNX Runtime, ends with NULL
    const char *profile_dir;    // ONNX Runtime's operator profile is left here; NULL: none
    int profile_runs;           // of the first runs of the session
};

// Returns the session for these parameters, loading the model where no engine holds it yet.
int tachy_session_open(struct tachy_session **out, const char *library,
                       const struct tachy_session_params *p, const struct tachy_log *log);
void tachy_session_close(struct tachy_session **s);

// One run with the buffers of `binding`. From any thread.
OrtStatus *tachy_session_run(struct tachy_session *s, const OrtIoBinding *binding);
