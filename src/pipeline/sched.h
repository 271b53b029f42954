#pragma once
#include "base/base.h"

// The executor's decisions: how many items may be where, and how many a worker takes. Pure functions of numbers;
// tests/unit/test_sched.c simulates them.

// Inputs for a stream's bounds. Bytes are per item.
struct sched_stream {
    int64_t in_bytes, out_bytes; // decoded and written picture; 0: none is written
    int64_t item_bytes;          // of what the stages keep in an item
    int workers;
    int group;           // items that a worker takes at once
    int batch;           // pictures per run of a model that runs apart from the workers; 0, 1: there is none
    int64_t max_bytes;   // that pictures in flight may take; 0: no wish
    int64_t window;      // positions ahead of pull that push may reach; 0: no wish
    int64_t ahead;       // items that wait before ordered spans for the ones after them, in all
    int64_t most;        // items in flight that were asked for, at most; 0: no wish
    int64_t memory;      // of the machine
    int64_t device_room; // that the run may still take of a GPU's memory; with on_gpu
    int gpus;            // whose memory pictures may be in; 0: one, or the host's. A group has pictures of one memory
    bool on_gpu;         // decoded pictures are in a GPU's memory
    bool holds_input;    // items wait for a turn with their decoded picture
    bool begins_in_turn; // the turn is the first: nothing is done with what waits for it
    bool keeps_input;    // the span that writes reads it
};

struct sched_bounds {
    int64_t depth;      // items that push in order lets be in flight, at least 2 more than `ahead`
    int64_t window;     // positions that push lets be ahead of pull, at least depth
    int64_t near;       // items go into the span that writes this far ahead of pull
    int64_t inputs_max; // decoded pictures that may be with workers or wait for one
    int64_t inputs_far; // of a part of the input that is far ahead
};

void sched_bounds(const struct sched_stream *s, struct sched_bounds *b);
// Lowers the bounds if the host's memory has `room` only for fewer pictures in flight and waiting. Recomputes near and
// inputs_max.
void sched_fit(const struct sched_stream *s, struct sched_bounds *b, int64_t room);

// Decoded pictures that may be with workers or wait for one if the next is `ahead` positions from pull, and several threads decode parts
// of the input: the nearest part goes first. Else all parts would come to their ends at once, and their results fill the window.
int64_t sched_inputs(const struct sched_bounds *b, int64_t ahead);

// Items of a stream that a worker takes through its stages at once, 1..most: as many as pay for one of them (`wanted`),
// or one by one.
int sched_group(int wanted, bool one_by_one, int most);

// Items whose turn comes one right after the other, of those that wait, that a worker takes before it goes on with them: a
// hand-over for each would hold up the stream. On a CPU an item's picture is in the worker's cache, so it goes on at once.
int sched_turns(int group, bool one_by_one, bool on_gpu);

// Jobs that a worker takes of `ready` ones: several only of those that are done in a moment (`cost_ns` is what one took
// lately, 0: not known), not more than its share, 1..most.
int sched_share(int ready, int workers, uint64_t cost_ns, int most);

// How long a worker pauses at most between its jobs, if they run several at once, after it paused for `rest_us` at most and
// found `enough` work or not.
long sched_rest(long rest_us, bool enough);

// True if items parked before the span that writes stay there although pull has moved on to `pulled`: with a GPU the
// next ones are released together, when half of those below `from`, which may go on, have been pulled.
bool sched_gate_waits(const struct sched_bounds *b, bool on_gpu, int64_t from, int64_t pulled);
