#include "animate/face.h"
#include "animate/parts.h"

#include <math.h>

// What the driver does is told apart in how its head moves and what its face does in the head's own frame; both are
// brought into the portrait's frame and proportions.

static const float most_turn = 0.61f, most_shift = 0.6f, most_grow = 0.35f; // radians, radii, logarithm

static void product(double to[3][3], double a[3][3], double b[3][3], bool b_turned_back)
{
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            to[i][j] = 0;
            for (int k = 0; k < 3; k++)
                to[i][j] += a[i][k] * (b_turned_back ? b[j][k] : b[k][j]);
        }
}

static void axis_of(double r[3][3], float axis[3])
{
    double v[3] = {r[2][1] - r[1][2], r[0][2] - r[2][0], r[1][0] - r[0][1]};
    double sine = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]) / 2, cosine = (r[0][0] + r[1][1] + r[2][2] - 1) / 2;
    double by = sine > 1e-9 ? atan2(sine, cosine) / (2 * sine) : 0.5;
    for (int k = 0; k < 3; k++)
        axis[k] = (float)(v[k] * by);
}

static void shorten(float v[], int n, float most)
{
    float size = 0;
    for (int i = 0; i < n; i++)
        size += v[i] * v[i];
    size = sqrtf(size);
    for (int i = 0; i < n && size > most; i++)
        v[i] *= most / size;
}

static double between(const tachy_face_points p, int a, int b)
{
    double x = p[a][0] - p[b][0], y = p[a][1] - p[b][1], z = p[a][2] - p[b][2];
    return sqrt(x * x + y * y + z * z);
}

// What an extent of the portrait is to the driver's, beside the scale of the whole face.
static float proportion(const tachy_face_points of, const tachy_face_points to, int a, int b, double scale, double low, double high)
{
    double there = between(to, a, b) * scale;
    return (float)(there > 0 ? TACHY_CLAMP(between(of, a, b) / there, low, high) : 1);
}

// What the expression near a part of the face is multiplied by, with a smooth end.
struct part {
    int from, to; // points at its ends
    float by;
};

// A network that sees the moved lids and brows finds less motion than they made, since no wrinkle moves with them.
static const float lids_seen_less = 1.7f, brows_seen_less = 1.15f;

static void fit_proportions(const struct tachy_face *face, const tachy_face_points neutral, double scale, tachy_face_points offset)
{
    const struct part parts[] = {
        {61, 291, proportion(face->point, neutral, 61, 291, scale, 0.7, 1.4)},
        {70, 107, brows_seen_less},
        {336, 300, brows_seen_less},
        {33, 133, lids_seen_less * proportion(face->point, neutral, 159, 145, scale, 0.5, 2)},
        {362, 263, lids_seen_less * proportion(face->point, neutral, 386, 374, scale, 0.5, 2)}};
    const float (*p)[3] = face->point;
    for (int i = 0; i < TACHY_FACE_SKIN; i++) {
        float most = 0; // of overlapping parts the one that changes more counts
        for (size_t k = 0; k < TACHY_ARRAY_SIZE(parts); k++) {
            int a = parts[k].from, b = parts[k].to;
            float x = p[i][0] - (p[a][0] + p[b][0]) / 2, y = p[i][1] - (p[a][1] + p[b][1]) / 2, size = (float)between(p, a, b);
            float d = (x * x + y * y) / (size * size), more = (parts[k].by - 1) * expf(-d * d * 2);
            most = fabsf(more) > fabsf(most) ? more : most;
        }
        for (int k = 0; k < 3; k++)
            offset[i][k] *= 1 + most;
    }
}

// An upper lid ends where the lower one is.
static void stop_lids(const struct tachy_face *face, tachy_face_points offset)
{
    for (int e = 0; e < 2; e++)
        for (int i = 1; i < TACHY_FACE_LIDS / 2; i++) {
            int up = face_lids[e][i], down = face_lids[e][TACHY_FACE_LIDS - i];
            const float *a = face->point[up], *b = face->point[down];
            float gap[2] = {b[0] - a[0], b[1] - a[1]}, size = gap[0] * gap[0] + gap[1] * gap[1];
            float x = offset[up][0] - offset[down][0], y = offset[up][1] - offset[down][1];
            float beyond = size > 0 ? TACHY_MAX((x * gap[0] + y * gap[1]) / size - 1, 0) : 0;
            for (int k = 0; k < 2; k++)
                offset[up][k] -= beyond * gap[k];
        }
}

