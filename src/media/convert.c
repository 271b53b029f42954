#include "media/convert.h"

#include "base/ycbcr.h"
#include "media/recode.h"

#include <libswscale/swscale.h>
#include <stdlib.h>

struct tachy_convert {
    struct SwsContext *sws;
};

static int colorspace_of(struct tachy_color c)
{
    return c.matrix == 9 ? SWS_CS_BT2020 : c.matrix == 1 ? SWS_CS_ITU709 : SWS_CS_ITU601;
}

static int scale(struct tachy_convert *c, const tachy_frame *f, const struct tachy_color resolved[2], tachy_frame *to,
                 const struct tachy_log *log)
{
    c->sws = sws_getCachedContext(c->sws, f->width, f->height, tachy_pix_to_av(f->format), to->width, to->height,
                                  tachy_pix_to_av(to->format), SWS_AREA | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT, NULL,
                                  NULL, NULL);
    if (!c->sws)
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "libswscale cannot turn %s %dx%d into %s %dx%d",
                          tachy_pix_desc(f->format)->name, f->width, f->height, tachy_pix_desc(to->format)->name,
                          to->width, to->height);
    sws_setColorspaceDetails(c->sws, sws_getCoefficients(colorspace_of(resolved[0])), resolved[0].range == 2,
                             sws_getCoefficients(colorspace_of(resolved[1])), resolved[1].range == 2, 0, 1 << 16, 1 << 16);
    uint8_t *dst[4] = {0};
    int dst_stride[4] = {0}, src_stride[4] = {0};
    for (int i = 0; i < 4; i++) {
        dst[i] = tachy_frame_writable(to, i);
        dst_stride[i] = (int)to->stride[i];
        src_stride[i] = (int)f->stride[i];
    }
    sws_scale(c->sws, f->data, src_stride, 0, f->height, dst, dst_stride);
    return TACHY_OK;
}

static bool has_chroma(enum tachy_pix format)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    return !d->rgb && d->planes > 1;
}

// Where to recode: luma needs chroma at each pixel, so it is done on the picture that has more of it.
static bool recode_first(const tachy_frame *from, const tachy_frame *to)
{
    bool whole = !tachy_pix_desc(from->format)->chroma_shift_x, all = !tachy_pix_desc(to->format)->chroma_shift_x;
    return whole || (!all && (int64_t)from->width * from->height > (int64_t)to->width * to->height);
}

static int new_frame(tachy_frame **out, const tachy_frame *like, const struct tachy_convert_to *to)
{
    return tachy_frame_new(out, &(struct tachy_frame_params){.format = to->format, .width = to->width,
                                                             .height = to->height, .color = to->color, .pts = like->pts,
                                                             .duration = like->duration});
}

// libswscale sees one matrix and range.
static int recode_and_scale(struct tachy_convert *c, const tachy_frame *f, const struct tachy_color color[2],
                            tachy_frame *to, const struct tachy_log *log)
{
    bool first = recode_first(f, to);
    struct tachy_color kept[2] = {color[first ? 1 : 0], color[first ? 1 : 0]};
    tachy_frame *recoded = NULL;
    int err = first ? new_frame(&recoded, f, &(struct tachy_convert_to){f->format, f->width, f->height, f->color}) : TACHY_OK;
    if (err == TACHY_OK && first)
        err = tachy_recode_frame(f, recoded, color[0], color[1]);
    if (err == TACHY_OK)
        err = scale(c, first ? recoded : f, kept, to, log);
    if (err == TACHY_OK && !first)
        err = tachy_recode_frame(to, to, color[0], color[1]);
    tachy_frame_unref(&recoded);
    return err;
}

int tachy_convert_frame(struct tachy_convert **c, const tachy_frame *f, const struct tachy_convert_to *to,
                        tachy_frame **out, const struct tachy_log *log)
{
    *out = NULL;
    int err = tachy_frame_need_host(f, log, "libswscale");
    if (err < 0)
        return err;
    if (!*c && !(*c = calloc(1, sizeof(**c))))
        return TACHY_ERR_NOMEM;
    tachy_frame *n;
    err = new_frame(&n, f, to);
    if (err < 0)
        return err;
    struct tachy_color color[2] = {tachy_color_resolve(f->color, f->format, f->width, f->height),
                                   tachy_color_resolve(to->color, to->format, to->width, to->height)};
    bool same = tachy_same_matrix(color[0].matrix, color[1].matrix) && color[0].range == color[1].range;
    bool recode = !same && has_chroma(f->format) && has_chroma(to->format);
    err = recode ? recode_and_scale(*c, f, color, n, log) : scale(*c, f, color, n, log);
    n->id = f->id;
    n->key = f->key;
    n->discontinuity = f->discontinuity;
    if (err < 0)
        tachy_frame_unref(&n);
    *out = n;
    return err;
}

void tachy_convert_close(struct tachy_convert **c)
{
    if (*c)
        sws_freeContext((*c)->sws);
    free(*c);
    *c = NULL;
}
