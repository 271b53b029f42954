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

int tachy_signature_layout_make(struct tachy_signature_layout *l, enum tachy_pix format, int width, int height)
{
    if (!tachy_pix_desc(format))
        return TACHY_ERR_INVAL;
    *l = (struct tachy_signature_layout){.pixel = pixel_of(format)};
    l->white = l->pixel.step == 1 ? 255 : l->pixel.step == 2 ? 1023 : 255 * 128;
    l->group = width >= VECTOR_MIN ? TACHY_SIGNATURE_GROUP : 1;
    const int n = width / l->group;
    l->columns = TACHY_MIN(TACHY_SIGNATURE_COLUMNS, n);
    l->rows = TACHY_MIN(TACHY_SIGNATURE_ROWS, height);
    for (int i = 0; i <= l->columns; i++)
        l->column[i] = i * n / l->columns;
    for (int j = 0; j < l->rows; j++) {
        l->first[j] = j * height / l->rows;
        const int high = (j + 1) * height / l->rows - l->first[j];
        l->skip[j] = (high + SAMPLED - 1) / SAMPLED;
        l->count[j] = (high + l->skip[j] - 1) / l->skip[j];
    }
    return TACHY_OK;
}

// Means of row j of cells out of sums of groups.
static void cell_row(uint16_t *cell, const uint32_t *sum, const struct tachy_signature_layout *l, int j)
{
    for (int i = 0; i < l->columns; i++) {
        uint64_t total = 0;
        for (int k = l->column[i]; k < l->column[i + 1]; k++)
            total += sum[k];
        uint64_t pixels = (uint64_t)(l->column[i + 1] - l->column[i]) * (uint64_t)l->group * (uint64_t)l->count[j];
        uint64_t most = pixels * l->white;
        cell[i] = (uint16_t)((total * TACHY_SIGNATURE_ONE + most / 2) / most);
    }
}

int tachy_signature_begin(struct tachy_signature *s, struct tachy_signature_layout *l, struct tachy_rect *part,
                          const tachy_frame *f, const struct tachy_rect *region)
{
    struct tachy_rect g = region ? *region : (struct tachy_rect){0, 0, f->width, f->height};
    if (g.x < 0 || g.y < 0 || g.w < 1 || g.h < 1 || g.x > f->width - g.w || g.y > f->height - g.h ||
        tachy_signature_layout_make(l, f->format, g.w, g.h) < 0)
        return TACHY_ERR_INVAL;
    s->columns = l->columns;
    s->rows = l->rows;
    s->format = f->format;
    s->width = g.w;
    s->height = g.h;
    *part = g;
    return TACHY_OK;
}

static int make(struct tachy_signature *s, const tachy_frame *f, const struct tachy_rect *region,
                enum tachy_isa isa)
{
    struct tachy_rect g;
    struct tachy_signature_layout l;
    int err = f->mem == TACHY_DEVICE ? TACHY_ERR_UNSUPPORTED : tachy_signature_begin(s, &l, &g, f, region);
    if (err < 0)
        return err;
    uint32_t sum[GROUPS];
    for (int j = 0; j < s->rows; j++) {
        const uint8_t *p = f->data[0] + (g.y + l.first[j]) * f->stride[0] + (ptrdiff_t)g.x * l.pixel.step;
        sum_groups(sum, p, f->stride[0] * l.skip[j], l.count[j], g.w / l.group, l.group, &l.pixel, isa);
        cell_row(s->cell + j * s->columns, sum, &l, j);
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
