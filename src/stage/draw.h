#pragma once
#include "media/frame_pool.h"
#include "postprocess/overlay.h"
#include "stage/stage.h"

// The regions over the picture: what the stage's two forms have in common.

struct tachy_draw {
    struct tachy_overlay_params overlay;
    tachy_frame_pool *pool; // of pictures that are written
};

extern const struct tachy_option tachy_draw_options[];

// See struct tachy_stage_ops.
int tachy_draw_open(struct tachy_stage *st, const tachy_settings *s);
void tachy_draw_close(struct tachy_stage *st);
