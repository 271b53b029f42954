#include "inpaint/windows.h"

#include "base/base.h"
#include "inpaint/parts.h"

#include <math.h>
#include <stdlib.h>

enum {
    CELLS = 16,  // of a window, along each side: points in neighbouring cells are of one hole
    CONTEXT = 8, // an eighth of a window lies around its hole, at least; no hole of tiles is deeper
    OVERLAP = 4, // a quarter of a tile is its neighbour's as well
};

struct box {
    int x0, y0, x1, y1;
};

struct finding {
    struct fill_windows *w;
    const struct carry_rest *rest;
    int width, height;          // of a window
    int cell_w, cell_h, across; // a cell's extents, cells of a row
    int *parent;                // of each cell, the way to the first one of its hole; -1: no points
    int *group;                 // of each cell, the hole that it is part of
    struct box *box;            // of each hole
    int nb_boxes;
    int *depth;                 // of each pixel of the frame; NULL: not known yet
};

static bool is_rest(const struct carry_point *p) { return p->from == CARRY_NONE; }

static int cell_of(const struct finding *f, const struct carry_point *p)
{
    return p->y / f->cell_h * f->across + p->x / f->cell_w;
}

static int first_of(int *parent, int i)
{
    while (parent[i] != i)
        i = parent[i] = parent[parent[i]];
    return i;
}

static void join(const struct finding *f, int a, int b)
{
    if (f->parent[b] < 0)
        return;
    a = first_of(f->parent, a);
    b = first_of(f->parent, b);
    f->parent[TACHY_MAX(a, b)] = TACHY_MIN(a, b);
}

// ---- Holes

static void join_cells(const struct finding *f, int cells)
{
    for (int i = 0; i < cells; i++) {
        int x = i % f->across;
        if (f->parent[i] < 0)
            continue;
        if (x)
            join(f, i, i - 1);
        for (int k = -1; k <= 1 && i >= f->across; k++)
            if (x + k >= 0 && x + k < f->across)
                join(f, i, i - f->across + k);
    }
}

static struct box both(struct box a, struct box b)
{
    return (struct box){TACHY_MIN(a.x0, b.x0), TACHY_MIN(a.y0, b.y0), TACHY_MAX(a.x1, b.x1), TACHY_MAX(a.y1, b.y1)};
}

// Whether a window has room for the box and the picture around it.
static bool fits(const struct finding *f, struct box b)
{
    return b.x1 - b.x0 <= f->width - 2 * (f->width / CONTEXT) && b.y1 - b.y0 <= f->height - 2 * (f->height / CONTEXT);
}

// The part of a hole, of which cell `first` is the first, joins a hole that fits a window with it, or is a new one.
static void place(struct finding *f, int first, struct box b)
{
    int to = 0;
    while (to < f->nb_boxes && !fits(f, both(f->box[to], b)))
        to++;
    f->box[to] = to < f->nb_boxes ? both(f->box[to], b) : b;
    f->nb_boxes = TACHY_MAX(f->nb_boxes, to + 1);
    f->group[first] = to;
}

// Fills in w->hole, group and box. `part`: room for a box of each cell.
static void find_holes(struct finding *f, int cells, struct box *part)
{
    for (int i = 0; i < f->rest->n; i++)
        if (is_rest(&f->rest->points[i])) {
            int c = cell_of(f, &f->rest->points[i]);
            f->parent[c] = c;
        }
    join_cells(f, cells);
    for (int i = 0; i < cells; i++)
        part[i] = (struct box){INT32_MAX, INT32_MAX, 0, 0};
    for (int i = 0; i < f->rest->n; i++) {
        const struct carry_point *p = &f->rest->points[i];
        if (!is_rest(p))
            continue;
        int c = first_of(f->parent, cell_of(f, p));
        part[c] = both(part[c], (struct box){p->x, p->y, p->x + 1, p->y + 1});
    }
    for (int i = 0; i < cells; i++)
        if (f->parent[i] == i)
            place(f, i, part[i]);
    for (int i = 0; i < f->rest->n; i++) {
        const struct carry_point *p = &f->rest->points[i];
        f->w->hole[i] = is_rest(p) ? f->group[first_of(f->parent, cell_of(f, p))] : -1;
    }
}

// ---- Windows

static int add(struct fill_windows *w, struct fill_window window)
{
    int room = TACHY_MAX(16, 2 * w->room);
    struct fill_window *more = w->nb < w->room ? w->window : realloc(w->window, (size_t)room * sizeof(*more));
    if (!more)
        return TACHY_ERR_NOMEM;
    w->room = w->nb < w->room ? w->room : room;
    w->window = more;
    w->window[w->nb++] = window;
    return TACHY_OK;
}

// Where a window of `size` lies that is to have `middle` in its middle: inside of the frame if that is as large.
static int inside(double middle, int size, int frame)
{
    int at = (int)floor(middle - size / 2.0 + 0.5);
    return size > frame ? (frame - size) / 2 : TACHY_CLAMP(at, 0, frame - size);
}

// How deep a hole is, in steps to the nearest pixel that is known.
static int deepest(struct finding *f, int hole, int *depth)
{
    const struct carry_rest *rest = f->rest;
    size_t n = (size_t)rest->out->width * (size_t)rest->out->height;
    *depth = 0;
    if (!f->depth) {
        uint8_t *map = calloc(n, 1);
        f->depth = map ? malloc(n * sizeof(*f->depth)) : NULL;
        for (int i = 0; i < rest->n && f->depth; i++)
            map[(size_t)rest->points[i].y * (size_t)rest->out->width + (size_t)rest->points[i].x] = f->w->hole[i] >= 0;
        if (f->depth)
            fill_depths(map, rest->out->width, rest->out->height, f->depth);
        free(map);
    }
    for (int i = 0; i < rest->n && f->depth; i++)
        if (f->w->hole[i] == hole)
            *depth = TACHY_MAX(*depth, f->depth[(size_t)rest->points[i].y * (size_t)rest->out->width + (size_t)rest->points[i].x]);
    return f->depth ? TACHY_OK : TACHY_ERR_NOMEM;
}

