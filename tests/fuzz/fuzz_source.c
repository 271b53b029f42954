// libFuzzer target: any bytes as a file, probed and read. The bytes come from a memory file,
// so the real way through names, demuxers, decoders and side streams runs. FFmpeg itself is not
// instrumented: what is searched for are faults of ours in what it hands over.
#include "fuzz.h"

#include "media/side.h"
#include "source/source_ops.h"

#include <math.h>

static struct tachy_source_params params_for(const uint8_t *data, size_t size, const char *url)
{
    uint32_t h = fuzz_hash(data, size);
    struct tachy_source_params p = {.url = url, .max_frames = 24, .threads = 1, .want_side = h & 1};
    if (h & 2)
        p.start = (h >> 8) % 40 / 20.0;
    if (h & 4)
        p.duration = 0.5;
    if (h & 8)
        p.rate = (struct tachy_rational){12, 1};
    p.every_nth = h & 16 ? 3 : 1;
    return p;
}

// Touches every byte that a frame promises.
static unsigned sum(const tachy_frame *f)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    unsigned total = 0;
    for (int i = 0; i < d->planes; i++) {
        bool chroma = !d->rgb && (i == 1 || i == 2);
        int rows = chroma ? -(-f->height >> d->chroma_shift_y) : f->height;
        int width = chroma ? -(-f->width >> d->chroma_shift_x) : f->width;
        int bytes = width * d->components[i] * d->bytes;
        for (int y = 0; y < rows; y++)
            for (int x = 0; x < bytes; x += 7)
                total += f->data[i][y * f->stride[i] + x];
    }
    return total;
}

static void take_all(tachy_side *side)
{
    AVPacket *packet = av_packet_alloc();
    while (side && packet && !tachy_side_take(side, INFINITY, packet))
        av_packet_unref(packet);
    av_packet_free(&packet);
}

static void read_some(const struct tachy_source_params *p)
{
    tachy_source *s = NULL;
    if (tachy_source_open(&s, p))
        return;
    tachy_frame *f = NULL;
    volatile unsigned total = 0;
    int64_t id = 0, last = INT64_MIN;
    while (!tachy_source_read(s, &f)) {
        if (f->id != id++ || f->pts <= last || f->width < 1 || f->height < 1)
            abort(); // a promise of the header is broken
        last = f->pts;
        total += sum(f);
        take_all(tachy_source_side(s));
        tachy_frame_unref(&f);
    }
    take_all(tachy_source_side(s));
    tachy_source_close(&s);
    (void)total;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *url = fuzz_file(data, size);
    char *json = NULL;
    struct tachy_source_params p = params_for(data, size, url);
    read_some(&p);
    tachy_probe(&json, tachy_source_params(.url = url));
    tachy_free(json);
    return 0;
}
