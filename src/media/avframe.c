#include "media/frame_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const enum AVPixelFormat av_formats[TACHY_PIX_COUNT] = {
    [TACHY_PIX_NONE] = AV_PIX_FMT_NONE,
    [TACHY_PIX_GRAY8] = AV_PIX_FMT_GRAY8,
    [TACHY_PIX_GRAY10] = AV_PIX_FMT_GRAY10LE,
    [TACHY_PIX_YUV420P] = AV_PIX_FMT_YUV420P,
    [TACHY_PIX_YUV422P] = AV_PIX_FMT_YUV422P,
    [TACHY_PIX_YUV444P] = AV_PIX_FMT_YUV444P,
    [TACHY_PIX_YUV420P10] = AV_PIX_FMT_YUV420P10LE,
    [TACHY_PIX_YUV422P10] = AV_PIX_FMT_YUV422P10LE,
    [TACHY_PIX_YUV444P10] = AV_PIX_FMT_YUV444P10LE,
    [TACHY_PIX_NV12] = AV_PIX_FMT_NV12,
    [TACHY_PIX_P010] = AV_PIX_FMT_P010LE,
    [TACHY_PIX_RGB24] = AV_PIX_FMT_RGB24,
    [TACHY_PIX_BGRA] = AV_PIX_FMT_BGRA,
    [TACHY_PIX_RGBA] = AV_PIX_FMT_RGBA,
    [TACHY_PIX_YUVA420P] = AV_PIX_FMT_YUVA420P,
    [TACHY_PIX_YUVA444P] = AV_PIX_FMT_YUVA444P,
    [TACHY_PIX_YUVA444P10] = AV_PIX_FMT_YUVA444P10LE,
};

static enum AVPixelFormat without_j(enum AVPixelFormat f)
{
    switch (f) {
    case AV_PIX_FMT_YUVJ420P:
        return AV_PIX_FMT_YUV420P;
    case AV_PIX_FMT_YUVJ422P:
        return AV_PIX_FMT_YUV422P;
    case AV_PIX_FMT_YUVJ444P:
        return AV_PIX_FMT_YUV444P;
    default:
        return f;
    }
}

enum tachy_pix tachy_pix_from_av(enum AVPixelFormat f)
{
    f = without_j(f);
    for (int i = TACHY_PIX_NONE + 1; i < TACHY_PIX_COUNT; i++)
        if (av_formats[i] == f)
            return (enum tachy_pix)i;
    return TACHY_PIX_NONE;
}

enum AVPixelFormat tachy_pix_to_av(enum tachy_pix f)
{
    return tachy_pix_desc(f) ? av_formats[f] : AV_PIX_FMT_NONE;
}

int tachy_err_from_av(int e)
{
    if (e >= 0)
        return TACHY_OK;
    switch (e) {
    case AVERROR_EOF:
        return TACHY_ERR_EOF;
    case AVERROR(EAGAIN):
        return TACHY_ERR_AGAIN;
    case AVERROR_EXIT:
        return TACHY_ERR_INTERRUPTED;
    case AVERROR_INVALIDDATA:
    case AVERROR_STREAM_NOT_FOUND:
        return TACHY_ERR_FORMAT;
    case AVERROR_DECODER_NOT_FOUND:
    case AVERROR_ENCODER_NOT_FOUND:
    case AVERROR_DEMUXER_NOT_FOUND:
    case AVERROR_MUXER_NOT_FOUND:
    case AVERROR_PROTOCOL_NOT_FOUND:
    case AVERROR_FILTER_NOT_FOUND:
    case AVERROR_BSF_NOT_FOUND:
    case AVERROR_PATCHWELCOME:
    case AVERROR_EXPERIMENTAL:
    case AVERROR(ENOSYS):
        return TACHY_ERR_UNSUPPORTED;
    case AVERROR_OPTION_NOT_FOUND:
        return TACHY_ERR_INVAL;
    case AVERROR_HTTP_NOT_FOUND:
        return TACHY_ERR_NOT_FOUND;
    case AVERROR_EXTERNAL:
    case AVERROR_UNKNOWN:
    case AVERROR_BUG:
    case AVERROR_BUG2:
        return TACHY_ERR_EXTERNAL;
    default:
        return tachy_err_from_errno(AVUNERROR(e));
    }
}

const char *tachy_av_text(int averror, char buf[128])
{
    if (av_strerror(averror, buf, 128) < 0)
        snprintf(buf, 128, "error %d", averror);
    return buf;
}

void tachy_av_quiet(void)
{
    if (av_log_get_level() == AV_LOG_INFO)
        av_log_set_level(AV_LOG_QUIET);
}

static bool full_range(const AVFrame *av)
{
    return av->color_range == AVCOL_RANGE_JPEG || without_j(av->format) != av->format;
}

static struct tachy_color color_of(const AVFrame *av)
{
    return (struct tachy_color){
        .matrix = (uint8_t)av->colorspace,
        .primaries = (uint8_t)av->color_primaries,
        .transfer = (uint8_t)av->color_trc,
        .range = full_range(av) ? 2 : av->color_range == AVCOL_RANGE_MPEG ? 1 : 0,
        .chroma_loc = (uint8_t)av->chroma_location,
    };
}

static bool is_key(const AVFrame *av)
{
#ifdef AV_FRAME_FLAG_KEY
    return av->flags & AV_FRAME_FLAG_KEY;
#else
    return av->key_frame;
#endif
}

