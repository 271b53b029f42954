#pragma once
#include "stage/mask.h"

// Temporal smoothing of the masks: --smooth. What both forms have.

extern const struct tachy_stage_ops tachy_stage_smooth, tachy_stage_smooth_cuda;

struct smooth {
    struct tachy_masks *masks;
    float strength;
};

struct smooth_state {
    struct tachy_stage *st;
    const struct smooth_form *form;
    struct smooth_eye {
        void *smooth; // the form's; NULL before the first mask
        int width, height;
    } eye[TACHY_MAX_EYES];
};

// Of one region; `save` gives size() bytes, which are the same for all forms.
struct smooth_form {
    int (*open)(struct smooth_state *s, struct smooth_eye *e); // in the place of what is there, for masks of its size
    size_t (*size)(const void *smooth);
    int (*save)(const struct smooth_state *s, const struct smooth_eye *e, void *data);
    int (*load)(struct smooth_state *s, struct smooth_eye *e, const void *data, size_t size);
};

static inline struct smooth *smooth_of(const struct smooth_state *s) { return tachy_stage_priv(s->st); }

// See struct tachy_stage_ops.
int smooth_open(struct tachy_stage *st, const tachy_settings *set);
int smooth_save(const void *state, void **data, size_t *size);
int smooth_load(void *state, const void *data, size_t size);
// Makes the region's smoothing one for masks of this size.
int smooth_ensure(struct smooth_state *s, struct smooth_eye *e, int width, int height);
