#include "postprocess/chroma.h"

#include "media/frame_mem.h"

#include <math.h>
#include <stdlib.h>

// One frame in progress: its source and destination.
struct job {
    struct tachy_composite *c;
    const tachy_frame *in, *background;
    const tachy_frame *front; // `in`, or with the person's own colours
    uint8_t *dst[4];
    ptrdiff_t stride[4];
    int out_x;       // first output column of the composited picture (side by side: width)
    int64_t counted; // pixels with alpha >= 128
};

static const char *mode_name(enum tachy_mode m)
{
    static const char *const names[] = {"mask",    "cutout", "blur", "replace",
                                        "overlay", "alpha",  "json", "side-by-side"};
    return (unsigned)m < TACHY_ARRAY_SIZE(names) ? names[m] : "?";
}

enum tachy_pix tachy_composite_mask_format(const struct tachy_composite_params *p)
{
    return p->mask_format == TACHY_PIX_NONE ? TACHY_PIX_GRAY8 : p->mask_format;
}

int tachy_composite_check(const struct tachy_composite_params *p)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(tachy_composite_mask_format(p));
    if ((unsigned)p->mode > TACHY_MODE_SIDE_BY_SIDE)
        return tachy_fail(p->log, TACHY_ERR_INVAL, "composite: there is no mode %d", (int)p->mode);
    if (p->mode == TACHY_MODE_MASK && (!d || d->rgb || d->alpha))
        return tachy_fail(
            p->log, TACHY_ERR_INVAL,
            "composite: a mask can be written as grey or YUV without alpha, not as %s",
            d ? d->name : "an unknown format");
    if (p->mode == TACHY_MODE_ALPHA && p->alpha_format != TACHY_PIX_YUVA420P &&
        p->alpha_format != TACHY_PIX_YUVA444P10 && p->alpha_format != TACHY_PIX_RGBA)
        return tachy_fail(p->log, TACHY_ERR_INVAL,
                          "composite: mode alpha writes yuva420p, yuva444p10le or rgba");
    if (!(p->threshold >= 0 && p->threshold <= 1) || !(p->feather >= 0 && p->feather <= 1))
        return tachy_fail(p->log, TACHY_ERR_INVAL,
                          "composite: threshold and feather are probabilities from 0 to 1");
    if (!(p->grow >= -64 && p->grow <= 64))
        return tachy_fail(p->log, TACHY_ERR_INVAL, "composite: an edge can grow or shrink by at most 64 pixels");
    if (!(p->blur >= 0 && p->blur <= 1))
        return tachy_fail(p->log, TACHY_ERR_INVAL,
                          "composite: the blur radius is a share of the height from 0 to 1");
    return TACHY_OK;
}

int tachy_composite_output(const struct tachy_composite_params *p,
                           const struct tachy_video_info *in, struct tachy_video_info *out)
{
    *out = *in;
    int err = tachy_composite_check(p);
    if (err < 0)
        return err;
    if (!tachy_pix_desc(in->format))
        return tachy_fail(p->log, TACHY_ERR_UNSUPPORTED, "composite: unknown pixel format");
    out->color = tachy_color_resolve(in->color, in->format, in->width, in->height);
    out->transparent = p->mode == TACHY_MODE_ALPHA;
    if (p->mode == TACHY_MODE_MASK) {
        out->format = tachy_composite_mask_format(p);
        if (out->format == TACHY_PIX_GRAY8 || out->format == TACHY_PIX_GRAY10)
            out->color.range = 2;
        if (in->color.transfer == 16 || in->color.transfer == 18) { // a mask has no light to map
            out->color.transfer = out->color.primaries = 1;
            out->color.matrix = 1;
        }
        if (tachy_pix_desc(in->format)->rgb) // grey has no matrix; a later YUV one is free
            out->color.matrix = 2;
    } else if (p->mode == TACHY_MODE_ALPHA) {
        out->format = p->alpha_format;
        if (tachy_pix_desc(out->format)->rgb)
            out->color.matrix = 0, out->color.range = 2;
        else if (tachy_pix_desc(in->format)->rgb)
            out->color.matrix = 1, out->color.range = 1;
    } else if (p->mode == TACHY_MODE_SIDE_BY_SIDE) {
        out->width = 2 * in->width;
        if (out->width > 65535)
            return tachy_fail(p->log, TACHY_ERR_LIMIT,
                              "composite: %d pixels side by side are more than 65535", out->width);
    }
    return TACHY_OK;
}

