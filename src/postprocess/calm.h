#pragma once
#include "postprocess/follow.h"
#include "postprocess/one_euro.h"

// Points of things that keep their numbers (follow.h), calmed by the one-euro filter. In the order of the stream.

// State of one stream; {0} at its beginning.
struct tachy_calm {
    int nb;
    struct tachy_calmed {
        int64_t id; // the thing's number
        int nb_points;
        struct tachy_one_euro_state *points; // 2 each: x, y; NULL: none yet
    } thing[TACHY_MAX_FOLLOWED];
};
void tachy_calm_free(struct tachy_calm *c);

// Calms the points of a frame's regions in place, and makes each region the box of its calmed points. At most
// TACHY_MAX_FOLLOWED regions, each with a number; state of numbers that are not among them is dropped. `seconds` since
// the previous frame. A speed of 1 is the longer side of the region per second. TACHY_ERR_NOMEM.
int tachy_calm_run(struct tachy_calm *c, const struct tachy_one_euro *f, struct tachy_region *regions, int nb, double seconds);

// The state as bytes, which another process of the same build takes; *data is for free(). TACHY_ERR_NOMEM.
int tachy_calm_save(const struct tachy_calm *c, void **data, size_t *size);
// Into an empty state, which stays empty on failure: TACHY_ERR_FORMAT, TACHY_ERR_NOMEM.
int tachy_calm_load(struct tachy_calm *c, const void *data, size_t size);
