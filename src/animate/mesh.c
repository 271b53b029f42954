#include "animate/face.h"
#include "animate/parts.h"
#include "animate/spread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The mesh: skin between the points, rings around the oval whose motion falls off to nothing, and what shows in the
// openings of mouth and eyes with corners of its own, since it does not move as the skin does.

enum {
    FIRST_RING = TACHY_FACE_POINTS,
    FIRST_LIP = FIRST_RING + TACHY_FACE_RINGS * TACHY_FACE_OVAL,
    FIRST_TOOTH = FIRST_LIP + TACHY_FACE_LIPS,
    FIRST_LID = FIRST_TOOTH + TACHY_FACE_LIPS,
    FIRST_IRIS = FIRST_LID + 2 * TACHY_FACE_LIDS,
};

static const struct tachy_face_triangle faces[] = {
#include "animate/face_triangles.inc"
};

static const float ring_at[TACHY_FACE_RINGS] = {1.12f, 1.3f, 1.55f, 1.9f, 2.4f}; // of the oval
static const float ring_moves[TACHY_FACE_RINGS] = {0.93f, 0.72f, 0.4f, 0.12f, 0};

// Where a point of the skin is among the corners of an opening; -1: not there.
static int corner_of(const int16_t *of, int n, int first, int point)
{
    for (int i = 0; i < n; i++)
        if (of[i] == point)
            return first + i;
    return -1;
}

// Whether the triangle lies in the opening; *in has the opening's corners then.
static bool is_in(const struct tachy_face_triangle *t, const int16_t *of, int n, int first, struct tachy_face_triangle *in)
{
    bool all = true;
    for (int k = 0; k < 3; k++) {
        int at = corner_of(of, n, first, t->corner[k]);
        all = all && at >= 0;
        in->corner[k] = (int16_t)at;
    }
    return all;
}

static int opening(const struct tachy_face_triangle *t, struct tachy_face_triangle *in)
{
    if (is_in(t, face_lips, TACHY_FACE_LIPS, FIRST_LIP, in))
        return 1;
    for (int e = 0; e < 2; e++)
        if (is_in(t, face_lids[e], TACHY_FACE_LIDS, FIRST_LID + e * TACHY_FACE_LIDS, in))
            return 2;
    *in = *t;
    return 3;
}

static int ring_corner(int ring, int i)
{
    i %= TACHY_FACE_OVAL;
    return ring < 0 ? face_oval[i] : FIRST_RING + ring * TACHY_FACE_OVAL + i;
}

static void add(struct tachy_face *face, int a, int b, int c)
{
    face->triangle[face->triangles++] = (struct tachy_face_triangle){{(int16_t)a, (int16_t)b, (int16_t)c}};
}

// An eye whose iris moves: the white between lids and iris, then the iris, which the lids are painted over.
static void add_iris(struct tachy_face *face, int e)
{
    int lid = FIRST_LID + e * TACHY_FACE_LIDS, ring = FIRST_IRIS + e * TACHY_FACE_IRIS, centre = TACHY_FACE_SKIN + 5 * e;
    for (int i = 0; i < TACHY_FACE_LIDS; i++) {
        int next = lid + (i + 1) % TACHY_FACE_LIDS, at = ring + i / 2, after = ring + (i + 1) / 2 % TACHY_FACE_IRIS;
        add(face, lid + i, next, at);
        if (after != at)
            add(face, next, after, at);
    }
    for (int i = 0; i < TACHY_FACE_IRIS; i++)
        add(face, centre, ring + i, ring + (i + 1) % TACHY_FACE_IRIS);
}

// The same triangles as of the mouth, with corners of their own.
static void add_teeth(struct tachy_face *face)
{
    const int to = FIRST_TOOTH - FIRST_LIP;
    face->teeth = face->triangles;
    for (int i = face->mouth; i < face->teeth && face->mouth_open; i++) {
        const int16_t *c = face->triangle[i].corner;
        add(face, c[0] + to, c[1] + to, c[2] + to);
    }
}

