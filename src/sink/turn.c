#include "sink/turn.h"

#include <libavutil/pixdesc.h>

bool tachy_turn_takes(enum AVPixelFormat f, int rotation)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f);
    bool planar = d->flags & AV_PIX_FMT_FLAG_PLANAR;
    bool chroma = d->log2_chroma_w || d->log2_chroma_h;
    if (d->flags & (AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_HWACCEL |
                    AV_PIX_FMT_FLAG_BAYER))
        return false;
    if (chroma && !planar) // two pixels share their chroma
        return false;
    return rotation % 180 == 0 || d->log2_chroma_w == d->log2_chroma_h;
}

// Position of the output's first pixel in the input, and the distances (in bytes) of one step right and one step down.
struct walk {
    const uint8_t *start;
    ptrdiff_t right, down;
    int width, height; // of the output
};

static struct walk make_walk(const uint8_t *data, ptrdiff_t stride, int px, int w, int h,
                             int rotation, bool flipped)
{
    ptrdiff_t x = px; // one step right in the mirrored input
    if (flipped) {
        data += (ptrdiff_t)(w - 1) * px;
        x = -x;
    }
    switch (rotation) {
    case 90:
        return (struct walk){data + (h - 1) * stride, -stride, x, h, w};
    case 180:
        return (struct walk){data + (h - 1) * stride + (w - 1) * x, -x, -stride, w, h};
    case 270:
        return (struct walk){data + (w - 1) * x, stride, -x, h, w};
    default:
        return (struct walk){data, x, stride, w, h};
    }
}

// `px` is a constant at each call, so that the copy is one move.
static inline void copy_pixels(struct walk k, uint8_t *out, ptrdiff_t stride, size_t px)
{
    for (int y = 0; y < k.height; y++, out += stride) {
        const uint8_t *from = k.start + y * k.down;
        for (int x = 0; x < k.width; x++, from += k.right)
            memcpy(out + (size_t)x * px, from, px);
    }
}

static void turn_plane(struct walk k, uint8_t *out, ptrdiff_t stride, int px)
{
    switch (px) {
    case 1:
        return copy_pixels(k, out, stride, 1);
    case 2:
        return copy_pixels(k, out, stride, 2);
    case 3:
        return copy_pixels(k, out, stride, 3);
    case 4:
        return copy_pixels(k, out, stride, 4);
    default:
        return copy_pixels(k, out, stride, (size_t)px);
    }
}

// Bytes from one sample of a plane to the next.
static int plane_step(const AVPixFmtDescriptor *d, int plane)
{
    for (int i = 0; i < d->nb_components; i++)
        if (d->comp[i].plane == plane)
            return d->comp[i].step;
    return 0;
}

int tachy_turn(const AVFrame *in, int rotation, bool flipped, AVFrame **out)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(in->format);
    bool quarter = rotation % 180 != 0;
    AVFrame *f = *out = av_frame_alloc();
    if (!f)
        return TACHY_ERR_NOMEM;
    f->format = in->format;
    f->width = quarter ? in->height : in->width;
    f->height = quarter ? in->width : in->height;
    if (av_frame_get_buffer(f, 0) < 0 || av_frame_copy_props(f, in) < 0) {
        av_frame_free(out);
        return TACHY_ERR_NOMEM;
    }
    for (int i = 0; i < av_pix_fmt_count_planes(in->format); i++) {
        bool chroma = !(d->flags & AV_PIX_FMT_FLAG_RGB) && (i == 1 || i == 2) && d->nb_components >= 3;
        int w = chroma ? AV_CEIL_RSHIFT(in->width, d->log2_chroma_w) : in->width;
        int h = chroma ? AV_CEIL_RSHIFT(in->height, d->log2_chroma_h) : in->height;
        int px = plane_step(d, i);
        turn_plane(make_walk(in->data[i], in->linesize[i], px, w, h, rotation, flipped), f->data[i],
                   f->linesize[i], px);
    }
    return TACHY_OK;
}
