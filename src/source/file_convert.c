#include "source/file_priv.h"

#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>

// Decoded pictures as frames: by reference where we have the format, else converted to the
// nearest format that we have.

// X, Y, Z samples (digital cinema); only newer FFmpeg has a flag for them.
static bool is_xyz(const AVPixFmtDescriptor *d) { return !strncmp(d->name, "xyz", 3); }

// Keeps the chroma detail; more than 8 bits become 10; RGB of more than 8 bits becomes YUV
// 4:4:4 of 10. Alpha is kept in true colour formats only (a palette's is mostly unused).
static enum tachy_pix nearest(const AVPixFmtDescriptor *d)
{
    bool deep = d->comp[0].depth > 8;
    bool alpha = d->flags & AV_PIX_FMT_FLAG_ALPHA && !(d->flags & AV_PIX_FMT_FLAG_PAL);
    bool rgb = d->flags & (AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BAYER);
    if (d->nb_components <= 2 && !rgb)
        return deep ? TACHY_PIX_GRAY10 : TACHY_PIX_GRAY8;
    if ((rgb && deep) || is_xyz(d))
        return alpha ? TACHY_PIX_YUVA444P10 : TACHY_PIX_YUV444P10;
    if (rgb)
        return alpha ? TACHY_PIX_RGBA : TACHY_PIX_RGB24;
    bool halved = d->log2_chroma_h > 0, narrowed = d->log2_chroma_w > 0;
    if (alpha)
        return deep ? TACHY_PIX_YUVA444P10 : narrowed && halved ? TACHY_PIX_YUVA420P
                                                                : TACHY_PIX_YUVA444P;
    if (narrowed && halved)
        return deep ? TACHY_PIX_YUV420P10 : TACHY_PIX_YUV420P;
    if (narrowed)
        return deep ? TACHY_PIX_YUV422P10 : TACHY_PIX_YUV422P;
    return deep ? TACHY_PIX_YUV444P10 : TACHY_PIX_YUV444P;
}

static bool is_yuv(const AVPixFmtDescriptor *d)
{
    return d->nb_components >= 3 && !is_xyz(d) &&
           !(d->flags & (AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BAYER));
}

void file_convert_close(struct file_lane *l)
{
    sws_freeContext(l->sws);
    l->sws = NULL;
    tachy_frame_pool_close(&l->pool);
}

static bool is_full(const AVFrame *picture)
{
    return picture->color_range == AVCOL_RANGE_JPEG || picture->format == AV_PIX_FMT_YUVJ411P ||
           picture->format == AV_PIX_FMT_YUVJ440P;
}

// Range and matrix stay as they are; RGB that becomes YUV does so by BT.709, limited range.
static void keep_colors(struct file_lane *l, const AVFrame *picture, const AVPixFmtDescriptor *d)
{
    int full = is_full(picture) || !is_yuv(d);
    const int *matrix = sws_getCoefficients(SWS_CS_ITU709);
    sws_setColorspaceDetails(l->sws, matrix, full, matrix, is_yuv(d) ? full : 0, 0, 1 << 16, 1 << 16);
}

static int prepare(tachy_source *s, struct file_lane *l)
{
    const AVFrame *picture = l->picture;
    enum AVPixelFormat from = picture->format;
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(from);
    if (!d || !sws_isSupportedInput(from))
        return tachy_fail(s->params.log, TACHY_ERR_UNSUPPORTED,
                          "%s: its pixel format %s cannot be converted", s->url,
                          d ? d->name : "(unknown)");
    enum tachy_pix to = nearest(d);
    file_convert_close(l);
    int err = tachy_frame_pool_open(&l->pool, to, picture->width, picture->height);
    if (err)
        return err;
    l->sws = sws_getContext(picture->width, picture->height, from, picture->width, picture->height,
                            tachy_pix_to_av(to),
                            SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP,
                            NULL, NULL, NULL);
    if (!l->sws)
        return tachy_fail(s->params.log, TACHY_ERR_UNSUPPORTED,
                          "%s: its pictures (%s, %dx%d) cannot be converted", s->url, d->name,
                          picture->width, picture->height);
    keep_colors(l, picture, d);
    l->sws_from = from;
    tachy_msg(s->params.log, TACHY_LOG_VERBOSE, "%s: %s is converted to %s", s->url, d->name,
              tachy_pix_desc(to)->name);
    return TACHY_OK;
}

