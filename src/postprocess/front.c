#include "postprocess/composite_priv.h"

// The person's own colours where alpha is neither 0 nor 255. They are estimated on a grid of every CELLth pixel; each sample
// then takes what its picture says: alpha F + (1 - alpha) B is to be the sample.

enum { CELL = 4, PLANES = 10 }; // pixels; of a cell: image, alpha, foreground, background
// Added to alpha^2 + (1 - alpha)^2: how far a sample trusts the estimate rather than itself.
#define TRUST 0.02f

// Of the n cells of one component: image, foreground, background.
struct cells {
    float *image, *fore, *back;
};

static struct cells cells_of(const struct tachy_front *f, int component)
{
    size_t n = (size_t)f->w * (size_t)f->h, c = (size_t)component;
    float *p = f->planes.p;
    return (struct cells){p + c * n, p + (4 + c) * n, p + (7 + c) * n};
}

static int sample_at(const struct tachy_pix_desc *d, const void *row, int i)
{
    return d->bytes == 2 ? ((const uint16_t *)row)[i] >> d->shift : ((const uint8_t *)row)[i];
}

// The middle sample of each cell, of one component.
static void take(const struct tachy_front *f, const tachy_frame *in, int plane, int i)
{
    const struct tachy_pix_desc *d = f->d;
    struct tachy_plane p = tachy_plane_of(d, plane, in->width, in->height);
    bool chroma = !d->rgb && (plane == 1 || plane == 2);
    int sx = chroma ? d->chroma_shift_x : 0, sy = chroma ? d->chroma_shift_y : 0;
    float *to = cells_of(f, tachy_component_at(in->format, plane, i)).image, unit = 1 / f->top;
    for (int y = 0; y < f->h; y++) {
        const uint8_t *row = in->data[plane] + TACHY_MIN((y * CELL + CELL / 2) >> sy, p.h - 1) * in->stride[plane];
        for (int x = 0; x < f->w; x++, to++) {
            int at = TACHY_MIN((x * CELL + CELL / 2) >> sx, p.w - 1);
            *to = (float)sample_at(d, row, at * p.comps + i) * unit;
        }
    }
}

static void take_alpha(const struct tachy_front *f, const tachy_frame *in, const uint8_t *alpha, ptrdiff_t stride)
{
    float *to = cells_of(f, 3).image;
    for (int y = 0; y < f->h; y++) {
        const uint8_t *row = alpha + TACHY_MIN(y * CELL + CELL / 2, in->height - 1) * stride;
        for (int x = 0; x < f->w; x++)
            *to++ = (float)row[TACHY_MIN(x * CELL + CELL / 2, in->width - 1)] / 255;
    }
}

// Fills the cells with what is estimated.
static int estimate(struct tachy_front *f, const tachy_frame *in, const uint8_t *alpha, ptrdiff_t stride)
{
    f->w = (in->width + CELL - 1) / CELL;
    f->h = (in->height + CELL - 1) / CELL;
    size_t n = (size_t)f->w * (size_t)f->h;
    if (!tachy_buf_need(&f->planes, PLANES * n * sizeof(float)))
        return TACHY_ERR_NOMEM;
    f->top = (float)((1 << f->d->bits) - 1);
    for (int i = 0; i < 256; i++) {
        float a = (float)i / 255;
        f->gain[i] = a / (a * a + (1 - a) * (1 - a) + TRUST);
    }
    memset(f->planes.p, 0, 3 * n * sizeof(float)); // grey has one component
    for (int p = 0; p < f->d->planes; p++)
        for (int i = 0; i < f->d->components[p]; i++)
            if (tachy_component_at(in->format, p, i) < 3)
                take(f, in, p, i);
    take_alpha(f, in, alpha, stride);
    return tachy_foreground_estimate(&f->solver, cells_of(f, 0).fore, cells_of(f, 0).back, cells_of(f, 0).image,
                                     cells_of(f, 3).image, f->w, f->h);
}

// Pixels from x0 on, at most n, that are all background or all person.
static int plain(const uint8_t *alpha, int x0, int n)
{
    int x = x0;
    while (x < n && (alpha[x] == 0 || alpha[x] == 255)) {
        uint64_t eight = 1;
        if (x + 8 <= n)
            memcpy(&eight, alpha + x, sizeof(eight));
        x += eight == 0 || eight == UINT64_MAX ? 8 : 1;
    }
    return x - x0;
}

