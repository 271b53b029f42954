#pragma once
#include <tachy/frame.h>

#ifdef __cplusplus
extern "C" {
#endif

// The result of a task for one frame.

// A soft mask: 0 = background, 255 = person. It covers `region` of the frame.
struct tachy_mask {
    const uint8_t *data;
    int width, height; // of the mask, usually the model's size
    ptrdiff_t stride;  // bytes
    struct tachy_rect {
        int x, y, w, h; // frame pixels, as stored (before rotation)
    } region;
};

// A point of a region: a landmark, a joint.
struct tachy_point {
    float x, y;  // frame pixels, as stored; pixel edges are at integers
    float z;     // depth in frame pixels, smaller is nearer; 0 if the network gives none
    float score; // 0..1 that it is visible; 1 if the network does not say
};

// A number that a stage gave a name: "yaw", "motion".
struct tachy_named {
    const char *name;
    double value;
};

// A part of a frame that stages found, and what they know about it. Memory belongs to the result.
struct tachy_region {
    double x, y;       // centre, frame pixels as stored
    double w, h;       // extents along its own axes, frame pixels; >= 0
    double angle;      // degrees clockwise that its upright is turned by, -180..180
    int class_id;      // number of its class, from 0; -1: none
    const char *label; // the class's name; NULL: the card names none
    float score;       // 0..1
    int64_t track;     // the same number in every frame for the same thing; -1: not tracked
    const struct tachy_point *points;
    int nb_points;
    const float *embedding; // of unit length
    int nb_embedding;
    const struct tachy_named *values;
    int nb_values;
    struct tachy_mask mask; // data NULL: none
};

#define TACHY_MAX_EYES 2

struct tachy_result {
    int64_t frame_id;
    int64_t pts;
    int eyes;                                // 1, or 2 for a stereo picture
    struct tachy_mask mask[TACHY_MAX_EYES];  // eye 0 is the left one
    float coverage;                          // share of the frame with alpha >= 0.5, 0..1
    const char *json;                        // mode json: the frame's line without newline,
                                             // see docs/segment.md, or ""; else NULL
    const char *csv;                         // a row per region, each with a newline; NULL: the output is no CSV
    const char *csv_columns;                 // with csv: the line that names the columns, with a newline
    const struct tachy_region *regions;      // what stages found, in their order; NULL: nothing
    int nb_regions;
    const struct tachy_named *values;        // of the frame; NULL: none
    int nb_values;
};

#ifdef __cplusplus
}
#endif
