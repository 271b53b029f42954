#include "stage/stages.h"
#include "stage/track.h"
#include "task/task.h"

static const struct tachy_task_stage stages[] = {
    {&tachy_stage_track, &tachy_stage_track_cuda},
    {&tachy_stage_calm, &tachy_stage_calm},
    {&tachy_stage_values, &tachy_stage_values},
    {&tachy_stage_drive, &tachy_stage_drive},
    {&tachy_stage_animate, &tachy_stage_animate_cuda},
    {&tachy_stage_landmarks, NULL},
    {&tachy_stage_beside, NULL},
    {0},
};

// Sound has no face that could be followed.
static const struct tachy_task_stage spoken[] = {
    {&tachy_stage_drive, NULL},
    {&tachy_stage_animate, NULL},
    {&tachy_stage_landmarks, NULL},
    {0},
};

// Either networks or the mesh paint: that can change during a run.
static const struct tachy_task_stage both[] = {
    {&tachy_stage_track, &tachy_stage_track_cuda},
    {&tachy_stage_calm, &tachy_stage_calm},
    {&tachy_stage_values, &tachy_stage_values},
    {&tachy_stage_drive, &tachy_stage_drive},
    {&tachy_stage_keypoints, &tachy_stage_keypoints_cuda},
    {&tachy_stage_relate, &tachy_stage_relate},
    {&tachy_stage_generate, &tachy_stage_generate_cuda},
    {&tachy_stage_animate, &tachy_stage_animate_cuda},
    {&tachy_stage_landmarks, NULL},
    {&tachy_stage_beside, NULL},
    {0},
};

static bool is_neural(const tachy_settings *s) { return !strcmp(tachy_settings_str(s, "animation.backend"), "neural"); }

static const struct tachy_task_stage *choose(const tachy_settings *s)
{
    if (tachy_settings_is_set(s, "animation.audio"))
        return spoken;
    return tachy_settings_str(s, "animation.neural_card") && !tachy_settings_bool(s, "run.sandbox") ? both : stages;
}

static const struct tachy_option options[] = {
    {"animation.backend", "backend", 0, TACHY_OPT_ENUM, "mesh", .values = "mesh|neural", .group = "Animation",
     .help = "what moves the portrait: a mesh, or the networks of --neural-card; with those it can change during a "
             "run (key b)"},
    {"animation.neural_card", "neural-card", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Animation",
     .help = "card of the networks of --backend neural (docs/animate.md)"},
    {"animation.neural_device", "neural-device", 0, TACHY_OPT_ENUM, "cpu", .values = "cpu|cuda", .group = "Animation",
     .help = "where these networks run if frames are on the CPU: there too, or on the GPU --gpu-id"},
    {"animation.neural_precision", "neural-precision", 0, TACHY_OPT_ENUM, .values = "fp32|tf32|fp16|mixed", .group = "Animation",
     .help = "their number format; default: --precision with --device cuda, else fp32 on the CPU and mixed on a GPU"},
    {0},
};

static const struct tachy_example examples[] = {
    {"tachy animate --image portrait.jpg talk.mp4", "writes talk.animate.mp4: the portrait talks"},
    {"tachy animate --image portrait.jpg --audio speech.wav", "writes speech.animate.mkv: the portrait speaks"},
    {"tachy animate --image portrait.jpg -i /dev/video0 -o window", "live, from a camera to a window"},
    {"tachy animate --image portraits/ -i /dev/video0 -o /dev/video2", "into a video call; keys 1 to 9 switch portraits"},
    {"tachy animate --live --image portrait.jpg --parallel 2 /dev/video0 /dev/video2 -o out/", "two cameras at once, each with a file of its own"},
    {0},
};

static int check_neural(const tachy_settings *s, const struct tachy_log *log)
{
    if (!tachy_settings_str(s, "animation.neural_card"))
        return tachy_fail(log, TACHY_ERR_INVAL, "animate: --backend neural needs its networks: --neural-card FILE");
    if (tachy_settings_is_set(s, "animation.audio"))
        return tachy_fail(log, TACHY_ERR_INVAL, "animate: --audio moves the mesh: leave it or --backend neural out");
    if (tachy_settings_bool(s, "run.sandbox"))
        return tachy_fail(log, TACHY_ERR_INVAL, "animate: --sandbox opens no files that a card names: leave it or --backend neural out");
    if (!strcmp(tachy_settings_str(s, "gpu.device"), "cuda") && tachy_settings_is_set(s, "animation.neural_device") &&
        !strcmp(tachy_settings_str(s, "animation.neural_device"), "cpu"))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "animate: the networks run where the frames are: leave --neural-device cpu or "
                          "--device cuda out");
    return TACHY_OK;
}

static int check(const tachy_settings *s, const struct tachy_log *log)
{
    const char *const *files;
    if (!tachy_settings_list(s, "animation.image", &files))
        return tachy_fail(log, TACHY_ERR_INVAL, "animate: which picture is to move? Name it with --image FILE");
    if (tachy_settings_bool(s, "animation.landmarks") && !strcmp(tachy_settings_str(s, "gpu.device"), "cuda"))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "animate: --landmarks are drawn on the CPU: leave them or --device cuda out");
    if (tachy_settings_bool(s, "animation.side_by_side") && !strcmp(tachy_settings_str(s, "gpu.device"), "cuda"))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "animate: --side-by-side runs on the CPU: leave it or --device cuda out");
    if (is_neural(s))
        return check_neural(s, log);
    if (!tachy_settings_is_set(s, "animation.audio"))
        return TACHY_OK;
    if (tachy_settings_list(s, "input.files", &files))
        return tachy_fail(log, TACHY_ERR_INVAL, "animate: --audio moves the mouth if there is no driver: leave it or the input out");
    if (tachy_settings_bool(s, "input.loop"))
        return tachy_fail(log, TACHY_ERR_INVAL, "animate: --audio ends with its sound: leave --loop out");
    if (tachy_settings_bool(s, "animation.side_by_side"))
        return tachy_fail(log, TACHY_ERR_INVAL, "animate: with --audio there is no driver beside the portrait: leave --side-by-side out");
    if (!strcmp(tachy_settings_str(s, "gpu.device"), "cuda"))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "animate: --audio runs on the CPU only: leave --device cuda out");
    return TACHY_OK;
}

const struct tachy_task_ops tachy_task_animate = {
    .info =
        {
            .name = "animate",
            .summary = "make a portrait move like the face in a video",
            .details = "Follows the face in the input and moves the face of a still picture as it does: head, brows, eyes and "
                       "mouth. The face of the first frame with one is taken as at rest (docs/animate.md).",
            .examples = examples,
        },
    .options = options,
    .shared = tachy_track_options,
    .stages = stages,
    .choose = choose,
    .check = check,
};
