#include "composite_frames.h"

#include "postprocess/alpha.h"

#include <math.h>

// The colours of people's edges.

// A red disc with a soft edge over blue: the composite over black shows red in every part of its edge, not violet. The
// definition does not know the colours; it only sees the mix.
TEST(foreground_colours_have_no_fringe)
{
    static const enum tachy_pix formats[] = {TACHY_PIX_RGB24, TACHY_PIX_RGBA, TACHY_PIX_BGRA};
    enum { BIG = 160 };
    static uint8_t soft[BIG * BIG];
    for (int i = 0; i < BIG * BIG; i++) {
        double x = i % BIG - 80, y = (double)i / BIG - 80, v = (60 - sqrt(x * x + y * y)) / 16;
        soft[i] = (uint8_t)(TACHY_CLAMP(v, 0, 1) * 255);
    }
    struct tachy_result r = {.eyes = 1, .mask[0] = {soft, BIG, BIG, BIG, {0, 0, BIG, BIG}}};
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(formats); k++) {
        tachy_frame *in = picture(formats[k], BIG, BIG);
        int red = formats[k] == TACHY_PIX_BGRA ? 2 : 0, comps = tachy_pix_desc(formats[k])->components[0];
        for (int i = 0; i < BIG * BIG * comps; i++) {
            int at = i % comps, a = soft[i / comps], v = at == red ? a : at == 2 - red ? 255 - a : 0;
            put(in, 0, i / comps % BIG, i / comps / BIG, at, at == 3 ? 77 : v);
        }
        double error[2] = {0};
        for (int own = 0; own <= 1; own++) {
            struct tachy_composite_params p = {.mode = TACHY_MODE_CUTOUT, .color = 0x000000ff, .threshold = 0.5f,
                                               .feather = 1, .foreground = own};
            tachy_frame *out = run(p, in, &r, NULL);
            for (int i = 0; i < BIG * BIG; i++)
                error[own] += abs(get(out, 0, i % BIG, i / BIG, red) - soft[i]) + get(out, 0, i % BIG, i / BIG, 2 - red);
            for (int i = 0; comps == 4 && i < BIG * BIG; i++)
                CHECK(soft[i] < 255 || get(out, 0, i % BIG, i / BIG, 3) == 77); // its own alpha is no colour
            tachy_frame_unref(&out);
        }
        CHECK(error[1] <= 0.1 * error[0]);
        tachy_frame *out = run((struct tachy_composite_params){.mode = TACHY_MODE_ALPHA, .threshold = 0.5f, .feather = 1,
                                                               .foreground = true, .alpha_format = TACHY_PIX_RGBA}, in, &r, NULL);
        for (int i = 0; i < BIG * BIG; i++) // with transparency the edge is as red as the middle
            CHECK(soft[i] < 64 || (get(out, 0, i % BIG, i / BIG, 0) > 225 && get(out, 0, i % BIG, i / BIG, 2) < 30));
        tachy_frame_unref(&out);
        tachy_frame_unref(&in);
    }
}

// A picture of one colour: grey that is lit by a green screen, or (way -1) by its opposite.
static tachy_frame *lit(enum tachy_pix format, int size, int way)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    const int yuv[4] = {150, 128 - 12 * way, 128 - 27 * way, 77}, rgb[4] = {150, 150 + 40 * way, 150 + 14 * way, 77};
    tachy_frame *f = picture(format, size, size);
    for (int p = 0; p < d->planes; p++)
        for (int y = 0; y < plane_h(d, p, size); y++)
            for (int x = 0; x < plane_w(d, p, size) * d->components[p]; x++) {
                int c = x % d->components[p];
                put(f, p, x / d->components[p], y, c, d->rgb ? rgb[format == TACHY_PIX_BGRA && c < 3 ? 2 - c : c] : yuv[p + c] << (d->bits - 8));
            }
    return f;
}

static bool same_samples(const tachy_frame *a, const tachy_frame *b)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(a->format);
    for (int p = 0; p < d->planes; p++)
        for (int y = 0; y < plane_h(d, p, a->height); y++)
            for (int x = 0; x < plane_w(d, p, a->width) * d->components[p]; x++)
                if (get(a, p, x / d->components[p], y, x % d->components[p]) !=
                    get(b, p, x / d->components[p], y, x % d->components[p]))
                    return false;
    return true;
}

