#include "stage/pair.h"
#include "stage/stages.h"
#include "task/task.h"

static const struct tachy_task_stage stages[] = {
    {&tachy_stage_luma, &tachy_stage_luma_cuda},
    {&tachy_stage_pair, &tachy_stage_pair_cuda},
    {&tachy_stage_motion, &tachy_stage_motion_cuda},
    {&tachy_stage_draw, &tachy_stage_draw_cuda},
    {&tachy_stage_lines, &tachy_stage_lines},
    {0},
};

static const struct tachy_example examples[] = {
    {"tachy motion street.mp4", "writes street.motion.mp4: boxes around what moves against the camera"},
    {"tachy motion street.mp4 -o street.jsonl", "numbers of each frame: how much moves, where to, what the camera does"},
    {"tachy motion --motion-size 0 --flow-cache flow/ street.mp4 -f null -", "the flow of each pair of frames at full size, as .flo"},
    {0},
};

const struct tachy_task_ops tachy_task_motion = {
    .info =
        {
            .name = "motion",
            .summary = "measure motion: how much, the camera's, and what moves",
            .details = "Computes dense optical flow from each frame to the next. The output is the picture with boxes around what moves "
                       "against the camera, or numbers as .jsonl, or boxes as .csv (docs/motion.md).",
            .examples = examples,
        },
    .stages = stages,
};
