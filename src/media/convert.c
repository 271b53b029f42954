#include "media/convert.h"

#include <libswscale/swscale.h>
#include <stdlib.h>

struct tachy_convert {
    struct SwsContext *sws;
};

static int colorspace_of(struct tachy_color c)
{
    return c.matrix == 9 ? SWS_CS_BT2020 : c.matrix == 1 ? SWS_CS_ITU709 : SWS_CS_ITU601;
}

int tachy_convert_frame(struct tachy_convert **c, const tachy_frame *f, enum tachy_pix format,
                        int width, int height, tachy_frame **out, const struct tachy_log *log)
{
    *out = NULL;
    int readable = tachy_frame_need_host(f, log, "libswscale");
    if (readable < 0)
        return readable;
    if (!*c && !(*c = calloc(1, sizeof(**c))))
        return TACHY_ERR_NOMEM;
    struct SwsContext *sws =
        sws_getCachedContext((*c)->sws, f->width, f->height, tachy_pix_to_av(f->format), width,
                             height, tachy_pix_to_av(format),
                             SWS_AREA | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT, NULL, NULL, NULL);
    (*c)->sws = sws;
    if (!sws)
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED,
                          "libswscale cannot turn %s %dx%d into %s %dx%d",
                          tachy_pix_desc(f->format)->name, f->width, f->height,
                          tachy_pix_desc(format)->name, width, height);
    struct tachy_color from = tachy_color_resolve(f->color, f->format, f->width, f->height);
    bool to_rgb = tachy_pix_desc(format)->rgb, from_rgb = tachy_pix_desc(f->format)->rgb;
    struct tachy_color to = from_rgb == to_rgb
                                ? f->color
                                : (struct tachy_color){.matrix = 2, .primaries = 2, .transfer = 2};
    struct tachy_color to_full = tachy_color_resolve(to, format, width, height);
    sws_setColorspaceDetails(sws, sws_getCoefficients(colorspace_of(from)), from.range == 2,
                             sws_getCoefficients(colorspace_of(to_full)), to_full.range == 2, 0,
                             1 << 16, 1 << 16);
    tachy_frame *n;
    int err = tachy_frame_new(&n, &(struct tachy_frame_params){.format = format,
                                                               .width = width,
                                                               .height = height,
                                                               .color = to,
                                                               .pts = f->pts,
                                                               .duration = f->duration});
    if (err < 0)
        return err;
    uint8_t *dst[4] = {0};
    int dst_stride[4] = {0}, src_stride[4] = {0};
    for (int i = 0; i < 4; i++) {
        dst[i] = tachy_frame_writable(n, i);
        dst_stride[i] = (int)n->stride[i];
        src_stride[i] = (int)f->stride[i];
    }
    sws_scale(sws, f->data, src_stride, 0, f->height, dst, dst_stride);
    n->id = f->id;
    n->key = f->key;
    n->discontinuity = f->discontinuity;
    *out = n;
    return TACHY_OK;
}

void tachy_convert_close(struct tachy_convert **c)
{
    if (*c)
        sws_freeContext((*c)->sws);
    free(*c);
    *c = NULL;
}
