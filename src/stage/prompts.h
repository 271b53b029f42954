#pragma once
#include "postprocess/bounds.h"
#include "stage/net.h"

// What a task of masks is asked for: points and boxes of the user, and boxes that a detector finds. Settings: masks.point,
// masks.box, masks.find. Places are shares of a picture as stored, 0..1, until a network is given them.

enum { PROMPTS_POINTS = 16 };

// What each point of a prompt is, as networks of the kind of SAM 2 have it.
enum prompt_label { PROMPT_NO_POINT = -1, PROMPT_NOT_IN, PROMPT_IN, PROMPT_UPPER_LEFT, PROMPT_LOWER_RIGHT };

struct prompt {
    double at[PROMPTS_POINTS + 2][2];
    int label[PROMPTS_POINTS + 2], nb;
    const struct tachy_region *of; // that a detector found; NULL: nobody did
};

// A picture as stored, and how it is shown.
struct prompts_picture {
    int width, height; // pixels as stored
    int rotation;      // degrees, as struct tachy_view
    bool flip;
};

struct prompts_point {
    double x, y;
    bool percent[2];
    int label;
};

struct prompts {
    struct prompts_point point[PROMPTS_POINTS];
    struct tachy_garbage_rect *box;
    int nb_points, nb_boxes;
    bool asked, finds; // there are prompts; a detector finds some
    struct tachy_infer finder;
    const struct tachy_log *log;
};

extern const struct tachy_option prompts_options[];

// Into the zeroed `p` of a stage. To be closed also on failure. TACHY_ERR_INVAL: a point or box is none; as tachy_net_open().
int prompts_open(struct prompts *p, struct tachy_stage *st, const tachy_settings *s);
void prompts_close(struct prompts *p);

// How many prompts there are in a picture in which the detector has found `found`.
int prompts_count(const struct prompts *p, int found);
// Points of a prompt, at most.
int prompts_points(const struct prompts *p);
// Prompt `i`: the detector's come first. `found`: regions of that picture.
void prompts_get(const struct prompts *p, const struct prompts_picture *in, const struct tachy_regions *found, int i, struct prompt *to);
// TACHY_ERR_INVAL: a point or box lies outside of the picture.
int prompts_check(const struct prompts *p, const struct prompts_picture *in);

// Writes a prompt for a network that sees the picture as it is shown in width x height pixels: at[points][2], label[points].
// Points that the prompt does not have are PROMPT_NO_POINT.
void prompt_put(const struct prompt *p, const struct prompts_picture *in, int width, int height, float *at, float *label, int points);