int tachy_composite_open(tachy_composite **out, const struct tachy_composite_params *p)
{
    *out = NULL;
    int err = tachy_composite_check(p);
    if (err < 0)
        return err;
    const struct tachy_post_kernels *k = tachy_post_kernels(p->isa);
    if (!k)
        return tachy_fail(p->log, TACHY_ERR_UNAVAILABLE, "composite: this processor has no %s",
                          p->isa);
    struct tachy_composite *c = calloc(1, sizeof(*c));
    if (!c)
        return TACHY_ERR_NOMEM;
    c->params = *p;
    c->params.isa = NULL;
    c->params.blur = p->blur > 0 ? p->blur : 0.02f;
    c->k = c->alpha.k = c->front.k = k;
    c->alpha.curve = tachy_curve_make(p->threshold, p->feather);
    *out = c;
    return TACHY_OK;
}

void tachy_composite_close(tachy_composite **pc)
{
    struct tachy_composite *c = *pc;
    *pc = NULL;
    if (!c)
        return;
    tachy_alpha_free(&c->alpha);
    tachy_blur_free(&c->blur);
    tachy_front_free(&c->front);
    tachy_alpha_out_free(&c->alpha_out);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++)
            tachy_buf_free(&c->fill[i][k]);
    struct tachy_buf *const all[] = {&c->rows[0],    &c->rows[1], &c->chroma, &c->spread,
                                     &c->background, &c->full,    &c->runs,   &c->points, &c->grown};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++)
        tachy_buf_free(all[i]);
    tachy_text_free(&c->text);
    free(c);
}

void tachy_composite_bound(tachy_composite *c, const struct tachy_bounds *b) { c->alpha.bounds = b; }

void tachy_composite_give(tachy_composite *c, const struct tachy_given *g, int n)
{
    c->given = g;
    c->nb_given = n;
}

// A row of one colour in the samples of a plane. 64 bytes more, for vector loads.
static bool fill_row(struct tachy_buf *b, enum tachy_pix f, int plane, int n, const int codes[4])
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f);
    if (!tachy_buf_need(b, (size_t)n * d->components[plane] * d->bytes + 64))
        return false;
    for (int i = 0; i < n * d->components[plane]; i++) {
        int v = codes[tachy_component_at(f, plane, i % d->components[plane])];
        if (d->bytes == 2)
            ((uint16_t *)b->p)[i] = (uint16_t)(v << d->shift);
        else
            ((uint8_t *)b->p)[i] = (uint8_t)v;
    }
    return true;
}

// Bytes of a row of the alpha picture: eight columns can be read from any.
static ptrdiff_t full_stride(int width)
{
    return (ptrdiff_t)TACHY_ALIGN((size_t)width + 8, (size_t)64);
}

static bool same_head(const tachy_frame *a, const tachy_frame *b)
{
    return a->format == b->format && a->width == b->width && a->height == b->height &&
           !memcmp(&a->color, &b->color, sizeof(a->color));
}

void tachy_composite_fills(const struct tachy_composite_params *p, const tachy_frame *in, int codes[2][4])
{
    bool mask = p->mode == TACHY_MODE_MASK;
    const struct tachy_pix_desc *d = tachy_pix_desc(mask ? tachy_composite_mask_format(p) : in->format);
    struct tachy_color color = tachy_color_resolve(in->color, in->format, in->width, in->height);
    if (mask && d->planes == 1)
        color.range = 2;
    tachy_color_codes(mask ? 0xffffffff : p->color, d, color, codes[0]);
    tachy_color_codes(0x000000ff, d, color, codes[1]);
}

// Buffers and constant rows for the frame's format and size; kept while these do not change.
static int prepare(struct tachy_composite *c, const tachy_frame *in)
{
    c->d = tachy_pix_desc(in->format);
    if (!c->d)
        return tachy_fail(c->params.log, TACHY_ERR_UNSUPPORTED, "composite: unknown pixel format");
    if (same_head(&c->head, in))
        return TACHY_OK;
    c->head = (tachy_frame){0};
    bool mask = c->params.mode == TACHY_MODE_MASK;
    enum tachy_pix f = mask ? tachy_composite_mask_format(&c->params) : in->format;
    const struct tachy_pix_desc *d = tachy_pix_desc(f);
    int codes[2][4];
    tachy_composite_fills(&c->params, in, codes);
    size_t w = (size_t)in->width;
    bool ok = tachy_buf_need(&c->rows[0], w + 64) && tachy_buf_need(&c->rows[1], w + 64) &&
              tachy_buf_need(&c->chroma, w + 64) && tachy_buf_need(&c->spread, 4 * w + 64) &&
              tachy_buf_need(&c->background, 4 * w * 2 + 64);
    for (int p = 0; ok && p < d->planes; p++)
        for (int k = 0; ok && k <= mask; k++)
            ok = fill_row(&c->fill[p][k], f, p, tachy_plane_of(d, p, in->width, in->height).w,
                          codes[k]);
    if (!ok)
        return TACHY_ERR_NOMEM;
    c->head = *in;
    return TACHY_OK;
}

