#include "stage/focus.h"
#include "stage/hole.h"
#include "stage/mask.h"
#include "stage/pair.h"
#include "task/task.h"

static const struct tachy_task_stage stages[] = {
    {&tachy_stage_focus, NULL}, {&tachy_stage_preprocess, NULL}, {&tachy_stage_model, NULL},        {&tachy_stage_mask, NULL},
    {&tachy_stage_hole, NULL},  {&tachy_stage_luma, NULL},       {&tachy_stage_pair, NULL},         {&tachy_stage_inpaint_flow, NULL},
    {&tachy_stage_inpaint, NULL}, {0},
};

static const struct tachy_task_stage named[] = {
    {&tachy_stage_hole, NULL}, {&tachy_stage_luma, NULL}, {&tachy_stage_pair, NULL}, {&tachy_stage_inpaint_flow, NULL},
    {&tachy_stage_inpaint, NULL}, {0},
};

// If holes are named, no network runs unless people are to go as well.
static const struct tachy_task_stage *choose(const tachy_settings *s)
{
    const char *const *holes;
    return tachy_settings_list(s, "inpaint.hole", &holes) && !tachy_settings_bool(s, "inpaint.people") ? named : stages;
}

static const struct tachy_example examples[] = {
    {"tachy inpaint --hole 40,30,160,60 in.mp4", "writes in.inpaint.mp4 without what is in that rectangle, a logo for instance"},
    {"tachy inpaint street.mp4 -o empty.mp4", "without people, where the camera or they move enough to show what is behind them"},
    {"tachy inpaint --hole scratches.png photo.jpg -o mended.png", "a photo, where scratches.png is white"},
    {"tachy inpaint --hole masks.mp4 in.mp4", "what is white in each frame of a video of masks"},
    {"tachy inpaint --fill lama_fp32.onnx --hole logo.png in.mp4", "a network fills what no frame shows; its card lies beside it"},
    {0},
};

const struct tachy_task_ops tachy_task_inpaint = {
    .info =
        {
            .name = "inpaint",
            .summary = "remove people, logos or scratches, and fill the hole",
            .details = "Fills holes with what earlier or later frames show behind them, carried along the motion; what no frame shows "
                       "is made of the picture around it, or by a network (--fill), and stays the same from then on (docs/inpaint.md).",
            .examples = examples,
        },
    .stages = stages,
    .choose = choose,
    .mends = true,
};
