#pragma once
#include "animate/face.h"
#include "base/options.h"
#include "postprocess/follow.h"
#include "postprocess/overlay.h"
#include "stage/net.h"

// Faces and people that keep their numbers: what the stage's two forms have in common.

enum { TRACK_DETECTOR, TRACK_POINTS, TRACK_NETS };

// An angle at point `at` between those to two others.
struct track_angle {
    const char *name;
    int from, at, to;
};

// Differences between the tasks that follow something.
struct track_kind {
    const char *task;   // name of the task, and that of its points' card
    const char *also;   // other tasks that follow the same things, "a|b", or NULL
    const char *things; // for people to read
    int points;         // that the network has; 0: any number that no other entry of the task has
    float threshold;    // least score of the points, if the settings name none; 0: theirs
    struct tachy_crop detected, followed; // see struct tachy_follow_params
    int told;
    const char *const *name; // of each point, in their order; NULL: they have numbers only
    int nb_names;
    const struct track_angle *angle; // that are told by name
    int nb_angles;
    struct tachy_bones bones;
    bool signs; // pose and expression of a face are told
};
extern const struct track_kind track_kinds[]; // ends with {0}
// The kind whose regions in the task's results have so many points, each with a name; NULL: there is none.
const struct track_kind *track_kind_named(const char *task, size_t points);

extern const struct tachy_option tachy_track_options[];
// A row of the tasks that follow faces.
#define TACHY_REFINE_OPTION                                                                                                    \
    {"tracking.refine_landmarks", "refine-landmarks", 0, TACHY_OPT_BOOL, .group = "Tracking",                                   \
     .help = "look again at lips and eyes: 478 points with irises, by the model face-mesh-attention; animate does so if it is installed"}

// The memory of a form's stage begins with it.
struct track {
    const struct track_kind *kind;
    int batch; // frames that the detector looks at together, while nothing is followed: the stage's `ahead` and one
    struct tachy_infer *net[TRACK_NETS]; // the form's
    struct tachy_follow_params follow;
    bool scored; // a network says how sure it is; else the mean of the points' scores is told
    int rotation; // of the stream
    bool flip;
};

// A worker's.
struct track_own {
    struct tachy_follow follow; // of a frame without a stream
};

struct track_item {
    struct tachy_regions all;                      // what is told
    struct tachy_regions thing[TACHY_MAX_FOLLOWED]; // memory of the points, apart for each thing
    struct tachy_regions detected;                 // by the detector
    const tachy_frame *looked; // in this frame, together with an earlier one; NULL: it has not looked yet
};

// A part of a frame that a network looks at, and what comes of it.
struct track_look {
    const struct tachy_item *item; // the one in hand, or a later one
    struct tachy_view view;
    struct tachy_region *about;  // as tachy_net_run()
    struct tachy_regions *list;
    int err;
};

// How a form runs the networks on the current frame; the first member of the form's own data on that frame.
struct track_runner {
    // Runs the network on n parts of frames, in any order, and sets err of each.
    void (*run)(struct track_runner *r, int net, struct track_look look[], int n);
};

// The lines with which an overlay joins points of the task's regions; none if the task follows nothing.
struct tachy_bones track_bones(const tachy_task *t);

// `net` is set. The names of the networks are settings.
int track_open(struct tachy_stage *st, const tachy_settings *s, int (*open_net)(struct tachy_stage *st, int net,
               const struct tachy_net_params *p, const tachy_settings *s));
void track_start(struct tachy_stage *st, const struct tachy_video_info *video);
// Follows the things into the first item's frame and sets the regions of its result; the n - 1 items after it are later ones that the
// detector may look at. `state`: the stream's; NULL: there is none.
int track_frame(struct tachy_stage *st, struct track_runner *r, struct track_own *own, struct tachy_follow *state,
                const struct tachy_piece pieces[], int n);

// A face's points in pixels; it has at least TACHY_FACE_SKIN.
void track_face_points(const struct tachy_region *r, tachy_face_points to);

// The faces of a picture that is no frame of the stream, in `found`, whose memory is the caller's. On the host; `st` is
// opened and not started yet.
int track_still(struct tachy_stage *st, tachy_frame *picture, struct tachy_regions *found);

// The stage track, for later stages that change its results: they share track's bytes of an item (item_of).
struct tachy_stage *track_of(struct tachy_stage *st);
void track_item_close(void *item);
// See struct tachy_stage_ops; the state is a struct tachy_follow.
int track_state_load(void *state, const void *data, size_t size);
