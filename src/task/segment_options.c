#include "task/segment.h"

#include <stdlib.h>
#include <tachy/gpu.h>
#include <unistd.h>

static enum tachy_mode mode_by_name(const char *name)
{
    static const char *const names[] = {"mask",    "cutout", "blur", "replace",
                                        "overlay", "alpha",  "json", "side-by-side"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++)
        if (!strcmp(names[i], name))
            return (enum tachy_mode)i;
    return TACHY_MODE_CUTOUT; // the option table admits no other name
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = s ? strlen(s) : 0, m = strlen(end);
    return n >= m && !strcasecmp(s + n - m, end);
}

// The container decides what an alpha plane may look like: ProRes 4444, VP9, else RGBA.
static enum tachy_pix alpha_format(const tachy_settings *set)
{
    const char *file = tachy_settings_str(set, "output.file");
    const char *format = tachy_settings_str(set, "output.format");
    if (ends_with(file, ".webm") || (format && !strcmp(format, "webm")))
        return TACHY_PIX_YUVA420P;
    if (ends_with(file, ".mov") || (format && !strcmp(format, "mov")) || (!file && !format))
        return TACHY_PIX_YUVA444P10;
    return TACHY_PIX_RGBA;
}

static int copy_strings(struct segment *s, const tachy_settings *set)
{
    const char *provider = tachy_settings_str(set, "model.provider");
    const char *library = tachy_settings_str(set, "model.library");
    const char *dir = tachy_settings_str(set, "model.dir");
    const char *const *options;
    size_t n = tachy_settings_list(set, "model.provider_options", &options);
    s->provider = provider ? strdup(provider) : NULL;
    s->library = library ? strdup(library) : NULL;
    s->model_dir = dir ? strdup(dir) : NULL;
    s->provider_options = calloc(n + 1, sizeof(*s->provider_options));
    if ((provider && !s->provider) || (library && !s->library) || (dir && !s->model_dir) ||
        !s->provider_options)
        return TACHY_ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        if (!(s->provider_options[i] = strdup(options[i])))
            return TACHY_ERR_NOMEM;
    return TACHY_OK;
}

// In mode replace the background is a file; in the others it is a colour.
static int read_background(tachy_task *t, struct segment *s, const tachy_settings *set)
{
    const char *text = tachy_settings_str(set, "segment.background");
    if (s->composite.mode != TACHY_MODE_REPLACE) {
        bool tint = s->composite.mode == TACHY_MODE_OVERLAY;
        s->composite.color =
            tachy_settings_color(set, tint ? "segment.tint" : "segment.background");
        bool shown = s->composite.mode == TACHY_MODE_CUTOUT ||
                     s->composite.mode == TACHY_MODE_SIDE_BY_SIDE;
        if (shown && !s->composite.color) // what is no colour reads as 0
            return tachy_fail(t->log, TACHY_ERR_INVAL,
                              "segment.background: \"%.80s\" is not a colour (a CSS name, #RRGGBB)",
                              text ? text : "");
        return TACHY_OK;
    }
    // A colour and no file of that name: as in mode cutout.
    s->composite.color = tachy_settings_color(set, "segment.background");
    if (text && tachy_settings_is_set(set, "segment.background") && s->composite.color &&
        access(text, F_OK) != 0) {
        s->composite.mode = TACHY_MODE_CUTOUT;
        return TACHY_OK;
    }
    if (!text || !tachy_settings_is_set(set, "segment.background"))
        return tachy_fail(t->log, TACHY_ERR_INVAL,
                          "--mode replace needs a picture or a video: --background FILE");
    s->background = strdup(text);
    return s->background ? TACHY_OK : TACHY_ERR_NOMEM;
}

int segment_read_settings(tachy_task *t, struct segment *s, const tachy_settings *set)
{
    struct tachy_composite_params *c = &s->composite;
    c->mode = mode_by_name(tachy_settings_str(set, "segment.mode"));
    c->threshold = (float)tachy_settings_float(set, "segment.threshold");
    c->feather = (float)tachy_settings_float(set, "segment.feather");
    c->blur = (float)tachy_settings_float(set, "segment.blur");
    c->alpha_format = alpha_format(set);
    c->log = t->log;
    s->refine = tachy_settings_bool(set, "segment.refine");
    s->smooth = (float)tachy_settings_float(set, "segment.smooth");
    s->build_effort = (int)tachy_settings_int(set, "model.build_effort");
    s->on_gpu = !strcmp(TACHY_DEF(tachy_settings_str(set, "gpu.device"), ""), "cuda");
    s->gpu_fraction = tachy_settings_float(set, "gpu.memory_fraction");
    s->gpu_vram = tachy_settings_float(set, "gpu.max_vram_usage");
    s->strict = tachy_settings_bool(set, "model.strict");
    s->engine_threads = (int)tachy_settings_int(set, "model.threads");
    int err = tachy_gpus_asked(set, s->gpu_ids, &s->nb_gpu_ids, t->log);
    if (err == TACHY_OK)
        err = read_background(t, s, set);
    return err < 0 ? err : copy_strings(s, set);
}
