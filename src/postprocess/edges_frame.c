#include "postprocess/composite_priv.h"
#include "postprocess/edges_priv.h"
#include "ref/ref_edges.h"

#include <math.h>

typedef int16_t words __attribute__((vector_size(2 * BLOCK)));
typedef words words_at __attribute__((aligned(2), may_alias));
typedef int32_t whole __attribute__((may_alias)); // a float's bits

// From a frame and its mask to what is solved, and from the solution to rows of alpha.

enum { MOST_ROWS = 400 }; // of cells
// A cell is known outside the band: if it is farther inside or outside of the uncertain area than these shares of the
// subject's size (the root of its area).
#define INSIDE 0.03f
#define OUTSIDE 0.08f
#define SURE_BACK 0.05f
#define SURE_FORE 0.95f
// If a mask is as fine as the cells, the solution starts from a mask that is wider by this share: a sharp mask leaves
// hair out, which few steps do not bring back.
#define FARTHER 0.006f

int tachy_edges_cell(const tachy_frame *f)
{
    int cell = 4;
    while (f->height / cell > MOST_ROWS)
        cell *= 2;
    return cell;
}

// The region's part inside the frame.
static struct tachy_alpha_eye clipped(const tachy_frame *f, const struct tachy_rect *region)
{
    struct tachy_alpha_eye e = {.mask.region = *region};
    tachy_alpha_clip(&e, f->width, f->height);
    return e;
}

void tachy_edges_size(const tachy_frame *f, const struct tachy_rect *region, int *width, int *height)
{
    struct tachy_alpha_eye e = clipped(f, region);
    int cell = tachy_edges_cell(f);
    *width = (e.x1 - e.x0 + cell - 1) / cell;
    *height = (e.y1 - e.y0 + cell - 1) / cell;
}

// ---- Colours ----

// Location of a component in the frame.
struct component {
    const uint8_t *row;
    ptrdiff_t stride;
    int sx, sy, step, shift, bytes, w, h; // step: samples from pixel to pixel
};

// Component c (Y U V, R G B) of a frame; false: it has none.
static bool component_of(struct component *to, const tachy_frame *f, int c)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    for (int p = 0; p < d->planes; p++)
        for (int i = 0; i < d->components[p]; i++) {
            if (tachy_component_at(f->format, p, i) != c)
                continue;
            struct tachy_plane plane = tachy_plane_of(d, p, f->width, f->height);
            bool chroma = !d->rgb && (p == 1 || p == 2);
            *to = (struct component){f->data[p] + i * d->bytes, f->stride[p], chroma ? d->chroma_shift_x : 0,
                chroma ? d->chroma_shift_y : 0, plane.comps, d->shift, d->bytes, plane.w, plane.h};
            return true;
        }
    return false;
}

static inline int sample(const struct component *c, const uint8_t *row, int x)
{
    return c->bytes == 2 ? ((const uint16_t *)(const void *)row)[x * c->step] >> c->shift : row[x * c->step];
}

// The sum of n samples from x on.
static inline int sum_of(const struct component *c, const uint8_t *row, int x, int n)
{
    int sum = 0;
    if (c->bytes == 1 && c->step == 1)
        for (int i = x; i < x + n; i++)
            sum += row[i];
    else
        for (int i = x; i < x + n; i++)
            sum += sample(c, row, i);
    return sum;
}

void tachy_edges_means(const struct tachy_refine *r, const struct tachy_alpha_eye *e, const tachy_frame *f, int component,
                       float *to, const uint8_t *marks)
{
    struct component c;
    if (!component_of(&c, f, component)) {
        memset(to, 0, (size_t)r->width * (size_t)r->height * sizeof(float));
        return;
    }
    float unit = 1.0f / (float)((1 << tachy_pix_desc(f->format)->bits) - 1);
    for (int cy = 0; cy < r->height; cy++) {
        int y0 = TACHY_MIN((e->y0 + cy * r->cell) >> c.sy, c.h - 1);
        int y1 = TACHY_CLAMP((TACHY_MIN(e->y0 + (cy + 1) * r->cell, e->y1)) >> c.sy, y0 + 1, c.h);
        for (int cx = 0; cx < r->width; cx++, to++) {
            if (marks && !*marks++) {
                *to = 0;
                continue;
            }
            int x0 = TACHY_MIN((e->x0 + cx * r->cell) >> c.sx, c.w - 1), sum = 0;
            int x1 = TACHY_CLAMP((TACHY_MIN(e->x0 + (cx + 1) * r->cell, e->x1)) >> c.sx, x0 + 1, c.w);
            for (int y = y0; y < y1; y++)
                sum += sum_of(&c, c.row + y * c.stride, x0, x1 - x0);
            *to = (float)sum * unit / (float)((x1 - x0) * (y1 - y0));
        }
    }
}

