#include "postprocess/alpha.h"

// Luma rows and the luma picture at mask size.

void tachy_luma_row(float *dst, const tachy_frame *f, int x, int y, int n)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    const uint8_t *row = f->data[0] + y * f->stride[0] + (ptrdiff_t)x * d->components[0] * d->bytes;
    if (d->rgb) {
        int step = d->components[0], r = f->format == TACHY_PIX_BGRA ? 2 : 0;
        for (int i = 0; i < n; i++, row += step)
            dst[i] = (float)tachy_luma_rgb(row[r], row[1], row[2 - r]);
    } else if (d->bytes == 2) {
        const uint16_t *words = (const void *)row;
        int shift = d->shift;
        for (int i = 0; i < n; i++)
            dst[i] = (float)(words[i] >> shift & 1023) * 0.25f;
    } else {
        for (int i = 0; i < n; i++)
            dst[i] = (float)row[i];
    }
}

enum { SPAN = 1024 }; // source columns summed at a time, on the stack

// sum[i] += luma of n pixels, in quarters for 10-bit samples.
static void add_row(uint32_t *sum, const tachy_frame *f, const struct tachy_pix_desc *d, int x, int y,
                    int n)
{
    const uint8_t *row = f->data[0] + y * f->stride[0] + (ptrdiff_t)x * d->components[0] * d->bytes;
    if (d->rgb) {
        int step = d->components[0], r = f->format == TACHY_PIX_BGRA ? 2 : 0;
        for (int i = 0; i < n; i++, row += step)
            sum[i] += (uint32_t)tachy_luma_rgb(row[r], row[1], row[2 - r]);
    } else if (d->bytes == 2) {
        const uint16_t *words = (const void *)row;
        int shift = d->shift;
        for (int i = 0; i < n; i++)
            sum[i] += words[i] >> shift & 1023u;
    } else {
        for (int i = 0; i < n; i++)
            sum[i] += row[i];
    }
}

// First source pixel of cell i of n over `size` pixels; cell i ends where i + 1 begins, but
// holds at least one pixel.
static int cell(int i, int n, int size)
{
    return (int)((int64_t)i * size / n);
}

struct span {
    int x0, x1; // source columns
    int y0, y1; // source rows
};

// Means of the cells i0 .. i1 - 1 of a row of cells.
static void cells(const tachy_frame *f, const struct tachy_pix_desc *d, const struct tachy_rect *g,
                  struct span s, int i0, int i1, int width, uint8_t *dst)
{
    uint32_t sum[SPAN];
    int n = s.x1 - s.x0;
    memset(sum, 0, (size_t)n * sizeof(sum[0]));
    for (int y = s.y0; y < s.y1; y++)
        add_row(sum, f, d, g->x + s.x0, g->y + y, n);
    float rows = (float)(s.y1 - s.y0) * (d->bytes == 2 ? 4.0f : 1.0f);
    for (int i = i0; i < i1; i++) {
        int a = cell(i, width, g->w) - s.x0;
        int b = TACHY_MAX(cell(i + 1, width, g->w) - s.x0, a + 1);
        int end = TACHY_MIN(b, n); // a cell wider than SPAN is judged by its beginning
        uint64_t total = 0;
        for (int x = a; x < end; x++)
            total += sum[x];
        float mean = (float)total / (rows * (float)(end - a)); // 10 bits: up to 255.75
        dst[i] = (uint8_t)TACHY_MIN((int)(mean + 0.5f), 255);
    }
}

int tachy_luma_guide(const tachy_frame *f, const struct tachy_rect *region, uint8_t *dst,
                     ptrdiff_t stride, int width, int height)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    struct tachy_rect g = *region;
    if (!d || width < 1 || height < 1 || g.x < 0 || g.y < 0 || g.w < 1 || g.h < 1 ||
        g.x > f->width - g.w || g.y > f->height - g.h)
        return TACHY_ERR_INVAL;
    for (int j = 0; j < height; j++, dst += stride) {
        struct span s = {.y0 = cell(j, height, g.h), .y1 = cell(j + 1, height, g.h)};
        s.y1 = TACHY_MAX(s.y1, s.y0 + 1);
        for (int i = 0; i < width;) {
            int next = i + 1;
            s.x0 = cell(i, width, g.w);
            while (next < width && cell(next + 1, width, g.w) - s.x0 < SPAN)
                next++;
            s.x1 = TACHY_MAX(cell(next, width, g.w), cell(next - 1, width, g.w) + 1);
            s.x1 = TACHY_MIN(s.x1, s.x0 + SPAN);
            cells(f, d, &g, s, i, next, width, dst);
            i = next;
        }
    }
    return TACHY_OK;
}
