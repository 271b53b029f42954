#include "base/options.h"
#include "base/base.h"

#include <stdio.h>
#include <strings.h>

// The one table. A row's order is the order of help, man page and docs/config.md. Groups and
// sections (the path up to its last dot) are kept together.

#define RUNS (TACHY_VERB_SEGMENT | TACHY_VERB_CONFIG)
#define PROFILES (TACHY_VERB_PROFILE | TACHY_VERB_CONFIG)
#define THREADS_MAX 256

static const struct tachy_option options[] = {
    {"input.files", "input", 'i', TACHY_OPT_LIST, .arg = "FILE", .group = "Input",
     .verbs = RUNS | TACHY_VERB_PROBE,
     .help = "video, picture, numbered pictures (shot_%04d.png), address, or - for standard input; "
             "arguments without an option are inputs as well"},
    {"input.start", "ss", 0, TACHY_OPT_TIME, .max = 1e9, .group = "Input", .verbs = RUNS,
     .aliases = "start", .one_dash = true, .help = "start here, exact to the frame"},
    {"input.duration", "duration", 't', TACHY_OPT_TIME, .max = 1e9, .group = "Input", .verbs = RUNS,
     .help = "read this much of the input"},
    {"input.rate", "rate", 'r', TACHY_OPT_RATE, .group = "Input", .verbs = RUNS,
     .help = "constant frame rate: frames are dropped or repeated to it; pictures are read at it"},
    {"input.max_frames", "max-frames", 0, TACHY_OPT_INT, "0", .max = 1e15, .group = "Input",
     .verbs = RUNS, .help = "stop after this many frames; 0: all"},
    {"input.every_nth", "every-nth", 0, TACHY_OPT_INT, "1", .min = 1, .max = 1e9, .group = "Input",
     .verbs = RUNS, .help = "take the frames 0, N, 2N, ... only"},
    {"input.stereo", "stereo", 0, TACHY_OPT_ENUM, "auto", .values = "auto|mono|sbs|tb",
     .group = "Input", .verbs = RUNS,
     .help = "how two eyes lie in a picture: side by side, top and bottom; auto: from side data, "
             "file name or aspect"},
    {"pipeline.stages.decode.threads", "decode-threads", 0, TACHY_OPT_INT, "0", .max = THREADS_MAX,
     .group = "Input", .verbs = RUNS,
     .help = "decoder threads; 0: by picture size and cores"},

    {"output.file", "output", 'o', TACHY_OPT_STRING, .arg = "FILE", .group = "Output",
     .verbs = RUNS | TACHY_VERB_MODEL,
     .help = "where to write; a folder ending in / takes derived names, - is standard output; "
             "without it in.mp4 becomes in.cutout.mp4, after the mode"},
    {"output.format", "format", 'f', TACHY_OPT_STRING, .arg = "NAME", .group = "Output",
     .verbs = RUNS,
     .help = "FFmpeg's muxer, or null, framemd5, json; by file name without it"},
    {"output.overwrite", "overwrite", 'y', TACHY_OPT_BOOL, "no", .group = "Output",
     .verbs = RUNS | TACHY_VERB_MODEL | TACHY_VERB_PROFILE,
     .help = "replace an output file that exists already"},
    {"output.no_overwrite", NULL, 'n', TACHY_OPT_BOOL, "no", .group = "Output", .verbs = RUNS,
     .help = "never replace a file, whatever a configuration file says"},
    {"output.codec", "c:v", 0, TACHY_OPT_STRING, .arg = "NAME", .group = "Output", .verbs = RUNS,
     .aliases = "vcodec|codec:v", .one_dash = true,
     .help = "FFmpeg's video encoder; by container without it: H.264, above 4096 wide HEVC"},
    {"output.crf", "crf", 0, TACHY_OPT_FLOAT, .max = 63, .group = "Output", .verbs = RUNS,
     .one_dash = true,
     .help = "constant quality on the encoder's scale, lower is better; 18 for x264 and x265 "
             "without it"},
    {"output.preset", "preset", 0, TACHY_OPT_STRING, .arg = "NAME", .group = "Output",
     .verbs = RUNS, .one_dash = true, .help = "speed preset of the encoder"},
    {"output.pix_fmt", "pix_fmt", 0, TACHY_OPT_STRING, .arg = "NAME", .group = "Output",
     .verbs = RUNS, .aliases = "pix-fmt", .one_dash = true,
     .help = "FFmpeg's pixel format; that of the frames, or the nearest the encoder takes, "
             "without it"},
    {"output.no_audio", "an", 0, TACHY_OPT_BOOL, "no", .group = "Output", .verbs = RUNS,
     .aliases = "no-audio", .one_dash = true, .help = "leave the audio out"},
    {"output.no_subtitles", "sn", 0, TACHY_OPT_BOOL, "no", .group = "Output", .verbs = RUNS,
     .aliases = "no-subtitles", .one_dash = true, .help = "leave the subtitles out"},
    {"output.threads", "encode-threads", 0, TACHY_OPT_INT, "0", .max = THREADS_MAX,
     .group = "Output", .verbs = RUNS, .help = "encoder threads; 0: the encoder's choice"},

    {"segment.mode", "mode", 0, TACHY_OPT_ENUM, "cutout",
     .values = "mask|cutout|blur|replace|overlay|alpha|json|side-by-side", .group = "Segment",
     .verbs = RUNS,
     .help = "what is written: the mask in grey, people on a colour, on their blurred "
             "surroundings, on a picture or video, tinted, with transparency, a JSON line a "
             "frame, or before and after"},
    {"segment.background", "background", 0, TACHY_OPT_STRING, "black", .arg = "COLOR|FILE",
     .group = "Segment", .verbs = RUNS,
     .help = "colour behind the people; for the mode replace a picture or video as well"},
    {"segment.tint", "tint", 0, TACHY_OPT_COLOR, "#00ff0080", .group = "Segment", .verbs = RUNS,
     .help = "colour and strength of the mode overlay"},
    {"segment.blur", "blur", 0, TACHY_OPT_FLOAT, "0.02", .max = 0.5, .group = "Segment",
     .verbs = RUNS, .help = "radius of the mode blur as a share of the frame height"},
    {"segment.threshold", "threshold", 0, TACHY_OPT_FLOAT, "0.5", .max = 1, .group = "Segment",
     .verbs = RUNS, .help = "probability from which a pixel is a person"},
    {"segment.feather", "feather", 0, TACHY_OPT_FLOAT, "0.3", .max = 1, .group = "Segment",
     .verbs = RUNS,
     .help = "width of the soft edge around the threshold, in probability; 0: a hard edge"},
    {"segment.refine", "refine", 0, TACHY_OPT_BOOL, "no", .group = "Segment", .verbs = RUNS,
     .help = "fit the mask to the picture's edges, guided by luma"},
    {"segment.smooth", "smooth", 0, TACHY_OPT_FLOAT, "0", .max = 1, .bare = "0.7",
     .group = "Segment", .verbs = RUNS,
     .help = "calm the mask over time; 0: not at all, 1: most"},

    {"model.name", "model", 0, TACHY_OPT_STRING, "selfie", .arg = "NAME|FILE", .group = "Model",
     .verbs = RUNS,
     .help = "model card of the zoo (tachy model list), or an ONNX file with --card"},
    {"model.card", "card", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Model",
     .verbs = RUNS | TACHY_VERB_MODEL, .help = "model card of one's own (JSON)"},
    {"model.dir", "model-dir", 0, TACHY_OPT_STRING, .arg = "DIR", .group = "Model",
     .verbs = RUNS | TACHY_VERB_MODEL,
     .help = "folder of the models; without it $TACHY_MODELS, then the user's data folder"},
    {"model.provider", "provider", 0, TACHY_OPT_STRING, "auto", .arg = "NAME", .group = "Model",
     .verbs = RUNS, .help = "what runs the model: auto, cpu, or another provider by name"},
    {"model.provider_options", "provider-option", 0, TACHY_OPT_LIST, .arg = "KEY=VALUE",
     .group = "Model", .verbs = RUNS, .help = "handed to the provider"},
    {"model.library", "ort-library", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Model",
     .verbs = RUNS, .help = "libonnxruntime.so to load; searched without it"},
    {"model.threads", "engine-threads", 0, TACHY_OPT_INT, "1", .max = THREADS_MAX,
     .group = "Model", .verbs = RUNS, .help = "threads inside one run of the model; 0: 1"},
    {"model.batch_size", "batch", 0, TACHY_OPT_INT, "1", .min = 1, .max = 256, .group = "Model",
     .verbs = RUNS, .help = "pictures in one run of the model"},
    {"model.num_workers", "workers", 0, TACHY_OPT_INT, "0", .max = 1024, .group = "Model",
     .verbs = RUNS, .help = "frames in work side by side; 0: one a core"},
    {"processing.max_memory", "max-memory", 0, TACHY_OPT_INT, "0", .max = 1 << 30, .arg = "MIB",
     .group = "Model", .verbs = RUNS,
     .help = "bound of the frames in flight in MiB; 0: 160 MiB or what the workers need"},

    {"run.calibrate", "calibrate", 0, TACHY_OPT_BOOL, "no", .group = "Run", .verbs = RUNS,
     .help = "measure each step alone as well, for the light ratio"},
    {"run.json", "json", 0, TACHY_OPT_STRING, .arg = "FILE", .bare = "-", .group = "Run",
     .verbs = TACHY_VERB_ALL, .help = "write the result as JSON to standard output or to FILE"},
    {"run.quiet", "quiet", 'q', TACHY_OPT_BOOL, "no", .group = "Run", .verbs = TACHY_VERB_ALL,
     .help = "print errors only"},
    {"run.log_level", "loglevel", 'v', TACHY_OPT_ENUM, "info",
     .values = "error|warning|info|verbose|debug", .arg = "LEVEL", .group = "Run",
     .verbs = TACHY_VERB_ALL, .aliases = "log-level", .help = "how much is printed"},

    {"profile.trace", "trace", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Profile",
     .verbs = PROFILES,
     .help = "write every step of every frame for Perfetto or Chrome; the default where no file "
             "is asked for"},
    {"profile.folded", "folded", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Profile",
     .verbs = PROFILES, .help = "write folded stacks for a flame graph"},
    {"profile.csv", "csv", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Profile",
     .verbs = PROFILES, .help = "write a row a span"},
    {"profile.json", "profile-json", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Profile",
     .verbs = PROFILES, .help = "write the tables and the environment as JSON"},
    {"profile.operators", "operators", 0, TACHY_OPT_BOOL, "yes", .group = "Profile",
     .verbs = PROFILES,
     .help = "measure the model's operators too, in its first 64 runs, which that slows down"},
    {"profile.max_spans", "max-spans", 0, TACHY_OPT_INT, "32768", .min = 16, .max = 1 << 26,
     .group = "Profile", .verbs = PROFILES, .help = "newest spans that are kept a thread"},
    {"profile.max_trace", "max-trace", 0, TACHY_OPT_INT, "64", .min = 1, .max = 65536, .arg = "MIB",
     .group = "Profile", .verbs = PROFILES,
     .help = "size of the trace file at most; the newest is kept"},
    {"profile.tool", "tool", 0, TACHY_OPT_ENUM, .values = "perf|nsys|ncu", .group = "Profile",
     .verbs = PROFILES, .help = "run under this profiler instead, with fitting options"},

    {"general.config", "config", 'c', TACHY_OPT_LIST, .arg = "FILE", .group = "General",
     .verbs = TACHY_VERB_ALL, .command_only = true,
     .help = "read settings from a YAML file; the command line wins, a later file wins over an "
             "earlier one"},
    {"general.markdown", "markdown", 0, TACHY_OPT_BOOL, "no", .group = "General",
     .verbs = TACHY_VERB_CONFIG, .command_only = true,
     .help = "print the table of all settings for docs/config.md"},
    {"general.help", "help", 'h', TACHY_OPT_BOOL, "no", .group = "General",
     .verbs = TACHY_VERB_ALL, .command_only = true, .help = "show this help"},
    {"general.version", "version", 'V', TACHY_OPT_BOOL, "no", .group = "General",
     .verbs = TACHY_VERB_ALL, .command_only = true,
     .help = "show the version and those of the libraries in use"},
    {0},
};

