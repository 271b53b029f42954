#include "inpaint/parts.h"

#include "base/base.h"

#include <stdlib.h>

// Successive over-relaxation from coarse to fine: a coarser level's solution is where the next begins.

enum { ROUNDS = 40, SMALLEST = 8 };
static const float over = 1.6f;

struct surface_level {
    int width, height;
    int channels;
    float *v;      // a plane per channel, one after the other
    uint8_t *hole;
};

static int level_open(struct surface_level *l, int width, int height, int channels)
{
    size_t n = (size_t)width * (size_t)height;
    *l = (struct surface_level){width, height, channels, calloc(n * (size_t)channels, sizeof(float)), calloc(n, 1)};
    return l->v && l->hole ? TACHY_OK : TACHY_ERR_NOMEM;
}

// A pixel of the coarser level is known if one of its four is. Returns whether any is a hole.
static bool halve(struct surface_level *to, const struct surface_level *from)
{
    size_t n = (size_t)to->width * (size_t)to->height, m = (size_t)from->width * (size_t)from->height;
    bool holes = false;
    for (int y = 0; y < to->height; y++)
        for (int x = 0; x < to->width; x++) {
            size_t at = (size_t)y * (size_t)to->width + (size_t)x;
            float sum[FILL_CHANNELS] = {0};
            int known = 0;
            for (int k = 0; k < 4; k++) {
                int fx = TACHY_MIN(2 * x + k % 2, from->width - 1), fy = TACHY_MIN(2 * y + k / 2, from->height - 1);
                size_t i = (size_t)fy * (size_t)from->width + (size_t)fx;
                if (from->hole[i])
                    continue;
                known++;
                for (size_t c = 0; c < (size_t)from->channels; c++)
                    sum[c] += from->v[c * m + i];
            }
            to->hole[at] = !known;
            holes |= !known;
            for (size_t c = 0; c < (size_t)from->channels; c++)
                to->v[c * n + at] = known ? sum[c] / (float)known : 0;
        }
    return holes;
}

static void begin_with(struct surface_level *l, const struct surface_level *coarse)
{
    size_t n = (size_t)l->width * (size_t)l->height, m = (size_t)coarse->width * (size_t)coarse->height;
    for (int y = 0; y < l->height; y++)
        for (int x = 0; x < l->width; x++) {
            size_t at = (size_t)y * (size_t)l->width + (size_t)x;
            size_t from = (size_t)(y / 2) * (size_t)coarse->width + (size_t)(x / 2);
            for (size_t c = 0; c < (size_t)l->channels && l->hole[at]; c++)
                l->v[c * n + at] = coarse->v[c * m + from];
        }
}

static void relax_row(const struct surface_level *l, float *v, int y, int parity)
{
    int w = l->width;
    const float *up = v + (y > 0 ? y - 1 : y) * w, *down = v + (y + 1 < l->height ? y + 1 : y) * w;
    float *row = v + y * w;
    const uint8_t *hole = l->hole + y * w;
    for (int x = (y + parity) & 1; x < w; x += 2) {
        if (!hole[x])
            continue;
        float mean = (row[x > 0 ? x - 1 : x] + row[x + 1 < w ? x + 1 : x] + up[x] + down[x]) / 4;
        row[x] += over * (mean - row[x]);
    }
}

static void relax(struct surface_level *l)
{
    size_t n = (size_t)l->width * (size_t)l->height;
    for (int round = 0; round < ROUNDS; round++)
        for (int parity = 0; parity < 2; parity++)
            for (size_t c = 0; c < (size_t)l->channels; c++)
                for (int y = 0; y < l->height; y++)
                    relax_row(l, l->v + c * n, y, parity);
}

static int solve(struct surface_level *l)
{
    struct surface_level coarse = {0};
    int err = TACHY_OK;
    if (TACHY_MIN(l->width, l->height) >= SMALLEST) {
        err = level_open(&coarse, (l->width + 1) / 2, (l->height + 1) / 2, l->channels);
        if (err == TACHY_OK && halve(&coarse, l))
            err = solve(&coarse);
        if (err == TACHY_OK)
            begin_with(l, &coarse);
    }
    if (err == TACHY_OK)
        relax(l);
    free(coarse.v);
    free(coarse.hole);
    return err;
}

int fill_surfaces(float *v, int channels, const uint8_t *hole, int width, int height)
{
    struct surface_level l;
    size_t n = (size_t)width * (size_t)height;
    int err = level_open(&l, width, height, channels);
    for (size_t i = 0; i < n && err == TACHY_OK; i++) {
        l.hole[i] = !!hole[i];
        for (size_t c = 0; c < (size_t)channels; c++)
            l.v[c * n + i] = hole[i] ? 0 : v[c * n + i];
    }
    if (err == TACHY_OK)
        err = solve(&l);
    if (err == TACHY_OK)
        memcpy(v, l.v, n * (size_t)channels * sizeof(float));
    free(l.v);
    free(l.hole);
    return err;
}

int fill_surface(uint8_t *pixels, const uint8_t *hole, int width, int height)
{
    size_t n = (size_t)width * (size_t)height, known = 0;
    float *v = malloc(n * FILL_CHANNELS * sizeof(float));
    for (size_t i = 0; i < n && v; i++) {
        known += !hole[i];
        for (size_t c = 0; c < FILL_CHANNELS; c++)
            v[c * n + i] = pixels[FILL_BYTES * i + c];
    }
    int err = v ? fill_surfaces(v, FILL_CHANNELS, hole, width, height) : TACHY_ERR_NOMEM;
    for (size_t i = 0; i < n && err == TACHY_OK; i++)
        for (size_t c = 0; c < FILL_CHANNELS && hole[i]; c++)
            pixels[FILL_BYTES * i + c] = known ? (uint8_t)TACHY_CLAMP(v[c * n + i] + 0.5f, 0, 255) : 128;
    free(v);
    return err;
}
