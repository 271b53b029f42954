#include "ref/ref_foreground.h"

#include "base/base.h"

#include <math.h>
#include <stdlib.h>

int tachy_ref_foreground_levels(int width, int height)
{
    int levels = 0;
    while (1 << levels < TACHY_MAX(width, height))
        levels++;
    return levels;
}

int tachy_ref_foreground_size(int whole, int level, int levels)
{
    return levels ? (int)lrint(pow(whole, (double)level / levels)) : whole;
}

int tachy_ref_foreground_passes(int width, int height) { return width <= 32 && height <= 32 ? 10 : 2; }

// One size of the picture.
struct level {
    int w, h;
    double *image[3], *alpha, *colour[6]; // colour: F, then B
    double *memory;
};

static int level_open(struct level *l, int w, int h)
{
    size_t n = (size_t)w * (size_t)h;
    *l = (struct level){.w = w, .h = h, .memory = malloc(10 * n * sizeof(double))};
    for (size_t i = 0; l->memory && i < 10; i++)
        *(i < 3 ? &l->image[i] : i < 9 ? &l->colour[i - 3] : &l->alpha) = l->memory + i * n;
    return l->memory ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void nearest(double *to, int w, int h, const double *from, int from_w, int from_h)
{
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            to[y * w + x] = from[(int64_t)y * from_h / h * from_w + (int64_t)x * from_w / w];
}

// Minimises at pixel (x, y). `own`: the row's values before the pass, 6 * w.
static void solve(struct level *l, const double *own, int x, int y)
{
    static const int dx[] = {-1, 1, 0, 0}, dy[] = {0, 0, -1, 1};
    double a = l->alpha[y * l->w + x], b = 1 - a, total = 0, sum[6];
    for (int c = 0; c < 6; c++)
        sum[c] = (c < 3 ? a : b) * l->image[c % 3][y * l->w + x];
    for (int k = 0; k < 4; k++) {
        int nx = TACHY_CLAMP(x + dx[k], 0, l->w - 1), ny = TACHY_CLAMP(y + dy[k], 0, l->h - 1);
        double weight = 1e-5 + 0.03 * fabs(a - l->alpha[ny * l->w + nx]);
        total += weight;
        for (int c = 0; c < 6; c++)
            sum[c] += weight * (ny == y ? own[c * l->w + nx] : l->colour[c][ny * l->w + nx]);
    }
    double ff = a * a + total, fb = a * b, bb = b * b + total, det = ff * bb - fb * fb;
    for (int c = 0; c < 3; c++) {
        double f = (bb * sum[c] - fb * sum[c + 3]) / det, g = (ff * sum[c + 3] - fb * sum[c]) / det;
        l->colour[c][y * l->w + x] = TACHY_CLAMP(f, 0, 1);
        l->colour[c + 3][y * l->w + x] = TACHY_CLAMP(g, 0, 1);
    }
}

static int pass(struct level *l)
{
    size_t w = (size_t)l->w;
    double *own = malloc(6 * w * sizeof(double));
    if (!own)
        return TACHY_ERR_NOMEM;
    for (int k = 0; k < l->h; k++) {
        int y = tachy_ref_foreground_row(k, l->h);
        for (size_t c = 0; c < 6; c++)
            memcpy(own + c * w, l->colour[c] + (size_t)y * w, w * sizeof(double));
        for (int x = 0; x < l->w; x++)
            solve(l, own, x, y);
    }
    free(own);
    return TACHY_OK;
}

// The means of what is surely foreground, and surely background.
static void first_colours(double to[6], const double *image, const double *alpha, size_t n)
{
    for (int c = 0; c < 6; c++) {
        double sum = 0, count = 0;
        for (size_t i = 0; i < n; i++) {
            bool sure = c < 3 ? alpha[i] > 0.9 : alpha[i] < 0.1;
            sum += sure ? image[(size_t)(c % 3) * n + i] : 0;
            count += sure;
        }
        to[c] = count ? sum / count : 0;
    }
}

int tachy_ref_foreground(double *fore, double *back, const double *image, const double *alpha, int width, int height)
{
    size_t n = (size_t)width * (size_t)height;
    int levels = tachy_ref_foreground_levels(width, height), err = TACHY_OK;
    double first[6];
    struct level before = {.w = 1, .h = 1}, now;
    first_colours(first, image, alpha, n);
    for (int c = 0; c < 6; c++)
        before.colour[c] = &first[c];
    for (int i = 0; i <= levels && err == TACHY_OK; i++) {
        err = level_open(&now, tachy_ref_foreground_size(width, i, levels), tachy_ref_foreground_size(height, i, levels));
        if (err < 0)
            break;
        for (size_t c = 0; c < 3; c++)
            nearest(now.image[c], now.w, now.h, image + c * n, width, height);
        nearest(now.alpha, now.w, now.h, alpha, width, height);
        for (int c = 0; c < 6; c++)
            nearest(now.colour[c], now.w, now.h, before.colour[c], before.w, before.h);
        for (int k = tachy_ref_foreground_passes(now.w, now.h); k > 0 && err == TACHY_OK; k--)
            err = pass(&now);
        free(before.memory);
        before = now;
    }
    for (size_t c = 0; c < 3 && err == TACHY_OK; c++) {
        memcpy(fore + c * n, before.colour[c], n * sizeof(double));
        memcpy(back + c * n, before.colour[c + 3], n * sizeof(double));
    }
    free(before.memory);
    return err;
}
