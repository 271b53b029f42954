#include "test.h"

#include "base/base.h"
#include "postprocess/composite.h"
#include "postprocess/edges.h"

#include <math.h>
#include <stdlib.h>

// --edge natural from a frame to rows of alpha; what is solved is compared with its definition in tests/check.

enum { W = 259, H = 190, M = 48, TOP = 90, ROOTS = 120 }; // odd on purpose

// The person fills the picture from row ROOTS down; above it strands three pixels wide reach to row TOP.
static int truth(int x, int y) { return y >= ROOTS || (y >= TOP && x % 9 < 3) ? 255 : 0; }

// Light person, dark background, in grey.
static tachy_frame *strands(enum tachy_pix format)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    tachy_frame *f;
    if (tachy_frame_new(&f, &(struct tachy_frame_params){.format = format, .width = W, .height = H}) < 0)
        abort();
    for (int p = 0; p < d->planes; p++) {
        bool chroma = !d->rgb && (p == 1 || p == 2);
        int w = chroma ? (W + d->chroma_shift_x) >> d->chroma_shift_x : W, n = w * d->components[p];
        for (int y = 0; y < (chroma ? (H + d->chroma_shift_y) >> d->chroma_shift_y : H); y++) {
            uint8_t *row = tachy_frame_writable(f, p) + y * f->stride[p];
            for (int i = 0; i < n; i++) {
                int v = chroma ? 128 : truth(i / d->components[p], y) ? 200 : 50;
                v = v << (d->bits - 8) << d->shift;
                if (d->bytes == 2)
                    ((uint16_t *)(void *)row)[i] = (uint16_t)v;
                else
                    row[i] = (uint8_t)v;
            }
        }
    }
    return f;
}

// A network's likely mask: uncertain from above the strands to below their roots.
static struct tachy_mask coarse(uint8_t data[M * M], struct tachy_rect region)
{
    for (int i = 0; i < M * M; i++) {
        double y = ((double)(i / M) + 0.5) * region.h / M + region.y, v = (y - 85) / 40;
        data[i] = (uint8_t)(255 * TACHY_CLAMP(v, 0, 1));
    }
    return (struct tachy_mask){data, M, M, M, region};
}

// Alpha of the frame, W * H, with the edge solved for or as the mask has it.
static void alpha_of(uint8_t *to, const tachy_frame *f, const struct tachy_mask *m, bool natural)
{
    struct tachy_edges e = {0};
    struct tachy_refine fit = {.cell = tachy_edges_cell(f)};
    tachy_edges_size(f, &m->region, &fit.width, &fit.height);
    size_t n = (size_t)fit.width * (size_t)fit.height;
    fit.a = malloc(4 * n * sizeof(float));
    fit.b = fit.a + 3 * n;
    CHECK_INT(tachy_edges_fit(&e, &fit, f, m), TACHY_OK);
    struct tachy_result r = {.eyes = 1, .mask[0] = *m};
    tachy_composite *c;
    CHECK_INT(tachy_composite_open(&c, &(struct tachy_composite_params){.mode = TACHY_MODE_MASK, .threshold = 0.5f,
                                                                        .feather = 1}), TACHY_OK);
    uint8_t *const data[4] = {to};
    const ptrdiff_t stride[4] = {W};
    CHECK_INT(tachy_composite_planes(c, f, &r, natural ? &fit : NULL, NULL, data, stride), TACHY_OK);
    tachy_composite_close(&c);
    tachy_edges_free(&e);
    free(fit.a);
}

static double error_of(const uint8_t *alpha, int y0, int y1)
{
    double sum = 0;
    for (int y = y0; y < y1; y++)
        for (int x = 0; x < W; x++)
            sum += abs(alpha[y * W + x] - truth(x, y));
    return sum / 255 / ((y1 - y0) * W);
}

TEST(strands_are_found_in_every_format)
{
    static uint8_t plain[W * H], natural[W * H], mask[M * M];
    struct tachy_mask m = coarse(mask, (struct tachy_rect){0, 0, W, H});
    for (enum tachy_pix f = 1; tachy_pix_desc(f); f++) {
        tachy_frame *in = strands(f);
        alpha_of(plain, in, &m, false);
        alpha_of(natural, in, &m, true);
        double before = error_of(plain, TOP, ROOTS), after = error_of(natural, TOP, ROOTS);
        CHECK(before > 0.3);
        CHECK(after < 0.25 * before);
        CHECK(error_of(natural, 0, 60) == 0); // outside the band nothing is touched
        CHECK(error_of(natural, 160, H) == 0);
        tachy_frame_unref(&in);
    }
}

