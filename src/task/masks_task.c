#include "stage/infer.h"
#include "stage/stages.h"
#include "task/task.h"

static const struct tachy_option options[] = {
    {"masks.model", NULL, 0, TACHY_OPT_STRING, .arg = "NAME|FILE", .group = "Masks", .over = "model.name",
     .help = "model card of the networks, an encoder of pictures and one of prompts; --model says the same"},
    {"masks.boxes", NULL, 0, TACHY_OPT_BOOL, "no", .group = "Overlay", .over = "draw.boxes", .help = "draw boxes; --boxes says the same"},
    {"masks.names", NULL, 0, TACHY_OPT_BOOL, "no", .group = "Overlay", .over = "draw.names",
     .help = "write scores beside the boxes; --names says the same"},
    {"masks.points", NULL, 0, TACHY_OPT_BOOL, "no", .group = "Overlay", .over = "draw.points", .help = "draw points; --points says the same"},
    {0},
};

static const struct tachy_task_stage stages[] = {
    {&tachy_stage_propose, NULL},
    {&tachy_stage_features, NULL},
    {&tachy_stage_propagate, NULL},
    {&tachy_stage_white, NULL},
    {&tachy_stage_draw, NULL},
    {&tachy_stage_lines, NULL},
    {0},
};

static const struct tachy_example examples[] = {
    {"tachy masks --model sam2.onnx photos/ -f json -o masks/", "a mask of each thing in each photo, as JSON lines"},
    {"tachy masks --model sam2.onnx street.mp4 --box 30%,20%,10%,40% -o car.jsonl", "what is in a box, in every frame"},
    {"tachy masks --model sam2.onnx --point 640,300 --point 200,300,0 photo.jpg -o seen.png", "the thing at one point but not at another, over the photo"},
    {"tachy masks --model sam2.onnx --find person party.mp4", "writes party.masks.mp4: each person in a colour"},
    {"tachy masks --model sam2.onnx --box 30%,20%,10%,40% --white street.mp4 -o hole.mkv", "white on black, for tachy inpaint --hole hole.mkv street.mp4"},
    {"tachy masks --model sam2-video.onnx --propagate --box 30%,20%,10%,40% street.mp4", "what the box is around in the first frame, followed"},
    {0},
};

static int check(const tachy_settings *s, const struct tachy_log *log)
{
    if (!tachy_settings_is_set(s, "model.name") && !tachy_settings_is_set(s, "model.card") && !tachy_settings_is_set(s, "masks.model"))
        return tachy_fail(log, TACHY_ERR_INVAL, "masks needs networks: --model FILE, with a card beside it (docs/masks.md)");
    static const char *const drawn[] = {"draw.boxes", "draw.names", "draw.points"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(drawn) && tachy_settings_bool(s, "masks.white"); i++)
        if (tachy_settings_is_set(s, drawn[i]) && tachy_settings_bool(s, drawn[i]))
            return tachy_fail(log, TACHY_ERR_INVAL, "--white shows masks alone: leave --%s out", drawn[i] + strlen("draw."));
    return TACHY_OK;
}

const struct tachy_task_ops tachy_task_masks = {
    .info =
        {
            .name = "masks",
            .summary = "make masks of everything, or of what points and boxes ask for",
            .details = "Makes a mask of each thing in a frame with networks of the kind of SAM 2, or of what --point, --box or a detector "
                       "(--find) asks for. With --propagate the things of one frame are followed by their memory. The output is the picture with masks over it, or .jsonl with COCO's run lengths (docs/masks.md).",
            .examples = examples,
        },
    .options = options,
    .shared = tachy_model_options,
    .stages = stages,
    .check = check,
};
