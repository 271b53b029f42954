#include "check_picture.h"

#include "base/base.h"

#include <stdlib.h>

void check_runs(struct check *c, uint8_t *a, int n)
{
    for (int i = 0; i < n;) {
        int len = check_range(c, 1, 90), kind = check_range(c, 0, 2);
        for (; len > 0 && i < n; len--, i++)
            a[i] = kind == 0 ? 0 : kind == 1 ? 255 : (uint8_t)check_range(c, 0, 255);
    }
}

// Memory for a plane, not filled, whose samples are aligned; `slack` is rounded down for that.
static void add_plane(struct check_picture *p, int i, int slack, bool upside_down)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(p->f.format);
    bool chroma = !d->rgb && (i == 1 || i == 2);
    int sx = chroma ? d->chroma_shift_x : 0, sy = chroma ? d->chroma_shift_y : 0;
    int columns = (p->f.width + (1 << sx) - 1) >> sx, rows = (p->f.height + (1 << sy) - 1) >> sy;
    size_t row = (size_t)columns * d->components[i] * d->bytes, stride = row + (size_t)(slack - slack % d->bytes);
    p->size[i] = stride * (size_t)(rows - 1) + row;
    p->memory[i] = check_alloc(p->size[i], (size_t)d->bytes);
    p->f.data[i] = upside_down ? p->memory[i] + stride * (size_t)(rows - 1) : p->memory[i];
    p->f.stride[i] = upside_down ? -(ptrdiff_t)stride : (ptrdiff_t)stride;
}

// Two thirds of the bytes next to the ends of the range, where sums would wrap.
static void to_extremes(uint8_t *mem, size_t n)
{
    for (size_t i = 0; i < n; i++)
        mem[i] = (uint8_t)(mem[i] < 85 ? mem[i] & 3 : mem[i] < 170 ? mem[i] | 0xfc : mem[i]);
}

void check_picture_bytes(struct check *c, struct check_picture *p, enum tachy_pix format, int w, int h, int slack,
                         bool upside_down)
{
    bool extremes = check_range(c, 0, 2) == 0;
    *p = (struct check_picture){.f = {.format = format, .width = w, .height = h}};
    for (int i = 0; i < tachy_pix_desc(format)->planes; i++) {
        add_plane(p, i, slack, upside_down);
        check_fill(c, p->memory[i], p->size[i]);
        if (extremes)
            to_extremes(p->memory[i], p->size[i]);
    }
}

void check_picture(struct check *c, struct check_picture *p, enum tachy_pix format, int w, int h, bool random)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    *p = (struct check_picture){.f = {.format = format, .width = w, .height = h}};
    for (int i = 0; i < d->planes; i++) {
        add_plane(p, i, random ? check_range(c, 0, 9) * 2 : 0, random && check_range(c, 0, 1));
        check_fill(c, p->memory[i], p->size[i]);
        for (size_t k = 0; d->bytes == 2 && k + 1 < p->size[i]; k += 2) {
            uint16_t v;
            memcpy(&v, p->memory[i] + k, 2);
            v = (uint16_t)(d->shift ? v & 0xffc0 : v & 1023);
            memcpy(p->memory[i] + k, &v, 2);
        }
    }
}

void check_picture_free(struct check_picture *p)
{
    for (int i = 0; i < 4; i++)
        check_free(p->memory[i]);
    *p = (struct check_picture){0};
}

void check_result(struct check *c, struct tachy_result *r, int w, int h, int most)
{
    *r = (struct tachy_result){.eyes = check_range(c, 0, 2)};
    for (int i = 0; i < r->eyes; i++) {
        struct tachy_mask *m = &r->mask[i];
        m->width = check_range(c, 1, most);
        m->height = check_range(c, 1, TACHY_MIN(most, 40));
        m->stride = m->width;
        uint8_t *p = check_alloc((size_t)m->width * (size_t)m->height, 1);
        check_runs(c, p, m->width * m->height);
        m->data = p;
        m->region = (struct tachy_rect){0, 0, w, h};
        if (check_range(c, 0, 1))
            m->region = (struct tachy_rect){check_range(c, -w, w), check_range(c, -h, h),
                                            check_range(c, 1, 2 * w), check_range(c, 1, 2 * h)};
    }
}

struct tachy_composite_params check_composite_params(struct check *c)
{
    static const enum tachy_pix alpha[] = {TACHY_PIX_YUVA420P, TACHY_PIX_YUVA444P10,
                                           TACHY_PIX_RGBA};
    return (struct tachy_composite_params){
        .mode = (enum tachy_mode)check_range(c, 0, TACHY_MODE_SIDE_BY_SIDE),
        .color = (uint32_t)check_rand(c),
        .threshold = check_float(c, 0, 1),
        .feather = check_range(c, 0, 1) ? check_float(c, 0, 0.5f) : 0,
        .blur = check_float(c, 0, 1),
        .alpha_format = alpha[check_range(c, 0, 2)],
        .mask_format = (enum tachy_pix)check_range(c, 0, TACHY_PIX_P010),
    };
}

void check_refine(struct check *c, struct tachy_refine *f, const struct tachy_mask *m)
{
    int n = m->width * m->height;
    *f = (struct tachy_refine){
        .a = check_alloc((size_t)n * 4, 4), .b = check_alloc((size_t)n * 4, 4), .width = m->width, .height = m->height};
    for (int k = 0; k < n; k++) {
        f->a[k] = check_float(c, -3, 3);
        f->b[k] = check_float(c, -200, 400);
    }
}

void check_round_mask(uint8_t *m, int side)
{
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) {
            int u = x * 256 / side - 128, v = y * 256 / side - 140;
            m[y * side + x] = (uint8_t)TACHY_CLAMP((80 * 80 - u * u - v * v) / 8 + 128, 0, 255);
        }
}
