#include "flow/flow.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

// A made-up wall with detail at every scale, seen at a place between its pixels.
static float wall(float x, float y)
{
    return 128 + 40 * sinf(0.11f * x + 0.05f * y) + 30 * sinf(0.17f * y - 0.03f * x) + 20 * sinf(0.31f * x) * cosf(0.27f * y) +
           15 * sinf(0.6f * x + 1.1f * cosf(0.4f * y));
}

static void draw(uint8_t *p, int w, int h, float u, float v, float zoom)
{
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            p[y * w + x] = (uint8_t)(wall((float)x * zoom + u, (float)y * zoom + v) + 0.5f);
}

struct pair {
    int w, h;
    uint8_t *here, *there;
    float *u, *v;
    tachy_flow *flow;
};

static struct pair pair_of(int w, int h, enum tachy_flow_detail detail)
{
    size_t n = (size_t)w * (size_t)h;
    struct pair p = {w, h, malloc(n), malloc(n), malloc(n * sizeof(float)), malloc(n * sizeof(float)), NULL};
    CHECK_INT(tachy_flow_open(&p.flow, w, h, detail), TACHY_OK);
    return p;
}

static void pair_free(struct pair *p)
{
    tachy_flow_close(&p->flow);
    free(p->here), free(p->there), free(p->u), free(p->v);
}

// Mean distance between what was found and (u, v) + (x, y) * grow, away from the edges, where what left is unknown.
static float error_of(const struct pair *p, float u, float v, float grow)
{
    double sum = 0;
    int n = 0, margin = 16;
    for (int y = margin; y < p->h - margin; y++)
        for (int x = margin; x < p->w - margin; x++, n++)
            sum += hypotf(p->u[y * p->w + x] - u - (float)x * grow, p->v[y * p->w + x] - v - (float)y * grow);
    return (float)(sum / n);
}

TEST(a_shift_is_found)
{
    static const struct {
        int w, h;
        float u, v, error, fine; // fine: TACHY_FLOW_PICTURE's
    } cases[] = {
        {256, 256, 0, 0, 0.01f, 0.01f}, {256, 256, 3.5f, -2.25f, 0.25f, 0.05f}, {256, 144, -11, 6, 0.25f, 0.05f},
        {64, 64, 1.25f, 0.5f, 0.1f, 0.05f}, {144, 256, 17, 9, 0.25f, 0.05f}, {257, 143, 2.5f, 1.75f, 0.25f, 0.05f},
    };
    for (size_t i = 0; i < 2 * TACHY_ARRAY_SIZE(cases); i++) {
        bool fine = i % 2;
        size_t k = i / 2;
        struct pair p = pair_of(cases[k].w, cases[k].h, fine ? TACHY_FLOW_PICTURE : TACHY_FLOW_MASK);
        draw(p.here, p.w, p.h, 0, 0, 1);
        draw(p.there, p.w, p.h, -cases[k].u, -cases[k].v, 1); // what is at x here is at x + u there
        tachy_flow_run(p.flow, p.here, p.there, p.u, p.v);
        CHECK(error_of(&p, cases[k].u, cases[k].v, 0) <= (fine ? cases[k].fine : cases[k].error));
        pair_free(&p);
    }
}

TEST(a_zoom_is_found_and_brightness_does_not_matter)
{
    struct pair p = pair_of(256, 256, TACHY_FLOW_MASK);
    draw(p.here, p.w, p.h, 0, 0, 1);
    draw(p.there, p.w, p.h, 0, 0, 1 / 1.04f);
    for (int i = 0; i < p.w * p.h; i++)
        p.there[i] = (uint8_t)TACHY_CLAMP(p.there[i] + 12, 0, 255);
    tachy_flow_run(p.flow, p.here, p.there, p.u, p.v);
    CHECK(error_of(&p, 0, 0, 0.04f) <= 0.3f);
    pair_free(&p);
}

TEST(every_size_gives_numbers)
{
    static const int sizes[][2] = {{1, 1}, {7, 300}, {8, 8}, {300, 9}, {65, 1000}, {17, 33}};
    for (size_t i = 0; i < 2 * TACHY_ARRAY_SIZE(sizes); i++) {
        struct pair p = pair_of(sizes[i / 2][0], sizes[i / 2][1], i % 2 ? TACHY_FLOW_PICTURE : TACHY_FLOW_MASK);
        srand(3);
        for (int k = 0; k < p.w * p.h; k++) {
            p.here[k] = (uint8_t)rand();
            p.there[k] = (uint8_t)(rand() & 1 ? 255 : 0);
        }
        tachy_flow_run(p.flow, p.here, p.there, p.u, p.v);
        bool numbers = true;
        for (int k = 0; k < p.w * p.h; k++)
            numbers = numbers && isfinite(p.u[k]) && isfinite(p.v[k]);
        CHECK(numbers);
        pair_free(&p);
    }
}

TEST(sizes_that_are_none_are_refused)
{
    tachy_flow *f;
    CHECK_INT(tachy_flow_open(&f, 0, 8, TACHY_FLOW_MASK), TACHY_ERR_INVAL);
    CHECK_INT(tachy_flow_open(&f, 8, 65536, TACHY_FLOW_PICTURE), TACHY_ERR_INVAL);
    CHECK(!f);
    tachy_flow_close(&f);
}

// Each pixel's, computed alone, is what a plane of all has there.
TEST(part_of_a_plane_is_that_of_the_whole)
{
    static const int sizes[][3] = {{320, 180, 1}, {321, 181, 1}, {322, 179, 1}, {64, 33, 0}, {65, 9, 0}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(sizes); i++) {
        int w = sizes[i][0], h = sizes[i][1], finest = sizes[i][2], lw = w >> finest, lh = h >> finest, differ = 0;
        size_t n = (size_t)w * (size_t)h;
        float *level = malloc((size_t)lw * (size_t)lh * sizeof(float)), *row = malloc((size_t)w * sizeof(float));
        float *whole = malloc(n * sizeof(float)), *part = malloc(n * sizeof(float)), *at = part;
        for (int k = 0; k < lw * lh; k++)
            level[k] = (float)(rand() % 20001 - 10000) / 777;
        flow_stretch(level, finest, w, h, 1, row, whole);
        for (int every = 2; every <= 4; every += 2, at = part) {
            flow_stretch(level, finest, w, h, every, row, part);
            for (int y = 0; y < h; y += every)
                for (int x = 0; x < w; x += every)
                    differ += *at++ != whole[y * w + x];
        }
        CHECK_INT(differ, 0);
        free(level), free(row), free(whole), free(part);
    }
}

TEST_MAIN(TEST_CASE(a_shift_is_found), TEST_CASE(a_zoom_is_found_and_brightness_does_not_matter),
          TEST_CASE(every_size_gives_numbers), TEST_CASE(sizes_that_are_none_are_refused),
          TEST_CASE(part_of_a_plane_is_that_of_the_whole))
