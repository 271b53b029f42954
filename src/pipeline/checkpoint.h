#pragma once
#include "stage/stage_ops.h"

#include <pthread.h>

// A run's state after the last frame before a cut, as bytes. Its parts are written by the threads that own them, ahead
// of the cut and at different times; at the cut they are taken together.

enum {
    CHECKPOINT_SKIP,  // which frame the next ones are compared with (frame_skip)
    CHECKPOINT_KEPT,  // its result
    CHECKPOINT_STATE, // of the ordered stage 0; stage i: CHECKPOINT_STATE + i
    CHECKPOINT_PARTS = CHECKPOINT_STATE + TACHY_MAX_STAGES
};

struct checkpoint_bytes {
    void *data; // free()
    size_t size;
};

struct checkpoint {
    unsigned parts; // bits 1 << part that every cut has
    pthread_mutex_t lock; // guards the rest
    struct checkpoint_entry *entries;
    int err; // what went wrong where nobody could be told
};

void checkpoint_open(struct checkpoint *c);
void checkpoint_close(struct checkpoint *c);

// Stores a part for the state after frame `id`; takes over `b->data` also on failure. `err`: making the part failed,
// which the cut reports. Any thread. Returns `err`, or TACHY_ERR_NOMEM.
int checkpoint_add(struct checkpoint *c, int64_t id, int part, struct checkpoint_bytes *b,
                   int err);
// All parts after frame `id` as one block, to be freed; {NULL, 0} if the run has none. TACHY_ERR_STATE: one is missing.
int checkpoint_take(struct checkpoint *c, int64_t id, struct checkpoint_bytes *all);
// Finds the parts in such a block; size 0 for those that are not in c->parts. TACHY_ERR_FORMAT.
int checkpoint_split(const struct checkpoint *c, const void *data, size_t size,
                     struct checkpoint_bytes part[CHECKPOINT_PARTS]);