// ---- The band ----

void tachy_edges_alpha(const struct tachy_refine *r, const struct tachy_alpha_eye *e, const struct tachy_mask *m, float *to)
{
    const struct tachy_rect *g = &m->region;
    float half = 0.5f * (float)r->cell;
    for (int cy = 0; cy < r->height; cy++) {
        float v = ((float)(e->y0 + cy * r->cell - g->y) + half) * (float)m->height / (float)g->h - 0.5f;
        v = TACHY_CLAMP(v, 0, (float)(m->height - 1));
        int y = TACHY_MIN((int)v, m->height - 2 < 0 ? 0 : m->height - 2);
        const uint8_t *up = m->data + y * m->stride, *down = m->data + TACHY_MIN(y + 1, m->height - 1) * m->stride;
        float fy = v - (float)y, scale = (float)m->width / (float)g->w;
        for (int cx = 0; cx < r->width; cx++, to++) {
            float u = ((float)(e->x0 + cx * r->cell - g->x) + half) * scale - 0.5f;
            u = TACHY_CLAMP(u, 0, (float)(m->width - 1));
            int x = (int)u, next = TACHY_MIN(x + 1, m->width - 1);
            float fx = u - (float)x, a = (float)up[x] + ((float)up[next] - (float)up[x]) * fx;
            float b = (float)down[x] + ((float)down[next] - (float)down[x]) * fx;
            *to = (a + (b - a) * fy) * (1.0f / 255);
        }
    }
}

// Each cell's alpha becomes the largest of those at most `by` rows and columns away.
static void spread(float *alpha, float *rows, int w, int h, int by)
{
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            float most = 0;
            for (int i = TACHY_MAX(x - by, 0); i <= TACHY_MIN(x + by, w - 1); i++)
                most = TACHY_MAX(most, alpha[(ptrdiff_t)y * w + i]);
            rows[(ptrdiff_t)y * w + x] = most;
        }
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            float most = 0;
            for (int i = TACHY_MAX(y - by, 0); i <= TACHY_MIN(y + by, h - 1); i++)
                most = TACHY_MAX(most, rows[(ptrdiff_t)i * w + x]);
            alpha[(ptrdiff_t)y * w + x] = most;
        }
}

// Marks the unknown cells; the others' alpha becomes 0 or 1. `fine`: the mask is as fine as the cells. `rows`: a plane of scratch.
static void trimap(const struct tachy_refine *r, bool fine, float *alpha, uint8_t *unknown, uint8_t *scratch, float *rows)
{
    size_t n = (size_t)r->width * (size_t)r->height;
    uint8_t *soft = scratch + n;
    int area = 0;
    for (size_t i = 0; i < n; i++) {
        unknown[i] = alpha[i] > SURE_BACK; // becomes: not surely background
        soft[i] = alpha[i] < SURE_FORE;    // becomes: not surely foreground
        area += alpha[i] > 0.5f;
    }
    float size = sqrtf((float)area);
    tachy_edges_grow(unknown, scratch, r->width, r->height, (int)(OUTSIDE * size + 0.5f));
    tachy_edges_grow(soft, scratch, r->width, r->height, (int)(INSIDE * size + 0.5f));
    int farther = fine ? (int)(FARTHER * size + 0.5f) : 0;
    if (farther)
        spread(alpha, rows, r->width, r->height, farther);
    for (size_t i = 0; i < n; i++) {
        alpha[i] = !unknown[i] ? 0 : !soft[i] ? 1 : alpha[i];
        unknown[i] &= soft[i];
    }
}

int tachy_edges_fit(struct tachy_edges *s, struct tachy_refine *to, const tachy_frame *f, const struct tachy_mask *mask)
{
    size_t n = (size_t)to->width * (size_t)to->height;
    if (!tachy_buf_need(&s->planes, 4 * n * sizeof(float) + 4 * n))
        return TACHY_ERR_NOMEM;
    struct tachy_alpha_eye e = clipped(f, &mask->region);
    float *guide = s->planes.p, *alpha = guide + 3 * n;
    uint8_t *unknown = (uint8_t *)(alpha + n), *seen = unknown + n;
    tachy_edges_alpha(to, &e, mask, alpha);
    bool fine = mask->region.w <= mask->width * to->cell && mask->region.h <= mask->height * to->cell;
    trimap(to, fine, alpha, unknown, seen, guide);
    memcpy(seen, unknown, n);
    tachy_edges_grow(seen, seen + n, to->width, to->height, 2 * TACHY_EDGES_RADIUS);
    for (int c = 0; c < 3; c++)
        tachy_edges_means(to, &e, f, c, guide + (size_t)c * n, seen);
    return tachy_edges_solve(s, to->a, guide, alpha, unknown, to->width, to->height);
}

