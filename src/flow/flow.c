#include "flow/flow.h"

#include "flow/patch.h"
#include "flow/variational.h"

#include <stdlib.h>

// Dense inverse search (Kroeger et al. 2016, "Fast Optical Flow using Dense Inverse Search"), from the coarsest level of a pyramid to the finest: patches of 8 x 8 pixels on a grid begin at the flow of the
// coarser level or at what their neighbours found, and search; each pixel then takes the weighted mean of its patches.

enum { LEAST = 2 * FLOW_PATCH, LEVELS = FLOW_LEVELS_MOST - 16 };

struct tachy_flow {
    int width, height;
    int finest;                      // halvings before the finest level
    int levels;                      // that are searched; 0: the picture is smaller than a patch
    struct flow_level level[FLOW_LEVELS_MOST]; // halvings 0 to finest + levels - 1
    float *u, *v, *weight;           // of the current level, dense
    float *coarse_u, *coarse_v;      // of the one before
    struct flow_vector *grid;        // of the patches of the current level
    struct flow_variational *refine; // NULL: levels stay as the search leaves them
};

static size_t padded(const struct flow_level *l) { return (size_t)(l->height + 2 * FLOW_PAD) * (size_t)l->stride; }

static float *level_plane(const struct flow_level *l)
{
    float *p = tachy_aligned_alloc(padded(l) * sizeof(float));
    return p ? p + FLOW_PAD * l->stride + FLOW_PAD : NULL;
}

static void free_plane(const struct flow_level *l, float *p)
{
    if (p)
        tachy_aligned_free(p - FLOW_PAD * l->stride - FLOW_PAD);
}

static bool open_levels(tachy_flow *f)
{
    int n = f->levels ? f->finest + f->levels : 0;
    bool whole = true;
    for (int i = 0; i < n && whole; i++) {
        struct flow_level *l = &f->level[i];
        int w = f->width >> i;
        *l = (struct flow_level){.width = w, .height = f->height >> i, .stride = FLOW_STRIDE(w)};
        whole = (l->here = level_plane(l)) && (l->there = level_plane(l));
    }
    return whole;
}

// Halvings before the finest level that is searched, which has room for a patch if the picture has.
static int finest_of(int width, int height, enum tachy_flow_detail detail)
{
    int n = 0, most = detail == TACHY_FLOW_PICTURE ? 1 : 16;
    int least = detail == TACHY_FLOW_PICTURE ? LEAST : FLOW_PATCH;
    while (n < most && TACHY_MAX(width, height) >> n > TACHY_FLOW_FINEST && TACHY_MIN(width, height) >> (n + 1) >= least)
        n++;
    return n;
}

int flow_levels(int width, int height, enum tachy_flow_detail detail, int *finest)
{
    int n = *finest = finest_of(width, height, detail);
    if (width >> n < FLOW_PATCH || height >> n < FLOW_PATCH)
        return 0;
    for (n++; n < *finest + LEVELS && width >> n >= LEAST && height >> n >= LEAST; n++)
        continue;
    return n - *finest;
}

int tachy_flow_open(tachy_flow **out, int width, int height, enum tachy_flow_detail detail)
{
    *out = NULL;
    if (width < 1 || height < 1 || width > 65535 || height > 65535)
        return TACHY_ERR_INVAL;
    tachy_flow *f = calloc(1, sizeof(*f));
    if (!f)
        return TACHY_ERR_NOMEM;
    f->width = width;
    f->height = height;
    f->levels = flow_levels(width, height, detail, &f->finest);
    const struct flow_level *l = &f->level[f->finest];
    bool whole = open_levels(f);
    size_t n = (size_t)l->width * (size_t)l->height * sizeof(float);
    whole = !f->levels || (whole && (f->u = tachy_aligned_alloc(n)) && (f->v = tachy_aligned_alloc(n)) &&
            (f->weight = tachy_aligned_alloc(n)) && (f->coarse_u = tachy_aligned_alloc(n)) &&
            (f->coarse_v = tachy_aligned_alloc(n)) && (f->grid = tachy_aligned_alloc(2 * n)));
    if (whole && detail == TACHY_FLOW_PICTURE && f->levels)
        whole = (f->refine = flow_variational_open(l->width, l->height)) != NULL;
    if (!whole) {
        tachy_flow_close(&f);
        return TACHY_ERR_NOMEM;
    }
    *out = f;
    return TACHY_OK;
}

void tachy_flow_close(tachy_flow **pf)
{
    tachy_flow *f = *pf;
    *pf = NULL;
    if (!f)
        return;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(f->level); i++) {
        free_plane(&f->level[i], f->level[i].here);
        free_plane(&f->level[i], f->level[i].there);
    }
    float *planes[] = {f->u, f->v, f->weight, f->coarse_u, f->coarse_v};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(planes); i++)
        tachy_aligned_free(planes[i]);
    tachy_aligned_free(f->grid);
    flow_variational_close(&f->refine);
    free(f);
}

