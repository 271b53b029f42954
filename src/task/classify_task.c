#include "base/base.h"
#include "stage/infer.h"
#include "stage/stages.h"
#include "task/task.h"

static const struct tachy_option options[] = {
    {"classify.model", NULL, 0, TACHY_OPT_STRING, .arg = "NAME|FILE", .group = "Regions", .over = "model.name",
     .help = "model card of the classifier; --model says the same"},
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
    {"tachy classify --model net.onnx --card net.json in.mp4 -o in.jsonl", "the best labels of each frame as JSON lines"},
    {"tachy classify --model net.onnx --card net.json --top 1 'shot_%04d.png' -o labels.csv", "one label per picture"},
    {0},
};

// The zoo has no classifier.
static int check(const tachy_settings *s, const struct tachy_log *log)
{
    if (tachy_settings_is_set(s, "model.name") || tachy_settings_is_set(s, "classify.model"))
        return TACHY_OK;
    return tachy_fail(log, TACHY_ERR_INVAL, "classify needs a network: --model FILE --card FILE (docs/classify.md)");
}

const struct tachy_task_ops tachy_task_classify = {
    .info =
        {
            .name = "classify",
            .summary = "name what each frame shows",
            .details = "Gives each frame the classes of the model with the best scores. The output is the picture with their "
                       "names, or .jsonl or .csv (docs/results.md).",
            .examples = examples,
        },
    .options = options,
    .stages = stages,
    .check = check,
};
