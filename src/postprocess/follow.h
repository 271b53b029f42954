#pragma once
#include "postprocess/regions.h"

// Follows things that keep their number from frame to frame. A thing is searched for near its last position: its points
// in one frame give the crop of the next. A detector is needed only when something may be missing. Runs no network: the
// caller asks for the crops of a frame, runs its networks on them and passes in the results. In stream order.

enum { TACHY_MAX_FOLLOWED = 32 };

struct tachy_follow_params {
    int most;             // things, 1..TACHY_MAX_FOLLOWED
    int width, height;    // of the frame: a thing that leaves it is lost; 0: there is room everywhere
    int every;            // frames after which the detector looks for more, while there are fewer than `most`; 0: 15
    float overlap;        // intersection over union with a followed thing from which a detection is that thing; 0: 0.5
    int told;             // points of a thing that are reported; later ones only serve the next crop; 0: all
    float threshold;      // score of the second network below which a thing is lost; 0: 0.5
    struct tachy_crop detected; // from a detection to its crop
    struct tachy_crop followed; // from the points' box to the next crop
};

// State of one stream; {0} at its beginning. It holds no pointers: another process of the same build can take its bytes.
struct tachy_follow {
    int nb;
    int64_t next_id;
    int since; // frames since the detector last looked
    struct tachy_followed {
        int64_t id;               // -1: lost in this frame
        struct tachy_region crop; // of the next frame; it points to nothing
    } thing[TACHY_MAX_FOLLOWED];
};
// Everything is forgotten but the numbers: a cut, a seek.
void tachy_follow_reset(struct tachy_follow *f);

// True if the detector shall look at this frame, given the followed things.
bool tachy_follow_wants_detector(const struct tachy_follow *f, const struct tachy_follow_params *p);
// Takes the detector's findings in this frame: new things are followed, in the order given.
void tachy_follow_detected(struct tachy_follow *f, const struct tachy_follow_params *p,
                           const struct tachy_region *found, int nb);
// Takes the second network's result for thing `i`'s crop: `r` has its points on the frame and its score. The region
// becomes the box of the reported points, with the thing's number, and the next frame's crop is planned. False: the
// thing is lost and `r` is invalid.
bool tachy_follow_update(struct tachy_follow *f, const struct tachy_follow_params *p, int i, struct tachy_region *r);
// Ends a frame: what was lost goes, and of two that cover the same the younger one.
void tachy_follow_end(struct tachy_follow *f, const struct tachy_follow_params *p);
