#include "test.h"

#include "animate/keypoints.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t seed = 1;
static float any(float low, float high)
{
    seed = seed * 1664525u + 1013904223u;
    return low + (high - low) * (float)(seed >> 8) / 16777216.f;
}

static void angles_are_means(void)
{
    float bins[TACHY_ANGLE_BINS];
    for (int at = 0; at < TACHY_ANGLE_BINS; at += 13) {
        for (int i = 0; i < TACHY_ANGLE_BINS; i++)
            bins[i] = i == at ? 1000 : 900; // would overflow without care
        CHECK(fabs(tachy_keypoints_angle(bins) * 180 / M_PI - (3. * at - 97.5)) < 1e-3);
    }
    for (int i = 0; i < TACHY_ANGLE_BINS; i++)
        bins[i] = 0;
    CHECK(fabs(tachy_keypoints_angle(bins)) < 1e-5);
}

static void make(struct tachy_keypoints *k, float pitch, float yaw, float roll)
{
    tachy_keypoints_turn(k, pitch, yaw, roll);
    k->scale = 1.2f;
    for (int c = 0; c < 3; c++)
        k->shift[c] = 0.1f * (float)(c + 1);
    for (int i = 0; i < TACHY_KEYPOINTS; i++)
        for (int c = 0; c < 3; c++) {
            k->canonical[i][c] = any(-1, 1);
            k->expression[i][c] = any(-0.1f, 0.1f);
        }
}

// By the products of the paper's three matrices in their order, one point at a time.
static void a_head_is_turned(void)
{
    struct tachy_keypoints k;
    const double p = 0.3, y = -0.5, r = 0.2;
    float at[TACHY_KEYPOINTS][3];
    make(&k, (float)p, (float)y, (float)r);
    tachy_keypoints_place(&k, at);
    for (int i = 0; i < TACHY_KEYPOINTS; i++) {
        double v[3] = {k.canonical[i][0], k.canonical[i][1], k.canonical[i][2]};
        double a[3] = {v[0], cos(p) * v[1] - sin(p) * v[2], sin(p) * v[1] + cos(p) * v[2]};
        double b[3] = {cos(y) * a[0] + sin(y) * a[2], a[1], -sin(y) * a[0] + cos(y) * a[2]};
        double c[3] = {cos(r) * b[0] - sin(r) * b[1], sin(r) * b[0] + cos(r) * b[1], b[2]};
        for (int n = 0; n < 3; n++)
            CHECK(fabs(at[i][n] - (1.2 * (c[n] + k.expression[i][n]) + (n < 2 ? k.shift[n] : 0))) < 1e-5);
    }
}

static double distance(float a[TACHY_KEYPOINTS][3], float b[TACHY_KEYPOINTS][3])
{
    double most = 0;
    for (int i = 0; i < TACHY_KEYPOINTS; i++)
        for (int c = 0; c < 3; c++)
            most = fmax(most, fabs((double)a[i][c] - b[i][c]));
    return most;
}

static void a_driver_at_rest_leaves_the_portrait(void)
{
    struct tachy_keypoints portrait, rest, now;
    float own[TACHY_KEYPOINTS][3], at[TACHY_KEYPOINTS][3];
    make(&portrait, 0.1f, 0.2f, 0);
    make(&rest, -0.2f, 0.3f, 0.1f);
    make(&now, 0.3f, -0.4f, 0.2f);
    memcpy(now.canonical, rest.canonical, sizeof(now.canonical)); // one driver has one face
    tachy_keypoints_place(&portrait, own);
    tachy_keypoints_drive(&portrait, &rest, &rest, &(struct tachy_face_strength){.pose = 1, .expression = 1}, at);
    CHECK(distance(own, at) < 1e-5);
    tachy_keypoints_drive(&portrait, &rest, &now, &(struct tachy_face_strength){0}, at);
    CHECK(distance(own, at) < 1e-5);
    // Its own driver: the result is the driver's.
    tachy_keypoints_drive(&rest, &rest, &now, &(struct tachy_face_strength){.pose = 1, .expression = 1}, at);
    tachy_keypoints_place(&now, own);
    CHECK(distance(own, at) < 1e-5);
}

// Absolute: the driver's head and expression on the portrait's own points, whatever the driver's rest was.
static void absolute_motion_is_the_drivers(void)
{
    struct tachy_keypoints portrait, rest, now, wanted;
    float own[TACHY_KEYPOINTS][3], at[TACHY_KEYPOINTS][3];
    make(&portrait, 0.1f, 0.2f, 0);
    make(&rest, -0.2f, 0.3f, 0.1f);
    make(&now, 0.3f, -0.4f, 0.2f);
    wanted = portrait;
    memcpy(wanted.turn, now.turn, sizeof(wanted.turn));
    memcpy(wanted.expression, now.expression, sizeof(wanted.expression));
    tachy_keypoints_place(&wanted, own);
    for (int i = 0; i < 2; i++) {
        tachy_keypoints_drive(&portrait, i ? &rest : &now, &now, &(struct tachy_face_strength){.pose = 1, .expression = 1, .absolute = true}, at);
        CHECK(distance(own, at) < 1e-5);
    }
    tachy_keypoints_place(&portrait, own);
    tachy_keypoints_drive(&portrait, &now, &now, &(struct tachy_face_strength){.absolute = true}, at);
    CHECK(distance(own, at) < 1e-5);
}