// ---- Rows ----

// A row at work. Between the middles of two cells, a gap, the fit changes linearly: gap g lies between cells g and g + 1 of
// `fit`, which holds three slopes and the offset of each cell on this row, with the first one again before it and the last
// one twice after it. Gap 0 begins half a cell before the region, at the first of `colour`.
struct row {
    const struct tachy_refine *r;
    struct component of[3]; // row NULL: the frame does not have it
    int x0, n, y;           // n pixels from column x0 of the frame on; y: row of the region
    float unit;
    float *fit[4], *colour[3], *half; // colours are read for gaps with a slope; half: chroma as stored
    uint8_t *sloped;                  // of each cell of `fit`: 0 or 1
    int16_t *dst;
};

static size_t cells_of(const struct tachy_refine *r) { return (size_t)r->width + 3; }
static size_t pixels_of(const struct tachy_refine *r) { return ((size_t)r->width + 1) * (size_t)r->cell + 2 * BLOCK; }

size_t tachy_edges_row_scratch(const struct tachy_refine *r)
{
    return (4 * cells_of(r) + 4 * pixels_of(r)) * sizeof(float) + cells_of(r);
}

INLINE void lerp_rows(const struct row *w)
{
    const struct tachy_refine *r = w->r;
    float v = ((float)w->y + 0.5f) / (float)r->cell - 0.5f;
    v = TACHY_CLAMP(v, 0, (float)(r->height - 1));
    size_t up = (size_t)v, down = TACHY_MIN(up + 1, (size_t)r->height - 1), n = (size_t)r->width;
    float fy = v - (float)up;
    for (size_t c = 0; c < 4; c++) {
        const float *a = r->a + c * n * (size_t)r->height + up * n, *b = r->a + c * n * (size_t)r->height + down * n;
        float *restrict to = w->fit[c] + 1;
        for (size_t x = 0; x < n; x++)
            to[x] = a[x] + (b[x] - a[x]) * fy;
        to[-1] = to[0];
        to[n] = to[n + 1] = to[n - 1];
    }
    const whole *a = (whole *)w->fit[0], *b = (whole *)w->fit[1], *d = (whole *)w->fit[2];
    for (size_t x = 0; x < n + 3; x++)
        w->sloped[x] = ((a[x] | b[x] | d[x]) & INT32_MAX) != 0; // -0 is 0
}

// n samples from `first` on.
INLINE void widen(float *restrict to, const struct component *c, int first, int n, float unit)
{
    const uint16_t *wide = (const void *)c->row;
    const uint8_t *bytes = c->row;
    if (c->bytes == 2)
        for (int i = 0; i < n; i++)
            to[i] = (float)(wide[(first + i) * c->step] >> c->shift) * unit;
    else if (c->step == 1)
        for (int i = 0; i < n; i++)
            to[i] = (float)bytes[first + i] * unit;
    else if (c->step == 2)
        for (int i = 0; i < n; i++)
            to[i] = (float)bytes[2 * (first + i)] * unit;
    else
        for (int i = 0; i < n; i++)
            to[i] = (float)bytes[(first + i) * c->step] * unit;
}

// The colours of pixels first..last - 1 of the region, and of those that share a sample of chroma with them.
INLINE void take_colours(const struct row *w, int first, int last)
{
    for (int k = 0; k < 3; k++) {
        const struct component *c = &w->of[k];
        float *restrict to = w->colour[k] + w->r->cell / 2 + first;
        int x = w->x0 + first, n = last - first;
        if (!c->row) {
            memset(to, 0, (size_t)n * sizeof(float));
        } else if (!c->sx) {
            widen(to, c, x, n, w->unit);
        } else {
            const float *restrict half = w->half;
            int samples = ((x + n - 1) >> 1) - (x >> 1) + 1;
            widen(w->half, c, x >> 1, samples, w->unit);
            to -= x & 1;
            for (int i = 0; i < samples; i++)
                to[2 * i] = to[2 * i + 1] = half[i];
        }
    }
}

