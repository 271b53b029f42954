#include "composite_frames.h"

#include "postprocess/alpha.h"

#include <math.h>

// Masks over time, and against the edges of their picture.

TEST(guide_is_the_mean_of_the_region)
{
    static const enum tachy_pix formats[] = {TACHY_PIX_YUV420P, TACHY_PIX_YUV420P10, TACHY_PIX_P010,
                                             TACHY_PIX_RGB24};
    for (int n = 0; n < 60; n++) {
        int w = 1 + rnd(90), h = 1 + rnd(60), gw = 1 + rnd(40), gh = 1 + rnd(30);
        tachy_frame *f = noise(formats[n & 3], w, h);
        struct tachy_rect r = {rnd(w), rnd(h), 0, 0};
        r.w = 1 + rnd(w - r.x);
        r.h = 1 + rnd(h - r.y);
        uint8_t *g = malloc((size_t)gw * (size_t)gh);
        CHECK_INT(tachy_luma_guide(f, &r, g, gw, gw, gh), TACHY_OK);
        double worst = 0;
        for (int j = 0; j < gh; j++)
            for (int i = 0; i < gw; i++) {
                double x0 = (double)i * r.w / gw, x1 = (double)(i + 1) * r.w / gw, sum = 0;
                double y0 = (double)j * r.h / gh, y1 = (double)(j + 1) * r.h / gh;
                for (int y = 0; y < r.h; y++)
                    for (int x = 0; x < r.w; x++) {
                        double part = TACHY_MAX(TACHY_MIN(x + 1, x1) - TACHY_MAX(x, x0), 0.0) *
                                      TACHY_MAX(TACHY_MIN(y + 1, y1) - TACHY_MAX(y, y0), 0.0);
                        if (part <= 0)
                            continue;
                        int p[3];
                        for (int k = 0; k < 3; k++)
                            p[k] = get(f, 0, r.x + x, r.y + y, (n & 3) == 3 ? k : 0);
                        sum += part * ((n & 3) == 3 ? tachy_luma_rgb(p[0], p[1], p[2])
                                       : n & 3      ? p[0] / 4.0
                                                    : p[0]);
                    }
                worst = TACHY_MAX(
                    worst, fabs(g[j * gw + i] - TACHY_MIN(sum / ((x1 - x0) * (y1 - y0)), 255.0)));
            }
        CHECK(worst < 0.501);
        free(g);
        tachy_frame_unref(&f);
    }
    tachy_frame *wide =
        noise(TACHY_PIX_GRAY8, 5000, 3); // cells wider than what is summed at a time
    uint8_t two_cells[2];
    for (int w = 2040; w < 2052; w++)
        CHECK_INT(tachy_luma_guide(wide, &(struct tachy_rect){3, 0, w, 3}, two_cells, 2, 2, 1),
                  TACHY_OK);
    CHECK_INT(tachy_luma_guide(wide, &(struct tachy_rect){0, 0, 5000, 3}, two_cells, 2, 2, 1),
              TACHY_OK);
    CHECK(abs(two_cells[0] - 127) < 10 && abs(two_cells[1] - 127) < 10);
    tachy_frame_unref(&wide);
    tachy_frame *f = noise(TACHY_PIX_GRAY8, 8, 8);
    uint8_t g;
    CHECK_INT(tachy_luma_guide(f, &(struct tachy_rect){4, 4, 5, 4}, &g, 1, 1, 1), TACHY_ERR_INVAL);
    tachy_frame_unref(&f);
}

TEST(smooth_holds_still_parts_and_follows_motion)
{
    enum { N = 24 };
    uint8_t mask[N * N], guide[N * N];
    tachy_smooth *s;
    CHECK_INT(tachy_smooth_open(&s, N, N, 0.7f), TACHY_OK);
    int64_t before = 0, after = 0;
    uint8_t last_in[N * N], last_out[N * N];
    for (int t = 0; t < 40; t++) {
        for (int i = 0; i < N * N; i++) {
            guide[i] = (uint8_t)(100 + rnd(3)); // noise of a camera
            last_in[i] = t ? last_in[i] : 0;
            int v = 100 + rnd(100);
            before += t ? abs(v - last_in[i]) : 0;
            last_in[i] = mask[i] = (uint8_t)v;
        }
        tachy_smooth_apply(s, mask, N, guide, N, false);
        for (int i = 0; i < N * N; i++) {
            after += t ? abs(mask[i] - last_out[i]) : 0;
            last_out[i] = mask[i];
        }
    }
    CHECK(after * 5 < before);
    memset(guide, 180, sizeof(guide)); // everything moves
    memset(mask, 255, sizeof(mask));
    tachy_smooth_apply(s, mask, N, guide, N, false);
    CHECK_INT(mask[5 * N + 5], 255);
    memset(guide, 168, sizeof(guide)); // somebody went away, and the network does not see it at once
    memset(mask, 60, sizeof(mask));
    tachy_smooth_apply(s, mask, N, guide, N, false);
    CHECK(mask[5 * N + 5] < 30);
    memset(mask, 200, sizeof(mask));
    tachy_smooth_apply(s, mask, N, guide, N, true); // a new scene
    CHECK_INT(mask[0], 200);
    tachy_smooth_close(&s);
    CHECK_INT(tachy_smooth_open(&s, N, N, 0), TACHY_OK);
    for (int t = 0; t < 3; t++) {
        memset(mask, 50 * t, sizeof(mask));
        tachy_smooth_apply(s, mask, N, guide, N, false);
        CHECK_INT(mask[3], 50 * t);
    }
    tachy_smooth_close(&s);
    CHECK_INT(tachy_smooth_open(&s, N, N, 1.5f), TACHY_ERR_INVAL);
    CHECK_INT(tachy_smooth_open(&s, 0, N, 0.5f), TACHY_ERR_INVAL);
}

