#include "sink/choice_priv.h"

#include "base/parse.h"
#include "sink/nvenc.h"

#include <libavutil/opt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// An encoder's own options: preset, quality, what is good by default.

enum { JPEG_QSCALE = 2 }; // FFmpeg's best ordinary quality

static const char *const x26x_presets[] = {"ultrafast", "superfast", "veryfast", "faster", "fast",
                                           "medium",    "slow",      "slower",   "veryslow", "placebo"};

bool tachy_is_x26x(const AVCodec *c)
{
    return !strncmp(c->name, "libx264", 7) || !strcmp(c->name, "libx265");
}

// The names that an encoder's option takes: the constants of its unit.
static size_t option_names(const AVCodec *c, const AVOption *o, const char **names, size_t max)
{
    size_t n = 0;
    for (const AVOption *k = NULL; o->unit && (k = av_opt_next(&c->priv_class, k)) && n < max;)
        if (k->type == AV_OPT_TYPE_CONST && k->unit && !strcmp(k->unit, o->unit))
            names[n++] = k->name;
    return n;
}

static const AVOption *private_option(const AVCodec *c, const char *name)
{
    return c->priv_class ? av_opt_find((void *)&c->priv_class, name, NULL, 0, AV_OPT_SEARCH_FAKE_OBJ)
                         : NULL;
}

static int unknown_preset(const AVCodec *c, const char *preset, const char *const *names, size_t n,
                          const struct tachy_log *log)
{
    const char *near = tachy_nearest(preset, names, n);
    if (near)
        return tachy_fail(log, TACHY_ERR_INVAL, "preset %s: %s has none of that name; did you mean %s?",
                          preset, c->name, near);
    return tachy_fail(log, TACHY_ERR_INVAL, "preset %s: %s has none of that name; it has %s .. %s",
                      preset, c->name, n ? names[0] : "numbers", n ? names[n - 1] : "only");
}

// The encoder's own preset names: 0 where it has none, or does not list them.
static size_t preset_names(const AVCodec *c, const AVOption *o, const char **names, size_t max)
{
    if (!tachy_is_x26x(c))
        return option_names(c, o, names, max);
    memcpy(names, x26x_presets, sizeof(x26x_presets));
    return TACHY_ARRAY_SIZE(x26x_presets);
}

static bool takes_preset(const AVCodec *c, const AVOption *o, const char *preset)
{
    const char *names[64];
    size_t n = preset_names(c, o, names, TACHY_ARRAY_SIZE(names));
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i], preset))
            return true;
    double v;
    if (!n && o->type == AV_OPT_TYPE_STRING)
        return true; // the encoder itself knows
    if (!tachy_parse_float(preset, &v))
        return false;
    return tachy_is_x26x(c) ? v == floor(v) && v >= 0 && v <= 9 // x264 and x265 number theirs
                      : o->type == AV_OPT_TYPE_INT && v >= o->min && v <= o->max;
}

// `optional`: a preset that the encoder has not is as if none was asked for.
static int add_preset(AVDictionary **options, const AVCodec *c, const char *preset, bool optional,
                      const struct tachy_log *log)
{
    const AVOption *o = private_option(c, "preset");
    if (preset && optional && !(o && takes_preset(c, o, preset)))
        preset = NULL;

    // x264's default looks 40 frames ahead and holds them all: 64 MB at 720p, for files that
    // are less than 2 % smaller. A preset that was asked for stays as it is.
    if (!preset && !strcmp(c->name, "libx264"))
        return av_dict_set(options, "rc-lookahead", "20", 0) < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
    if (!preset)
        return TACHY_OK;
    if (!o)
        return tachy_fail(log, TACHY_ERR_INVAL, "preset %s: the encoder %s has no presets", preset,
                          c->name);
    const char *names[64];
    if (!takes_preset(c, o, preset))
        return unknown_preset(c, preset, names, preset_names(c, o, names, 64), log);
    return av_dict_set(options, "preset", preset, 0) < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
}

const char *tachy_choice_faster(const AVCodec *c, const char *preset)
{
    int at = 5; // medium, by default
    for (int i = 0; preset && i < (int)TACHY_ARRAY_SIZE(x26x_presets); i++)
        at = !strcmp(preset, x26x_presets[i]) ? i : at;
    if (!strcmp(c->name, "libsvtav1"))
        return preset && atoi(preset) >= 12 ? NULL : "a faster preset (-preset 12)";
    if (!tachy_is_x26x(c))
        return NULL;
    return at > 2                               ? "a faster preset (-preset veryfast)"
           : at > 0                             ? "a faster preset (-preset ultrafast)"
           : c->id == AV_CODEC_ID_HEVC ? "a faster encoder (-c:v libx264)"
                                                : NULL;
}

