#include "postprocess/mask.h"

#include "flow/flow.h"
#include "postprocess/snap.h"

#include <math.h>
#include <stdlib.h>

// The mask so far comes along with what moves, as the flow of the guides says, and goes a part of the way to the new mask:
//   d = mean over 3 x 3 pixels of |guide - guide before, moved|, in luma steps
//   trust = clamp((LOST - d) / (LOST - FOUND), 0, 1)
//   out = moved + (1 - (1 - w) trust) (mask - moved),  w = rise or fall
// Where the guide before fits as well without being moved, but for NOISE, nothing is moved: a plain wall has no flow of its own.
// FOUND keeps camera noise from counting as a change. What is no longer found is the new mask's alone: it was covered
// before, or has another light. A mask falls faster than it rises, because what trails is seen more than what comes late.
// The new mask's edges go where luma's are before (snap.h). The constants were chosen on the clips of bench/matting.
#define FOUND 3.0f
#define LOST 8.0f
#define NOISE 1.0f
#define LEAST 0.01f // strength 1 still follows, over about a hundred frames

struct tachy_smooth {
    int width, height;
    float rise, fall; // 0..1, of the way to the new mask in a frame
    bool started;
    tachy_flow *flow;
    float *out;                   // smoothed mask so far, 0..255
    // Of one frame: the network's mask; the mask so far, brought along; |guide - guide before|, moved and as it was.
    float *mask, *moved, *change, *stay;
    float *u, *v, *scratch;       // scratch: tachy_snap()'s
    uint8_t *guide, *now;         // of the frame before and of this one, dense
};

int tachy_smooth_open(tachy_smooth **out, int width, int height, float strength)
{
    *out = NULL;
    if (width < 1 || height < 1 || width > 65535 || height > 65535 || !(strength >= 0 && strength <= 1))
        return TACHY_ERR_INVAL;
    tachy_smooth *s = calloc(1, sizeof(*s));
    if (!s)
        return TACHY_ERR_NOMEM;
    size_t n = (size_t)width * (size_t)height;
    s->width = width;
    s->height = height;
    s->rise = TACHY_MAX((1 - strength) * (1 - strength / 2), LEAST);
    s->fall = 1 - 0.7f * strength;
    float **planes[] = {&s->out, &s->mask, &s->moved, &s->change, &s->stay, &s->u, &s->v};
    bool all = tachy_flow_open(&s->flow, width, height) == TACHY_OK;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(planes) && all; i++)
        all = (*planes[i] = tachy_aligned_alloc(n * sizeof(float))) != NULL;
    all = all && (s->scratch = tachy_aligned_alloc(TACHY_SNAP_PLANES * n * sizeof(float))) &&
          (s->guide = tachy_aligned_alloc(n)) && (s->now = tachy_aligned_alloc(n));
    if (!all) {
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
    void *planes[] = {s->out, s->mask, s->moved, s->change, s->stay, s->u, s->v, s->scratch, s->guide, s->now};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(planes); i++)
        tachy_aligned_free(planes[i]);
    tachy_flow_close(&s->flow);
    free(s);
}

size_t tachy_smooth_state_size(const tachy_smooth *s)
{
    return 1 + (size_t)s->width * (size_t)s->height * (sizeof(float) + 1);
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
    memcpy(d + 1 + n * sizeof(float), s->guide, n);
}

// Bytes of a file: a value that no mask has would be one for good.
static bool is_mask(const float *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(p[i] >= 0 && p[i] <= 255))
            return false;
    return true;
}

int tachy_smooth_load(tachy_smooth *s, const void *data, size_t size)
{
    size_t n = (size_t)s->width * (size_t)s->height;
    const uint8_t *d = data;
    if (size != tachy_smooth_state_size(s) || d[0] > 1)
        return TACHY_ERR_FORMAT;
    memcpy(s->out, d + 1, n * sizeof(float));
    memcpy(s->guide, d + 1 + n * sizeof(float), n);
    s->started = d[0] && is_mask(s->out, n);
    return s->started == d[0] ? TACHY_OK : TACHY_ERR_FORMAT;
}

// ---- One frame ----

