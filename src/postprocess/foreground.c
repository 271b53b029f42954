#include "postprocess/foreground.h"

#include "base/base.h"
#include "base/cpu.h"
#include "ref/ref_foreground.h"

#include <math.h>
#include <stdlib.h>

enum { PLANES = 10, SPAN = 32 }; // image, colours (F, then B), alpha; pixels that are solved, or not, together
// A neighbour's least weight, and how much an alpha difference of 1 adds to it.
#define LITTLE 1e-5f
#define STEEP 0.03f

// One size of the picture. The planes may be the caller's.
struct level {
    int w, h;
    const float *image[3], *alpha;
    float *colour[6];
};

// A copied run of a row's pixels, since the row itself is overwritten.
struct run {
    int n;
    float own[6][SPAN + 2], alpha[SPAN + 2]; // before the pass, with a pixel more on both sides
    float weight[4][SPAN], gain[SPAN];
};

#define INLINE static inline __attribute__((always_inline)) // into the function of each instruction set

INLINE float clamped(float v) { return v < 0 ? 0 : v > 1 ? 1 : v; }

// Weights of the four neighbours, as shares of their sum, and what turns an error of the mix into changes of F and B.
INLINE void weigh(struct run *r, const float *restrict alpha_up, const float *restrict alpha_down)
{
    for (int i = 0; i < r->n; i++) {
        float a = r->alpha[i + 1], q = 1 - a;
        float left = LITTLE + STEEP * fabsf(a - r->alpha[i]), right = LITTLE + STEEP * fabsf(a - r->alpha[i + 2]);
        float up = LITTLE + STEEP * fabsf(a - alpha_up[i]), down = LITTLE + STEEP * fabsf(a - alpha_down[i]);
        float total = left + right + up + down, share = 1 / total;
        r->weight[0][i] = left * share;
        r->weight[1][i] = right * share;
        r->weight[2][i] = up * share;
        r->weight[3][i] = down * share;
        r->gain[i] = 1 / (a * a + q * q + total);
    }
}

// One of R, G and B. F and B are the neighbours' means, and alpha and 1 - alpha times what then lacks.
INLINE void solve(const struct run *r, int c, const float *restrict image, const float *fu, const float *fd,
                  const float *bu, const float *bd, float *restrict fo, float *restrict bo)
{
    const float *f = r->own[c] + 1, *b = r->own[c + 3] + 1;
    for (int i = 0; i < r->n; i++) {
        float a = r->alpha[i + 1], q = 1 - a;
        float wl = r->weight[0][i], wr = r->weight[1][i], wu = r->weight[2][i], wd = r->weight[3][i];
        float mf = wl * f[i - 1] + wr * f[i + 1] + wu * fu[i] + wd * fd[i];
        float mb = wl * b[i - 1] + wr * b[i + 1] + wu * bu[i] + wd * bd[i];
        float lacks = (image[i] - a * mf - q * mb) * r->gain[i];
        fo[i] = clamped(mf + a * lacks);
        bo[i] = clamped(mb + q * lacks);
    }
}

// True if all n floats have these bits.
INLINE bool all_are(const float *p, int n, uint32_t bits)
{
    uint32_t other = 0;
    for (int i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, p + i, sizeof(u));
        other |= u ^ bits;
    }
    return !other;
}

// True if alpha is 0 or 1 in the run and around it, so that one colour is the picture's. False: it must be solved.
INLINE bool settled(const struct level *l, const struct run *r, size_t at, size_t up, size_t down)
{
    uint32_t bits = r->alpha[1] >= 1 ? 0x3f800000u : 0; // 1, or 0
    if (!all_are(r->alpha, r->n + 2, bits) || !all_are(l->alpha + up, r->n, bits) || !all_are(l->alpha + down, r->n, bits))
        return false;
    for (int c = 0; c < 3; c++)
        memcpy(l->colour[bits ? c : c + 3] + at, l->image[c] + at, (size_t)r->n * sizeof(float));
    return true;
}

// Pixels x0..x0 + n of row y, which begins at `row`. `before`: what the pixel left of them was before the pass.
INLINE void take_run(const struct level *l, struct run *r, size_t row, int x0, float before[6])
{
    int last = TACHY_MIN(x0 + r->n, l->w - 1);
    memcpy(r->alpha + 1, l->alpha + row + x0, (size_t)r->n * sizeof(float));
    r->alpha[0] = l->alpha[row + (size_t)TACHY_MAX(x0 - 1, 0)];
    r->alpha[r->n + 1] = l->alpha[row + (size_t)last];
    for (int c = 0; c < 6; c++) {
        const float *from = l->colour[c] + row;
        memcpy(r->own[c] + 1, from + x0, (size_t)r->n * sizeof(float));
        r->own[c][0] = x0 ? before[c] : from[0];
        r->own[c][r->n + 1] = from[last];
        before[c] = from[x0 + r->n - 1];
    }
}

