#include "flow/motion.h"
#include "stage/pair.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

// Flows that are written down, and what is found in them.

enum { W = 320, H = 180 };

struct scene {
    float *u, *v;
    void *scratch;
    struct tachy_motion found;
};

static struct scene scene_of(double x, double y, double zoom, double degrees)
{
    size_t plane = W * H * sizeof(float);
    struct scene s = {.u = malloc(plane), .v = malloc(plane), .scratch = malloc(tachy_motion_scratch(W, H))};
    double c = zoom * cos(degrees * M_PI / 180), n = zoom * sin(degrees * M_PI / 180);
    for (int j = 0; j < H; j++)
        for (int i = 0; i < W; i++) {
            double px = i - 0.5 * (W - 1), py = j - 0.5 * (H - 1);
            s.u[j * W + i] = (float)(c * px - n * py + x - px);
            s.v[j * W + i] = (float)(n * px + c * py + y - py);
        }
    return s;
}

static void add(struct scene *s, int x0, int y0, int x1, int y1, float u, float v)
{
    for (int j = y0; j < y1; j++)
        for (int i = x0; i < x1; i++) {
            s->u[j * W + i] += u;
            s->v[j * W + i] += v;
        }
}

static void find(struct scene *s)
{
    tachy_motion_take(s->u, W, H, s->u);
    tachy_motion_take(s->v, W, H, s->v);
    tachy_motion_of(&s->found, s->u, s->v, W, H, s->scratch);
}

static void scene_free(struct scene *s) { free(s->u), free(s->v), free(s->scratch); }

TEST(the_camera_is_found_behind_what_moves)
{
    static const struct {
        double x, y, zoom, degrees;
        enum tachy_shot shot;
    } cases[] = {
        {0, 0, 1, 0, TACHY_SHOT_STATIC}, {6, 0.5, 1, 0, TACHY_SHOT_PAN},   {0.2, -4, 1, 0, TACHY_SHOT_TILT},
        {0, 0, 1.03, 0, TACHY_SHOT_ZOOM}, {0, 0, 1, -1.5, TACHY_SHOT_ROLL}, {4, 4, 1.02, 0.5, TACHY_SHOT_MIXED},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(cases); i++) {
        struct scene s = scene_of(cases[i].x, cases[i].y, cases[i].zoom, cases[i].degrees);
        add(&s, 40, 24, 160, 144, 9, -7); // a third of the picture
        find(&s);
        CHECK(fabs(s.found.camera.x - cases[i].x) < 0.01 && fabs(s.found.camera.y - cases[i].y) < 0.01);
        CHECK(fabs(s.found.camera.zoom - cases[i].zoom) < 1e-4);
        CHECK(fabs(s.found.camera.roll - cases[i].degrees) < 0.01);
        CHECK_INT(s.found.shot, cases[i].shot);
        scene_free(&s);
    }
}

TEST(things_that_move_are_told_apart)
{
    struct scene s = scene_of(3, 0, 1, 0);
    add(&s, 16, 16, 64, 80, 5, 0);
    add(&s, 200, 96, 232, 112, -4, 2);
    add(&s, 120, 40, 128, 48, 6, 0); // one cell: too small
    find(&s);
    CHECK_INT(s.found.nb, 2);
    const struct tachy_moving *a = &s.found.thing[0], *b = &s.found.thing[1];
    CHECK(a->x0 == 16 && a->y0 == 16 && a->x1 == 64 && a->y1 == 80 && a->cells == 48);
    CHECK(b->x0 == 200 && b->y0 == 96 && b->x1 == 232 && b->y1 == 112);
    CHECK(fabs(a->u - 5) < 0.01 && fabs(a->v) < 0.01 && fabs(b->u + 4) < 0.01 && fabs(b->v - 2) < 0.01);
    CHECK(fabs(s.found.moving - (48 * 64 + 32 * 16 + 64) / (double)(W * H)) < 1e-9);
    scene_free(&s);
}

