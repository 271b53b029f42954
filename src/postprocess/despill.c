#include "postprocess/chroma.h"

#include <math.h>

// A screen lights people with its colour, most of all near their edges. The component of the screen's hue beyond grey,
// by the keyer's measure (key.h), is removed from a colour's chroma there; luma stays. The effect fades to nothing
// inside, so that clothes keep their colour.

enum { CELL = 4, BESIDE = 3, ACROSS = 4 }; // pixels; distances of neighbouring cells (G. Borgefors, "Distance Transformations
                                           // in Digital Images", CVGIP 34, 1986)
#define DEPTH (1.0f / 30)                  // how far inside the edge that ends, as a share of the height

// The planes to change; only those of Y, U, V or R, G, B that change have one.
struct pixels {
    const struct tachy_pix_desc *d;
    uint8_t *at[3];
    int step; // samples from pixel to pixel
};

static struct pixels pixels_at(const struct tachy_front *f, int y)
{
    const struct tachy_pix_desc *d = f->d;
    struct pixels p = {.d = d};
    for (int plane = d->rgb ? 0 : 1; plane < TACHY_MIN(d->planes, 3); plane++)
        for (int i = 0; i < d->components[plane]; i++) {
            int c = tachy_component_at(f->frame.format, plane, i);
            if (c < 3)
                p.at[c] = f->data[plane] + y * f->frame.stride[plane] + i * d->bytes;
            p.step = d->components[plane];
        }
    return p;
}

static inline float get(const struct pixels *p, int c, int x)
{
    int at = x * p->step;
    return p->d->bytes == 2 ? (float)(((const uint16_t *)(void *)p->at[c])[at] >> p->d->shift) : (float)p->at[c][at];
}

static inline void put(const struct pixels *p, int c, int x, float v)
{
    int at = x * p->step, code = (int)(TACHY_CLAMP(v, 0.0f, (float)((1 << p->d->bits) - 1)) + 0.5f);
    if (p->d->bytes == 2)
        ((uint16_t *)(void *)p->at[c])[at] = (uint16_t)(code << p->d->shift);
    else
        p->at[c][at] = (uint8_t)code;
}

// How much of the screen's chroma, whose direction is (u, v), a colour has.
static inline float excess(float u, float v, const struct tachy_ycbcr *screen)
{
    float along = u * screen->u + v * screen->v, beside = v * screen->u - u * screen->v;
    return along - fabsf(beside) * TACHY_KEY_NARROW;
}

static void clean_yuv(const struct pixels *p, int x, const struct tachy_ycbcr *screen, float share)
{
    float grey = (float)(1 << (p->d->bits - 1)), u = get(p, 1, x) - grey, v = get(p, 2, x) - grey;
    float spill = share * excess(u, v, screen);
    if (spill <= 0)
        return;
    put(p, 1, x, grey + u - spill * screen->u);
    put(p, 2, x, grey + v - spill * screen->v);
}

static void clean_rgb(const struct pixels *p, int x, const struct tachy_ycbcr *screen, float share)
{
    const struct tachy_yuv_to_rgb m = tachy_yuv_to_rgb(1);
    double rgb[3];
    for (int c = 0; c < 3; c++)
        rgb[c] = (double)get(p, c, x);
    struct tachy_ycbcr own = tachy_ycbcr(rgb, 1);
    float spill = share * excess(own.u, own.v, screen), u = spill * screen->u, v = spill * screen->v;
    if (spill <= 0)
        return;
    put(p, 0, x, (float)rgb[0] - m.rv * v);
    put(p, 1, x, (float)rgb[1] + m.gu * u + m.gv * v);
    put(p, 2, x, (float)rgb[2] - m.bu * u);
}

// ---- How near the edge is ----

static bool is_inside(const uint8_t *alpha, ptrdiff_t stride, int w, int h)
{
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            if (alpha[y * stride + x] != 255)
                return false;
    return true;
}

