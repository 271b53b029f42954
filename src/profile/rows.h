#pragma once
#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>
#include <tachy/run.h>

// The rows under which time is counted: decode, then the stages of the tasks by name, and encode. A step is an index
// into such a table. A pipeline has one, or shares its profile's; rows are only added, so a step stays what it is.
// Thread-safety: any thread adds and reads.

enum tachy_step_flag {
    TACHY_STEP_MODEL = 1 << 0,    // runs a network
    TACHY_STEP_IN_ORDER = 1 << 1, // an ordered stage counts here
};

enum { TACHY_STEP_DECODE }; // row 0 of each table; "encode" is added by who writes

struct tachy_row {
    char name[TACHY_STEP_NAME];
    _Atomic unsigned flags;
    _Atomic(const char *) remedy; // for the verdict: what makes it cheaper; a static string, NULL: nothing is known
};

struct tachy_rows {
    pthread_mutex_t lock; // of who adds
    _Atomic int n;        // rows below it keep their names
    _Atomic(const char *) in_order; // what makes the stages with TACHY_STEP_IN_ORDER cheaper
    struct tachy_row row[TACHY_MAX_STEPS];
};

void tachy_rows_open(struct tachy_rows *s);
void tachy_rows_close(struct tachy_rows *s);

// Finds the row of this name, or adds it, and adds these flags to it. The first remedy given (may be NULL) is kept. If
// the table is full, all further names share its last row, "other".
int tachy_rows_add(struct tachy_rows *s, const char *name, unsigned flags, const char *remedy);

static inline int tachy_rows_count(const struct tachy_rows *s) { return atomic_load(&s->n); }

static inline bool tachy_rows_has(const struct tachy_rows *s, int step, unsigned flag)
{
    return atomic_load_explicit(&s->row[step].flags, memory_order_relaxed) & flag;
}
