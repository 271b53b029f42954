#include "ref/ref_draw.h"

#include <math.h>
#include <string.h>

static float clamp(float v, float lo, float hi) { return v > lo ? v < hi ? v : hi : lo; } // NaN: lo

// Share of a pixel that a shape covers, 0..1: x, y is the pixel's upper left corner.
static float cover(const struct tachy_shape *s, int x, int y)
{
    if (s->radius < 0) {
        float w = fminf(s->x1, (float)x + 1) - fmaxf(s->x0, (float)x), h = fminf(s->y1, (float)y + 1) - fmaxf(s->y0, (float)y);
        return w > 0 && h > 0 ? w * h : 0;
    }
    float px = (float)x + 0.5f - s->x0, py = (float)y + 0.5f - s->y0, dx = s->x1 - s->x0, dy = s->y1 - s->y0;
    float length = dx * dx + dy * dy, t = length > 0 ? clamp((px * dx + py * dy) / length, 0, 1) : 0;
    float ex = px - t * dx, ey = py - t * dy;
    return clamp(s->radius + 0.5f - sqrtf(ex * ex + ey * ey), 0, 1) * fminf(2 * s->radius, 1);
}

// How far a shape reaches from its centre line.
static float reach(const struct tachy_shape *s) { return s->radius < 0 ? 0 : s->radius + 0.5f; }

// Rows of a picture that the shape may touch, y0 <= y < y1.
static void rows_of(const struct tachy_shape *s, int height, int *y0, int *y1)
{
    *y0 = (int)clamp(floorf(fminf(s->y0, s->y1) - reach(s)), 0, (float)height);
    *y1 = (int)clamp(ceilf(fmaxf(s->y0, s->y1) + reach(s)), 0, (float)height);
}

// And columns of the rows y0 up to y1.
static void columns_of(const struct tachy_shape *s, int width, int y0, int y1, int *x0, int *x1)
{
    float r = reach(s), a = 0, b = 1, dy = s->y1 - s->y0, dx = s->x1 - s->x0;
    if (s->radius >= 0 && dy != 0) { // the part of the line that these rows are near
        float u = ((float)y0 - r - s->y0) / dy, v = ((float)y1 + r - s->y0) / dy;
        a = clamp(fminf(u, v), 0, 1);
        b = clamp(fmaxf(u, v), 0, 1);
    }
    float p = s->x0 + a * dx, q = s->x0 + b * dx;
    *x0 = (int)clamp(floorf(fminf(p, q) - r), 0, (float)width);
    *x1 = (int)clamp(ceilf(fmaxf(p, q) + r), 0, (float)width);
}

static void blend(const struct tachy_canvas *c, int component, int x, int y, float code, float weight)
{
    uint8_t *p = c->component[component].data + y * c->component[component].stride +
                 (ptrdiff_t)x * c->component[component].step * c->bytes;
    uint16_t word = *p;
    if (c->bytes == 2)
        memcpy(&word, p, 2);
    float v = (float)(word >> c->shift);
    word = (uint16_t)((int)floorf(v + (code - v) * weight + 0.5f) << c->shift);
    if (c->bytes == 2)
        memcpy(p, &word, 2);
    else
        *p = (uint8_t)word;
}

// Component `i` of all that the shape touches, in cells of 2^sx * 2^sy pixels.
static void draw_component(const struct tachy_canvas *c, const struct tachy_shape *s, int i, int sx, int sy)
{
    int x0, y0, x1, y1;
    rows_of(s, c->height, &y0, &y1);
    for (int y = y0 >> sy; y << sy < y1; y++) {
        columns_of(s, c->width, y << sy, (y + 1) << sy, &x0, &x1);
        for (int x = x0 >> sx; x << sx < x1; x++) {
            float sum = 0;
            int n = 0;
            for (int v = y << sy; v < (y + 1) << sy && v < c->height; v++)
                for (int u = x << sx; u < (x + 1) << sx && u < c->width; u++, n++)
                    sum += cover(s, u, v);
            if (sum > 0)
                blend(c, i, x, y, s->code[i], sum / (float)n * s->alpha / 255);
        }
    }
}

void tachy_ref_draw(const struct tachy_canvas *c, const struct tachy_shape *shapes, int n)
{
    for (int k = 0; k < n; k++)
        for (int i = 0; i < c->nb; i++)
            draw_component(c, &shapes[k], i, i ? c->chroma_x : 0, i ? c->chroma_y : 0);
}

// Number of a cell's pixels in the mask, by columns x0..x1 and rows y0..y1 of it.
static int count(const uint8_t *mask, ptrdiff_t stride, int x0, int x1, int y0, int y1)
{
    int n = 0;
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1; x++)
            n += mask[y * stride + x] >> 7;
    return n;
}

static int lower(int a, int b) { return a < b ? a : b; }
static int higher(int a, int b) { return a > b ? a : b; }

static void tint_component(const struct tachy_canvas *c, const struct tachy_shape *s, const uint8_t *mask, ptrdiff_t stride, int i, int sx,
                           int sy)
{
    const int left = (int)s->x0, top = (int)s->y0, right = lower((int)s->x1, c->width), bottom = lower((int)s->y1, c->height);
    for (int y = top >> sy; y << sy < bottom; y++) {
        int y0 = higher(y << sy, top), y1 = lower((y + 1) << sy, bottom), rows = lower((y + 1) << sy, c->height) - (y << sy);
        for (int x = left >> sx; x << sx < right; x++) {
            int n = count(mask, stride, higher(x << sx, left) - left, lower((x + 1) << sx, right) - left, y0 - top, y1 - top);
            int columns = lower((x + 1) << sx, c->width) - (x << sx);
            if (n)
                blend(c, i, x, y, s->code[i], (float)n / (float)(rows * columns) * s->alpha / 255);
        }
    }
}

// As above if a cell is a pixel of one byte: the result for each value is computed in advance.
static void tint_bytes(const struct tachy_canvas *c, const struct tachy_shape *s, const uint8_t *mask, ptrdiff_t stride, int i)
{
    const int left = (int)s->x0, top = (int)s->y0, right = lower((int)s->x1, c->width), bottom = lower((int)s->y1, c->height);
    const float weight = (float)s->alpha / 255;
    uint8_t to[256];
    for (int v = 0; v < 256; v++)
        to[v] = (uint8_t)floorf((float)v + ((float)s->code[i] - (float)v) * weight + 0.5f);
    for (int y = top; y < bottom; y++) {
        const uint8_t *in = mask + (y - top) * stride;
        uint8_t *row = c->component[i].data + y * c->component[i].stride;
        for (int x = left; x < right; x++)
            if (in[x - left] >> 7)
                row[(ptrdiff_t)x * c->component[i].step] = to[row[(ptrdiff_t)x * c->component[i].step]];
    }
}

void tachy_ref_tint(const struct tachy_canvas *c, const struct tachy_shape *s, const uint8_t *mask, ptrdiff_t stride)
{
    for (int i = 0; i < c->nb; i++) {
        int sx = i ? c->chroma_x : 0, sy = i ? c->chroma_y : 0;
        if (c->bytes == 1 && !sx && !sy)
            tint_bytes(c, s, mask, stride, i);
        else
            tint_component(c, s, mask, stride, i, sx, sy);
    }
}
