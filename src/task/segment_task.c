#include "base/base.h"
#include "base/options.h"
#include "base/parse.h"
#include "stage/composite.h"
#include "stage/focus.h"
#include "stage/smooth.h"
#include "task/task.h"

static const struct tachy_option options[] = {
    {"segment.mode", "mode", 0, TACHY_OPT_ENUM, "cutout",
     .values = "mask|cutout|blur|replace|overlay|alpha|json|side-by-side", .group = "Segment",
     .help = "what to write: the mask in grey; people on a colour, on their blurred surroundings, on a picture or "
             "video, tinted, or with transparency; one JSON line per frame; or before and after side by side"},
    {"segment.background", "background", 0, TACHY_OPT_STRING, "black", .arg = "COLOR|FILE", .group = "Segment",
     .help = "background colour; with --mode replace, a picture or video"},
    {"segment.tint", "tint", 0, TACHY_OPT_COLOR, "#00ff0080", .group = "Segment",
     .help = "colour and strength of --mode overlay"},
    {"segment.blur", "blur", 0, TACHY_OPT_FLOAT, "0.02", .max = 0.5, .group = "Segment",
     .help = "radius of --mode blur as a share of the frame height"},
    {"segment.threshold", "threshold", 0, TACHY_OPT_FLOAT, "0.5", .max = 1, .group = "Segment",
     .help = "probability from which a pixel counts as a person; a matting network's alpha is kept unless this or "
             "--feather is given"},
    {"segment.feather", "feather", 0, TACHY_OPT_FLOAT, "0.3", .max = 1, .group = "Segment",
     .help = "width of the soft edge around the threshold, in probability; 0: a hard edge"},
    {"segment.foreground", "foreground", 0, TACHY_OPT_BOOL, "no", .group = "Segment",
     .help = "estimate people's own colours along soft edges, so that the old background does not shine through; a "
             "network's own estimate is used unless this is no; modes cutout, blur, replace, side-by-side and alpha"},
    {"segment.despill", "despill", 0, TACHY_OPT_ENUM, "off", .values = "off|green|blue|auto", .group = "Segment",
     .help = "remove the light of a green or blue screen from people's edges; auto: the screen that --key finds. "
             "Default: auto with --key, else off; in the modes of --foreground"},
    {"segment.smooth", "smooth", 0, TACHY_OPT_FLOAT, "0", .max = 1, .bare = "0.7", .group = "Segment",
     .help = "smooth the mask over time; 0: off, 1: most"},
    {"segment.look_ahead", "look-ahead", 0, TACHY_OPT_INT, "0", .max = 15, .arg = "FRAMES", .group = "Segment",
     .help = "with --smooth: use this many later frames too; not with --live; on the CPU"},
    {0},
};

static const struct tachy_task_stage stages[] = {
    {&tachy_stage_focus, &tachy_stage_focus_cuda},
    {&tachy_stage_preprocess, &tachy_stage_preprocess_cuda},
    {&tachy_stage_model, &tachy_stage_model_cuda},
    {&tachy_stage_mask, &tachy_stage_mask_cuda},
    {&tachy_stage_keep, NULL},
    {&tachy_stage_despeckle, NULL},
    {&tachy_stage_smooth, &tachy_stage_smooth},
    {&tachy_stage_look_ahead, NULL},
    {&tachy_stage_person, NULL},
    {&tachy_stage_background, &tachy_stage_background_cuda},
    {&tachy_stage_garbage, NULL},
    {&tachy_stage_key, NULL},
    {&tachy_stage_plate, NULL},
    {&tachy_stage_refine, NULL},
    {&tachy_stage_composite, &tachy_stage_composite_cuda},
    {&tachy_stage_mask_lines, &tachy_stage_mask_lines_cuda},
    {0},
};

// Keying needs no network.
static const struct tachy_task_stage keyed[] = {
    {&tachy_stage_everything, NULL},
    {&tachy_stage_background, &tachy_stage_background_cuda},
    {&tachy_stage_garbage, NULL},
    {&tachy_stage_key, NULL},
    {&tachy_stage_plate, NULL},
    {&tachy_stage_composite, &tachy_stage_composite_cuda},
    {&tachy_stage_mask_lines, &tachy_stage_mask_lines_cuda},
    {0},
};

// A keyer or a plate takes the network's place, unless the settings name one as well.
static const struct tachy_task_stage *choose(const tachy_settings *s)
{
    const char *const *colors;
    bool bounded = tachy_settings_list(s, "segment.key", &colors) || tachy_settings_str(s, "segment.plate");
    return bounded && !tachy_settings_is_set(s, "model.name") ? keyed : stages;
}

static const struct tachy_example examples[] = {
    {"tachy segment in.mp4 -o out.mp4", "people on black, as H.264 with the sound of in.mp4"},
    {"tachy segment --mode blur --smooth talk.mp4", "writes talk.blur.mp4, with a steady mask"},
    {"tachy segment --mode replace --background beach.jpg in.mp4", "a different background"},
    {"tachy segment --key green in.mp4", "people in front of a green screen, without a network"},
    {"tachy segment --plate empty.png in.mp4", "whoever is not in empty.png"},
    {"tachy segment --garbage-matte 20%,0,60%,100% in.mp4", "only people in the middle"},
    {"tachy segment --mode alpha in.mp4 -o out.webm", "with transparency, VP9"},
    {"tachy segment --mode mask -ss 1:30 -t 10 -c:v libx264 -crf 12 in.mkv", "ten seconds of the mask in grey"},
    {"tachy segment --mode json in.mp4 -o - | jq .", "one JSON line per frame"},
    {"tachy segment --mode mask --calibrate -f null in.mp4 -", "only the timings"},
    {"tachy segment 'shot_%04d.png' -r 24 -o cut/", "numbered pictures, into a folder"},
    {0},
};

