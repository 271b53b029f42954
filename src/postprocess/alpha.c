#include "postprocess/alpha.h"

#include <math.h>

struct tachy_curve tachy_curve_make(float threshold, float feather)
{
    double t = threshold >= 0 ? TACHY_MIN((double)threshold, 1.0) : 0;
    double f = feather >= 0 ? TACHY_MIN((double)feather, 1.0) : 0;
    int width = (int)lrint(f * 32640), low = (int)lrint((t - f / 2) * 32640);
    if (width == 0) { // hard edge: 255 from p = t on
        width = 1;
        low = (int)ceil(t * 32640 - 1e-9) - 1;
    }
    int shift = 0;
    while (width << shift < 32640)
        shift++;
    double gain = 32640.0 * 65536 / (width << shift);
    return (struct tachy_curve){.low = (uint16_t)(low + 16384),
                                .width = (uint16_t)width,
                                .gain = (uint16_t)TACHY_MIN(lrint(gain), 65535),
                                .shift = (uint8_t)shift};
}

bool tachy_alpha_clip(struct tachy_alpha_eye *e, int width, int height)
{
    const struct tachy_rect *g = &e->mask.region;
    int64_t right = (int64_t)g->x + g->w, bottom = (int64_t)g->y + g->h;
    e->x0 = TACHY_CLAMP(g->x, 0, width);
    e->y0 = TACHY_CLAMP(g->y, 0, height);
    e->x1 = (int)TACHY_CLAMP(right, e->x0, width);
    e->y1 = (int)TACHY_CLAMP(bottom, e->y0, height);
    if (e->x0 != e->x1 && e->y0 != e->y1)
        return true;
    e->x0 = e->x1 = e->y0 = e->y1 = 0;
    return false;
}

// Sets the visible part of the region and the table across it.
static int prepare_eye(struct tachy_alpha *a, struct tachy_alpha_eye *e)
{
    const struct tachy_rect *g = &e->mask.region;
    if (!tachy_alpha_clip(e, a->frame->width, a->frame->height))
        return TACHY_OK;
    size_t n = (size_t)e->mask.width + TACHY_STRETCH_PAD;
    if (!tachy_buf_need(&a->row, n * sizeof(int16_t)) ||
        !tachy_buf_need(&a->slope, n * sizeof(float)) ||
        !tachy_buf_need(&a->offset, n * sizeof(float)))
        return TACHY_ERR_NOMEM;
    int key[4] = {e->mask.width, g->x, g->w, a->frame->width};
    if (e->across.memory && !memcmp(key, e->key, sizeof(key)))
        return TACHY_OK;
    memcpy(e->key, key, sizeof(key));
    return tachy_alpha_across(&e->across, e);
}

int tachy_alpha_across(struct tachy_stretch *t, const struct tachy_alpha_eye *e)
{
    const struct tachy_rect *g = &e->mask.region;
    return tachy_stretch_build(t, e->mask.width, (double)e->mask.width / g->w, e->x0 - g->x, e->x1 - e->x0);
}

int tachy_alpha_down(const struct tachy_alpha_eye *e, int y, int *frac)
{
    const struct tachy_rect *g = &e->mask.region;
    return tachy_stretch_at((y - g->y + 0.5) * e->mask.height / g->h - 0.5, e->mask.height, frac);
}

bool tachy_alpha_eye_set(struct tachy_alpha_eye *e, const struct tachy_mask *m, const struct tachy_refine *f)
{
    e->mask = *m;
    e->refine = f;
    if (!m->data || m->width < 1 || m->height < 1 || (f && (!f->a || !f->b || f->width < 1 || f->height < 1)))
        return false;
    if (f) { // the coefficients have the mask's place
        e->mask.width = f->width;
        e->mask.height = f->height;
    }
    return true;
}

static int begin_bounds(struct tachy_alpha *a)
{
    const struct tachy_bounds *b = a->bounds;
    size_t n = (size_t)a->frame->width;
    if (!b || (!b->garbage && !b->key && !b->plate))
        return TACHY_OK;
    if (!tachy_buf_need(&a->none, n) || !tachy_buf_need(&a->screen, n))
        return TACHY_ERR_NOMEM;
    memset(a->none.p, 0, n);
    int err = b->key ? tachy_key_begin(&a->key, b->key, a->frame) : TACHY_OK;
    return err == TACHY_OK && b->plate ? tachy_plate_begin(&a->plate, b->plate, a->frame) : err;
}

