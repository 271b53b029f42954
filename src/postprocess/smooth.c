#include "postprocess/mask.h"

#include "base/cpu.h"
#include "flow/flow.h"
#include "postprocess/snap.h"
#include "ref/ref_smooth.h"

#include <math.h>
#include <stdlib.h>

// ref/ref_smooth.h defines the computation. The first mask of a scene is the filtered mask of the network.

#define LEAST 0.01f // strength 1 still follows, over about a hundred frames

#define INLINE static inline __attribute__((always_inline)) // into the function of each instruction set

enum { PAIRS = 16 };

struct tachy_smooth {
    int width, height;
    bool off; // strength 0
    bool started;
    struct tachy_smooth_rates rates;
    tachy_flow *flow;
    float *out, *motion; // the mask so far, 0..255, and its motion, 0..1
    // Buffers of one frame: the network's mask and its edges; the next state; |guide - guide before|, moved and
    // unmoved.
    float *mask, *edge, *next, *next_motion, *change, *stay;
    float *u, *v, *scratch; // scratch: tachy_snap()'s
    uint8_t *guide, *now;   // of the frame before and of this one, dense
    // For tachy_smooth_back(): motion from a frame to the next, by the number of the first.
    struct pair {
        int64_t from, to; // -1: none
        float *u, *v;
    } pair[PAIRS];
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
    float **planes[] = {&s->out, &s->motion, &s->mask, &s->edge, &s->next, &s->next_motion, &s->change, &s->stay,
                        &s->u, &s->v};
    bool all = tachy_flow_open(&s->flow, width, height, TACHY_FLOW_MASK) == TACHY_OK;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(planes) && all; i++)
        all = (*planes[i] = tachy_aligned_alloc(n * sizeof(float))) != NULL;
    all = all && (s->scratch = tachy_aligned_alloc((TACHY_SNAP_PLANES * n + 4) * sizeof(float))) &&
          (s->guide = tachy_aligned_alloc(n)) && (s->now = tachy_aligned_alloc(n));
    if (!all) {
        tachy_smooth_close(&s);
        return TACHY_ERR_NOMEM;
    }
    for (int i = 0; i < PAIRS; i++)
        s->pair[i].from = s->pair[i].to = -1;
    *out = s;
    return TACHY_OK;
}

void tachy_smooth_close(tachy_smooth **ps)
{
    tachy_smooth *s = *ps;
    *ps = NULL;
    if (!s)
        return;
    void *planes[] = {s->out, s->motion, s->mask, s->edge, s->next, s->next_motion, s->change, s->stay, s->u, s->v,
                      s->scratch, s->guide, s->now};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(planes); i++)
        tachy_aligned_free(planes[i]);
    for (int i = 0; i < PAIRS; i++)
        tachy_aligned_free(s->pair[i].u);
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

// A pixel's previous position: the four pixels around it, and their weights. Outside the picture its edge counts.
struct spot {
    ptrdiff_t at[4];
    float weight[4];
};

INLINE struct spot spot_of(const tachy_smooth *s, int x, int y)
{
    int w = s->width, h = s->height;
    ptrdiff_t i = (ptrdiff_t)y * w + x;
    float from_x = TACHY_CLAMP((float)x + s->u[i], 0.0f, (float)(w - 1));
    float from_y = TACHY_CLAMP((float)y + s->v[i], 0.0f, (float)(h - 1));
    int left = (int)from_x, top = (int)from_y, right = TACHY_MIN(left + 1, w - 1);
    float a = from_x - (float)left, b = from_y - (float)top;
    ptrdiff_t up = (ptrdiff_t)top * w, down = (ptrdiff_t)TACHY_MIN(top + 1, h - 1) * w;
    return (struct spot){{up + left, up + right, down + left, down + right},
                         {(1 - a) * (1 - b), a * (1 - b), (1 - a) * b, a * b}};
}

