#pragma once
#include "test.h"

#include "base/base.h"
#include "postprocess/composite.h"

#include <stdlib.h>

// Pictures, a soft mask and one call of composite, for the tests of what composite promises.

enum { W = 53, H = 37 }; // odd on purpose

static uint64_t rng = 1;

static inline int rnd(int n)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (int)((rng >> 33) % (uint64_t)n);
}

static inline tachy_frame *picture(enum tachy_pix format, int w, int h)
{
    tachy_frame *f;
    if (tachy_frame_new(
            &f, &(struct tachy_frame_params){.format = format, .width = w, .height = h}) < 0)
        abort();
    return f;
}

static inline int plane_w(const struct tachy_pix_desc *d, int p, int w)
{
    int s = !d->rgb && (p == 1 || p == 2) ? d->chroma_shift_x : 0;
    return (w + s) >> s;
}

static inline int plane_h(const struct tachy_pix_desc *d, int p, int h)
{
    int s = !d->rgb && (p == 1 || p == 2) ? d->chroma_shift_y : 0;
    return (h + s) >> s;
}

static inline int get(const tachy_frame *f, int plane, int x, int y, int comp)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    const uint8_t *row = f->data[plane] + y * f->stride[plane];
    int i = x * d->components[plane] + comp;
    return d->bytes == 2 ? ((const uint16_t *)(const void *)row)[i] >> d->shift : row[i];
}

static inline void put(tachy_frame *f, int plane, int x, int y, int comp, int v)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    uint8_t *row = tachy_frame_writable(f, plane) + y * f->stride[plane];
    int i = x * d->components[plane] + comp;
    if (d->bytes == 2)
        ((uint16_t *)(void *)row)[i] = (uint16_t)(v << d->shift);
    else
        row[i] = (uint8_t)v;
}

static inline tachy_frame *noise(enum tachy_pix format, int w, int h)
{
    tachy_frame *f = picture(format, w, h);
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    for (int p = 0; p < d->planes; p++)
        for (int y = 0; y < plane_h(d, p, h); y++)
            for (int x = 0; x < plane_w(d, p, w) * d->components[p]; x++)
                put(f, p, x / d->components[p], y, x % d->components[p], rnd(1 << d->bits));
    return f;
}

static uint8_t mask_data[16 * 12];

static inline struct tachy_result soft_result(int w, int h)
{
    for (int i = 0; i < 16 * 12; i++) {
        int x = i % 16 - 8, y = i / 16 - 6, v = 300 - 9 * (x * x + y * y);
        mask_data[i] = (uint8_t)TACHY_CLAMP(v, 0, 255);
    }
    return (struct tachy_result){.eyes = 1, .mask[0] = {mask_data, 16, 12, 16, {0, 0, w, h}}};
}

static inline tachy_frame *run(struct tachy_composite_params p, const tachy_frame *in,
                        struct tachy_result *r, const tachy_frame *bg)
{
    struct tachy_video_info info = {
        .format = in->format, .width = in->width, .height = in->height, .color = in->color};
    struct tachy_video_info want;
    tachy_composite *c;
    CHECK_INT(tachy_composite_output(&p, &info, &want), TACHY_OK);
    tachy_frame *out = picture(want.format, want.width, want.height);
    CHECK_INT(tachy_composite_open(&c, &p), TACHY_OK);
    CHECK_INT(tachy_composite_run(c, in, r, NULL, bg, out), TACHY_OK);
    tachy_composite_close(&c);
    return out;
}

// Alpha of the frame as mode mask writes it.
static inline tachy_frame *alpha_of(const tachy_frame *in, struct tachy_result *r)
{
    return run((struct tachy_composite_params){.mode = TACHY_MODE_MASK,
                                               .threshold = 0.5f,
                                               .feather = 0.6f},
               in, r, NULL);
}

// The alpha of one sample: the mean over the pixels that it covers.
static inline int alpha_at(const tachy_frame *a, const struct tachy_pix_desc *d, int plane, int x, int y)
{
    bool chroma = !d->rgb && (plane == 1 || plane == 2);
    int sx = chroma ? d->chroma_shift_x : 0, sy = chroma ? d->chroma_shift_y : 0, sum = 0, n = 0;
    for (int j = 0; j <= sy; j++)
        for (int i = 0; i <= sx; i++, n++)
            sum += get(a, 0, TACHY_MIN((x << sx) + i, a->width - 1),
                       TACHY_MIN((y << sy) + j, a->height - 1), 0);
    return (2 * sum + n) / (2 * n);
}