// Distance of a pixel from grey, in steps of 8 bits.
static double tint(const tachy_frame *f, int x, int y)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    double unit = 1 << (d->bits - 8);
    if (d->rgb)
        return fabs(get(f, 0, x, y, 1) - (double)get(f, 0, x, y, f->format == TACHY_PIX_BGRA ? 2 : 0)) / unit;
    x >>= d->chroma_shift_x, y >>= d->chroma_shift_y;
    int u = get(f, 1, x, y, 0), v = d->planes == 2 ? get(f, 1, x, y, 1) : get(f, 2, x, y, 0);
    return hypot(u / unit - 128, v / unit - 128);
}

// The light of a screen is gone around the edge of a disc, stays in its middle, and changes no luma. Every other hue stays.
TEST(despill_takes_the_screens_hue_out_of_edges)
{
    enum { BIG = 160 };
    static uint8_t soft[BIG * BIG];
    for (int i = 0; i < BIG * BIG; i++)
        soft[i] = (uint8_t)(TACHY_CLAMP((60 - hypot(i % BIG - 80, (double)i / BIG - 80)) / 16, 0, 1) * 255);
    struct tachy_result r = {.eyes = 1, .mask[0] = {soft, BIG, BIG, BIG, {0, 0, BIG, BIG}}};
    const struct tachy_composite_params p = {.mode = TACHY_MODE_REPLACE, .threshold = 0.5f, .feather = 1,
                                             .despill = TACHY_SPILL_GREEN};
    for (enum tachy_pix f = 1; tachy_pix_desc(f); f++) {
        const struct tachy_pix_desc *d = tachy_pix_desc(f);
        tachy_frame *green = lit(f, BIG, 1), *other = lit(f, BIG, -1);
        tachy_frame *out = run(p, green, &r, green), *same = run(p, other, &r, other);
        CHECK(same_samples(same, other));
        int rim = 0;
        for (int y = 0; y < BIG; y++)
            for (int x = 0; x < BIG; x++) {
                double from = hypot(x - 80, y - 80), before = d->planes > 1 || d->rgb ? tint(green, x, y) : 0;
                double share = soft[y * BIG + x] / 255.0; // behind it is the picture's colour
                CHECK(d->rgb || get(out, 0, x, y, 0) == get(green, 0, x, y, 0));
                if (before == 0)
                    continue;
                if (from < 30)
                    CHECK(tint(out, x, y) == before);
                if (from >= 50 && from <= 57) {
                    CHECK(tint(out, x, y) <= before * (1 - share) + 0.15 * before);
                    rim++;
                }
            }
        CHECK(rim > 0 || (d->planes == 1 && !d->rgb));
        tachy_frame_unref(&green), tachy_frame_unref(&other), tachy_frame_unref(&out), tachy_frame_unref(&same);
    }
}

// Every format: only samples whose alpha is between change, and some do.
TEST(foreground_of_every_format)
{
    for (enum tachy_pix f = 1; tachy_pix_desc(f); f++) {
        tachy_frame *in = noise(f, W, H), *hard[2], *soft[2];
        struct tachy_result r = soft_result(W, H);
        for (int own = 0; own <= 1; own++) {
            struct tachy_composite_params p = {.mode = TACHY_MODE_CUTOUT, .color = 0x336699ff, .threshold = 0.5f,
                                               .foreground = own};
            hard[own] = run(p, in, &r, NULL);
            p.feather = 0.6f;
            soft[own] = run(p, in, &r, NULL);
        }
        tachy_frame *a = alpha_of(in, &r);
        const struct tachy_pix_desc *d = tachy_pix_desc(f);
        int differ = 0;
        for (int p = 0; p < d->planes; p++)
            for (int y = 0; y < plane_h(d, p, H); y++)
                for (int x = 0; x < plane_w(d, p, W) * d->components[p]; x++) {
                    int c = x % d->components[p], at = x / d->components[p], al = alpha_at(a, d, p, at, y);
                    bool chroma = plane_w(d, p, W) < W; // its alpha is a mean: soft also beside a hard edge
                    CHECK(chroma || get(hard[0], p, at, y, c) == get(hard[1], p, at, y, c));
                    bool same = get(soft[0], p, at, y, c) == get(soft[1], p, at, y, c);
                    CHECK(same || (al > 0 && al < 255));
                    differ += !same;
                }
        CHECK(differ > 0);
        for (int own = 0; own <= 1; own++) {
            tachy_frame_unref(&hard[own]);
            tachy_frame_unref(&soft[own]);
        }
        tachy_frame_unref(&a);
        tachy_frame_unref(&in);
    }
}

TEST_MAIN(TEST_CASE(foreground_colours_have_no_fringe), TEST_CASE(despill_takes_the_screens_hue_out_of_edges),
          TEST_CASE(foreground_of_every_format))
