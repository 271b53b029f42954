#include "postprocess/focus.h"

#include <math.h>
#include <stdlib.h>

// Shares are of a person's extents, times are frames.
static const double ROOM = 0.2;     // around a person in a new view
static const double SAFE = 0.07;    // a view that leaves less around a person is corrected at once
static const double LOOSE = 1.7;    // areas of view and wanted view from which the view becomes narrower
static const double OFF = 0.12;     // distance of their centres from which the view follows
static const double EASE = 0.15;    // of the way to its goal that a view goes each frame
static const double DRIFT = 0.1;    // that a person may move between two looks
static const double TILE = 1.34;    // a tile's extent, of what would just do
static const double STEP = 1.3;     // how many there are, of what would just do
static const double SAME = 0.3;     // of the smaller one's area that two have in common if they are one

enum { LATEST = 15, EMPTY = 5, ALIGN = 8, TWINS = 2, EARLIEST = 1 };

static double area(const struct tachy_focus_box *b)
{
    return TACHY_MAX(b->x1 - b->x0, 0) * TACHY_MAX(b->y1 - b->y0, 0);
}

static struct tachy_focus_box cut(const struct tachy_focus_box *a, const struct tachy_focus_box *b)
{
    return (struct tachy_focus_box){TACHY_MAX(a->x0, b->x0), TACHY_MAX(a->y0, b->y0), TACHY_MIN(a->x1, b->x1),
                                    TACHY_MIN(a->y1, b->y1)};
}

static struct tachy_focus_box both(const struct tachy_focus_box *a, const struct tachy_focus_box *b)
{
    return (struct tachy_focus_box){TACHY_MIN(a->x0, b->x0), TACHY_MIN(a->y0, b->y0), TACHY_MAX(a->x1, b->x1),
                                    TACHY_MAX(a->y1, b->y1)};
}

static bool same(const struct tachy_focus_box *a, const struct tachy_focus_box *b)
{
    const struct tachy_focus_box common = cut(a, b);
    return area(&common) > SAME * TACHY_MIN(area(a), area(b));
}

static struct tachy_focus_box in_frame(const struct tachy_focus *f, struct tachy_focus_box b)
{
    return cut(&b, &(struct tachy_focus_box){0, 0, f->width, f->height});
}

struct tachy_focus_box tachy_focus_pad(const struct tachy_focus *f, const struct tachy_focus_box *b, double share)
{
    double x = share * (b->x1 - b->x0), y = share * (b->y1 - b->y0);
    return in_frame(f, (struct tachy_focus_box){b->x0 - x, b->y0 - y, b->x1 + x, b->y1 + y});
}

void tachy_focus_begin(struct tachy_focus *f, int width, int height)
{
    memset(f, 0, sizeof(*f)); // all bytes: they are saved
    f->width = width;
    f->height = height;
    f->patience = EARLIEST;
}

// A person may reach beyond the frame.
static bool finite_box(const struct tachy_focus_box *b)
{
    return isfinite(b->x0) && isfinite(b->y0) && isfinite(b->x1) && isfinite(b->y1);
}

// Also not if an edge is no number.
static bool within(const struct tachy_focus *f, const struct tachy_focus_box *b)
{
    return b->x0 >= 0 && b->x0 <= b->x1 && b->x1 <= f->width && b->y0 >= 0 && b->y0 <= b->y1 && b->y1 <= f->height;
}

// A bool of another byte than 0 and 1 must not be read as one.
static bool is_bool(const void *p) { return *(const unsigned char *)p <= 1; }

bool tachy_focus_sound(const struct tachy_focus *f)
{
    const int longest = 1 << 30;
    if (f->width < 0 || f->height < 0 || f->nb < 0 || f->nb > TACHY_FOCUS_MOST || abs(f->wait) > longest ||
        abs(f->pause) > longest || f->looks < 0 || f->looks > longest || !isfinite(f->drift) || !is_bool(&f->crowd) ||
        !is_bool(&f->fresh) || !is_bool(&f->early) || f->patience < EARLIEST || f->patience > LATEST)
        return false;
    for (int i = 0; i < f->nb; i++) {
        const struct tachy_focused *o = &f->one[i];
        if (!finite_box(&o->person) || !within(f, &o->view) || !within(f, &o->goal) || !is_bool(&o->seen))
            return false;
    }
    return true;
}