INLINE void pass(const struct level *l)
{
    struct run r;
    float before[6];
    for (int k = 0; k < l->h; k++)
        for (int x = 0, y = tachy_ref_foreground_row(k, l->h); x < l->w; x += SPAN) {
            size_t row = (size_t)y * (size_t)l->w, at = row + (size_t)x;
            size_t up = y ? at - (size_t)l->w : at, down = y < l->h - 1 ? at + (size_t)l->w : at;
            r.n = TACHY_MIN(SPAN, l->w - x);
            take_run(l, &r, row, x, before);
            if (l->w > 4 * SPAN && settled(l, &r, at, up, down))
                continue;
            weigh(&r, l->alpha + up, l->alpha + down);
            for (int c = 0; c < 3; c++) {
                const float *f = r.own[c] + 1, *b = r.own[c + 3] + 1, *fs = l->colour[c], *bs = l->colour[c + 3];
                solve(&r, c, l->image[c] + at, y ? fs + up : f, down > at ? fs + down : f, y ? bs + up : b,
                      down > at ? bs + down : b, l->colour[c] + at, l->colour[c + 3] + at);
            }
        }
}

TACHY_CPU_BEST(pass, const struct level *)

static void nearest(float *to, int w, int h, const float *from, int from_w, int from_h)
{
    uint64_t step = (((uint64_t)from_w << 32) + (uint64_t)w - 1) / (uint64_t)w; // rounded up, so that floor is exact
    int64_t last = -1;
    for (int y = 0; y < h; y++, to += w) {
        int64_t row = (int64_t)y * from_h / h;
        const float *p = from + (size_t)row * (size_t)from_w;
        if (row == last) {
            memcpy(to, to - w, (size_t)w * sizeof(float));
            continue;
        }
        uint64_t x = 0;
        for (int i = 0; i < w; i++, x += step)
            to[i] = p[x >> 32];
        last = row;
    }
}

// The means of what is surely foreground, and surely background; LANES sums side by side, taken in before they are large.
static void first_colours(float to[6], const float *image, const float *alpha, size_t n)
{
    enum { LANES = 16, BLOCK = 1024 };
    double sum[8] = {0};
    for (size_t at = 0; at < n; at += BLOCK) {
        float part[8][LANES] = {0};
        size_t end = TACHY_MIN(at + BLOCK, n);
        for (size_t i = at; i < end; i += LANES)
            for (size_t k = 0; k < LANES && i + k < end; k++) {
                float a = alpha[i + k], fore = a > 0.9f ? 1.f : 0.f, back = a < 0.1f ? 1.f : 0.f;
                for (size_t c = 0; c < 3; c++) {
                    part[c][k] += fore * image[c * n + i + k];
                    part[c + 3][k] += back * image[c * n + i + k];
                }
                part[6][k] += fore;
                part[7][k] += back;
            }
        for (int c = 0; c < 8; c++)
            for (int k = 0; k < LANES; k++)
                sum[c] += part[c][k];
    }
    for (int c = 0; c < 6; c++)
        to[c] = (float)(sum[6 + c / 3] > 0 ? sum[c] / sum[6 + c / 3] : 0);
}

// A size's planes: the caller's for the whole picture, else in `memory`.
static struct level level_at(float *memory, int w, int h)
{
    struct level l = {.w = w, .h = h};
    size_t n = (size_t)w * (size_t)h;
    for (size_t c = 0; c < 3; c++)
        l.image[c] = memory + c * n;
    for (size_t c = 0; c < 6; c++)
        l.colour[c] = memory + (3 + c) * n;
    l.alpha = memory + 9 * n;
    return l;
}

static int reserve(struct tachy_foreground *s, size_t floats)
{
    if (floats <= s->floats)
        return TACHY_OK;
    tachy_foreground_free(s);
    s->memory = tachy_aligned_alloc(floats * sizeof(float));
    s->floats = s->memory ? floats : 0;
    return s->memory ? TACHY_OK : TACHY_ERR_NOMEM;
}

int tachy_foreground_estimate(struct tachy_foreground *s, float *fore, float *back, const float *image,
                              const float *alpha, int width, int height)
{
    int levels = tachy_ref_foreground_levels(width, height);
    size_t n = (size_t)width * (size_t)height;
    // Two sizes in turn; both are smaller than the whole picture.
    size_t most = levels ? (size_t)tachy_ref_foreground_size(width, levels - 1, levels) *
                               (size_t)tachy_ref_foreground_size(height, levels - 1, levels) : 1;
    if (reserve(s, 2 * PLANES * most + 6) < 0)
        return TACHY_ERR_NOMEM;
    float *first = s->memory + 2 * PLANES * most;
    struct level before = {.w = 1, .h = 1}, now;
    first_colours(first, image, alpha, n);
    for (int c = 0; c < 6; c++)
        before.colour[c] = first + c;
    for (int i = 0; i <= levels; i++, before = now) {
        now = level_at(s->memory + (i % 2 ? PLANES * most : 0), tachy_ref_foreground_size(width, i, levels),
                       tachy_ref_foreground_size(height, i, levels));
        for (size_t c = 0; c < 3; c++) {
            if (i == levels) {
                now.image[c] = image + c * n;
                now.colour[c] = fore + c * n;
                now.colour[c + 3] = back + c * n;
            } else {
                nearest((float *)now.image[c], now.w, now.h, image + c * n, width, height);
            }
        }
        if (i == levels)
            now.alpha = alpha;
        else
            nearest((float *)now.alpha, now.w, now.h, alpha, width, height);
        for (int c = 0; c < 6; c++)
            nearest(now.colour[c], now.w, now.h, before.colour[c], before.w, before.h);
        for (int k = tachy_ref_foreground_passes(now.w, now.h); k > 0; k--)
            pass_best(&now);
    }
    return TACHY_OK;
}

void tachy_foreground_free(struct tachy_foreground *s)
{
    tachy_aligned_free(s->memory);
    *s = (struct tachy_foreground){0};
}
