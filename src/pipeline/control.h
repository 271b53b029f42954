#pragma once
#include "profile/prof.h"

#include <tachy/control.h>

// What a run tells its control and asks of it. Every function takes a NULL control as "none".

// What a run that goes on knows about itself, for one reader.
struct control_figures {
    double paused_s; // given: the run has been held for so long
    struct tachy_summary summary; // so far
    struct tachy_queues queues;
    int64_t total_frames;
    struct tachy_prof *sum; // the figures of all its threads are to be merged into this
};

struct tachy_control_ops {
    // Any thread, between begin and end; must not wait for the run's threads.
    void (*read)(void *run, struct control_figures *f);
    // Changes the setting `path` to a value that the option table has accepted. `value`: its
    // number (yes: 1). TACHY_ERR_UNSUPPORTED: not while it runs; *why (may be left NULL) then goes
    // on with the sentence "NAME cannot change while a run goes on". As `read`; may be NULL.
    int (*set)(void *run, const char *path, double value, char **why);
};

// A run begins: TACHY_ERR_STATE where another one has the control.
int tachy_control_begin(tachy_control *c, const struct tachy_control_ops *ops, void *run);
// It has ended, with `err` and this summary. Before what `read` reads is freed.
void tachy_control_end(tachy_control *c, int err, const struct tachy_summary *s);

// Waits a little (50 ms at most) where the run is paused, and says whether it was. Called by the
// thread that reads the source, again and again until it returns false.
bool tachy_control_hold(tachy_control *c);
// Nothing more is to be read: stopped or drained.
bool tachy_control_ending(const tachy_control *c);
// It was drained, not stopped.
bool tachy_control_drained(const tachy_control *c);
// Seconds that the run under way has been held up to now.
double tachy_control_paused_s(tachy_control *c);

// control.c, for control_set.c: calls the run's `set`; TACHY_ERR_STATE: there is no run.
int control_call_set(tachy_control *c, const char *path, double value, char **why);
const struct tachy_log *control_log(const tachy_control *c);
