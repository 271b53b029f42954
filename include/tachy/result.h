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
    float score; // confidence that it is visible, 0..1; 1 if the network gives none
};

// A named number from a stage: "yaw", "motion".
struct tachy_named {
    const char *name;
    double value;
};

// A part of a frame that stages found, with their findings about it. The result owns the memory.
struct tachy_region {
    double x, y;       // centre, frame pixels as stored
    double w, h;       // extents along its own axes, frame pixels; >= 0
    double angle;      // degrees clockwise by which its upright is turned, -180..180
    int class_id;      // class number, from 0; -1: none
    const char *label; // name of the class; NULL: the card has none
    float score;       // 0..1
    int64_t track;     // the same number in every frame for the same object; -1: not tracked
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
    const char *csv;                         // one row per region, each with a newline; NULL: the output is not CSV
    const char *csv_columns;                 // with csv: the header line, with a newline
    const struct tachy_region *regions;      // in the order of the stages; NULL: none
    int nb_regions;
    const struct tachy_named *values;        // of the frame; NULL: none
    int nb_values;
};

#ifdef __cplusplus
}
#endif
