#include "inpaint/parts.h"

#include "base/base.h"

#include <math.h>
#include <stdlib.h>

// Filling by patches. A level of the pyramid is a picture with its hole. A patch is a square of SIDE pixels that lies inside the
// picture; a source is one without any pixel of the hole, a target one with some. The field says which source each target takes.

enum { REACH = 3, SIDE = 2 * REACH + 1, LEVELS_MOST = 12, SMALLEST = 4 * SIDE };
enum { ROUNDS_FIRST = 12, ROUNDS = 5, SWEEPS = 2, NOBODY = -1 };

struct level {
    int width, height;
    uint8_t *pixels; // FILL_BYTES per pixel
    uint8_t *hole;
    uint8_t *source;  // of the middle pixel: the patch is a source
    int *target;      // middle pixels of the targets, in order
    int nb_targets;
    int *sources;     // middle pixels of the sources, in order
    int nb_sources;
    int *field;       // by middle pixel, of targets: the source's middle pixel
    uint32_t *cost;   // by middle pixel: sum of squared differences
    float *trust;     // of a pixel of the hole: less, the deeper it lies
};

static void level_free(struct level *l)
{
    free(l->pixels);
    free(l->hole);
    free(l->source);
    free(l->target);
    free(l->sources);
    free(l->field);
    free(l->cost);
    free(l->trust);
}

// ---- Levels ----

// Finds sources, targets and trust from pixels and hole. Returns the greatest depth, or a negative code.
static int prepare(struct level *l)
{
    int w = l->width, h = l->height, n = w * h, deepest = 0;
    l->source = calloc((size_t)n, 1);
    l->target = malloc((size_t)n * sizeof(int));
    l->sources = malloc((size_t)n * sizeof(int));
    l->field = malloc((size_t)n * sizeof(int));
    l->cost = malloc((size_t)n * sizeof(uint32_t));
    l->trust = malloc((size_t)n * sizeof(float));
    uint8_t *near = malloc((size_t)n), *rows = malloc((size_t)n);
    int err = l->source && l->target && l->sources && l->field && l->cost && l->trust && near && rows ? TACHY_OK : TACHY_ERR_NOMEM;
    if (err == TACHY_OK) {
        fill_grow(l->hole, w, h, REACH, near, rows);
        deepest = fill_depths(l->hole, w, h, l->field);
        for (int i = 0; i < n; i++) {
            l->trust[i] = powf(1.25f, -(float)TACHY_MIN(l->field[i], 60));
            l->field[i] = NOBODY;
        }
        for (int y = REACH; y < h - REACH; y++)
            for (int x = REACH; x < w - REACH; x++) {
                int i = y * w + x;
                l->source[i] = !near[i];
                if (near[i])
                    l->target[l->nb_targets++] = i;
                else
                    l->sources[l->nb_sources++] = i;
            }
    }
    free(near);
    free(rows);
    return err < 0 ? err : deepest;
}

// Half the size: the mean of the known ones of four pixels, if two are known.
static int halve(struct level *to, const struct level *from)
{
    *to = (struct level){.width = from->width / 2, .height = from->height / 2};
    to->pixels = calloc((size_t)to->width * (size_t)to->height, FILL_BYTES);
    to->hole = calloc((size_t)to->width * (size_t)to->height, 1);
    if (!to->pixels || !to->hole)
        return TACHY_ERR_NOMEM;
    for (int y = 0; y < to->height; y++)
        for (int x = 0; x < to->width; x++) {
            int sum[3] = {0}, n = 0, at = y * to->width + x;
            for (int k = 0; k < 4; k++) {
                int i = (2 * y + k / 2) * from->width + 2 * x + k % 2;
                if (from->hole[i])
                    continue;
                n++;
                for (int c = 0; c < 3; c++)
                    sum[c] += from->pixels[FILL_BYTES * i + c];
            }
            to->hole[at] = n < 2;
            for (int c = 0; c < 3; c++)
                to->pixels[FILL_BYTES * at + c] = (uint8_t)(n ? (sum[c] + n / 2) / n : 128);
        }
    return TACHY_OK;
}

