#include "stage/infer.h"
#include "stage/stages.h"
#include "task/task.h"

static const struct tachy_option options[] = {
    {"detect.model", NULL, 0, TACHY_OPT_STRING, "face", .arg = "NAME|FILE", .group = "Regions", .over = "model.name",
     .help = "model card of the detector; --model says the same"},
    {0},
};

static const struct tachy_task_stage stages[] = {
    {&tachy_stage_preprocess, &tachy_stage_preprocess_cuda},
    {&tachy_stage_model, &tachy_stage_model_cuda},
    {&tachy_stage_decode, &tachy_stage_decode_cuda},
    {&tachy_stage_draw, &tachy_stage_draw_cuda},
    {&tachy_stage_lines, &tachy_stage_lines},
    {0},
};

static const struct tachy_example examples[] = {
    {"tachy detect party.mp4", "writes party.detect.mp4: a box around each face"},
    {"tachy detect --model person in.mp4 -o in.jsonl", "persons as JSON lines"},
    {"tachy detect --model yolox-nano --classes person,car -o in.csv in.mp4", "objects of 80 kinds"},
    {0},
};

const struct tachy_task_ops tachy_task_detect = {
    .info =
        {
            .name = "detect",
            .summary = "find faces, persons or objects",
            .details = "Finds what the model knows in every frame. The output is the picture with boxes and names, or their "
                       "numbers as .jsonl or .csv (docs/results.md). Any detector serves whose card says how its outputs "
                       "are read (docs/models.md).",
            .examples = examples,
        },
    .options = options,
    .stages = stages,
};
