#pragma once
#include "media/media.h"
#include "sink/output.h"

#include <stdio.h>

// A part of a video that is written in parts: the encoder's packets between two cuts with exactly
// the times, flags and side data they had, so that joining the parts gives the muxer what it would
// have got without cuts. One file a part; records in the machine's byte order, each with its CRC.
// Used from one thread.

struct tachy_part_writer {
    struct tachy_output out;
    AVIOContext *pb;
    int64_t packets;
};

int tachy_part_create(struct tachy_part_writer *w, const char *path, const struct tachy_log *log);
int tachy_part_add(struct tachy_part_writer *w, const AVPacket *packet);
// Adds the encoder's data about the whole stream and syncs the part to disk.
int tachy_part_finish(struct tachy_part_writer *w, const AVCodecContext *encoder);
void tachy_part_abandon(struct tachy_part_writer *w); // a zeroed struct is fine

struct tachy_part_reader {
    FILE *file;
    const char *path; // the caller's
    const struct tachy_log *log;
    int64_t packets;
    uint64_t left;      // bytes of the file that were not read yet
    uint8_t *extradata; // after TACHY_ERR_EOF
    size_t extradata_size;
};

int tachy_part_open(struct tachy_part_reader *r, const char *path, const struct tachy_log *log);
// TACHY_OK, TACHY_ERR_EOF (the part is whole) or TACHY_ERR_FORMAT (it is damaged).
int tachy_part_read(struct tachy_part_reader *r, AVPacket *packet);
void tachy_part_close(struct tachy_part_reader *r); // a zeroed struct is fine
