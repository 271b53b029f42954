#pragma once
#include "sink/choice.h"

#include <libavutil/pixdesc.h>

// What the parts of the choice share.

// choice_encoders.c: 1: the container holds streams of this codec, 0: it is known not to, negative: nothing is known.
int tachy_encoder_fits(const AVOutputFormat *container, enum AVCodecID id);

// choice_options.c: the encoder's options, for the codec and pixel format that are chosen. Errors name the nearest name.
int tachy_choice_options(struct tachy_choice *c, const struct tachy_sink_params *p);
// What would make encoding cheaper, in words; NULL: nothing that is known. `preset` may be NULL.
const char *tachy_choice_faster(const AVCodec *c, const char *preset);
bool tachy_is_x26x(const AVCodec *c);

static inline bool tachy_has_alpha(enum AVPixelFormat f)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f);
    return d && (d->flags & AV_PIX_FMT_FLAG_ALPHA);
}
