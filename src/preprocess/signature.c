#include "preprocess/signature.h"

#include <stdlib.h>

enum {
    SAMPLED = 40,     // rows of a cell that are read at most
    VECTOR_MIN = 512, // pixels of width from which columns of cells begin at whole groups
    GROUPS = 65536 / TACHY_SIGNATURE_GROUP,
};

static struct tachy_signature_pixel pixel_of(enum tachy_pix format)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    struct tachy_signature_pixel how = {.step = d->components[0] * d->bytes, .shift = d->shift};
    // BT.709 as 128ths, which products of 8 bits with sign still hold
    static const uint8_t rgb[3] = {27, 92, 9}, bgr[3] = {9, 92, 27};
    if (d->rgb)
        memcpy(how.weight, format == TACHY_PIX_BGRA ? bgr : rgb, 3);
    return how;
}

static void sum_groups(uint32_t *sum, const uint8_t *p, ptrdiff_t stride, int rows, int n,
                       int group, const struct tachy_signature_pixel *how, enum tachy_isa isa)
{
    memset(sum, 0, (size_t)n * sizeof(sum[0]));
#if defined(__x86_64__)
    if (group == TACHY_SIGNATURE_GROUP && isa != TACHY_ISA_C) {
        tachy_signature_avx2(sum, p, stride, rows, n, how);
        return;
    }
#elif defined(__aarch64__)
    if (group == TACHY_SIGNATURE_GROUP && isa != TACHY_ISA_C) {
        tachy_signature_neon(sum, p, stride, rows, n, how);
        return;
    }
#endif
    tachy_ref_signature(sum, p, stride, rows, n, group, how);
}

// Means of one row of cells. `white`: the sum of one white pixel.
static void cell_row(uint16_t *cell, int columns, const uint32_t *sum, int n, int group, int rows,
                     uint32_t white)
{
    for (int i = 0; i < columns; i++) {
        int first = i * n / columns, end = (i + 1) * n / columns;
        uint64_t total = 0;
        for (int k = first; k < end; k++)
            total += sum[k];
        uint64_t most = (uint64_t)(end - first) * (uint64_t)group * (uint64_t)rows * white;
        cell[i] = (uint16_t)((total * TACHY_SIGNATURE_ONE + most / 2) / most);
    }
}

static int make(struct tachy_signature *s, const tachy_frame *f, const struct tachy_rect *region,
                enum tachy_isa isa)
{
    struct tachy_rect g = region ? *region : (struct tachy_rect){0, 0, f->width, f->height};
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    if (f->place == TACHY_DEVICE)
        return TACHY_ERR_UNSUPPORTED;
    if (!d || g.x < 0 || g.y < 0 || g.w < 1 || g.h < 1 || g.x > f->width - g.w ||
        g.y > f->height - g.h)
        return TACHY_ERR_INVAL;
    const struct tachy_signature_pixel how = pixel_of(f->format);
    const uint32_t white = how.step == 1 ? 255 : how.step == 2 ? 1023 : 255 * 128;
    const int group = g.w >= VECTOR_MIN ? TACHY_SIGNATURE_GROUP : 1, n = g.w / group;
    uint32_t sum[GROUPS];
    s->columns = TACHY_MIN(TACHY_SIGNATURE_COLUMNS, n);
    s->rows = TACHY_MIN(TACHY_SIGNATURE_ROWS, g.h);
    s->format = f->format;
    s->width = g.w;
    s->height = g.h;
    for (int j = 0; j < s->rows; j++) {
        int y = j * g.h / s->rows, high = (j + 1) * g.h / s->rows - y;
        int skip = (high + SAMPLED - 1) / SAMPLED, rows = (high + skip - 1) / skip;
        const uint8_t *p = f->data[0] + (g.y + y) * f->stride[0] + (ptrdiff_t)g.x * how.step;
        sum_groups(sum, p, f->stride[0] * skip, rows, n, group, &how, isa);
        cell_row(s->cell + j * s->columns, s->columns, sum, n, group, rows, white);
    }
    return TACHY_OK;
}

int tachy_signature_make(struct tachy_signature *s, const tachy_frame *f,
                         const struct tachy_rect *region)
{
    return make(s, f, region, tachy_cpu_isa());
}

int tachy_signature_make_isa(struct tachy_signature *s, const tachy_frame *f,
                             const struct tachy_rect *region, const char *isa)
{
    int i = tachy_isa_by_name(isa);
    if (i < 0 || !tachy_cpu_has((enum tachy_isa)i))
        return TACHY_ERR_UNAVAILABLE;
    return make(s, f, region, (enum tachy_isa)i);
}

float tachy_signature_distance(const struct tachy_signature *a, const struct tachy_signature *b)
{
    if (a->format != b->format || a->width != b->width || a->height != b->height)
        return 1;
    int largest = 0, n = a->columns * a->rows;
    for (int i = 0; i < n; i++) {
        int d = abs(a->cell[i] - b->cell[i]);
        largest = TACHY_MAX(largest, d);
    }
    return (float)largest / TACHY_SIGNATURE_ONE;
}
