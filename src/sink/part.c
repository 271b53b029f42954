#include "sink/part.h"

#include <errno.h>
#include <libavutil/crc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char MAGIC[8] = "tachyp1\n";

enum { KIND_PACKET = 1, KIND_SIDE, KIND_END };
// Before each record's data. A packet's side data follows it, a record each.
struct record {
    uint32_t kind, flags; // AV_PKT_FLAG_*, of side data its type
    int64_t pts, dts, duration;
    uint64_t size;
    uint32_t side; // records of side data that follow
    uint32_t crc;  // of this struct with crc 0, then the data
};

static uint32_t crc_of(struct record r, const void *data)
{
    const AVCRC *table = av_crc_get_table(AV_CRC_32_IEEE_LE);
    r.crc = 0;
    uint32_t crc = av_crc(table, 0, (const uint8_t *)&r, sizeof(r));
    return r.size ? av_crc(table, crc, data, (size_t)r.size) : crc;
}

int tachy_part_create(struct tachy_part_writer *w, const char *path, const struct tachy_log *log)
{
    *w = (struct tachy_part_writer){0};
    int err = tachy_output_open(&w->out, path, true, log);
    if (err == TACHY_OK)
        err = tachy_output_avio(&w->out, &w->pb);
    if (err < 0)
        return err;
    w->out.sync = w->out.resumable = true;
    avio_write(w->pb, (const uint8_t *)MAGIC, sizeof(MAGIC));
    return TACHY_OK;
}

static void put(struct tachy_part_writer *w, struct record r, const uint8_t *data)
{
    r.crc = crc_of(r, data);
    avio_write(w->pb, (const uint8_t *)&r, sizeof(r));
    for (uint64_t at = 0; at < r.size; at += 1 << 30)
        avio_write(w->pb, data + at, (int)TACHY_MIN(r.size - at, (uint64_t)1 << 30));
}

int tachy_part_add(struct tachy_part_writer *w, const AVPacket *p)
{
    put(w,
        (struct record){.kind = KIND_PACKET, .flags = (uint32_t)p->flags, .pts = p->pts,
                        .dts = p->dts, .duration = p->duration, .size = (uint64_t)p->size,
                        .side = (uint32_t)p->side_data_elems},
        p->data);
    for (int i = 0; i < p->side_data_elems; i++)
        put(w,
            (struct record){.kind = KIND_SIDE, .flags = (uint32_t)p->side_data[i].type,
                            .size = (uint64_t)p->side_data[i].size},
            p->side_data[i].data);
    w->packets++;
    return w->out.error ? tachy_output_fail(&w->out) : TACHY_OK;
}

int tachy_part_finish(struct tachy_part_writer *w, const AVCodecContext *encoder)
{
    put(w,
        (struct record){.kind = KIND_END, .pts = w->packets,
                        .size = (uint64_t)TACHY_MAX(encoder->extradata_size, 0)},
        encoder->extradata);
    avio_flush(w->pb);
    int err = w->out.error ? tachy_output_fail(&w->out) : tachy_output_finish(&w->out);
    tachy_part_abandon(w);
    return err;
}

void tachy_part_abandon(struct tachy_part_writer *w)
{
    tachy_output_avio_free(&w->pb);
    tachy_output_close(&w->out);
}

static int damaged(const struct tachy_part_reader *r)
{
    return tachy_fail(r->log, TACHY_ERR_FORMAT,
                      "%s: is damaged, so the parts cannot be joined; to start over, remove the "
                      "folder it is in",
                      r->path);
}

int tachy_part_open(struct tachy_part_reader *r, const char *path, const struct tachy_log *log)
{
    char magic[sizeof(MAGIC)];
    struct stat st;
    *r = (struct tachy_part_reader){.path = path, .log = log, .file = fopen(path, "rbe")};
    if (!r->file)
        return tachy_fail(log, tachy_err_from_errno(errno),
                          "%s: cannot be opened: %s; to start over, remove the folder it is in",
                          path, strerror(errno));
    if (fread(magic, sizeof(magic), 1, r->file) != 1 || memcmp(magic, MAGIC, sizeof(magic)) ||
        fstat(fileno(r->file), &st) < 0)
        return damaged(r);
    r->left = (uint64_t)st.st_size - sizeof(magic);
    return TACHY_OK;
}

// A damaged size asks for no more memory than the file has bytes.
static bool get_head(struct tachy_part_reader *r, struct record *h)
{
    if (r->left < sizeof(*h) || fread(h, sizeof(*h), 1, r->file) != 1)
        return false;
    r->left -= sizeof(*h);
    if (h->size > r->left || h->size > INT_MAX - AV_INPUT_BUFFER_PADDING_SIZE)
        return false;
    r->left -= h->size;
    return true;
}

static bool get_data(struct tachy_part_reader *r, const struct record *h, uint8_t *data)
{
    return (!h->size || fread(data, (size_t)h->size, 1, r->file) == 1) && crc_of(*h, data) == h->crc;
}

static int get_end(struct tachy_part_reader *r, const struct record *h)
{
    r->extradata = calloc(1, (size_t)h->size + AV_INPUT_BUFFER_PADDING_SIZE);
    if (!r->extradata)
        return TACHY_ERR_NOMEM;
    r->extradata_size = (size_t)h->size;
    if (!get_data(r, h, r->extradata) || h->pts != r->packets)
        return damaged(r);
    return TACHY_ERR_EOF;
}

static int get_side(struct tachy_part_reader *r, AVPacket *packet)
{
    struct record h;
    if (!get_head(r, &h) || h.kind != KIND_SIDE)
        return damaged(r);
    uint8_t *d = av_packet_new_side_data(packet, (enum AVPacketSideDataType)h.flags, (size_t)h.size);
    if (!d)
        return TACHY_ERR_NOMEM;
    return get_data(r, &h, d) ? TACHY_OK : damaged(r);
}

int tachy_part_read(struct tachy_part_reader *r, AVPacket *packet)
{
    struct record h;
    if (!get_head(r, &h) || (h.kind != KIND_PACKET && h.kind != KIND_END))
        return damaged(r);
    if (h.kind == KIND_END)
        return get_end(r, &h);
    if (av_new_packet(packet, (int)h.size) < 0)
        return TACHY_ERR_NOMEM;
    int err = get_data(r, &h, packet->data) ? TACHY_OK : damaged(r);
    packet->flags = (int)h.flags;
    packet->pts = h.pts;
    packet->dts = h.dts;
    packet->duration = h.duration;
    for (uint32_t i = 0; i < h.side && err == TACHY_OK; i++)
        err = get_side(r, packet);
    r->packets++;
    if (err < 0)
        av_packet_unref(packet);
    return err;
}

void tachy_part_close(struct tachy_part_reader *r)
{
    if (r->file)
        fclose(r->file);
    free(r->extradata);
    *r = (struct tachy_part_reader){0};
}
