#include "postprocess/person.h"

#include "postprocess/mask_priv.h"

#include <math.h>
#include <stdlib.h>

enum {
    PART = 64,        // least value of a mask that hangs together
    SURE = 128,       // and of a pixel that counts: what is pale throughout is nobody
    PARTS = 64,       // that are told apart; what is smaller goes with the nearest
    GONE = 12,        // frames after which somebody is no longer waited for
    OUTDONE = 25,     // and for which somebody else has to fit better
    SPECK = 1000,     // a part has at least 1 / SPECK of the pixels for sure
};
static const double LARGER = 1.3, NEARER = 0.6; // what fitting much better is
static const double SAME = 0.1;                 // overlap of the boxes of two frames over their union, of one person

struct part {
    int area, x0, y0, x1, y1;
    double left; // grows from left to right in the picture as shown
    double off;  // distance from the middle of the picture, in shares of its extents
};

// Working memory for splitting a picture of w x h into parts.
struct labels {
    int w, h;
    int32_t *up, *area; // of pixels: one of the same part that was there before, -1: none; sure pixels of the part, at its first
    uint8_t *label;     // 1 + index of the part, 0: none
    uint16_t *distance; // to that part
    struct part part[PARTS];
    int n;
};

static int root(int32_t *up, int i)
{
    while (up[i] != i)
        i = up[i] = up[up[i]];
    return i;
}

// Joins pixel i with its neighbour, if that is in a part.
static void join(struct labels *l, int i, int neighbour)
{
    if (l->up[neighbour] < 0)
        return;
    int a = root(l->up, i), b = root(l->up, neighbour);
    l->up[TACHY_MAX(a, b)] = TACHY_MIN(a, b);
}

static void hang_together(struct labels *l, const uint8_t *mask)
{
    for (int y = 0, i = 0; y < l->h; y++)
        for (int x = 0; x < l->w; x++, i++) {
            l->area[i] = 0;
            l->up[i] = mask[i] >= PART ? i : -1;
            if (mask[i] < PART)
                continue;
            if (x)
                join(l, i, i - 1);
            for (int dx = -1; y && dx <= 1; dx++)
                if (x + dx >= 0 && x + dx < l->w)
                    join(l, i, i - l->w + dx);
        }
    for (int i = 0; i < l->w * l->h; i++)
        if (mask[i] >= SURE)
            l->area[root(l->up, i)]++;
}

// Gives the parts numbers, in the order of their first pixels.
static void number(struct labels *l)
{
    int least = TACHY_MAX(l->w * l->h / SPECK, 1);
    l->n = 0;
    memset(l->label, 0, (size_t)l->w * (size_t)l->h);
    for (int y = 0, i = 0; y < l->h; y++)
        for (int x = 0; x < l->w; x++, i++) {
            int r = l->up[i] < 0 ? -1 : root(l->up, i);
            if (r < 0 || l->area[r] < least || (r == i && l->n == PARTS))
                continue;
            if (r == i)
                l->part[l->n++] = (struct part){.area = l->area[i], .x0 = x, .y0 = y, .x1 = x + 1, .y1 = y + 1};
            l->label[i] = r == i ? (uint8_t)l->n : l->label[r];
            if (!l->label[i])
                continue;
            struct part *p = &l->part[l->label[i] - 1];
            p->x0 = TACHY_MIN(p->x0, x);
            p->x1 = TACHY_MAX(p->x1, x + 1);
            p->y1 = y + 1;
        }
}

static void nearer(struct labels *l, int i, int neighbour)
{
    if (l->distance[neighbour] + 1 < l->distance[i]) {
        l->distance[i] = (uint16_t)(l->distance[neighbour] + 1);
        l->label[i] = l->label[neighbour];
    }
}

// Pixels in no part go to the nearest one: the soft edges of people.
static void spread(struct labels *l)
{
    int n = l->w * l->h;
    for (int i = 0; i < n; i++)
        l->distance[i] = l->label[i] ? 0 : UINT16_MAX - 1;
    for (int i = 0; i < n; i++) {
        if (i % l->w)
            nearer(l, i, i - 1);
        if (i >= l->w)
            nearer(l, i, i - l->w);
    }
    for (int i = n - 1; i >= 0; i--) {
        if (i % l->w != l->w - 1)
            nearer(l, i, i + 1);
        if (i + l->w < n)
            nearer(l, i, i + l->w);
    }
}

// ---- Choice ----

static void place(struct part *p, const struct tachy_person_choice *c, int w, int h)
{
    double x = (p->x0 + p->x1) / 2.0 / w - 0.5, y = (p->y0 + p->y1) / 2.0 / h - 0.5;
    const struct mask_turn t = mask_turn_back(c->rotation, c->flip, 1, 1, 2); // .x: 1 along rows, 2 down columns
    p->left = (labs((long)t.x) == 1 ? x : y) * (t.x < 0 ? -1 : 1);
    p->off = hypot(x, y);
}

