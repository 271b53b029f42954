#include "postprocess/mask.h"

#include "ref/ref_smooth.h"

#include <math.h>
#include <stdlib.h>

// out += w * (mask - out) with w from the motion of the guide at each pixel:
//   d = mean of |guide - guide before| in 3 x 3 pixels, in luma steps
//   motion = max(clamp((d - CALM) / (MOVING - CALM), 0, 1), HOLD * motion before)
//   w = least + (1 - least) * motion,  least = (1 - strength)^2
// Averaging and CALM keep camera noise from counting as motion; HOLD lets a mask settle at
// its new place for some frames after a motion instead of trailing behind. The constants
// were chosen on the clips of docs/segment-quality.md.
#define CALM TACHY_SMOOTH_CALM
#define MOVING TACHY_SMOOTH_MOVING
#define HOLD TACHY_SMOOTH_HOLD
#define LEAST 0.01f // strength 1 still follows, over about a hundred frames

struct tachy_smooth {
    int width, height;
    float least;
    bool started;
    float *out;     // smoothed mask so far, 0..255
    float *motion;  // 0..1
    uint8_t *guide; // of the frame before
    uint16_t *sums; // three rows: sums of three neighbouring differences
};

float tachy_smooth_least(float strength)
{
    return strength > 0 ? TACHY_MAX((1 - strength) * (1 - strength), LEAST) : 1;
}

int tachy_smooth_open(tachy_smooth **out, int width, int height, float strength)
{
    *out = NULL;
    if (width < 1 || height < 1 || width > 65535 || height > 65535 ||
        !(strength >= 0 && strength <= 1))
        return TACHY_ERR_INVAL;
    tachy_smooth *s = calloc(1, sizeof(*s));
    if (!s)
        return TACHY_ERR_NOMEM;
    size_t n = (size_t)width * (size_t)height;
    s->width = width;
    s->height = height;
    s->least = tachy_smooth_least(strength);
    s->out = tachy_aligned_alloc(n * sizeof(float));
    s->motion = tachy_aligned_alloc(n * sizeof(float));
    s->guide = tachy_aligned_alloc(n);
    s->sums = tachy_aligned_alloc(3 * (size_t)width * sizeof(uint16_t));
    if (!s->out || !s->motion || !s->guide || !s->sums) {
        tachy_smooth_close(&s);
        return TACHY_ERR_NOMEM;
    }
    *out = s;
    return TACHY_OK;
}

void tachy_smooth_close(tachy_smooth **ps)
{
    tachy_smooth *s = *ps;
    *ps = NULL;
    if (!s)
        return;
    tachy_aligned_free(s->out);
    tachy_aligned_free(s->motion);
    tachy_aligned_free(s->guide);
    tachy_aligned_free(s->sums);
    free(s);
}

size_t tachy_smooth_state_size(const tachy_smooth *s)
{
    return 1 + (size_t)s->width * (size_t)s->height * (2 * sizeof(float) + 1);
}

void tachy_smooth_save(const tachy_smooth *s, void *data)
{
    size_t n = (size_t)s->width * (size_t)s->height;
    uint8_t *d = data;
    memset(d, 0, tachy_smooth_state_size(s));
    if (!s->started)
        return; // the planes were never written
    d[0] = 1;
    memcpy(d + 1, s->out, n * sizeof(float));
    memcpy(d + 1 + n * sizeof(float), s->motion, n * sizeof(float));
    memcpy(d + 1 + 2 * n * sizeof(float), s->guide, n);
}

int tachy_smooth_load(tachy_smooth *s, const void *data, size_t size)
{
    size_t n = (size_t)s->width * (size_t)s->height;
    const uint8_t *d = data;
    if (size != tachy_smooth_state_size(s) || d[0] > 1)
        return TACHY_ERR_FORMAT;
    s->started = d[0];
    memcpy(s->out, d + 1, n * sizeof(float));
    memcpy(s->motion, d + 1 + n * sizeof(float), n * sizeof(float));
    memcpy(s->guide, d + 1 + 2 * n * sizeof(float), n);
    return TACHY_OK;
}

static void start(tachy_smooth *s, const uint8_t *mask, ptrdiff_t stride, const uint8_t *guide,
                  ptrdiff_t guide_stride)
{
    for (int y = 0; y < s->height; y++) {
        size_t at = (size_t)y * (size_t)s->width;
        memcpy(s->guide + at, guide + y * guide_stride, (size_t)s->width);
        for (int x = 0; x < s->width; x++) {
            s->out[at + (size_t)x] = mask[y * stride + x];
            s->motion[at + (size_t)x] = 0;
        }
    }
    s->started = true;
}

// Sums of |guide - before| at x - 1, x and x + 1, edges repeated; `before` is replaced.
static void difference_row(uint16_t *sum, const uint8_t *guide, uint8_t *before, int n)
{
    int left = abs(guide[0] - before[0]), here = left;
    for (int x = 0; x < n; x++) {
        int right = x + 1 < n ? abs(guide[x + 1] - before[x + 1]) : here;
        sum[x] = (uint16_t)(left + here + right);
        left = here;
        here = right;
        before[x] = guide[x];
    }
}

static void blend_row(const tachy_smooth *s, uint8_t *mask, float *out, float *motion,
                      const uint16_t *a, const uint16_t *b, const uint16_t *c)
{
    float least = s->least, scale = 1.0f / (9 * (MOVING - CALM)), offset = CALM / (MOVING - CALM);
    for (int x = 0; x < s->width; x++) {
        float m = (float)(a[x] + b[x] + c[x]) * scale - offset;
        float held = HOLD * motion[x];
        m = m > held ? m : held;
        m = m < 1.0f ? m : 1.0f;
        motion[x] = m;
        float w = least + (1.0f - least) * m;
        float v = out[x] + w * ((float)mask[x] - out[x]);
        out[x] = v;
        mask[x] = (uint8_t)(v + 0.5f);
    }
}

void tachy_smooth_apply(tachy_smooth *s, uint8_t *mask, ptrdiff_t stride, const uint8_t *guide,
                        ptrdiff_t guide_stride, bool discontinuity)
{
    if (discontinuity || !s->started) {
        start(s, mask, stride, guide, guide_stride);
        return;
    }
    int w = s->width, h = s->height;
    uint16_t *row[3] = {s->sums, s->sums + w, s->sums + 2 * w}; // above, here, below
    difference_row(row[1], guide, s->guide, w);
    memcpy(row[0], row[1], (size_t)w * sizeof(uint16_t));
    for (int y = 0; y < h; y++) {
        size_t at = (size_t)y * (size_t)w;
        if (y + 1 < h)
            difference_row(row[2], guide + (y + 1) * guide_stride, s->guide + at + w, w);
        else
            memcpy(row[2], row[1], (size_t)w * sizeof(uint16_t));
        blend_row(s, mask + y * stride, s->out + at, s->motion + at, row[0], row[1], row[2]);
        uint16_t *above = row[0];
        row[0] = row[1];
        row[1] = row[2];
        row[2] = above;
    }
}
