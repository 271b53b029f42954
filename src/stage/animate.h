#pragma once
#include "animate/face.h"
#include "media/frame_pool.h"
#include "stage/stage.h"

// A face moves a portrait: what the stage `drive` says of each item, and what the two forms of `animate` make of it.

enum { ANIMATE_PORTRAITS = 64 };
enum { DRIVE_PORTRAIT, DRIVE_MIRROR, DRIVE_REST, DRIVE_DIALS }; // what changes during a run; REST: how often a new one was asked for

struct animate_portrait {
    int number; // from 0
    struct tachy_face face;
    tachy_frame *picture; // YUV420P, as it is shown; all have one size
    uint8_t mouth[3][TACHY_MOUTH_SIZE * TACHY_MOUTH_SIZE];
};

struct drive {
    struct animate_portrait *portrait[ANIMATE_PORTRAITS];
    int nb;
    struct tachy_face_strength strength;
    bool hears; // frames are pictures of sound, which opens the mouth
    double tick; // seconds
    struct tachy_stage_dial dial[DRIVE_DIALS];
};

// An item's: how it is painted.
struct drive_item {
    struct tachy_face_motion motion;
    const struct animate_portrait *portrait;
    bool mirrored;
    bool rests; // the driver counts as at rest
};

// The driver's face; NULL: nobody is there.
const struct tachy_region *drive_region(const struct tachy_item *item);

// The size, format and colour of what `animate` writes, which are those of the first portrait.
void animate_video(const struct drive *d, struct tachy_video_info *video);
// Gives item->out the item's times and the portrait's colour.
void animate_name(const struct drive_item *of, struct tachy_item *item);
// Plane i of `out` with the portrait's pixels in it, on the host.
struct tachy_face_plane animate_plane(const tachy_frame *portrait, tachy_frame *out, int i);
void animate_mirror(const struct tachy_face_plane *p);
