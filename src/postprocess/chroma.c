#include "postprocess/chroma.h"

#include "postprocess/composite_priv.h"

struct tachy_ycbcr tachy_ycbcr(const double rgb[3], int matrix)
{
    double kr, kb;
    tachy_matrix_weights(matrix, &kr, &kb);
    double y = kr * rgb[0] + (1 - kr - kb) * rgb[1] + kb * rgb[2];
    return (struct tachy_ycbcr){(float)y, (float)((rgb[2] - y) / (2 * (1 - kb))), (float)((rgb[0] - y) / (2 * (1 - kr)))};
}

int tachy_chroma_matrix(const tachy_frame *f)
{
    return tachy_pix_desc(f->format)->rgb ? 1 : tachy_color_resolve(f->color, f->format, f->width, f->height).matrix;
}

struct tachy_chroma_site tachy_chroma_site(const tachy_frame *f)
{
    int loc = tachy_color_resolve(f->color, f->format, f->width, f->height).chroma_loc;
    return (struct tachy_chroma_site){.centre = loc == 2 || loc == 4, .top = loc == 3 || loc == 4};
}

struct tachy_plane tachy_chroma_plane(const tachy_frame *f)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    return tachy_plane_of(d, d->planes > 1 ? 1 : 0, f->width, f->height);
}

static void to_unit(float *v, const struct tachy_pix_desc *d, bool full, bool chroma, int n)
{
    struct tachy_range r = tachy_alpha_range(d, full, chroma);
    float inverse = 1.0f / r.scale;
    for (int x = 0; x < n; x++)
        v[x] = (v[x] - r.offset) * inverse;
}

static bool is_full(const tachy_frame *f) { return tachy_color_resolve(f->color, f->format, f->width, f->height).range == 2; }

void tachy_unit_luma_row(const tachy_frame *f, int y, float *dst)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    tachy_luma_row(dst, f, 0, y, f->width);
    struct tachy_range r = d->rgb ? (struct tachy_range){255, 0, 255} : tachy_alpha_range(d, is_full(f), false);
    float unit = d->bits > 8 ? 0.25f : 1, inverse = 1 / (r.scale * unit); // tachy_luma_row() gives 0..255
    for (int x = 0; x < f->width; x++)
        dst[x] = (dst[x] - r.offset * unit) * inverse;
}

void tachy_unit_chroma_row(const tachy_frame *f, int y, float *u, float *v, float *scratch)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    int n = tachy_chroma_plane(f).w;
    if (!d->rgb && d->planes == 1) { // grey
        memset(u, 0, (size_t)n * sizeof(float));
        memset(v, 0, (size_t)n * sizeof(float));
        return;
    }
    tachy_samples_row(f, d->rgb ? 0 : 1, y, n, u);
    tachy_samples_row(f, d->rgb ? 1 : 2, y, n, v);
    if (!d->rgb) {
        bool full = is_full(f);
        to_unit(u, d, full, true, n);
        to_unit(v, d, full, true, n);
        return;
    }
    tachy_samples_row(f, 2, y, n, scratch);
    for (int x = 0; x < n; x++) {
        double rgb[3] = {(double)u[x] / 255, (double)v[x] / 255, (double)scratch[x] / 255};
        struct tachy_ycbcr c = tachy_ycbcr(rgb, 1);
        u[x] = c.u;
        v[x] = c.v;
    }
}

void tachy_chroma_widen(float *restrict dst, float *restrict src, int width, bool centre)
{
    int n = (width + 1) / 2;
    src[-1] = src[0];
    src[n] = src[n - 1];
    float even = centre ? 0.25f : 0, odd = centre ? 0.25f : 0.5f;
    for (int x = 0; x < width / 2; x++) {
        float v = src[x];
        dst[2 * x] = v + (src[x - 1] - v) * even;
        dst[2 * x + 1] = v + (src[x + 1] - v) * odd;
    }
    if (width & 1)
        dst[width - 1] = src[n - 1] + (src[n - 2] - src[n - 1]) * even;
}
