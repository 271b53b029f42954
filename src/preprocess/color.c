#include "base/ycbcr.h"
#include "preprocess/plan.h"
#include "preprocess/tone.h"

#include <math.h>

// Lines in 8-bit code units to numbers: (v - black) * scale; chroma (v - 128) * chroma_scale
// (H.273 eq. 38..43; for 10 bit the full range ends at 1023 / 4).
struct range {
    double black, scale, chroma_scale;
};

static struct range code_range(const struct tachy_pix_desc *d, struct tachy_color c)
{
    if (c.range == 1)
        return (struct range){16, 1.0 / 219, 1.0 / 224};
    double top = ((1 << d->bits) - 1) / (double)(1 << (d->bits - 8));
    return (struct range){0, 1 / top, 1 / top};
}

// rows: R, G, B, Y over the lines; columns 0..2 factors, 3 offset.
static void rgb_rows(double m[4][4], const struct range *r, enum tachy_pix format)
{
    const double y709[3] = {0.2126, 0.7152, 0.0722};
    for (int c = 0; c < 3; c++) {
        int line = format == TACHY_PIX_BGRA ? 2 - c : c;
        m[c][line] = r->scale;
        m[c][3] = -r->black * r->scale;
        m[3][line] = y709[c] * r->scale;
    }
    m[3][3] = -r->black * r->scale;
}

static void yuv_rows(double m[4][4], const struct range *r, double kr, double kb)
{
    double kg = 1 - kr - kb;
    const double cb[4] = {0, -2 * kb * (1 - kb) / kg, 2 * (1 - kb), 0};
    const double cr[4] = {2 * (1 - kr), -2 * kr * (1 - kr) / kg, 0, 0};
    for (int c = 0; c < 4; c++) {
        m[c][0] = r->scale;
        m[c][1] = cb[c] * r->chroma_scale;
        m[c][2] = cr[c] * r->chroma_scale;
        m[c][3] = -r->black * r->scale - 128 * (m[c][1] + m[c][2]);
    }
}

static void gray_rows(double m[4][4], const struct range *r)
{
    for (int c = 0; c < 4; c++) {
        m[c][0] = r->scale;
        m[c][3] = -r->black * r->scale;
    }
}

// Channel c of the tensor takes row order[c] of m.
static void fill_finish(struct tachy_pre_finish *f, const struct tachy_preprocess_params *p,
                        double m[4][4], const int *order)
{
    double scale = TACHY_DEF((double)p->scale, 1.0);
    for (int c = 0; c < f->channels; c++) {
        double std = TACHY_DEF((double)p->std[c], 1.0);
        double gain = 255 * scale / std, shift = -(double)p->mean[c] / std;
        for (int k = 0; k < 3; k++)
            f->m[c][k] = (float)(m[order[c]][k] * gain);
        f->off[c] = (float)(m[order[c]][3] * gain + shift);
        double lo = fmin(shift, shift + gain), hi = fmax(shift, shift + gain);
        if (f->dtype == TACHY_U8) {
            lo = TACHY_CLAMP(lo, 0, 255);
            hi = TACHY_CLAMP(hi, 0, 255);
        } else if (f->dtype == TACHY_I8) {
            lo = TACHY_CLAMP(lo, -128, 127);
            hi = TACHY_CLAMP(hi, -128, 127);
        }
        f->lo[c] = (float)lo;
        f->hi[c] = (float)hi;
    }
}

int tachy_pre_color_build(struct tachy_pre_color *out, const struct tachy_preprocess_params *p,
                          enum tachy_pix format, struct tachy_color c)
{
    static const int orders[][3] = {
        [TACHY_RGB] = {0, 1, 2}, [TACHY_BGR] = {2, 1, 0}, [TACHY_LUMA] = {3, 3, 3}};
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    double m[4][4] = {{0}}, kr, kb;
    struct range r = code_range(d, c);
    bool gray = !d->rgb && d->planes == 1;
    if (d->rgb)
        rgb_rows(m, &r, format);
    else if (gray)
        gray_rows(m, &r);
    else if (tachy_luma_weights(c.matrix, &kr, &kb))
        yuv_rows(m, &r, kr, kb);
    else
        return tachy_fail(p->log, TACHY_ERR_UNSUPPORTED,
                          "preprocess: colour matrix %d (ITU-T H.273) is not supported; convert the "
                          "video to BT.709 or BT.2020 non-constant luminance first", c.matrix);

    *out = (struct tachy_pre_color){.hdr = tachy_tone_needed(c)};
    bool luma_only = p->channels == TACHY_LUMA && !d->rgb && !out->hdr;
    out->lines = gray || luma_only ? 1 : 3;
    out->finish = (struct tachy_pre_finish){
        .inputs = out->hdr ? 3 : out->lines,
        .channels = p->channels == TACHY_LUMA ? 1 : 3,
        .dtype = TACHY_DEF(p->dtype, TACHY_F32),
        .planar = p->layout == TACHY_NCHW,
    };
    if (out->hdr) {
        struct tachy_preprocess_params to_rgb = {.scale = 1 / 255.0f};
        out->decode = (struct tachy_pre_finish){
            .inputs = out->lines, .channels = 3, .dtype = TACHY_F32, .planar = true};
        fill_finish(&out->decode, &to_rgb, m, orders[TACHY_RGB]);
        memset(m, 0, sizeof(m));
        rgb_rows(m, &(struct range){.scale = 1}, TACHY_PIX_RGB24);
    }
    fill_finish(&out->finish, p, m, orders[p->channels]);
    return TACHY_OK;
}

void tachy_pre_pad(const struct tachy_preprocess_params *p, bool planar, uint8_t pixel[3][12])
{
    // One pixel through the plain C kernel: in = pad, out = (pad * scale - mean) / std.
    struct tachy_pre_finish f = {.inputs = 1, .dtype = p->dtype, .planar = planar,
                                 .channels = p->channels == TACHY_LUMA ? 1 : 3};
    for (int c = 0; c < f.channels; c++) {
        float std = TACHY_DEF(p->std[c], 1.0f);
        bool u8 = p->dtype == TACHY_U8, i8 = p->dtype == TACHY_I8;
        f.m[c][0] = TACHY_DEF(p->scale, 1.0f) / std;
        f.off[c] = -p->mean[c] / std;
        f.lo[c] = u8 ? 0 : i8 ? -128 : -3e38f;
        f.hi[c] = u8 ? 255 : i8 ? 127 : 3e38f;
    }
    float out[3][3]; // each of 12 bytes
    void *const dst[3] = {out[0], out[1], out[2]};
    tachy_ref_preprocess.finish(&f, (const float *const[3]){&p->pad, &p->pad, &p->pad}, 1, dst);
    memcpy(pixel, out, sizeof(out));
}
