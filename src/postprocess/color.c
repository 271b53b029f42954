#include "base/ycbcr.h"
#include "postprocess/composite_priv.h"

#include <math.h>

struct tachy_plane tachy_plane_of(const struct tachy_pix_desc *d, int plane, int width, int height)
{
    bool chroma = !d->rgb && (plane == 1 || plane == 2);
    int sx = chroma ? d->chroma_shift_x : 0, sy = chroma ? d->chroma_shift_y : 0;
    return (struct tachy_plane){(width + sx) >> sx, (height + sy) >> sy, d->components[plane],
                                chroma && sx};
}

void tachy_matrix_weights(int matrix, double *kr, double *kb)
{
    tachy_luma_weights(matrix == 10 ? 9 : matrix, kr, kb); // constant luminance: as if it were not
}

static int code(double v, double scale, double offset, int max)
{
    return (int)TACHY_CLAMP(lrint(v * scale + offset), 0, max);
}

void tachy_color_codes(uint32_t rgba, const struct tachy_pix_desc *d, struct tachy_color resolved,
                       int codes[4])
{
    int max = (1 << d->bits) - 1, unit = 1 << (d->bits - 8);
    double c[4];
    for (int i = 0; i < 4; i++)
        c[i] = (double)(rgba >> (24 - 8 * i) & 255) / 255;
    codes[3] = code(c[3], max, 0, max);
    if (d->rgb) {
        for (int i = 0; i < 3; i++)
            codes[i] = code(c[i], max, 0, max);
        return;
    }
    double kr, kb;
    tachy_matrix_weights(resolved.matrix, &kr, &kb);
    double y = kr * c[0] + (1 - kr - kb) * c[1] + kb * c[2];
    bool full = resolved.range == 2;
    double chroma = full ? max : 224 * unit;
    codes[0] = code(y, full ? max : 219 * unit, full ? 0 : 16 * unit, max);
    codes[1] = code((c[2] - y) / (2 * (1 - kb)), chroma, 128 * unit, max);
    codes[2] = code((c[0] - y) / (2 * (1 - kr)), chroma, 128 * unit, max);
}

int tachy_component_at(enum tachy_pix f, int plane, int i)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f);
    if (f == TACHY_PIX_BGRA && i < 3)
        return 2 - i;
    if (d->rgb)
        return i;
    return plane + i;
}

void tachy_blend_row(const struct tachy_post_kernels *k, const struct tachy_pix_desc *d, void *dst,
                     const void *fg, const void *bg, const uint8_t *alpha, int n)
{
    if (d->bytes == 2)
        k->blend16(dst, fg, bg, alpha, d->shift, n);
    else
        k->blend8(dst, fg, bg, alpha, n);
}