// Number of parts further left.
static int before(const struct labels *l, int i)
{
    int n = 0;
    for (int k = 0; k < l->n; k++)
        n += l->part[k].left < l->part[i].left || (l->part[k].left == l->part[i].left && k < i);
    return n;
}

// Whom the rule names; -1: nobody.
static int named(const struct labels *l, const struct tachy_person_choice *c)
{
    int best = -1;
    for (int i = 0; i < l->n; i++) {
        const struct part *p = &l->part[i], *b = best < 0 ? NULL : &l->part[best];
        if (c->rule == TACHY_PERSON_NTH ? before(l, i) == c->nth - 1
            : c->rule == TACHY_PERSON_LARGEST ? !b || p->area > b->area
                                              : !b || p->off < b->off)
            best = i;
    }
    return best;
}

static double overlap(const struct tachy_person *p, const struct part *q)
{
    double w = TACHY_MIN(p->x1, q->x1) - TACHY_MAX(p->x0, q->x0), h = TACHY_MIN(p->y1, q->y1) - TACHY_MAX(p->y0, q->y0);
    double both = w > 0 && h > 0 ? w * h : 0;
    double all = (double)(p->x1 - p->x0) * (p->y1 - p->y0) + (double)(q->x1 - q->x0) * (q->y1 - q->y0) - both;
    return both / all;
}

// Index of the part that overlaps most with the person of the last frame; -1: none does.
static int followed(const struct labels *l, const struct tachy_person *p)
{
    int best = -1;
    double most = SAME;
    for (int i = 0; i < l->n; i++) {
        double o = overlap(p, &l->part[i]);
        if (o > most) {
            most = o;
            best = i;
        }
    }
    return best;
}

static bool outdone(const struct part *by, const struct part *p, enum tachy_person_rule rule)
{
    return (rule == TACHY_PERSON_LARGEST && by->area > LARGER * p->area) ||
           (rule == TACHY_PERSON_CENTER && by->off < NEARER * p->off);
}

// Index of the part that is kept, -1: none.
static int choose(const struct labels *l, const struct tachy_person_choice *c, struct tachy_person *p)
{
    int best = named(l, c), i = p->has ? followed(l, p) : best;
    p->lost = i < 0 ? TACHY_MIN(p->lost + 1, GONE + 1) : 0;
    p->rival = i >= 0 && best >= 0 && outdone(&l->part[best], &l->part[i], c->rule) ? p->rival + 1 : 0;
    if (p->lost > GONE || p->rival > OUTDONE) {
        i = best;
        p->lost = p->rival = 0;
        p->has = false;
    }
    if (i >= 0) {
        const struct part *q = &l->part[i];
        p->x0 = q->x0, p->y0 = q->y0, p->x1 = q->x1, p->y1 = q->y1;
        p->has = true;
    }
    return i;
}

bool tachy_person_sound(const struct tachy_person *p)
{
    enum { MOST = 1 << 16 }; // of a mask's extents and of frames
    return p->width >= 0 && p->width < MOST && p->height >= 0 && p->height < MOST && p->x0 >= 0 && p->x0 <= p->x1 &&
           p->x1 <= p->width && p->y0 >= 0 && p->y0 <= p->y1 && p->y1 <= p->height && p->lost >= 0 && p->lost < MOST &&
           p->rival >= 0 && p->rival < MOST;
}

int tachy_person_keep(struct tachy_person *p, const struct tachy_person_choice *c, struct tachy_buf *scratch, uint8_t *mask, int w,
                      int h, bool anew)
{
    size_t n = (size_t)w * (size_t)h;
    if (!tachy_buf_need(scratch, n * (2 * sizeof(int32_t) + sizeof(uint16_t) + 1)))
        return TACHY_ERR_NOMEM;
    struct labels l = {.w = w, .h = h, .up = scratch->p};
    l.area = l.up + n;
    l.distance = (uint16_t *)(l.area + n);
    l.label = (uint8_t *)(l.distance + n);
    if (anew || p->width != w || p->height != h)
        *p = (struct tachy_person){.width = w, .height = h};
    hang_together(&l, mask);
    number(&l);
    for (int i = 0; i < l.n; i++)
        place(&l.part[i], c, w, h);
    int kept = choose(&l, c, p);
    spread(&l);
    for (size_t i = 0; i < n; i++)
        mask[i] = kept >= 0 && l.label[i] == kept + 1 ? mask[i] : 0;
    return TACHY_OK;
}
