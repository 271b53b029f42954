#include "postprocess/mask.h"

#include "base/cpu.h"
#include "flow/flow.h"
#include "postprocess/snap.h"
#include "ref/ref_smooth.h"

#include <math.h>
#include <stdlib.h>

// What is computed is written at ref/ref_smooth.h. The first mask of a scene is what the
// filter makes of the network's.

#define LEAST 0.01f // strength 1 still follows, over about a hundred frames

#define INLINE static inline __attribute__((always_inline)) // into the function of each instruction set

struct tachy_smooth {
    int width, height;
    bool off; // strength 0
    bool started;
    struct tachy_smooth_rates rates;
    tachy_flow *flow;
    float *out, *motion; // the mask so far, 0..255, and its motion, 0..1
    // Of one frame: the network's mask and its edges; the state, brought along; |guide - guide before|, moved and as it was.
    float *mask, *edge, *moved, *moved_motion, *change, *stay;
    float *u, *v, *scratch; // scratch: tachy_snap()'s
    uint8_t *guide, *now;   // of the frame before and of this one, dense
};

// Strength 0.7 gives 0.036, 0.12, 0.19 and 0.41.
static struct tachy_smooth_rates rates_of(float strength)
{
    float left = TACHY_MAX(1 - strength, LEAST);
    return (struct tachy_smooth_rates){.rise = {powf(left, 2.75f), powf(left, 1.75f)},
                                       .fall = {powf(left, 1.4f), powf(left, 0.75f)}};
}

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
    s->off = strength == 0;
    s->rates = rates_of(strength);
    float **planes[] = {&s->out, &s->motion, &s->mask, &s->edge, &s->moved, &s->moved_motion, &s->change, &s->stay,
                        &s->u, &s->v};
    bool all = tachy_flow_open(&s->flow, width, height) == TACHY_OK;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(planes) && all; i++)
        all = (*planes[i] = tachy_aligned_alloc(n * sizeof(float))) != NULL;
    all = all && (s->scratch = tachy_aligned_alloc((TACHY_SNAP_PLANES * n + 4) * sizeof(float))) &&
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
    void *planes[] = {s->out, s->motion, s->mask, s->edge, s->moved, s->moved_motion, s->change, s->stay, s->u, s->v,
                      s->scratch, s->guide, s->now};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(planes); i++)
        tachy_aligned_free(planes[i]);
    tachy_flow_close(&s->flow);
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
    *d++ = 1;
    memcpy(d, s->out, n * sizeof(float));
    memcpy(d + n * sizeof(float), s->motion, n * sizeof(float));
    memcpy(d + 2 * n * sizeof(float), s->guide, n);
}

// Bytes of a file: a value out of range, or none at all, would stay in the mask.
static bool within(const float *p, size_t n, float most)
{
    for (size_t i = 0; i < n; i++)
        if (!(p[i] >= 0 && p[i] <= most))
            return false;
    return true;
}

int tachy_smooth_load(tachy_smooth *s, const void *data, size_t size)
{
    size_t n = (size_t)s->width * (size_t)s->height;
    const uint8_t *d = data;
    if (size != tachy_smooth_state_size(s) || *d > 1)
        return TACHY_ERR_FORMAT;
    bool started = *d++;
    memcpy(s->out, d, n * sizeof(float));
    memcpy(s->motion, d + n * sizeof(float), n * sizeof(float));
    memcpy(s->guide, d + 2 * n * sizeof(float), n);
    s->started = started && within(s->out, n, 255) && within(s->motion, n, 1);
    return s->started == started ? TACHY_OK : TACHY_ERR_FORMAT;
}

// ---- One frame ----

// What was before is brought to where it is now.
INLINE void move(const tachy_smooth *s)
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
            float mask = 0, motion = 0, guide = 0;
            for (int k = 0; k < 4; k++) {
                mask += c[k] * s->out[at[k]];
                motion += c[k] * s->motion[at[k]];
                guide += c[k] * (float)s->guide[at[k]];
            }
            s->moved[i] = mask;
            s->moved_motion[i] = motion;
            s->change[i] = fabsf(guide - (float)s->now[i]);
            s->stay[i] = fabsf((float)s->guide[i] - (float)s->now[i]);
        }
}

