#include "test.h"

#include "base/base.h"
#include "postprocess/composite.h"
#include "postprocess/key.h"

#include <math.h>

// The chroma keyer on made pictures whose alpha is known, in every pixel format.

enum { W = 64, H = 36 };

static const double SCREEN[3] = {0.10, 0.62, 0.28}, GREY[3] = {0.55, 0.55, 0.55};

// Alpha of a column: a ramp between two flat parts, so that subsampled chroma is linear as well.
static double alpha_at(double x) { return TACHY_CLAMP((x - 12) / 40, 0.0, 1.0); }

static void rgb_at(double x, double rgb[3])
{
    double a = alpha_at(x);
    for (int i = 0; i < 3; i++)
        rgb[i] = a * GREY[i] + (1 - a) * SCREEN[i];
}

// Luma 0..1 and chroma -0.5..0.5 of BT.709, from the equations of H.273.
static double component(const double rgb[3], int i)
{
    double y = 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2];
    return i == 0 ? y : i == 1 ? (rgb[2] - y) / 1.8556 : (rgb[0] - y) / 1.5748;
}

static int code(const struct tachy_pix_desc *d, double v, int comp)
{
    double unit = 1 << (d->bits - 8);
    if (d->rgb)
        return (int)lrint(v * ((1 << d->bits) - 1));
    return (int)lrint(comp ? v * 224 * unit + 128 * unit : v * 219 * unit + 16 * unit);
}

// Content of sample `x` of a component: for chroma of half the width, that of the left one of its two pixels.
static double sample(const struct tachy_pix_desc *d, enum tachy_pix f, int plane, int x, int i)
{
    double rgb[3];
    bool chroma = !d->rgb && (plane == 1 || plane == 2);
    rgb_at(chroma ? x << d->chroma_shift_x : x, rgb);
    if (d->rgb)
        return i == 3 ? 1 : rgb[f == TACHY_PIX_BGRA ? 2 - i : i];
    return plane == 3 ? 1 : component(rgb, d->planes == 2 && plane ? 1 + i : plane);
}

static tachy_frame *picture(enum tachy_pix format)
{
    tachy_frame *f = NULL;
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    CHECK_INT(tachy_frame_new(&f, &(struct tachy_frame_params){.format = format, .width = W, .height = H}), TACHY_OK);
    f->color = (struct tachy_color){.matrix = d->rgb ? 0 : 1, .range = d->rgb ? 2 : 1, .chroma_loc = 1};
    for (int p = 0; p < d->planes; p++) {
        bool chroma = !d->rgb && (p == 1 || p == 2);
        int w = chroma ? W >> d->chroma_shift_x : W, h = chroma ? H >> d->chroma_shift_y : H, n = d->components[p];
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w * n; x++) {
                int v = code(d, sample(d, format, p, x / n, x % n), chroma);
                uint8_t *row = tachy_frame_writable(f, p) + y * f->stride[p];
                if (d->bytes == 2)
                    ((uint16_t *)(void *)row)[x] = (uint16_t)(v << d->shift);
                else
                    row[x] = (uint8_t)v;
            }
    }
    return f;
}

// Mode mask of a mask that is everything, keyed.
static void keyed(const tachy_frame *in, const struct tachy_chroma_key *key, const char *isa, uint8_t out[W * H])
{
    static const uint8_t one = 255;
    struct tachy_result r = {.eyes = 1, .mask[0] = {&one, 1, 1, 1, {0, 0, W, H}}};
    struct tachy_bounds bounds = {.key = key};
    struct tachy_composite_params p = {.mode = TACHY_MODE_MASK, .threshold = 0.5f, .feather = 1, .isa = isa};
    tachy_composite *c = NULL;
    ptrdiff_t stride[4] = {W};
    uint8_t *data[4] = {out};
    CHECK_INT(tachy_composite_open(&c, &p), TACHY_OK);
    tachy_composite_bound(c, &bounds);
    CHECK_INT(tachy_composite_planes(c, in, &r, NULL, NULL, data, stride), TACHY_OK);
    tachy_composite_close(&c);
}

static bool has_hue(const struct tachy_pix_desc *d) { return d->rgb || d->planes > 1; }

// A mixture of grey and screen gets exactly its alpha, up to the quantisation of chroma: an 8-bit step is 1 / 224 of
// full scale, of which this screen has 0.2 and 0.3, so alpha is uncertain by about 0.6 / 224 / 0.36.
TEST(a_mixture_has_its_alpha_in_every_format)
{
    for (int f = 1; f < TACHY_PIX_COUNT; f++) {
        const struct tachy_pix_desc *d = tachy_pix_desc((enum tachy_pix)f);
        tachy_frame *in = picture((enum tachy_pix)f);
        struct tachy_chroma_key key = {.white = 1, .shadows = true, .nb_colors = 1};
        uint8_t got[W * H], twin[W * H];
        uint32_t screen = (uint32_t)lrint(SCREEN[0] * 255) << 24 | (uint32_t)lrint(SCREEN[1] * 255) << 16 |
                          (uint32_t)lrint(SCREEN[2] * 255) << 8;
        CHECK(tachy_key_color_of(&key.color[0], screen, in));
        keyed(in, &key, NULL, got);
        keyed(in, &key, "c", twin);
        CHECK(!memcmp(got, twin, sizeof(got)));
        double worst = 0;
        for (int i = 0; i < W * H; i++)
            worst = fmax(worst, fabs(got[i] / 255.0 - (has_hue(d) ? alpha_at(i % W) : 1)));
        if (worst > (d->bits > 8 ? 0.006 : 0.014))
            fprintf(stderr, "%s: alpha is off by %.4f\n", d->name, worst);
        CHECK(worst <= (d->bits > 8 ? 0.006 : 0.014));
        tachy_frame_unref(&in);
    }
}

