#include "base/base.h"
#include "plan/cuda/parts.h"

#include <stdlib.h>

// Runs independent branches in parallel: a region is a sequence of nodes that fall into several groups without a path
// from one to another. Each group has a lane, a stream of the captured run. Branches that meet become one group if others
// are busy for as long as they take.

struct region {
    const struct tachy_node *node[CUDA_REGION]; // in their order
    int group[CUDA_REGION], n, nb_groups;
};

// The group of the value's maker in the region, -1: it has none there.
static int group_of(const struct region *r, const struct tachy_value *v)
{
    for (int k = 0; v && v->made_by && k < r->n; k++)
        if (r->node[k] == v->made_by)
            return r->group[k];
    return -1;
}

// About how long a node takes on a large GPU, in us.
static double time_of(const struct tachy_node *n)
{
    struct tachy_layer_cost c = tachy_node_cost(n);
    return c.bytes ? 3 + 2e-6 * (double)c.multiply_adds / 500 + 1e-6 * (double)c.bytes / 3 : 0;
}

// Makes the groups that meet in `n` one, and returns it: a new one if they are none, -1 if the region ends in front of `n`.
static int meet(struct region *r, const struct tachy_node *n)
{
    bool meets[CUDA_REGION] = {false};
    double time[2] = {0}; // of the others, of those that meet
    int first = -1, nb = 0;
    for (int i = 0; i < n->nb_in; i++) {
        int group = group_of(r, n->in[i]);
        if (group < 0 || meets[group])
            continue;
        meets[group] = true;
        first = nb++ ? TACHY_MIN(first, group) : group;
    }
    if (!nb)
        return r->nb_groups < CUDA_REGION ? r->nb_groups++ : -1;
    for (int i = 0; i < r->n && nb > 1; i++)
        time[meets[r->group[i]]] += time_of(r->node[i]);
    if (nb > 1 && time[0] < time[1])
        return -1;
    for (int i = 0; i < r->n; i++)
        r->group[i] = meets[r->group[i]] ? first : r->group[i];
    return first;
}

static void grow(struct region *r, const struct tachy_node *from)
{
    r->n = r->nb_groups = 0;
    for (const struct tachy_node *n = from; n && r->n < CUDA_REGION; n = n->next) {
        int group = meet(r, n);
        if (group < 0)
            return;
        r->node[r->n] = n;
        r->group[r->n++] = group;
    }
}

// Groups to lanes, the longest first, each to the lane with the least; false: fewer than two multiply matrices, or
// nearly all of the time is one's, for which memory is not worth it.
static bool share_out(const struct region *r, int *lane_of)
{
    double time[CUDA_REGION] = {0}, busy[CUDA_LANES] = {0};
    bool works[CUDA_REGION] = {false};
    double all = 0, most = 0;
    int working = 0;
    for (int i = 0; i < r->n; i++) {
        int group = r->group[i];
        time[group] += time_of(r->node[i]);
        working += !works[group] && tachy_node_cost(r->node[i]).multiply_adds;
        works[group] = works[group] || tachy_node_cost(r->node[i]).multiply_adds;
    }
    for (int i = 0; i < r->nb_groups; i++) {
        all += time[i];
        most = TACHY_MAX(most, time[i]);
    }
    for (int left = r->nb_groups; left > 0; left--) {
        int longest = 0, lane = 0;
        for (int i = 1; i < r->nb_groups; i++)
            longest = time[i] > time[longest] ? i : longest;
        for (int k = 1; k < CUDA_LANES; k++)
            lane = busy[k] < busy[lane] ? k : lane;
        busy[lane] += time[longest];
        time[longest] = -1;
        lane_of[longest] = lane;
    }
    return working >= 2 && all - most >= all / 8;
}

static bool settle(struct cuda_build *b, const struct region *r, int region)
{
    int lane_of[CUDA_REGION] = {0};
    if (!share_out(r, lane_of))
        return false;
    for (int i = 0; i < r->n; i++)
        b->lanes[r->node[i]->out->id] = (struct plan_lane){region, lane_of[r->group[i]]};
    return true;
}

// Inputs of the first node of a pair are read while the second writes, and the second writes when the first runs.
static void widen_pairs(struct cuda_build *b)
{
    for (const struct tachy_node *n = b->g->first; n; n = n->next)
        if (cuda_pairs(n)) {
            struct plan_beside *first = &b->beside[n->out->id], *second = &b->beside[n->next->out->id];
            first->behind = TACHY_MAX(first->behind, 1);
            second->front = TACHY_MAX(second->front, 1);
        }
}

// True if the step of `n` may become one with that of the sum in front of it, whose operands a region keeps only if the sum is in it.
static bool follows_sum(const struct tachy_node *n)
{
    const struct tachy_node *sum = n->prev;
    return sum && sum->op == TACHY_OP_BINARY && n->in[0] == sum->out && sum->out->uses == 1;
}

int cuda_find_lanes(struct cuda_build *b)
{
    const struct tachy_graph *g = b->g;
    struct region *r = malloc(sizeof(*r));
    int regions = 0;
    b->lanes = calloc((size_t)g->nb_values + 1, sizeof(*b->lanes));
    b->beside = calloc((size_t)g->nb_values + 1, sizeof(*b->beside));
    if (!r || !b->lanes || !b->beside) {
        free(r);
        return TACHY_ERR_NOMEM;
    }
    for (const struct tachy_node *n = g->first; n;) {
        grow(r, n);
        const struct tachy_node *next = n->next;
        if (r->nb_groups > 1 && !follows_sum(n) && settle(b, r, regions + 1)) {
            regions++;
            next = r->node[r->n - 1]->next;
        }
        n = next;
    }
    free(r);
    widen_pairs(b);
    return TACHY_OK;
}

// A squeeze passes data in memory after the arena, and so does the next one: its region runs in order.
void cuda_keep_lanes(struct cuda_build *b)
{
    enum cuda_scaled_role role;
    for (const struct tachy_node *n = b->g->first; n; n = n->next) {
        int region = b->lanes[n->out->id].region;
        if (!region || !cuda_scaled_of(b, n, &role))
            continue;
        for (const struct tachy_node *m = b->g->first; m; m = m->next)
            if (b->lanes[m->out->id].region == region)
                b->lanes[m->out->id] = (struct plan_lane){0};
    }
}
