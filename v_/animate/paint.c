#include "animate/face.h"

#include <math.h>
#include <string.h>

// Which pixels a triangle covers is a matter of whole numbers, as ref/ref_mesh.h says, so neighbours share none and leave
// none. Along a row the texture's place goes on by a constant step.

struct edge {
    int64_t step_x, step_y, at; // of its value at pixel (0, 0), with the tie of an edge that does not count taken off
};

struct shape {
    struct edge edge[3];
    int x0, x1, y0, y1; // pixels that may be covered, x1 and y1 not
    float u, v, u_x, u_y, v_x, v_y; // texture's place at the centre of pixel (0, 0), and its steps
};

struct texture {
    const uint8_t *data;
    ptrdiff_t stride;
    int width, height;
    float scale_x, scale_y;
};

static void set_edge(struct edge *e, const int64_t a[2], const int64_t b[2])
{
    const int64_t half = TACHY_MESH_GRID / 2;
    bool counts = b[1] < a[1] || (b[1] == a[1] && b[0] > a[0]);
    e->step_x = -(b[1] - a[1]) * TACHY_MESH_GRID;
    e->step_y = (b[0] - a[0]) * TACHY_MESH_GRID;
    e->at = (b[0] - a[0]) * (half - a[1]) - (b[1] - a[1]) * (half - a[0]) - (counts ? 0 : 1);
}

static void set_texture(struct shape *s, const struct tachy_mesh_corner *const c[3], const struct texture *t, float sx, float sy)
{
    float ax = c[1]->x * sx - c[0]->x * sx, ay = c[1]->y * sy - c[0]->y * sy;
    float bx = c[2]->x * sx - c[0]->x * sx, by = c[2]->y * sy - c[0]->y * sy, det = ax * by - ay * bx;
    float au = (c[1]->u - c[0]->u) * t->scale_x, bu = (c[2]->u - c[0]->u) * t->scale_x;
    float av = (c[1]->v - c[0]->v) * t->scale_y, bv = (c[2]->v - c[0]->v) * t->scale_y;
    float x = 0.5f - c[0]->x * sx, y = 0.5f - c[0]->y * sy;
    s->u_x = (au * by - bu * ay) / det;
    s->u_y = (bu * ax - au * bx) / det;
    s->v_x = (av * by - bv * ay) / det;
    s->v_y = (bv * ax - av * bx) / det;
    s->u = c[0]->u * t->scale_x + s->u_x * x + s->u_y * y - 0.5f;
    s->v = c[0]->v * t->scale_y + s->v_x * x + s->v_y * y - 0.5f;
}

// Whether it may cover a pixel. It must be clockwise on the screen: what is folded over is the back of the mesh, and its border
// stays in place, so that the front covers all of it.
static bool shape_of(struct shape *s, const struct tachy_mesh_corner *const c[3], const struct texture *t,
                     const struct tachy_face_plane *plane)
{
    int64_t p[3][2];
    for (int k = 0; k < 3; k++) {
        float x = c[k]->x * plane->scale_x, y = c[k]->y * plane->scale_y;
        if (!(fabsf(x) <= 16384) || !(fabsf(y) <= 16384))
            return false;
        p[k][0] = (int64_t)rintf(x * TACHY_MESH_GRID);
        p[k][1] = (int64_t)rintf(y * TACHY_MESH_GRID);
    }
    int64_t area = (p[1][0] - p[0][0]) * (p[2][1] - p[0][1]) - (p[1][1] - p[0][1]) * (p[2][0] - p[0][0]);
    if (area <= 0)
        return false;
    for (int k = 0; k < 3; k++)
        set_edge(&s->edge[k], p[k], p[(k + 1) % 3]);
    int64_t low[2], high[2];
    for (int i = 0; i < 2; i++) {
        low[i] = TACHY_MIN(TACHY_MIN(p[0][i], p[1][i]), p[2][i]);
        high[i] = TACHY_MAX(TACHY_MAX(p[0][i], p[1][i]), p[2][i]);
    }
    s->x0 = (int)TACHY_MAX(0, low[0] / TACHY_MESH_GRID - 1);
    s->y0 = (int)TACHY_MAX(0, low[1] / TACHY_MESH_GRID - 1);
    s->x1 = (int)TACHY_MIN(plane->width, high[0] / TACHY_MESH_GRID + 1);
    s->y1 = (int)TACHY_MIN(plane->height, high[1] / TACHY_MESH_GRID + 1);
    set_texture(s, c, t, plane->scale_x, plane->scale_y);
    return isfinite(s->u) && isfinite(s->v) && isfinite(s->u_x) && isfinite(s->v_x);
}

