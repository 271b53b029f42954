#pragma once
#include "pipeline/controller.h"
#include "pipeline/frame_skip.h"
#include "stage/stage.h"
#include "pipeline/shed.h"

#include <pthread.h>

// Mode live for one stream, and frame_skip in either mode: pure logic on a caller's clock, in nanoseconds from about 0
// on. live_stream.c connects it to a pipeline.
//
// Newest wins: at most one frame waits for a worker. It is not in the pipeline's queue itself; instead there is a
// ticket, an item that takes whichever frame is waiting when its turn comes. So a frame can be replaced until then,
// pushing never blocks, and frames stay in order.
//
// arrive -> waits (replaced by the next) -> take -> item -> ... -> write -> written
//
// Thread-safety: any thread may call; arrive, and take, from one thread at a time each.

struct tachy_live {
    struct tachy_live_params p;
    const struct tachy_log *log;
    bool can_reuse; // the task can take over results
    struct tachy_shed shed;

    pthread_mutex_t lock; // guards the rest
    struct tachy_controller controller;
    bool controlled; // there is a deadline to hold and a step to take
    struct tachy_frame_skip skip; // for the thread that takes, except its counts
    struct tachy_live_waiting {
        tachy_frame *frame; // a reference; NULL: nobody waits
        uint64_t stamp;     // the caller's
        uint64_t arrived;
    } waiting;
    bool ticket; // is on its way to a worker
    uint64_t due; // with target_fps: when the next frame is taken
    bool anew;   // a frame that restarted the stream was shed: the next one restarts it instead
    int64_t arrived;
};

// `declared`: what the task declares besides taking over results, bits of enum tachy_degrade.
void tachy_live_open(struct tachy_live *l, const struct tachy_live_params *p, const tachy_task *t,
                     enum tachy_stereo stereo, unsigned declared, const struct tachy_log *log,
                     uint64_t now);
void tachy_live_close(struct tachy_live *l);

// A frame has come (the caller keeps its reference). True: send a ticket with it. `room`: the
// pipeline takes one more item. Without room the frame waits; see tachy_live_kick(). With target_fps it may
// be shed at once.
bool tachy_live_arrive(struct tachy_live *l, tachy_frame *f, uint64_t stamp, bool room,
                       uint64_t now);
// True if a ticket shall be sent now: *out is a reference to the waiting frame.
bool tachy_live_kick(struct tachy_live *l, bool room, tachy_frame **out);
// Nobody waits and no ticket is on its way.
bool tachy_live_idle(struct tachy_live *l);

// The ticket's turn: puts the waiting frame into the item (in, pushed = its time stamp, result, deadline, taken, reuse,
// anew) and decides. False: shed, and counted. Call kick afterwards.
bool tachy_live_take(struct tachy_live *l, struct tachy_item *item, uint64_t now);
// Mode all: the same decision for frames that are never shed.
void tachy_live_take_all(struct tachy_live *l, struct tachy_item *item);

// Before the item goes on to `stage`: false: shed, and counted.
bool tachy_live_goes_on(struct tachy_live *l, enum tachy_shed_stage stage, const struct tachy_due *due,
                        uint64_t now);
// The item has been written; `started`: when writing began.
void tachy_live_written(struct tachy_live *l, const struct tachy_due *due, uint64_t started,
                        uint64_t now);
// Frames that come from now on have this deadline; 0: none.
void tachy_live_set_latency(struct tachy_live *l, double max_latency_ms);
// The steps down in force, bits 1 << enum tachy_degrade.
unsigned tachy_live_easing(struct tachy_live *l);
void tachy_live_read(struct tachy_live *l, uint64_t now, struct tachy_live_stats *out);