// The band lies where the region does, also if part of the region is outside the frame.
TEST(regions_keep_to_their_place)
{
    static const struct tachy_rect regions[] = {{-31, -17, 330, 240}, {7, 11, 200, 170}, {0, 0, 3, 2}, {W - 5, 0, 5, H}};
    static uint8_t plain[W * H], natural[W * H], mask[M * M];
    tachy_frame *in = strands(TACHY_PIX_YUV420P);
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(regions); k++) {
        const struct tachy_rect *g = &regions[k];
        struct tachy_mask m = coarse(mask, *g);
        alpha_of(plain, in, &m, false);
        alpha_of(natural, in, &m, true);
        for (int i = 0; i < W * H; i++) {
            int x = i % W, y = i / W;
            bool inside = x >= g->x && x < g->x + g->w && y >= g->y && y < g->y + g->h;
            CHECK(inside || !natural[i]);
            CHECK((y > 60 && y < 160) || natural[i] == plain[i]);
        }
        if (k < 2) {
            int x = 100 - 100 % 9;
            CHECK(natural[105 * W + x + 1] > natural[105 * W + x + 5] + 100);
        }
    }
    tachy_frame_unref(&in);
}

// Draws alpha of a disc with an edge of one pixel; computes the radius from an alpha's area.
static void disc(uint8_t *to, double radius)
{
    for (int i = 0; i < W * H; i++)
        to[i] = (uint8_t)(255 * TACHY_CLAMP(radius + 0.5 - hypot(i % W - W / 2, (double)(i / W) - H / 2), 0, 1));
}

static double radius_of(const uint8_t *alpha)
{
    double sum = 0;
    for (int i = 0; i < W * H; i++)
        sum += alpha[i] / 255.0;
    return sqrt(sum / acos(-1));
}

// The octagon of many steps lies within 4 % of a circle.
TEST(edges_move_by_pixels_and_parts_of_them)
{
    static const float by[] = {0.25f, 0.5f, 1, 1.5f, 3, 7.75f, -0.5f, -1, -2.5f, -6};
    static uint8_t alpha[W * H];
    struct tachy_buf scratch = {0};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(by); i++) {
        disc(alpha, 40);
        double before = radius_of(alpha);
        CHECK_INT(tachy_alpha_grow(alpha, W, W, H, by[i], &scratch), TACHY_OK);
        CHECK(fabs(radius_of(alpha) - before - by[i]) < 0.12 + 0.04 * fabsf(by[i]));
    }
    memset(alpha, 255, sizeof(alpha)); // the picture's border is no edge
    CHECK_INT(tachy_alpha_grow(alpha, W, W, H, -9, &scratch), TACHY_OK);
    CHECK(radius_of(alpha) == sqrt(W * H / acos(-1)));
    tachy_buf_free(&scratch);
}

// Each mode takes the moved edge, and an eye's does not enter the other's region.
TEST(every_mode_moves_the_edge)
{
    static const enum tachy_mode modes[] = {TACHY_MODE_MASK, TACHY_MODE_CUTOUT, TACHY_MODE_BLUR, TACHY_MODE_OVERLAY};
    static uint8_t full[8 * 8], none[8 * 8], data[W * H];
    memset(full, 255, sizeof(full));
    tachy_frame *in = strands(TACHY_PIX_GRAY8);
    struct tachy_result r = {.eyes = 2, .mask = {{full, 8, 8, 8, {0, 0, W / 2, H / 2}}, {none, 8, 8, 8, {W / 2, 0, W - W / 2, H}}}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(modes); i++) {
        tachy_composite *c;
        struct tachy_composite_params p = {.mode = modes[i], .threshold = 0.5f, .grow = -3};
        CHECK_INT(tachy_composite_open(&c, &p), TACHY_OK);
        CHECK_INT(tachy_composite_planes(c, in, &r, NULL, NULL, (uint8_t *const[4]){data}, (const ptrdiff_t[4]){W}), TACHY_OK);
        CHECK(fabs(r.coverage * W * H - (W / 2) * (H / 2)) < 1); // the eye's own border is no edge, and the seam holds
        tachy_composite_close(&c);
    }
    tachy_composite *c;
    CHECK_INT(tachy_composite_open(&c, &(struct tachy_composite_params){.grow = 65}), TACHY_ERR_INVAL);
    CHECK_INT(tachy_composite_open(&c, &(struct tachy_composite_params){.grow = NAN}), TACHY_ERR_INVAL);
    disc(data, 30);
    r = (struct tachy_result){.eyes = 1, .mask[0] = {data, W, H, W, {0, 0, W, H}}};
    static uint8_t out[W * H];
    CHECK_INT(tachy_composite_open(&c, &(struct tachy_composite_params){.threshold = 0.5f, .feather = 1, .grow = 4}), TACHY_OK);
    CHECK_INT(tachy_composite_planes(c, in, &r, NULL, NULL, (uint8_t *const[4]){out}, (const ptrdiff_t[4]){W}), TACHY_OK);
    CHECK(fabs(radius_of(out) - 34) < 0.4);
    tachy_composite_close(&c);
    tachy_frame_unref(&in);
}

TEST_MAIN(TEST_CASE(strands_are_found_in_every_format), TEST_CASE(regions_keep_to_their_place),
          TEST_CASE(edges_move_by_pixels_and_parts_of_them), TEST_CASE(every_mode_moves_the_edge))
