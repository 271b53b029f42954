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

// sum[i] += w * luma of n pixels, in quarters for 10-bit samples.
static void add_row(float *sum, const tachy_frame *f, const struct tachy_pix_desc *d, int x, int y,
                    int n, float w)
{
    const uint8_t *row = f->data[0] + y * f->stride[0] + (ptrdiff_t)x * d->components[0] * d->bytes;
    if (d->rgb) {
        int step = d->components[0], r = f->format == TACHY_PIX_BGRA ? 2 : 0;
        for (int i = 0; i < n; i++, row += step)
            sum[i] += w * (float)tachy_luma_rgb(row[r], row[1], row[2 - r]);
    } else if (d->bytes == 2) {
        const uint16_t *words = (const void *)row;
        int shift = d->shift;
        for (int i = 0; i < n; i++)
            sum[i] += w * (float)(words[i] >> shift & 1023);
    } else {
        for (int i = 0; i < n; i++)
            sum[i] += w * (float)row[i];
    }
}

// Cell i of n over `size` pixels: the pixels first .. last, of which the two at the ends count
// by the share that lies in the cell.
struct cell {
    int first, last;
    float head, tail; // shares; tail is 0 where first == last
};

static struct cell cell(int i, int n, int size)
{
    int64_t from = (int64_t)i * size, to = from + size; // in 1 / n pixels
    struct cell c = {.first = (int)(from / n), .last = (int)((to - 1) / n)};
    c.head = (float)(TACHY_MIN((int64_t)(c.first + 1) * n, to) - from) / (float)n;
    c.tail = c.last > c.first ? (float)(to - (int64_t)c.last * n) / (float)n : 0;
    return c;
}

// Means of cells i0 .. i1 - 1 of row j, whose columns are x0 .. x1 - 1.
static void cells(const tachy_frame *f, const struct tachy_pix_desc *d, const struct tachy_rect *g,
                  struct cell rows, int x0, int x1, int i0, int i1, int width, float area,
                  uint8_t *dst)
{
    float sum[SPAN];
    memset(sum, 0, (size_t)(x1 - x0) * sizeof(sum[0]));
    for (int y = rows.first; y <= rows.last; y++)
        add_row(sum, f, d, g->x + x0, g->y + y, x1 - x0,
                y == rows.first ? rows.head : y == rows.last ? rows.tail : 1.0f);
    for (int i = i0; i < i1; i++) {
        struct cell c = cell(i, width, g->w);
        int last = c.last;
        float total = sum[c.first - x0] * c.head;
        for (int x = c.first + 1; x < last; x++)
            total += sum[x - x0];
        if (last > c.first)
            total += sum[last - x0] * c.tail;
        int v = (int)(total / area + 0.5f);
        dst[i] = (uint8_t)TACHY_MIN(v, 255); // 10 bits: up to 255.75
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
    if (g.w / width >= SPAN) { // only a strip of each such cell is looked at
        g.x += (g.w - width * (SPAN - 1)) / 2;
        g.w = width * (SPAN - 1);
    }
    float area = (float)g.w / (float)width * ((float)g.h / (float)height) * (d->bytes == 2 ? 4.0f : 1.0f);
    for (int j = 0; j < height; j++, dst += stride) {
        struct cell rows = cell(j, height, g.h);
        for (int i = 0, next; i < width; i = next) {
            int x0 = cell(i, width, g.w).first;
            for (next = i + 1; next < width && cell(next, width, g.w).last - x0 < SPAN;)
                next++;
            cells(f, d, &g, rows, x0, cell(next - 1, width, g.w).last + 1, i, next, width, area, dst);
        }
    }
    return TACHY_OK;
}
