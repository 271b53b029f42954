#include "compare/judge.h"

#include "base/base.h"

#include <math.h>

// Gradient error: C. Rhemann et al., "A Perceptually Motivated Online Benchmark for Image Matting", CVPR 2009.
// Gradients of the matte under first derivatives of a Gaussian of sigma 1.4, with filters of unit L2 norm and edges
// repeated. The filters are cut off where a Gaussian of unit area falls below 0.01: 4 pixels to each side.

enum { REACH = 4, TAPS = 2 * REACH + 1 };
#define SIGMA 1.4

static void filters(float smooth[TAPS], float slope[TAPS])
{
    double g[TAPS], d[TAPS], gg = 0, dd = 0;
    for (int i = 0; i < TAPS; i++) {
        double x = i - REACH;
        g[i] = exp(-x * x / (2 * SIGMA * SIGMA));
        d[i] = x * g[i];
        gg += g[i] * g[i];
        dd += d[i] * d[i];
    }
    for (int i = 0; i < TAPS; i++) {
        smooth[i] = (float)(g[i] / sqrt(gg));
        slope[i] = (float)(d[i] / sqrt(dd));
    }
}

// Along the row, with both filters.
static void filter_row(const float *in, int width, const float smooth[TAPS], const float slope[TAPS],
                       float *restrict smoothed, float *restrict sloped)
{
    for (int x = 0; x < width; x++) {
        float a = 0, b = 0;
        bool inside = x >= REACH && x < width - REACH;
        for (int i = 0; i < TAPS; i++) {
            int at = x + i - REACH;
            float v = in[inside ? at : TACHY_CLAMP(at, 0, width - 1)];
            a += smooth[i] * v;
            b += slope[i] * v;
        }
        smoothed[x] = a;
        sloped[x] = b;
    }
}

static void filter_rows(const struct tachy_matte *m, const float smooth[TAPS], const float slope[TAPS], float *smoothed,
                        float *sloped)
{
    for (size_t y = 0, w = (size_t)m->width; y < (size_t)m->height; y++)
        filter_row(m->alpha + y * w, m->width, smooth, slope, smoothed + y * w, sloped + y * w);
}

// The magnitudes of row y from the rows above and below it.
static void magnitudes(const float *smoothed, const float *sloped, int y, const struct tachy_matte *m,
                       const float smooth[TAPS], const float slope[TAPS], float *restrict out)
{
    const float *across[TAPS], *down[TAPS];
    for (int i = 0; i < TAPS; i++) {
        int at = TACHY_CLAMP(y + i - REACH, 0, m->height - 1);
        across[i] = sloped + (size_t)at * (size_t)m->width;
        down[i] = smoothed + (size_t)at * (size_t)m->width;
    }
    for (int x = 0; x < m->width; x++) {
        float gx = 0, gy = 0;
        for (int i = 0; i < TAPS; i++) {
            gx += smooth[i] * across[i][x];
            gy += slope[i] * down[i][x];
        }
        out[x] = sqrtf(gx * gx + gy * gy);
    }
}

double tachy_matte_gradient(const struct tachy_matte *m, const struct tachy_matte *truth, void *const plane[4])
{
    float smooth[TAPS], slope[TAPS], *smoothed = plane[0], *sloped = plane[1], *of_truth = plane[2], *row = plane[3];
    size_t w = (size_t)m->width;
    double sum = 0;
    filters(smooth, slope);
    filter_rows(truth, smooth, slope, smoothed, sloped);
    for (int y = 0; y < m->height; y++)
        magnitudes(smoothed, sloped, y, m, smooth, slope, of_truth + (size_t)y * w);
    filter_rows(m, smooth, slope, smoothed, sloped);
    for (int y = 0; y < m->height; y++) {
        magnitudes(smoothed, sloped, y, m, smooth, slope, row);
        for (size_t x = 0; x < w; x++) {
            double d = (double)row[x] - of_truth[(size_t)y * w + x];
            sum += d * d;
        }
    }
    return sum;
}
