#include "sink/jfif.h"

#include "base/ycbcr.h"
#include "sink/pixels.h"

#include <math.h>

enum { BITS = 16 };

// Each a sum over the source's samples, in units of 2^-BITS of an output's.
struct turn {
    int32_t y_of_y, y_of_u, y_of_v, y_add;
    int32_t u_of_u, u_of_v, v_of_u, v_of_v, chroma_add;
};

static int32_t fixed(double v) { return (int32_t)lrint(v * (1 << BITS)); }

// Grey stays grey, so that chroma needs no luma.
static struct turn make_turn(struct tachy_color from)
{
    const bool full = from.range == AVCOL_RANGE_JPEG;
    const struct tachy_ycbcr_change c = tachy_ycbcr_change_of(from.matrix, AVCOL_SPC_SMPTE170M);
    const struct tachy_ycbcr_codes in = tachy_ycbcr_codes_of(8, full), out = tachy_ycbcr_codes_of(8, true);
    const double luma = out.luma / in.luma, chroma = out.chroma / in.chroma, mixed = out.luma / in.chroma;
    struct turn t = {
        .y_of_y = fixed(luma), .y_of_u = fixed(c.y[0] * mixed), .y_of_v = fixed(c.y[1] * mixed),
        .u_of_u = fixed(c.cb[0] * chroma), .u_of_v = fixed(c.cb[1] * chroma),
        .v_of_u = fixed(c.cr[0] * chroma), .v_of_v = fixed(c.cr[1] * chroma),
        .chroma_add = (128 << BITS) + (1 << (BITS - 1)),
    };
    t.y_add = (1 << (BITS - 1)) - in.black * t.y_of_y;
    return t;
}

static uint8_t clip(int32_t v) { return (uint8_t)TACHY_CLAMP(v >> BITS, 0, 255); }

static void turn_luma(const struct turn *t, const uint8_t *y, const uint8_t *u, const uint8_t *v, uint8_t *out, int width)
{
    for (int x = 0; x < width; x++)
        out[x] = clip(y[x] * t->y_of_y + (u[x / 2] - 128) * t->y_of_u + (v[x / 2] - 128) * t->y_of_v + t->y_add);
}

static void turn_chroma(const struct turn *t, const uint8_t *u, const uint8_t *v, uint8_t *out_u, uint8_t *out_v, int width)
{
    for (int x = 0; x < width; x++) {
        int a = u[x] - 128, b = v[x] - 128;
        out_u[x] = clip(a * t->u_of_u + b * t->u_of_v + t->chroma_add);
        out_v[x] = clip(a * t->v_of_u + b * t->v_of_v + t->chroma_add);
    }
}

static void convert(const struct turn *t, const tachy_frame *f, tachy_frame *to)
{
    uint8_t *const planes[] = {tachy_frame_writable(to, 0), tachy_frame_writable(to, 1), tachy_frame_writable(to, 2)};
    for (int y = 0; y < f->height; y++) {
        const uint8_t *u = f->data[1] + y / 2 * f->stride[1], *v = f->data[2] + y / 2 * f->stride[2];
        turn_luma(t, f->data[0] + y * f->stride[0], u, v, planes[0] + y * to->stride[0], f->width);
        if (y % 2 == 0)
            turn_chroma(t, u, v, planes[1] + y / 2 * to->stride[1], planes[2] + y / 2 * to->stride[2], (f->width + 1) / 2);
    }
}

int tachy_jfif_run(struct tachy_jfif *j, tachy_frame *f, tachy_frame **out)
{
    struct tachy_color from = tachy_pixels_resolve(f->color, tachy_pix_to_av(f->format), f->width, f->height);
    double kr, kb;
    *out = tachy_frame_ref(f);
    if (f->format != TACHY_PIX_YUV420P || !tachy_luma_weights(from.matrix, &kr, &kb))
        return TACHY_OK;
    tachy_frame_unref(out);
    if (j->width != f->width || j->height != f->height)
        tachy_jfif_close(j);
    int err = j->pool ? TACHY_OK : tachy_frame_pool_open(&j->pool, f->format, f->width, f->height);
    if (err == TACHY_OK)
        err = tachy_frame_pool_get(j->pool, out);
    if (err < 0)
        return err;
    j->width = f->width;
    j->height = f->height;
    const struct turn t = make_turn(from);
    convert(&t, f, *out);
    tachy_frame *o = *out;
    o->id = f->id;
    o->pts = f->pts;
    o->duration = f->duration;
    o->color = from;
    o->color.matrix = AVCOL_SPC_SMPTE170M;
    o->color.range = AVCOL_RANGE_JPEG;
    return TACHY_OK;
}

void tachy_jfif_close(struct tachy_jfif *j)
{
    tachy_frame_pool_close(&j->pool);
    *j = (struct tachy_jfif){.pool = NULL};
}
