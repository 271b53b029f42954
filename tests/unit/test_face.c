#include "test.h"

#include "animate/face.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t seed = 1;
static float any(float low, float high)
{
    seed = seed * 1664525u + 1013904223u;
    return low + (high - low) * (float)(seed >> 8) / 16777216.f;
}

// Points of no real face: what is checked holds for any.
static void scatter(tachy_face_points p)
{
    for (int i = 0; i < TACHY_FACE_POINTS; i++) {
        p[i][0] = any(60, 140);
        p[i][1] = any(50, 150);
        p[i][2] = any(-30, 30);
    }
}

// Turned about the upright axis, scaled and shifted.
static void turn(const tachy_face_points p, float angle, float scale, float x, tachy_face_points to)
{
    for (int i = 0; i < TACHY_FACE_POINTS; i++) {
        to[i][0] = scale * (cosf(angle) * p[i][0] + sinf(angle) * p[i][2]) + x;
        to[i][1] = scale * p[i][1];
        to[i][2] = scale * (cosf(angle) * p[i][2] - sinf(angle) * p[i][0]);
    }
}

static void a_head_pose_is_found(void)
{
    tachy_face_points a, b;
    struct tachy_face_fit fit;
    scatter(a);
    for (float angle = -0.6f; angle < 0.7f; angle += 0.3f) {
        turn(a, angle, 1.3f, 20, b);
        tachy_face_fit(&fit, a, b);
        CHECK(fabs(fit.scale - 1.3) < 1e-4);
        CHECK(fabs(fit.turn[0][2] - sin(angle)) < 1e-4);
        CHECK(fabs(fit.turn[1][1] - 1) < 1e-4);
    }
}

static double sign_of(const struct tachy_named *v, const char *name)
{
    for (int i = 0; i < TACHY_FACE_SIGNS; i++)
        if (!strcmp(v[i].name, name))
            return v[i].value;
    CHECK(!"the name is told");
    return 0;
}

// Points that move in the head's own frame, whatever the head does.
static void signs_follow_the_face_alone(void)
{
    static const int lids[2][6] = {{386, 374, 385, 380, 387, 373}, {159, 145, 158, 153, 160, 144}};
    struct tachy_named first[TACHY_FACE_SIGNS], v[TACHY_FACE_SIGNS];
    tachy_face_points rest, now;
    scatter(rest);
    for (int i = 0; i < 2; i++) {
        memcpy(rest[i ? 33 : 263], (const float[3]){i ? 70 : 130, 80, 0}, sizeof(rest[0]));
        memcpy(rest[i ? 133 : 362], (const float[3]){i ? 90 : 110, 80, 0}, sizeof(rest[0]));
        for (int k = 0; k < 6; k++) // as far apart as half the eye is long
            memcpy(rest[lids[i][k]], (const float[3]){i ? 80 : 120, k % 2 ? 85 : 75, 0}, sizeof(rest[0]));
    }
    tachy_face_signs(first, rest, 200, 200);
    CHECK(sign_of(first, "eyeBlinkLeft") == 0 && sign_of(first, "eyeWideRight") > 0.9);
    for (int k = 0; k < 6; k++)
        rest[lids[0][k]][1] = 80; // the left one closes
    turn(rest, 0.4f, 1.5f, 10, now);
    tachy_face_signs(v, now, 200, 200);
    CHECK(sign_of(v, "eyeBlinkLeft") == 1 && sign_of(v, "eyeBlinkRight") == 0);
    CHECK(fabs(sign_of(v, "z") * 1.5 - sign_of(first, "z")) < 0.01 * sign_of(first, "z"));
    for (int i = 6; i < TACHY_FACE_SIGNS; i++)
        CHECK(v[i].value >= 0 && v[i].value <= 1 && (!strcmp(v[i].name, "eyeBlinkLeft") || !strcmp(v[i].name, "eyeWideLeft") ||
                                                     fabs(v[i].value - first[i].value) < 1e-3));
}