// A fourth of a vector along each axis, and cells of 16 pixels.
TEST(large_pictures_have_larger_cells)
{
    enum { WIDE = 1921, HIGH = 1079 };
    struct tachy_motion m;
    float *u = malloc(sizeof(float) * WIDE * HIGH), *v = malloc(sizeof(float) * WIDE * HIGH);
    void *scratch = malloc(tachy_motion_scratch(WIDE, HIGH));
    for (int y = 0; y < HIGH; y++)
        for (int x = 0; x < WIDE; x++) {
            bool thing = x >= 640 && x < 800 && y >= 480 && y < 560;
            u[y * WIDE + x] = 1.01f * (float)x - (float)x + (thing ? 6.f : 0);
            v[y * WIDE + x] = 0.01f * (float)y - 2;
        }
    tachy_motion_take(u, WIDE, HIGH, u);
    tachy_motion_take(v, WIDE, HIGH, v);
    tachy_motion_of(&m, u, v, WIDE, HIGH, scratch);
    CHECK_INT(m.nb, 1);
    CHECK(m.thing[0].x0 == 640 && m.thing[0].x1 == 800 && m.thing[0].y0 == 480 && m.thing[0].y1 == 560 && m.thing[0].cells == 50);
    CHECK(fabs(m.thing[0].u - 6) < 0.02 && fabs(m.camera.zoom - 1.01) < 1e-4);
    CHECK(fabs(m.moving - 40.0 * 20 / (481.0 * 270)) < 1e-9);
    free(u), free(v), free(scratch);
}

TEST(figures_of_all_vectors)
{
    struct scene s = scene_of(0, 3, 1, 0);
    find(&s);
    CHECK(fabs(s.found.mean - 3) < 1e-5 && fabs(s.found.p95 - 3) < 0.07);
    CHECK(fabs(s.found.direction - 90) < 1e-3 && fabs(s.found.coherence - 1) < 1e-5);
    CHECK(s.found.still == 0);
    scene_free(&s);
    s = scene_of(0, 0, 1, 0);
    add(&s, 0, 0, W, H / 2, 2, 0);
    add(&s, 0, H / 2, W, H, -2, 0);
    find(&s);
    CHECK(s.found.coherence < 1e-5);
    scene_free(&s);
}

TEST(noise_is_no_camera)
{
    struct scene s = scene_of(0, 0, 1, 0);
    srand(5);
    for (int i = 0; i < W * H; i++) {
        s.u[i] = (float)(rand() % 4001 - 2000) / 50;
        s.v[i] = (float)(rand() % 4001 - 2000) / 50;
    }
    find(&s);
    CHECK(s.found.camera.agree < 0.25 && s.found.camera.x == 0 && s.found.camera.zoom == 1);
    scene_free(&s);
}

TEST(a_pixel_is_a_picture)
{
    struct tachy_motion m;
    float u = 1, v = -2;
    void *scratch = malloc(tachy_motion_scratch(1, 1));
    tachy_motion_of(&m, &u, &v, 1, 1, scratch);
    CHECK(fabs(m.mean - sqrt(5)) < 1e-6);
    CHECK(isfinite(m.camera.x) && isfinite(m.camera.zoom));
    free(scratch);
}

// The frame before a cut goes from one process to the next.
TEST(the_last_picture_is_saved_and_loaded)
{
    const struct tachy_stage_ops *ops = &tachy_stage_pair;
    struct {
        int32_t size[2];
        uint8_t pixels[6];
    } bytes = {{3, 2}, {1, 2, 3, 4, 5, 6}};
    size_t whole = sizeof(bytes.size) + sizeof(bytes.pixels), size;
    void *state, *data;
    CHECK_INT(ops->state_open(NULL, &state), TACHY_OK);
    CHECK_INT(ops->state_save(state, &data, &size), TACHY_OK); // nothing yet
    CHECK_INT(ops->state_load(state, data, size), TACHY_OK);
    free(data);
    CHECK_INT(ops->state_load(state, &bytes, whole), TACHY_OK);
    CHECK_INT(ops->state_save(state, &data, &size), TACHY_OK);
    CHECK(size == whole && !memcmp(data, &bytes, whole));
    free(data);
    CHECK_INT(ops->state_load(state, &bytes, whole - 1), TACHY_ERR_FORMAT);
    CHECK_INT(ops->state_load(state, &bytes, 4), TACHY_ERR_FORMAT);
    bytes.size[0] = -3;
    CHECK_INT(ops->state_load(state, &bytes, whole), TACHY_ERR_FORMAT);
    ops->state_close(state);
}

TEST_MAIN(TEST_CASE(the_camera_is_found_behind_what_moves), TEST_CASE(things_that_move_are_told_apart),
          TEST_CASE(large_pictures_have_larger_cells), TEST_CASE(figures_of_all_vectors), TEST_CASE(noise_is_no_camera), TEST_CASE(a_pixel_is_a_picture),
          TEST_CASE(the_last_picture_is_saved_and_loaded))
