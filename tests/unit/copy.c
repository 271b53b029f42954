// Copies a source to a sink, frame by frame, for tests/e2e/test_sink.py.
//
//   copy [options] IN OUT
//
// Options are those of the sink and the source by FFmpeg's names, and -as FORMAT (converts frames to this format: gray,
// rgba, yuva420p, yuva444p10le; alpha is a ramp from left to right), -stop N (stops as if interrupted after N frames),
// -incidental (alpha may be dropped), -lines (one JSON line per frame). Prints one line: name, bytes and frames. The
// exit status is the negated error code.
#include "media/media.h"
#include "sink/sink_ops.h"
#include "source/source_ops.h"

#include <errno.h>
#include <libswscale/swscale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static void print(void *user, enum tachy_log_level level, const char *msg)
{
    static const char *const names[] = {"", "error", "warning", "info", "verbose", "debug"};
    fprintf(stderr, "%s: %s\n", names[level], msg);
}

static const struct tachy_log print_log = {.fn = print};

struct job {
    struct tachy_source_params source;
    struct tachy_sink_params sink;
    const char *in, *out;
    enum tachy_pix as;
    long stop;
    bool lines, incidental;
};

static int parse(struct job *j, int argc, char **argv)
{
    const struct {
        const char *name, **value;
    } texts[] = {
        {"-f", &j->sink.format},       {"-c:v", &j->sink.codec}, {"-preset", &j->sink.preset},
        {"-crf", &j->sink.crf},        {"-pix_fmt", &j->sink.pix_fmt},
    };
    int i = 1;
    for (; i < argc - 2; i++) {
        const char *a = argv[i];
        bool found = false;
        for (size_t k = 0; k < TACHY_ARRAY_SIZE(texts); k++)
            if (!strcmp(a, texts[k].name) && ++i)
                *texts[k].value = argv[i], found = true;
        if (found)
            continue;
        if (!strcmp(a, "-y"))
            j->sink.overwrite = true;
        else if (!strcmp(a, "-an"))
            j->sink.no_audio = true;
        else if (!strcmp(a, "-sn"))
            j->sink.no_subtitles = true;
        else if (!strcmp(a, "-lines"))
            j->lines = true;
        else if (!strcmp(a, "-incidental"))
            j->incidental = true;
        else if (!strcmp(a, "-threads"))
            j->sink.threads = atoi(argv[++i]);
        else if (!strcmp(a, "-t"))
            j->source.duration = atof(argv[++i]);
        else if (!strcmp(a, "-ss"))
            j->source.start = atof(argv[++i]);
        else if (!strcmp(a, "-frames:v"))
            j->source.max_frames = atol(argv[++i]);
        else if (!strcmp(a, "-stop"))
            j->stop = atol(argv[++i]);
        else if (!strcmp(a, "-as"))
            j->as = tachy_pix_by_name(argv[++i]);
        else
            return TACHY_ERR_INVAL;
    }
    if (i != argc - 2)
        return TACHY_ERR_INVAL;
    j->in = argv[i];
    j->out = argv[i + 1];
    return TACHY_OK;
}

// Sets every alpha sample to x * full / (width - 1).
static void ramp(tachy_frame *f)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    int full = (1 << d->bits) - 1, plane = d->planes - 1;
    for (int y = 0; d->alpha && y < f->height; y++) {
        uint8_t *row = tachy_frame_writable(f, plane) + y * f->stride[plane];
        for (int x = 0; x < f->width; x++) {
            int v = f->width > 1 ? x * full / (f->width - 1) : full;
            if (d->rgb)
                row[4 * x + 3] = (uint8_t)v;
            else if (d->bytes == 2)
                ((uint16_t *)(void *)row)[x] = (uint16_t)v;
            else
                row[x] = (uint8_t)v;
        }
    }
}

static int make_as(tachy_frame **f, enum tachy_pix as)
{
    tachy_frame *in = *f, *out;
    struct tachy_frame_params p = {.format = as, .width = in->width, .height = in->height,
                                   .pts = in->pts, .duration = in->duration, .color = in->color};
    struct SwsContext *sws = sws_getContext(in->width, in->height, tachy_pix_to_av(in->format),
                                            in->width, in->height, tachy_pix_to_av(as),
                                            SWS_BICUBIC, NULL, NULL, NULL);
    int err = sws ? tachy_frame_new(&out, &p) : TACHY_ERR_UNSUPPORTED;
    if (err < 0) {
        sws_freeContext(sws);
        return err;
    }
    uint8_t *to[4] = {0};
    int from_stride[4], to_stride[4];
    for (int i = 0; i < 4; i++) {
        from_stride[i] = (int)in->stride[i];
        to_stride[i] = (int)out->stride[i];
        to[i] = out->data[i] ? tachy_frame_writable(out, i) : NULL;
    }
    sws_scale(sws, in->data, from_stride, 0, in->height, to, to_stride);
    sws_freeContext(sws);
    ramp(out);
    out->id = in->id;
    tachy_frame_unref(f);
    *f = out;
    return TACHY_OK;
}

static int copy_frame(const struct job *j, tachy_source *src, tachy_sink *sink)
{
    tachy_frame *f;
    int err = tachy_source_read(src, &f);
    if (err < 0)
        return err;
    if (j->as)
        err = make_as(&f, j->as);
    char line[100];
    struct tachy_result r = {.frame_id = f->id, .pts = f->pts, .json = line};
    snprintf(line, sizeof(line), "{\"frame\":%lld}", (long long)f->id);
    if (err >= 0)
        err = tachy_sink_write(sink, f, j->lines ? &r : NULL);
    tachy_frame_unref(&f);
    return err;
}

static int copy(const struct job *j, tachy_source *src, tachy_sink *sink)
{
    struct tachy_video_info info = *tachy_source_info(src);
    if (j->as)
        info.format = j->as;
    info.transparent = j->as && !j->incidental;
    tachy_sink_set_side(sink, tachy_source_side(src));
    int err = tachy_sink_start(sink, &info);
    long n = 0;
    while (err >= 0 && (!j->stop || n < j->stop))
        if ((err = copy_frame(j, src, sink)) >= 0)
            n++;
    bool whole = err == TACHY_ERR_EOF;
    int finish = tachy_sink_finish(sink, !whole);
    fprintf(stderr, "wrote %s: %lld bytes, %ld frames\n",
            tachy_sink_path(sink) ? tachy_sink_path(sink) : "-", (long long)tachy_sink_bytes(sink), n);
    return err < 0 && !whole ? err : finish;
}

int main(int argc, char **argv)
{
    struct job j = {.source = {.want_side = true, .log = &print_log}, .sink = {.log = &print_log}};
    if (argc < 3 || parse(&j, argc, argv) < 0) {
        fprintf(stderr, "usage: copy [options] IN OUT\n");
        return 100;
    }
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    j.source.url = j.in;
    j.sink.url = j.out;
    tachy_source *src = NULL;
    tachy_sink *sink = NULL;
    int err = tachy_sink_open(&sink, &j.sink);
    if (err >= 0)
        err = tachy_source_open(&src, &j.source);
    if (err >= 0)
        err = copy(&j, src, sink);
    tachy_sink_close(&sink);
    tachy_source_close(&src);
    return -err;
}