void tachy_focus_cut(struct tachy_focus *f) { tachy_focus_begin(f, f->width, f->height); }

void tachy_focus_hurry(struct tachy_focus *f)
{
    int since = f->pause - f->wait;
    if (f->wait <= 0 || since < f->patience)
        return;
    f->pause = since;
    f->wait = 0;
    f->early = true;
}

bool tachy_focus_due(struct tachy_focus *f) { return f->wait-- <= 0; }

// ---- A look ----

// How far a person has moved or grown, relative to their extents.
static double movement(const struct tachy_focus_box *a, const struct tachy_focus_box *b)
{
    double w = TACHY_MAX(a->x1 - a->x0, 1), h = TACHY_MAX(a->y1 - a->y0, 1);
    double x = TACHY_MAX(fabs(a->x0 - b->x0), fabs(a->x1 - b->x1));
    double y = TACHY_MAX(fabs(a->y0 - b->y0), fabs(a->y1 - b->y1));
    return TACHY_MAX(x / w, y / h);
}

// Sides of the view that come too close to the person jump to their target.
static bool correct(struct tachy_focus_box *view, const struct tachy_focus_box *least,
                    const struct tachy_focus_box *wanted)
{
    const struct tachy_focus_box before = *view;
    if (least->x0 < view->x0)
        view->x0 = wanted->x0;
    if (least->y0 < view->y0)
        view->y0 = wanted->y0;
    if (least->x1 > view->x1)
        view->x1 = wanted->x1;
    if (least->y1 > view->y1)
        view->y1 = wanted->y1;
    return memcmp(&before, view, sizeof(before)) != 0;
}

static bool is_off(const struct tachy_focus_box *view, const struct tachy_focus_box *wanted)
{
    double x = fabs(view->x0 + view->x1 - wanted->x0 - wanted->x1) / 2;
    double y = fabs(view->y0 + view->y1 - wanted->y0 - wanted->y1) / 2;
    return x > OFF * (wanted->x1 - wanted->x0) || y > OFF * (wanted->y1 - wanted->y0);
}

static void frame_person(struct tachy_focus *f, struct tachy_focused *o)
{
    const struct tachy_focus_box wanted = tachy_focus_pad(f, &o->person, ROOM);
    const struct tachy_focus_box least = tachy_focus_pad(f, &o->person, SAFE);
    bool moves = memcmp(&o->view, &o->goal, sizeof(o->goal)) != 0; // and then all the way
    moves |= correct(&o->view, &least, &wanted);
    o->goal = moves || is_off(&o->view, &wanted) || area(&o->view) > LOOSE * area(&wanted) ? wanted : o->view;
}

void tachy_focus_saw(struct tachy_focus *f, int i, const struct tachy_focus_box *person)
{
    struct tachy_focused *o = &f->one[i];
    f->drift = TACHY_MAX(f->drift, movement(&o->person, person));
    o->person = *person;
    o->seen = true;
    frame_person(f, o);
}

bool tachy_focus_knows(const struct tachy_focus *f, const struct tachy_focus_box *person)
{
    for (int i = 0; i < f->nb; i++)
        if (f->one[i].seen && same(&f->one[i].person, person))
            return true;
    return false;
}

void tachy_focus_found(struct tachy_focus *f, const struct tachy_focus_box *person)
{
    int i = 0;
    while (i < f->nb && f->one[i].seen)
        i++;
    if (i == TACHY_FOCUS_MOST) {
        f->crowd = true;
        return;
    }
    f->nb = TACHY_MAX(f->nb, i + 1);
    f->one[i] = (struct tachy_focused){.person = *person, .view = tachy_focus_pad(f, person, ROOM), .seen = true};
    f->one[i].goal = f->one[i].view;
    f->fresh = true;
    frame_person(f, &f->one[i]);
}

