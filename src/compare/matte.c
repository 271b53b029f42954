#include "compare/matte.h"

#include "base/base.h"
#include "base/ycbcr.h"

#include <stdlib.h>

// Which samples of a plane hold alpha, and which codes are 0 and 1.
struct where {
    const uint8_t *data;
    ptrdiff_t stride;
    int bytes, shift;
    int step, count; // samples from pixel to pixel; how many are averaged
    double black, span;
};

static struct where where_of(const tachy_frame *f, const struct tachy_pix_desc *d)
{
    int plane = d->alpha ? d->planes - 1 : 0;
    int components = d->components[plane];
    struct where w = {.data = f->data[plane], .stride = f->stride[plane], .bytes = d->bytes, .shift = d->shift,
                      .step = components, .count = 1, .span = (1 << d->bits) - 1};
    if (d->alpha) {
        w.data += (components - 1) * d->bytes; // the last one in RGBA and BGRA
    } else if (d->rgb) {
        w.count = components;
    } else {
        struct tachy_color c = tachy_color_resolve(f->color, f->format, f->width, f->height);
        struct tachy_ycbcr_codes codes = tachy_ycbcr_codes_of(d->bits, c.range == 2);
        w.black = codes.black;
        w.span = codes.luma;
    }
    return w;
}

static void read_row(float *to, const struct where *w, int y, int width)
{
    const uint8_t *row = w->data + y * w->stride;
    float scale = (float)(1 / (w->span * w->count));
    for (int x = 0; x < width; x++) {
        int sum = 0;
        for (int i = 0; i < w->count; i++) {
            int at = x * w->step + i;
            sum += (w->bytes == 1 ? row[at] : ((const uint16_t *)(const void *)row)[at]) >> w->shift;
        }
        float v = (float)(sum - w->count * w->black) * scale;
        to[x] = TACHY_CLAMP(v, 0.f, 1.f);
    }
}

int tachy_matte_of_frame(struct tachy_matte *m, const tachy_frame *f)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    if (!d || f->mem == TACHY_DEVICE)
        return TACHY_ERR_UNSUPPORTED;
    if (!m->alpha || m->width != f->width || m->height != f->height) {
        tachy_matte_free(m);
        m->alpha = malloc((size_t)f->width * (size_t)f->height * sizeof(float));
        if (!m->alpha)
            return TACHY_ERR_NOMEM;
        m->width = f->width;
        m->height = f->height;
    }
    struct where w = where_of(f, d);
    for (int y = 0; y < f->height; y++)
        read_row(m->alpha + (size_t)y * (size_t)f->width, &w, y, f->width);
    return TACHY_OK;
}

void tachy_matte_free(struct tachy_matte *m)
{
    free(m->alpha);
    *m = (struct tachy_matte){0};
}
