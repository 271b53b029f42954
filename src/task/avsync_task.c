#include "stage/stages.h"
#include "stage/track.h"
#include "task/task.h"

static const struct tachy_option options[] = {
    {"avsync.model", NULL, 0, TACHY_OPT_STRING, "face-mesh", .arg = "NAME|FILE", .group = "Tracking", .over = "model.name",
     .help = "model card of the points; --model says the same"},
    {"avsync.faces", NULL, 0, TACHY_OPT_INT, "4", .min = 1, .max = TACHY_MAX_FOLLOWED, .group = "Tracking",
     .over = "tracking.max_num_faces", .help = "most faces that may speak; --max-faces says the same"},
    TACHY_REFINE_OPTION,
    {0},
};

static const struct tachy_task_stage stages[] = {
    {&tachy_stage_track, &tachy_stage_track_cuda},
    {&tachy_stage_avsync, &tachy_stage_avsync},
    {0},
};

// The networks of --sync-network see lips in frames of host memory.
static const struct tachy_task_stage seen[] = {
    {&tachy_stage_track, NULL},
    {&tachy_stage_avsync, NULL},
    {0},
};

static const struct tachy_task_stage *choose(const tachy_settings *s)
{
    return tachy_settings_str(s, "avsync.network") ? seen : stages;
}

static const struct tachy_example examples[] = {
    {"tachy avsync talk.mp4", "says how late the sound is, and writes talk.avsync.jsonl: a line per window of 10 s"},
    {"tachy avsync talk.mp4 --fix fixed.mp4 -f null -", "talk.mp4 with its sound in sync"},
    {"tachy avsync clips/ -o offsets/ --fix fixed/", "the same for each file of a folder"},
    {"tachy avsync talk.mp4 --sync-network syncnet.json", "two networks compare lips and sound; their card names the files"},
    {0},
};

const struct tachy_task_ops tachy_task_avsync = {
    .info =
        {
            .name = "avsync",
            .summary = "measure how late the sound is, by the mouths",
            .details = "Follows faces and compares how their mouths open with the sound: how late it is, how sure that is, and who "
                       "speaks. The output is .jsonl or .csv (docs/avsync.md).",
            .examples = examples,
        },
    .options = options,
    .shared = tachy_track_options,
    .stages = stages,
    .choose = choose,
    .text = true,
    .hears = true,
};
