#pragma once
#include "profile/prof.h"

#include <stdatomic.h>
#include <tachy/control.h>

// The interface between a run and its control. Every function takes a NULL control as "none".

// The figures of a current run, for one reader.
struct control_figures {
    double paused_s; // given: the run has been held for so long
    struct tachy_summary summary; // so far
    struct tachy_queues queues;
    int64_t total_frames;
    const char *input;      // its name; the run's memory
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

// A run's place in its control. The run's memory; fields are control.c's.
struct control_run {
    struct control_run *next;
    const struct tachy_control_ops *ops; // NULL: not started
    void *run;
    int number;          // the lowest that no other run that goes on has
    atomic_bool drained;
    uint64_t held_ns, held_from; // paused so far; held_from: since then, 0: not now
};

void tachy_control_begin(tachy_control *c, struct control_run *r,
                         const struct tachy_control_ops *ops, void *run);
// It has ended, with `err` and this summary. Before what `read` reads is freed.
void tachy_control_end(tachy_control *c, struct control_run *r, int err,
                       const struct tachy_summary *s);

// If the run is paused, waits a little (at most 50 ms) and returns true. The threads that read the source call it until
// it returns false.
bool tachy_control_hold(tachy_control *c, struct control_run *r);
// Nothing more is to be read: stopped or drained.
bool tachy_control_ending(const tachy_control *c, const struct control_run *r);
// It was drained, not stopped.
bool tachy_control_drained(const tachy_control *c, const struct control_run *r);
// Seconds that the run has been held up to now.
double tachy_control_paused_s(tachy_control *c, const struct control_run *r);

// control.c, for control_set.c: calls the `set` of every run; TACHY_ERR_STATE: there is no run.
int control_call_set(tachy_control *c, const char *path, double value, char **why);
const struct tachy_log *control_log(const tachy_control *c);
