#include "stage/stages.h"
#include "stage/track.h"
#include "task/task.h"

static const struct tachy_option options[] = {
    {"track.model", NULL, 0, TACHY_OPT_STRING, "face-mesh", .arg = "NAME|FILE", .group = "Tracking", .over = "model.name",
     .help = "model card of the points; --model says the same"},
    TACHY_REFINE_OPTION,
    {"track.expression_card", "expression-card", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Tracking",
     .help = "card of a network that tells a face's expression from its points, such as ARKit's 52 coefficients (docs/track.md)"},
    {0},
};

static int check(const tachy_settings *s, const struct tachy_log *log)
{
    if (tachy_settings_str(s, "track.expression_card") && tachy_settings_bool(s, "run.sandbox"))
        return tachy_fail(log, TACHY_ERR_INVAL, "track: --sandbox opens no files that a card names: leave it or --expression-card out");
    return TACHY_OK;
}

static const struct tachy_task_stage stages[] = {
    {&tachy_stage_track, &tachy_stage_track_cuda},
    {&tachy_stage_calm, &tachy_stage_calm},
    {&tachy_stage_values, &tachy_stage_values},
    {&tachy_stage_draw, &tachy_stage_draw_cuda},
    {&tachy_stage_lines, &tachy_stage_lines},
    {0},
};

static const struct tachy_example examples[] = {
    {"tachy track talk.mp4", "writes talk.track.mp4: the face's box and points over the picture"},
    {"tachy track --max-faces 4 group.mp4 -o group.jsonl", "468 points of each face as JSON lines"},
    {"tachy track --no-smoothing -o raw.csv talk.mp4", "as the network says them, one row per face"},
    {0},
};

const struct tachy_task_ops tachy_task_track = {
    .info =
        {
            .name = "track",
            .summary = "follow faces with 468 points each",
            .details = "Finds faces, keeps their numbers from frame to frame and places 468 points on each. The output is the "
                       "picture with boxes and points, or their numbers as .jsonl or .csv (docs/results.md).",
            .examples = examples,
        },
    .options = options,
    .shared = tachy_track_options,
    .stages = stages,
    .check = check,
};