// What was before is brought to where it is now.
static void move(tachy_smooth *s)
{
    int w = s->width, h = s->height;
    ptrdiff_t i = 0;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++, i++) {
            float from_x = TACHY_CLAMP((float)x + s->u[i], 0.0f, (float)(w - 1));
            float from_y = TACHY_CLAMP((float)y + s->v[i], 0.0f, (float)(h - 1));
            int left = (int)from_x, top = (int)from_y, right = TACHY_MIN(left + 1, w - 1);
            float a = from_x - (float)left, b = from_y - (float)top;
            ptrdiff_t up = (ptrdiff_t)top * w, down = (ptrdiff_t)TACHY_MIN(top + 1, h - 1) * w;
            float c[4] = {(1 - a) * (1 - b), a * (1 - b), (1 - a) * b, a * b};
            ptrdiff_t at[4] = {up + left, up + right, down + left, down + right};
            float mask = 0, guide = 0;
            for (int k = 0; k < 4; k++) {
                mask += c[k] * s->out[at[k]];
                guide += c[k] * (float)s->guide[at[k]];
            }
            s->moved[i] = mask;
            s->change[i] = fabsf(guide - (float)s->now[i]);
            s->stay[i] = fabsf((float)s->guide[i] - (float)s->now[i]);
        }
}

// Sums of three rows, edges repeated.
static void column_sums(const tachy_smooth *s, const float *plane, int y, float *sum)
{
    ptrdiff_t w = s->width;
    const float *here = plane + y * w, *up = plane + TACHY_MAX(y - 1, 0) * w;
    const float *down = plane + TACHY_MIN(y + 1, s->height - 1) * w;
    for (ptrdiff_t x = 0; x < w; x++)
        sum[x] = up[x] + here[x] + down[x];
}

static float around(const float *sum, int x, int w)
{
    return sum[TACHY_MAX(x - 1, 0)] + sum[x] + sum[TACHY_MIN(x + 1, w - 1)];
}

static void blend(tachy_smooth *s)
{
    const float scale = 1 / (9 * (LOST - FOUND)), most = LOST / (LOST - FOUND);
    ptrdiff_t i = 0;
    for (int y = 0; y < s->height; y++) {
        float *moves = s->scratch, *stays = s->scratch + s->width;
        column_sums(s, s->change, y, moves);
        column_sums(s, s->stay, y, stays);
        for (int x = 0; x < s->width; x++, i++) {
            float change = around(moves, x, s->width), stay = around(stays, x, s->width);
            bool still = stay <= change + 9 * NOISE;
            float before = still ? s->out[i] : s->moved[i], way = s->mask[i] - before, w = way < 0 ? s->fall : s->rise;
            float trust = TACHY_CLAMP(most - (still ? stay : change) * scale, 0.0f, 1.0f);
            s->out[i] = before + (1 - (1 - w) * trust) * way;
        }
    }
}

void tachy_smooth_apply(tachy_smooth *s, uint8_t *mask, ptrdiff_t stride, const uint8_t *guide, ptrdiff_t guide_stride,
                        bool discontinuity)
{
    ptrdiff_t w = s->width, h = s->height;
    if (s->rise == 1)
        return; // strength 0
    for (ptrdiff_t y = 0; y < h; y++) {
        memcpy(s->now + y * w, guide + y * guide_stride, (size_t)w);
        for (ptrdiff_t x = 0; x < w; x++)
            s->mask[y * w + x] = mask[y * stride + x];
    }
    tachy_snap(s->mask, s->now, s->width, s->height, s->scratch);
    if (discontinuity || !s->started) {
        memcpy(s->out, s->mask, (size_t)(w * h) * sizeof(float));
        s->started = true;
    } else {
        tachy_flow_run(s->flow, s->now, s->guide, s->u, s->v);
        move(s);
        blend(s);
    }
    uint8_t *before = s->guide;
    s->guide = s->now;
    s->now = before;
    for (ptrdiff_t y = 0; y < h; y++)
        for (ptrdiff_t x = 0; x < w; x++)
            mask[y * stride + x] = (uint8_t)(s->out[y * w + x] + 0.5f);
}