// True if people are shown in other colours than the picture's.
static bool makes_front(const struct tachy_composite *c)
{
    const struct tachy_composite_params *p = &c->params;
    return (p->foreground || p->despill || c->nb_given) && p->mode != TACHY_MODE_MASK && p->mode != TACHY_MODE_OVERLAY;
}

static int make_front(struct job *j, ptrdiff_t stride)
{
    struct tachy_composite *c = j->c;
    const struct tachy_chroma_key *key = c->alpha.bounds ? c->alpha.bounds->key : NULL;
    enum tachy_key_hue hue = c->params.despill == TACHY_SPILL_BLUE ? TACHY_KEY_BLUE : TACHY_KEY_GREEN;
    struct tachy_ycbcr screen = tachy_key_screen(hue, tachy_chroma_matrix(j->in));
    bool spills = c->params.despill != TACHY_SPILL_OFF;
    if (c->params.despill == TACHY_SPILL_KEY && (spills = key && key->nb_colors))
        screen = key->color[0];
    int err = tachy_front_make(&c->front, j->in, c->full.p, stride,
                               &(struct tachy_front_from){c->params.foreground && !c->nb_given, c->given, c->nb_given,
                                                          spills ? &screen : NULL});
    j->front = &c->front.frame;
    return err;
}

// True if the whole picture of alpha must exist before the first row.
static bool alpha_first(const struct tachy_composite *c)
{
    return c->params.mode == TACHY_MODE_BLUR || c->params.grow != 0 || makes_front(c);
}

// The frame's alpha of row y.
static void alpha_row(struct job *j, int y, uint8_t *dst)
{
    struct tachy_composite *c = j->c;
    if (alpha_first(c))
        memcpy(dst, (uint8_t *)c->full.p + y * full_stride(j->in->width), (size_t)j->in->width);
    else
        tachy_alpha_row(&c->alpha, y, dst);
    j->counted += c->k->count(dst, j->in->width);
}

// Alpha of `rows` rows from y on, each with its last value repeated once past its end.
static void alpha_rows(struct job *j, int y, int rows)
{
    struct tachy_composite *c = j->c;
    int w = j->in->width;
    for (int i = 0; i < rows; i++) {
        uint8_t *a = c->rows[i].p;
        alpha_row(j, y + i, a);
        if (c->params.mode == TACHY_MODE_OVERLAY)
            c->k->scale(a, a, (int)(c->params.color & 255), w);
        a[w] = a[w - 1];
    }
}

// The row behind (with overlay: above) the decoded one.
static const uint8_t *other_row(struct job *j, int plane, int y)
{
    struct tachy_composite *c = j->c;
    if (c->params.mode == TACHY_MODE_REPLACE)
        return j->background->data[plane] + y * j->background->stride[plane];
    if (c->params.mode == TACHY_MODE_BLUR) {
        tachy_blur_row(&c->blur, j->in, plane, y, c->background.p);
        return c->background.p;
    }
    return c->fill[plane][0].p;
}

// Alpha of each sample of a row of pixels.
static const uint8_t *sample_alpha(struct job *j, const struct tachy_plane *p, const uint8_t *alpha)
{
    struct tachy_composite *c = j->c;
    if (p->comps == 1)
        return alpha;
    uint8_t *s = c->spread.p;
    c->k->spread(s, alpha, p->comps, p->w);
    if (c->params.mode == TACHY_MODE_OVERLAY && p->comps == 4) // the picture keeps its own alpha
        for (int i = 3; i < 4 * p->w; i += 4)
            s[i] = 0;
    return s;
}

