#pragma once
#include "profile/prof.h"

#include <tachy/profile.h>

// Threads that measure (struct tachy_prof) join a profile here. Every function takes a NULL profile as "off". A lane is
// one thread's row in the trace; it is assigned for a run and returned, and its records stay.

enum tachy_lane_kind {
    TACHY_LANE_SOURCE,
    TACHY_LANE_WORKER,
    TACHY_LANE_ORDER, // an ordered stage: whichever worker has its turn
    TACHY_LANE_SINK,
    TACHY_LANE_GPU, // what one CUDA stream did; its steps add to nobody's thread
    TACHY_LANE_COPY, // the same: its copies between host and card, by the step that they are for
    TACHY_LANE_SAMPLES, // of a stream's queues and memory; no steps
    TACHY_LANE_KINDS
};

// The table under which all that joins the profile counts; NULL without a profile.
struct tachy_rows *tachy_profile_rows(struct tachy_profile *profile);

// A number for a stream, so that its frame ids do not collide with another run's.
uint32_t tachy_profile_stream(struct tachy_profile *profile);

// Gives `prof`, which counts under the profile's steps, a lane of this kind. Before its thread starts. Until leave, the profile reads
// the figures of `prof` at any time.
int tachy_profile_join(struct tachy_profile *profile, enum tachy_lane_kind kind,
                       struct tachy_prof *prof);
// Opens a new `*prof` that counts in `steps` (the profile's if there is one), with a lane of this kind.
int tachy_profile_open_prof(struct tachy_profile *profile, struct tachy_rows *steps, enum tachy_lane_kind kind,
                            struct tachy_prof **prof);
// Leaves and frees it; NULL inside is allowed. Sets *prof to NULL.
void tachy_profile_close_prof(struct tachy_profile *profile, struct tachy_prof **prof);
// Names the calling thread as the one that does this lane's work: ONNX Runtime's events are
// attributed by it, and its CPU time counts (tachy_prof_thread_start(), also without a profile).
void tachy_profile_thread(struct tachy_profile *profile, struct tachy_prof *prof);
// Takes over the figures. After the thread has ended, before `prof` is freed.
void tachy_profile_leave(struct tachy_profile *profile, struct tachy_prof *prof);
// Counts a run that has ended.
void tachy_profile_run(struct tachy_profile *profile, const struct tachy_summary *s);
