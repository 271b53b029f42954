#include "ref/ref_paste.h"

#include "base/base.h"

#include <math.h>
#include <stddef.h>

// 1 but for the edge that fades; a and b: shares of the width and height.
static float share_at(float a, float b, float feather)
{
    float edge = fminf(fminf(a, 1 - a), fminf(b, 1 - b));
    float v = feather > 0 ? edge / feather : edge >= 0;
    return v <= 0 ? 0 : v >= 1 ? 1 : v * v * (3 - 2 * v);
}

uint8_t tachy_ref_paste(const struct tachy_paste *p, const float *rgb, int x, int y, uint8_t under)
{
    const float px = (float)x + 0.5f, py = (float)y + 0.5f, size = (float)p->size;
    const float u = p->u[0] * px + p->u[1] * py + p->u[2], v = p->v[0] * px + p->v[1] * py + p->v[2];
    const float share = share_at(u / size, v / size, p->feather);
    if (!(share > 0))
        return under;
    const float left = floorf(u - 0.5f), top = floorf(v - 0.5f), fx = u - 0.5f - left, fy = v - 0.5f - top;
    const int n = p->size, x0 = TACHY_CLAMP((int)left, 0, n - 1), x1 = TACHY_CLAMP((int)left + 1, 0, n - 1);
    const int y0 = TACHY_CLAMP((int)top, 0, n - 1), y1 = TACHY_CLAMP((int)top + 1, 0, n - 1);
    float code = p->matrix[3];
    for (int c = 0; c < 3; c++) {
        const float *at = rgb + (size_t)c * (size_t)n * (size_t)n, *a = at + (size_t)y0 * (size_t)n, *b = at + (size_t)y1 * (size_t)n;
        const float mean = (a[x0] * (1 - fx) + a[x1] * fx) * (1 - fy) + (b[x0] * (1 - fx) + b[x1] * fx) * fy;
        code = code + p->matrix[c] * fminf(fmaxf(mean, 0), 1);
    }
    const float to = (float)under + share * (code - (float)under);
    return (uint8_t)(fminf(fmaxf(to, 0), 255) + 0.5f);
}