static void add_triangles(struct tachy_face *face)
{
    _Static_assert(TACHY_ARRAY_SIZE(faces) + 2 * (TACHY_FACE_RINGS * TACHY_FACE_OVAL + 2 * TACHY_FACE_LIDS) + TACHY_FACE_LIPS <=
                       TACHY_FACE_TRIANGLES,
                   "room");
    int *begin[] = {NULL, &face->mouth, &face->eyes, &face->skin};
    face->triangles = 0;
    for (int r = TACHY_FACE_RINGS - 1; r >= 0; r--)
        for (int i = 0; i < TACHY_FACE_OVAL; i++) {
            add(face, ring_corner(r, i), ring_corner(r, i + 1), ring_corner(r - 1, i + 1));
            add(face, ring_corner(r, i), ring_corner(r - 1, i + 1), ring_corner(r - 1, i));
        }
    for (int part = 1; part <= 3; part++) {
        *begin[part] = face->triangles;
        for (size_t i = 0; i < TACHY_ARRAY_SIZE(faces); i++) {
            struct tachy_face_triangle t;
            if (opening(&faces[i], &t) == part && !(part == 2 && face->irises))
                face->triangle[face->triangles++] = t;
        }
        for (int e = 0; e < 2 && part == 2 && face->irises; e++)
            add_iris(face, e);
        if (part == 1)
            add_teeth(face);
    }
}

static float distance(const float a[], const float b[]) { return hypotf(a[0] - b[0], a[1] - b[1]); }

// How much farther than a point of the oval the skin reaches in its direction from the middle of the oval.
static void reach(const float (*at)[3], float of[TACHY_FACE_OVAL])
{
    float middle[2] = {0, 0};
    for (int i = 0; i < TACHY_FACE_OVAL; i++)
        for (int k = 0; k < 2; k++)
            middle[k] += at[face_oval[i]][k] / TACHY_FACE_OVAL;
    for (int i = 0; i < TACHY_FACE_OVAL; i++) {
        float x = at[face_oval[i]][0] - middle[0], y = at[face_oval[i]][1] - middle[1];
        float size = TACHY_MAX(hypotf(x, y), 1), most = size;
        for (int k = 0; k < TACHY_FACE_SKIN; k++) {
            float px = at[k][0] - middle[0], py = at[k][1] - middle[1];
            float aside = fabsf(px * y - py * x) / size, along = (px * x + py * y) / size;
            most = aside < 0.1f * size && along > most ? along : most;
        }
        of[i] = most / size;
    }
}

int tachy_face_open(struct tachy_face *face, const tachy_face_points point)
{
    struct tachy_face_fit fit;
    float middle[2] = {0, 0};
    memset(face, 0, sizeof(*face));
    memcpy(face->point, point, sizeof(face->point));
    tachy_face_fit(&fit, point, point);
    for (int k = 0; k < 3; k++)
        face->centre[k] = (float)fit.from[k];
    for (int i = 0; i < TACHY_FACE_OVAL; i++)
        for (int k = 0; k < 2; k++)
            middle[k] += point[face_oval[i]][k] / TACHY_FACE_OVAL;
    for (int i = 0; i < TACHY_FACE_OVAL; i++)
        face->radius += distance(point[face_oval[i]], middle) / TACHY_FACE_OVAL;
    for (int r = 0; r < TACHY_FACE_RINGS; r++)
        for (int i = 0; i < TACHY_FACE_OVAL; i++)
            for (int k = 0; k < 2; k++)
                face->ring[r][i][k] = middle[k] + ring_at[r] * (point[face_oval[i]][k] - middle[k]);
    face->mouth_open = distance(point[13], point[14]) > 0.1f * distance(point[78], point[308]);
    face->irises = distance(point[469], point[471]) > 1 && distance(point[474], point[476]) > 1;
    reach(point, face->reach);
    add_triangles(face);
    tachy_face_band(&face->band, faces, TACHY_ARRAY_SIZE(faces));
    return face->radius >= 2 && isfinite(face->radius) ? TACHY_OK : TACHY_ERR_INVAL;
}