// The samples of pixel x, from->to, of components whose cells are c[], NULL for alpha. `cell`: the pixel's.
static inline void own(const struct tachy_front *f, const struct cells c[], int comps, const void *from, void *to, int x,
                       size_t cell, int alpha)
{
    float top = f->top, a = (float)alpha * (1.0f / 255), gain = f->gain[alpha];
    for (int i = 0; i < comps; i++) {
        int at = x * comps + i;
        if (!c[i].image)
            continue;
        float fore = c[i].fore[cell] * top, back = c[i].back[cell] * top;
        float v = fore + gain * ((float)sample_at(f->d, from, at) - a * fore - (1 - a) * back);
        int code = (int)(TACHY_CLAMP(v, 0.f, top) + 0.5f);
        if (f->d->bytes == 2)
            ((uint16_t *)to)[at] = (uint16_t)(code << f->d->shift);
        else
            ((uint8_t *)to)[at] = (uint8_t)code;
    }
}

// Replaces what is soft in row y of a plane, which is a copy so far.
static void own_row(const struct tachy_front *f, const tachy_frame *in, int plane, int y, const uint8_t *alpha)
{
    const struct tachy_pix_desc *d = f->d;
    struct tachy_plane p = tachy_plane_of(d, plane, in->width, in->height);
    bool chroma = !d->rgb && (plane == 1 || plane == 2);
    int sx = chroma ? d->chroma_shift_x : 0, sy = chroma ? d->chroma_shift_y : 0;
    struct cells c[4] = {{0}};
    size_t row = (size_t)((y << sy) / CELL) * (size_t)f->w;
    for (int i = 0; i < p.comps; i++)
        if (tachy_component_at(in->format, plane, i) < 3)
            c[i] = cells_of(f, tachy_component_at(in->format, plane, i));
    for (int x = plain(alpha, 0, p.w); x < p.w; x++, x += plain(alpha, x, p.w))
        own(f, c, p.comps, in->data[plane] + y * in->stride[plane], f->data[plane] + y * f->frame.stride[plane], x,
            row + (size_t)((x << sx) / CELL), alpha[x]);
}

const uint8_t *tachy_front_alpha(struct tachy_front *f, int plane, int y, const uint8_t *alpha, ptrdiff_t stride)
{
    struct tachy_plane p = tachy_plane_of(f->d, plane, f->frame.width, f->frame.height);
    if (!p.chroma)
        return alpha + y * stride;
    int first = y << f->d->chroma_shift_y, last = TACHY_MIN(((y + 1) << f->d->chroma_shift_y) - 1, f->frame.height - 1);
    f->k->halve(f->row.p, alpha + first * stride, alpha + last * stride, p.w);
    return f->row.p;
}

// A picture like `in`, whose rows lie one after another.
static int lay_out(struct tachy_front *f, const tachy_frame *in)
{
    size_t bytes[4] = {0}, all = 0;
    for (int p = 0; p < f->d->planes; p++) {
        struct tachy_plane g = tachy_plane_of(f->d, p, in->width, in->height);
        f->frame.stride[p] = (ptrdiff_t)TACHY_ALIGN((size_t)g.w * (size_t)g.comps * f->d->bytes, (size_t)64);
        bytes[p] = (size_t)f->frame.stride[p] * (size_t)g.h;
        all += bytes[p];
    }
    if (!tachy_buf_need(&f->samples, all + 64) || !tachy_buf_need(&f->row, (size_t)in->width + 64))
        return TACHY_ERR_NOMEM;
    uint8_t *next = f->samples.p;
    for (int p = 0; p < f->d->planes; next += bytes[p++])
        f->frame.data[p] = f->data[p] = next;
    return TACHY_OK;
}

int tachy_front_make(struct tachy_front *f, const tachy_frame *in, uint8_t *alpha, ptrdiff_t stride, bool estimated,
                     const struct tachy_ycbcr *spill)
{
    f->d = tachy_pix_desc(in->format);
    f->frame = (tachy_frame){.format = in->format, .width = in->width, .height = in->height, .color = in->color};
    int err = lay_out(f, in);
    for (int y = 0; y < in->height; y++)
        alpha[y * stride + in->width] = alpha[y * stride + in->width - 1]; // of an odd width's last pixel of chroma
    if (err == TACHY_OK && estimated)
        err = estimate(f, in, alpha, stride);
    if (err < 0)
        return err;
    for (int p = 0; p < f->d->planes; p++) {
        struct tachy_plane g = tachy_plane_of(f->d, p, in->width, in->height);
        for (int y = 0; y < g.h; y++) {
            memcpy(f->data[p] + y * f->frame.stride[p], in->data[p] + y * in->stride[p],
                   (size_t)g.w * (size_t)g.comps * f->d->bytes);
            if (estimated && tachy_component_at(in->format, p, 0) != 3)
                own_row(f, in, p, y, tachy_front_alpha(f, p, y, alpha, stride));
        }
    }
    return spill ? tachy_despill(f, spill, alpha, stride) : TACHY_OK;
}

void tachy_front_free(struct tachy_front *f)
{
    tachy_foreground_free(&f->solver);
    tachy_buf_free(&f->planes);
    tachy_buf_free(&f->row);
    tachy_buf_free(&f->samples);
    tachy_buf_free(&f->near);
}
