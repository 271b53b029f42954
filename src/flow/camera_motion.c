#include "flow/camera_motion.h"

#include <math.h>

// RANSAC (Fischler and Bolles 1981) over a grid of the flow's vectors finds a homography through four of them that the most agree
// with; weighted least squares with the Geman-McClure weight then fit it to all that do. Coordinates are shifted to the middle and
// divided by half the diagonal, for the linear systems' sake (Hartley 1997).

enum { SIDE = 24, MOST = SIDE * SIDE, TRIES = 96, FITS = 6 };
#define NEAR 1.0      // pixels within which a vector agrees
#define FLAT 1e-12    // of a pivot: points on a line
#define STEEP 0.5     // a denominator under this is no camera's

struct match {
    double x, y, u, v; // normalised: old and new position
};

struct set {
    int n;
    struct match at[MOST];
    double cx, cy, scale; // pixel = c + scale * normalised
    double near;          // normalised
};

static void take(struct set *s, const float *u, const float *v, int width, int height, int every)
{
    s->n = 0;
    s->cx = 0.5 * (width - 1);
    s->cy = 0.5 * (height - 1);
    s->scale = TACHY_MAX(0.5 * hypot(width, height), 1.0);
    s->near = NEAR / s->scale;
    ptrdiff_t stride = (width + every - 1) / every;
    int columns = TACHY_MIN(SIDE, width), rows = TACHY_MIN(SIDE, height);
    for (int j = 0; j < rows; j++)
        for (int i = 0; i < columns; i++) {
            int x = (int)(((int64_t)2 * i + 1) * width / (2 * columns)), y = (int)(((int64_t)2 * j + 1) * height / (2 * rows));
            ptrdiff_t k = y / every * stride + x / every;
            x -= x % every;
            y -= y % every;
            double fx = (x - s->cx) / s->scale, fy = (y - s->cy) / s->scale;
            s->at[s->n++] = (struct match){fx, fy, fx + (double)u[k] / s->scale, fy + (double)v[k] / s->scale};
        }
}

// a: 8 rows of 9, solved in place by elimination with the largest pivots; false: there is no single solution.
static bool solve(double a[8][9], double h[9])
{
    for (int c = 0; c < 8; c++) {
        int best = c;
        for (int r = c + 1; r < 8; r++)
            if (fabs(a[r][c]) > fabs(a[best][c]))
                best = r;
        if (!(fabs(a[best][c]) > FLAT))
            return false;
        for (int k = c; k < 9; k++) {
            double t = a[c][k];
            a[c][k] = a[best][k];
            a[best][k] = t;
        }
        for (int r = 0; r < 8; r++) {
            double f = r == c ? 0 : a[r][c] / a[c][c];
            for (int k = c; k < 9 && f != 0; k++)
                a[r][k] -= f * a[c][k];
        }
    }
    for (int c = 0; c < 8; c++)
        h[c] = a[c][8] / a[c][c];
    h[8] = 1;
    return true;
}

// The two equations of a match, linear in h[0..7], with their right sides.
static void equations(const struct match *m, double a[9], double b[9])
{
    const double x[9] = {m->x, m->y, 1, 0, 0, 0, -m->u * m->x, -m->u * m->y, m->u};
    const double y[9] = {0, 0, 0, m->x, m->y, 1, -m->v * m->x, -m->v * m->y, m->v};
    memcpy(a, x, sizeof(x));
    memcpy(b, y, sizeof(y));
}

// Squared distance between a match's position and the one that h maps it to.
static double distance(const double h[9], const struct match *m)
{
    double w = h[6] * m->x + h[7] * m->y + h[8];
    if (w < STEEP)
        return INFINITY;
    double dx = (h[0] * m->x + h[1] * m->y + h[2]) / w - m->u, dy = (h[3] * m->x + h[4] * m->y + h[5]) / w - m->v;
    return dx * dx + dy * dy;
}