// ---- In place

struct pose {
    float turn[3][3]; // times the scale
    const struct tachy_face *face;
    const struct tachy_face_motion *motion;
};

static struct pose pose_of(const struct tachy_face *face, const struct tachy_face_motion *m)
{
    struct pose p = {.face = face, .motion = m};
    float a = sqrtf(m->turn[0] * m->turn[0] + m->turn[1] * m->turn[1] + m->turn[2] * m->turn[2]), scale = expf(m->grow);
    float n[3] = {0}, c = cosf(a), s = sinf(a);
    for (int k = 0; k < 3 && a > 0; k++)
        n[k] = m->turn[k] / a;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            p.turn[i][j] = (n[i] * n[j] * (1 - c) + (i == j ? c : 0)) * scale;
    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3, k = (i + 2) % 3;
        p.turn[k][j] += n[i] * s * scale;
        p.turn[j][k] -= n[i] * s * scale;
    }
    return p;
}

// A point that has the offset of point i.
static void move(const struct pose *p, const float at[3], int i, float to[3])
{
    float d[3];
    for (int k = 0; k < 3; k++)
        d[k] = at[k] + p->motion->offset[i][k] - p->face->centre[k];
    for (int k = 0; k < 3; k++)
        to[k] = p->turn[k][0] * d[0] + p->turn[k][1] * d[1] + p->turn[k][2] * d[2] + p->face->centre[k] +
                (k < 2 ? p->motion->shift[k] : 0);
}

static void put(struct tachy_face_placed *to, int i, const float at[3], float u, float v)
{
    to->corner[i] = (struct tachy_mesh_corner){at[0], at[1], u, v};
    to->depth[i] = at[2];
}

// At a turn the far cheek comes before the oval behind it. There the oval is moved out as far, so that the outline is one smooth
// line and the mesh does not fold. `out`: by how much, for the rings.
static void push_oval(const struct tachy_face *face, struct tachy_face_placed *to, float out[TACHY_FACE_OVAL][2])
{
    float at[TACHY_FACE_SKIN][3], now[TACHY_FACE_OVAL], middle[2] = {0, 0};
    for (int i = 0; i < TACHY_FACE_SKIN; i++)
        memcpy(at[i], (const float[3]){to->corner[i].x, to->corner[i].y, 0}, sizeof(at[i]));
    reach((const float (*)[3])at, now);
    for (int i = 0; i < TACHY_FACE_OVAL; i++)
        for (int k = 0; k < 2; k++)
            middle[k] += at[face_oval[i]][k] / TACHY_FACE_OVAL;
    for (int i = 0; i < TACHY_FACE_OVAL; i++) {
        struct tachy_mesh_corner *c = &to->corner[face_oval[i]];
        float more = TACHY_CLAMP(now[i] / face->reach[i] - 1, 0, 1);
        out[i][0] = more * (c->x - middle[0]);
        out[i][1] = more * (c->y - middle[1]);
        c->x += out[i][0];
        c->y += out[i][1];
    }
}

static void place_rings(const struct pose *p, struct tachy_face_placed *to)
{
    float out[TACHY_FACE_OVAL][2];
    push_oval(p->face, to, out);
    for (int r = 0; r < TACHY_FACE_RINGS; r++)
        for (int i = 0; i < TACHY_FACE_OVAL; i++) {
            const float *from = p->face->ring[r][i], w = ring_moves[r];
            float at[3] = {from[0], from[1], p->face->point[face_oval[i]][2]}, moved[3];
            move(p, at, face_oval[i], moved);
            for (int k = 0; k < 2; k++)
                at[k] += w * (moved[k] + out[i][k] - at[k]);
            put(to, FIRST_RING + r * TACHY_FACE_OVAL + i, at, from[0], from[1]);
        }
}