static void blend_plane_row(struct job *j, int plane, int y, const uint8_t *alpha)
{
    struct tachy_composite *c = j->c;
    struct tachy_plane p = tachy_plane_of(c->d, plane, j->in->width, j->in->height);
    size_t sample = c->d->bytes, pixel = sample * (size_t)p.comps;
    uint8_t *dst = j->dst[plane] + y * j->stride[plane];
    const uint8_t *in = j->in->data[plane] + y * j->in->stride[plane];
    if (plane == 3 && c->params.mode == TACHY_MODE_OVERLAY) {
        memcpy(dst, in, pixel * (size_t)p.w);
        return;
    }
    const uint8_t *other = other_row(j, plane, y);
    const uint8_t *a = sample_alpha(j, &p, alpha);
    int n = p.w;
    if (j->out_x) { // side by side: what an odd width shares between the halves is the left's
        memcpy(dst, in, pixel * (size_t)p.w);
        dst += pixel * (size_t)p.w;
        n = tachy_plane_of(c->d, plane, 2 * j->in->width, j->in->height).w - p.w;
    }
    bool overlay = c->params.mode == TACHY_MODE_OVERLAY;
    const uint8_t *front = overlay ? other : j->front->data[plane] + y * j->front->stride[plane];
    tachy_blend_row(c->k, c->d, dst, front, overlay ? in : other, a, n * p.comps);
}

static void blend_rows(struct job *j, int y, int rows)
{
    struct tachy_composite *c = j->c;
    alpha_rows(j, y, rows);
    const uint8_t *first = c->rows[0].p, *last = c->rows[rows - 1].p;
    for (int p = 0; p < c->d->planes; p++) {
        struct tachy_plane g = tachy_plane_of(c->d, p, j->in->width, j->in->height);
        if (g.chroma) {
            if (p == 1)
                c->k->halve(c->chroma.p, first, last, g.w);
            blend_plane_row(j, p, y >> c->d->chroma_shift_y, c->chroma.p);
            continue;
        }
        for (int i = 0; i < rows; i++)
            blend_plane_row(j, p, y + i, c->rows[i].p);
    }
}

static void run_blend(struct job *j)
{
    int step = 1 << j->c->d->chroma_shift_y;
    for (int y = 0; y < j->in->height; y += step)
        blend_rows(j, y, TACHY_MIN(step, j->in->height - y));
}

static void run_mask(struct job *j)
{
    struct tachy_composite *c = j->c;
    enum tachy_pix f = tachy_composite_mask_format(&c->params);
    const struct tachy_pix_desc *d = tachy_pix_desc(f);
    for (int y = 0; y < j->in->height; y++) {
        uint8_t *dst = j->dst[0] + y * j->stride[0];
        uint8_t *a = f == TACHY_PIX_GRAY8 ? dst : c->rows[0].p;
        alpha_row(j, y, a);
        if (a != dst)
            tachy_blend_row(c->k, d, dst, c->fill[0][0].p, c->fill[0][1].p, a, j->in->width);
    }
    for (int p = 1; p < d->planes; p++) {
        struct tachy_plane g = tachy_plane_of(d, p, j->in->width, j->in->height);
        for (int y = 0; y < g.h; y++)
            memcpy(j->dst[p] + y * j->stride[p], c->fill[p][0].p,
                   (size_t)g.w * (size_t)g.comps * d->bytes);
    }
}

static void run_alpha(struct job *j)
{
    struct tachy_composite *c = j->c;
    const uint8_t *alpha[2] = {c->rows[0].p, c->rows[1].p};
    for (int y = 0; y < j->in->height; y += 2) {
        int rows = TACHY_MIN(2, j->in->height - y);
        alpha_rows(j, y, rows);
        tachy_alpha_out_rows(&c->alpha_out, j->front, y, rows, alpha, j->dst, j->stride);
    }
}

int tachy_composite_alpha(struct tachy_composite *c, const tachy_frame *in, struct tachy_result *r,
                          const struct tachy_refine *refine, ptrdiff_t *stride)
{
    int err = tachy_frame_need_host(in, c->params.log, "composite");
    if (err == TACHY_OK)
        err = tachy_alpha_begin(&c->alpha, in, r, refine);
    if (err < 0)
        return err;
    *stride = full_stride(in->width);
    if (!tachy_buf_need(&c->full, (size_t)*stride * (size_t)in->height))
        return TACHY_ERR_NOMEM;
    for (int y = 0; y < in->height; y++)
        tachy_alpha_row(&c->alpha, y, (uint8_t *)c->full.p + y * *stride);
    for (int i = 0; err == TACHY_OK && c->params.grow != 0 && i < c->alpha.eyes; i++) { // eyes never mix
        const struct tachy_alpha_eye *e = &c->alpha.eye[i];
        err = tachy_alpha_grow((uint8_t *)c->full.p + e->y0 * *stride + e->x0, *stride, e->x1 - e->x0, e->y1 - e->y0,
                               c->params.grow, &c->grown);
    }
    return err;
}

