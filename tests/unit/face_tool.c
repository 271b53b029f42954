// face_tool POINTS < portrait.yuv > nine.yuv: a portrait in nine poses of made motion, for docs/animate.md.
// face_tool POINTS DEGREES < portrait.yuv > one.yuv: turned by so much, and zero wherever the mesh covers no pixel.
// POINTS is text: width and height, then x y z of each point. Pictures are yuv420p of even extents.
#include "animate/face.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Turns in radians about x and y, lean; shares of an opening of the mouth, of a closing of the lids, of a lift of the brows; gaze.
struct pose {
    float nod, turn, lean, mouth, lids, brows, gaze;
};
static const struct pose poses[9] = {{0}, {.turn = -0.4f}, {.turn = 0.4f}, {.nod = -0.3f}, {.nod = 0.3f, .lean = 0.2f}, {.mouth = 0.12f},
              {.lids = 0.65f}, {.brows = 0.06f, .mouth = 0.05f}, {.gaze = 0.12f, .turn = 0.1f}};

static void move_by(tachy_face_points p, const int16_t *which, int n, float x, float y)
{
    for (int i = 0; i < n; i++) {
        p[which[i]][0] += x;
        p[which[i]][1] += y;
    }
}

// The driver: the portrait's own points, moved.
static void move(tachy_face_points p, const struct pose *pose, float eye)
{
    static const int16_t chin[] = {14, 87, 178, 88, 95, 317, 402, 318, 324, 15, 16, 17, 84, 181, 91, 314, 405, 321, 18, 200, 199, 175, 152,
                                   148, 377, 176, 400, 83, 313, 182, 406, 85, 86, 179, 180, 315, 316, 403, 404};
    static const int16_t brow[] = {70, 63, 105, 66, 107, 46, 53, 52, 65, 55, 300, 293, 334, 296, 336, 276, 283, 282, 295, 285};
    static const int16_t lids[2][7] = {{246, 161, 160, 159, 158, 157, 173}, {398, 384, 385, 386, 387, 388, 466}};
    static const int16_t under[2][7] = {{7, 163, 144, 145, 153, 154, 155}, {382, 381, 380, 374, 373, 390, 249}};
    static const int16_t irises[] = {468, 469, 470, 471, 472, 473, 474, 475, 476, 477};
    move_by(p, chin, (int)TACHY_ARRAY_SIZE(chin), 0, pose->mouth * eye);
    move_by(p, brow, (int)TACHY_ARRAY_SIZE(brow), 0, -pose->brows * eye);
    move_by(p, irises, (int)TACHY_ARRAY_SIZE(irises), pose->gaze * eye, 0);
    for (int e = 0; e < 2; e++)
        for (int i = 0; i < 7; i++)
            p[lids[e][i]][1] += pose->lids * (p[under[e][i]][1] - p[lids[e][i]][1]);
    float centre[3] = {p[1][0], p[1][1], p[1][2] + 0.8f * eye}, cn = cosf(pose->nod), sn = sinf(pose->nod);
    float ct = cosf(pose->turn), st = sinf(pose->turn), cl = cosf(pose->lean), sl = sinf(pose->lean);
    for (int i = 0; i < TACHY_FACE_POINTS; i++) {
        float x = p[i][0] - centre[0], y = p[i][1] - centre[1], z = p[i][2] - centre[2];
        float y1 = cn * y - sn * z, z1 = sn * y + cn * z, x1 = ct * x + st * z1;
        p[i][0] = cl * x1 - sl * y1 + centre[0];
        p[i][1] = sl * x1 + cl * y1 + centre[1];
        p[i][2] = ct * z1 - st * x + centre[2];
    }
}

int main(int argc, char **argv)
{
    static struct tachy_face face;
    static struct tachy_face_motion motion;
    static struct tachy_face_placed placed;
    static uint8_t mouth[3][TACHY_MOUTH_SIZE * TACHY_MOUTH_SIZE];
    tachy_face_points rest = {{0}}, now;
    int w = 0, h = 0;
    bool one = argc > 2;
    struct pose turned = {.turn = one ? (float)(strtod(argv[2], NULL) * 3.14159265 / 180) : 0};
    FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;
    bool read = f && fscanf(f, "%d %d", &w, &h) == 2 && w > 0 && h > 0 && w <= 8192 && h <= 8192;
    for (int i = 0; read && i < TACHY_FACE_POINTS; i++)
        read = fscanf(f, "%f %f %f", &rest[i][0], &rest[i][1], &rest[i][2]) == 3;
    if (f)
        fclose(f);
    size_t size = (size_t)w * (size_t)h * 3 / 2;
    uint8_t *in = malloc(size + 1), *out = malloc(size + 1);
    if (!read || !in || !out || fread(in, 1, size, stdin) != size || tachy_face_open(&face, rest) < 0)
        return 1;
    tachy_face_mouth(mouth, (const int[3]){170, 115, 145});
    for (int k = 0; k < (one ? 1 : 9); k++) {
        memcpy(now, rest, sizeof(now));
        move(now, one ? &turned : &poses[k], hypotf(rest[33][0] - rest[263][0], rest[33][1] - rest[263][1]));
        tachy_face_drive(&face, rest, now, &(struct tachy_face_strength){.pose = 1, .expression = 1}, &motion);
        tachy_face_place(&face, &motion, &placed);
        if (one)
            memset(out, 0, size);
        else
            memcpy(out, in, size);
        size_t at = 0;
        for (int i = 0; i < 3; i++) {
            int pw = i ? w / 2 : w, ph = i ? h / 2 : h;
            struct tachy_face_plane plane = {in + at, out + at, pw, pw, pw, ph, i ? 0.5f : 1, i ? 0.5f : 1};
            tachy_face_paint(&face, &placed, &plane, mouth[i]);
            at += (size_t)pw * (size_t)ph;
        }
        fwrite(out, 1, size, stdout);
    }
    free(in);
    free(out);
    return 0;
}
