#include "inpaint/fill.h"

#include "base/base.h"
#include "inpaint/parts.h"

#include <stdlib.h>

int fill_depths(const uint8_t *hole, int width, int height, int *depth)
{
    int n = width * height, deepest = 0;
    for (int i = 0; i < n; i++) {
        int x = i % width, d = hole[i] ? n : 0;
        if (d && i >= width) {
            d = TACHY_MIN(d, depth[i - width] + 1);
            d = x > 0 ? TACHY_MIN(d, depth[i - width - 1] + 1) : d;
            d = x + 1 < width ? TACHY_MIN(d, depth[i - width + 1] + 1) : d;
        }
        depth[i] = d && x > 0 ? TACHY_MIN(d, depth[i - 1] + 1) : d;
    }
    for (int i = n - 1; i >= 0; i--) {
        int x = i % width, d = depth[i];
        if (d && i + width < n) {
            d = TACHY_MIN(d, depth[i + width] + 1);
            d = x > 0 ? TACHY_MIN(d, depth[i + width - 1] + 1) : d;
            d = x + 1 < width ? TACHY_MIN(d, depth[i + width + 1] + 1) : d;
        }
        depth[i] = d && x + 1 < width ? TACHY_MIN(d, depth[i + 1] + 1) : d;
        deepest = TACHY_MAX(deepest, depth[i]);
    }
    return deepest;
}

void fill_grow(const uint8_t *hole, int width, int height, int reach, uint8_t *grown, uint8_t *rows)
{
    int side = 2 * reach + 1;
    for (int y = 0; y < height; y++)
        for (int x = 0, last = -side; x < width + reach; x++) {
            if (x < width && hole[y * width + x])
                last = x;
            if (x >= reach)
                rows[y * width + x - reach] = x - last < side;
        }
    for (int x = 0; x < width; x++)
        for (int y = 0, last = -side; y < height + reach; y++) {
            if (y < height && rows[y * width + x])
                last = y;
            if (y >= reach)
                grown[(y - reach) * width + x] = y - last < side;
        }
}

// ---- Wide holes ----

// The parts of the hole whose middle lies deeper than TACHY_FILL_THIN, out to their edge. Returns whether there are any.
static bool wide_parts(const uint8_t *hole, uint8_t *wide, int *depth, int w, int h)
{
    if (fill_depths(hole, w, h, depth) <= TACHY_FILL_THIN)
        return false;
    // Steps from what is deep, now that it is the one that is "known".
    for (int i = 0; i < w * h; i++)
        wide[i] = depth[i] <= TACHY_FILL_THIN;
    fill_depths(wide, w, h, depth);
    for (int i = 0; i < w * h; i++)
        wide[i] = hole[i] && depth[i] <= TACHY_FILL_THIN;
    return true;
}

// Half of the patches and half of the surface: texture goes on, and what the patches invent wrongly costs less.
static int fill_wide(uint8_t *pixels, const uint8_t *hole, int w, int h)
{
    size_t n = (size_t)w * (size_t)h;
    uint8_t *wide = malloc(n), *surface = malloc(n * FILL_BYTES);
    int *depth = malloc(n * sizeof(int));
    int err = wide && surface && depth ? TACHY_OK : TACHY_ERR_NOMEM;
    if (err == TACHY_OK && wide_parts(hole, wide, depth, w, h)) {
        memcpy(surface, pixels, n * FILL_BYTES);
        err = fill_patches(pixels, wide, w, h);
        for (size_t i = 0; i < n && err == TACHY_OK; i++)
            for (size_t c = 0; c < FILL_CHANNELS && wide[i]; c++)
                pixels[FILL_BYTES * i + c] = (uint8_t)((pixels[FILL_BYTES * i + c] + surface[FILL_BYTES * i + c] + 1) / 2);
    }
    free(wide);
    free(surface);
    free(depth);
    return err;
}

int tachy_fill(uint8_t *pixels, const uint8_t *hole, int width, int height)
{
    int err = fill_surface(pixels, hole, width, height);
    return err < 0 ? err : fill_wide(pixels, hole, width, height);
}