// Preparations of a mode before its first row.
static int begin(struct job *j, struct tachy_result *r, const struct tachy_refine *refine)
{
    struct tachy_composite *c = j->c;
    const tachy_frame *b = j->background;
    ptrdiff_t stride = 0;
    int err = tachy_frame_need_host(j->in, c->params.log, "composite");
    if (err == TACHY_OK && b)
        err = tachy_frame_need_host(b, c->params.log, "composite's background");
    if (err == TACHY_OK)
        err = prepare(c, j->in);
    if (err < 0)
        return err;
    if (alpha_first(c))
        err = tachy_composite_alpha(c, j->in, r, refine, &stride);
    if (err == TACHY_OK && makes_front(c))
        err = make_front(j, stride);
    if (err < 0)
        return err;
    switch (c->params.mode) {
    case TACHY_MODE_BLUR:
        return tachy_blur_prepare(&c->blur, c->k, j->in, c->params.blur, c->full.p, stride);
    case TACHY_MODE_REPLACE:
        if (!b || b->format != j->in->format || b->width != j->in->width ||
            b->height != j->in->height)
            return tachy_fail(
                c->params.log, TACHY_ERR_INVAL,
                "composite: the background must have the format and size of the frame");
        break;
    case TACHY_MODE_ALPHA:
        err = tachy_alpha_out_prepare(&c->alpha_out, j->in, c->params.alpha_format);
        if (err < 0)
            return err;
        break;
    case TACHY_MODE_JSON:
        return tachy_fail(c->params.log, TACHY_ERR_STATE, "composite: mode json makes no picture");
    default:
        break;
    }
    return tachy_alpha_begin(&c->alpha, j->in, r, refine);
}

int tachy_composite_planes(tachy_composite *c, const tachy_frame *in, struct tachy_result *r,
                           const struct tachy_refine *refine, const tachy_frame *background,
                           uint8_t *const data[4], const ptrdiff_t stride[4])
{
    struct job j = {.c = c, .in = in, .front = in, .background = background};
    memcpy(j.dst, data, sizeof(j.dst));
    memcpy(j.stride, stride, sizeof(j.stride));
    int err = begin(&j, r, refine);
    if (err < 0)
        return err;
    j.out_x = c->params.mode == TACHY_MODE_SIDE_BY_SIDE ? in->width : 0;
    if (c->params.mode == TACHY_MODE_MASK)
        run_mask(&j);
    else if (c->params.mode == TACHY_MODE_ALPHA)
        run_alpha(&j);
    else
        run_blend(&j);
    r->coverage = (float)((double)j.counted / ((double)in->width * in->height));
    return TACHY_OK;
}

int tachy_composite_run(tachy_composite *c, const tachy_frame *in, struct tachy_result *r,
                        const struct tachy_refine *refine, const tachy_frame *background,
                        tachy_frame *out)
{
    struct tachy_video_info info = {
        .format = in->format, .width = in->width, .height = in->height, .color = in->color};
    struct tachy_video_info want;
    int err = tachy_composite_output(&c->params, &info, &want);
    if (err < 0)
        return err;
    if (out->format != want.format || out->width != want.width || out->height != want.height)
        return tachy_fail(c->params.log, TACHY_ERR_INVAL,
                          "composite: mode %s of %s %dx%d needs an output of %s %dx%d",
                          mode_name(c->params.mode), tachy_pix_desc(in->format)->name, in->width,
                          in->height, tachy_pix_desc(want.format)->name, want.width, want.height);
    err = tachy_frame_need_host(out, c->params.log, "composite's output");
    if (err < 0)
        return err;
    uint8_t *data[4] = {0};
    for (int i = 0; i < tachy_pix_desc(out->format)->planes; i++) {
        data[i] = tachy_frame_writable(out, i);
        if (!data[i])
            return tachy_fail(c->params.log, TACHY_ERR_STATE,
                              "composite: the output frame is shared or not ours");
    }
    return tachy_composite_planes(c, in, r, refine, background, data, out->stride);
}
