#include "postprocess/composite_priv.h"

#include <math.h>
#include <stdlib.h>

// Outer contours along the edges between pixels. A contour is followed with the mask on its
// right hand, turning right wherever it can: pixels that touch only at a corner belong to
// different contours. Contours around holes turn the other way round; they are left out.

enum {
    MAX_POLYGONS = 64,    // the largest ones
    MAX_POINTS = 1 << 20, // corners of one contour; a longer one is left to the run lengths
    FEW = 8,              // corners that are not worth simplifying
    SPAN = 1024,          // corners that are simplified together
};

struct point {
    int32_t x, y;
};

static bool inside(const struct tachy_bits *b, int x, int y)
{
    return x >= 0 && y >= 0 && x < b->w && y < b->h && b->p[y * b->stride + x] & 128;
}

// True if a contour runs upwards along the left edge of (x, y).
static bool left_edge(const struct tachy_bits *b, int x, int y)
{
    return inside(b, x, y) && !inside(b, x - 1, y);
}

// Follows the contour that goes up the left edge of (x, y), marks each such edge in bit 0 and
// stores the corners. Returns their number, or 0 if there are more than MAX_POINTS. *area:
// twice the area, positive for outer contours.
static int follow(const struct tachy_bits *b, int x, int y, struct point *p, int64_t *area)
{
    static const int dx[] = {0, 1, 0, -1}, dy[] = {-1, 0, 1, 0}; // up, right, down, left
    // The pixels ahead of a corner on the right and on the left hand.
    static const int rx[] = {0, 0, -1, -1}, ry[] = {-1, 0, 0, -1};
    static const int lx[] = {-1, 0, 0, -1}, ly[] = {-1, -1, 0, 0};
    int cx = x, cy = y + 1, dir = 0, n = 0;
    bool fits = true;
    *area = 0;
    do {
        if (dir == 0)
            b->p[(cy - 1) * b->stride + cx] |= 1;
        int nx = cx + dx[dir], ny = cy + dy[dir];
        *area += (int64_t)cx * ny - (int64_t)nx * cy;
        cx = nx;
        cy = ny;
        int turn = !inside(b, cx + rx[dir], cy + ry[dir])  ? 1
                   : inside(b, cx + lx[dir], cy + ly[dir]) ? 3
                                                           : 0;
        if (turn && n < MAX_POINTS)
            p[n++] = (struct point){cx, cy};
        else if (turn)
            fits = false;
        dir = (dir + turn) & 3;
    } while (cx != x || cy != y + 1 || dir != 0);
    return fits ? n : 0;
}

// Squared distance of p from the segment a b.
static double distance2(struct point p, struct point a, struct point b)
{
    double vx = b.x - a.x, vy = b.y - a.y, px = p.x - a.x, py = p.y - a.y;
    double len = vx * vx + vy * vy, t = len > 0 ? (px * vx + py * vy) / len : 0;
    t = TACHY_CLAMP(t, 0.0, 1.0);
    return (px - t * vx) * (px - t * vx) + (py - t * vy) * (py - t * vy);
}

// Douglas and Peucker with 1 pixel on corners first .. last, both kept; others in `keep`.
static void simplify(const struct point *p, uint8_t *keep, int first, int last)
{
    int stack[2 * SPAN], top = 0;
    stack[top++] = first;
    stack[top++] = last;
    while (top) {
        int b = stack[--top], a = stack[--top], far = -1;
        double most = 1.0;
        for (int i = a + 1; i < b; i++) {
            double d = distance2(p[i], p[a], p[b]);
            if (d > most)
                most = d, far = i;
        }
        if (far < 0)
            continue;
        keep[far] = 1;
        stack[top++] = a;
        stack[top++] = far;
        stack[top++] = far;
        stack[top++] = b;
    }
}

// Drops corners of a closed contour in place; returns how many are left.
static int simplify_closed(struct point *p, uint8_t *keep, int n)
{
    memset(keep, 0, (size_t)n);
    int far = 0; // the corner farthest from the first splits the ring in two
    double most = -1;
    for (int i = 0; i < n; i++) {
        double d = hypot(p[i].x - p[0].x, p[i].y - p[0].y);
        if (d > most)
            most = d, far = i;
    }
    keep[0] = keep[far] = 1;
    for (int a = 0; a < n - 1;) {
        int b = TACHY_MIN(a + SPAN - 1, n - 1);
        if (a < far && b > far)
            b = far;
        keep[b] |= b < n - 1 || distance2(p[b], p[a], p[0]) > 1;
        simplify(p, keep, a, b);
        a = b;
    }
    int m = 0;
    for (int i = 0; i < n; i++)
        if (keep[i])
            p[m++] = p[i];
    return m;
}

struct contour {
    int64_t area;
    int x, y;
};

static int larger_first(const void *a, const void *b)
{
    const struct contour *p = a, *q = b;
    if (p->area != q->area)
        return p->area < q->area ? 1 : -1;
    return p->y != q->y ? p->y - q->y : p->x - q->x;
}

// The largest outer contours of at least `least` (twice the area); returns their number.
static int find(const struct tachy_bits *b, struct contour c[MAX_POLYGONS], struct point *p,
                int64_t least)
{
    int n = 0;
    for (int y = 0; y < b->h; y++)
        for (int x = 0; x < b->w; x++)
            b->p[y * b->stride + x] &= 0xfe;
    for (int y = 0; y < b->h; y++) {
        for (int x = 0; x < b->w; x++) {
            if (!left_edge(b, x, y) || b->p[y * b->stride + x] & 1)
                continue;
            struct contour new = {.x = x, .y = y};
            if (!follow(b, x, y, p, &new.area) || new.area < least)
                continue;
            if (n < MAX_POLYGONS) {
                c[n++] = new;
            } else {
                qsort(c, (size_t)n, sizeof(c[0]), larger_first);
                if (new.area > c[n - 1].area)
                    c[n - 1] = new;
            }
        }
    }
    qsort(c, (size_t)n, sizeof(c[0]), larger_first);
    return n;
}

int tachy_polygons(struct tachy_text *t, const struct tachy_bits *b, struct tachy_buf *points)
{
    size_t most = (size_t)TACHY_MIN((int64_t)2 * (b->w + 1) * (b->h + 1), (int64_t)MAX_POINTS);
    if (!tachy_buf_need(points, most * (sizeof(struct point) + 1)))
        return TACHY_ERR_NOMEM;
    struct point *p = points->p;
    uint8_t *keep = (uint8_t *)(p + most);
    struct contour c[MAX_POLYGONS];
    int64_t least = TACHY_MAX((int64_t)b->w * b->h / 5000, (int64_t)2); // 1/10000 of the picture
    int n = find(b, c, p, least), written = 0;
    tachy_text_char(t, '[');
    for (int i = 0; i < n; i++) {
        int64_t area;
        int m = follow(b, c[i].x, c[i].y, p, &area);
        if (m > FEW)
            m = simplify_closed(p, keep, m);
        if (m < 3) // thinner than the tolerance: unchanged
            m = follow(b, c[i].x, c[i].y, p, &area);
        tachy_text_add(t, "%s[", written++ ? "," : "");
        for (int k = 0; k < m; k++)
            tachy_text_add(t, "%s%d,%d", k ? "," : "", p[k].x, p[k].y);
        tachy_text_char(t, ']');
    }
    tachy_text_char(t, ']');
    return t->failed ? TACHY_ERR_NOMEM : TACHY_OK;
}
