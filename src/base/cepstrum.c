#include "base/cepstrum.h"

#include <float.h>
#include <math.h>

enum { FILTERS = 26, LIFTER = 22 };

// The bin of the triangles' corner i, 0..FILTERS + 1: as wide as each other on the mel scale.
static int corner(int i)
{
    double most = 2595 * log10(1 + TACHY_CEPSTRUM_RATE / 2 / 700.), mel = most * i / (FILTERS + 1);
    return (int)floor((TACHY_CEPSTRUM_FOURIER + 1) * 700 * (pow(10, mel / 2595) - 1) / TACHY_CEPSTRUM_RATE);
}

static double logarithm(double v) { return log(v > 0 ? v : DBL_EPSILON); }

static double filter(const double *power, int begin, int top, int end)
{
    double sum = 0;
    for (int i = begin; i < top; i++)
        sum += power[i] * (i - begin) / (top - begin);
    for (int i = top; i < end; i++)
        sum += power[i] * (end - i) / (end - top);
    return sum;
}

void tachy_cepstrum(const double power[TACHY_CEPSTRUM_BINS], float to[TACHY_CEPSTRA])
{
    double energy = 0, level[FILTERS];
    for (int i = 0; i < TACHY_CEPSTRUM_BINS; i++)
        energy += power[i];
    for (int i = 0; i < FILTERS; i++)
        level[i] = logarithm(filter(power, corner(i), corner(i + 1), corner(i + 2)));
    to[0] = (float)logarithm(energy);
    for (int k = 1; k < TACHY_CEPSTRA; k++) {
        double sum = 0;
        for (int i = 0; i < FILTERS; i++)
            sum += level[i] * cos(M_PI * k * (2 * i + 1) / (2 * FILTERS));
        to[k] = (float)(sum * sqrt(2. / FILTERS) * (1 + LIFTER / 2. * sin(M_PI * k / LIFTER)));
    }
}