const struct tachy_option *tachy_options(void) { return options; }

size_t tachy_option_count(void) { return TACHY_ARRAY_SIZE(options) - 1; }

int tachy_option_index(const char *path)
{
    for (size_t i = 0; i < tachy_option_count(); i++)
        if (!strcmp(options[i].path, path))
            return (int)i;
    return -1;
}

static bool has_alias(const struct tachy_option *o, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = o->aliases; p && *p;) {
        size_t n = strcspn(p, "|");
        if (n == len && !memcmp(p, name, n))
            return true;
        p += n + (p[n] == '|');
    }
    return false;
}

static const struct tachy_option *find(const char *name)
{
    for (const struct tachy_option *o = options; o->path; o++) {
        if (!strcmp(o->path, name) || (o->name && !strcmp(o->name, name)))
            return o;
        if (o->letter && name[0] == o->letter && !name[1])
            return o;
        if (has_alias(o, name))
            return o;
    }
    return NULL;
}

const struct tachy_option *tachy_option_find(const char *name, const char **nearest)
{
    if (nearest)
        *nearest = NULL;
    const struct tachy_option *o = find(name);
    if (o || !nearest)
        return o;
    const char *names[TACHY_ARRAY_SIZE(options)];
    bool path = strchr(name, '.') != NULL;
    size_t n = tachy_option_count();
    for (size_t i = 0; i < n; i++)
        names[i] = path ? options[i].path : options[i].name;
    *nearest = tachy_nearest(name, names, n);
    return NULL;
}

const char *tachy_option_shown(const struct tachy_option *o, char *buf, size_t size)
{
    if (!o->name && !o->letter)
        return o->path;
    if (o->name)
        snprintf(buf, size, "%s%s", o->one_dash ? "-" : "--", o->name);
    else
        snprintf(buf, size, "-%c", o->letter);
    return buf;
}

const char *tachy_option_nearest_path(const char *key)
{
    const char *last = strrchr(key, '.');
    const struct tachy_option *o = find(last ? last + 1 : key);
    if (o && !o->command_only)
        return o->path;
    const char *paths[TACHY_ARRAY_SIZE(options)];
    size_t n = 0;
    for (o = options; o->path; o++)
        if (!o->command_only)
            paths[n++] = o->path;
    const char *best = tachy_nearest(key, paths, n);
    if (best)
        return best;
    // A bare last part of a path: "batch_size" means "model.batch_size".
    for (size_t i = 0; i < n; i++)
        if (!strcasecmp(strrchr(paths[i], '.') + 1, last ? last + 1 : key))
            return paths[i];
    return NULL;
}
