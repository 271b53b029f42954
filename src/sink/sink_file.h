#pragma once
#include "sink/encoder.h"
#include "sink/mux.h"
#include "sink/part.h"
#include "sink/sink_ops.h"
#include "sink/tracks.h"

// Shared by the files of the sink "file": sink_file.c writes one file, sink_file_parts.c writes parts that are joined
// at the end.

struct file_sink {
    const AVOutputFormat *format;
    struct tachy_mux mux;
    struct tachy_choice choice; // made by start
    tachy_encoder *encoder;
    tachy_tracks *tracks;
    AVPacket *packet;
    AVRational time_base;  // of the encoder's packets
    int64_t received;
    bool upright;          // the pictures are turned themselves
    int (*emit)(tachy_sink *s); // writes `packet`, whose reference it takes over
    struct tachy_part_writer part;
    struct tachy_part_reader reader; // of a join
};

static inline struct file_sink *file_sink_of(const tachy_sink *s)
{
    return (struct file_sink *)(uintptr_t)s->priv;
}

int file_sink_choose(tachy_sink *s, const struct tachy_video_info *info); // makes p->choice
int file_sink_prepare(tachy_sink *s);              // after it: the encoder and the packet
int file_sink_encoder(tachy_sink *s, int threads); // opens p->encoder by p->choice
// Encoder threads by what was asked for; 0: the encoder's choice.
int file_sink_threads(const struct tachy_sink_params *p);
// Starts the file that p->mux was opened for: streams, their metadata, header.
int file_sink_header(tachy_sink *s);
// Writes p->packet, a picture, after the packets of other streams that are due.
int file_sink_emit(tachy_sink *s);
// The side's packets up to `seconds` of the video, what converters hold, the trailer; renames.
int file_sink_trailer(tachy_sink *s, double seconds);
// Encodes a frame (NULL: no more will come) and hands its packets to p->emit.
int file_sink_encode(tachy_sink *s, tachy_frame *f);
void file_sink_close(tachy_sink *s);

// sink_file_parts.c
int file_sink_part_begin(tachy_sink *s, const char *path);
int file_sink_part_end(tachy_sink *s);
int file_sink_join(tachy_sink *s, const struct tachy_join *j);
int file_sink_fixed_threads(const tachy_sink *s);
