#include "measure/light.h"

#include <math.h>
#include <stdlib.h>

const char *const tachy_light_names[TACHY_L_COUNT] = {
    "exposure", "contrast", "shadows", "highlights", "temperature", "tint", "day", "colors", "color1", "color2", "color3", "color4",
    "color5", "color1_share", "color2_share", "color3_share", "color4_share", "color5_share", "light_from_face", "light_x", "light_y",
    "light_z", "light_softness", "exposure_change", "temperature_change", "direction_change",
};

static const double PI = 3.14159265358979323846;

double tachy_light_of(int code)
{
    double v = code / 255.0;
    return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
}

// ---- Colour of the light

// A pixel that tells something of the light: not clipped, not black.
static bool tells(const uint8_t *p)
{
    return TACHY_MAX(p[0], TACHY_MAX(p[1], p[2])) <= 253 && TACHY_MIN(p[0], TACHY_MIN(p[1], p[2])) >= 4;
}

// The sum of pixels, each as far as it is grey under the light `is`.
static void grey_pixels(const uint8_t *rgb, int n, const double light[256], const double is[3], double out[3])
{
    static const double NEAR = 0.15; // in natural logarithms of R by G and B by G
    double logs[256], red = log(is[0] / is[1]), blue = log(is[2] / is[1]);
    for (int i = 1; i < 256; i++)
        logs[i] = log(light[i]);
    out[0] = out[1] = out[2] = 0;
    for (int i = 0; i < n; i++) {
        const uint8_t *p = rgb + 3 * (size_t)i;
        if (!tells(p))
            continue;
        double r = (logs[p[0]] - logs[p[1]] - red) / NEAR, b = (logs[p[2]] - logs[p[1]] - blue) / NEAR, far = r * r + b * b;
        double weight = far < 18 ? exp(-far / 2) : 0;
        for (int c = 0; c < 3; c++)
            out[c] += weight * light[p[c]];
    }
}

// The light by shades of grey (Finlayson and Trezzi 2004: means of sixth powers), then by the pixels that are grey under it.
static void illuminant(const uint8_t *rgb, int n, const double light[256], double out[3])
{
    double sum[3] = {0};
    for (int i = 0; i < n; i++) {
        const uint8_t *p = rgb + 3 * (size_t)i;
        for (int c = 0; c < 3 && tells(p); c++) {
            double v = light[p[c]] * light[p[c]];
            sum[c] += v * v * v;
        }
    }
    for (int c = 0; c < 3; c++)
        out[c] = pow(sum[c] / n, 1.0 / 6);
    for (int i = 0; i < 5 && out[0] > 0; i++) {
        grey_pixels(rgb, n, light, out, sum);
        if (sum[0] > 1e-4 * n)
            memcpy(out, sum, sizeof(sum));
    }
}

// 1960 u, v of the black body (Krystek 1985).
static void planck_uv(double t, double *u, double *v)
{
    *u = (0.860117757 + 1.54118254e-4 * t + 1.28641212e-7 * t * t) / (1 + 8.42420235e-4 * t + 7.08145163e-7 * t * t);
    *v = (0.317398726 + 4.22806245e-5 * t + 4.20481691e-8 * t * t) / (1 - 2.89741816e-5 * t + 1.61456053e-7 * t * t);
}

static double distance(double t, double u, double v)
{
    double pu, pv;
    planck_uv(t, &pu, &pv);
    return hypot(u - pu, v - pv);
}

// The nearest black body by golden section over 1 / T; *tint: how far above the locus.
static double temperature_of(const double rgb[3], double *tint)
{
    double x = 0.4124564 * rgb[0] + 0.3575761 * rgb[1] + 0.1804375 * rgb[2]; // IEC 61966-2-1
    double y = 0.2126729 * rgb[0] + 0.7151522 * rgb[1] + 0.0721750 * rgb[2];
    double z = 0.0193339 * rgb[0] + 0.1191920 * rgb[1] + 0.9503041 * rgb[2];
    double all = x + 15 * y + 3 * z, u, v, pu, pv;
    if (!(all > 0)) { // black
        *tint = 0;
        return 6504;
    }
    u = 4 * x / all;
    v = 6 * y / all;
    double lo = 1 / 25000.0, hi = 1 / 1500.0;
    while (hi - lo > 1e-9) {
        double a = hi - 0.618034 * (hi - lo), b = lo + 0.618034 * (hi - lo);
        if (distance(1 / a, u, v) < distance(1 / b, u, v))
            hi = b;
        else
            lo = a;
    }
    planck_uv(2 / (lo + hi), &pu, &pv);
    *tint = v > pv ? hypot(u - pu, v - pv) : -hypot(u - pu, v - pv);
    return 2 / (lo + hi);
}

