#include "source/source_options.h"

#include "base/base.h"
#include "base/options.h"
#include "base/path.h"

#include <string.h>

const struct tachy_option tachy_source_options[] = {
    {"input.start", "ss", 0, TACHY_OPT_TIME, .max = 1e9, .group = "Input", .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE,
     .aliases = "start", .one_dash = true, .help = "start here, exact to the frame"},
    {"input.duration", "duration", 't', TACHY_OPT_TIME, .max = 1e9, .group = "Input", .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE,
     .help = "read this much of the input"},
    {"input.end", "to", 0, TACHY_OPT_TIME, .max = 1e9, .group = "Input", .verbs = TACHY_VERB_RUN, .one_dash = true,
     .help = "read up to this time of the input; -t wins over it"},
    {"input.rate", "rate", 'r', TACHY_OPT_RATE, .group = "Input", .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE,
     .help = "constant frame rate: frames are dropped or repeated to match it; also the rate of numbered pictures"},
    {"input.max_frames", "max-frames", 0, TACHY_OPT_INT, "0", .max = 1e15, .group = "Input", .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE,
     .help = "stop after this many frames; 0: all"},
    {"input.every_nth", "every-nth", 0, TACHY_OPT_INT, "1", .min = 1, .max = 1e9, .group = "Input",
     .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE, .help = "take only every Nth frame, beginning with the first"},
    {"input.realtime", "re", 0, TACHY_OPT_BOOL, "no", .group = "Input", .verbs = TACHY_VERB_RUN,
     .aliases = "realtime", .one_dash = true, .help = "read the input at its own rate, as a camera would deliver it"},
    {"input.loop", "loop", 0, TACHY_OPT_BOOL, "no", .group = "Input", .verbs = TACHY_VERB_RUN,
     .help = "repeat the file until the run is stopped; with -re at the file's own rate"},
    {"input.filter", "vf-in", 0, TACHY_OPT_STRING, .arg = "GRAPH", .group = "Input", .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE,
     .help = "FFmpeg filters for the decoded pictures (yadif,crop=iw/2), before the model sees them; on the CPU"},
    {"input.timeout", "timeout", 0, TACHY_OPT_FLOAT, .max = 1e6, .arg = "SECONDS", .group = "Input",
     .verbs = TACHY_VERB_RUN | TACHY_VERB_PROBE,
     .help = "give up on an input that sends nothing for this long; 0: never; default: 10 for addresses, 0 for files "
             "and pipes"},
    {"input.reconnect", "reconnect", 0, TACHY_OPT_FLOAT, .max = 1e6, .arg = "SECONDS", .group = "Input", .verbs = TACHY_VERB_RUN,
     .help = "keep trying this long to reopen a camera or address that was lost, with its last picture as a still; 0: "
             "end the run; default: 60 for cameras and, with --live, for addresses, else 0"},
    {"input.camera_size", "camera-size", 0, TACHY_OPT_SIZE, .group = "Input", .verbs = TACHY_VERB_RUN,
     .help = "size of a camera's pictures (/dev/video0); default: its largest up to 1280x720"},
    {"input.camera_rate", "camera-rate", 0, TACHY_OPT_RATE, .group = "Input", .verbs = TACHY_VERB_RUN,
     .help = "a camera's frames per second, or its next higher rate; default: its highest"},
    {"input.camera_format", "camera-format", 0, TACHY_OPT_STRING, .arg = "NAME", .group = "Input", .verbs = TACHY_VERB_RUN,
     .help = "a camera's format, by FFmpeg's name (mjpeg, yuyv422); default: the one with the highest rate"},
    {"input.camera_exposure", "exposure", 0, TACHY_OPT_FLOAT, .max = 10000, .arg = "MS", .group = "Input", .verbs = TACHY_VERB_RUN,
     .help = "a camera's exposure in milliseconds; 0: automatic; default: as the camera is set"},
    {"input.list_cameras", "cameras", 0, TACHY_OPT_BOOL, "no", .group = "Input", .verbs = TACHY_VERB_PROBE,
     .help = "list the cameras with their formats, sizes and rates"},
    {"input.stereo", "stereo", 0, TACHY_OPT_ENUM, "auto", .values = "auto|mono|sbs|tb", .group = "Input",
     .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE,
     .help = "how a picture holds two eyes: side by side, or top and bottom; auto: by side data, file name or aspect "
             "ratio"},
    {"pipeline.stages.decode.device", "decode", 0, TACHY_OPT_ENUM, "auto", .values = "auto|cpu|nvdec",
     .group = "Input", .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE,
     .help = "what decodes the input; auto: the GPU's decoder for frames that stay on the GPU, else the CPU; nvdec: "
             "the GPU's decoder, or the run fails"},
    {"pipeline.stages.decode.threads", "decode-threads", 0, TACHY_OPT_INT, "0", .max = TACHY_THREADS_MAX,
     .group = "Input", .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE,
     .help = "decoding threads, of all decoders together; 0: by picture size and cores"},
    {"pipeline.stages.decode.decoders", "decoders", 0, TACHY_OPT_INT, "0", .max = TACHY_THREADS_MAX, .group = "Input",
     .tune = "1|2|4|8", .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE,
     .help = "decoders that share one file; 0: one per core if results are small (mask, json), on a GPU one per 250 "
             "frames, else 1"},
    {0},
};