// Only the head's turn counts, so that what the face does moves no texture.
static void spread(const struct pose *p, struct tachy_face_placed *to)
{
    const float back = expf(-p->motion->grow);
    float at[TACHY_FACE_SKIN][2];
    for (int i = 0; i < TACHY_FACE_SKIN; i++) {
        const float *q = p->face->point[i], *c = p->face->centre;
        for (int k = 0; k < 2; k++)
            at[i][k] = back * (p->turn[k][0] * (q[0] - c[0]) + p->turn[k][1] * (q[1] - c[1]) + p->turn[k][2] * (q[2] - c[2]));
    }
    tachy_face_spread(p->face, (const float (*)[2])at, to->corner);
}

// A texture of its own: across the mouth, and down from the upper lip in the same unit, so teeth keep their height.
static void place_mouth(const struct pose *p, struct tachy_face_placed *to)
{
    const struct tachy_mesh_corner *left = &to->corner[78], *right = &to->corner[308];
    float wide = TACHY_MAX(hypotf(right->x - left->x, right->y - left->y), 1);
    for (int i = 0; i < TACHY_FACE_LIPS; i++) {
        int across = i <= 10 ? i : 20 - i, n = face_lips[i];
        const struct tachy_mesh_corner *c = &to->corner[n], *upper = &to->corner[face_lips[across]];
        float at[3] = {c->x, c->y, to->depth[n]};
        float along = ((c->x - left->x) * (right->x - left->x) + (c->y - left->y) * (right->y - left->y)) / (wide * wide);
        float v = i <= 10 ? 0 : hypotf(c->x - upper->x, c->y - upper->y) / wide * TACHY_MOUTH_SIZE;
        put(to, FIRST_LIP + i, at, TACHY_CLAMP(along, 0, 1) * TACHY_MOUTH_SIZE, v);
    }
}

// Teeth that the portrait shows hang below the upper lip as long as they are there: a mouth that opens wider shows what is behind
// the lips below them, one that closes covers them.
static void place_teeth(const struct pose *p, struct tachy_face_placed *to)
{
    for (int i = 0; i < TACHY_FACE_LIPS; i++) {
        int n = face_lips[i], over = face_lips[i <= 10 ? i : 20 - i];
        const struct tachy_mesh_corner *c = &to->corner[n], *upper = &to->corner[over];
        const float *a = p->motion->offset[n], *b = p->motion->offset[over];
        float x = c->u - upper->u, y = c->v - upper->v, rest = hypotf(x, y), now = hypotf(x + a[0] - b[0], y + a[1] - b[1]);
        float down = now > rest ? rest / now : 1, shown = now < rest ? now / rest : 1; // both 1 of the upper lip
        float at[3] = {upper->x + down * (c->x - upper->x), upper->y + down * (c->y - upper->y), to->depth[n]};
        put(to, FIRST_TOOTH + i, at, upper->u + shown * (c->u - upper->u), upper->v + shown * (c->v - upper->v));
    }
}

// Lids slide over the eye: while they close, its texture stays.
static void place_eyes(const struct pose *p, struct tachy_face_placed *to)
{
    for (int e = 0; e < 2; e++)
        for (int i = 0; i < TACHY_FACE_LIDS; i++) {
            int n = face_lids[e][i], across = face_lids[e][(TACHY_FACE_LIDS - i) % TACHY_FACE_LIDS];
            const float *a = p->face->point[n], *b = p->face->point[across], *move_of = p->motion->offset[n];
            float gap[2] = {b[0] - a[0], b[1] - a[1]}, size = gap[0] * gap[0] + gap[1] * gap[1];
            float way = size > 0 ? (move_of[0] * gap[0] + move_of[1] * gap[1]) / size : 0;
            float at[3] = {to->corner[n].x, to->corner[n].y, to->depth[n]};
            way = TACHY_CLAMP(way, 0, 1);
            put(to, FIRST_LID + e * TACHY_FACE_LIDS + i, at, a[0] + way * gap[0], a[1] + way * gap[1]);
        }
}

