#include "base/base.h"
#include "stage/stages.h"
#include "stage/track.h"
#include "task/task.h"

static const struct tachy_option options[] = {
    {"pose.model", NULL, 0, TACHY_OPT_STRING, "pose", .arg = "NAME|FILE", .group = "Tracking", .over = "model.name",
     .help = "model card of the points; --model says the same"},
    {"pose.detector", NULL, 0, TACHY_OPT_STRING, "person", .arg = "NAME", .group = "Tracking", .over = "tracking.detector",
     .help = "model card of the person detector; --detector says the same"},
    {"pose.max_people", NULL, 0, TACHY_OPT_INT, "1", .min = 1, .max = TACHY_MAX_FOLLOWED, .group = "Tracking",
     .over = "tracking.max_num_faces", .help = "most people of a frame; --max-people says the same"},
    {0},
};

static const struct tachy_task_stage stages[] = {
    {&tachy_stage_track, &tachy_stage_track_cuda},
    {&tachy_stage_calm, &tachy_stage_calm},
    {&tachy_stage_values, &tachy_stage_values},
    {&tachy_stage_bvh, &tachy_stage_bvh},
    {&tachy_stage_draw, &tachy_stage_draw_cuda},
    {&tachy_stage_lines, &tachy_stage_lines},
    {0},
};

static const struct tachy_example examples[] = {
    {"tachy pose dance.mp4", "writes dance.pose.mp4: skeletons over the picture"},
    {"tachy pose --max-people 4 team.mp4 -o team.jsonl", "33 points and the joint angles of each person as JSON lines"},
    {"tachy pose --no-smoothing -o raw.csv dance.mp4", "as the network says them, one row per person"},
    {"tachy pose --bvh motion/ dance.mp4 -o dance.jsonl", "the motion of each person as a BVH file beside them"},
    {0},
};

const struct tachy_task_ops tachy_task_pose = {
    .info =
        {
            .name = "pose",
            .summary = "follow people with 33 points each",
            .details = "Finds people, keeps their numbers from frame to frame and places 33 points on each body. The output is the "
                       "picture with skeletons, or points and joint angles as .jsonl, or points as .csv (docs/pose.md).",
            .examples = examples,
        },
    .options = options,
    .shared = tachy_track_options,
    .stages = stages,
};