// An upright face from (40, 30) to (60, 50), which is then turned with its picture.
static void face(tachy_face_points p, double angle)
{
    for (int i = 0; i < TACHY_FACE_POINTS; i++) {
        double x = i == 33 ? 44 : i == 263 ? 56 : 40 + 20 * (i % 7) / 6., y = i == 33 || i == 263 ? 38 : 30 + 20 * (i % 5) / 4.;
        p[i][0] = (float)(cos(angle) * x - sin(angle) * y);
        p[i][1] = (float)(sin(angle) * x + cos(angle) * y);
        p[i][2] = 0;
    }
}

static void a_crop_is_upright(void)
{
    for (double angle = -3; angle < 3.2; angle += 0.7) {
        tachy_face_points p;
        struct tachy_face_crop c;
        face(p, angle);
        CHECK_INT(tachy_face_crop(&c, p, 2, 0.1, 64), TACHY_OK);
        const double corner[2] = {50 - 20, 40 - 4 - 20}; // of a square of 40 around (50, 36)
        for (int i = 0; i < 4; i++) {
            double u = 64. * (i & 1), v = 64. * (i >> 1), x = corner[0] + u * 40 / 64, y = corner[1] + v * 40 / 64;
            CHECK(fabs(c.affine[0] * u + c.affine[1] * v + c.affine[2] - (cos(angle) * x - sin(angle) * y)) < 1e-3);
            CHECK(fabs(c.affine[3] * u + c.affine[4] * v + c.affine[5] - (sin(angle) * x + cos(angle) * y)) < 1e-3);
        }
    }
    tachy_face_points none = {{0}};
    struct tachy_face_crop c;
    CHECK_INT(tachy_face_crop(&c, none, 2, 0, 64), TACHY_ERR_INVAL);
}

enum { W = 91, H = 77, N = 32 };

static double sample(const float *v, int x, int y) { return v[TACHY_CLAMP(y, 0, N - 1) * N + TACHY_CLAMP(x, 0, N - 1)]; }

// In double precision, pixel by pixel, from the definition.
static double pasted(const struct tachy_face_paste *p, const float *rgb, double was, double x, double y)
{
    const double *a = p->crop.affine, det = a[0] * a[4] - a[1] * a[3];
    double u = (a[4] * (x - a[2]) - a[1] * (y - a[5])) / det, v = (a[0] * (y - a[5]) - a[3] * (x - a[2])) / det, value = p->matrix[3];
    double edge = fmin(fmin(u, N - u), fmin(v, N - v)) / N / p->feather, share = edge <= 0 ? 0 : edge >= 1 ? 1 : edge * edge * (3 - 2 * edge);
    int x0 = (int)floor(u - 0.5), y0 = (int)floor(v - 0.5);
    double fx = u - 0.5 - x0, fy = v - 0.5 - y0;
    for (int c = 0; c < 3; c++) {
        const float *s = rgb + c * N * N;
        double top = sample(s, x0, y0) * (1 - fx) + sample(s, x0 + 1, y0) * fx;
        double low = sample(s, x0, y0 + 1) * (1 - fx) + sample(s, x0 + 1, y0 + 1) * fx;
        value += p->matrix[c] * fmin(fmax(top * (1 - fy) + low * fy, 0), 1);
    }
    return was + share * (value - was);
}

static void paste_one(int plane)
{
    static float rgb[3 * N * N];
    static uint8_t was[W * H], is[W * H];
    int width = plane ? (W + 1) / 2 : W, height = plane ? (H + 1) / 2 : H, changed = 0;
    for (int i = 0; i < 3 * N * N; i++)
        rgb[i] = any(-0.1f, 1.1f);
    for (int i = 0; i < W * H; i++)
        was[i] = is[i] = (uint8_t)any(0, 255);
    struct tachy_face_paste p = {.matrix = {0.2f * 219, 0.7f * 219, 0.1f * 219, 16}, .feather = 0.2f};
    tachy_face_points points;
    face(points, 0.3);
    CHECK_INT(tachy_face_crop(&p.crop, points, 3, 0, N), TACHY_OK); // beyond the picture's edge
    struct tachy_face_plane to = {.dst = is, .stride_dst = width, .width = width, .height = height, .scale_x = plane ? 0.5f : 1,
                                  .scale_y = plane ? 0.5f : 1};
    tachy_face_paste(&p, rgb, &to);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            int i = y * width + x;
            double wanted = pasted(&p, rgb, was[i], (x + 0.5) / to.scale_x, (y + 0.5) / to.scale_y);
            CHECK(fabs(is[i] - fmin(fmax(wanted, 0), 255)) <= 0.51); // of rounding
            changed += is[i] != was[i];
        }
    CHECK(changed > width * height / 8 && changed < width * height * 7 / 8);
}

static void a_picture_is_pasted(void)
{
    paste_one(0);
    paste_one(1);
}

TEST_MAIN(TEST_CASE(angles_are_means), TEST_CASE(a_head_is_turned), TEST_CASE(a_driver_at_rest_leaves_the_portrait),
          TEST_CASE(absolute_motion_is_the_drivers), TEST_CASE(a_crop_is_upright),
          TEST_CASE(a_picture_is_pasted))