// Sums of three rows, edges repeated, with one pixel more on both sides.
INLINE void column_sums(const tachy_smooth *s, const float *plane, int y, float *restrict sum)
{
    ptrdiff_t w = s->width;
    const float *here = plane + y * w, *up = plane + TACHY_MAX(y - 1, 0) * w;
    const float *down = plane + TACHY_MIN(y + 1, s->height - 1) * w;
    for (ptrdiff_t x = 0; x < w; x++)
        sum[x + 1] = up[x] + here[x] + down[x];
    sum[0] = sum[1];
    sum[w + 1] = sum[w];
}

// One row; `moves` and `stays` are the column sums of `change` and `stay`.
INLINE void blend_row(const tachy_smooth *s, ptrdiff_t at, const float *restrict moves, const float *restrict stays)
{
    const float scale = 1 / (9 * (TACHY_SMOOTH_LOST - TACHY_SMOOTH_FOUND));
    const float offset = TACHY_SMOOTH_FOUND / (TACHY_SMOOTH_LOST - TACHY_SMOOTH_FOUND);
    const float *restrict mask = s->mask + at, *restrict edge = s->edge + at, *restrict moved = s->moved + at;
    const float *restrict moved_motion = s->moved_motion + at, *rise = s->rates.rise, *fall = s->rates.fall;
    float *restrict out = s->out + at, *restrict motion = s->motion + at;
    for (int x = 0; x < s->width; x++) {
        float change = moves[x] + moves[x + 1] + moves[x + 2], stay = stays[x] + stays[x + 1] + stays[x + 2];
        bool still = stay <= change + 9 * TACHY_SMOOTH_NOISE;
        float before = still ? out[x] : moved[x], held = TACHY_SMOOTH_HOLD * (still ? motion[x] : moved_motion[x]);
        float m = TACHY_CLAMP((still ? stay : change) * scale - offset, 0.0f, 1.0f);
        m = TACHY_MAX(m, held);
        float lower = mask[x] * (1 - m * (1 - edge[x]) * (1 - mask[x] * (1 / 255.0f)));
        float way = (mask[x] < out[x] ? lower : mask[x]) - before;
        float up = still ? rise[0] : rise[1], down = still ? fall[0] : fall[1], w = way < 0 ? down : up;
        out[x] = before + (w + (1 - w) * m) * way;
        motion[x] = m;
    }
}

INLINE void follow(const tachy_smooth *s)
{
    float *moves = s->scratch, *stays = moves + s->width + 2;
    move(s);
    for (int y = 0; y < s->height; y++) {
        column_sums(s, s->change, y, moves);
        column_sums(s, s->stay, y, stays);
        blend_row(s, (ptrdiff_t)y * s->width, moves, stays);
    }
}

TACHY_CPU_BEST(follow, const tachy_smooth *)

static void take(const tachy_smooth *s, const uint8_t *mask, ptrdiff_t stride, const uint8_t *guide, ptrdiff_t guide_stride)
{
    ptrdiff_t w = s->width;
    for (ptrdiff_t y = 0; y < s->height; y++) {
        memcpy(s->now + y * w, guide + y * guide_stride, (size_t)w);
        for (ptrdiff_t x = 0; x < w; x++)
            s->mask[y * w + x] = mask[y * stride + x];
    }
    tachy_snap(&(struct tachy_snap){s->width, s->height, s->mask, s->now, s->edge, s->scratch});
}

void tachy_smooth_apply(tachy_smooth *s, uint8_t *mask, ptrdiff_t stride, const uint8_t *guide, ptrdiff_t guide_stride,
                        bool discontinuity)
{
    ptrdiff_t w = s->width, h = s->height;
    if (s->off)
        return;
    take(s, mask, stride, guide, guide_stride);
    if (discontinuity || !s->started) {
        memcpy(s->out, s->mask, (size_t)(w * h) * sizeof(float));
        memset(s->motion, 0, (size_t)(w * h) * sizeof(float));
        s->started = true;
    } else {
        tachy_flow_run(s->flow, s->now, s->guide, s->u, s->v);
        follow_best(s);
    }
    uint8_t *before = s->guide;
    s->guide = s->now;
    s->now = before;
    for (ptrdiff_t y = 0; y < h; y++)
        for (ptrdiff_t x = 0; x < w; x++)
            mask[y * stride + x] = (uint8_t)(s->out[y * w + x] + 0.5f);
}