// Two whose people cover the same become one.
static void unite(struct tachy_focus *f)
{
    for (int i = 0; i < f->nb; i++)
        for (int k = i + 1; k < f->nb; k++) {
            struct tachy_focused *a = &f->one[i], *b = &f->one[k];
            if (!same(&a->person, &b->person))
                continue;
            a->person = both(&a->person, &b->person);
            a->view = a->goal = both(&a->view, &b->view);
            frame_person(f, a);
            *b = f->one[--f->nb];
            k = i;
        }
}

void tachy_focus_looked(struct tachy_focus *f)
{
    int n = 0;
    for (int i = 0; i < f->nb; i++)
        if (f->one[i].seen)
            f->one[n++] = f->one[i];
    f->crowd = f->crowd && n == TACHY_FOCUS_MOST;
    f->nb = n;
    unite(f);
    for (int i = 0; i < f->nb; i++)
        f->one[i].seen = false;
    f->looks++;
    // When the fastest may have moved so far that the view is too narrow.
    double soon = DRIFT * f->pause / TACHY_MAX(f->drift, 1e-3);
    soon = TACHY_MIN(soon, 2 * f->pause); // who sways is slow for a moment
    if (f->early)
        f->patience = f->drift < DRIFT ? TACHY_MIN(2 * f->patience, LATEST) : EARLIEST;
    f->early = false;
    f->pause = !f->nb ? EMPTY : f->fresh ? 1 : (int)TACHY_CLAMP(soon, 1, LATEST);
    f->wait = f->pause - 1; // this frame is one of them
    f->drift = 0;
    f->fresh = false;
}

// ---- A search ----

static double tile_extent(const struct tachy_focus *f, int level, int *columns, int *rows)
{
    double extent = TACHY_MIN(f->width, f->height) / (double)level * TILE;
    *columns = (int)ceil(f->width / extent * STEP);
    *rows = (int)ceil(f->height / extent * STEP);
    return extent;
}

int tachy_focus_tiles(const struct tachy_focus *f, int level)
{
    int columns, rows;
    tile_extent(f, level, &columns, &rows);
    return level == 1 ? 1 : columns * rows;
}

bool tachy_focus_tile(const struct tachy_focus *f, int level, int i, struct tachy_focus_box *tile)
{
    int columns, rows;
    double extent = tile_extent(f, level, &columns, &rows);
    double x = columns > 1 ? i % columns * (f->width - extent) / (columns - 1) : 0,
           y = rows > 1 ? (double)(i / columns) * (f->height - extent) / (rows - 1) : 0;
    *tile = level == 1 ? (struct tachy_focus_box){0, 0, f->width, f->height}
                       : in_frame(f, (struct tachy_focus_box){x, y, x + extent, y + extent});
    return i < tachy_focus_tiles(f, level);
}

void tachy_focus_consider(struct tachy_focus_search *s, const struct tachy_focus_candidate *c)
{
    int twins = 0, at = s->nb;
    for (int i = 0; i < s->nb; i++)
        twins += s->c[i].merit >= c->merit && same(&s->c[i].box, &c->box);
    while (at > 0 && s->c[at - 1].merit < c->merit)
        at--;
    if (twins >= TWINS || at == TACHY_FOCUS_CANDIDATES)
        return;
    s->nb = TACHY_MIN(s->nb + 1, TACHY_FOCUS_CANDIDATES);
    memmove(&s->c[at + 1], &s->c[at], (size_t)(s->nb - 1 - at) * sizeof(s->c[0]));
    s->c[at] = *c;
}

// ---- A frame ----

static double ease(double from, double to) { return fabs(to - from) < 1 ? to : from + EASE * (to - from); }

static void move(struct tachy_focused *o)
{
    struct tachy_focus_box *v = &o->view, *g = &o->goal;
    *v = (struct tachy_focus_box){ease(v->x0, g->x0), ease(v->y0, g->y0), ease(v->x1, g->x1), ease(v->y1, g->y1)};
}

// Outwards to a multiple of ALIGN, so that slow movements do not make a new region each frame.
static int down(double at) { return (int)TACHY_MAX(floor(at / ALIGN) * ALIGN, 0); }
static int up(double at, int end) { return (int)TACHY_MIN(ceil(at / ALIGN) * ALIGN, end); }

