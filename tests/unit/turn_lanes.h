#pragma once
#include "plan/cuda/parts.h"

#include <stdlib.h>
#include <string.h>

// The second step of a pair, which the first one, in front of it, has done.
static inline bool is_done(const struct cuda_step *s) { return s->kind == CUDA_CONV && s->way.kernel == CUDA_CONV_DONE; }

// Steps of a region in another order that its lanes may have: one lane after the other, the last or the first one in front. Returns
// how many regions have several lanes.
static inline int turn_lanes(struct cuda_plan *p, bool last_first)
{
    struct cuda_step *all = malloc(sizeof(*all) * (size_t)p->nb_steps + 1);
    int regions = 0;
    for (int from = 0, to; all && from < p->nb_steps; from = to) {
        const int region = p->steps[from].lane.region;
        int n = 0;
        for (to = from + 1; to < p->nb_steps && (p->steps[to].lane.region == region || is_done(&p->steps[to])); to++)
            ;
        for (int lane = 0; lane < CUDA_LANES; lane++)
            for (int i = from; i < to; i++)
                if (!is_done(&p->steps[i]) && p->steps[i].lane.lane == (last_first ? CUDA_LANES - 1 - lane : lane)) {
                    all[n++] = p->steps[i];
                    if (i + 1 < to && is_done(&p->steps[i + 1]))
                        all[n++] = p->steps[i + 1];
                }
        regions += n && all[0].lane.lane != all[n - 1].lane.lane;
        memcpy(p->steps + from, all, sizeof(*all) * (size_t)n);
    }
    free(all);
    return regions;
}
