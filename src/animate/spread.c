#include "animate/spread.h"
#include "animate/parts.h"

#include <math.h>
#include <string.h>

// The portrait sees the skin between cheek and outline edge-on, a few pixels wide. Turned to the viewer it is ten times as
// wide. Its own texture would be streaks there, so it shares that of the cheek beside it.

enum { STEPS = 2, SWEEPS = 16 }; // edges from the outline to the last point that takes part; rounds of the relaxation
static const float drawn_in = 0.45f; // share of the way to the face's middle, where nothing was seen of the skin

// From temple to jaw.
static bool is_side(int oval)
{
    int from_top = TACHY_MIN(oval, TACHY_FACE_OVAL - oval);
    return from_top >= 3 && from_top <= 13;
}

static bool is_brow(int point)
{
    for (int i = 0; i < FACE_BROWS; i++)
        if (face_brows[i] == point)
            return true;
    return false;
}

static void add_neighbour(struct tachy_face_band *b, int i, int point)
{
    for (int k = 0; k < b->nb_near[i]; k++)
        if (b->near[i][k] == point)
            return;
    if (b->nb_near[i] < TACHY_BAND_NEAR)
        b->near[i][b->nb_near[i]++] = (int16_t)point;
}

// Edges from each point to the sides of the outline, up to STEPS + 1.
static void count_steps(const struct tachy_face_triangle *t, int n, int steps[TACHY_FACE_SKIN])
{
    for (int i = 0; i < TACHY_FACE_SKIN; i++)
        steps[i] = STEPS + 1;
    for (int i = 0; i < TACHY_FACE_OVAL; i++)
        steps[face_oval[i]] = is_side(i) ? 0 : STEPS + 1;
    for (int s = 1; s <= STEPS; s++)
        for (int i = 0; i < 3 * n; i++) {
            int a = t[i / 3].corner[i % 3], b = t[i / 3].corner[(i + 1) % 3];
            steps[a] = TACHY_MIN(steps[a], steps[b] == s - 1 ? s : STEPS + 1);
            steps[b] = TACHY_MIN(steps[b], steps[a] == s - 1 ? s : STEPS + 1);
        }
    for (int i = 0; i < TACHY_FACE_OVAL; i++)
        steps[face_oval[i]] = 0;
}

void tachy_face_band(struct tachy_face_band *band, const struct tachy_face_triangle *t, int n)
{
    int steps[TACHY_FACE_SKIN], at[TACHY_FACE_SKIN];
    memset(band, 0, sizeof(*band));
    count_steps(t, n, steps);
    for (int i = 0; i < TACHY_FACE_SKIN; i++) {
        bool in = steps[i] > 0 && steps[i] <= STEPS && !is_brow(i) && band->nb < TACHY_BAND_POINTS;
        at[i] = in ? band->nb : -1;
        if (in)
            band->point[band->nb++] = (int16_t)i;
    }
    for (int i = 0; i < 3 * n; i++) {
        int a = t[i / 3].corner[i % 3], b = t[i / 3].corner[(i + 1) % 3];
        if (at[a] >= 0)
            add_neighbour(band, at[a], b);
        if (at[b] >= 0)
            add_neighbour(band, at[b], a);
    }
}

// Lengths of an edge in the portrait and in the turned head; skin that turns away keeps its texture.
struct edge {
    float was, is;
};

static struct edge edge_of(const struct tachy_face *face, const float (*at)[2], int a, int b, float least)
{
    float x = face->point[b][0] - face->point[a][0], y = face->point[b][1] - face->point[a][1];
    struct edge e = {hypotf(x, y), hypotf(at[b][0] - at[a][0], at[b][1] - at[a][1])};
    e.was = TACHY_MAX(e.was, least);
    e.is = TACHY_MAX(e.is, e.was);
    return e;
}

// What the edges at a point pull with.
struct pull {
    float by[TACHY_BAND_NEAR], all; // of each, and their sum
    float rest[2];                  // at rest, which is a balance
};

static void weigh(const struct tachy_face *face, const float (*at)[2], int i, float least, struct pull *p)
{
    const struct tachy_face_band *band = &face->band;
    int a = band->point[i];
    float before = 0;
    memset(p, 0, sizeof(*p));
    for (int k = 0; k < band->nb_near[i]; k++) {
        int b = band->near[i][k];
        struct edge e = edge_of(face, at, a, b, least);
        p->by[k] = 1 / e.is;
        p->all += p->by[k];
        before += 1 / e.was;
        for (int c = 0; c < 2; c++)
            p->rest[c] += (face->point[a][c] - face->point[b][c]) / e.was;
    }
    for (int c = 0; c < 2; c++)
        p->rest[c] *= p->all / before;
}

// The outline's points lie on hair, ear and background as much as on skin. So that those are not stretched, the texture of an
// outline that comes into sight begins farther inside.
static void draw_in(const struct tachy_face *face, const float (*at)[2], float least, struct tachy_mesh_corner *corner)
{
    const struct tachy_face_band *band = &face->band;
    float seen[TACHY_FACE_SKIN] = {0}, middle[2] = {0, 0}; // seen: 0 at rest, to 1 where nothing was seen
    for (int i = 0; i < band->nb; i++)
        for (int k = 0; k < band->nb_near[i]; k++) {
            int n = band->near[i][k];
            struct edge e = edge_of(face, at, band->point[i], n, least);
            seen[n] = TACHY_MAX(seen[n], (e.is - e.was) / (e.is + 5 * least));
        }
    for (int i = 0; i < TACHY_FACE_OVAL; i++)
        for (int c = 0; c < 2; c++)
            middle[c] += face->point[face_oval[i]][c] / TACHY_FACE_OVAL;
    for (int i = 0; i < TACHY_FACE_OVAL; i++) {
        struct tachy_mesh_corner *o = &corner[face_oval[i]];
        float s = seen[face_oval[i]], by = drawn_in * s * s * s; // little at a small turn
        o->u += by * (middle[0] - o->u);
        o->v += by * (middle[1] - o->v);
    }
}

void tachy_face_spread(const struct tachy_face *face, const float (*at)[2], struct tachy_mesh_corner *corner)
{
    const struct tachy_face_band *band = &face->band;
    const float least = 0.01f * face->radius; // shorter edges count as that long
    struct pull pull[TACHY_BAND_POINTS];
    for (int i = 0; i < band->nb; i++)
        weigh(face, at, i, least, &pull[i]);
    draw_in(face, at, least, corner);
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (int i = 0; i < band->nb; i++) {
            const struct pull *p = &pull[i];
            float u = p->rest[0], v = p->rest[1];
            for (int k = 0; k < band->nb_near[i]; k++) {
                u += p->by[k] * corner[band->near[i][k]].u;
                v += p->by[k] * corner[band->near[i][k]].v;
            }
            corner[band->point[i]].u = u / p->all;
            corner[band->point[i]].v = v / p->all;
        }
}
