#include "base/base.h"

#include <stdint.h>
#include <tachy/tensor.h>

// Inputs with which networks are timed and judged if there is no picture.

// A synthetic picture: most of its energy is in coarse shapes, some at every scale down to a pixel. Each channel has
// its own shapes. Octaves of noise: each has twice the cells and 0.6 times the height of the one before.
enum { OCTAVES = 6 };

static double cell(uint32_t x, uint32_t y, uint32_t channel, uint32_t octave)
{
    uint32_t h = x * 0x9e3779b1u ^ y * 0x85ebca77u ^ channel * 0xc2b2ae3du ^ octave * 0x27d4eb2fu;
    h = (h ^ h >> 15) * 0x2c1b3c6du;
    h = (h ^ h >> 12) * 0x297a2d39u;
    return (double)(h ^ h >> 15) / 4294967295.0;
}

// The noise of a grid between its four corners.
static double between(double x, double y, uint32_t channel, uint32_t octave)
{
    uint32_t left = (uint32_t)x, top = (uint32_t)y;
    double u = x - left, v = y - top;
    double upper = cell(left, top, channel, octave) * (1 - u) + cell(left + 1, top, channel, octave) * u;
    double lower = cell(left, top + 1, channel, octave) * (1 - u) + cell(left + 1, top + 1, channel, octave) * u;
    return upper * (1 - v) + lower * v;
}

// The value of the pixel at (x, y); both are 0 to 1, and so is the value.
static float picture(double x, double y, uint32_t channel)
{
    double sum = 0, height = 1, all = 0;
    for (uint32_t octave = 0; octave < OCTAVES; octave++, height *= 0.6) {
        double cells = (double)(3u << octave);
        sum += height * between(x * cells, y * cells, channel, octave);
        all += height;
    }
    return (float)(sum / all);
}

// Rows, columns and channels of a tensor: of a picture in either order, else one row.
struct extent {
    int64_t rows, columns, channels;
    bool last; // channels last
};

static struct extent extent_of(const struct tachy_tensor *t)
{
    const int64_t *s = t->shape;
    if (t->rank < 3)
        return (struct extent){1, tachy_tensor_elements(t), 1, false};
    const int64_t *end = s + t->rank - 3;
    bool last = end[2] <= 4 && end[0] > 4;
    return last ? (struct extent){end[0], end[1], end[2], true} : (struct extent){end[1], end[2], end[0], false};
}

static float picture_at(const struct extent *e, int64_t i)
{
    int64_t pixels = e->rows * e->columns, pixel = e->last ? i / e->channels % pixels : i % pixels;
    int64_t channel = e->last ? i % e->channels : i / pixels;
    return picture((double)(pixel % e->columns) / (double)e->columns,
                   (double)(pixel / e->columns) / (double)e->rows, (uint32_t)channel);
}

// Noise without shapes, -1 to 1.
static float noise_at(int64_t i) { return (float)(2 * cell((uint32_t)i, (uint32_t)(i >> 32), 7, 7) - 1); }

void tachy_tensor_pattern(struct tachy_tensor *t, enum tachy_pattern kind)
{
    if (!t || !t->data)
        return;
    int64_t n = tachy_tensor_elements(t);
    struct extent e = extent_of(t);
    float *f = t->data;
    uint8_t *u = t->data;
    if (t->dtype != TACHY_F32 && t->dtype != TACHY_U8)
        memset(t->data, 0, tachy_tensor_bytes(t));
    for (int64_t i = 0; i < n && t->dtype == TACHY_F32; i++)
        f[i] = kind == TACHY_PATTERN_NOISE ? noise_at(i) : picture_at(&e, i);
    for (int64_t i = 0; i < n && t->dtype == TACHY_U8; i++)
        u[i] = (uint8_t)(255 * (kind == TACHY_PATTERN_NOISE ? (noise_at(i) + 1) / 2 : picture_at(&e, i)));
}
