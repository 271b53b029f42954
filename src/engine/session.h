#pragma once
#include "engine/engine_ops.h"
#include "engine/ep.h"

#include <pthread.h>
#include <stdatomic.h>

// A model that ONNX Runtime has loaded: weights and graph, shared by every engine of the same
// file and options in the process. ONNX Runtime allows concurrent runs of one session, and so does
// a plan.
struct tachy_session {
    struct tachy_ort *ort;
    OrtSession *session; // NULL if `plan` is what runs
    struct tachy_io in[TACHY_MAX_IO], out[TACHY_MAX_IO]; // names are owned
    int n_in, n_out;
    // For the provider tachy: the plan that covers the whole model, and the model's inputs and outputs that are the
    // plan's.
    const struct tachy_ep_table *table;
    struct tachy_ep_plan *plan;
    int nb_plan_in, nb_plan_out, plan_in[TACHY_MAX_IO], plan_out[TACHY_MAX_IO];
    // Its nodes, those left to ONNX Runtime's own kernels, and the first of these in words.
    int nb_nodes, nb_left, nb_shown;
    char left[900];
    bool given_up; // one plan for all was wanted: without one nothing was compiled
    bool listing; // while ONNX Runtime's log lists the latter
    atomic_bool said; // in the log
    struct tachy_steps *steps; // profile of the plan; NULL: none
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

// For inspecting how libtachy_ep.so would run a model, instead of running it. `see` is called once when the session
// exists, on the opening thread; plan: NULL if none covers the model. Plan and context are then freed.
struct tachy_session_look {
    unsigned want;     // of enum tachy_ep_want
    const char *after; // as tachy_ep_table.open() has it
    int (*see)(const struct tachy_session_look *l, const struct tachy_session *s, const struct tachy_ep_table *table,
               const struct tachy_ep_context *context, const struct tachy_ep_plan *plan);
};

// Parameters of a session besides the engine's.
struct tachy_session_params {
    const char *path;
    int threads;
    int batch;     // fixes the leading dimension if it is free and has a name; 0: leave it
    const struct tachy_io *shapes; // the same for other dimensions: see tachy_engine_params
    int nb_shapes;
    const struct tachy_engine_constant *constants; // see there
    int nb_constants;
    bool settle; // the same
    const struct tachy_ep *ep; // NULL: ONNX Runtime's own CPU kernels
    const struct tachy_session_look *look; // with ep->table; such a session is nobody else's. NULL: none
    bool arena;
    const char *const *entries; // "session.key=value" for ONNX Runtime, ends with NULL
    const char *profile_dir;    // ONNX Runtime's operator profile is left here; NULL: none
    int profile_runs;           // of the first runs of the session
};

// Returns the session for these parameters; loads the model if no engine has it yet.
int tachy_session_open(struct tachy_session **out, const char *library,
                       const struct tachy_session_params *p, const struct tachy_log *log);
void tachy_session_close(struct tachy_session **s);

// session_plan.c: after the session was made with this context, which ended with `err`: the plan of one that failed goes.
void tachy_session_take_plan(struct tachy_session *s, const struct tachy_ep_table *table,
                             struct tachy_ep_context *context, int err);

// True if the inputs shall be fixed in the model itself.
static inline bool tachy_session_fixes(const struct tachy_session_params *p)
{
    return p->nb_constants || p->nb_shapes > 1 || p->settle;
}
struct onnx_free_dim; // onnx/file.h

// session_file.c: checks the model's file. *data: its bytes with the inputs fixed, for free(); NULL: it can be loaded
// unchanged, and `each` has been called for the inputs' free dimensions if it is an ONNX file. TACHY_ERR_FORMAT: not an ONNX
// model, or it names weights in files outside its folder; TACHY_ERR_MISMATCH: a constant does not fit.
int tachy_session_file(void **data, size_t *size, const struct tachy_session_params *p,
                       int (*each)(void *user, const struct onnx_free_dim *d), void *user, const struct tachy_log *log);

// session_settle.c: fills in what is open of the outputs' shapes. TACHY_ERR_MISMATCH: the model does not run.
int tachy_session_settle(struct tachy_session *s, const char *path, const struct tachy_log *log);

// session_nodes.c: another node that is left; ONNX Runtime's log while the session is made on another
// provider (`user`: the session).
void tachy_session_say_left(struct tachy_session *s, const char *text);
void tachy_session_on_line(void *user, const char *text);

// session_steps.c: the plan's steps as an operator profile in s->profile_dir, of the first
// s->profile_runs runs. run() as the table's.
int tachy_steps_open(struct tachy_session *s, const struct tachy_log *log);
int tachy_steps_run(struct tachy_session *s, const float *const in[], float *const out[]);
void tachy_steps_close(struct tachy_session *s);

// As above, for l->see().
int tachy_session_show_plan(struct tachy_session *s, const struct tachy_ep_table *table,
                            struct tachy_ep_context *context, const struct tachy_session_look *l, int err);

// One run with the buffers of `binding`; `options` may be NULL. From any thread.
OrtStatus *tachy_session_run(struct tachy_session *s, const OrtRunOptions *options, const OrtIoBinding *binding);
