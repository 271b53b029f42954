#include "base/parse.h"
#include "postprocess/bounds.h"
#include "postprocess/mask_priv.h"

#include <math.h>
#include <string.h>

// A garbage matte: outside of this part of the frame nothing is kept.

// Reads one number up to a comma or the end; *text moves past the comma.
static bool number(const char **text, double *v, bool *percent)
{
    char one[32];
    size_t n = strcspn(*text, ",");
    if (!n || n >= sizeof(one))
        return false;
    memcpy(one, *text, n);
    *percent = one[n - 1] == '%';
    one[n - *percent] = 0;
    *text += n + ((*text)[n] == ',');
    return tachy_parse_float(one, v) && *v >= 0;
}

bool tachy_garbage_parse(const char *text, struct tachy_garbage_rect *r)
{
    struct tachy_garbage_rect got;
    int commas = 0;
    for (const char *p = text; *p; p++)
        commas += *p == ',';
    for (int i = 0; i < 4; i++)
        if (commas != 3 || !number(&text, &got.v[i], &got.percent[i]))
            return false;
    if (!(got.v[2] > 0) || !(got.v[3] > 0))
        return false;
    *r = got;
    return true;
}

// The first pixel of `size` whose centre is at or after `v`.
static int edge(double v, int size) { return (int)TACHY_CLAMP(ceil(v - 0.5), 0, size); }

bool tachy_garbage_fill(uint8_t *shown, int w, int h, const struct tachy_garbage_rect *r)
{
    double v[4];
    for (int i = 0; i < 4; i++)
        v[i] = r->percent[i] ? r->v[i] * (i & 1 ? h : w) / 100 : r->v[i];
    int x0 = edge(v[0], w), x1 = edge(v[0] + v[2], w);
    for (int y = edge(v[1], h), y1 = edge(v[1] + v[3], h); y < y1; y++)
        memset(shown + (size_t)y * (size_t)w + x0, 255, (size_t)(x1 - x0));
    return v[0] < w && v[1] < h;
}

void tachy_garbage_turn(uint8_t *stored, const uint8_t *shown, int w, int h, int rotation, bool flip)
{
    const struct mask_turn to = mask_turn_back(rotation, flip, w, h, rotation % 180 ? h : w);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            stored[to.origin + x * to.x + y * to.y] = *shown++;
}
