#pragma once
#include "flow/motion.h"
#include "stage/flow_cache.h"
#include "stage/stage_ops.h"

// Shared by both forms of tachy_stage_motion.

enum { MOTION_NAMED = 2 };

struct tachy_motion_stage {
    struct flow_cache cache;
    int width, height;
    double scale_x, scale_y; // frame pixels of one
};

// Per item.
struct motion_things {
    struct tachy_region region[TACHY_MOVING_MOST];
    struct tachy_named value[TACHY_MOVING_MOST][MOTION_NAMED];
};

extern const struct tachy_option tachy_motion_options[];
int tachy_motion_open(struct tachy_stage *st, const tachy_settings *s);
void tachy_motion_close(struct tachy_stage *st);
int tachy_motion_start(struct tachy_stage *st, struct tachy_video_info *video);
// The item's numbers and things, by its flow. u, v, scratch: as tachy_motion_of() says.
void tachy_motion_tell(struct tachy_stage *st, struct tachy_item *item, const float *u, const float *v, void *scratch);