// ---- Matching ----

static uint32_t row_cost(const uint8_t *a, const uint8_t *b)
{
    uint32_t sum = 0;
    for (int i = 0; i < SIDE * FILL_BYTES; i++) {
        int d = a[i] - b[i];
        sum += (uint32_t)(d * d);
    }
    return sum;
}

static uint32_t cost_of(const struct level *l, int target, int source, uint32_t most)
{
    const uint8_t *a = l->pixels + FILL_BYTES * (target - REACH * l->width - REACH), *b = l->pixels + FILL_BYTES * (source - REACH * l->width - REACH);
    uint32_t sum = 0;
    for (int y = 0; y < SIDE && sum < most; y++, a += FILL_BYTES * l->width, b += FILL_BYTES * l->width)
        sum += row_cost(a, b);
    return sum;
}

static void offer(struct level *l, int target, int source)
{
    if (!l->source[source] || source == l->field[target])
        return;
    uint32_t cost = cost_of(l, target, source, l->cost[target]);
    if (cost < l->cost[target]) {
        l->cost[target] = cost;
        l->field[target] = source;
    }
}

static uint32_t draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

// A source near the present one, at distances that halve.
static void search(struct level *l, int target, uint32_t *seed)
{
    int w = l->width, h = l->height;
    for (int reach = TACHY_MAX(w, h); reach >= 1; reach /= 2) {
        int at = l->field[target], x = at % w + (int)(draw(seed) % (uint32_t)(2 * reach + 1)) - reach;
        int y = at / w + (int)(draw(seed) % (uint32_t)(2 * reach + 1)) - reach;
        if (x >= REACH && y >= REACH && x < w - REACH && y < h - REACH)
            offer(l, target, y * w + x);
    }
}

// What the neighbours take, moved by a pixel; forth and back in turn.
static void sweep(struct level *l, bool back, uint32_t *seed)
{
    int w = l->width, step = back ? 1 : -1;
    for (int k = 0; k < l->nb_targets; k++) {
        int i = l->target[back ? l->nb_targets - 1 - k : k];
        int beside = l->field[i + step], over = l->field[i + step * w];
        if (beside != NOBODY)
            offer(l, i, beside - step);
        if (over != NOBODY)
            offer(l, i, over - step * w);
        search(l, i, seed);
    }
}

static void measure(struct level *l)
{
    for (int k = 0; k < l->nb_targets; k++)
        l->cost[l->target[k]] = cost_of(l, l->target[k], l->field[l->target[k]], UINT32_MAX);
}

// ---- Voting ----

// Cost below which three quarters of the targets lie, within a factor of 1.1; at least 1.
static float usual_cost(const struct level *l)
{
    enum { BINS = 256 };
    int count[BINS] = {0}, sum = 0, i = 0;
    for (int k = 0; k < l->nb_targets; k++)
        count[TACHY_CLAMP((int)(logf((float)l->cost[l->target[k]] + 1) * 10), 0, BINS - 1)]++;
    while (i < BINS - 1 && (sum += count[i]) * 4 < l->nb_targets * 3)
        i++;
    return expf((float)(i + 1) / 10);
}

// sum: four floats per pixel.
static void vote(struct level *l, float *sum)
{
    int w = l->width, n = w * l->height;
    float usual = usual_cost(l);
    memset(sum, 0, (size_t)n * 4 * sizeof(float));
    for (int k = 0; k < l->nb_targets; k++) {
        int i = l->target[k], shift = l->field[i] - i;
        float like = expf(-(float)l->cost[i] / (2 * usual)) * l->trust[i] + 1e-12f;
        for (int y = -REACH; y <= REACH; y++)
            for (int x = -REACH; x <= REACH; x++) {
                int at = i + y * w + x;
                if (!l->hole[at])
                    continue;
                const uint8_t *p = l->pixels + FILL_BYTES * (at + shift);
                for (int c = 0; c < 3; c++)
                    sum[4 * at + c] += like * p[c];
                sum[4 * at + 3] += like;
            }
    }
    for (int i = 0; i < n; i++)
        for (int c = 0; c < 3 && l->hole[i] && sum[4 * i + 3] > 0; c++)
            l->pixels[FILL_BYTES * i + c] = (uint8_t)(sum[4 * i + c] / sum[4 * i + 3] + 0.5f);
}

