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

enum { SPAN = 1024, GROUP = 256 }; // source columns and cells handled at a time, on the stack

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

// Cell i of n over `size` pixels: the pixels first .. last; the two at the ends count by their share in the cell.
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

// Neighbouring cells of a row that are made together.
struct group {
    int n, x0, x1; // cells; their columns
    struct cell cell[GROUP];
};

static int make_group(struct group *q, int i, int width, int size)
{
    q->n = 0;
    q->x0 = q->x1 = cell(i, width, size).first;
    for (; i < width && q->n < GROUP; i++) {
        struct cell c = cell(i, width, size);
        if (c.last - q->x0 >= SPAN)
            break;
        q->x1 = c.last + 1;
        q->cell[q->n++] = c;
    }
    return i;
}

// Means of the cells of a group in one row of cells.
static void group_row(const tachy_frame *f, const struct tachy_pix_desc *d,
                      const struct tachy_rect *g, const struct group *q, struct cell rows,
                      float area, uint8_t *dst)
{
    float sum[SPAN];
    int n = q->x1 - q->x0;
    memset(sum, 0, (size_t)n * sizeof(sum[0]));
    for (int y = rows.first; y <= rows.last; y++)
        add_row(sum, f, d, g->x + q->x0, g->y + y, n,
                y == rows.first  ? rows.head
                : y == rows.last ? rows.tail
                                 : 1.0f);
    float scale = 1.0f / area;
    for (int i = 0; i < q->n; i++) {
        const struct cell *c = &q->cell[i];
        float total = sum[c->first - q->x0] * c->head;
        for (int x = c->first + 1; x < c->last; x++)
            total += sum[x - q->x0];
        if (c->last > c->first)
            total += sum[c->last - q->x0] * c->tail;
        int v = (int)(total * scale + 0.5f);
        dst[i] = (uint8_t)TACHY_MIN(v, 255); // 10 bits: up to 255.75
    }
}

struct tachy_rect tachy_guide_region(struct tachy_rect g, int width)
{
    if (g.w > (int64_t)width * (SPAN - 2)) { // a cell of SPAN - 2 pixels touches SPAN - 1 columns
        int w = width * (SPAN - 2);
        g.x += (g.w - w) / 2;
        g.w = w;
    }
    return g;
}

int tachy_luma_guide(const tachy_frame *f, const struct tachy_rect *region, uint8_t *dst,
                     ptrdiff_t stride, int width, int height)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    struct tachy_rect g = *region;
    if (f->mem == TACHY_DEVICE)
        return TACHY_ERR_UNSUPPORTED;
    if (!d || width < 1 || height < 1 || g.x < 0 || g.y < 0 || g.w < 1 || g.h < 1 ||
        g.x > f->width - g.w || g.y > f->height - g.h)
        return TACHY_ERR_INVAL;
    g = tachy_guide_region(g, width);
    float area =
        (float)g.w / (float)width * ((float)g.h / (float)height) * (d->bytes == 2 ? 4.0f : 1.0f);
    for (int i = 0, next; i < width; i = next) {
        struct group q;
        next = make_group(&q, i, width, g.w);
        for (int j = 0; j < height; j++)
            group_row(f, d, &g, &q, cell(j, height, g.h), area, dst + j * stride + i);
    }
    return TACHY_OK;
}