static void motion_is_told_apart(void)
{
    static struct tachy_face face;
    static struct tachy_face_motion m;
    tachy_face_points rest, now;
    const struct tachy_face_strength all = {.pose = 1, .expression = 1}, no_pose = {.expression = 1};
    scatter(rest);
    CHECK_INT(tachy_face_open(&face, rest), TACHY_OK);
    turn(rest, 0.3f, 1, 0, now);
    tachy_face_drive(&face, rest, now, &all, &m);
    CHECK(fabsf(m.turn[1] - 0.3f) < 1e-3f && fabsf(m.turn[0]) < 1e-3f && fabsf(m.grow) < 1e-3f);
    for (int i = 0; i < TACHY_FACE_POINTS; i++)
        CHECK(fabsf(m.offset[i][0]) < 0.01f && fabsf(m.offset[i][1]) < 0.01f);
    tachy_face_drive(&face, now, now, &all, &m);
    CHECK(fabsf(m.turn[1]) < 1e-3f);
    tachy_face_drive(&face, now, now, &(struct tachy_face_strength){.pose = 1, .expression = 1, .absolute = true}, &m); // however it turned to it
    CHECK(fabsf(m.turn[1] - 0.3f) < 1e-3f && fabsf(m.turn[0]) < 1e-3f);
    now[17][1] += 5; // below the lips
    tachy_face_drive(&face, rest, now, &no_pose, &m);
    CHECK(m.turn[1] == 0 && m.offset[17][1] > 2);
    turn(rest, 1.2f, 3, 500, now);
    tachy_face_drive(&face, rest, now, &all, &m);
    CHECK(fabsf(m.turn[1]) < 0.62f && m.grow < 0.36f && fabsf(m.shift[0]) <= 0.61f * face.radius);
    tachy_face_ease(&m, 1);
    CHECK(m.turn[1] == 0 && m.grow == 0 && m.shift[0] == 0 && m.offset[17][1] == 0);
}

static void a_face_without_extent_is_none(void)
{
    static struct tachy_face face;
    tachy_face_points p;
    memset(p, 0, sizeof(p));
    CHECK_INT(tachy_face_open(&face, p), TACHY_ERR_INVAL);
}

enum { W = 200, H = 200 };

static void at_rest_the_picture_stays(void)
{
    static struct tachy_face face;
    static struct tachy_face_motion m;
    static struct tachy_face_placed placed;
    static uint8_t from[W * H], to[W * H], mouth[TACHY_MOUTH_SIZE * TACHY_MOUTH_SIZE];
    tachy_face_points p;
    scatter(p);
    p[13][1] = 80;
    p[14][1] = 180; // open: the picture's own mouth is used
    CHECK_INT(tachy_face_open(&face, p), TACHY_OK);
    for (int i = 0; i < W * H; i++)
        from[i] = (uint8_t)(i % W + i / W / 4);
    memset(to, 255, sizeof(to));
    tachy_face_place(&face, &m, &placed);
    const struct tachy_face_plane plane = {from, to, W, W, W, H, 1, 1};
    tachy_face_paint(&face, &placed, &plane, mouth);
    int painted = 0;
    for (int i = 0; i < W * H; i++) {
        painted += to[i] != 255;
        CHECK(to[i] == 255 || abs(to[i] - from[i]) <= 1);
    }
    CHECK(painted > 1000);
}

