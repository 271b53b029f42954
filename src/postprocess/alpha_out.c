#include "postprocess/composite_priv.h"

// Mode alpha: the picture with an alpha plane. If the output format holds the decoder's own samples (8-bit 4:2:0 as
// yuva420p, RGB as rgba) they are copied; else they are converted in float and rounded once. Chroma is upsampled
// linearly, at the stream's siting.

enum { ROWS = 6, ALL_ROWS = 8 }; // two rows of three components; two more for chroma on its way

int tachy_alpha_out_prepare(struct tachy_alpha_out *o, const tachy_frame *f, enum tachy_pix to)
{
    o->from = f->format;
    o->to = to;
    o->in_color = tachy_color_resolve(f->color, f->format, f->width, f->height);
    for (int i = 0; i < 256; i++)
        o->alpha10[i] = (uint16_t)((i * 1023 + 127) / 255);
    return tachy_buf_need(&o->rows, ((size_t)f->width + 1) * ALL_ROWS * sizeof(float))
               ? TACHY_OK
               : TACHY_ERR_NOMEM;
}

void tachy_alpha_out_free(struct tachy_alpha_out *o) { tachy_buf_free(&o->rows); }

void tachy_samples_row(const tachy_frame *f, int comp, int y, int n, float *dst)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    int plane = d->rgb ? 0 : d->planes == 2 && comp ? 1 : comp, at = 0;
    struct tachy_plane p = tachy_plane_of(d, plane, f->width, f->height);
    while (tachy_component_at(f->format, plane, at) != comp)
        at++;
    const uint8_t *row = f->data[plane] + TACHY_CLAMP(y, 0, p.h - 1) * f->stride[plane];
    const uint16_t *words = (const void *)row;
    int step = p.comps, shift = d->shift;
    if (d->bytes == 1 && step == 1)
        for (int x = 0; x < n; x++)
            dst[x] = (float)row[x];
    else if (d->bytes == 1 && step == 2)
        for (int x = 0; x < n; x++)
            dst[x] = (float)row[2 * x + at];
    else if (d->bytes == 2)
        for (int x = 0; x < n; x++)
            dst[x] = (float)(words[x * step + at] >> shift & 1023);
    else
        for (int x = 0; x < n; x++)
            dst[x] = (float)row[x * step + at];
}

// Chroma of row y of the picture at full size; `tmp`: two rows.
static void load_chroma(const struct tachy_alpha_out *o, const tachy_frame *f, int comp, int y,
                        float *dst, float *tmp)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(o->from);
    int loc = o->in_color.chroma_loc, sy = d->chroma_shift_y, n = (f->width + 1) / 2;
    bool centre = loc == 2 || loc == 4, top = loc == 3 || loc == 4;
    float *near = tmp, *other = tmp + n, wy = 0;
    tachy_samples_row(f, comp, y >> sy, n, near);
    if (sy && !top) { // between two luma rows: 3/4 of the near one, 1/4 of the other
        tachy_samples_row(f, comp, (y >> sy) + (y & 1 ? 1 : -1), n, other);
        wy = 0.25f;
    } else if (sy && y & 1) {
        tachy_samples_row(f, comp, (y >> sy) + 1, n, other);
        wy = 0.5f;
    }
    for (int x = 0; wy > 0 && x < n; x++)
        near[x] = near[x] * (1 - wy) + other[x] * wy;
    // Weight of the other sample: that on the left for even pixels, on the right for odd ones.
    float even = centre ? 0.25f : 0, odd = centre ? 0.25f : 0.5f;
    for (int c = 0; c < f->width / 2; c++) {
        float v = near[c], left = near[TACHY_MAX(c - 1, 0)], right = near[TACHY_MIN(c + 1, n - 1)];
        dst[2 * c] = v * (1 - even) + left * even;
        dst[2 * c + 1] = v * (1 - odd) + right * odd;
    }
    if (f->width & 1)
        dst[f->width - 1] = near[n - 1] * (1 - even) + near[TACHY_MAX(n - 2, 0)] * even;
}

struct tachy_range tachy_alpha_range(const struct tachy_pix_desc *d, bool full, bool chroma)
{
    float max = (float)((1 << d->bits) - 1), unit = (float)(1 << (d->bits - 8));
    if (d->rgb || (full && !chroma))
        return (struct tachy_range){max, 0, max};
    if (full)
        return (struct tachy_range){max, 128 * unit, max};
    return (struct tachy_range){(chroma ? 224.0f : 219.0f) * unit, (chroma ? 128.0f : 16.0f) * unit, max};
}

