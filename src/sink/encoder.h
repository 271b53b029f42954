#pragma once
#include "sink/choice.h"

// The open encoder of one stream: frames in, packets out. Converts pictures that the encoder does not take. Use from
// one thread.
typedef struct tachy_encoder tachy_encoder;

struct tachy_encoder_params {
    const struct tachy_choice *choice; // read during open only
    const struct tachy_video_info *info;
    int threads;         // 0: the encoder's choice
    bool global_header;  // the container wants parameter sets in its header
    const struct tachy_log *log;
};

int tachy_encoder_open(tachy_encoder **out, const struct tachy_encoder_params *p);

// Continues a stream of another encoder: pts and duration of its last frames in the context's time base; INT64_MIN and
// 0 if there were none.
void tachy_encoder_follow(tachy_encoder *e, int64_t last_pts, int64_t distance);
void tachy_encoder_last(const tachy_encoder *e, int64_t *last_pts, int64_t *distance);

// Size, format, colour and time base are set.
const AVCodecContext *tachy_encoder_context(const tachy_encoder *e);

// Encodes a frame (NULL: end of the stream) and passes each resulting packet to `put`, in `packet`, which is the
// caller's and empty again afterwards. Times are in the context's time base; the duration is the frame's. An error of
// `put` ends the call and is returned.
int tachy_encoder_run(tachy_encoder *e, tachy_frame *f, AVPacket *packet, int (*put)(void *user),
                      void *user);

void tachy_encoder_close(tachy_encoder **e);