static int64_t duration_of(const AVFrame *av)
{
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(57, 30, 100)
    return av->duration;
#else
    return av->pkt_duration;
#endif
}

static void set_duration(AVFrame *av, int64_t duration)
{
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(57, 30, 100)
    av->duration = duration;
#else
    av->pkt_duration = duration;
#endif
}

int tachy_frame_from_av(tachy_frame **out, AVFrame *av)
{
    *out = NULL;
    bool on_gpu = av->format == AV_PIX_FMT_CUDA;
    const struct tachy_gpu *gpu = on_gpu ? tachy_av_gpu(av) : NULL;
    enum tachy_pix format = tachy_pix_from_av(tachy_av_sw_format(av));
    if (!tachy_frame_size_ok(format, av->width, av->height) || !av->buf[0] || (on_gpu && !gpu))
        return TACHY_ERR_INVAL;
    struct tachy_frame_full *f = calloc(1, sizeof(*f));
    if (!f)
        return TACHY_ERR_NOMEM;
    f->av = av_frame_alloc();
    if (!f->av) {
        free(f);
        return TACHY_ERR_NOMEM;
    }
    f->pub = (tachy_frame){
        .format = format,
        .width = av->width,
        .height = av->height,
        .pts = av->pts,
        .duration = duration_of(av),
        .color = color_of(av),
        .key = is_key(av),
    };
    for (int i = 0; i < tachy_pix_desc(format)->planes; i++) {
        f->pub.data[i] = av->data[i];
        f->pub.stride[i] = av->linesize[i];
    }
    if (gpu) {
        f->pub.mem = TACHY_DEVICE;
        f->pub.device = gpu->device.ordinal;
        f->pub.stream = gpu->stream;
        if (!tachy_av_crop(av, &f->pub)) {
            tachy_frame_destroy(f);
            return TACHY_ERR_INVAL;
        }
    }
    atomic_init(&f->refs, 1);
    av_frame_move_ref(f->av, av);
    *out = &f->pub;
    return TACHY_OK;
}

static void drop_reference(void *opaque, uint8_t *data)
{
    tachy_frame *f = opaque;
    tachy_frame_unref(&f);
}

// One read-only buffer a plane, each with a reference to the frame.
static int share_planes(AVFrame *av, tachy_frame *f)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    for (int i = 0; i < d->planes; i++) {
        size_t rows = (size_t)tachy_plane_rows(d, i, f->height) - 1;
        ptrdiff_t last = f->stride[i] * (ptrdiff_t)rows; // from the first row to the last
        size_t size = (size_t)(last < 0 ? -last : last) + tachy_plane_row_bytes(d, i, f->width);
        // FFmpeg's type is not const; the flag keeps it from writing.
        uint8_t *data = (uint8_t *)(uintptr_t)f->data[i];
        av->buf[i] = av_buffer_create(data + TACHY_MIN(last, 0), size, drop_reference, f,
                                      AV_BUFFER_FLAG_READONLY);
        if (!av->buf[i])
            return TACHY_ERR_NOMEM;
        tachy_frame_ref(f);
        av->data[i] = data;
        av->linesize[i] = (int)f->stride[i];
    }
    return TACHY_OK;
}

static void set_color(AVFrame *av, const tachy_frame *f)
{
    bool rgb = tachy_pix_desc(f->format)->rgb;
    const struct tachy_color *c = &f->color;
    av->colorspace = c->matrix == AVCOL_SPC_RGB && !rgb ? AVCOL_SPC_UNSPECIFIED : c->matrix;
    av->color_primaries = c->primaries ? c->primaries : AVCOL_PRI_UNSPECIFIED;
    av->color_trc = c->transfer ? c->transfer : AVCOL_TRC_UNSPECIFIED;
    av->color_range = c->range;
    av->chroma_location = c->chroma_loc;
}

static void describe(AVFrame *av, const tachy_frame *f)
{
    av->width = f->width;
    av->height = f->height;
    av->pts = f->pts;
    set_duration(av, f->duration);
    set_color(av, f);
}

int tachy_frame_to_av(AVFrame **out, tachy_frame *f)
{
    *out = NULL;
    if (f->mem == TACHY_DEVICE)
        return TACHY_ERR_UNSUPPORTED;
    AVFrame *av = av_frame_alloc();
    if (!av)
        return TACHY_ERR_NOMEM;
    AVFrame *decoded = tachy_frame_full(f)->av;
    // A decoder's picture shares its own buffers and keeps its side data (captions, HDR).
    int err = decoded ? tachy_err_from_av(av_frame_ref(av, decoded)) : share_planes(av, f);
    if (err < 0) {
        av_frame_free(&av);
        return err;
    }
    av->format = tachy_pix_to_av(f->format);
    describe(av, f);
    *out = av;
    return TACHY_OK;
}

int tachy_frame_to_av_gpu(AVFrame **out, tachy_frame *f, AVBufferRef *frames)
{
    *out = NULL;
    if (f->mem != TACHY_DEVICE)
        return TACHY_ERR_INVAL;
    AVFrame *av = av_frame_alloc();
    int err = av ? share_planes(av, f) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK && !(av->hw_frames_ctx = av_buffer_ref(frames)))
        err = TACHY_ERR_NOMEM;
    if (err < 0) {
        av_frame_free(&av);
        return err;
    }
    av->format = AV_PIX_FMT_CUDA;
    describe(av, f);
    *out = av;
    return TACHY_OK;
}