struct tachy_yuv_to_rgb tachy_yuv_to_rgb(int matrix)
{
    double kr, kb;
    tachy_matrix_weights(matrix, &kr, &kb);
    float rv = (float)(2 * (1 - kr)), bu = (float)(2 * (1 - kb)), kg = (float)(1 - kr - kb);
    return (struct tachy_yuv_to_rgb){rv, (float)kb * bu / kg, (float)kr * rv / kg, bu};
}

// Three rows of row y at full size, as 0..1 and -0.5..0.5; grey: chroma 0.
static void load_row(const struct tachy_alpha_out *o, const tachy_frame *f, int y, float *row[3])
{
    const struct tachy_pix_desc *d = tachy_pix_desc(o->from);
    bool full = o->in_color.range == 2;
    for (int c = 0; c < 3; c++) {
        bool chroma = c > 0 && !d->rgb;
        if (chroma && d->planes == 1) {
            memset(row[c], 0, (size_t)f->width * sizeof(float));
            continue;
        }
        if (chroma && d->chroma_shift_x)
            load_chroma(o, f, c, y, row[c], (float *)o->rows.p + (ptrdiff_t)ROWS * f->width);
        else
            tachy_samples_row(f, c, y, f->width, row[c]);
        struct tachy_range r = tachy_alpha_range(d, full, chroma);
        float inverse = 1.0f / r.scale;
        for (int x = 0; x < f->width; x++)
            row[c][x] = (row[c][x] - r.offset) * inverse;
    }
}

static void yuv_to_rgb(const struct tachy_alpha_out *o, float *row[3], int n)
{
    struct tachy_yuv_to_rgb m = tachy_yuv_to_rgb(o->in_color.matrix);
    for (int x = 0; x < n; x++) {
        float y = row[0][x], u = row[1][x], v = row[2][x];
        row[0][x] = y + m.rv * v;
        row[1][x] = y - m.gu * u - m.gv * v;
        row[2][x] = y + m.bu * u;
    }
}

// RGB pictures become BT.709.
static void rgb_to_yuv(float *row[3], int n)
{
    double kr, kb;
    tachy_matrix_weights(1, &kr, &kb);
    float fr = (float)kr, fb = (float)kb, fg = 1 - fr - fb;
    for (int x = 0; x < n; x++) {
        float r = row[0][x], g = row[1][x], b = row[2][x], y = fr * r + fg * g + fb * b;
        row[0][x] = y;
        row[1][x] = (b - y) / (2 * (1 - fb));
        row[2][x] = (r - y) / (2 * (1 - fr));
    }
}

static int quantise(float v, struct tachy_range r)
{
    v = v * r.scale + r.offset;
    v = v > 0 ? v : 0;
    v = v < r.max ? v : r.max;
    return (int)(v + 0.5f);
}

static void store8(uint8_t *restrict dst, const float *restrict v, int n, struct tachy_range r)
{
    for (int x = 0; x < n; x++)
        dst[x] = (uint8_t)quantise(v[x], r);
}

static void store16(uint8_t *dst, const float *restrict v, int n, struct tachy_range r)
{
    uint16_t *restrict d = (void *)dst;
    for (int x = 0; x < n; x++)
        d[x] = (uint16_t)quantise(v[x], r);
}

// Chroma of 4:2:0 from one or two rows at full size: the mean of the pixels it covers.
static void store_chroma420(uint8_t *dst, const float *a, const float *b, int w, struct tachy_range r)
{
    for (int x = 0; x < (w + 1) / 2; x++) {
        int p = 2 * x, q = TACHY_MIN(p + 1, w - 1);
        dst[x] = (uint8_t)quantise((a[p] + a[q] + b[p] + b[q]) * 0.25f, r);
    }
}

// 8-bit 4:2:0: the decoder's own samples.
static bool copies_420(enum tachy_pix f)
{
    return f == TACHY_PIX_YUV420P || f == TACHY_PIX_NV12 || f == TACHY_PIX_YUVA420P;
}

static void copy_chroma420(const tachy_frame *f, int y, uint8_t *const dst[4],
                           const ptrdiff_t stride[4])
{
    int n = (f->width + 1) / 2, yc = y / 2;
    uint8_t *u = dst[1] + yc * stride[1], *v = dst[2] + yc * stride[2];
    const uint8_t *s = f->data[1] + yc * f->stride[1];
    if (f->format != TACHY_PIX_NV12) {
        memcpy(u, s, (size_t)n);
        memcpy(v, f->data[2] + yc * f->stride[2], (size_t)n);
        return;
    }
    for (int x = 0; x < n; x++) {
        u[x] = s[2 * x];
        v[x] = s[2 * x + 1];
    }
}