// ---- Dominant colours

enum { SIDE = 16, CELLS = SIDE * SIDE * SIDE, ROUNDS = 12 };
static const double APART = 40; // codes: nearer colours are one

struct cell {
    double sum[3], n; // of the pixels in it
};

static double apart(const double a[3], const double b[3])
{
    return (a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) + (a[2] - b[2]) * (a[2] - b[2]);
}

static int nearest(double centre[][3], int k, const double color[3], double *d)
{
    int best = 0;
    *d = INFINITY;
    for (int i = 0; i < k; i++) {
        double now = apart(centre[i], color);
        if (now < *d) {
            *d = now;
            best = i;
        }
    }
    return best;
}

static void color_of(const struct cell *c, double color[3])
{
    for (int i = 0; i < 3; i++)
        color[i] = c->sum[i] / c->n;
}

// Centres far from each other and of many pixels: each next one is the cell with the largest product of both.
static int seeds(const struct cell *cell, double centre[][3])
{
    int k = 0;
    for (; k < TACHY_LIGHT_COLORS; k++) {
        double most = 0, color[3], d;
        for (int i = 0; i < CELLS; i++) {
            if (cell[i].n <= 0)
                continue;
            color_of(&cell[i], color);
            nearest(centre, k, color, &d);
            double worth = cell[i].n * (k ? TACHY_MIN(d, 128 * 128) : 1);
            if (worth > most && (!k || d > APART * APART)) {
                most = worth;
                memcpy(centre[k], color, sizeof(color));
            }
        }
        if (most <= 0)
            break;
    }
    return k;
}

static void means(const struct cell *cell, double centre[][3], int k, double share[])
{
    for (int round = 0; round < ROUNDS; round++) {
        struct cell to[TACHY_LIGHT_COLORS] = {0};
        double color[3], d;
        for (int i = 0; i < CELLS; i++) {
            if (cell[i].n <= 0)
                continue;
            color_of(&cell[i], color);
            struct cell *t = &to[nearest(centre, k, color, &d)];
            for (int c = 0; c < 3; c++)
                t->sum[c] += cell[i].sum[c];
            t->n += cell[i].n;
        }
        for (int i = 0; i < k; i++) {
            share[i] = to[i].n;
            if (to[i].n > 0)
                color_of(&to[i], centre[i]);
        }
    }
}

static void dominant(const uint8_t *rgb, int n, double value[])
{
    struct cell *cell = calloc(CELLS, sizeof(*cell));
    double centre[TACHY_LIGHT_COLORS][3], share[TACHY_LIGHT_COLORS] = {0};
    for (int i = 0; i < TACHY_LIGHT_COLORS; i++)
        value[TACHY_L_COLOR + i] = value[TACHY_L_SHARE + i] = 0;
    value[TACHY_L_COLOR_COUNT] = 0;
    if (!cell)
        return;
    for (int i = 0; i < n; i++) {
        const uint8_t *p = rgb + 3 * (size_t)i;
        struct cell *c = &cell[(p[0] >> 4) * SIDE * SIDE + (p[1] >> 4) * SIDE + (p[2] >> 4)];
        for (int k = 0; k < 3; k++)
            c->sum[k] += p[k];
        c->n++;
    }
    int k = seeds(cell, centre);
    means(cell, centre, k, share);
    value[TACHY_L_COLOR_COUNT] = k;
    for (int i = 0; i < k; i++) {
        int best = 0;
        for (int j = 1; j < k; j++)
            best = share[j] > share[best] ? j : best;
        const double *c = centre[best];
        value[TACHY_L_COLOR + i] = (double)(lround(c[0]) << 16 | lround(c[1]) << 8 | lround(c[2]));
        value[TACHY_L_SHARE + i] = share[best] / n;
        share[best] = -1;
    }
    free(cell);
}