// Sum of squared distances, each cut off at `near`: less is better.
static double cost(const struct set *s, const double h[9])
{
    double sum = 0, most = s->near * s->near;
    for (int i = 0; i < s->n; i++)
        sum += TACHY_MIN(distance(h, &s->at[i]), most);
    return sum;
}

static double agreeing(const struct set *s, const double h[9])
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += distance(h, &s->at[i]) <= s->near * s->near;
    return (double)n / s->n;
}

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static bool through_four(const struct set *s, uint32_t *seed, double h[9])
{
    double a[8][9];
    for (int i = 0; i < 4; i++)
        equations(&s->at[next(seed) % (uint32_t)s->n], a[2 * i], a[2 * i + 1]);
    return solve(a, h);
}

// One step of the weighted least squares from h on.
static bool fit(const struct set *s, double h[9])
{
    double a[8][9] = {{0}}, e[2][9], most = s->near * s->near;
    for (int i = 0; i < s->n; i++) {
        double d = distance(h, &s->at[i]) / most, w = 1 / ((1 + d) * (1 + d));
        if (!(w > 1e-3))
            continue;
        equations(&s->at[i], e[0], e[1]);
        for (int k = 0; k < 2; k++)
            for (int r = 0; r < 8; r++)
                for (int c = 0; c < 9; c++)
                    a[r][c] += w * e[k][r] * e[k][c];
    }
    return solve(a, h);
}

static void search(const struct set *s, double best[9])
{
    static const double none[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    double least = cost(s, none), h[9];
    uint32_t seed = 1;
    memcpy(best, none, sizeof(none));
    for (int i = 0; i < TRIES; i++) {
        if (!through_four(s, &seed, h))
            continue;
        double c = cost(s, h);
        if (c < least) {
            least = c;
            memcpy(best, h, sizeof(h));
        }
    }
    memcpy(h, best, sizeof(h));
    for (int i = 0; i < FITS && fit(s, h); i++) {
        double c = cost(s, h);
        if (c >= least)
            break;
        least = c;
        memcpy(best, h, sizeof(h));
    }
}

// From normalised coordinates to pixels: T H T^-1 with T = [scale 0 cx; 0 scale cy; 0 0 1].
static void to_pixels(const struct set *s, const double n[9], double h[9])
{
    double a[9];
    for (int r = 0; r < 3; r++) { // H T^-1
        a[3 * r] = n[3 * r] / s->scale;
        a[3 * r + 1] = n[3 * r + 1] / s->scale;
        a[3 * r + 2] = n[3 * r + 2] - a[3 * r] * s->cx - a[3 * r + 1] * s->cy;
    }
    for (int c = 0; c < 3; c++) {
        h[c] = s->scale * a[c] + s->cx * a[6 + c];
        h[3 + c] = s->scale * a[3 + c] + s->cy * a[6 + c];
        h[6 + c] = a[6 + c];
    }
}

void tachy_camera_motion_of(struct tachy_camera_motion *c, const float *u, const float *v, int width, int height, int every)
{
    struct set s;
    double n[9];
    take(&s, u, v, width, height, every);
    search(&s, n);
    double agree = agreeing(&s, n);
    *c = (struct tachy_camera_motion){.h = {1, 0, 0, 0, 1, 0, 0, 0, 1}, .zoom = 1, .agree = agree};
    if (agree < 0.25)
        return;
    to_pixels(&s, n, c->h);
    tachy_camera_motion_at(c, s.cx, s.cy, &c->x, &c->y);
    // The Jacobian at the middle, where n takes (0, 0) to (n2, n5) with the denominator 1.
    double xx = n[0] - n[2] * n[6], xy = n[1] - n[2] * n[7], yx = n[3] - n[5] * n[6], yy = n[4] - n[5] * n[7];
    c->zoom = sqrt(fabs(xx * yy - xy * yx));
    c->roll = atan2(yx - xy, xx + yy) * 180 / 3.14159265358979323846;
}