static bool holds_any(const struct finding *f, int hole, struct tachy_rect r)
{
    const tachy_frame *out = f->rest->out;
    for (int y = TACHY_MAX(r.y, 0); y < TACHY_MIN(r.y + r.h, out->height); y++)
        for (int x = TACHY_MAX(r.x, 0); x < TACHY_MIN(r.x + r.w, out->width); x++) {
            int i = f->rest->index[(size_t)y * (size_t)out->width + (size_t)x];
            if (i >= 0 && f->w->hole[i] == hole)
                return true;
        }
    return false;
}

// One axis of a grid of tiles.
struct tiles {
    int size, nb, over;
    double first, step; // middle of the first tile, from tile to tile
};

// `size`: of a window; the tiles cover from..end and the picture around it, as far as there is any.
static struct tiles tiles_of(int size, double scale, int from, int end, int frame)
{
    struct tiles t = {.size = (int)ceil(size * scale)};
    int around = (int)(size / CONTEXT * scale), lo = TACHY_MAX(from - around, 0), hi = TACHY_MIN(end + around, frame);
    int over = t.size / OVERLAP, each = t.size - over;
    t.nb = TACHY_MAX(1, (hi - lo - over + each - 1) / each);
    t.over = t.nb > 1 ? over : 0;
    t.step = t.nb > 1 ? (double)(hi - lo - t.size) / (t.nb - 1) : 0;
    t.first = (lo + hi - (t.nb - 1) * t.step) / 2;
    return t;
}

// `scale`: frame pixels of one of the network's along each axis.
static int tile(struct finding *f, int hole, double scale)
{
    const tachy_frame *out = f->rest->out;
    const struct box *b = &f->box[hole];
    struct tiles tx = tiles_of(f->width, scale, b->x0, b->x1, out->width), ty = tiles_of(f->height, scale, b->y0, b->y1, out->height);
    int err = TACHY_OK;
    for (int i = 0; i < tx.nb * ty.nb && err == TACHY_OK; i++) {
        struct fill_window w = {.hole = hole, .fade_x = tx.over, .fade_y = ty.over};
        w.r = (struct tachy_rect){inside(tx.first + i % tx.nb * tx.step, tx.size, out->width),
                                  inside(ty.first + i / tx.nb * ty.step, ty.size, out->height), tx.size, ty.size};
        err = holds_any(f, hole, w.r) ? add(f->w, w) : TACHY_OK;
    }
    return err;
}

// The scale is the lowest that shows all of the hole at once, or at which tiles reach to its middle.
static int cover(struct finding *f, int hole)
{
    struct box b = f->box[hole];
    int depth;
    if (fits(f, b))
        return tile(f, hole, 1);
    int err = deepest(f, hole, &depth);
    double whole = TACHY_MAX((b.x1 - b.x0) / (double)(f->width - 2 * (f->width / CONTEXT)),
                             (b.y1 - b.y0) / (double)(f->height - 2 * (f->height / CONTEXT)));
    double reach = depth / (TACHY_MIN(f->width, f->height) / (double)CONTEXT);
    return err < 0 ? err : tile(f, hole, TACHY_MAX(1, TACHY_MIN(whole, reach)));
}

int fill_windows_of(struct fill_windows *w, const struct carry_rest *rest, int width, int height)
{
    struct finding f = {.w = w, .rest = rest, .width = width, .height = height};
    f.cell_w = TACHY_MAX(width / CELLS, 1);
    f.cell_h = TACHY_MAX(height / CELLS, 1);
    f.across = (rest->out->width - 1) / f.cell_w + 1;
    size_t cells = (size_t)f.across * (size_t)((rest->out->height - 1) / f.cell_h + 1);
    w->hole = malloc((size_t)TACHY_MAX(rest->n, 1) * sizeof(*w->hole));
    f.parent = malloc(cells * sizeof(*f.parent));
    f.group = malloc(cells * sizeof(*f.group));
    f.box = malloc(2 * cells * sizeof(*f.box));
    int err = w->hole && f.parent && f.group && f.box ? TACHY_OK : TACHY_ERR_NOMEM;
    if (err == TACHY_OK) {
        memset(f.parent, -1, cells * sizeof(*f.parent));
        find_holes(&f, (int)cells, f.box + cells);
    }
    for (int i = 0; i < f.nb_boxes && err == TACHY_OK; i++)
        err = cover(&f, i);
    free(f.parent);
    free(f.group);
    free(f.box);
    free(f.depth);
    return err;
}

void fill_windows_free(struct fill_windows *w)
{
    free(w->window);
    free(w->hole);
    *w = (struct fill_windows){0};
}

static float along(int at, int from, int size, int fade)
{
    int edge = TACHY_MIN(at - from, from + size - 1 - at);
    return edge < 0 ? 0 : !fade ? 1 : TACHY_MIN((float)(edge + 1) / (float)(fade + 1), 1);
}

float fill_window_weight(const struct fill_window *w, int x, int y)
{
    return along(x, w->r.x, w->r.w, w->fade_x) * along(y, w->r.y, w->r.h, w->fade_y);
}
