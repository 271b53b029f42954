#include "sink/pixels.h"

#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
#include <stdlib.h>

struct tachy_pixels {
    struct tachy_pixels_params p;
    struct SwsContext *sws;
    // Parameters of the current sws.
    enum AVPixelFormat format;
    int width, height;
    struct tachy_color color;
    AVBufferRef *neutral; // chroma of a grey picture
};

int tachy_pixels_open(tachy_pixels **out, const struct tachy_pixels_params *p)
{
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return TACHY_ERR_NOMEM;
    (*out)->p = *p;
    (*out)->format = AV_PIX_FMT_NONE;
    return TACHY_OK;
}

void tachy_pixels_close(tachy_pixels **p)
{
    if (!*p)
        return;
    sws_freeContext((*p)->sws);
    av_buffer_unref(&(*p)->neutral);
    free(*p);
    *p = NULL;
}

static bool is_rgb(enum AVPixelFormat f)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f);
    return d && (d->flags & AV_PIX_FMT_FLAG_RGB);
}

static bool is_gray(enum AVPixelFormat f)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f);
    return d && d->nb_components <= 2 && !(d->flags & (AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL));
}

struct tachy_color tachy_pixels_resolve(struct tachy_color c, enum AVPixelFormat f, int width,
                                        int height)
{
    bool rgb = is_rgb(f);
    if (is_gray(f) && !c.range)
        c.range = AVCOL_RANGE_JPEG; // a mask is 0..255
    return tachy_color_resolve(c, rgb ? TACHY_PIX_RGB24 : TACHY_PIX_YUV420P, width, height);
}

// swscale's table for an H.273 matrix.
static const int *coefficients(uint8_t matrix)
{
    switch (matrix) {
    case AVCOL_SPC_BT709:
        return sws_getCoefficients(SWS_CS_ITU709);
    case AVCOL_SPC_FCC:
        return sws_getCoefficients(SWS_CS_FCC);
    case AVCOL_SPC_SMPTE240M:
        return sws_getCoefficients(SWS_CS_SMPTE240M);
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL:
        return sws_getCoefficients(SWS_CS_BT2020);
    default:
        return sws_getCoefficients(SWS_CS_ITU601);
    }
}

// The ranges must be set before sws_init_context(), which otherwise assumes a plain copy if the formats are equal.
static struct SwsContext *open_sws(const tachy_pixels *p, bool full_in, bool full_out)
{
    const struct {
        const char *name;
        int64_t value;
    } options[] = {
        {"srcw", p->width},        {"srch", p->height},         {"src_format", p->format},
        {"dstw", p->p.width},      {"dsth", p->p.height},       {"dst_format", p->p.format},
        {"src_range", full_in},    {"dst_range", full_out},
        {"sws_flags", SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP},
    };
    struct SwsContext *sws = sws_alloc_context();
    int ret = sws ? 0 : -1;
    for (size_t i = 0; ret >= 0 && i < TACHY_ARRAY_SIZE(options); i++)
        ret = av_opt_set_int(sws, options[i].name, options[i].value, 0);
    if (ret >= 0 && sws_init_context(sws, NULL, NULL) >= 0)
        return sws;
    sws_freeContext(sws);
    return NULL;
}

static int setup(tachy_pixels *p, const AVFrame *in, struct tachy_color color)
{
    if (p->sws && p->format == in->format && p->width == in->width && p->height == in->height &&
        !memcmp(&p->color, &color, sizeof(color)))
        return TACHY_OK;
    sws_freeContext(p->sws);
    p->sws = NULL;
    p->format = in->format;
    p->width = in->width;
    p->height = in->height;
    p->color = color;
    struct tachy_color src = tachy_pixels_resolve(color, in->format, in->width, in->height);
    struct tachy_color dst = p->p.color;
    if (!dst.range && !is_rgb(p->p.format) && !is_rgb(in->format))
        dst.range = src.range;
    if ((dst.matrix == 2 || !dst.matrix) && !is_rgb(in->format))
        dst.matrix = src.matrix;
    dst = tachy_pixels_resolve(dst, p->p.format, p->p.width, p->p.height);
    // An RGB side has no matrix: the YUV side's is used for both.
    uint8_t from = is_rgb(in->format) ? dst.matrix : src.matrix;
    uint8_t to = is_rgb(p->p.format) ? src.matrix : dst.matrix;
    p->sws = open_sws(p, src.range == AVCOL_RANGE_JPEG, dst.range == AVCOL_RANGE_JPEG);
    if (!p->sws)
        return tachy_fail(p->p.log, TACHY_ERR_UNSUPPORTED,
                          "FFmpeg's swscale cannot make %s pictures of %dx%d from %s of %dx%d",
                          av_get_pix_fmt_name(p->p.format), p->p.width, p->p.height,
                          av_get_pix_fmt_name(in->format), in->width, in->height);
    sws_setColorspaceDetails(p->sws, coefficients(from), src.range == AVCOL_RANGE_JPEG,
                             coefficients(to), dst.range == AVCOL_RANGE_JPEG, 0, 1 << 16, 1 << 16);
    return TACHY_OK;
}

