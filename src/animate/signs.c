#include "animate/face.h"

#include <math.h>

// Pose and expression by geometry alone. The points are brought to the mean face's place, size and direction; lengths are then
// shares of the distance of the eyes' outer corners. Each coefficient is 0 at the median of 62 people's photographs, or beyond
// their ordinary range, and 1 at what a face can do. Left and right are the person's, names are ARKit's.

static const double eye_distance = 9.0, view = 63; // centimetres, degrees of the picture's height

typedef double points[TACHY_FACE_POINTS][3];

static double between(points q, int a, int b) { return hypot(hypot(q[a][0] - q[b][0], q[a][1] - q[b][1]), q[a][2] - q[b][2]); }

static double share(double v, double none, double all) { return TACHY_CLAMP((v - none) / (all - none), 0, 1); }

// Into the mean face's frame.
static void straighten(points q, const struct tachy_face_fit *f, const tachy_face_points now)
{
    for (int i = 0; i < TACHY_FACE_POINTS; i++)
        for (int k = 0; k < 3; k++) {
            q[i][k] = f->from[k];
            for (int j = 0; j < 3; j++) // the inverse of a rotation is its transpose
                q[i][k] += f->turn[j][k] * ((double)now[i][j] - f->to[j]) / f->scale;
        }
}

// Numbers of a side's points.
struct side {
    int outer, inner, lid[3], under[3], brow_in[2], brow_out[3], corner;
};
static const struct side sides[2] = {
    {263, 362, {386, 385, 387}, {374, 380, 373}, {285, 336}, {300, 334, 293}, 291},
    {33, 133, {159, 158, 160}, {145, 153, 144}, {55, 107}, {70, 105, 63}, 61}};

static double opening(points q, const struct side *s)
{
    double sum = 0;
    for (int i = 0; i < 3; i++)
        sum += between(q, s->lid[i], s->under[i]) / 3;
    return sum / between(q, s->outer, s->inner);
}

static double brow_outer(points q, const struct side *s)
{
    double mean = (q[s->brow_out[0]][1] + q[s->brow_out[1]][1] + q[s->brow_out[2]][1]) / 3;
    return (q[s->outer][1] + q[s->inner][1]) / 2 - mean;
}

static double brow_inner(points q, const struct side *s)
{
    return q[s->inner][1] - (q[s->brow_in[0]][1] + q[s->brow_in[1]][1]) / 2;
}

static void tell_pose(struct tachy_named *v, const struct tachy_face_fit *f, const tachy_face_points now, int width, int height)
{
    const double degrees = 180 / 3.14159265358979323846, focal = height / 2.0 / tan(view / 2 / degrees);
    const double z = eye_distance * focal / f->scale;
    v[0] = (struct tachy_named){"yaw", atan2(-f->turn[0][2], f->turn[2][2]) * degrees};
    v[1] = (struct tachy_named){"pitch", asin(TACHY_CLAMP(f->turn[1][2], -1, 1)) * degrees};
    v[2] = (struct tachy_named){"roll", atan2(f->turn[1][0], f->turn[0][0]) * degrees};
    v[3] = (struct tachy_named){"x", ((double)(now[33][0] + now[263][0]) - width) / 2 * z / focal};
    v[4] = (struct tachy_named){"y", ((double)(now[33][1] + now[263][1]) - height) / 2 * z / focal};
    v[5] = (struct tachy_named){"z", z};
}

static void tell_mouth(struct tachy_named *v, points q)
{
    double middle = (q[0][1] + q[17][1]) / 2, aside = q[152][0] - (q[168][0] + q[2][0]) / 2;
    v[0] = (struct tachy_named){"jawOpen", share(between(q, 13, 14), 0.03, 0.45)};
    v[1] = (struct tachy_named){"jawLeft", share(aside, 0.03, 0.12)};
    v[2] = (struct tachy_named){"jawRight", share(-aside, 0.03, 0.12)};
    v[3] = (struct tachy_named){"mouthSmileLeft", share(middle - q[291][1], 0.04, 0.13)};
    v[4] = (struct tachy_named){"mouthSmileRight", share(middle - q[61][1], 0.04, 0.13)};
    v[5] = (struct tachy_named){"mouthPucker", share(between(q, 61, 291), 0.55, 0.35)};
}

void tachy_face_signs(struct tachy_named v[TACHY_FACE_SIGNS], const tachy_face_points now, int width, int height)
{
    static const char *const names[2][4] = {{"eyeBlinkLeft", "eyeWideLeft", "browDownLeft", "browOuterUpLeft"},
                                            {"eyeBlinkRight", "eyeWideRight", "browDownRight", "browOuterUpRight"}};
    struct tachy_face_fit f;
    points q;
    tachy_face_pose(&f, now);
    straighten(q, &f, now);
    tell_pose(v, &f, now, width, height);
    v += TACHY_FACE_POSE;
    double up = 0;
    for (int i = 0; i < 2; i++, v += 4) {
        double open = opening(q, &sides[i]), inner = brow_inner(q, &sides[i]);
        v[0] = (struct tachy_named){names[i][0], share(open, 0.22, 0.1)};
        v[1] = (struct tachy_named){names[i][1], share(open, 0.36, 0.5)};
        v[2] = (struct tachy_named){names[i][2], share(inner, 0.2, 0.13)};
        v[3] = (struct tachy_named){names[i][3], share(brow_outer(q, &sides[i]), 0.25, 0.36)};
        up += inner / 2;
    }
    v[0] = (struct tachy_named){"browInnerUp", share(up, 0.25, 0.34)};
    tell_mouth(v + 1, q);
}
