#pragma once
#include "media/media.h"
#include "media/surface.h"

#include <tachy/sink.h>

// Encoder, pixel format and options for a stream, chosen from the container, the frames and the user's options.
// docs/segment.md lists the defaults.
struct tachy_choice {
    const AVCodec *codec;
    enum AVPixelFormat format; // that the encoder is given
    struct tachy_color color;  // that the stream is tagged with
    struct tachy_color convert; // for tachy_pixels_params.color
    AVDictionary *options;     // the encoder's own; free with tachy_choice_free()
    int qscale;                // > 0: constant quality of encoders without crf
    const char *faster;        // what would make encoding cheaper, for people; NULL: unknown. Static
    bool upright;          // pictures are turned: the file cannot say how to show them
    bool nvenc;            // chosen instead of x264 or x265, without having been named
    struct tachy_surface_spec surface; // nvenc: that it reads on the GPU; else format NONE: it is given the host's
    unsigned tag;              // codec tag in the container; 0: the muxer's
};

// Checks what can be known without the frames: that the encoder and the pixel format exist
// and that the encoder has such a preset and crf. Each error names the nearest name.
int tachy_choice_check(const struct tachy_sink_params *p, const AVOutputFormat *container);

// Chooses for a stream. TACHY_ERR_UNAVAILABLE: this FFmpeg lacks the encoder (the message
// names those it has); TACHY_ERR_UNSUPPORTED: the container or encoder cannot hold it.
int tachy_choice_make(struct tachy_choice *c, const struct tachy_sink_params *p,
                      const AVOutputFormat *container, const struct tachy_video_info *info);
// As above, with the encoder and pixel format given; for pictures.
int tachy_choice_picture(struct tachy_choice *c, const struct tachy_sink_params *p,
                         enum AVCodecID id, const struct tachy_video_info *info);
void tachy_choice_free(struct tachy_choice *c);

// Encoder by FFmpeg's name or by codec name, of one media type; the error names the nearest.
int tachy_choice_encoder(const AVCodec **out, const char *name, enum AVMediaType type,
                         const struct tachy_log *log);

// True if the container takes streams of this codec (avformat_query_codec() and a table of its errors).
bool tachy_choice_holds(const AVOutputFormat *container, enum AVCodecID id);

// An encoder's lists, ended by AV_PIX_FMT_NONE, 0, AV_SAMPLE_FMT_NONE; NULL: any.
const enum AVPixelFormat *tachy_encoder_formats(const AVCodec *c);
const int *tachy_encoder_rates(const AVCodec *c);
const enum AVSampleFormat *tachy_encoder_samples(const AVCodec *c);
const AVChannelLayout *tachy_encoder_layouts(const AVCodec *c); // ends with nb_channels 0
