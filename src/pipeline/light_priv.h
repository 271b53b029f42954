#pragma once
#include "pipeline/light.h"
#include "stage/stage.h"

#include <pthread.h>

// Shared by the files that measure the light time.

enum { LIGHT_FRAMES = 64, LIGHT_ENOUGH = 24, LIGHT_STREAMS = 8, LIGHT_LANES = 256 };

// One GPU's share of the job.
struct light_gpu {
    bool decodes;               // its decoders do, wherever the frames then are
    struct light_gpu_task {
        struct tachy_device *device;
        uint64_t steps; // bits 1 << step: its multiprocessors do their work; 0: nothing else
        bool writes;    // one of them makes what the sink is given
        double to_host, to_device; // bytes copied per frame, besides its pictures
    } task;
    struct light_lane *sessions; // decoders side by side; opened as they are tried
    int nb_sessions;             // that are open
};

struct light_bench {
    const struct tachy_light_params *p;
    int encode; // the sink's step
    tachy_frame *frames[LIGHT_FRAMES]; // decoded
    tachy_frame *outs[LIGHT_FRAMES];   // composited
    int nb_frames;
    int group; // frames that go through their steps at once; nb_frames is a multiple unless it is smaller
    uint64_t from_ns, until_ns; // what is done between counts, for a GPU's decoders; threads stop at the latter
    pthread_mutex_t lock; // of the next two
    pthread_cond_t change;
    int ready;            // threads that are
    bool begun;           // they may
    char dir[64];      // for encoders
    struct light_gpu gpu;
};

// One thread of a saturated measurement.
struct light_lane {
    struct light_bench *b;
    int index;
    int step;
    void *worker[TACHY_MAX_STAGES];
    void *state[TACHY_MAX_STAGES]; // of a stream of the lane's own
    struct tachy_item *items; // one per frame, processed up to the step before
    int next;                 // of items
    tachy_source *source;     // for decoding
    tachy_sink *sink;         // for encoding, one round long
    uint64_t frames, ns;      // done, and the time that took
    int err;
};

// Opens a source of the lane's own, with one decoder.
int light_open_decode(struct light_lane *l);
// A thread of `main` for each of n structures of `size` bytes, at most LIGHT_LANES, and their end. TACHY_ERR_AGAIN:
// there were fewer.
int light_in_threads(void *lanes, size_t size, int n, void *(*main)(void *));
void light_add_rate(struct tachy_light *l, int step, double rate);
static inline double light_seconds(const struct light_bench *b) { return b->p->seconds > 0 ? b->p->seconds : 0.4; }

// light_gpu.c. After the frames have been through all steps in lanes[0]: what is the GPU's; fills in l->of.
void light_gpu_find(struct light_bench *b, const struct light_lane *lanes, struct tachy_light *l);
// A round of a step that is the GPU's.
int light_gpu_measure(struct light_bench *b, struct light_lane *lanes, int n, int step,
                      struct tachy_light *l);
// light_link.c. Cost of a frame's copies; measured once, with all frames composited.
int light_gpu_link(struct light_bench *b, struct tachy_light *l);
void light_gpu_close(struct light_bench *b);