// A textured person in front of a textured wall, both moving; the network's mask is wrong in every fifth pixel.
static bool person_at(int x, int y, int t) { return hypot(x - 20 - 2 * t, y - 34) < 14; }

static uint8_t luma_at(int x, int y, int t)
{
    int move = person_at(x, y, t) ? 2 * t : -t;
    return (uint8_t)(128 + 50 * sin(0.7 * (x - move)) + 40 * sin(0.9 * y + 0.3 * (x - move)));
}

TEST(smooth_follows_what_moves)
{
    enum { N = 64, FRAMES = 12, SETTLED = 4 };
    static uint8_t mask[N * N], guide[N * N];
    int before = 0, after = 0;
    tachy_smooth *s;
    CHECK_INT(tachy_smooth_open(&s, N, N, 0.7f), TACHY_OK);
    for (int t = 0; t < FRAMES; t++) {
        for (int i = 0; i < N * N; i++) {
            bool wrong = rnd(5) == 0;
            guide[i] = luma_at(i % N, i / N, t);
            mask[i] = person_at(i % N, i / N, t) != wrong ? 255 : 0;
            before += t >= SETTLED && wrong;
        }
        tachy_smooth_apply(s, mask, N, guide, N, false);
        for (int i = 0; i < N * N; i++)
            after += t >= SETTLED && (mask[i] >= 128) != person_at(i % N, i / N, t);
    }
    CHECK(after < 0.4 * before);
    memset(mask, 90, sizeof(mask)); // a cut that nobody announced: nothing of the scene before is left
    for (int i = 0; i < N * N; i++)
        guide[i] = (uint8_t)(i % 7 * 40);
    tachy_smooth_apply(s, mask, N, guide, N, false);
    CHECK(mask[20 * N + 20] == 90 && mask[34 * N + 44] == 90);
    tachy_smooth_close(&s);
}

// A mask at a quarter of the size against a picture whose edge does not lie on its grid.
TEST(refine_moves_the_edge_to_that_of_the_picture)
{
    enum { N = 128, M = 32, EDGE = 62 };
    tachy_frame *in = picture(TACHY_PIX_GRAY8, N, N);
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++)
            put(in, 0, x, y, 0, x < EDGE ? 40 : 200);
    uint8_t mask[M * M], guide[M * M];
    for (int i = 0; i < M * M; i++)
        mask[i] = (uint8_t)(255 * TACHY_CLAMP((i % M + 1) * 4 - EDGE, 0, 4) / 4);
    float a[M * M], b[M * M];
    struct tachy_rect all = {0, 0, N, N};
    CHECK_INT(tachy_luma_guide(in, &all, guide, M, M, M), TACHY_OK);
    struct tachy_refine f = {.a = a, .b = b, .width = M, .height = M};
    void *scratch = malloc(tachy_refine_scratch(M, M));
    tachy_refine_fit(&f, mask, M, guide, M, scratch);
    struct tachy_result r = {.eyes = 1, .mask[0] = {mask, M, M, M, all}};
    tachy_composite *c;
    CHECK_INT(tachy_composite_open(&c, &(struct tachy_composite_params){.mode = TACHY_MODE_MASK,
                                                                        .threshold = 0.5f,
                                                                        .feather = 1}),
              TACHY_OK);
    double error[2] = {0};
    for (int k = 0; k < 2; k++) {
        tachy_frame *out = picture(TACHY_PIX_GRAY8, N, N);
        CHECK_INT(tachy_composite_run(c, in, &r, k ? &f : NULL, NULL, out), TACHY_OK);
        for (int x = 0; x < N; x++)
            error[k] += fabs(get(out, 0, x, 64, 0) - (x < EDGE ? 0.0 : 255.0));
        tachy_frame_unref(&out);
    }
    CHECK(error[1] < 0.75 * error[0]);
    free(scratch);
    tachy_composite_close(&c);
    tachy_frame_unref(&in);
}

TEST_MAIN(TEST_CASE(guide_is_the_mean_of_the_region), TEST_CASE(smooth_holds_still_parts_and_follows_motion),
          TEST_CASE(smooth_follows_what_moves), TEST_CASE(refine_moves_the_edge_to_that_of_the_picture))
