#include "postprocess/logits.h"

#include <math.h>
#include <stdlib.h>

int tachy_logits_axis_open(struct tachy_logits_axis *a, int from, int to)
{
    *a = (struct tachy_logits_axis){.from = from, .to = to};
    a->at = malloc((size_t)to * sizeof(*a->at));
    a->share = malloc((size_t)to * sizeof(*a->share));
    a->first = malloc(((size_t)from + 1) * sizeof(*a->first));
    if (!a->at || !a->share || !a->first)
        return TACHY_ERR_NOMEM;
    float step = (float)from / (float)to;
    int next = 0;
    for (int i = 0; i < to; i++) {
        float x = fmaxf(((float)i + 0.5f) * step - 0.5f, 0);
        a->at[i] = TACHY_MIN((int)x, from - 1);
        a->share[i] = x - (float)a->at[i];
        while (next <= a->at[i])
            a->first[next++] = i;
    }
    while (next <= from)
        a->first[next++] = to;
    return TACHY_OK;
}

void tachy_logits_axis_close(struct tachy_logits_axis *a)
{
    free(a->at);
    free(a->share);
    free(a->first);
    *a = (struct tachy_logits_axis){0};
}

// The map at the height of pixel row y: columns from `first` up to `end`, counted in the whole map.
static void blend_row(const struct tachy_logits *m, const struct tachy_logits_axis *y, int at, int first, int end, float *row)
{
    int next = TACHY_MIN(y->at[at] + 1, y->from - 1);
    const float *a = m->v + (ptrdiff_t)(y->at[at] - m->y) * m->width, *b = m->v + (ptrdiff_t)(next - m->y) * m->width;
    float share = y->share[at];
    for (int i = first; i < end; i++)
        row[i] = a[i - m->x] + share * (b[i - m->x] - a[i - m->x]);
}

static void widen(struct tachy_logits_counts *c, int x0, int x1, int y)
{
    c->x0 = TACHY_MIN(c->x0, x0);
    c->x1 = TACHY_MAX(c->x1, x1);
    c->y0 = TACHY_MIN(c->y0, y);
    c->y1 = y;
}

// Between two numbers no pixel is above the larger or below the smaller one, so most spans are counted as a whole.
static void count_row(const struct tachy_logits_axis *x, const float *row, int y, float offset, struct tachy_logits_counts *c)
{
    for (int i = 0; i < x->from; i++) {
        float a = row[i], b = row[TACHY_MIN(i + 1, x->from - 1)];
        int first = x->first[i], end = x->first[i + 1];
        if (fmaxf(a, b) <= -offset || first == end)
            continue;
        if (fminf(a, b) > offset) {
            c->sure += end - first;
            c->mask += end - first;
            c->maybe += end - first;
            widen(c, first, end - 1, y);
            continue;
        }
        for (int k = first; k < end; k++) {
            float v = a + x->share[k] * (b - a);
            c->sure += v > offset;
            c->mask += v > 0;
            c->maybe += v > -offset;
            if (v > 0)
                widen(c, k, k, y);
        }
    }
}

void tachy_logits_count(const struct tachy_logits *map, const struct tachy_logits_axis *x, const struct tachy_logits_axis *y, float offset,
                        float *row, struct tachy_logits_counts *to)
{
    *to = (struct tachy_logits_counts){.x0 = x->to, .y0 = y->to, .x1 = -1, .y1 = -1};
    for (int i = 0; i < y->to; i++) {
        blend_row(map, y, i, 0, x->from, row);
        count_row(x, row, i, offset, to);
    }
}

struct tachy_logits tachy_logits_needed(const struct tachy_logits_counts *c, const struct tachy_logits_axis *x,
                                        const struct tachy_logits_axis *y)
{
    struct tachy_logits n = {.x = x->at[c->x0], .y = y->at[c->y0]};
    n.width = TACHY_MIN(x->at[c->x1] + 2, x->from) - n.x;
    n.height = TACHY_MIN(y->at[c->y1] + 2, y->from) - n.y;
    return n;
}

void tachy_logits_paint(const struct tachy_logits *part, const struct tachy_logits_axis *x, const struct tachy_logits_axis *y,
                        const struct tachy_logits_counts *c, float *row, uint8_t *to)
{
    for (int k = c->y0; k <= c->y1; k++) {
        blend_row(part, y, k, part->x, part->x + part->width, row);
        for (int i = c->x0; i <= c->x1; i++) {
            float a = row[x->at[i]], b = row[TACHY_MIN(x->at[i] + 1, x->from - 1)];
            *to++ = a + x->share[i] * (b - a) > 0 ? 255 : 0;
        }
    }
}

// ---- Holes and islands

// Marks what hangs together with number `at` and lists it; returns how many.
static int gather(const float *v, int w, int h, int32_t at, int32_t *seen, int32_t *list)
{
    int n = 1;
    bool in = v[at] > 0;
    list[0] = at;
    seen[at] = 1;
    for (int i = 0; i < n; i++) {
        int x = list[i] % w, y = list[i] / w;
        for (int k = TACHY_MAX(y - 1, 0); k <= TACHY_MIN(y + 1, h - 1); k++)
            for (int j = TACHY_MAX(x - 1, 0); j <= TACHY_MIN(x + 1, w - 1); j++) {
                int32_t next = k * w + j;
                if (!seen[next] && (v[next] > 0) == in) {
                    seen[next] = 1;
                    list[n++] = next;
                }
            }
    }
    return n;
}

// All parts are found before any is changed: the list keeps the small ones, which then change sides.
void tachy_logits_mend(float *v, int w, int h, int area, int32_t *scratch)
{
    static const float sure = 10;
    const int size = w * h;
    int32_t *seen = scratch, *list = scratch + size;
    int small = 0;
    memset(seen, 0, (size_t)size * sizeof(*seen));
    for (int32_t i = 0; i < size; i++)
        if (!seen[i]) {
            int n = gather(v, w, h, i, seen, list + small);
            small += n <= area ? n : 0;
        }
    for (int i = 0; i < small; i++)
        v[list[i]] = v[list[i]] > 0 ? -sure : sure;
}

void tachy_logits_turn(float *to, const float *from, int w, int h, int rotation, bool flip)
{
    bool side = rotation == 90 || rotation == 270;
    int tw = side ? h : w, th = side ? w : h;
    for (int y = 0; y < th; y++)
        for (int x = 0; x < tw; x++) {
            int sx = rotation == 90 ? th - 1 - y : rotation == 180 ? tw - 1 - x : rotation == 270 ? y : x;
            int sy = rotation == 90 ? x : rotation == 180 ? th - 1 - y : rotation == 270 ? tw - 1 - x : y;
            *to++ = from[(ptrdiff_t)sy * w + (flip ? w - 1 - sx : sx)];
        }
}