// ---- From coarse to fine ----

static int some_source(const struct level *l, uint32_t *seed) { return l->sources[draw(seed) % (uint32_t)l->nb_sources]; }

// The field of the coarser level, twice as fine.
static void take_field(struct level *l, const struct level *coarse, uint32_t *seed)
{
    int w = l->width;
    for (int k = 0; k < l->nb_targets; k++) {
        int i = l->target[k], x = i % w, y = i / w;
        int cx = TACHY_CLAMP(x / 2, REACH, coarse->width - REACH - 1), cy = TACHY_CLAMP(y / 2, REACH, coarse->height - REACH - 1);
        int from = coarse->field[cy * coarse->width + cx], to = NOBODY;
        if (from != NOBODY) {
            int sx = 2 * (from % coarse->width - cx) + x, sy = 2 * (from / coarse->width - cy) + y;
            if (sx >= REACH && sy >= REACH && sx < w - REACH && sy < l->height - REACH)
                to = sy * w + sx;
        }
        l->field[i] = to != NOBODY && l->source[to] ? to : some_source(l, seed);
        l->cost[i] = 1;
    }
}

static void refine(struct level *l, float *sum, int rounds, uint32_t *seed)
{
    for (int round = 0; round < rounds; round++) {
        measure(l);
        for (int s = 0; s < SWEEPS; s++)
            sweep(l, s % 2, seed);
        vote(l, sum);
    }
}

// Of levels too small for a patch the coarsest that is not is where it begins, on a smooth surface.
static int work(struct level *level, int nb, float *sum)
{
    uint32_t seed = 1;
    const struct level *coarse = NULL;
    for (int k = nb - 1; k >= 0; k--) {
        struct level *l = &level[k];
        if (!l->nb_sources || !l->nb_targets)
            continue;
        if (coarse) {
            take_field(l, coarse, &seed);
            vote(l, sum);
        } else {
            if (fill_surface(l->pixels, l->hole, l->width, l->height) < 0)
                return TACHY_ERR_NOMEM;
            for (int t = 0; t < l->nb_targets; t++)
                l->field[l->target[t]] = some_source(l, &seed);
        }
        refine(l, sum, coarse ? ROUNDS : ROUNDS_FIRST, &seed);
        coarse = l;
    }
    return TACHY_OK;
}

int fill_patches(uint8_t *pixels, const uint8_t *hole, int width, int height)
{
    struct level level[LEVELS_MOST] = {{.width = width, .height = height}};
    size_t n = (size_t)width * (size_t)height;
    float *sum = malloc(n * 4 * sizeof(float));
    level[0].pixels = malloc(n * FILL_BYTES);
    level[0].hole = malloc(n);
    int err = sum && level[0].pixels && level[0].hole ? TACHY_OK : TACHY_ERR_NOMEM, nb = 1;
    if (err == TACHY_OK) {
        memcpy(level[0].pixels, pixels, n * FILL_BYTES);
        memcpy(level[0].hole, hole, n);
        for (size_t i = 0; i < n; i++) {
            level[0].hole[i] = !!hole[i];
            level[0].pixels[FILL_BYTES * i + 3] = 0;
        }
        int deep = err = prepare(&level[0]);
        // Down to where a patch spans the hole.
        while (err >= 0 && nb < LEVELS_MOST && deep > 2 && TACHY_MIN(level[nb - 1].width, level[nb - 1].height) >= 2 * SMALLEST) {
            err = halve(&level[nb], &level[nb - 1]);
            deep = err = err < 0 ? err : prepare(&level[nb]);
            nb++;
        }
    }
    err = err < 0 ? err : work(level, nb, sum);
    if (err == TACHY_OK)
        memcpy(pixels, level[0].pixels, n * FILL_BYTES);
    for (int i = 0; i < nb; i++)
        level_free(&level[i]);
    free(sum);
    return err;
}
