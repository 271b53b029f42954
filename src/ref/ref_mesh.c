#include "ref/ref_mesh.h"

#include <math.h>
#include <stdbool.h>

// Twice the signed area of a, b and (x, y): positive if that lies to the right of the direction from a to b, with y
// pointing down.
static int64_t side(const int64_t a[2], const int64_t b[2], int64_t x, int64_t y)
{
    return (b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0]);
}

// Clockwise on the screen: an edge that goes up is a left one, a level one that goes right an upper one.
static bool counts(const int64_t a[2], const int64_t b[2])
{
    return b[1] < a[1] || (b[1] == a[1] && b[0] > a[0]);
}

int tachy_ref_mesh_at(const struct tachy_mesh_corner *const corner[3], int x, int y, float *u, float *v)
{
    int64_t p[3][2], e[3];
    for (int k = 0; k < 3; k++) {
        if (!(fabsf(corner[k]->x) <= 16384) || !(fabsf(corner[k]->y) <= 16384))
            return 0;
        p[k][0] = (int64_t)rintf(corner[k]->x * TACHY_MESH_GRID);
        p[k][1] = (int64_t)rintf(corner[k]->y * TACHY_MESH_GRID);
    }
    int64_t area = side(p[0], p[1], p[2][0], p[2][1]);
    if (area == 0)
        return 0;
    int64_t cx = (int64_t)x * TACHY_MESH_GRID + TACHY_MESH_GRID / 2, cy = (int64_t)y * TACHY_MESH_GRID + TACHY_MESH_GRID / 2;
    for (int k = 0; k < 3; k++) {
        const int64_t *a = p[(k + 1) % 3], *b = p[(k + 2) % 3];
        e[k] = area > 0 ? side(a, b, cx, cy) : side(b, a, cx, cy);
        if (e[k] < 0 || (e[k] == 0 && !(area > 0 ? counts(a, b) : counts(b, a))))
            return 0;
    }
    float all = (float)(area > 0 ? area : -area), w1 = (float)e[1] / all, w2 = (float)e[2] / all;
    *u = corner[0]->u + w1 * (corner[1]->u - corner[0]->u) + w2 * (corner[2]->u - corner[0]->u);
    *v = corner[0]->v + w1 * (corner[1]->v - corner[0]->v) + w2 * (corner[2]->v - corner[0]->v);
    return 1;
}

float tachy_ref_mesh_mix(const float v[4], const float weight[2])
{
    float a = v[0] + weight[0] * (v[1] - v[0]), b = v[2] + weight[0] * (v[3] - v[2]);
    return a + weight[1] * (b - a);
}