// A little larger than the iris, so that its edge moves with it.
static void place_irises(const struct pose *p, struct tachy_face_placed *to)
{
    for (int e = 0; e < 2 && p->face->irises; e++) {
        int n = TACHY_FACE_SKIN + 5 * e;
        const float *c = p->face->point[n];
        float r = 0.65f * distance(p->face->point[n + 1], p->face->point[n + 3]);
        for (int i = 0; i < TACHY_FACE_IRIS; i++) {
            float angle = 3.14159265f * (1 + 2 * (float)i / TACHY_FACE_IRIS); // from the left over the top, as the lids
            float at[3] = {c[0] + r * cosf(angle), c[1] + r * sinf(angle), c[2]}, moved[3];
            move(p, at, n, moved);
            put(to, FIRST_IRIS + e * TACHY_FACE_IRIS + i, moved, at[0], at[1]);
        }
    }
}

struct far {
    float depth;
    int16_t triangle;
};

static int farther(const void *a, const void *b)
{
    const struct far *x = a, *y = b;
    return x->depth != y->depth ? (x->depth < y->depth) - (x->depth > y->depth) : x->triangle - y->triangle;
}

static void sort(const struct tachy_face *face, struct tachy_face_placed *to)
{
    struct far skin[TACHY_FACE_TRIANGLES];
    int n = face->triangles - face->skin;
    for (int i = 0; i < face->skin; i++)
        to->order[i] = (int16_t)i;
    for (int i = 0; i < n; i++) {
        const int16_t *c = face->triangle[face->skin + i].corner;
        skin[i] = (struct far){to->depth[c[0]] + to->depth[c[1]] + to->depth[c[2]], (int16_t)(face->skin + i)};
    }
    qsort(skin, (size_t)n, sizeof(*skin), farther);
    for (int i = 0; i < n; i++)
        to->order[face->skin + i] = skin[i].triangle;
}

void tachy_face_place(const struct tachy_face *face, const struct tachy_face_motion *motion, struct tachy_face_placed *to)
{
    struct pose p = pose_of(face, motion);
    for (int i = 0; i < TACHY_FACE_POINTS; i++) {
        float at[3];
        move(&p, face->point[i], i, at);
        put(to, i, at, face->point[i][0], face->point[i][1]);
    }
    place_rings(&p, to);
    spread(&p, to);
    place_mouth(&p, to);
    place_teeth(&p, to);
    place_eyes(&p, to);
    place_irises(&p, to);
    sort(face, to);
}

// ---- For other rasterisers

static bool faces_camera(const struct tachy_face_placed *placed, const int16_t c[3])
{
    const struct tachy_mesh_corner *a = &placed->corner[c[0]], *b = &placed->corner[c[1]], *d = &placed->corner[c[2]];
    return (b->x - a->x) * (d->y - a->y) - (b->y - a->y) * (d->x - a->x) > 0; // false for NaN
}

void tachy_face_mesh(const struct tachy_face *face, const struct tachy_face_placed *placed, struct tachy_face_mesh *mesh)
{
    for (int i = 0; i < TACHY_FACE_CORNERS; i++) {
        const struct tachy_mesh_corner *c = &placed->corner[i];
        bool inside = i >= FIRST_LIP && i < FIRST_TOOTH; // its texture has one size for all planes
        mesh->corner[0][i] = *c;
        mesh->corner[1][i] = (struct tachy_mesh_corner){c->x / 2, c->y / 2, inside ? c->u : c->u / 2, inside ? c->v : c->v / 2};
    }
    mesh->triangles = mesh->mouth = mesh->mouth_end = 0;
    for (int i = 0; i < face->triangles; i++) {
        const int16_t *c = face->triangle[placed->order[i]].corner;
        mesh->mouth = i == face->mouth ? mesh->triangles : mesh->mouth;
        mesh->mouth_end = i == face->teeth ? mesh->triangles : mesh->mouth_end;
        if (!faces_camera(placed, c))
            continue;
        for (int k = 0; k < 3; k++)
            mesh->triangle[mesh->triangles][k] = c[k];
        mesh->triangles++;
    }
}