static int64_t divide_up(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); } // b > 0

// Pixels *from .. *end - 1 of the row are inside all edges.
static void span(const struct shape *s, int y, int *from, int *end)
{
    int64_t first = s->x0, last = s->x1;
    for (int k = 0; k < 3; k++) {
        const struct edge *e = &s->edge[k];
        int64_t at = e->at + e->step_y * y;
        if (e->step_x > 0)
            first = TACHY_MAX(first, divide_up(-at, e->step_x));
        else if (e->step_x < 0)
            last = TACHY_MIN(last, -divide_up(-at, -e->step_x) + 1);
        else if (at < 0)
            last = first;
    }
    *from = (int)first;
    *end = (int)last;
}

static uint8_t sample(const struct texture *t, float u, float v)
{
    u = TACHY_CLAMP(u, 0, (float)(t->width - 1));
    v = TACHY_CLAMP(v, 0, (float)(t->height - 1));
    int left = (int)u, above = (int)v, right = left + 1 < t->width ? 1 : 0;
    const uint8_t *top = t->data + above * t->stride + left, *under = above + 1 < t->height ? top + t->stride : top;
    float fu = u - (float)left, fv = v - (float)above;
    float a = (float)top[0] + fu * (float)(top[right] - top[0]), b = (float)under[0] + fu * (float)(under[right] - under[0]);
    return (uint8_t)(a + fv * (b - a) + 0.5f);
}

static void paint(const struct shape *s, const struct texture *t, const struct tachy_face_plane *plane)
{
    for (int y = s->y0; y < s->y1; y++) {
        int from, end;
        span(s, y, &from, &end);
        uint8_t *row = plane->dst + y * plane->stride_dst;
        float u = s->u + s->u_y * (float)y, v = s->v + s->v_y * (float)y;
        for (int x = from; x < end; x++)
            row[x] = sample(t, u + s->u_x * (float)x, v + s->v_x * (float)x);
    }
}

void tachy_face_paint(const struct tachy_face *face, const struct tachy_face_placed *placed, const struct tachy_face_plane *plane,
                      const uint8_t mouth[TACHY_MOUTH_SIZE * TACHY_MOUTH_SIZE])
{
    const struct texture skin = {plane->src, plane->stride_src, plane->width, plane->height, plane->scale_x, plane->scale_y};
    const struct texture inside = {mouth, TACHY_MOUTH_SIZE, TACHY_MOUTH_SIZE, TACHY_MOUTH_SIZE, 1, 1};
    for (int i = 0; i < face->triangles; i++) {
        int n = placed->order[i];
        const int16_t *k = face->triangle[n].corner;
        const struct tachy_mesh_corner *c[3] = {&placed->corner[k[0]], &placed->corner[k[1]], &placed->corner[k[2]]};
        const struct texture *t = n >= face->mouth && n < face->teeth ? &inside : &skin;
        struct shape s;
        if (shape_of(&s, c, t, plane))
            paint(&s, t, plane);
    }
}

static float step(float low, float high, float x)
{
    float t = TACHY_CLAMP((x - low) / (high - low), 0, 1);
    return t * t * (3 - 2 * t);
}

// Dark, a row of teeth below the upper lip that rounds off to the sides, and a tongue.
void tachy_face_mouth(uint8_t mouth[3][TACHY_MOUTH_SIZE * TACHY_MOUTH_SIZE], const int skin[3])
{
    const float n = TACHY_MOUTH_SIZE, bright = (float)skin[0];
    for (int y = 0; y < TACHY_MOUTH_SIZE; y++)
        for (int x = 0; x < TACHY_MOUTH_SIZE; x++) {
            float u = ((float)x + 0.5f) / n - 0.5f, v = ((float)y + 0.5f) / n, edge = 0.15f - 0.25f * u * u;
            float teeth = (1 - step(edge - 0.03f, edge + 0.02f, v)) * (1 - step(0.22f, 0.4f, fabsf(u))) * step(0, 0.05f, v);
            float tongue = step(0.2f, 0.5f, v) * (1 - step(0.15f, 0.4f, fabsf(u)));
            int at = y * TACHY_MOUTH_SIZE + x;
            mouth[0][at] = (uint8_t)(24 + 0.12f * bright + teeth * 0.75f * bright + tongue * 0.18f * bright);
            mouth[1][at] = (uint8_t)(124 + teeth * (4 + 0.5f * (float)(skin[1] - 128)));
            mouth[2][at] = (uint8_t)(139 + teeth * (0.4f * (float)(skin[2] - 128) - 11) + tongue * 12);
        }
}