static bool takes_qscale(enum AVCodecID id)
{
    return id == AV_CODEC_ID_MJPEG || id == AV_CODEC_ID_MPEG4 || id == AV_CODEC_ID_MPEG2VIDEO ||
           id == AV_CODEC_ID_MPEG1VIDEO;
}

// What -crf sets in this encoder and its range.
static const char *quality_option(const AVCodec *c, double *min, double *max)
{
    static const char *const names[] = {"crf", "cq", "quality"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++) {
        const AVOption *o = private_option(c, names[i]);
        if (!o || (o->type != AV_OPT_TYPE_FLOAT && o->type != AV_OPT_TYPE_INT))
            continue;
        *min = TACHY_MAX(o->min, 0.);
        *max = tachy_is_x26x(c) ? 51 : TACHY_MIN(o->max, 255.);
        return names[i];
    }
    *min = 1;
    *max = 31;
    return takes_qscale(c->id) ? "qscale" : NULL;
}

// "2M", "800k": what FFmpeg takes.
static int add_bitrate(struct tachy_choice *choice, const struct tachy_sink_params *p)
{
    static const char units[] = "kKmMgG";
    char *end;
    double v = strtod(p->bitrate, &end);
    bool sound = v > 0 && end != p->bitrate && (!*end || (strchr(units, *end) && !end[1]));
    double bits = v * (!*end ? 1 : strchr("kK", *end) ? 1e3 : strchr("mM", *end) ? 1e6 : 1e9);
    if (p->crf)
        return tachy_fail(p->log, TACHY_ERR_INVAL, "-b:v and -crf contradict each other; give one of them");
    if (!sound || bits < 1000 || bits > 1e9)
        return tachy_fail(p->log, TACHY_ERR_INVAL, "-b:v %.40s: must be bits per second from 1k to 1G, as 2M or 800k", p->bitrate);
    return av_dict_set_int(&choice->options, "b", (int64_t)bits, 0) < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
}

static int add_crf(struct tachy_choice *choice, const char *crf, const struct tachy_log *log)
{
    const AVCodec *c = choice->codec;
    if (!crf) {
        if (tachy_is_x26x(c))
            crf = "18";
        else if (c->id == AV_CODEC_ID_VP9)
            crf = "24";
        else if (takes_qscale(c->id))
            choice->qscale = JPEG_QSCALE;
        if (!crf)
            return TACHY_OK;
    }
    double v, min, max;
    const char *option = quality_option(c, &min, &max);
    if (!option)
        return tachy_fail(log, TACHY_ERR_INVAL,
                          "crf %s: the encoder %s has no such setting; leave out -crf or choose "
                          "another encoder with -c:v",
                          crf, c->name);
    if (!tachy_parse_float(crf, &v) || v < min || v > max)
        return tachy_fail(log, TACHY_ERR_INVAL, "crf %s: must be a number from %g to %g for %s", crf,
                          min, max, c->name);
    if (!strcmp(option, "qscale"))
        choice->qscale = (int)lrint(v);
    else if (av_dict_set(&choice->options, option, crf, 0) < 0)
        return TACHY_ERR_NOMEM;
    return TACHY_OK;
}

// Settings without which an encoder is slow, of poor quality or noisy.
static int add_defaults(struct tachy_choice *choice)
{
    static const struct {
        const char *codec, *option, *value;
    } defaults[] = {
        {"libvpx-vp9", "b", "0"},         {"libvpx-vp9", "row-mt", "1"},
        {"libvpx-vp9", "cpu-used", "4"},  {"ffv1", "level", "3"},
        {"ffv1", "slicecrc", "1"},        {"libx265", "x265-params", "log-level=none"},
        {"libwebp", "quality", "90"},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(defaults); i++)
        if (!strcmp(choice->codec->name, defaults[i].codec) &&
            av_dict_set(&choice->options, defaults[i].option, defaults[i].value,
                        AV_DICT_DONT_OVERWRITE) < 0)
            return TACHY_ERR_NOMEM;
    if (!strcmp(choice->codec->name, "prores_ks") && tachy_has_alpha(choice->format))
        if (av_dict_set(&choice->options, "profile", "4444", 0) < 0 ||
            av_dict_set(&choice->options, "alpha_bits", "16", 0) < 0)
            return TACHY_ERR_NOMEM;
    return TACHY_OK;
}

int tachy_choice_options(struct tachy_choice *c, const struct tachy_sink_params *p)
{
    const char *preset = c->nvenc ? tachy_nvenc_preset(p->preset) : p->preset;
    const char *crf = c->nvenc && !p->crf && !p->bitrate ? "18" : p->crf;
    int err = add_preset(&c->options, c->codec, preset, p->preset_optional, p->log);
    if (err >= 0)
        err = p->bitrate ? add_bitrate(c, p) : add_crf(c, crf, p->log);
    if (err >= 0 && c->nvenc)
        err = tachy_nvenc_options(&c->options, crf, p->gpu);
    return err < 0 ? err : add_defaults(c);
}