void tachy_light_colors(const uint8_t *rgb, int n, double value[TACHY_L_COUNT])
{
    double light[256], total = 0, sum = 0, sum2 = 0, source[3];
    int dark = 0, black = 0, white = 0;
    for (int i = 0; i < 256; i++)
        light[i] = tachy_light_of(i);
    for (int i = 0; i < n; i++) {
        const uint8_t *p = rgb + 3 * (size_t)i;
        double y = 0.2126 * p[0] + 0.7152 * p[1] + 0.0722 * p[2];
        int most = TACHY_MAX(p[0], TACHY_MAX(p[1], p[2]));
        total += 0.2126 * light[p[0]] + 0.7152 * light[p[1]] + 0.0722 * light[p[2]];
        sum += y;
        sum2 += y * y;
        dark += y < 26;
        black += most <= 3;
        white += most >= 254;
    }
    value[TACHY_L_EXPOSURE] = log2(TACHY_MAX(total / n, 0.18 / 4096) / 0.18);
    value[TACHY_L_CONTRAST] = sqrt(TACHY_MAX(sum2 / n - sum / n * sum / n, 0)) / 255;
    value[TACHY_L_SHADOWS] = (double)black / n;
    value[TACHY_L_HIGHLIGHTS] = (double)white / n;
    illuminant(rgb, n, light, source);
    value[TACHY_L_TEMPERATURE] = temperature_of(source, &value[TACHY_L_TINT]);
    value[TACHY_L_DAY] = 1 / (1 + exp(-2 * (value[TACHY_L_EXPOSURE] + 2.5) + 4 * TACHY_MAX((double)dark / n - 0.5, 0)));
    dominant(rgb, n, value);
}

// ---- Direction, from places whose normal is known

enum { LEAST_PLACES = 30, PASSES = 4, COARSE = 160, ROUND = 8 };

// Ambient light and a lamp. Both are spherical harmonics of second order: of all that could be there, only what a lamp has.
struct lamp {
    double to[3], ambient, lamp;
};

// What a lamp gives to a matt surface whose normal has the cosine `c` to it, up to the second order (Ramamoorthi and
// Hanrahan 2001): 1/4 P0 + 1/2 P1 + 5/16 P2.
static double lit(const double n[3], const double to[3])
{
    double c = n[0] * to[0] + n[1] * to[1] + n[2] * to[2];
    return 0.25 + 0.5 * c + 0.3125 * (1.5 * c * c - 0.5);
}

// Least squares for a direction that is given, with neither light below 0; returns what is left. INFINITY: no lamp there.
static double fit_lamp(const struct tachy_lit *place, int n, const float *weight, struct lamp *l)
{
    double w = 0, f = 0, y = 0, ff = 0, fy = 0, yy = 0;
    for (int p = 0; p < n; p++) {
        double k = (double)weight[p], v = lit(place[p].normal, l->to), t = place[p].light;
        w += k;
        f += k * v;
        y += k * t;
        ff += k * v * v;
        fy += k * v * t;
        yy += k * t * t;
    }
    double det = w * ff - f * f;
    l->lamp = det > 1e-12 * w * w ? (w * fy - f * y) / det : 0;
    l->ambient = w > 0 ? (y - l->lamp * f) / w : 0;
    if (l->ambient < 0 && ff > 0) {
        l->ambient = 0;
        l->lamp = fy / ff;
    }
    if (!(l->lamp > 0))
        return INFINITY;
    return yy - l->ambient * y - l->lamp * fy;
}

static void keep_better(const struct tachy_lit *place, int n, const float *weight, struct lamp *now, struct lamp *best, double *least)
{
    double left = fit_lamp(place, n, weight, now);
    if (left < *least) {
        *least = left;
        *best = *now;
    }
}

