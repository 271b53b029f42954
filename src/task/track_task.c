#include "postprocess/follow.h"
#include "stage/stages.h"
#include "task/task.h"

// Of the stage track, but for the model.
const struct tachy_option tachy_track_options[] = {
    {"track.model", NULL, 0, TACHY_OPT_STRING, "face-mesh", .arg = "NAME|FILE", .group = "Tracking", .over = "model.name",
     .help = "model card of the points; --model says the same"},
    {"tracking.max_num_faces", "max-faces", 0, TACHY_OPT_INT, "1", .min = 1, .max = TACHY_MAX_FOLLOWED, .group = "Tracking",
     .aliases = "num-faces", .help = "most faces that are followed"},
    {"tracking.detector", "detector", 0, TACHY_OPT_STRING, "face", .arg = "NAME", .group = "Tracking",
     .help = "model card of the face detector"},
    {"tracking.detect_every", "detect-every", 0, TACHY_OPT_INT, "15", .min = 1, .max = 100000, .group = "Tracking",
     .help = "frames after which the detector looks for more faces, while fewer than --max-faces are followed"},
    {"tracking.confidence", "tracking-conf", 0, TACHY_OPT_FLOAT, "0.5", .max = 1, .group = "Tracking",
     .help = "score of a face's points below which it is lost"},
    {"tracking.smoothing", "smoothing", 0, TACHY_OPT_BOOL, "yes", .group = "Tracking",
     .help = "calm the points with the one-euro filter"},
    {"tracking.min_cutoff", "min-cutoff", 0, TACHY_OPT_FLOAT, "1", .min = 0.001, .max = 1000, .arg = "HZ",
     .group = "Tracking", .help = "cut-off of that filter for what is still: lower is calmer"},
    {"tracking.beta", "beta", 0, TACHY_OPT_FLOAT, "30", .max = 10000, .group = "Tracking",
     .help = "what that cut-off rises by with speed: higher lags less"},
    {"tracking.refine_landmarks", NULL, 0, TACHY_OPT_BOOL, .group = "Tracking", .help = "find irises and lips more exactly",
     .planned = "the face mesh has 468 points, without irises"},
    {"tracking.smoothing_window", "smoothing-window", 0, TACHY_OPT_INT, .min = 1, .max = 1000, .arg = "FRAMES", .group = "Tracking",
     .help = "the cut-off that calms what is still as a mean of so many frames does, in the place of --min-cutoff; 1: the points "
             "stay as they are"},
    {0},
};

static const struct tachy_task_stage stages[] = {
    {&tachy_stage_track, &tachy_stage_track_cuda},
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
    .options = tachy_track_options,
    .stages = stages,
};