int tachy_alpha_begin(struct tachy_alpha *a, const tachy_frame *f, const struct tachy_result *r,
                      const struct tachy_refine *refine)
{
    a->frame = f;
    a->eyes = TACHY_CLAMP(r->eyes, 0, TACHY_MAX_EYES);
    a->covered = false;
    size_t n = (size_t)f->width;
    if (refine && (!tachy_buf_need(&a->luma, n * sizeof(float)) ||
                   !tachy_buf_need(&a->fine, n * sizeof(int16_t))))
        return TACHY_ERR_NOMEM;
    int err = begin_bounds(a);
    if (err < 0)
        return err;
    for (int i = 0; i < a->eyes; i++) {
        struct tachy_alpha_eye *e = &a->eye[i];
        if (!tachy_alpha_eye_set(e, &r->mask[i], refine ? &refine[i] : NULL))
            return TACHY_ERR_INVAL;
        err = prepare_eye(a, e);
        if (err < 0)
            return err;
        a->covered |= e->x1 - e->x0 == f->width && e->y1 - e->y0 == f->height;
    }
    return TACHY_OK;
}

// The two mask rows that frame row y lies between.
static void rows_at(const struct tachy_alpha_eye *e, int y, int *above, int *below, int *frac)
{
    *above = tachy_alpha_down(e, y, frac);
    *below = TACHY_MIN(*above + 1, e->mask.height - 1);
}

static void plain_row(struct tachy_alpha *a, const struct tachy_alpha_eye *e, int y, uint8_t *dst)
{
    int above, below, frac, n = e->mask.width;
    rows_at(e, y, &above, &below, &frac);
    int16_t *row = a->row.p;
    a->k->lerp_u8(row, e->mask.data + above * e->mask.stride, e->mask.data + below * e->mask.stride,
                  frac, n);
    row[n] = row[n - 1];
    a->k->alpha(dst, row, &e->across, &a->curve);
}

static void refined_row(struct tachy_alpha *a, const struct tachy_alpha_eye *e, int y, uint8_t *dst)
{
    int above, below, frac, n = e->mask.width;
    rows_at(e, y, &above, &below, &frac);
    const struct tachy_refine *f = e->refine;
    float *slope = a->slope.p, *offset = a->offset.p, w = (float)frac / 32768.0f;
    ptrdiff_t up = (ptrdiff_t)above * n, down = (ptrdiff_t)below * n;
    a->k->lerp_f32(slope, f->a + up, f->a + down, w, n);
    a->k->lerp_f32(offset, f->b + up, f->b + down, w, n);
    slope[n] = slope[n - 1];
    offset[n] = offset[n - 1];
    tachy_luma_row(a->luma.p, a->frame, e->x0, y, e->x1 - e->x0);
    a->k->refine(a->fine.p, slope, offset, a->luma.p, &e->across);
    a->k->curve(dst, a->fine.p, &a->curve, e->x1 - e->x0);
}

static void bound_row(struct tachy_alpha *a, int y, uint8_t *dst)
{
    const struct tachy_bounds *b = a->bounds;
    int n = a->frame->width;
    if (b->garbage)
        a->k->blend8(dst, dst, a->none.p, b->garbage + (size_t)y * (size_t)n, n);
    if (b->key) {
        tachy_key_row(&a->key, a->k, y, a->screen.p);
        a->k->blend8(dst, dst, a->none.p, a->screen.p, n);
    }
    if (b->plate) {
        tachy_plate_row(&a->plate, a->k, y, a->screen.p);
        a->k->blend8(dst, dst, a->none.p, a->screen.p, n);
    }
}

void tachy_alpha_row(struct tachy_alpha *a, int y, uint8_t *dst)
{
    if (!a->covered)
        memset(dst, 0, (size_t)a->frame->width);
    for (int i = 0; i < a->eyes; i++) {
        const struct tachy_alpha_eye *e = &a->eye[i];
        if (y < e->y0 || y >= e->y1)
            continue;
        if (e->refine)
            refined_row(a, e, y, dst + e->x0);
        else
            plain_row(a, e, y, dst + e->x0);
    }
    if (a->bounds)
        bound_row(a, y, dst);
}

void tachy_alpha_free(struct tachy_alpha *a)
{
    for (int i = 0; i < TACHY_MAX_EYES; i++)
        tachy_stretch_free(&a->eye[i].across);
    tachy_buf_free(&a->row);
    tachy_buf_free(&a->slope);
    tachy_buf_free(&a->offset);
    tachy_buf_free(&a->luma);
    tachy_buf_free(&a->fine);
    tachy_buf_free(&a->none);
    tachy_buf_free(&a->screen);
    tachy_key_free(&a->key);
    tachy_plate_free(&a->plate);
}