// True if something other than the default behaviour was requested by name.
static bool asks(const tachy_settings *s, const char *path)
{
    const char *text = tachy_settings_str(s, path);
    return tachy_settings_by_name(s, path) && !(text && tachy_word_in("all|off|soft|no|people", text));
}

// "--key" of segment.key.
static const char *shown_as(const tachy_settings *s, const char *path, char *buf, size_t size)
{
    const struct tachy_option *all = tachy_settings_options(s);
    return tachy_option_shown(&all[tachy_option_index(all, path)], buf, size);
}

// Checks for options without a device form that are requested on a device; if --device auto chose the device, also
// those that are on by default.
static int check_device(const tachy_settings *s, const struct tachy_log *log)
{
    static const char *const host[] = {"segment.garbage_matte", "segment.key",     "segment.plate",      "segment.person",
                                       "segment.focus",         "segment.despeckle", "segment.look_ahead", "segment.keep"};
    char shown[64];
    if (strcmp(tachy_settings_str(s, "gpu.device"), "cuda"))
        return TACHY_OK;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(host); i++)
        if (asks(s, host[i]))
            return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "%s runs on the CPU only: leave it or --device cuda out",
                              shown_as(s, host[i], shown, sizeof(shown)));
    if (!strcmp(tachy_settings_origin(s, "gpu.device"), "auto") && strcmp(tachy_settings_str(s, "segment.focus"), "off"))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "the second look (--focus auto) runs on the CPU only");
    return TACHY_OK;
}

// Checks for options that shape a network's mask, but are requested without a network.
static int check_network(const tachy_settings *s, const struct tachy_log *log)
{
    static const char *const of_mask[] = {"segment.focus",     "segment.edge",    "segment.refine", "segment.smooth",
                                          "segment.threshold", "segment.feather", "segment.person",
                                          "segment.despeckle", "segment.look_ahead", "segment.keep"};
    char shown[64];
    if (choose(s) != keyed)
        return TACHY_OK;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(of_mask); i++)
        if (asks(s, of_mask[i]))
            return tachy_fail(log, TACHY_ERR_INVAL, "%s shapes the mask of a network, and with --key or --plate none runs: add --model "
                              "selfie, or leave it out", shown_as(s, of_mask[i], shown, sizeof(shown)));
    return TACHY_OK;
}

// In the modes that show the background, it is a colour; replace has no default.
static int check(const tachy_settings *s, const struct tachy_log *log)
{
    bool shrinks = tachy_settings_float(s, "segment.shrink") > 0, grows = tachy_settings_float(s, "segment.grow") > 0;
    if (shrinks && grows)
        return tachy_fail(log, TACHY_ERR_INVAL, "--shrink and --grow exclude each other: leave one of them out");
    const char *const *keys;
    if (!strcmp(tachy_settings_str(s, "segment.despill"), "auto") && !tachy_settings_list(s, "segment.key", &keys))
        return tachy_fail(log, TACHY_ERR_INVAL, "--despill auto takes the screen that --key finds, and there is no --key: name the "
                          "colour, --despill green or blue");
    bool ahead = tachy_settings_int(s, "segment.look_ahead") > 0;
    if (ahead && !(tachy_settings_float(s, "segment.smooth") > 0))
        return tachy_fail(log, TACHY_ERR_INVAL, "--look-ahead smooths with frames to come: give --smooth as well, or leave it out");
    if (ahead && tachy_settings_bool(s, "performance.live"))
        return tachy_fail(log, TACHY_ERR_INVAL, "--look-ahead waits for frames to come, and with --live no frame waits: leave one of "
                          "them out");
    const char *mode = tachy_settings_str(s, "segment.mode"), *background = tachy_settings_str(s, "segment.background");
    int err = check_device(s, log);
    if (err == TACHY_OK)
        err = check_network(s, log);
    if (err < 0)
        return err;
    bool shown = !strcmp(mode, "cutout") || !strcmp(mode, "side-by-side");
    if (!strcmp(mode, "replace") && !tachy_settings_is_set(s, "segment.background"))
        return tachy_fail(log, TACHY_ERR_INVAL, "--mode replace needs a picture or a video: --background FILE");
    if (!shown || tachy_settings_color(s, "segment.background"))
        return TACHY_OK;
    const char *near = tachy_color_nearest(background);
    if (near)
        return tachy_fail(log, TACHY_ERR_INVAL, "--background: \"%.40s\" is not a colour; did you mean %s?", background, near);
    return tachy_fail(log, TACHY_ERR_INVAL, "--background: \"%.40s\" is not a colour (a CSS name, #RRGGBB); a picture or "
                      "video needs --mode replace, transparency --mode alpha", background);
}

const struct tachy_task_ops tachy_task_segment = {
    .info =
        {
            .name = "segment",
            .summary = "cut people out of a video or picture",
            .details =
                "Finds the people in every frame and writes a video (or picture, or numbered pictures) of the same "
                "length, timing, rotation and colour, with its sound, subtitles, chapters and metadata. --mode "
                "says what the output shows.",
            .examples = examples,
        },
    .options = options,
    .stages = stages,
    .choose = choose,
    .check = check,
};
