#pragma once
#include "sink/choice.h"

// Turns the packets of one audio or subtitle stream into another codec. Used from one thread.
typedef struct tachy_transcode tachy_transcode;

struct tachy_transcode_params {
    const AVCodecParameters *in; // read during open
    AVRational time_base;        // of the packets that are sent
    enum AVCodecID codec;        // to make
    const char *encoder;         // FFmpeg's name of the first choice; NULL: any for `codec`
    const char *filter;          // FFmpeg's graph for audio; NULL: none. Must outlive the transcode
    bool global_header;
    const struct tachy_log *log;
};

// If a decoder or encoder is missing or refuses, fails without a message and sets `why` (a phrase for the sentence that
// names the stream).
int tachy_transcode_open(tachy_transcode **out, const struct tachy_transcode_params *p,
                         char why[200]);

// The encoder: parameters and time base of the packets that come out.
const AVCodecContext *tachy_transcode_context(const tachy_transcode *t);

// NULL: no more packets. Damaged packets are dropped and counted.
int tachy_transcode_send(tachy_transcode *t, const AVPacket *packet);
// TACHY_OK, TACHY_ERR_AGAIN (send more) or TACHY_ERR_EOF. Call until AGAIN after each send.
int tachy_transcode_receive(tachy_transcode *t, AVPacket *packet);

int64_t tachy_transcode_damaged(const tachy_transcode *t);
void tachy_transcode_close(tachy_transcode **t);