// For BLOCK pixels of gap g, and of the next gap if that is shorter: the fit's value c, t pixels after its cell's
// middle. Vectors are passed by address, since without AVX none fits a register.
INLINE void value_at(vec *to, const struct row *w, int c, int g, const vec *t)
{
    const float *fit = w->fit[c] + g;
    float a = fit[0], b = fit[1], e = fit[2];
    _Static_assert(BLOCK == 8, "two gaps of four");
    if (w->r->cell < BLOCK)
        *to = (vec){a, a, a, a, b, b, b, b} + (vec){b - a, b - a, b - a, b - a, e - b, e - b, e - b, e - b} * 0.25f * *t;
    else
        *to = a + (b - a) / (float)w->r->cell * *t;
}

INLINE void store_words(const struct row *w, int x, const vec *value)
{
    vec none = {0}, all = none + 1, v = CHOOSE(*value > none, *value, none);
    words word = __builtin_convertvector(__builtin_convertvector(CHOOSE(v < all, v, all) * 32640.0f + 0.5f, bits), words);
    int first = TACHY_MAX(-x, 0), last = TACHY_MIN(BLOCK, w->n - x);
    if (first == 0 && last == BLOCK)
        *(words_at *)(w->dst + x) = word;
    else
        for (int i = first; i < last; i++)
            w->dst[x + i] = word[i];
}

// Gaps g..end - 1 between cells of the same alpha and no slope.
INLINE void fill(const struct row *w, int g, int end)
{
    int cell = w->r->cell, first = TACHY_MAX(g * cell - cell / 2, 0), last = TACHY_MIN(end * cell - cell / 2, w->n);
    float v = w->fit[3][g];
    int16_t word = (int16_t)(TACHY_CLAMP(v, 0, 1) * 32640.0f + 0.5f);
    for (int x = first; x < last; x++)
        w->dst[x] = word;
}

// Gaps g..end - 1, and perhaps one more, which is written again later.
INLINE void evaluate(const struct row *w, int g, int end, bool sloped)
{
    int cell = w->r->cell, gaps = cell < BLOCK ? BLOCK / cell : 1;
    float next = cell < BLOCK ? 0.5f : 4.5f; // position of the second half of a block
    const vec pixel = {0.5f, 1.5f, 2.5f, 3.5f, next, next + 1, next + 2, next + 3};
    for (; g < end; g += gaps)
        for (int k = 0; k < cell; k += BLOCK) {
            int at = g * cell + k;
            vec t = pixel + (float)k, v, slope;
            value_at(&v, w, 3, g, &t);
            for (int c = 2; sloped && c >= 0; c--) {
                value_at(&slope, w, c, g, &t);
                v += slope * AT(w->colour[c] + at);
            }
            store_words(w, at - cell / 2, &v);
        }
}

// Kind of a gap: alpha is constant, depends only on the position, or also on colours.
enum kind { FLAT, RISING, SLOPED };

INLINE enum kind kind_of(const struct row *w, int g)
{
    return w->sloped[g] | w->sloped[g + 1] ? SLOPED : w->fit[3][g] != w->fit[3][g + 1] ? RISING : FLAT;
}

INLINE void whole_row(const struct row *w)
{
    int gaps = w->r->width + 1, cell = w->r->cell;
    lerp_rows(w);
    for (int g = 0, end; g < gaps; g = end) {
        enum kind kind = kind_of(w, g);
        for (end = g + 1; end < gaps && kind_of(w, end) == kind; end++)
            continue;
        if (kind == SLOPED)
            take_colours(w, TACHY_MAX(g * cell - cell / 2, 0), TACHY_MIN(end * cell - cell / 2, w->n));
        if (kind == FLAT)
            fill(w, g, end);
        else
            evaluate(w, g, end, kind == SLOPED);
    }
}

TACHY_CPU_BEST(whole_row, const struct row *)

void tachy_edges_row(const struct tachy_refine *r, const tachy_frame *f, int x0, int y0, int x1, int y, int16_t *dst,
                     void *scratch)
{
    struct row w = {.r = r, .x0 = x0, .n = x1 - x0, .y = y - y0, .dst = dst,
                    .unit = 1.0f / (float)((1 << tachy_pix_desc(f->format)->bits) - 1)};
    float *next = scratch;
    for (int c = 0; c < 4; c++, next += cells_of(r))
        w.fit[c] = next;
    for (int c = 0; c < 3; c++, next += pixels_of(r))
        w.colour[c] = next;
    w.half = next;
    w.sloped = (uint8_t *)(next + pixels_of(r));
    for (int c = 0; c < 3; c++)
        if (component_of(&w.of[c], f, c))
            w.of[c].row += (y >> w.of[c].sy) * w.of[c].stride;
    whole_row_best(&w);
}
