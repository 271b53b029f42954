#include "base/base.h"
#include "stage/composite.h"
#include "stage/focus.h"
#include "stage/smooth.h"
#include "task/task.h"

static const struct tachy_option options[] = {
    {"segment.mode", "mode", 0, TACHY_OPT_ENUM, "cutout",
     .values = "mask|cutout|blur|replace|overlay|alpha|json|side-by-side", .group = "Segment",
     .help = "what is written: the mask in grey, people on a colour, on their blurred surroundings, on a picture "
             "or video, tinted, with transparency, a JSON line a frame, or before and after"},
    {"segment.background", "background", 0, TACHY_OPT_STRING, "black", .arg = "COLOR|FILE", .group = "Segment",
     .help = "colour behind the people; for the mode replace a picture or video as well"},
    {"segment.tint", "tint", 0, TACHY_OPT_COLOR, "#00ff0080", .group = "Segment",
     .help = "colour and strength of the mode overlay"},
    {"segment.blur", "blur", 0, TACHY_OPT_FLOAT, "0.02", .max = 0.5, .group = "Segment",
     .help = "radius of the mode blur as a share of the frame height"},
    {"segment.threshold", "threshold", 0, TACHY_OPT_FLOAT, "0.5", .max = 1, .group = "Segment",
     .help = "probability from which a pixel is a person; a matting network's alpha is kept unless this or --feather is given"},
    {"segment.feather", "feather", 0, TACHY_OPT_FLOAT, "0.3", .max = 1, .group = "Segment",
     .help = "width of the soft edge around the threshold, in probability; 0: a hard edge"},
    {"segment.refine", "refine", 0, TACHY_OPT_BOOL, "no", .group = "Segment",
     .help = "fit the mask to the picture's edges, guided by luma"},
    {"segment.foreground", "foreground", 0, TACHY_OPT_BOOL, "no", .group = "Segment",
     .help = "soft edges show people's own colours, estimated, instead of what the picture mixes in from behind them; "
             "modes cutout, blur, replace and side-by-side; on the CPU"},
    {"segment.smooth", "smooth", 0, TACHY_OPT_FLOAT, "0", .max = 1, .bare = "0.7", .group = "Segment",
     .help = "calm the mask over time; 0: not at all, 1: most"},
    {0},
};

static const struct tachy_task_stage stages[] = {
    {&tachy_stage_focus, &tachy_stage_focus_cuda},
    {&tachy_stage_preprocess, &tachy_stage_preprocess_cuda},
    {&tachy_stage_model, &tachy_stage_model_cuda},
    {&tachy_stage_mask, &tachy_stage_mask_cuda},
    {&tachy_stage_smooth, &tachy_stage_smooth},
    {&tachy_stage_background, &tachy_stage_background_cuda},
    {&tachy_stage_refine, NULL},
    {&tachy_stage_composite, &tachy_stage_composite_cuda},
    {&tachy_stage_mask_lines, &tachy_stage_mask_lines_cuda},
    {0},
};

static const struct tachy_example examples[] = {
    {"tachy segment in.mp4 -o out.mp4", "people on black, as H.264 with the sound of in.mp4"},
    {"tachy segment --mode blur --smooth talk.mp4", "writes talk.blur.mp4; a calm mask"},
    {"tachy segment --mode replace --background beach.jpg in.mp4", "another place"},
    {"tachy segment --mode alpha in.mp4 -o out.webm", "with transparency, VP9"},
    {"tachy segment --mode mask -ss 1:30 -t 10 -c:v libx264 -crf 12 in.mkv", "ten seconds of the mask in grey"},
    {"tachy segment --mode json in.mp4 -o - | jq .", "a JSON line a frame"},
    {"tachy segment --mode mask --calibrate -f null in.mp4 -", "only the figures"},
    {"tachy segment 'shot_%04d.png' -r 24 -o cut/", "numbered pictures into a folder"},
    {0},
};

// In the modes that show the background, it is a colour; replace has no default.
static int check(const tachy_settings *s, const struct tachy_log *log)
{
    const char *mode = tachy_settings_str(s, "segment.mode"), *background = tachy_settings_str(s, "segment.background");
    if (tachy_settings_is_set(s, "segment.focus") && !strcmp(tachy_settings_str(s, "segment.focus"), "auto") &&
        !strcmp(tachy_settings_str(s, "gpu.device"), "cuda"))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "--focus auto runs on the CPU only: leave it or --device cuda out");
    if (tachy_settings_bool(s, "segment.foreground") && !strcmp(tachy_settings_str(s, "gpu.device"), "cuda"))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "--foreground runs on the CPU only: leave it or --device cuda out");
    bool shown = !strcmp(mode, "cutout") || !strcmp(mode, "side-by-side");
    if (!strcmp(mode, "replace") && !tachy_settings_is_set(s, "segment.background"))
        return tachy_fail(log, TACHY_ERR_INVAL, "--mode replace needs a picture or a video: --background FILE");
    if (!shown || tachy_settings_color(s, "segment.background"))
        return TACHY_OK;
    return tachy_fail(log, TACHY_ERR_INVAL, "--background: \"%.80s\" is not a colour (a CSS name, #RRGGBB); a picture or "
                      "video needs --mode replace, transparency --mode alpha", background);
}

const struct tachy_task_ops tachy_task_segment = {
    .info =
        {
            .name = "segment",
            .summary = "cut people out of a video or picture",
            .details =
                "Finds the people in every frame and writes a video (or picture, or numbered pictures) of the same "
                "length, timing, rotation and colour, with its sound, subtitles, chapters and metadata. What is done "
                "with the people is the --mode.",
            .examples = examples,
        },
    .options = options,
    .stages = stages,
    .check = check,
};