// True if a grey plane is the luma plane of this planar YUV format.
static bool same_luma(enum AVPixelFormat gray, enum AVPixelFormat yuv)
{
    const AVPixFmtDescriptor *a = av_pix_fmt_desc_get(gray), *b = av_pix_fmt_desc_get(yuv);
    return is_gray(gray) && !is_gray(yuv) && !is_rgb(yuv) && a->nb_components == 1 &&
           b->nb_components == 3 && (b->flags & AV_PIX_FMT_FLAG_PLANAR) &&
           b->comp[1].plane == 1 && b->comp[2].plane == 2 && a->comp[0].depth == b->comp[0].depth &&
           a->comp[0].step == b->comp[0].step && a->comp[0].shift == b->comp[0].shift;
}

// Grey to planar YUV without touching a pixel: the chroma planes are one constant buffer.
static int add_chroma(tachy_pixels *p, AVFrame *f)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(p->p.format);
    int step = d->comp[1].step;
    int w = AV_CEIL_RSHIFT(p->p.width, d->log2_chroma_w);
    int h = AV_CEIL_RSHIFT(p->p.height, d->log2_chroma_h);
    int stride = TACHY_ALIGN(w * step, 64);
    if (!p->neutral) {
        p->neutral = av_buffer_alloc((size_t)stride * (size_t)h + 64);
        if (!p->neutral)
            return TACHY_ERR_NOMEM;
        size_t n = p->neutral->size / (size_t)step;
        uint16_t half = (uint16_t)(1u << (d->comp[1].depth - 1));
        for (size_t i = 0; i < n; i++)
            if (step == 1)
                p->neutral->data[i] = (uint8_t)half;
            else
                ((uint16_t *)(void *)p->neutral->data)[i] = half;
    }
    int slot = 0;
    while (slot < AV_NUM_DATA_POINTERS && f->buf[slot])
        slot++;
    if (slot == AV_NUM_DATA_POINTERS || !(f->buf[slot] = av_buffer_ref(p->neutral)))
        return TACHY_ERR_NOMEM;
    f->format = p->p.format;
    f->data[1] = f->data[2] = p->neutral->data;
    f->linesize[1] = f->linesize[2] = stride;
    return TACHY_OK;
}

static int convert(tachy_pixels *p, const AVFrame *in, struct tachy_color color, AVFrame *out)
{
    int err = setup(p, in, color);
    if (err < 0)
        return err;
    out->format = p->p.format;
    out->width = p->p.width;
    out->height = p->p.height;
    if (av_frame_get_buffer(out, 0) < 0 || av_frame_copy_props(out, in) < 0)
        return TACHY_ERR_NOMEM;
    int ret = sws_scale(p->sws, (const uint8_t *const *)in->data, in->linesize, 0, in->height,
                        out->data, out->linesize);
    if (ret < 0)
        return tachy_fail(p->p.log, TACHY_ERR_EXTERNAL, "FFmpeg's swscale failed on a %s picture",
                          av_get_pix_fmt_name(in->format));
    return TACHY_OK;
}

// True if the picture is already as wanted; an unspecified wanted range or matrix matches any.
static bool fits(const tachy_pixels *p, const AVFrame *in, struct tachy_color color)
{
    const struct tachy_color want = p->p.color;
    color = tachy_pixels_resolve(color, in->format, in->width, in->height);
    bool matrix = want.matrix == 0 || want.matrix == 2 || want.matrix == color.matrix ||
                  is_gray(in->format) || is_rgb(in->format);
    return in->width == p->p.width && in->height == p->p.height && matrix &&
           (!want.range || want.range == color.range);
}

int tachy_pixels_run(tachy_pixels *p, const AVFrame *in, struct tachy_color color, AVFrame **out)
{
    *out = av_frame_alloc();
    if (!*out)
        return TACHY_ERR_NOMEM;
    int err = TACHY_OK;
    bool same = fits(p, in, color);
    if (same && in->format == p->p.format)
        err = av_frame_ref(*out, in) < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
    else if (same && same_luma(in->format, p->p.format))
        err = av_frame_ref(*out, in) < 0 ? TACHY_ERR_NOMEM : add_chroma(p, *out);
    else
        err = convert(p, in, color, *out);
    if (err < 0)
        av_frame_free(out);
    return err;
}