static enum tachy_decode decode_by(const char *name)
{
    return !strcmp(name, "nvdec") ? TACHY_DECODE_NVDEC : !strcmp(name, "cpu") ? TACHY_DECODE_CPU : TACHY_DECODE_AUTO;
}

static enum tachy_stereo stereo_by(const char *name)
{
    static const char *const names[] = {"auto", "mono", "sbs", "tb"};
    int i = TACHY_STEREO_TB;
    while (i > TACHY_STEREO_AUTO && strcmp(name, names[i]))
        i--;
    return (enum tachy_stereo)i;
}

void tachy_source_read_settings(struct tachy_source_params *p, const tachy_settings *s)
{
    p->start = tachy_settings_float(s, "input.start");
    p->duration = tachy_settings_float(s, "input.duration");
    if (!p->duration && tachy_settings_is_set(s, "input.end")) // a job that ends before it starts is refused
        p->duration = TACHY_MAX(tachy_settings_float(s, "input.end") - p->start, 1e-9);
    p->max_frames = tachy_settings_int(s, "input.max_frames");
    p->every_nth = (int)tachy_settings_int(s, "input.every_nth");
    p->rate = tachy_settings_rate(s, "input.rate");
    p->sound = tachy_settings_is_set(s, "animation.audio");
    p->loop = tachy_settings_bool(s, "input.loop");
    p->filter = tachy_settings_str(s, "input.filter");
    tachy_settings_size(s, "input.camera_size", &p->camera_width, &p->camera_height);
    p->camera_rate = tachy_settings_rate(s, "input.camera_rate");
    p->camera_format = tachy_settings_str(s, "input.camera_format");
    const double exposure = tachy_settings_float(s, "input.camera_exposure");
    p->camera_exposure = !tachy_settings_is_set(s, "input.camera_exposure") ? 0 : exposure > 0 ? exposure : -1;
    p->stereo = stereo_by(tachy_settings_str(s, "input.stereo"));
    p->threads = (int)tachy_settings_int(s, "pipeline.stages.decode.threads");
    p->decoders = (int)tachy_settings_int(s, "pipeline.stages.decode.decoders");
    p->decode = decode_by(tachy_settings_str(s, "pipeline.stages.decode.device"));
    p->on_gpu = !strcmp(tachy_settings_str(s, "gpu.device"), "cuda");
    const bool comes_back = tachy_settings_bool(s, "performance.live") || (p->url && tachy_path_is_video_device(p->url));
    p->reconnect = tachy_settings_is_set(s, "input.reconnect") ? tachy_settings_float(s, "input.reconnect") : comes_back ? 60 : 0;
    p->timeout = tachy_settings_float(s, "input.timeout");
    if (!p->timeout && tachy_settings_is_set(s, "input.timeout"))
        p->timeout = -1; // 0 was asked for: no limit
}
