#include "postprocess/composite_priv.h"

// The person's own colours where alpha is neither 0 nor 255. A network gives them, or they are estimated on a grid of every
// CELLth pixel; each sample then takes what its picture says: alpha F + (1 - alpha) B is to be the sample.

enum { CELL = 4, PLANES = 10 }; // pixels; of a cell: image, alpha, foreground, background
// Added to alpha^2 + (1 - alpha)^2: how far a sample trusts the estimate rather than itself.
#define TRUST 0.02f

// The n cells of one component: image, foreground, background.
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

static inline void put(const struct tachy_front *f, void *to, int at, float v)
{
    int code = (int)(TACHY_CLAMP(v, 0.f, f->top) + 0.5f);
    if (f->d->bytes == 2)
        ((uint16_t *)to)[at] = (uint16_t)(code << f->d->shift);
    else
        ((uint8_t *)to)[at] = (uint8_t)code;
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
        put(f, to, at, v);
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

// ---- What a network gives ----

// Code values of each component for 1/255 of r, g and b.
static void set_mix(struct tachy_front *f, const tachy_frame *in)
{
    double kr, kb;
    struct tachy_color color = tachy_color_resolve(in->color, in->format, in->width, in->height);
    float unit[2];
    for (int i = 0; i < 2; i++)
        unit[i] = tachy_alpha_range(f->d, color.range == 2, i).scale / 255;
    memset(f->mix, 0, sizeof(f->mix));
    for (int c = 0; c < 3 && f->d->rgb; c++)
        f->mix[c][c] = f->top / 255;
    if (f->d->rgb)
        return;
    tachy_matrix_weights(color.matrix, &kr, &kb);
    const double y[3] = {kr, 1 - kr - kb, kb};
    for (int c = 0; c < 3; c++) {
        f->mix[0][c] = unit[0] * (float)y[c];
        f->mix[1][c] = unit[1] * (float)(((c == 2) - y[c]) / (2 * (1 - kb)));
        f->mix[2][c] = unit[1] * (float)(((c == 0) - y[c]) / (2 * (1 - kr)));
    }
}

// The values to add to a component along a row of `lines`: three rows of r, g and b, from which a fourth is made.
static const float *mixed(const struct tachy_front *f, const struct tachy_given *g, int component)
{
    const float *rgb = f->lines.p, *m = f->mix[component];
    size_t n = (size_t)g->width + 1;
    float *to = (float *)f->lines.p + 3 * n;
    for (size_t x = 0; x < n; x++)
        to[x] = m[0] * rgb[x] + m[1] * rgb[n + x] + m[2] * rgb[2 * n + x];
    return to;
}

// Adds what is given of the eye to the soft samples of row y of a plane, which is a copy so far.
static void given_row(const struct tachy_front *f, const struct tachy_given *g, int plane, int y, const uint8_t *alpha)
{
    const struct tachy_pix_desc *d = f->d;
    struct tachy_plane p = tachy_plane_of(d, plane, f->frame.width, f->frame.height);
    int sx = p.chroma ? d->chroma_shift_x : 0, sy = p.chroma ? d->chroma_shift_y : 0;
    int first = TACHY_MAX(g->region.x, 0) >> sx, end = TACHY_MIN((g->region.x + g->region.w + (1 << sx) - 1) >> sx, p.w);
    float at_y = ((float)y + 0.5f) * (float)(1 << sy);
    size_t n = (size_t)g->width + 1;
    float *rgb[3] = {f->lines.p, (float *)f->lines.p + n, (float *)f->lines.p + 2 * n};
    int soft = first + plain(alpha, first, end);
    if (at_y < (float)g->region.y || at_y > (float)(g->region.y + g->region.h) || soft >= end)
        return;
    tachy_given_row(g, at_y, rgb);
    uint8_t *to = f->data[plane] + y * f->frame.stride[plane];
    for (int i = 0; i < p.comps; i++) {
        int component = tachy_component_at(f->frame.format, plane, i);
        if (component > 2)
            continue;
        const float *add = mixed(f, g, component);
        for (int x = soft; x < end; x++, x += plain(alpha, x, end))
            put(f, to, x * p.comps + i, (float)sample_at(d, to, x * p.comps + i) +
                                            tachy_given_at(add, g, ((float)x + 0.5f) * (float)(1 << sx)));
    }
}

static int begin_given(struct tachy_front *f, const tachy_frame *in, const struct tachy_front_from *from)
{
    size_t widest = 0;
    for (int i = 0; i < from->nb_given; i++)
        widest = TACHY_MAX(widest, (size_t)from->given[i].width + 1);
    set_mix(f, in);
    return tachy_buf_need(&f->lines, 4 * widest * sizeof(float)) ? TACHY_OK : TACHY_ERR_NOMEM;
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

// Row y of a plane: a copy, with the person's colours at soft edges.
static void make_row(struct tachy_front *f, const tachy_frame *in, int plane, int y, const uint8_t *alpha, ptrdiff_t stride,
                     const struct tachy_front_from *from)
{
    struct tachy_plane g = tachy_plane_of(f->d, plane, in->width, in->height);
    memcpy(f->data[plane] + y * f->frame.stride[plane], in->data[plane] + y * in->stride[plane],
           (size_t)g.w * (size_t)g.comps * f->d->bytes);
    if ((!from->estimated && !from->nb_given) || tachy_component_at(in->format, plane, 0) == 3)
        return;
    const uint8_t *a = tachy_front_alpha(f, plane, y, alpha, stride);
    if (from->estimated)
        own_row(f, in, plane, y, a);
    for (int i = 0; i < from->nb_given; i++)
        given_row(f, &from->given[i], plane, y, a);
}

int tachy_front_make(struct tachy_front *f, const tachy_frame *in, uint8_t *alpha, ptrdiff_t stride,
                     const struct tachy_front_from *from)
{
    f->d = tachy_pix_desc(in->format);
    f->top = (float)((1 << f->d->bits) - 1);
    f->frame = (tachy_frame){.format = in->format, .width = in->width, .height = in->height, .color = in->color};
    int err = lay_out(f, in);
    for (int y = 0; y < in->height; y++)
        alpha[y * stride + in->width] = alpha[y * stride + in->width - 1]; // of an odd width's last pixel of chroma
    if (err == TACHY_OK && from->estimated)
        err = estimate(f, in, alpha, stride);
    if (err == TACHY_OK && from->nb_given)
        err = begin_given(f, in, from);
    if (err < 0)
        return err;
    for (int p = 0; p < f->d->planes; p++)
        for (int y = 0; y < tachy_plane_of(f->d, p, in->width, in->height).h; y++)
            make_row(f, in, p, y, alpha, stride, from);
    return from->spill ? tachy_despill(f, from->spill, alpha, stride) : TACHY_OK;
}

void tachy_front_free(struct tachy_front *f)
{
    tachy_foreground_free(&f->solver);
    tachy_buf_free(&f->planes);
    tachy_buf_free(&f->row);
    tachy_buf_free(&f->samples);
    tachy_buf_free(&f->near);
    tachy_buf_free(&f->lines);
}
