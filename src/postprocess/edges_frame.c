#include "postprocess/composite_priv.h"
#include "postprocess/edges.h"
#include "ref/ref_edges.h"

#include <math.h>

// From a frame and its mask to what is solved, and from the solution to rows of alpha.

enum { MOST_ROWS = 400 }; // of cells
// A cell is known outside the band: farther inside or outside than these shares of the subject's size (the root of its
// area) from where the mask is not sure.
#define INSIDE 0.03f
#define OUTSIDE 0.08f
#define SURE_BACK 0.05f
#define SURE_FORE 0.95f

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

// Where a component lies in the frame.
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

// The mean of the samples of each marked cell, 0..1.
static void take(const struct tachy_refine *r, const struct tachy_alpha_eye *e, const tachy_frame *f, int component,
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
            if (!*marks++) {
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

// The mask in the middle of each cell, 0..1.
static void take_alpha(const struct tachy_refine *r, const struct tachy_alpha_eye *e, const struct tachy_mask *m, float *to)
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

// Marks the unknown cells; the others' alpha becomes 0 or 1.
static void trimap(const struct tachy_refine *r, float *alpha, uint8_t *unknown, uint8_t *scratch)
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
    take_alpha(to, &e, mask, alpha);
    trimap(to, alpha, unknown, seen);
    memcpy(seen, unknown, n);
    tachy_edges_grow(seen, seen + n, to->width, to->height, 2 * TACHY_EDGES_RADIUS);
    for (int c = 0; c < 3; c++)
        take(to, &e, f, c, guide + (size_t)c * n, seen);
    return tachy_edges_solve(s, to->a, guide, alpha, unknown, to->width, to->height);
}

// ---- Rows ----

// Between the middles of two cells the fit changes linearly. A row's fit: three slopes and the offset for each cell, and
// one cell more at both ends.
struct row {
    const struct tachy_refine *r;
    float *fit[4];
    float *colour[3]; // of the pixels; where nothing has a slope, they are not read
};

size_t tachy_edges_row_scratch(const struct tachy_refine *r)
{
    return (4 * ((size_t)r->width + 2) + 3 * ((size_t)r->width + 1) * (size_t)r->cell) * sizeof(float);
}

static void lerp_rows(struct row *w, int y)
{
    const struct tachy_refine *r = w->r;
    float v = ((float)y + 0.5f) / (float)r->cell - 0.5f;
    v = TACHY_CLAMP(v, 0, (float)(r->height - 1));
    size_t up = (size_t)v, down = TACHY_MIN(up + 1, (size_t)r->height - 1), n = (size_t)r->width;
    float fy = v - (float)up;
    for (size_t c = 0; c < 4; c++) {
        const float *a = r->a + c * n * (size_t)r->height + up * n, *b = r->a + c * n * (size_t)r->height + down * n;
        float *to = w->fit[c] + 1;
        for (size_t x = 0; x < n; x++)
            to[x] = a[x] + (b[x] - a[x]) * fy;
        to[-1] = to[0];
        to[n] = to[n - 1];
    }
}

static void take_colours(struct row *w, const tachy_frame *f, int x0, int y, int first, int last)
{
    float unit = 1.0f / (float)((1 << tachy_pix_desc(f->format)->bits) - 1);
    for (int k = 0; k < 3; k++) {
        struct component c;
        bool has = component_of(&c, f, k);
        const uint8_t *row = has ? c.row + (y >> c.sy) * c.stride : NULL;
        for (int x = first; x < last; x++)
            w->colour[k][x] = has ? (float)sample(&c, row, (x0 + x) >> c.sx) * unit : 0;
    }
}

static bool slopes(const struct row *w, int cell)
{
    return w->fit[0][cell] != 0 || w->fit[1][cell] != 0 || w->fit[2][cell] != 0;
}

static inline int16_t word(float v) { return (int16_t)(TACHY_CLAMP(v, 0, 1) * 32640.0f + 0.5f); }

// Pixels first..last - 1, which lie between the middles of cell - 1 and cell (counted with the one more).
static void segment(const struct row *w, int cell, int begin, int first, int last, int16_t *dst)
{
    float step = 1.0f / (float)w->r->cell;
    float f[4], d[4];
    for (int c = 0; c < 4; c++) {
        f[c] = w->fit[c][cell];
        d[c] = (w->fit[c][cell + 1] - f[c]) * step;
    }
    for (int x = first; x < last; x++) {
        float t = (float)(x - begin) + 0.5f;
        dst[x] = word((f[0] + d[0] * t) * w->colour[0][x] + (f[1] + d[1] * t) * w->colour[1][x] +
                      (f[2] + d[2] * t) * w->colour[2][x] + f[3] + d[3] * t);
    }
}

static void plain(const struct row *w, int cell, int begin, int first, int last, int16_t *dst)
{
    float a = w->fit[3][cell], d = (w->fit[3][cell + 1] - a) / (float)w->r->cell;
    for (int x = first; x < last; x++)
        dst[x] = word(a + d * ((float)(x - begin) + 0.5f));
}

void tachy_edges_row(const struct tachy_refine *r, const tachy_frame *f, int x0, int y0, int x1, int y, int16_t *dst,
                     void *scratch)
{
    struct row w = {.r = r};
    float *next = scratch;
    for (int c = 0; c < 4; c++, next += r->width + 2)
        w.fit[c] = next;
    for (int c = 0; c < 3; c++, next += (r->width + 1) * r->cell)
        w.colour[c] = next;
    lerp_rows(&w, y - y0);
    int n = x1 - x0, read = 0; // colours are there up to column `read`
    for (int cell = 0; cell <= r->width; cell++) {
        int begin = cell * r->cell - r->cell / 2, first = TACHY_MAX(begin, 0), last = TACHY_MIN(begin + r->cell, n);
        if (!slopes(&w, cell) && !slopes(&w, cell + 1)) {
            plain(&w, cell, begin, first, last, dst);
            continue;
        }
        if (read < last) { // those of all pixels that need them from here on without a gap
            int end = cell;
            while (end < r->width && (slopes(&w, end + 1) || slopes(&w, end + 2 <= r->width + 1 ? end + 2 : end + 1)))
                end++;
            read = TACHY_MIN(end * r->cell + r->cell / 2, n);
            take_colours(&w, f, x0, y, first, read);
        }
        segment(&w, cell, begin, first, last, dst);
    }
}
