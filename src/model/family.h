#pragma once
#include "base/base.h"

// Cards of networks that work as one: which file has which role (docs/animate.md, docs/avsync.md, docs/track.md).

enum tachy_role {
    TACHY_ROLE_APPEARANCE, // picture -> features of the portrait
    TACHY_ROLE_MOTION,     // picture -> angles, keypoints, expression
    TACHY_ROLE_STITCHING,  // keypoints of portrait and driver -> corrections; may be absent
    TACHY_ROLE_WARPING,    // features and both keypoints -> warped features; absent: the generator does both
    TACHY_ROLE_GENERATOR,  // warped features -> picture
    TACHY_ROLE_LIPS,       // five pictures of a face -> vector
    TACHY_ROLE_SOUND,      // twenty cepstra of a sound -> vector
    TACHY_ROLE_EXPRESSION, // points of a face -> coefficients
    TACHY_ROLES,
};

struct tachy_family_crop {
    double grow, up; // of the face: its width in that of the face, how far its middle lies above in its own width
};

enum { TACHY_FAMILY_POINTS = 478, TACHY_FAMILY_NAMES = 128 };

struct tachy_family {
    char *name;
    char *file[TACHY_ROLES]; // paths; NULL: absent
    struct tachy_family_crop portrait, driver;
    double feather; // share of the portrait's crop over which its edge fades
    bool rgb;       // of avsync: the order of colours; else B, G, R
    float white;    // of avsync: the number that white is
    int point[TACHY_FAMILY_POINTS], nb_points; // of track: numbers of the points that the network takes
    char *names[TACHY_FAMILY_NAMES];           // of track: of what it gives
    int nb_names;
};

const char *tachy_role_name(enum tachy_role r);

// Reads a card for task "animate", "avsync" or "track". TACHY_ERR_FORMAT: one sentence names the file and the key; TACHY_ERR_NOT_FOUND: a network's file, or the card, is
// missing. `f` is to be freed also on failure.
int tachy_family_read(struct tachy_family *f, const char *path, const char *task, const struct tachy_log *log);
void tachy_family_free(struct tachy_family *f);
