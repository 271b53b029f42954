#include "sink/sink_options.h"

#include "base/base.h"
#include "base/options.h"

#include <string.h>

const struct tachy_option tachy_sink_options[] = {
    {"output.resume", "resume", 0, TACHY_OPT_BOOL, "no", .group = "Output", .verbs = TACHY_VERB_RUN,
     .help = "write in parts, kept in OUTPUT.tachy/ until the output is complete; after an interruption the same "
             "command continues"},
    {"output.codec", "c:v", 0, TACHY_OPT_STRING, .arg = "NAME", .group = "Output", .verbs = TACHY_VERB_RUN,
     .aliases = "vcodec|codec:v", .one_dash = true,
     .help = "FFmpeg's video encoder; default: by container, H.264, or HEVC above a width of 4096"},
    {"output.encoder", "encoder", 0, TACHY_OPT_ENUM, "auto", .values = "auto|cpu|nvenc", .group = "Output",
     .verbs = TACHY_VERB_RUN,
     .help = "what encodes H.264 and HEVC without -c:v; auto: NVENC with --device cuda if the GPU has it, else x264 "
             "and x265 on the CPU"},
    {"output.crf", "crf", 0, TACHY_OPT_FLOAT, .max = 63, .group = "Output", .verbs = TACHY_VERB_RUN, .one_dash = true,
     .help = "constant quality on the encoder's scale, lower is better; default: 18 for x264 and x265"},
    {"output.bitrate", "b:v", 0, TACHY_OPT_STRING, .arg = "BITS", .group = "Output", .verbs = TACHY_VERB_RUN,
     .aliases = "vb", .one_dash = true, .help = "bits per second of the video (2M, 800k), instead of -crf"},
    {"output.filter", "vf", 0, TACHY_OPT_STRING, .arg = "GRAPH", .group = "Output", .verbs = TACHY_VERB_RUN,
     .aliases = "filter:v", .one_dash = true,
     .help = "FFmpeg filters for the finished pictures (scale=640:-2,fps=25), before encoding"},
    {"output.audio_codec", "c:a", 0, TACHY_OPT_STRING, .arg = "NAME", .group = "Output", .verbs = TACHY_VERB_RUN,
     .aliases = "acodec|codec:a", .one_dash = true,
     .help = "FFmpeg's audio encoder, or copy; default: copy if the container can hold it"},
    {"output.audio_filter", "af", 0, TACHY_OPT_STRING, .arg = "GRAPH", .group = "Output", .verbs = TACHY_VERB_RUN,
     .aliases = "filter:a", .one_dash = true,
     .help = "FFmpeg filters for the audio (volume=0.5,atempo=1.0), which is then encoded again"},
    {"output.preset", "preset", 0, TACHY_OPT_STRING, .arg = "NAME", .group = "Output", .verbs = TACHY_VERB_RUN,
     .one_dash = true, .help = "speed preset of the encoder"},
    {"output.pix_fmt", "pix_fmt", 0, TACHY_OPT_STRING, .arg = "NAME", .group = "Output", .verbs = TACHY_VERB_RUN,
     .aliases = "pix-fmt", .one_dash = true,
     .help = "FFmpeg's pixel format; default: that of the frames, or the nearest that the encoder takes"},
    {"output.no_audio", "an", 0, TACHY_OPT_BOOL, "no", .group = "Output", .verbs = TACHY_VERB_RUN,
     .aliases = "no-audio", .one_dash = true, .help = "leave the audio out"},
    {"output.no_subtitles", "sn", 0, TACHY_OPT_BOOL, "no", .group = "Output", .verbs = TACHY_VERB_RUN,
     .aliases = "no-subtitles", .one_dash = true, .help = "leave the subtitles out"},
    {"output.token_file", "output-token-file", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Output", .verbs = TACHY_VERB_RUN,
     .help = "file whose first line is the token that viewers of -o http://HOST:PORT/ give, as password or bearer "
             "token; required if other machines can reach the address"},
    {"output.threads", "encode-threads", 0, TACHY_OPT_INT, "0", .max = TACHY_THREADS_MAX, .group = "Output",
     .verbs = TACHY_VERB_RUN, .help = "encoder threads; 0: the encoder's choice"},
    {"processing.chunk_size", NULL, 0, TACHY_OPT_INT, .min = 1, .max = 1e9, .group = "Output",
     .verbs = TACHY_VERB_RUN,
     .help = "frames per part of a run with --resume; default: ten seconds"},
    {0},
};

static enum tachy_encode encode_by(const char *name)
{
    return !strcmp(name, "nvenc") ? TACHY_ENCODE_NVENC : !strcmp(name, "cpu") ? TACHY_ENCODE_CPU : TACHY_ENCODE_AUTO;
}

void tachy_sink_read_settings(struct tachy_sink_params *p, const tachy_settings *s)
{
    p->codec = tachy_settings_str(s, "output.codec");
    p->encode = encode_by(tachy_settings_str(s, "output.encoder"));
    p->on_gpu = !strcmp(tachy_settings_str(s, "gpu.device"), "cuda");
    p->preset = tachy_settings_str(s, "output.preset");
    // A value from a preset (--profile) was not requested by name.
    p->preset_optional = !strncmp(tachy_settings_origin(s, "output.preset"), "preset ", 7);
    p->crf = tachy_settings_str(s, "output.crf");
    p->bitrate = tachy_settings_str(s, "output.bitrate");
    p->filter = tachy_settings_str(s, "output.filter");
    p->audio_codec = tachy_settings_str(s, "output.audio_codec");
    p->audio_filter = tachy_settings_str(s, "output.audio_filter");
    p->pix_fmt = tachy_settings_str(s, "output.pix_fmt");
    p->no_audio = tachy_settings_bool(s, "output.no_audio");
    p->no_subtitles = tachy_settings_bool(s, "output.no_subtitles");
    p->token_file = tachy_settings_str(s, "output.token_file");
    p->threads = (int)tachy_settings_int(s, "output.threads");
    p->resume = tachy_settings_bool(s, "output.resume");
    p->part_frames = tachy_settings_int(s, "processing.chunk_size");
}

void tachy_sink_read_own(struct tachy_sink_params *p, const char *text, struct tachy_sink_own *own)
{
    static const char *const keys[] = {"f", "codec", "preset", "crf", "bitrate", "filter", "pix_fmt", "audio_codec",
                                       "audio_filter"};
    const char **const values[] = {&p->format, &p->codec, &p->preset, &p->crf, &p->bitrate, &p->filter, &p->pix_fmt,
                                   &p->audio_codec, &p->audio_filter};
    for (size_t i = 0; text && i < TACHY_ARRAY_SIZE(keys); i++)
        if (tachy_output_option(text, keys[i], own->value[i], sizeof(own->value[i])))
            *values[i] = own->value[i];
}