// Directions that are spread evenly over the part of the sphere from which something in front of the camera is lit, if it is
// the first time, then rings around the best, each half as wide.
static bool search(const struct tachy_lit *place, int n, const float *weight, bool first, struct lamp *best)
{
    double least = first ? INFINITY : fit_lamp(place, n, weight, best);
    for (int i = 0; i < COARSE && first; i++) {
        double z = 1 - 1.4 * (i + 0.5) / COARSE, r = sqrt(1 - z * z), a = i * 2.399963;
        struct lamp now = {.to = {r * cos(a), r * sin(a), z}};
        keep_better(place, n, weight, &now, best, &least);
    }
    for (double wide = 0.3; wide > 0.005 && isfinite(least); wide /= 2) {
        struct lamp from = *best;
        for (int i = 0; i < ROUND; i++) {
            double u[3] = {from.to[1], -from.to[0], 0}, v[3], flat = hypot(u[0], u[1]), to[3], length = 0;
            u[0] = flat > 1e-6 ? u[0] / flat : 1;
            u[1] = flat > 1e-6 ? u[1] / flat : 0;
            v[0] = from.to[1] * u[2] - from.to[2] * u[1];
            v[1] = from.to[2] * u[0] - from.to[0] * u[2];
            v[2] = from.to[0] * u[1] - from.to[1] * u[0];
            for (int k = 0; k < 3; k++) {
                to[k] = from.to[k] + wide * (cos(2 * PI * i / ROUND) * u[k] + sin(2 * PI * i / ROUND) * v[k]);
                length += to[k] * to[k];
            }
            struct lamp now = {.to = {to[0] / sqrt(length), to[1] / sqrt(length), to[2] / sqrt(length)}};
            keep_better(place, n, weight, &now, best, &least);
        }
    }
    return isfinite(least);
}

static int by_size(const void *x, const void *y)
{
    float a = *(const float *)x, b = *(const float *)y;
    return (a > b) - (a < b);
}

// Tukey's weights of what the fit leaves; `room` is scratch.
static void weigh(const struct tachy_lit *place, int n, const struct lamp *l, float *weight, float *room)
{
    for (int p = 0; p < n; p++)
        weight[p] = room[p] = (float)fabs(place[p].light - l->ambient - l->lamp * lit(place[p].normal, l->to));
    qsort(room, (size_t)n, sizeof(*room), by_size);
    float reach = 4.685f * 1.4826f * room[n / 2] + 1e-9f;
    for (int p = 0; p < n; p++) {
        float r = weight[p] / reach;
        weight[p] = r < 1 ? (1 - r * r) * (1 - r * r) : 0;
    }
}

bool tachy_light_fit(const struct tachy_lit *place, int n, double direction[3], double *softness)
{
    float *weight = n < LEAST_PLACES ? NULL : malloc(2 * (size_t)n * sizeof(*weight));
    struct lamp best = {0};
    bool ok = weight;
    for (int p = 0; p < n && ok; p++)
        weight[p] = 1;
    for (int i = 0; i < PASSES && ok; i++) {
        if (i)
            weigh(place, n, &best, weight, weight + n);
        ok = search(place, n, weight, !i, &best);
    }
    free(weight);
    if (!ok)
        return false;
    memcpy(direction, best.to, sizeof(best.to));
    *softness = best.ambient / (best.ambient + best.lamp / 4); // shares of the mean over all normals
    return true;
}

// ---- Direction, from gradients

enum { STEP_LEAST = 1, STEP_MOST = 10 }; // codes per pixel: less is noise, more is an edge

bool tachy_light_gradients(const uint8_t *luma, int width, int height, double direction[3], double *softness)
{
    double x = 0, y = 0, n = 0;
    for (int j = 2; j < height - 2; j++)
        for (int i = 2; i < width - 2; i++) {
            const uint8_t *p = luma + (ptrdiff_t)j * width + i;
            double dx = (p[2] + p[1] - p[-1] - p[-2]) / 6.0, dy = (p[2 * width] + p[width] - p[-width] - p[-2 * width]) / 6.0;
            double size = hypot(dx, dy);
            if (size < STEP_LEAST || size > STEP_MOST)
                continue;
            x += dx / size;
            y += dy / size;
            n++;
        }
    double length = hypot(x, y);
    if (n < LEAST_PLACES || length < 0.05 * n) // as many rise one way as the other
        return false;
    direction[0] = x / length;
    direction[1] = y / length;
    direction[2] = 0;
    *softness = 1 - TACHY_MIN(length / n * PI / 2, 1); // the mean of half a circle of directions is 2 / pi
    return true;
}