INLINE float value_at(const float *p, const struct spot *s)
{
    return (s->weight[0] * p[s->at[0]] + s->weight[1] * p[s->at[1]]) +
           (s->weight[2] * p[s->at[2]] + s->weight[3] * p[s->at[3]]);
}

// Sets `change` and `stay`. Returns the mean of the smaller ones.
INLINE float compare(const tachy_smooth *s)
{
    const uint8_t *guide = s->guide;
    ptrdiff_t i = 0;
    float all = 0;
    for (int y = 0; y < s->height; y++) {
        float sum = 0;
        for (int x = 0; x < s->width; x++, i++) {
            struct spot from = spot_of(s, x, y);
            float moved = (from.weight[0] * (float)guide[from.at[0]] + from.weight[1] * (float)guide[from.at[1]]) +
                          (from.weight[2] * (float)guide[from.at[2]] + from.weight[3] * (float)guide[from.at[3]]);
            s->change[i] = fabsf(moved - (float)s->now[i]);
            s->stay[i] = fabsf((float)guide[i] - (float)s->now[i]);
            sum += TACHY_MIN(s->change[i], s->stay[i]);
        }
        all += sum;
    }
    return all / ((float)s->width * (float)s->height);
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

// A row of differences around each pixel, and of what was there before.
struct row {
    float *moves, *stays; // column sums of `change` and `stay`
    float *before, *held; // mask and motion
};

// Does a pixel's guide fit as well as it was? From the column sums that begin one pixel to the left.
INLINE bool still(const float *moves, const float *stays)
{
    return stays[0] + stays[1] + stays[2] <= moves[0] + moves[1] + moves[2] + 9 * TACHY_SMOOTH_NOISE;
}

INLINE void find_row(const tachy_smooth *s, int y, const struct row *r)
{
    ptrdiff_t at = (ptrdiff_t)y * s->width;
    memcpy(r->before, s->out + at, (size_t)s->width * sizeof(float));
    memcpy(r->held, s->motion + at, (size_t)s->width * sizeof(float));
    for (int x = 0; x < s->width; x++) {
        if (still(r->moves + x, r->stays + x))
            continue;
        struct spot from = spot_of(s, x, y);
        r->before[x] = value_at(s->out, &from);
        r->held[x] = value_at(s->motion, &from);
    }
}

INLINE void blend_row(const tachy_smooth *s, int y, const struct row *r)
{
    const float scale = 1 / (9 * (TACHY_SMOOTH_LOST - TACHY_SMOOTH_FOUND));
    const float offset = TACHY_SMOOTH_FOUND / (TACHY_SMOOTH_LOST - TACHY_SMOOTH_FOUND);
    ptrdiff_t at = (ptrdiff_t)y * s->width;
    const float *restrict mask = s->mask + at, *restrict edge = s->edge + at, *restrict out = s->out + at;
    const float *restrict moves = r->moves, *restrict stays = r->stays, *restrict before = r->before, *restrict held = r->held;
    const struct tachy_smooth_rates rates = s->rates;
    float *restrict next = s->next + at, *restrict next_motion = s->next_motion + at;
    for (int x = 0; x < s->width; x++) {
        float change = moves[x] + moves[x + 1] + moves[x + 2], stay = stays[x] + stays[x + 1] + stays[x + 2];
        bool stays_here = still(moves + x, stays + x);
        float m = TACHY_CLAMP((stays_here ? stay : change) * scale - offset, 0.0f, 1.0f);
        m = TACHY_MAX(m, TACHY_SMOOTH_HOLD * held[x]);
        float lower = mask[x] * (1 - m * (1 - edge[x]) * (1 - mask[x] * (1 / 255.0f)));
        float way = (mask[x] < out[x] ? lower : mask[x]) - before[x];
        float rise = stays_here ? rates.rise[0] : rates.rise[1], fall = stays_here ? rates.fall[0] : rates.fall[1];
        float w = way < 0 ? fall : rise;
        next[x] = TACHY_CLAMP(before[x] + (w + (1 - w) * m) * way, 0.0f, 255.0f); // else rounding may leave the range
        next_motion[x] = m;
    }
}

// The state to be. At a cut: the mask itself.
INLINE void follow(const tachy_smooth *s)
{
    size_t w = (size_t)s->width, n = w * (size_t)s->height;
    struct row r = {s->scratch, s->scratch + w + 2, s->scratch + 2 * w + 4, s->scratch + 3 * w + 4};
    if (compare(s) > TACHY_SMOOTH_CUT) {
        memcpy(s->next, s->mask, n * sizeof(float));
        memset(s->next_motion, 0, n * sizeof(float));
        return;
    }
    for (int y = 0; y < s->height; y++) {
        column_sums(s, s->change, y, r.moves);
        column_sums(s, s->stay, y, r.stays);
        find_row(s, y, &r);
        blend_row(s, y, &r);
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

static void swap(float **a, float **b)
{
    float *t = *a;
    *a = *b;
    *b = t;
}

void tachy_smooth_apply(tachy_smooth *s, uint8_t *mask, ptrdiff_t stride, const uint8_t *guide, ptrdiff_t guide_stride,
                        bool discontinuity)
{
    ptrdiff_t w = s->width, h = s->height;
    if (s->off)
        return;
    take(s, mask, stride, guide, guide_stride);
    if (discontinuity || !s->started) {
        swap(&s->out, &s->mask);
        memset(s->motion, 0, (size_t)(w * h) * sizeof(float));
        s->started = true;
    } else {
        tachy_flow_run(s->flow, s->now, s->guide, s->u, s->v);
        follow_best(s);
        swap(&s->out, &s->next);
        swap(&s->motion, &s->next_motion);
    }
    uint8_t *before = s->guide;
    s->guide = s->now;
    s->now = before;
    for (ptrdiff_t y = 0; y < h; y++)
        for (ptrdiff_t x = 0; x < w; x++)
            mask[y * stride + x] = (uint8_t)(s->out[y * w + x] + 0.5f);
}

// ---- From frames to come ----

// Motion of each pixel from a frame to the next.
static const struct pair *pair_of(tachy_smooth *s, const struct tachy_smooth_seen *seen)
{
    struct pair *p = &s->pair[(uint64_t)seen[0].id % PAIRS];
    size_t n = (size_t)s->width * (size_t)s->height;
    if (!p->u && !(p->u = tachy_aligned_alloc(2 * n * sizeof(float))))
        return NULL;
    if (p->from == seen[0].id && p->to == seen[1].id)
        return p;
    p->v = p->u + n;
    p->from = seen[0].id;
    p->to = seen[1].id;
    tachy_flow_run(s->flow, seen[0].guide, seen[1].guide, p->u, p->v);
    return p;
}

static void widen(float *to, const uint8_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = from[i];
}

int tachy_smooth_back(tachy_smooth *s, uint8_t *mask, const struct tachy_smooth_seen seen[], int n)
{
    size_t pixels = (size_t)s->width * (size_t)s->height;
    if (n < 2 || s->off)
        return TACHY_OK;
    widen(s->out, seen[n - 1].mask, pixels);
    memset(s->motion, 0, pixels * sizeof(float));
    for (size_t i = 0; i < pixels; i++)
        s->edge[i] = 1; // so that nobody who arrives is mistaken for one who left
    for (int i = n - 2; i >= 0; i--) {
        const struct pair *p = pair_of(s, &seen[i]);
        if (!p)
            return TACHY_ERR_NOMEM;
        tachy_smooth step = *s;
        step.u = p->u;
        step.v = p->v;
        step.guide = (uint8_t *)(uintptr_t)seen[i + 1].guide;
        step.now = (uint8_t *)(uintptr_t)seen[i].guide;
        widen(s->mask, seen[i].mask, pixels);
        follow_best(&step);
        swap(&s->out, &s->next);
        swap(&s->motion, &s->next_motion);
    }
    for (size_t i = 0; i < pixels; i++)
        mask[i] = (uint8_t)(s->out[i] + 0.5f);
    return TACHY_OK;
}