int tachy_focus_parts(struct tachy_focus *f, struct tachy_rect part[TACHY_FOCUS_MOST + 1])
{
    int n = 0;
    if (f->crowd || f->nb > 1)
        part[n++] = (struct tachy_rect){0, 0, f->width, f->height};
    for (int i = 0; i < f->nb; i++) {
        struct tachy_focused *o = &f->one[i];
        move(o);
        int x = down(o->view.x0), y = down(o->view.y0);
        struct tachy_rect r = {x, y, up(o->view.x1, f->width) - x, up(o->view.y1, f->height) - y};
        if (r.w > 0 && r.h > 0)
            part[n++] = r;
    }
    return n == 1 && part[0].w == f->width && part[0].h == f->height ? 0 : n;
}

// ---- Masks ----

enum { CELLS = 64 }; // a mask is reduced to this many cells along an axis; a cell is set if any of its pixels is

struct cells {
    uint8_t on[CELLS][CELLS]; // 1: a person, not seen yet; 2: seen
    int16_t stack[CELLS * CELLS];
};

static void fill_cells(struct cells *c, const uint8_t *mask, int width, int height)
{
    memset(c->on, 0, sizeof(c->on));
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            c->on[y * CELLS / height][x * CELLS / width] |= mask[(ptrdiff_t)y * width + x] >> 7;
}

// The cells joined to cell (x, y), which are seen then; returns how many. box in cells.
static int take(struct cells *c, int x, int y, struct tachy_focus_box *box)
{
    int n = 0, top = 0;
    *box = (struct tachy_focus_box){x, y, x + 1, y + 1};
    c->on[y][x] = 2;
    c->stack[top++] = (int16_t)(y * CELLS + x);
    for (; top; n++) {
        int at = c->stack[--top], ax = at % CELLS, ay = at / CELLS;
        *box = both(box, &(struct tachy_focus_box){ax, ay, ax + 1, ay + 1});
        for (int ny = TACHY_MAX(ay - 1, 0); ny <= TACHY_MIN(ay + 1, CELLS - 1); ny++)
            for (int nx = TACHY_MAX(ax - 1, 0); nx <= TACHY_MIN(ax + 1, CELLS - 1); nx++)
                if (c->on[ny][nx] == 1) {
                    c->on[ny][nx] = 2;
                    c->stack[top++] = (int16_t)(ny * CELLS + nx);
                }
    }
    return n;
}

// The share of the box's possible person pixels that are certain.
static double sharpness(const uint8_t *mask, int width, int height, const struct tachy_focus_box *b)
{
    int64_t sure = 0, any = 1;
    for (int y = (int)b->y0; y < TACHY_MIN((int)b->y1, height); y++)
        for (int x = (int)b->x0; x < TACHY_MIN((int)b->x1, width); x++) {
            sure += mask[(ptrdiff_t)y * width + x] > 204;
            any += mask[(ptrdiff_t)y * width + x] > 51;
        }
    return (double)sure / (double)any;
}

bool tachy_focus_mask_box(const uint8_t *mask, int width, int height, struct tachy_focus_box *box, double *sharp)
{
    struct cells c;
    struct tachy_focus_box part;
    int most = 0;
    fill_cells(&c, mask, width, height);
    for (int y = 0; y < CELLS; y++)
        for (int x = 0; x < CELLS; x++) {
            int n = c.on[y][x] == 1 ? take(&c, x, y, &part) : 0;
            most = TACHY_MAX(most, n);
        }
    fill_cells(&c, mask, width, height);
    bool any = false;
    for (int y = 0; y < CELLS && most; y++)
        for (int x = 0; x < CELLS; x++)
            if (c.on[y][x] == 1 && take(&c, x, y, &part) * 10 >= most) {
                *box = any ? both(box, &part) : part;
                any = true;
            }
    if (!any)
        return false;
    double sx = (double)width / CELLS, sy = (double)height / CELLS;
    *box = (struct tachy_focus_box){box->x0 * sx, box->y0 * sy, box->x1 * sx, box->y1 * sy};
    *sharp = sharpness(mask, width, height, box);
    return true;
}