// Expression of the driver in its own neutral frame, in its pixels.
static void expression(const struct tachy_face_fit *head, const tachy_face_points neutral, const float now[3], int i, double e[3])
{
    for (int k = 0; k < 3; k++) {
        e[k] = head->from[k] - (double)neutral[i][k];
        for (int j = 0; j < 3; j++) // the inverse of a rotation is its transpose
            e[k] += head->turn[j][k] * (now[j] - head->to[j]) / head->scale;
    }
}

static bool irises_known(const tachy_face_points p)
{
    return hypotf(p[469][0] - p[471][0], p[469][1] - p[471][1]) > 0 && hypotf(p[474][0] - p[476][0], p[474][1] - p[476][1]) > 0;
}

// An iris goes as far as the driver's does beside the corners of its eye, and no farther than half of its width from where it
// was. Where it is not known it goes with the corners of the eye.
static void follow_gaze(const struct tachy_face *face, bool known, tachy_face_points offset)
{
    static const int16_t corners[2][2] = {{33, 133}, {362, 263}};
    known = known && face->irises;
    for (int e = 0; e < 2; e++) {
        int n = TACHY_FACE_SKIN + 5 * e, a = corners[e][0], b = corners[e][1];
        float gaze[3], most = 0.5f * (float)between(face->point, n + 1, n + 3);
        for (int k = 0; k < 3; k++)
            gaze[k] = known ? offset[n][k] - (offset[a][k] + offset[b][k]) / 2 : 0;
        gaze[2] = 0; // its depth is that of the lids
        shorten(gaze, 3, most);
        for (int i = n; i < n + 5; i++)
            for (int k = 0; k < 3; k++)
                offset[i][k] = (offset[a][k] + offset[b][k]) / 2 + gaze[k];
    }
}

// By what the portrait's head is turned to be as the driver's.
static void turn_alike(const tachy_face_points portrait, const tachy_face_points now, double turn[3][3])
{
    struct tachy_face_fit there, here;
    tachy_face_pose(&there, now);
    tachy_face_pose(&here, portrait);
    product(turn, there.turn, here.turn, true);
}

void tachy_face_drive(const struct tachy_face *face, const tachy_face_points neutral, const tachy_face_points now,
                      const struct tachy_face_strength *strength, struct tachy_face_motion *motion)
{
    struct tachy_face_fit head, like;
    double half[3][3], turn[3][3];
    tachy_face_fit(&head, neutral, now);
    tachy_face_fit(&like, neutral, face->point);
    product(half, like.turn, head.turn, false);
    product(turn, half, like.turn, true);
    if (strength->absolute)
        turn_alike(face->point, now, turn);
    axis_of(turn, motion->turn);
    motion->grow = (float)log(head.scale) * strength->pose;
    motion->grow = TACHY_CLAMP(motion->grow, -most_grow, most_grow);
    for (int k = 0; k < 3; k++)
        motion->turn[k] *= strength->pose;
    for (int k = 0; k < 2; k++)
        motion->shift[k] = (float)(like.scale * (head.to[k] - head.from[k])) * strength->pose;
    shorten(motion->turn, 3, most_turn);
    shorten(motion->shift, 2, most_shift * face->radius);
    for (int i = 0; i < TACHY_FACE_POINTS; i++) {
        double e[3];
        expression(&head, neutral, now[i], i, e);
        for (int k = 0; k < 3; k++) {
            double v = like.turn[k][0] * e[0] + like.turn[k][1] * e[1] + like.turn[k][2] * e[2];
            motion->offset[i][k] = (float)(v * like.scale) * strength->expression;
        }
    }
    fit_proportions(face, neutral, like.scale, motion->offset);
    stop_lids(face, motion->offset);
    follow_gaze(face, irises_known(neutral) && irises_known(now), motion->offset);
    for (int i = 0; i < TACHY_FACE_POINTS; i++)
        shorten(motion->offset[i], 3, 0.5f * face->radius);
}

void tachy_face_ease(struct tachy_face_motion *motion, float share)
{
    float *v = motion->turn, left = 1 - share;
    for (int k = 0; k < 3; k++)
        v[k] *= left;
    motion->grow *= left;
    motion->shift[0] *= left;
    motion->shift[1] *= left;
    for (int i = 0; i < TACHY_FACE_POINTS; i++)
        for (int k = 0; k < 3; k++)
            motion->offset[i][k] *= left;
}
