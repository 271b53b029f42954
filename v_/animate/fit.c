#include "animate/face.h"

#include <math.h>

// Horn's closed form: the rotation is the quaternion of the largest eigenvalue of a symmetric matrix of sums.

// Temples, forehead, cheekbones, bridge and base of the nose, corners of the eyes.
static const int16_t rigid[] = {10,  338, 297, 332, 284, 251, 389, 356, 454, 234, 127, 162, 21, 54, 103, 67,
                                109, 168, 6,   197, 195, 5,   4,   1,   2,   98,  327, 33, 133, 362, 263, 93,
                                323, 116, 345, 143, 372, 34,  264, 151};

// The mean of 62 people's faces and their mirror images at these points, the outer corners of the eyes 1 apart, forehead and chin
// equally far away.
static const float at_rest[TACHY_ARRAY_SIZE(rigid)][3] = {
    {0, -0.605f, -0.206f}, {0.213f, -0.597f, -0.186f}, {0.395f, -0.557f, -0.116f}, {0.562f, -0.476f, 0.004f},
    {0.671f, -0.357f, 0.139f}, {0.738f, -0.211f, 0.265f}, {0.772f, -0.054f, 0.399f}, {0.786f, 0.131f, 0.502f},
    {0.781f, 0.300f, 0.543f}, {-0.781f, 0.300f, 0.543f}, {-0.786f, 0.131f, 0.502f}, {-0.772f, -0.054f, 0.399f},
    {-0.738f, -0.211f, 0.265f}, {-0.671f, -0.357f, 0.139f}, {-0.562f, -0.476f, 0.004f}, {-0.395f, -0.557f, -0.116f},
    {-0.213f, -0.597f, -0.186f}, {0, -0.050f, -0.300f}, {0, 0.030f, -0.356f}, {0, 0.104f, -0.418f},
    {0, 0.174f, -0.483f}, {0, 0.249f, -0.553f}, {0, 0.348f, -0.589f}, {0, 0.426f, -0.571f},
    {0, 0.510f, -0.400f}, {-0.205f, 0.482f, -0.305f}, {0.205f, 0.482f, -0.305f}, {-0.500f, 0.022f, -0.050f},
    {-0.193f, 0.039f, -0.113f}, {0.193f, 0.039f, -0.113f}, {0.500f, 0.022f, -0.050f}, {-0.770f, 0.470f, 0.535f},
    {0.770f, 0.470f, 0.535f}, {-0.714f, 0.224f, 0.075f}, {0.714f, 0.224f, 0.075f}, {-0.698f, 0.088f, 0.105f},
    {0.698f, 0.088f, 0.105f}, {-0.767f, 0.114f, 0.273f}, {0.767f, 0.114f, 0.273f}, {0, -0.425f, -0.261f},
};

void tachy_face_pose(struct tachy_face_fit *fit, const tachy_face_points now)
{
    tachy_face_points rest = {{0}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(rigid); i++)
        memcpy(rest[rigid[i]], at_rest[i], sizeof(at_rest[i]));
    tachy_face_fit(fit, rest, now);
}

static void mean_of(const tachy_face_points p, double mean[3])
{
    mean[0] = mean[1] = mean[2] = 0;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(rigid); i++)
        for (int k = 0; k < 3; k++)
            mean[k] += (double)p[rigid[i]][k] / (double)TACHY_ARRAY_SIZE(rigid);
}

// The eigenvector of the largest eigenvalue: column of a high power, whose diagonal was made positive.
static void largest(double m[4][4], double q[4])
{
    double shift = 0;
    for (int i = 0; i < 16; i++)
        shift += fabs(m[i / 4][i % 4]);
    for (int i = 0; i < 4; i++)
        m[i][i] += shift;
    for (int turn = 0; turn < 14; turn++) {
        double next[4][4], all = 0;
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                next[i][j] = 0;
                for (int k = 0; k < 4; k++)
                    next[i][j] += m[i][k] * m[k][j];
                all += fabs(next[i][j]);
            }
        for (int i = 0; i < 16; i++)
            m[i / 4][i % 4] = all > 0 ? next[i / 4][i % 4] / all : 0;
    }
    int best = 0;
    for (int i = 1; i < 4; i++)
        best = m[i][i] > m[best][best] ? i : best;
    double size = 0;
    for (int i = 0; i < 4; i++)
        size += m[i][best] * m[i][best];
    for (int i = 0; i < 4; i++)
        q[i] = size > 0 ? m[i][best] / sqrt(size) : i == 0;
}

static void turn_of(const double q[4], double r[3][3])
{
    double w = q[0], x = q[1], y = q[2], z = q[3];
    r[0][0] = 1 - 2 * (y * y + z * z);
    r[0][1] = 2 * (x * y - w * z);
    r[0][2] = 2 * (x * z + w * y);
    r[1][0] = 2 * (x * y + w * z);
    r[1][1] = 1 - 2 * (x * x + z * z);
    r[1][2] = 2 * (y * z - w * x);
    r[2][0] = 2 * (x * z - w * y);
    r[2][1] = 2 * (y * z + w * x);
    r[2][2] = 1 - 2 * (x * x + y * y);
}

void tachy_face_fit(struct tachy_face_fit *fit, const tachy_face_points a, const tachy_face_points b)
{
    double s[3][3] = {{0}}, q[4], up = 0, down = 0;
    mean_of(a, fit->from);
    mean_of(b, fit->to);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(rigid); i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++)
                s[j][k] += (a[rigid[i]][j] - fit->from[j]) * (b[rigid[i]][k] - fit->to[k]);
    double m[4][4] = {
        {s[0][0] + s[1][1] + s[2][2], s[1][2] - s[2][1], s[2][0] - s[0][2], s[0][1] - s[1][0]},
        {s[1][2] - s[2][1], s[0][0] - s[1][1] - s[2][2], s[0][1] + s[1][0], s[2][0] + s[0][2]},
        {s[2][0] - s[0][2], s[0][1] + s[1][0], s[1][1] - s[0][0] - s[2][2], s[1][2] + s[2][1]},
        {s[0][1] - s[1][0], s[2][0] + s[0][2], s[1][2] + s[2][1], s[2][2] - s[0][0] - s[1][1]}};
    largest(m, q);
    turn_of(q, fit->turn);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(rigid); i++)
        for (int j = 0; j < 3; j++) {
            double turned = 0, d = a[rigid[i]][j] - fit->from[j];
            for (int k = 0; k < 3; k++)
                turned += fit->turn[j][k] * (a[rigid[i]][k] - fit->from[k]);
            up += turned * (b[rigid[i]][j] - fit->to[j]);
            down += d * d;
        }
    fit->scale = down > 0 && up > 0 ? up / down : 1;
}