// Tags of the converted picture.
static struct tachy_color converted_color(const AVFrame *picture, enum tachy_pix to)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(picture->format);
    struct tachy_color c = {
        .matrix = (uint8_t)picture->colorspace,
        .primaries = (uint8_t)picture->color_primaries,
        .transfer = (uint8_t)picture->color_trc,
        .range = is_full(picture) ? 2 : picture->color_range == AVCOL_RANGE_MPEG ? 1 : 0,
        .chroma_loc = (uint8_t)picture->chroma_location,
    };
    const struct tachy_pix_desc *t = tachy_pix_desc(to);
    if (!is_yuv(d) && t->planes >= 3) { // RGB that became YUV
        c.matrix = 1;
        c.range = 1;
        c.chroma_loc = 0;
        if (c.transfer == 2)
            c.transfer = 13; // it is sRGB still
        if (c.primaries == 2)
            c.primaries = 1;
    } else if (t->rgb) {
        c.matrix = 0;
    }
    return c;
}

static int convert(tachy_source *s, struct file_lane *l, tachy_frame **out)
{
    const AVFrame *picture = l->picture;
    tachy_frame *f = NULL;
    bool ready = l->sws && l->sws_from == picture->format && l->width == picture->width &&
                 l->height == picture->height;
    int err = ready ? TACHY_OK : prepare(s, l);
    if (!err)
        err = tachy_frame_pool_get(l->pool, &f);
    if (err)
        return err;
    uint8_t *data[4] = {0};
    int stride[4] = {0};
    for (int i = 0; i < tachy_pix_desc(f->format)->planes; i++) {
        data[i] = tachy_frame_writable(f, i);
        stride[i] = (int)f->stride[i];
    }
    int rows = sws_scale(l->sws, (const uint8_t *const *)picture->data, picture->linesize, 0,
                         picture->height, data, stride);
    if (rows < 0) {
        char text[128];
        tachy_frame_unref(&f);
        return tachy_fail(s->params.log, TACHY_ERR_EXTERNAL, "%s: a picture cannot be converted: %s",
                          s->url, tachy_av_text(rows, text));
    }
    f->color = converted_color(picture, f->format);
    *out = f;
    return TACHY_OK;
}

// What nvJPEG made is in the picture's own format.
static int take_decoded(struct file_lane *l, tachy_frame **out)
{
    *out = l->from_jpeg;
    l->from_jpeg = NULL;
    (*out)->color = converted_color(l->picture, (*out)->format);
    return TACHY_OK;
}

// A change of size or format in the stream starts a new scene for all later stages.
static void note_change(tachy_source *s, struct file_lane *l, tachy_frame *f)
{
    struct file *p = file_of(s);
    bool first = !l->width;
    bool same = l->width == f->width && l->height == f->height && l->format == f->format;
    if (l->broken) {
        l->broken--;
        f->discontinuity = !first;
    }
    if (!first && !same) {
        f->discontinuity = 1;
        if (!atomic_exchange(&p->changed, true))
            tachy_msg(s->params.log, TACHY_LOG_WARN,
                      "%s: the pictures change from %dx%d %s to %dx%d %s at %.3f s", s->url,
                      l->width, l->height, tachy_pix_desc(l->format)->name, f->width, f->height,
                      tachy_pix_desc(f->format)->name,
                      (double)f->pts * av_q2d(p->st->time_base));
    }
    l->width = f->width;
    l->height = f->height;
    l->format = f->format;
}

int file_convert(tachy_source *s, struct file_lane *l, tachy_frame **out)
{
    AVFrame *picture = l->picture;
    int64_t pts = picture->pts;
#ifdef AV_FRAME_FLAG_KEY
    bool key = picture->flags & AV_FRAME_FLAG_KEY;
#else
    bool key = picture->key_frame;
#endif
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(57, 30, 100)
    int64_t duration = picture->duration;
#else
    int64_t duration = picture->pkt_duration;
#endif
    if (picture->width > 65535 || picture->height > 65535) {
        int err = tachy_fail(s->params.log, TACHY_ERR_LIMIT, "%s: a picture is %dx%d, more than "
                             "65535 a side", s->url, picture->width, picture->height);
        av_frame_unref(picture);
        return err;
    }
    bool on_gpu = l->from_jpeg || picture->format == AV_PIX_FMT_CUDA;
    int err = file_of(s)->gpu.on && !on_gpu ? file_gpu_missed(s, picture) : TACHY_OK;
    if (!err)
        err = l->from_jpeg                         ? take_decoded(l, out)
              : on_gpu                             ? file_gpu_frame(s, l, out)
              : tachy_pix_from_av(picture->format) ? tachy_frame_from_av(out, picture)
                                                   : convert(s, l, out);
    av_frame_unref(picture);
    if (err)
        return err;
    (*out)->pts = pts;
    (*out)->key = key;
    (*out)->duration = duration > 0 && duration < INT32_MAX ? duration : 0;
    note_change(s, l, *out);
    return TACHY_OK;
}
