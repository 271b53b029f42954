#include "postprocess/regions.h"

#include <math.h>
#include <stdlib.h>

enum { BLOCK = 16 << 10 };

struct region_block {
    struct region_block *next;
    size_t size, used;
    max_align_t data[];
};

void tachy_regions_clear(struct tachy_regions *list)
{
    list->nb = 0;
    for (struct region_block *b = list->blocks; b; b = b->next)
        b->used = 0;
    list->current = list->blocks;
}

void tachy_regions_free(struct tachy_regions *list)
{
    for (struct region_block *b = list->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(list->v);
    *list = (struct tachy_regions){0};
}

struct tachy_region *tachy_regions_add(struct tachy_regions *list)
{
    if (list->nb == list->room) {
        int room = TACHY_MAX(2 * list->room, 16);
        struct tachy_region *v = realloc(list->v, (size_t)room * sizeof(*v));
        if (!v)
            return NULL;
        list->v = v;
        list->room = room;
    }
    struct tachy_region *r = &list->v[list->nb++];
    *r = (struct tachy_region){.class_id = -1, .track = -1, .score = 1};
    return r;
}

static struct region_block *block_for(struct tachy_regions *list, size_t size)
{
    struct region_block **at = list->current ? &list->current : &list->blocks;
    while (*at && (*at)->size - (*at)->used < size)
        at = &(*at)->next;
    if (!*at) {
        size_t room = TACHY_MAX(size, (size_t)BLOCK);
        struct region_block *b = malloc(sizeof(*b) + room);
        if (!b)
            return NULL;
        *b = (struct region_block){.size = room};
        *at = b;
    }
    return *at;
}

void *tachy_regions_alloc(struct tachy_regions *list, size_t size)
{
    size = TACHY_ALIGN(TACHY_MAX(size, (size_t)1), sizeof(max_align_t));
    struct region_block *b = block_for(list, size);
    if (!b)
        return NULL;
    void *p = (char *)b->data + b->used;
    b->used += size;
    return p;
}

// ---- Geometry

static const double DEGREE = 3.14159265358979323846 / 180;

// -180 up to 180.
static double turn(double degrees) { return degrees - 360 * floor((degrees + 180) / 360); }

void tachy_region_crop(struct tachy_region *r, const struct tachy_crop *c)
{
    if (c->from != c->to && c->from < r->nb_points && c->to < r->nb_points) {
        const struct tachy_point *a = &r->points[c->from], *b = &r->points[c->to];
        r->angle = turn(atan2(b->y - a->y, b->x - a->x) / DEGREE - c->angle);
        if (c->around) {
            r->x = a->x, r->y = a->y;
            r->w = r->h = 2 * hypot((double)b->x - a->x, (double)b->y - a->y);
        }
    }
    double cs = cos(r->angle * DEGREE), sn = sin(r->angle * DEGREE), dx = c->shift_x * r->w, dy = c->shift_y * r->h;
    r->x += dx * cs - dy * sn;
    r->y += dx * sn + dy * cs;
    if (c->square)
        r->w = r->h = fmax(r->w, r->h);
    r->w *= TACHY_DEF(c->scale_x, 1);
    r->h *= TACHY_DEF(c->scale_y, 1);
}

bool tachy_region_around(struct tachy_region *r)
{
    float x0 = INFINITY, y0 = INFINITY, x1 = -INFINITY, y1 = -INFINITY;
    for (int i = 0; i < r->nb_points; i++) { // NaN is neither less nor more
        const struct tachy_point *p = &r->points[i];
        x0 = p->x < x0 ? p->x : x0, x1 = p->x > x1 ? p->x : x1;
        y0 = p->y < y0 ? p->y : y0, y1 = p->y > y1 ? p->y : y1;
    }
    double w = (double)x1 - x0, h = (double)y1 - y0;
    if (!isfinite(w) || !isfinite(h) || !(w > 0) || !(h > 0))
        return false;
    r->x = ((double)x0 + x1) / 2, r->y = ((double)y0 + y1) / 2;
    r->w = w, r->h = h;
    r->angle = 0;
    return true;
}

void tachy_region_view(const struct tachy_region *r, int width, int height, struct tachy_view *view)
{
    double cs = cos(r->angle * DEGREE), sn = sin(r->angle * DEGREE), sx = r->w / width, sy = r->h / height;
    *view = (struct tachy_view){.use_affine = true,
                                .affine = {cs * sx, -sn * sy, r->x - (cs * r->w - sn * r->h) / 2, // row of x
                                           sn * sx, cs * sy, r->y - (sn * r->w + cs * r->h) / 2}};
}

void tachy_region_corners(const struct tachy_region *r, double x[4], double y[4])
{
    static const double u[4] = {-0.5, 0.5, 0.5, -0.5}, v[4] = {-0.5, -0.5, 0.5, 0.5};
    double cs = cos(r->angle * DEGREE), sn = sin(r->angle * DEGREE);
    for (int i = 0; i < 4; i++) {
        x[i] = r->x + cs * u[i] * r->w - sn * v[i] * r->h;
        y[i] = r->y + sn * u[i] * r->w + cs * v[i] * r->h;
    }
}

struct box {
    double x0, y0, x1, y1;
};

static struct box box_of(const struct tachy_region *r)
{
    double x[4], y[4];
    tachy_region_corners(r, x, y);
    struct box b = {x[0], y[0], x[0], y[0]};
    for (int i = 1; i < 4; i++)
        b = (struct box){fmin(b.x0, x[i]), fmin(b.y0, y[i]), fmax(b.x1, x[i]), fmax(b.y1, y[i])};
    return b;
}

double tachy_region_overlap(const struct tachy_region *a, const struct tachy_region *b)
{
    struct box p = box_of(a), q = box_of(b);
    double w = fmin(p.x1, q.x1) - fmax(p.x0, q.x0), h = fmin(p.y1, q.y1) - fmax(p.y0, q.y0);
    double common = fmax(w, 0) * fmax(h, 0);
    double both = (p.x1 - p.x0) * (p.y1 - p.y0) + (q.x1 - q.x0) * (q.y1 - q.y0) - common;
    return both > 0 ? common / both : 0;
}

void tachy_region_to_frame(struct tachy_region *r, const double m[6])
{
    double x = r->x, y = r->y, cs = cos(r->angle * DEGREE), sn = sin(r->angle * DEGREE);
    double ux = m[0] * cs + m[1] * sn, uy = m[3] * cs + m[4] * sn;   // direction of the region's x axis
    double vx = m[1] * cs - m[0] * sn, vy = m[4] * cs - m[3] * sn;   // and its y axis
    r->x = m[0] * x + m[1] * y + m[2];
    r->y = m[3] * x + m[4] * y + m[5];
    r->w *= hypot(ux, uy);
    r->h *= hypot(vx, vy);
    bool mirrored = m[0] * m[4] - m[1] * m[3] < 0;
    r->angle = mirrored ? turn(atan2(-uy, -ux) / DEGREE) : turn(atan2(uy, ux) / DEGREE);
}

void tachy_points_to_frame(struct tachy_point *p, int n, const double m[6])
{
    double depth = hypot(m[0], m[3]);
    for (int i = 0; i < n; i++) {
        double x = p[i].x, y = p[i].y;
        p[i].x = (float)(m[0] * x + m[1] * y + m[2]);
        p[i].y = (float)(m[3] * x + m[4] * y + m[5]);
        p[i].z = (float)(p[i].z * depth);
    }
}
