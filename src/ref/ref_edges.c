#include "ref/ref_edges.h"

#include "base/base.h"

#include <stdlib.h>

enum { R = TACHY_EDGES_RADIUS, N = (2 * R + 1) * (2 * R + 1) };

struct picture {
    int w, h;
    size_t n;
    const double *guide;
    const uint8_t *unknown;
    double *window[4]; // slopes and offset of the window around each cell; 0: it leaves the picture
};

// x of s x = v; s is symmetric and positive definite. Cramer's rule.
static void solve3(double x[3], const double s[3][3], const double v[3])
{
    double det = 0, c[3][3];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            int a = (i + 1) % 3, b = (i + 2) % 3, d = (j + 1) % 3, e = (j + 2) % 3;
            c[i][j] = s[a][d] * s[b][e] - s[a][e] * s[b][d];
        }
    for (int j = 0; j < 3; j++)
        det += s[0][j] * c[0][j];
    for (int i = 0; i < 3; i++)
        x[i] = (c[i][0] * v[0] + c[i][1] * v[1] + c[i][2] * v[2]) / det;
}

static void fit_window(struct picture *p, const double *alpha, int x, int y)
{
    double mean[4] = {0}, s[3][3] = {{0}}, v[3] = {0}, slope[3], offset;
    size_t at = (size_t)y * (size_t)p->w + (size_t)x;
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < N; k++) {
            size_t cell = at + (size_t)((k / (2 * R + 1) - R) * p->w + k % (2 * R + 1) - R);
            double d[4];
            for (size_t c = 0; c < 4; c++) {
                d[c] = (c < 3 ? p->guide[c * p->n + cell] : alpha[cell]) - (pass ? mean[c] : 0);
                mean[c] += pass ? 0 : d[c] / N;
            }
            for (int i = 0; pass && i < 3; i++) {
                v[i] += d[i] * d[3] / N;
                for (int j = 0; j < 3; j++)
                    s[i][j] += d[i] * d[j] / N;
            }
        }
    for (int i = 0; i < 3; i++)
        s[i][i] += TACHY_EDGES_EPS / N;
    solve3(slope, (const double(*)[3])s, v);
    offset = mean[3];
    for (int c = 0; c < 3; c++) {
        p->window[c][at] = slope[c];
        offset -= slope[c] * mean[c];
    }
    p->window[3][at] = offset;
}

// Sums over the windows that hold a cell; how many these are.
static int around(const struct picture *p, double sum[4], int x, int y)
{
    int count = 0;
    memset(sum, 0, 4 * sizeof(*sum));
    for (int wy = TACHY_MAX(y - R, R); wy <= TACHY_MIN(y + R, p->h - 1 - R); wy++)
        for (int wx = TACHY_MAX(x - R, R); wx <= TACHY_MIN(x + R, p->w - 1 - R); wx++, count++)
            for (int c = 0; c < 4; c++)
                sum[c] += p->window[c][wy * p->w + wx];
    return count;
}

static void fit_windows(struct picture *p, const double *alpha)
{
    for (int y = R; y < p->h - R; y++)
        for (int x = R; x < p->w - R; x++)
            fit_window(p, alpha, x, y);
}

// to = what the windows' errors change with each unknown cell's alpha; 0 for the known.
static void slopes_of_error(struct picture *p, double *to, const double *alpha)
{
    fit_windows(p, alpha);
    for (int y = 0; y < p->h; y++)
        for (int x = 0; x < p->w; x++) {
            size_t at = (size_t)y * (size_t)p->w + (size_t)x;
            double sum[4];
            to[at] = 0;
            if (!p->unknown[at])
                continue;
            to[at] = around(p, sum, x, y) * alpha[at] - sum[3];
            for (size_t c = 0; c < 3; c++)
                to[at] -= sum[c] * p->guide[c * p->n + at];
        }
}

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void descend(struct picture *p, double *x, double *left, double *way, double *change)
{
    slopes_of_error(p, left, x);
    for (size_t i = 0; i < p->n; i++)
        way[i] = left[i] = -left[i];
    double size = dot(left, left, p->n);
    for (int k = 0; k < TACHY_EDGES_PASSES && size > 0; k++) {
        slopes_of_error(p, change, way);
        double curve = dot(way, change, p->n), step = curve > 0 ? size / curve : 0, before = size;
        for (size_t i = 0; i < p->n; i++) {
            x[i] += step * way[i];
            left[i] -= step * change[i];
        }
        size = dot(left, left, p->n);
        for (size_t i = 0; i < p->n; i++)
            way[i] = left[i] + size / before * way[i];
    }
    for (size_t i = 0; i < p->n; i++)
        x[i] = TACHY_CLAMP(x[i], 0, 1);
}

static void store(struct picture *p, double *fit, const double *alpha)
{
    fit_windows(p, alpha);
    for (int y = 0; y < p->h; y++)
        for (int x = 0; x < p->w; x++) {
            size_t at = (size_t)y * (size_t)p->w + (size_t)x;
            double sum[4] = {0};
            int count = p->unknown[at] ? around(p, sum, x, y) : 0;
            for (size_t c = 0; c < 4; c++)
                fit[c * p->n + at] = count ? sum[c] / count : c == 3 ? alpha[at] : 0;
        }
}

int tachy_ref_edges(double *fit, const double *guide, const double *alpha, const uint8_t *unknown, int width, int height)
{
    struct picture p = {.w = width, .h = height, .n = (size_t)width * (size_t)height, .guide = guide, .unknown = unknown};
    double *memory = calloc(8 * p.n, sizeof(double));
    if (!memory)
        return TACHY_ERR_NOMEM;
    for (size_t c = 0; c < 4; c++)
        p.window[c] = memory + c * p.n;
    double *x = memory + 4 * p.n;
    memcpy(x, alpha, p.n * sizeof(double));
    descend(&p, x, x + p.n, x + 2 * p.n, x + 3 * p.n);
    store(&p, fit, x);
    free(memory);
    return TACHY_OK;
}

// A plane of the fit at (u, v) cells.
static double fit_at(const double *plane, int w, int h, double u, double v)
{
    u = TACHY_CLAMP(u, 0, w - 1);
    v = TACHY_CLAMP(v, 0, h - 1);
    int x = (int)u, y = (int)v, right = TACHY_MIN(x + 1, w - 1), down = TACHY_MIN(y + 1, h - 1);
    double up = plane[y * w + x] * (x + 1 - u) + plane[y * w + right] * (u - x);
    return up * (y + 1 - v) + (plane[down * w + x] * (x + 1 - u) + plane[down * w + right] * (u - x)) * (v - y);
}

void tachy_ref_edges_row(double *alpha, const double *fit, int width, int height, int cell, const double *colour, int n, int y)
{
    size_t cells = (size_t)width * (size_t)height;
    for (int x = 0; x < n; x++) {
        double u = (x + 0.5) / cell - 0.5, v = (y + 0.5) / cell - 0.5, sum = fit_at(fit + 3 * cells, width, height, u, v);
        for (size_t c = 0; c < 3; c++)
            sum += fit_at(fit + c * cells, width, height, u, v) * colour[c * (size_t)n + (size_t)x];
        alpha[x] = TACHY_CLAMP(sum, 0, 1);
    }
}
