#pragma once
#include "base/base.h"

#include <tachy/result.h>

// Per-stream state of an ordered stage of masks: an object for each eye, made for masks of one size.

struct tachy_mask_states_ops {
    int (*open)(void **out, int width, int height, const void *priv); // priv: the stage's
    void (*close)(void **object);
    // Bytes that another run on the same machine goes on from. load: TACHY_ERR_FORMAT: they are none.
    size_t (*size)(const void *object);
    void (*save)(const void *object, void *data);
    int (*load)(void *object, const void *data, size_t size);
};

// state_open to state_load of struct tachy_stage_ops.
int tachy_mask_states_open(const struct tachy_mask_states_ops *ops, const void *priv, void **state);
void tachy_mask_states_close(void *state);
int tachy_mask_states_save(const void *state, void **data, size_t *size);
int tachy_mask_states_load(void *state, const void *data, size_t size);
// The eye's object for masks of this size; a new one if the size has changed. TACHY_ERR_NOMEM.
int tachy_mask_states_get(void *state, int eye, int width, int height, void **object);
