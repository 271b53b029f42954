#include "base/base.h"
#include "stage/stages.h"
#include "stage/track.h"
#include "task/task.h"

static const struct tachy_option options[] = {
    {"faces.model", NULL, 0, TACHY_OPT_STRING, "face-mesh", .arg = "NAME|FILE", .group = "Tracking", .over = "model.name",
     .help = "model card of the face's points; --model says the same"},
    {"faces.most", NULL, 0, TACHY_OPT_INT, "8", .min = 1, .max = 32, .group = "Tracking", .over = "tracking.max_num_faces",
     .help = "most faces of a frame; --max-faces says the same"},
    {"faces.smoothing", NULL, 0, TACHY_OPT_BOOL, "no", .group = "Tracking", .over = "tracking.smoothing",
     .help = "calm the points; --smoothing says the same"},
    {0},
};

static const struct tachy_task_stage stages[] = {
    {&tachy_stage_track, &tachy_stage_track_cuda},
    {&tachy_stage_calm, &tachy_stage_calm},
    {&tachy_stage_values, &tachy_stage_values},
    {&tachy_stage_faces, &tachy_stage_faces_cuda},
    {&tachy_stage_people, &tachy_stage_people},
    {&tachy_stage_lines, &tachy_stage_lines},
    {0},
};

static const struct tachy_example examples[] = {
    {"tachy faces --embed arcface.onnx photos/ -o faces/ --people people/", "a folder for each person, with links to the photos and a montage"},
    {"tachy faces --embed arcface.onnx new/ -o faces/ --people people/ --names-file people.csv", "the same with the names of people.csv"},
    {"tachy faces --embed arcface.onnx talk.mp4 -o talk.jsonl", "a vector of each face as JSON lines"},
    {0},
};

static int check(const tachy_settings *s, const struct tachy_log *log)
{
    if (!tachy_settings_str(s, "faces.embed"))
        return tachy_fail(log, TACHY_ERR_INVAL, "faces needs a network that makes vectors of faces: --embed FILE, with a card "
                          "beside it (docs/faces.md)");
    if (!strcmp(tachy_settings_str(s, "gpu.device"), "cuda") && !strcmp(tachy_settings_origin(s, "gpu.device"), "auto"))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "faces takes a GPU only with --device cuda, since its vectors have not been compared with the CPU's on a true one");
    return TACHY_OK;
}

const struct tachy_task_ops tachy_task_faces = {
    .info =
        {
            .name = "faces",
            .summary = "sort faces by person",
            .details = "Finds faces, leaves out those that are small, blurred or turned away, makes a vector of each and finds "
                       "out which are the same person's. The output is .jsonl or .csv, and a folder for each person "
                       "(docs/faces.md).",
            .examples = examples,
        },
    .options = options,
    .shared = tachy_track_options,
    .stages = stages,
    .text = true,
    .check = check,
};
