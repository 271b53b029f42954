#include "stage/stages.h"
#include "task/task.h"

static const struct tachy_task_stage stages[] = {
    {&tachy_stage_quality, NULL},
    {&tachy_stage_lines, NULL},
    {0},
};

static const struct tachy_example examples[] = {
    {"tachy quality talk.mp4", "writes talk.quality.jsonl: blur, noise, exposure and more of each frame"},
    {"tachy quality photos/ -o measured/ --quality-report report.json", "the same for pictures, with duplicates and odd sizes among them"},
    {"tachy quality talk.mp4 -o talk.csv", "a row per frame"},
    {0},
};

const struct tachy_task_ops tachy_task_quality = {
    .info =
        {
            .name = "quality",
            .summary = "measure how good each frame is",
            .details = "Measures blur, noise, blocking, exposure, colour and size of each frame, without a network, and makes the "
                       "checks of CleanVision. The output is .jsonl or .csv (docs/quality.md).",
            .examples = examples,
        },
    .stages = stages,
    .text = true,
    .host = true,
};
