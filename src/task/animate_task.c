#include "stage/stages.h"
#include "stage/track.h"
#include "task/task.h"

static const struct tachy_task_stage stages[] = {
    {&tachy_stage_track, &tachy_stage_track_cuda},
    {&tachy_stage_calm, &tachy_stage_calm},
    {&tachy_stage_values, &tachy_stage_values},
    {&tachy_stage_drive, &tachy_stage_drive},
    {&tachy_stage_animate, &tachy_stage_animate_cuda},
    {0},
};

// Sound has no face that could be followed.
static const struct tachy_task_stage spoken[] = {
    {&tachy_stage_drive, NULL},
    {&tachy_stage_animate, NULL},
    {0},
};

static const struct tachy_task_stage *choose(const tachy_settings *s) { return tachy_settings_is_set(s, "animation.audio") ? spoken : stages; }

static const struct tachy_example examples[] = {
    {"tachy animate --image portrait.jpg talk.mp4", "writes talk.animate.mp4: the portrait talks"},
    {"tachy animate --image portrait.jpg --audio speech.wav", "writes speech.animate.mkv: the portrait says it"},
    {"tachy animate --image portrait.jpg -i /dev/video0 -o window", "live, from a camera to a window"},
    {"tachy animate --image portraits/ -i /dev/video0 -o /dev/video2", "into a call; keys 1 to 9 switch portraits"},
    {0},
};

static int check(const tachy_settings *s, const struct tachy_log *log)
{
    const char *const *files;
    if (!tachy_settings_list(s, "animation.image", &files))
        return tachy_fail(log, TACHY_ERR_INVAL, "animate: which picture is to move? Name it with --image FILE");
    if (!tachy_settings_is_set(s, "animation.audio"))
        return TACHY_OK;
    if (tachy_settings_list(s, "input.files", &files))
        return tachy_fail(log, TACHY_ERR_INVAL, "animate: --audio moves the mouth if there is no driver: leave it or the input out");
    if (tachy_settings_bool(s, "input.loop"))
        return tachy_fail(log, TACHY_ERR_INVAL, "animate: --audio ends with its sound: leave --loop out");
    if (!strcmp(tachy_settings_str(s, "gpu.device"), "cuda"))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "animate: --audio runs on the CPU only: leave --device cuda out");
    return TACHY_OK;
}

const struct tachy_task_ops tachy_task_animate = {
    .info =
        {
            .name = "animate",
            .summary = "move a portrait as a face in a video does",
            .details = "Follows the face in the input and moves the face of a still picture as it does: head, brows, eyes and "
                       "mouth. The face of the first frame with one is taken as at rest (docs/animate.md).",
            .examples = examples,
        },
    .shared = tachy_track_options,
    .stages = stages,
    .choose = choose,
    .check = check,
};
