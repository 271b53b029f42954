#include "postprocess/alpha.h"

// The maximum (when growing) over each pixel and its neighbours, one pixel per step: the four direct ones, in every
// third step all eight, so that many steps give an octagon. Shrinking grows the inverse. The last step is a fraction.

// A row with its ends repeated once, n + 2 values.
static void padded(uint8_t *to, const uint8_t *row, int n, uint8_t flip)
{
    for (int x = 0; x < n; x++)
        to[x + 1] = row[x] ^ flip;
    to[0] = to[1];
    to[n + 1] = to[n];
}

struct rows {
    const uint8_t *up, *mid, *down; // padded
};

static void largest(uint8_t *restrict to, struct rows r, int n, bool eight)
{
    for (int x = 0; x < n; x++) {
        uint8_t beside = TACHY_MAX(r.mid[x], r.mid[x + 2]), around = TACHY_MAX(r.up[x + 1], r.down[x + 1]);
        to[x] = TACHY_MAX(TACHY_MAX(beside, around), r.mid[x + 1]);
    }
    for (int x = 0; eight && x < n; x++) {
        uint8_t up = TACHY_MAX(r.up[x], r.up[x + 2]), down = TACHY_MAX(r.down[x], r.down[x + 2]);
        to[x] = TACHY_MAX(to[x], TACHY_MAX(up, down));
    }
}

// One step over the picture, `part` of 256 of the way.
static void step(uint8_t *alpha, ptrdiff_t stride, int w, int h, uint8_t flip, bool eight, int part, uint8_t *scratch)
{
    uint8_t *line[3] = {scratch, scratch + w + 2, scratch + 2 * (w + 2)};
    padded(line[0], alpha, w, flip);
    memcpy(line[1], line[0], (size_t)w + 2);
    for (int y = 0; y < h; y++) {
        uint8_t *row = alpha + y * stride;
        padded(line[2], y + 1 < h ? row + stride : row, w, flip);
        struct rows r = {line[0], line[1], line[2]};
        largest(row, r, w, eight);
        for (int x = 0; x < w; x++)
            row[x] = (uint8_t)(r.mid[x + 1] + ((row[x] - r.mid[x + 1]) * part + 128) / 256) ^ flip;
        uint8_t *first = line[0];
        line[0] = line[1];
        line[1] = line[2];
        line[2] = first;
    }
}

int tachy_alpha_grow(uint8_t *alpha, ptrdiff_t stride, int width, int height, float by, struct tachy_buf *scratch)
{
    if (!tachy_buf_need(scratch, 3 * ((size_t)width + 2)))
        return TACHY_ERR_NOMEM;
    int left = (int)((by < 0 ? -by : by) * 256 + 0.5f);
    for (int k = 0; left > 0 && width > 0 && height > 0; k++, left -= 256)
        step(alpha, stride, width, height, by < 0 ? 255 : 0, k % 3 == 1, TACHY_MIN(left, 256), scratch->p);
    return TACHY_OK;
}