// The least distance over the neighbour before, the three of the row before (NULL: none) and its own; `way`: 1 or -1.
static void sweep(uint16_t *row, const uint16_t *before, int w, int way)
{
    for (int k = 0, x = way > 0 ? 0 : w - 1; k < w; k++, x += way) {
        int least = row[x];
        if (k)
            least = TACHY_MIN(least, row[x - way] + BESIDE);
        if (before) {
            least = TACHY_MIN(least, before[x] + BESIDE);
            least = TACHY_MIN(least, before[TACHY_MAX(x - 1, 0)] + ACROSS);
            least = TACHY_MIN(least, before[TACHY_MIN(x + 1, w - 1)] + ACROSS);
        }
        row[x] = (uint16_t)least;
    }
}

// Distances of cells from the next one that is not all person.
static void measure(uint16_t *to, int w, int h, const tachy_frame *f, const uint8_t *alpha, ptrdiff_t stride)
{
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            to[y * w + x] = is_inside(alpha + y * CELL * stride + x * CELL, stride, TACHY_MIN(CELL, f->width - x * CELL),
                                      TACHY_MIN(CELL, f->height - y * CELL)) ? 30000 : 0;
    for (int y = 0; y < h; y++)
        sweep(to + y * w, y ? to + (y - 1) * w : NULL, w, 1);
    for (int y = h - 1; y >= 0; y--)
        sweep(to + y * w, y < h - 1 ? to + (y + 1) * w : NULL, w, -1);
}

// The shares of one row of cells, 1 at the edge, between the middles of two rows.
static void shares(float *to, const uint16_t *near, int w, int h, float row, float depth)
{
    float v = TACHY_CLAMP(row, 0, (float)(h - 1)), part = v - floorf(v), scale = 1 / (depth * BESIDE);
    const uint16_t *up = near + (int)v * w, *down = near + TACHY_MIN((int)v + 1, h - 1) * w;
    for (int x = 0; x < w; x++) {
        float d = ((float)up[x] + ((float)down[x] - (float)up[x]) * part) * scale;
        to[x] = d < 1 ? 1 - d : 0;
    }
    to[w] = to[w - 1];
}

float tachy_despill_depth(int height) { return TACHY_MAX(DEPTH * (float)height / CELL, 1); }

int tachy_despill(struct tachy_front *f, const struct tachy_ycbcr *screen, const uint8_t *alpha, ptrdiff_t stride)
{
    const tachy_frame *in = &f->frame;
    int w = (in->width + CELL - 1) / CELL, h = (in->height + CELL - 1) / CELL;
    size_t n = (size_t)w * (size_t)h;
    float length = hypotf(screen->u, screen->v), depth = tachy_despill_depth(in->height);
    if (length == 0 || (!f->d->rgb && f->d->planes == 1)) // grey has no hue
        return TACHY_OK;
    if (!tachy_buf_need(&f->near, ((size_t)w + 1) * sizeof(float) + n * sizeof(uint16_t)))
        return TACHY_ERR_NOMEM;
    float *share = f->near.p;
    uint16_t *near = (uint16_t *)(void *)(share + w + 1);
    const struct tachy_ycbcr way = {0, screen->u / length, screen->v / length};
    struct tachy_plane p = tachy_chroma_plane(in);
    int plane = f->d->rgb ? 0 : 1, sx = p.chroma ? f->d->chroma_shift_x : 0, sy = p.chroma ? f->d->chroma_shift_y : 0;
    measure(near, w, h, in, alpha, stride);
    for (int y = 0; y < p.h; y++) {
        const struct pixels at = pixels_at(f, y);
        const uint8_t *row = tachy_front_alpha(f, plane, y, alpha, stride);
        shares(share, near, w, h, ((float)y + 0.5f) * (float)(1 << sy) / CELL - 0.5f, depth);
        for (int x = 0; x < p.w; x++) {
            float u = TACHY_MAX(((float)x + 0.5f) * (float)(1 << sx) / CELL - 0.5f, 0), part = u - floorf(u);
            float v = share[(int)u] + (share[(int)u + 1] - share[(int)u]) * part;
            if (row[x] && v > 0)
                (f->d->rgb ? clean_rgb : clean_yuv)(&at, x, &way, v);
        }
    }
    return TACHY_OK;
}