// A mouth that opens wider shows the inside of the mouth, below teeth as long as the picture's.
static void teeth_keep_their_length(void)
{
    static struct tachy_face face;
    static struct tachy_face_motion m;
    static struct tachy_face_placed placed;
    tachy_face_points p;
    scatter(p);
    memcpy(p[13], (const float[3]){100, 100, 0}, sizeof(p[0]));
    memcpy(p[14], (const float[3]){100, 112, 0}, sizeof(p[0]));
    memcpy(p[78], (const float[3]){80, 106, 0}, sizeof(p[0]));
    memcpy(p[308], (const float[3]){120, 106, 0}, sizeof(p[0]));
    CHECK_INT(tachy_face_open(&face, p), TACHY_OK);
    CHECK(face.mouth_open && face.eyes - face.teeth == face.teeth - face.mouth && face.teeth > face.mouth);
    for (int wide = -6; wide <= 20; wide += 13) {
        m.offset[14][1] = (float)wide;
        tachy_face_place(&face, &m, &placed);
        const int16_t *t = NULL;
        for (int i = face.teeth; i < face.eyes && !t; i++)
            for (int k = 0; k < 3; k++)
                t = fabsf(placed.corner[face.triangle[i].corner[k]].u - 100) < 0.01f &&
                            fabsf(placed.corner[face.triangle[i].corner[k]].y - TACHY_MIN(112, 112 + wide)) < 0.01f
                        ? &face.triangle[i].corner[k] : t;
        CHECK(t && fabsf(placed.corner[*t].v - (float)TACHY_MIN(112, 112 + wide)) < 0.01f);
    }
}

// Irises go with the driver's, the lids stay; a driver whose irises are not known leaves them between the corners of the eye.
static void irises_follow_the_gaze(void)
{
    static struct tachy_face face;
    static struct tachy_face_motion m;
    static struct tachy_face_placed placed;
    const struct tachy_face_strength all = {.pose = 1, .expression = 1};
    tachy_face_points rest, now;
    scatter(rest);
    for (int e = 0; e < 2; e++) {
        float x = e ? 120 : 80;
        memcpy(rest[e ? 362 : 33], (const float[3]){x - 15, 90, 0}, sizeof(rest[0]));
        memcpy(rest[e ? 263 : 133], (const float[3]){x + 15, 90, 0}, sizeof(rest[0]));
        for (int i = 0; i < 5; i++)
            memcpy(rest[TACHY_FACE_SKIN + 5 * e + i], (const float[3]){x + (float[]){0, 6, 0, -6, 0}[i], 90 + (float[]){0, 0, -6, 0, 6}[i], 0},
                   sizeof(rest[0]));
    }
    CHECK_INT(tachy_face_open(&face, rest), TACHY_OK);
    CHECK(face.irises);
    memcpy(now, rest, sizeof(now));
    for (int i = TACHY_FACE_SKIN; i < TACHY_FACE_POINTS; i++)
        now[i][0] += 4;
    tachy_face_drive(&face, rest, now, &all, &m);
    tachy_face_place(&face, &m, &placed);
    for (int e = 0; e < 2; e++) {
        int n = TACHY_FACE_SKIN + 5 * e;
        CHECK(fabsf(placed.corner[n].x - rest[n][0] - 4) < 0.05f && placed.corner[n].u == rest[n][0]);
        CHECK(fabsf(placed.corner[e ? 362 : 33].x - rest[e ? 362 : 33][0]) < 0.05f);
    }
    for (int i = TACHY_FACE_SKIN; i < TACHY_FACE_POINTS; i++)
        now[i][0] += 40;
    tachy_face_drive(&face, rest, now, &all, &m);
    CHECK(fabsf(m.offset[TACHY_FACE_SKIN][0] - 6) < 0.05f); // half of an iris's width
    memset(now[TACHY_FACE_SKIN], 0, 10 * sizeof(now[0]));
    tachy_face_drive(&face, rest, now, &all, &m);
    CHECK(fabsf(m.offset[TACHY_FACE_SKIN][0]) < 0.05f);
    memset(rest[TACHY_FACE_SKIN], 0, 10 * sizeof(now[0]));
    CHECK_INT(tachy_face_open(&face, rest), TACHY_OK);
    CHECK(!face.irises);
}

TEST_MAIN(TEST_CASE(teeth_keep_their_length), TEST_CASE(irises_follow_the_gaze), TEST_CASE(a_head_pose_is_found), TEST_CASE(signs_follow_the_face_alone), TEST_CASE(motion_is_told_apart), TEST_CASE(a_face_without_extent_is_none),
          TEST_CASE(at_rest_the_picture_stays))
