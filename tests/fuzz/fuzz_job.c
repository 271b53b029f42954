// libFuzzer target: the files of a resumable run. The first byte selects how to read the rest: as a part of a video
// (unchanged, or with corrected checksums, so that the data they protect is reached too), the job's record, or the
// state at a cut.
#include "fuzz.h"

#include "sink/part.c" // its records and their checksum

#include "pipeline/checkpoint.h"
#include "pipeline/frame_skip.h"
#include "sink/sink_ops.h"

#include <sys/stat.h>

enum { PART, PART_WITH_SUMS, RECORD, STATE, KINDS };

// Walks through records as the reader does.
static void make_sums_right(uint8_t *data, size_t size)
{
    struct record r;
    if (size < sizeof(MAGIC))
        return;
    memcpy(data, MAGIC, sizeof(MAGIC));
    for (size_t at = sizeof(MAGIC); size - at >= sizeof(r); at += sizeof(r) + (size_t)r.size) {
        memcpy(&r, data + at, sizeof(r));
        r.kind = r.kind % 4;
        if (r.size > size - at - sizeof(r))
            r.size %= size - at - sizeof(r) + 1;
        r.crc = crc_of(r, data + at + sizeof(r));
        memcpy(data + at, &r, sizeof(r));
    }
}

static void read_part(const uint8_t *data, size_t size)
{
    struct tachy_part_reader r;
    AVPacket *packet = av_packet_alloc();
    int err = tachy_part_open(&r, fuzz_file(data, size), NULL);
    while (err == TACHY_OK && (err = tachy_part_read(&r, packet)) == TACHY_OK)
        av_packet_unref(packet);
    tachy_part_close(&r);
    av_packet_free(&packet);
}

static void read_record(const uint8_t *data, size_t size)
{
    static char output[128], folder[160], record[200];
    static const struct tachy_video_info info = {
        .format = TACHY_PIX_GRAY8, .width = 16, .height = 16, .time_base = {1, 25}, .fps = {25, 1}};
    if (!*record) {
        snprintf(output, sizeof(output), "%s/out.jsonl", fuzz_folder());
        snprintf(folder, sizeof(folder), "%s.tachy", output);
        snprintf(record, sizeof(record), "%s/job.json", folder);
    }
    mkdir(folder, 0700);
    fuzz_write(record, data, size);
    tachy_sink *s = NULL;
    if (tachy_sink_open(&s, tachy_sink_params(.url = output, .format = "json", .resume = true)) == TACHY_OK) {
        tachy_record_published(s->job);
        tachy_sink_parts_start(s, &info);
    }
    tachy_sink_close(&s);
}

static void read_state(const uint8_t *data, size_t size)
{
    struct checkpoint c = {.parts = size ? data[0] % (1u << CHECKPOINT_PARTS) : 0};
    struct checkpoint_bytes part[CHECKPOINT_PARTS];
    struct tachy_frame_skip skip;
    if (!size || checkpoint_split(&c, data + 1, size - 1, part) < 0)
        return;
    tachy_frame_skip_open(&skip, 1, TACHY_STEREO_MONO, 0.1f, NULL);
    tachy_frame_skip_load(&skip, part[CHECKPOINT_SKIP].data, part[CHECKPOINT_SKIP].size);
    tachy_frame_skip_close(&skip);
    volatile unsigned sum = 0;
    for (int i = 0; i < CHECKPOINT_PARTS; i++)
        for (size_t k = 0; k < part[i].size; k++)
            sum += ((const uint8_t *)part[i].data)[k];
    (void)sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    uint8_t kind = *data++ % KINDS, *copy = malloc(--size + 1);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    if (kind == PART_WITH_SUMS)
        make_sums_right(copy, size);
    if (kind == PART || kind == PART_WITH_SUMS)
        read_part(copy, size);
    else if (kind == RECORD)
        read_record(copy, size);
    else
        read_state(copy, size);
    free(copy);
    return 0;
}
