#include "stage/stages.h"
#include "stage/track.h"
#include "task/task.h"

static const struct tachy_option options[] = {
    {"lighting.model", NULL, 0, TACHY_OPT_STRING, "face-mesh", .arg = "NAME|FILE", .group = "Tracking", .over = "model.name",
     .help = "model card of the face's points; --model says the same"},
    {0},
};

static const struct tachy_task_stage stages[] = {
    {&tachy_stage_track, NULL},
    {&tachy_stage_calm, NULL},
    {&tachy_stage_values, NULL},
    {&tachy_stage_lighting, NULL},
    {&tachy_stage_lines, NULL},
    {0},
};

static const struct tachy_example examples[] = {
    {"tachy lighting talk.mp4", "writes talk.lighting.jsonl: exposure, colour temperature, colours and the light's direction"},
    {"tachy lighting photos/ -o light/ -f csv", "a file with a row for each picture"},
    {0},
};

const struct tachy_task_ops tachy_task_lighting = {
    .info =
        {
            .name = "lighting",
            .summary = "measure what lights each frame",
            .details = "Measures exposure, contrast, clipping, colour temperature and tint, dominant colours, day or night, and where "
                       "the light comes from and how soft it is, by the faces in the frame. The output is .jsonl or .csv "
                       "(docs/lighting.md).",
            .examples = examples,
        },
    .options = options,
    .shared = tachy_track_options,
    .stages = stages,
    .text = true,
    .host = true,
};