static void rows_420(struct tachy_alpha_out *o, const tachy_frame *f, int y, int rows,
                     float *row[ROWS], const uint8_t *const alpha[2], uint8_t *const dst[4],
                     const ptrdiff_t stride[4])
{
    const struct tachy_pix_desc *d = tachy_pix_desc(o->from), *t = tachy_pix_desc(o->to);
    bool full = o->in_color.range == 2 && !d->rgb, copy = copies_420(o->from);
    for (int i = 0; i < rows; i++) {
        uint8_t *luma = dst[0] + (y + i) * stride[0];
        memcpy(dst[3] + (y + i) * stride[3], alpha[i], (size_t)f->width);
        if (copy) {
            memcpy(luma, f->data[0] + (y + i) * f->stride[0], (size_t)f->width);
            continue;
        }
        load_row(o, f, y + i, row + 3 * i);
        if (d->rgb)
            rgb_to_yuv(row + 3 * i, f->width);
        store8(luma, row[3 * i], f->width, tachy_alpha_range(t, full, false));
    }
    if (copy) {
        copy_chroma420(f, y, dst, stride);
        return;
    }
    struct tachy_range r = tachy_alpha_range(d, full, true), to = tachy_alpha_range(t, full, true);
    for (int c = 1; c < 3; c++) {
        uint8_t *out = dst[c] + y / 2 * stride[c];
        if (d->chroma_shift_x && d->chroma_shift_y) { // 10-bit 4:2:0: only the depth changes
            int n = (f->width + 1) / 2;
            tachy_samples_row(f, c, y / 2, n, row[c]);
            for (int x = 0; x < n; x++)
                row[c][x] = (row[c][x] - r.offset) / r.scale;
            store8(out, row[c], n, to);
        } else {
            store_chroma420(out, row[c], row[c + (rows == 2 ? 3 : 0)], f->width, to);
        }
    }
}

static void row_444(struct tachy_alpha_out *o, const tachy_frame *f, int y, float *row[3],
                    const uint8_t *alpha, uint8_t *const dst[4], const ptrdiff_t stride[4])
{
    const struct tachy_pix_desc *d = tachy_pix_desc(o->from), *t = tachy_pix_desc(o->to);
    bool full = o->in_color.range == 2 && !d->rgb;
    load_row(o, f, y, row);
    if (d->rgb)
        rgb_to_yuv(row, f->width);
    for (int c = 0; c < 3; c++)
        store16(dst[c] + y * stride[c], row[c], f->width, tachy_alpha_range(t, full, c > 0));
    uint16_t *a = (void *)(dst[3] + y * stride[3]);
    for (int x = 0; x < f->width; x++)
        a[x] = o->alpha10[alpha[x]];
}

static void row_rgba(struct tachy_alpha_out *o, const tachy_frame *f, int y, float *row[3],
                     const uint8_t *alpha, uint8_t *dst)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(o->from);
    const uint8_t *in = f->data[0] + y * f->stride[0];
    if (d->rgb) {
        int step = d->components[0], r = o->from == TACHY_PIX_BGRA ? 2 : 0;
        for (int x = 0; x < f->width; x++, in += step, dst += 4) {
            dst[0] = in[r];
            dst[1] = in[1];
            dst[2] = in[2 - r];
            dst[3] = alpha[x];
        }
        return;
    }
    load_row(o, f, y, row);
    yuv_to_rgb(o, row, f->width);
    uint8_t *rgb[3]; // memory of the chroma rows
    for (int c = 0; c < 3; c++) {
        rgb[c] =
            (uint8_t *)((float *)o->rows.p + (ptrdiff_t)ROWS * f->width) + (ptrdiff_t)c * f->width;
        store8(rgb[c], row[c], f->width, tachy_alpha_range(tachy_pix_desc(TACHY_PIX_RGBA), true, false));
    }
    for (int x = 0; x < f->width; x++, dst += 4) {
        dst[0] = rgb[0][x];
        dst[1] = rgb[1][x];
        dst[2] = rgb[2][x];
        dst[3] = alpha[x];
    }
}

void tachy_alpha_out_rows(struct tachy_alpha_out *o, const tachy_frame *f, int y, int rows,
                          const uint8_t *const alpha[2], uint8_t *const dst[4],
                          const ptrdiff_t stride[4])
{
    float *row[ROWS];
    for (int i = 0; i < ROWS; i++)
        row[i] = (float *)o->rows.p + (ptrdiff_t)i * f->width;
    if (o->to == TACHY_PIX_YUVA420P) {
        rows_420(o, f, y, rows, row, alpha, dst, stride);
        return;
    }
    for (int i = 0; i < rows; i++) {
        if (o->to == TACHY_PIX_RGBA)
            row_rgba(o, f, y + i, row, alpha[i], dst[0] + (y + i) * stride[0]);
        else
            row_444(o, f, y + i, row, alpha[i], dst, stride);
    }
}