TEST(clipping_is_what_its_definition_says)
{
    tachy_frame *in = picture(TACHY_PIX_YUV444P10);
    uint8_t plain[W * H], got[W * H];
    struct tachy_chroma_key key = {.white = 1, .shadows = true, .nb_colors = 1};
    double rgb[3] = {SCREEN[0], SCREEN[1], SCREEN[2]};
    key.color[0] = (struct tachy_ycbcr){(float)component(rgb, 0), (float)component(rgb, 1), (float)component(rgb, 2)};
    keyed(in, &key, NULL, plain);
    key.black = 0.2f;
    key.white = 0.7f;
    keyed(in, &key, NULL, got);
    for (int i = 0; i < W * H; i++) {
        double want = TACHY_CLAMP((plain[i] / 255.0 - 0.2) / 0.5, 0.0, 1.0);
        CHECK(fabs(got[i] / 255.0 - want) <= 0.0064); // half a step of 1/255 before, over 0.5, and one of half after
    }
    tachy_frame_unref(&in);
}

// A shadow takes light and keeps the hue: it is kept as that much alpha, or is screen.
TEST(shadows_are_kept_or_removed)
{
    tachy_frame *in = NULL;
    CHECK_INT(tachy_frame_new(&in, &(struct tachy_frame_params){.format = TACHY_PIX_RGB24, .width = W, .height = H}), TACHY_OK);
    for (int i = 0; i < W * H; i++)
        for (int c = 0; c < 3; c++)
            (tachy_frame_writable(in, 0) + i / W * in->stride[0])[i % W * 3 + c] = (uint8_t)lrint(SCREEN[c] * 0.6 * 255);
    struct tachy_chroma_key key = {.white = 1, .nb_colors = 1, .shadows = true};
    uint8_t got[W * H];
    CHECK(tachy_key_color_of(&key.color[0], 0x1a9e47ff, in));
    keyed(in, &key, NULL, got);
    CHECK(abs(got[W + 5] - 102) <= 2); // 1 - 0.6
    key.shadows = false;
    keyed(in, &key, NULL, got);
    CHECK(got[W + 5] <= 2);
    tachy_frame_unref(&in);
}

static uint64_t rng = 1;

static double noise(void)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (double)(rng >> 40) / (1 << 24) - 0.5;
}

// A lit screen: brightest in the middle, with noise; a person of skin colour in front of its lower half.
static tachy_frame *stage(const double screen[3])
{
    static const double skin[3] = {0.78, 0.57, 0.46};
    tachy_frame *f = NULL;
    CHECK_INT(tachy_frame_new(&f, &(struct tachy_frame_params){.format = TACHY_PIX_RGB24, .width = 320, .height = 180}), TACHY_OK);
    for (int y = 0; y < 180; y++)
        for (int x = 0; x < 320; x++) {
            double light = 1 - 0.25 * fabs(x / 160.0 - 1);
            bool person = abs(x - 160) < 60 && y > 40;
            for (int c = 0; c < 3; c++) {
                double v = (person ? skin[c] : screen[c] * light) + 0.03 * noise();
                (tachy_frame_writable(f, 0) + y * f->stride[0])[3 * x + c] = (uint8_t)lrint(255 * TACHY_CLAMP(v, 0.0, 1.0));
            }
        }
    return f;
}

TEST(the_screen_is_found)
{
    static const double screens[][3] = {{0.15, 0.60, 0.25}, {0.12, 0.25, 0.65}, {0.6, 0.58, 0.57}};
    static const bool found[3][3] = {{true, true, false}, {true, false, true}, {false, false, false}}; // any, green, blue
    for (int i = 0; i < 3; i++) {
        tachy_frame *f = stage(screens[i]);
        for (int hue = 0; hue < 3; hue++) {
            struct tachy_ycbcr c = {0};
            bool got = false;
            CHECK_INT(tachy_key_find(&c, (enum tachy_key_hue)hue, f, &got), TACHY_OK);
            CHECK_INT(got, found[i][hue]);
            if (!got)
                continue;
            double u = component(screens[i], 1), v = component(screens[i], 2), m = hypot(u, v), n = hypot((double)c.u, (double)c.v);
            CHECK(((double)c.u * u + (double)c.v * v) / (m * n) > 0.999); // the hue, within 2.6 degrees
            CHECK(n > 0.7 * m && n < 0.95 * m);                           // at the dark edges, not in the middle
        }
        tachy_frame_unref(&f);
    }
}

TEST_MAIN(TEST_CASE(a_mixture_has_its_alpha_in_every_format), TEST_CASE(clipping_is_what_its_definition_says),
          TEST_CASE(shadows_are_kept_or_removed), TEST_CASE(the_screen_is_found))
