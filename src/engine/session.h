#pragma once
#include "engine/engine_ops.h"
#include "engine/ort.h"

// A model that ONNX Runtime has loaded: weights and graph, shared by every engine of the same
// file and options in the process. ONNX Runtime allows concurrent runs of one session.
struct tachy_session {
    struct tachy_ort *ort;
    OrtSession *session;
    struct tachy_io in[TACHY_MAX_IO], out[TACHY_MAX_IO]; // names are owned
    int n_in, n_out;
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
};

// Returns the session for these parameters, loading the model where no engine holds it yet.
int tachy_session_open(struct tachy_session **out, const char *library,
                       const struct tachy_session_params *p, const struct tachy_log *log);
void tachy_session_close(struct tachy_session **s);
