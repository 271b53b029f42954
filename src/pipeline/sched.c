#include "pipeline/sched.h"

#define MIB ((int64_t)1 << 20)
#define GIB ((int64_t)1 << 30)
#define PINNED (320 * MIB) // that pictures which are written may take of it

enum {
    ITEM_REST = 65536,   // bytes of an item besides its pictures
    LEAST_RESTING = 4096,
    GPU_DEPTH = 32,      // enough for several pictures to finish at once
    GPU_NEAR = 128,      // so that workers who wait for a network between have enough to write
    MOST_WINDOW = 512, MOST_WINDOW_GPU = 4096,
    TURNS = 8,
    MOMENT_NS = 20000,   // that jobs taken at once may last
    REST_US = 50, REST_MOST_US = 16000,
};

static int memories(const struct sched_stream *s) { return TACHY_MAX(s->gpus, 1); }

// Items in flight by bytes and workers.
static int64_t depth_of(const struct sched_stream *s)
{
    int64_t bytes = s->in_bytes + s->out_bytes + ITEM_REST, max_bytes = s->max_bytes;
    // A group for each worker, and one that comes together in each memory. Where pictures are written too, they have what fits.
    int64_t groups = s->out_bytes ? 0 : (int64_t)s->group * (s->workers + memories(s));
    int64_t need = TACHY_MAX(s->workers + 2, groups);
    // Small pictures wait side by side: hand-overs are then few.
    int64_t small = TACHY_MIN(8 * MIB / bytes, 64);
    int64_t most = TACHY_MAX(TACHY_MAX(3 * (int64_t)s->workers + 4, small), groups);
    most = TACHY_MAX(most, (int64_t)s->batch * (s->workers + 1)); // of batches too, as far as they fit
    if (!max_bytes)
        max_bytes = TACHY_MAX(160 * MIB, TACHY_MIN(need * bytes, s->memory / 4));
    return TACHY_CLAMP(max_bytes / bytes, 2, most) + s->ahead;
}

// Frames of a GPU's wait there: as many as fit a quarter of what the run may still take of its memory, and
// results as many as a gigabyte holds, since their host memory is pinned.
static int64_t device_fit(const struct sched_stream *s)
{
    int64_t item = TACHY_MAX(s->item_bytes, LEAST_RESTING);
    int64_t picture = s->keeps_input ? s->in_bytes : 0;
    return TACHY_MIN(s->device_room / 4 / (item + picture), GIB / item);
}

// Bytes held by an item that is ahead of its turn, after the workers have done all they can for it.
static int64_t resting_bytes(const struct sched_stream *s)
{
    int64_t picture = s->holds_input ? s->in_bytes : s->keeps_input ? s->out_bytes : 0;
    return TACHY_MAX(s->item_bytes + picture, LEAST_RESTING);
}

// Sets the bounds that follow from depth and window.
static void set_reach(const struct sched_stream *s, struct sched_bounds *b)
{
    // A GPU's frames rest in its memory, which is large, their composites in the host's.
    int64_t pinned = s->max_bytes ? b->depth : TACHY_MIN((int64_t)GPU_NEAR, PINNED / TACHY_MAX(s->out_bytes, 1));
    b->near = s->on_gpu ? TACHY_CLAMP(pinned, b->depth, b->window) : s->keeps_input ? b->window : b->depth;
    // Pictures that wait for the ones before them are bounded by the window instead.
    b->inputs_max = s->holds_input || (s->keeps_input && s->on_gpu) ? INT64_MAX : b->depth;
    // A group with each worker, and one that comes together in each memory.
    b->inputs_far = TACHY_CLAMP((int64_t)s->group * (s->workers + memories(s)), (b->inputs_max - 1) / 2 + 1, b->inputs_max);
}

void sched_bounds(const struct sched_stream *s, struct sched_bounds *b)
{
    bool by_device = s->on_gpu && !s->max_bytes;
    int64_t groups = (int64_t)s->group * (s->workers + 2 * memories(s));
    b->depth = depth_of(s);
    if (by_device)
        b->depth = TACHY_MAX(b->depth, TACHY_MIN(TACHY_MAX((int64_t)GPU_DEPTH, groups), PINNED / TACHY_MAX(s->out_bytes, 1)));
    // Decoding ahead of a first turn only bridges one that takes long.
    int64_t most_bytes = TACHY_DEF(s->max_bytes, (s->begins_in_turn ? 40 : 160) * MIB);
    int64_t fit = by_device ? device_fit(s) : most_bytes / resting_bytes(s);
    int64_t most = TACHY_MAX(b->depth, s->on_gpu ? MOST_WINDOW_GPU : MOST_WINDOW);
    b->window = TACHY_DEF(s->window, TACHY_CLAMP(fit, b->depth, most));
    if (s->most)
        b->window = TACHY_CLAMP(s->most, 2 + s->ahead, b->window);
    b->depth = TACHY_MIN(b->depth, b->window);
    set_reach(s, b);
}

void sched_fit(const struct sched_stream *s, struct sched_bounds *b, int64_t room)
{
    int64_t pictures = s->in_bytes + s->out_bytes;
    const int64_t least = 2 + s->ahead;
    while (b->depth > least && b->depth * pictures > room - b->window * s->item_bytes) {
        b->window = TACHY_MAX(b->window / 2, least);
        b->depth = TACHY_MIN(b->depth, b->window);
        if (b->depth * pictures > room - b->window * s->item_bytes)
            b->depth = TACHY_MAX(b->depth / 2, least);
    }
    set_reach(s, b);
}

int64_t sched_inputs(const struct sched_bounds *b, int64_t ahead)
{
    int64_t fewer = b->inputs_max - b->inputs_far; // from a quarter of the window on
    return b->inputs_max == INT64_MAX ? INT64_MAX : b->inputs_max - TACHY_CLAMP(4 * ahead * fewer / b->window, 0, fewer);
}

int sched_group(int wanted, bool one_by_one, int most) { return one_by_one ? 1 : TACHY_CLAMP(wanted, 1, most); }

int sched_turns(int group, bool one_by_one, bool on_gpu)
{
    return on_gpu && !one_by_one ? TACHY_MAX(group, (int)TURNS) : group;
}

int sched_share(int ready, int workers, uint64_t cost_ns, int most)
{
    uint64_t fair = (uint64_t)(ready / workers + 1), fit = cost_ns ? MOMENT_NS / cost_ns : (uint64_t)most;
    return (int)TACHY_CLAMP(TACHY_MIN(fit, fair), 1, (uint64_t)most);
}

long sched_rest(long rest_us, bool enough)
{
    return enough ? rest_us - rest_us / 32 : TACHY_MIN(rest_us * 3 / 2 + REST_US, (long)REST_MOST_US);
}

bool sched_gate_waits(const struct sched_bounds *b, bool on_gpu, int64_t from, int64_t pulled)
{
    return on_gpu && b->near < b->window && from - pulled > b->near / 2;
}