// ---- Pyramids ----

static void repeat_edges(const struct flow_level *l, float *p)
{
    size_t row = (size_t)(l->width + 2 * FLOW_PAD) * sizeof(float);
    for (int y = 0; y < l->height; y++)
        for (int i = 1; i <= FLOW_PAD; i++) {
            p[y * l->stride - i] = p[y * l->stride];
            p[y * l->stride + l->width - 1 + i] = p[y * l->stride + l->width - 1];
        }
    for (int i = 1; i <= FLOW_PAD; i++) {
        memcpy(p - i * l->stride - FLOW_PAD, p - FLOW_PAD, row);
        memcpy(p + (l->height - 1 + i) * l->stride - FLOW_PAD, p + (l->height - 1) * l->stride - FLOW_PAD, row);
    }
}

static void halve(const struct flow_level *to, float *p, const struct flow_level *from, const float *q)
{
    for (int y = 0; y < to->height; y++)
        for (int x = 0; x < to->width; x++) {
            const float *a = q + 2 * y * from->stride + 2 * x, *b = a + from->stride;
            p[y * to->stride + x] = 0.25f * ((a[0] + a[1]) + (b[0] + b[1]));
        }
    repeat_edges(to, p);
}

static void fill(tachy_flow *f, const uint8_t *here, const uint8_t *there)
{
    const struct flow_level *l = f->level;
    for (int y = 0; y < l->height; y++)
        for (int x = 0; x < l->width; x++) {
            l->here[y * l->stride + x] = here[(size_t)y * (size_t)l->width + (size_t)x];
            l->there[y * l->stride + x] = there[(size_t)y * (size_t)l->width + (size_t)x];
        }
    repeat_edges(l, l->here);
    repeat_edges(l, l->there);
    for (int i = 1; i < f->finest + f->levels; i++) {
        halve(l + i, l[i].here, l + i - 1, l[i - 1].here);
        halve(l + i, l[i].there, l + i - 1, l[i - 1].there);
    }
}

// ---- Search ----

static void search_level(tachy_flow *f, const struct flow_level *l, const struct flow_level *coarse)
{
    flow_search_run(&(struct flow_search){
        .level = l, .coarse_width = coarse ? coarse->width : 0, .coarse_height = coarse ? coarse->height : 0,
        .coarse_u = f->coarse_u, .coarse_v = f->coarse_v, .grid = f->grid, .u = f->u, .v = f->v, .weight = f->weight});
}

static void swap(float **a, float **b)
{
    float *t = *a;
    *a = *b;
    *b = t;
}

// The value at a place between two pixels of a row.
static float stretched(const float *row, int w, float at)
{
    at = TACHY_CLAMP(at, 0.0f, (float)(w - 1));
    int left = (int)at;
    return row[left] + (at - (float)left) * (row[TACHY_MIN(left + 1, w - 1)] - row[left]);
}

void flow_stretch(const float *from, int finest, int width, int height, int every, float *row, float *to)
{
    int w = width >> finest, h = height >> finest, n = (width + every - 1) / every;
    float scale = (float)(1 << finest), step = 1 / scale, first = 0.5f * step - 0.5f;
    int apart = finest ? every >> finest : 0; // pixels of the level, if all that are wanted lie alike between two of them
    for (int y = 0; y < height; y += every, to += n) {
        float at = TACHY_CLAMP((float)y * step + first, 0.0f, (float)(h - 1));
        int top = (int)at, low = TACHY_MIN(top + 1, h - 1);
        float b = at - (float)top;
        for (int x = 0; x < w; x++)
            row[x] = scale * (from[top * w + x] * (1 - b) + from[low * w + x] * b);
        int x = 0;
        if (apart) {
            to[x++] = row[0];
            for (; x * apart < w; x++)
                to[x] = row[x * apart - 1] + (1 + first) * (row[x * apart] - row[x * apart - 1]);
        }
        for (; x < n; x++)
            to[x] = stretched(row, w, (float)(x * every) * step + first);
    }
}

void tachy_flow_run(tachy_flow *f, const uint8_t *here, const uint8_t *there, float *u, float *v)
{
    size_t n = (size_t)f->width * (size_t)f->height;
    if (!f->levels) {
        memset(u, 0, n * sizeof(float));
        memset(v, 0, n * sizeof(float));
        return;
    }
    fill(f, here, there);
    for (int i = f->levels - 1; i >= 0; i--) {
        const struct flow_level *l = &f->level[f->finest + i];
        search_level(f, l, i < f->levels - 1 ? l + 1 : NULL);
        if (f->refine)
            flow_variational_run(f->refine, l, f->u, f->v);
        swap(&f->u, &f->coarse_u);
        swap(&f->v, &f->coarse_v);
    }
    flow_stretch(f->coarse_u, f->finest, f->width, f->height, 1, f->weight, u); // the weights have done their work
    flow_stretch(f->coarse_v, f->finest, f->width, f->height, 1, f->weight, v);
}
