#include "test.h"

#include "base/base.h"
#include "postprocess/alpha.h"
#include "postprocess/composite.h"

#include <math.h>
#include <tachy/preprocess.h>

// What composite promises, from its definitions; the vector versions are compared with their
// twins elsewhere (tests/check).

enum { W = 53, H = 37 }; // odd on purpose

static uint64_t rng = 1;

static int rnd(int n)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (int)((rng >> 33) % (uint64_t)n);
}

static tachy_frame *picture(enum tachy_pix format, int w, int h)
{
    tachy_frame *f;
    if (tachy_frame_new(
            &f, &(struct tachy_frame_params){.format = format, .width = w, .height = h}) < 0)
        abort();
    return f;
}

static int plane_w(const struct tachy_pix_desc *d, int p, int w)
{
    int s = !d->rgb && (p == 1 || p == 2) ? d->chroma_shift_x : 0;
    return (w + s) >> s;
}

static int plane_h(const struct tachy_pix_desc *d, int p, int h)
{
    int s = !d->rgb && (p == 1 || p == 2) ? d->chroma_shift_y : 0;
    return (h + s) >> s;
}

static int get(const tachy_frame *f, int plane, int x, int y, int comp)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    const uint8_t *row = f->data[plane] + y * f->stride[plane];
    int i = x * d->components[plane] + comp;
    return d->bytes == 2 ? ((const uint16_t *)(const void *)row)[i] >> d->shift : row[i];
}

static void put(tachy_frame *f, int plane, int x, int y, int comp, int v)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    uint8_t *row = tachy_frame_writable(f, plane) + y * f->stride[plane];
    int i = x * d->components[plane] + comp;
    if (d->bytes == 2)
        ((uint16_t *)(void *)row)[i] = (uint16_t)(v << d->shift);
    else
        row[i] = (uint8_t)v;
}

static tachy_frame *noise(enum tachy_pix format, int w, int h)
{
    tachy_frame *f = picture(format, w, h);
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    for (int p = 0; p < d->planes; p++)
        for (int y = 0; y < plane_h(d, p, h); y++)
            for (int x = 0; x < plane_w(d, p, w) * d->components[p]; x++)
                put(f, p, x / d->components[p], y, x % d->components[p], rnd(1 << d->bits));
    return f;
}

static uint8_t mask_data[16 * 12];

static struct tachy_result soft_result(int w, int h)
{
    for (int i = 0; i < 16 * 12; i++) {
        int x = i % 16 - 8, y = i / 16 - 6, v = 300 - 9 * (x * x + y * y);
        mask_data[i] = (uint8_t)TACHY_CLAMP(v, 0, 255);
    }
    return (struct tachy_result){.eyes = 1, .mask[0] = {mask_data, 16, 12, 16, {0, 0, w, h}}};
}

static tachy_frame *run(struct tachy_composite_params p, const tachy_frame *in,
                        struct tachy_result *r, const tachy_frame *bg)
{
    struct tachy_video_info info = {
        .format = in->format, .width = in->width, .height = in->height, .color = in->color};
    struct tachy_video_info want;
    tachy_composite *c;
    CHECK_INT(tachy_composite_output(&p, &info, &want), TACHY_OK);
    tachy_frame *out = picture(want.format, want.width, want.height);
    CHECK_INT(tachy_composite_open(&c, &p), TACHY_OK);
    CHECK_INT(tachy_composite_run(c, in, r, NULL, bg, out), TACHY_OK);
    tachy_composite_close(&c);
    return out;
}

// Alpha of the frame as mode mask writes it.
static tachy_frame *alpha_of(const tachy_frame *in, struct tachy_result *r)
{
    return run((struct tachy_composite_params){.mode = TACHY_MODE_MASK,
                                               .threshold = 0.5f,
                                               .feather = 0.6f},
               in, r, NULL);
}

// The alpha of one sample: the mean over the pixels that it covers.
static int alpha_at(const tachy_frame *a, const struct tachy_pix_desc *d, int plane, int x, int y)
{
    bool chroma = !d->rgb && (plane == 1 || plane == 2);
    int sx = chroma ? d->chroma_shift_x : 0, sy = chroma ? d->chroma_shift_y : 0, sum = 0, n = 0;
    for (int j = 0; j <= sy; j++)
        for (int i = 0; i <= sx; i++, n++)
            sum += get(a, 0, TACHY_MIN((x << sx) + i, a->width - 1),
                       TACHY_MIN((y << sy) + j, a->height - 1), 0);
    return (2 * sum + n) / (2 * n);
}

TEST(ramp_is_what_its_definition_says)
{
    for (int n = 0; n < 200; n++) {
        float t = (float)rnd(101) / 100, f = (float)(1 + rnd(100)) / 100;
        struct tachy_curve c = tachy_curve_make(t, f);
        int before = 0;
        for (int p = 0; p <= 32640; p += 1 + rnd(50)) {
            int16_t v = (int16_t)p;
            uint8_t a;
            tachy_ref_curve(&a, &v, &c, 1);
            double want = 255 * TACHY_CLAMP((p / 32640.0 - ((double)t - (double)f / 2)) / (double)f,
                                            0.0, 1.0);
            double slack =
                0.52 + 255 * 0.5 / 32640 / (double)f * 2; // ends are rounded to 1 / 32640
            CHECK(fabs(a - want) <= slack);
            CHECK(a >= before);
            before = a;
        }
    }
    struct tachy_curve hard = tachy_curve_make(0.5f, 0);
    int16_t at[] = {16319, 16320};
    uint8_t a[2];
    tachy_ref_curve(a, at, &hard, 2);
    CHECK_INT(a[0], 0);
    CHECK_INT(a[1], 255);
}

TEST(wide_stretch_has_no_steps)
{
    enum { N = 3840 };
    uint8_t m[256];
    for (int i = 0; i < 256; i++)
        m[i] = (uint8_t)i;
    struct tachy_result r = {.eyes = 1, .mask[0] = {m, 256, 1, 256, {0, 0, N, 1}}};
    tachy_frame *in = noise(TACHY_PIX_GRAY8, N, 1);
    struct tachy_composite_params p = {.mode = TACHY_MODE_MASK, .threshold = 0.5f, .feather = 0.1f};
    tachy_frame *out = run(p, in, &r, NULL);
    for (int x = 0; x < N; x++) {
        double v = TACHY_CLAMP((x + 0.5) * 256 / N - 0.5, 0.0, 255.0) / 255;
        double want = 255 * TACHY_CLAMP((v - 0.45) / 0.1, 0.0, 1.0);
        CHECK(fabs(get(out, 0, x, 0, 0) - want) <
              0.7); // 255 steps within 384 pixels: none is skipped
    }
    tachy_frame_unref(&in);
    tachy_frame_unref(&out);
}

// Every sample of modes cutout, replace and overlay in every format.
TEST(blends_are_rounded_and_unchanged_pixels_exact)
{
    for (int f = 1; f < TACHY_PIX_COUNT; f++) {
        const struct tachy_pix_desc *d = tachy_pix_desc((enum tachy_pix)f);
        tachy_frame *in = noise((enum tachy_pix)f, W, H), *bg = noise((enum tachy_pix)f, W, H);
        struct tachy_result r = soft_result(W, H);
        tachy_frame *a = alpha_of(in, &r);
        struct tachy_composite_params p = {
            .mode = TACHY_MODE_REPLACE, .threshold = 0.5f, .feather = 0.6f};
        tachy_frame *out = run(p, in, &r, bg);
        int bad = 0, kept = 0, gone = 0;
        for (int q = 0; q < d->planes; q++)
            for (int y = 0; y < plane_h(d, q, H); y++)
                for (int x = 0; x < plane_w(d, q, W); x++)
                    for (int k = 0; k < d->components[q]; k++) {
                        int al = alpha_at(a, d, q, x, y), i = get(in, q, x, y, k),
                            b = get(bg, q, x, y, k);
                        int want = (int)lrint((i * al + b * (255 - al)) / 255.0);
                        bad += get(out, q, x, y, k) != want;
                        kept += al == 255;
                        gone += al == 0;
                    }
        CHECK_INT(bad, 0);
        CHECK(kept > 100 && gone > 100);
        tachy_frame_unref(&in), tachy_frame_unref(&bg), tachy_frame_unref(&a),
            tachy_frame_unref(&out);
    }
}

TEST(cutout_color_follows_matrix_and_range)
{
    static const struct {
        enum tachy_pix f;
        struct tachy_color c;
        uint32_t rgba;
        int want[3];
    } t[] = {
        // green, from the equations of H.273
        {TACHY_PIX_YUV444P, {.matrix = 6, .range = 1}, 0x00ff00ff, {145, 54, 34}},
        {TACHY_PIX_YUV444P, {.matrix = 1, .range = 1}, 0x00ff00ff, {173, 42, 26}},
        {TACHY_PIX_YUV444P, {.matrix = 1, .range = 2}, 0x00ff00ff, {182, 30, 12}},
        {TACHY_PIX_YUV444P10, {.matrix = 9, .range = 1}, 0x00ff00ff, {658, 189, 100}},
        {TACHY_PIX_YUV444P, {.matrix = 1, .range = 1}, 0xffffffff, {235, 128, 128}},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(t); i++) {
        tachy_frame *in = noise(t[i].f, 8, 8);
        in->color = t[i].c;
        struct tachy_result r = {.eyes = 0};
        tachy_frame *out = run((struct tachy_composite_params){.mode = TACHY_MODE_CUTOUT,
                                                               .color = t[i].rgba,
                                                               .threshold = 0.5f},
                               in, &r, NULL);
        for (int k = 0; k < 3; k++)
            CHECK_INT(get(out, k, 3, 3, 0), t[i].want[k]);
        CHECK(r.coverage == 0);
        tachy_frame_unref(&in), tachy_frame_unref(&out);
    }
}

TEST(overlay_tints_the_person_only)
{
    tachy_frame *in = noise(TACHY_PIX_BGRA, W, H);
    struct tachy_result r = soft_result(W, H);
    tachy_frame *a = alpha_of(in, &r);
    tachy_frame *out = run(
        (struct tachy_composite_params){
            .mode = TACHY_MODE_OVERLAY, .color = 0xff800080, .threshold = 0.5f, .feather = 0.6f},
        in, &r, NULL);
    static const int tint[] = {0, 128, 255};
    int bad = 0;
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            int s = (get(a, 0, x, y, 0) * 128 + 127) / 255;
            for (int k = 0; k < 3; k++)
                bad += get(out, 0, x, y, k) !=
                       (tint[k] * s + get(in, 0, x, y, k) * (255 - s) + 127) / 255;
            bad += get(out, 0, x, y, 3) != get(in, 0, x, y, 3);
        }
    CHECK_INT(bad, 0);
    tachy_frame_unref(&in), tachy_frame_unref(&a), tachy_frame_unref(&out);
}

TEST(side_by_side_has_the_frame_on_the_left)
{
    static const int widths[] = {1, 2, 7, 52, 53};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(widths); i++) {
        int w = widths[i];
        tachy_frame *in = noise(TACHY_PIX_YUV420P, w, H);
        struct tachy_result r = soft_result(w, H);
        struct tachy_composite_params p = {.mode = TACHY_MODE_SIDE_BY_SIDE,
                                           .color = 0x102030ff,
                                           .threshold = 0.5f,
                                           .feather = 0.6f};
        tachy_frame *out = run(p, in, &r, NULL);
        p.mode = TACHY_MODE_CUTOUT;
        tachy_frame *cut = run(p, in, &r, NULL);
        int bad = 0;
        for (int q = 0; q < 3; q++) {
            const struct tachy_pix_desc *d = tachy_pix_desc(in->format);
            int pw = plane_w(d, q, w), ow = plane_w(d, q, 2 * w);
            for (int y = 0; y < plane_h(d, q, H); y++)
                for (int x = 0; x < ow; x++)
                    bad += get(out, q, x, y, 0) !=
                           (x < pw ? get(in, q, x, y, 0) : get(cut, q, x - pw, y, 0));
        }
        CHECK_INT(out->width, 2 * w);
        CHECK_INT(bad, 0);
        tachy_frame_unref(&in), tachy_frame_unref(&out), tachy_frame_unref(&cut);
    }
}

TEST(alpha_keeps_420_samples_and_widens_others)
{
    tachy_frame *in = noise(TACHY_PIX_NV12, W, H);
    struct tachy_result r = soft_result(W, H);
    tachy_frame *a = alpha_of(in, &r);
    struct tachy_composite_params p = {.mode = TACHY_MODE_ALPHA,
                                       .threshold = 0.5f,
                                       .feather = 0.6f,
                                       .alpha_format = TACHY_PIX_YUVA420P};
    tachy_frame *out = run(p, in, &r, NULL);
    int bad = 0;
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            bad += get(out, 0, x, y, 0) != get(in, 0, x, y, 0) ||
                   get(out, 3, x, y, 0) != get(a, 0, x, y, 0);
            for (int k = 0; k < 2; k++)
                bad += get(out, 1 + k, x / 2, y / 2, 0) != get(in, 1, x / 2, y / 2, k);
        }
    CHECK_INT(bad, 0);
    tachy_frame_unref(&out);
    p.alpha_format = TACHY_PIX_YUVA444P10;
    out = run(p, in, &r, NULL);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            bad += get(out, 0, x, y, 0) != 4 * get(in, 0, x, y, 0);
            bad += get(out, 3, x, y, 0) != (get(a, 0, x, y, 0) * 1023 + 127) / 255;
            // left siting: even columns have a chroma sample, rows lie a quarter off
            int near = y / 2, other = TACHY_CLAMP(y & 1 ? near + 1 : near - 1, 0, (H + 1) / 2 - 1);
            if (!(x & 1))
                bad += get(out, 1, x, y, 0) !=
                       3 * get(in, 1, x / 2, near, 0) + get(in, 1, x / 2, other, 0);
        }
    CHECK_INT(bad, 0);
    tachy_frame_unref(&out), tachy_frame_unref(&in), tachy_frame_unref(&a);
}

TEST(alpha_as_rgba_follows_the_matrix)
{
    tachy_frame *in = noise(TACHY_PIX_YUV444P, W, H);
    in->color = (struct tachy_color){.matrix = 6, .range = 1};
    struct tachy_result r = soft_result(W, H);
    struct tachy_composite_params p = {
        .mode = TACHY_MODE_ALPHA, .threshold = 0.5f, .alpha_format = TACHY_PIX_RGBA};
    tachy_frame *out = run(p, in, &r, NULL);
    int bad = 0;
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            double l = (get(in, 0, x, y, 0) - 16) / 219.0, u = (get(in, 1, x, y, 0) - 128) / 224.0,
                   v = (get(in, 2, x, y, 0) - 128) / 224.0;
            double rgb[] = {l + 1.402 * v, l - 0.344136 * u - 0.714136 * v, l + 1.772 * u};
            for (int k = 0; k < 3; k++)
                bad += fabs(get(out, 0, x, y, k) - TACHY_CLAMP(rgb[k] * 255, 0.0, 255.0)) > 0.51;
        }
    CHECK_INT(bad, 0);
    tachy_frame_unref(&out), tachy_frame_unref(&in);
    in = noise(TACHY_PIX_BGRA, W, H);
    out = run(p, in, &r, NULL);
    for (int k = 0; k < 3; k++)
        CHECK_INT(get(out, 0, 20, 20, k), get(in, 0, 20, 20, 2 - k));
    tachy_frame_unref(&out), tachy_frame_unref(&in);
}

TEST(mask_in_yuv_uses_the_range_of_the_stream)
{
    tachy_frame *in = noise(TACHY_PIX_YUV420P10, W, H);
    struct tachy_result r = soft_result(W, H);
    tachy_frame *a = alpha_of(in, &r);
    struct tachy_composite_params p = {.mode = TACHY_MODE_MASK,
                                       .threshold = 0.5f,
                                       .feather = 0.6f,
                                       .mask_format = TACHY_PIX_YUV420P10};
    tachy_frame *out = run(p, in, &r, NULL);
    int bad = 0, n = 0;
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            int al = get(a, 0, x, y, 0);
            bad += get(out, 0, x, y, 0) != (int)lrint((940 * al + 64 * (255 - al)) / 255.0);
            bad += get(out, 1, x / 2, y / 2, 0) != 512;
            n += al >= 128;
        }
    CHECK_INT(bad, 0);
    CHECK(fabs((double)r.coverage - (double)n / (W * H)) < 1e-6);
    tachy_frame_unref(&in), tachy_frame_unref(&out), tachy_frame_unref(&a);
}

TEST(eyes_stay_in_their_regions)
{
    uint8_t white[4] = {255, 255, 255, 255}, black[4] = {0};
    struct tachy_result r = {
        .eyes = 2, .mask = {{white, 2, 2, 2, {0, 0, 20, 10}}, {black, 2, 2, 2, {20, 0, 20, 10}}}};
    tachy_frame *in = noise(TACHY_PIX_YUV420P, 41, 11); // a column and a row belong to no eye
    tachy_frame *out = run(
        (struct tachy_composite_params){.mode = TACHY_MODE_MASK, .threshold = 0.5f, .feather = 1},
        in, &r, NULL);
    int bad = 0;
    for (int y = 0; y < 11; y++)
        for (int x = 0; x < 41; x++)
            bad += get(out, 0, x, y, 0) != (x < 20 && y < 10 ? 255 : 0);
    CHECK_INT(bad, 0);
    tachy_frame_unref(&in), tachy_frame_unref(&out);
}

// A grey picture with a red person: no red may be seen in the blurred background.
TEST(blur_keeps_the_person_and_takes_nothing_of_it)
{
    enum { BW = 321, BH = 181 };
    static const enum tachy_pix formats[] = {TACHY_PIX_YUV420P, TACHY_PIX_NV12, TACHY_PIX_YUV422P10,
                                             TACHY_PIX_P010, TACHY_PIX_RGB24};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(formats); i++) {
        const struct tachy_pix_desc *d = tachy_pix_desc(formats[i]);
        struct tachy_result r = soft_result(BW, BH);
        tachy_frame *in = picture(formats[i], BW, BH), *a = NULL;
        for (int pass = 0; pass < 2; pass++) // first grey, for the alpha; then the person
            for (int q = 0; q < d->planes; q++)
                for (int y = 0; y < plane_h(d, q, BH); y++)
                    for (int x = 0; x < plane_w(d, q, BW); x++)
                        for (int k = 0; k < d->components[q]; k++) {
                            int al = pass ? alpha_at(a, d, q, x, y) : 0, grey = 90 + 10 * k;
                            put(in, q, x, y, k,
                                (grey * (255 - al) + (200 + rnd(40)) * al) / 255 << (d->bits - 8));
                            if (!pass && q == 0 && !x && !y && !k && !a)
                                a = alpha_of(in, &r);
                        }
        tachy_frame *out = run(
            (struct tachy_composite_params){
                .mode = TACHY_MODE_BLUR, .threshold = 0.5f, .feather = 0.6f, .blur = 0.05f},
            in, &r, NULL);
        int bad = 0, person = 0, background = 0;
        for (int q = 0; q < d->planes; q++)
            for (int y = 0; y < plane_h(d, q, BH); y++)
                for (int x = 0; x < plane_w(d, q, BW); x++)
                    for (int k = 0; k < d->components[q]; k++) {
                        int al = alpha_at(a, d, q, x, y), o = get(out, q, x, y, k),
                            unit = 1 << (d->bits - 8);
                        person += al == 255;
                        background += al == 0;
                        if (al == 255)
                            bad += o != get(in, q, x, y, k);
                        if (x < BW / 16) // far from the person: exactly grey
                            bad += abs(o - (90 + 10 * k) * unit) > (unit > 1 ? 1 : 0);
                        if (al == 0) // soft edge pixels count by their share of background only
                            bad += abs(o - (90 + 10 * k) * unit) > 40 * unit;
                    }
        CHECK_INT(bad, 0);
        CHECK(person > 1000 && background > 1000);
        tachy_frame_unref(&in), tachy_frame_unref(&out), tachy_frame_unref(&a);
    }
}

// A grating loses as much as a Gaussian of that standard deviation takes.
TEST(blur_has_the_radius_it_was_given)
{
    enum { N = 512 };
    for (int sigma = 4; sigma <= 24; sigma += 4) {
        tachy_frame *in = picture(TACHY_PIX_GRAY8, N, N);
        double step = 2 * 3.14159265358979 / (5.0 * sigma), peak = 0;
        for (int y = 0; y < N; y++)
            for (int x = 0; x < N; x++)
                put(in, 0, x, y, 0, (int)lrint(128 + 100 * sin(step * x)));
        struct tachy_result r = {.eyes = 0};
        tachy_frame *out = run((struct tachy_composite_params){.mode = TACHY_MODE_BLUR,
                                                               .threshold = 0.5f,
                                                               .blur = (float)sigma / N},
                               in, &r, NULL);
        for (int x = N / 4; x < 3 * N / 4; x++)
            peak = TACHY_MAX(peak, fabs(get(out, 0, x, N / 2, 0) - 128.0));
        double gauss = 100 * exp(-0.5 * step * sigma * step * sigma); // 45.4
        CHECK(peak > 0.65 * gauss && peak < 1.35 * gauss);
        tachy_frame_unref(&in), tachy_frame_unref(&out);
    }
}

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

TEST(json_has_lengths_and_outlines)
{
    uint8_t m[6] = {0, 255, 255, 0, 255, 255};
    struct tachy_result r = {.eyes = 1, .mask[0] = {m, 3, 2, 3, {0, 0, 3, 2}}};
    tachy_frame *in = noise(TACHY_PIX_GRAY8, 3, 2);
    in->pts = 9;
    tachy_composite *c;
    const char *line;
    CHECK_INT(tachy_composite_open(
                  &c, &(struct tachy_composite_params){.mode = TACHY_MODE_JSON, .threshold = 0.5f}),
              TACHY_OK);
    CHECK_INT(tachy_composite_json(c, in, &r, NULL, 0.25, &line), TACHY_OK);
    CHECK_STR(
        line,
        "{\"frame\":0,\"pts\":9,\"time\":0.250000,\"width\":3,\"height\":2,\"coverage\":0.666667,"
        "\"segmentation\":{\"size\":[2,3],\"counts\":\"24\"},\"polygons\":[[1,0,3,0,3,2,1,2]]}");
    tachy_composite_close(&c);
    tachy_frame_unref(&in);
}

// A picture goes through preprocess as if it were a mask, and comes back as it was.
TEST(masks_lie_as_preprocess_turned_the_picture)
{
    enum { PW = 24, PH = 16 };
    tachy_frame *f = picture(TACHY_PIX_GRAY8, PW, PH);
    for (int y = 0; y < PH; y++)
        for (int x = 0; x < PW; x++)
            put(f, 0, x, y, 0, 4 * x + 9 * y);
    f->color.range = 2;
    for (int turn = 0; turn < 8; turn++) {
        struct tachy_view view = {.rotation = turn % 4 * 90, .flip = turn >= 4};
        bool tall = view.rotation == 90 || view.rotation == 270;
        struct tachy_preprocess_params p = {.width = 40, .height = 40, .channels = TACHY_LUMA,
                                            .fit = TACHY_FIT_LETTERBOX, .scale = 1 / 255.0f};
        if (tall)
            p.width = PH, p.height = PW + 6; // letterbox above and below
        else
            p.width = PW + 6, p.height = PH; // left and right
        struct tachy_tensor t = {.dtype = TACHY_F32, .rank = 3, .shape = {p.height, p.width, 1}};
        struct tachy_placement pl;
        tachy_preprocess *pre;
        CHECK_INT(tachy_tensor_alloc(&t), TACHY_OK);
        CHECK_INT(tachy_preprocess_open(&pre, &p), TACHY_OK);
        CHECK_INT(tachy_preprocess_run(pre, f, &view, &t, &pl), TACHY_OK);
        struct tachy_mask_spec spec = {.meaning = TACHY_OUT_PROBABILITY};
        int w, h, worst = 0;
        tachy_mask_size(p.width, p.height, &pl, view.rotation, &w, &h);
        CHECK_INT(w, PW);
        CHECK_INT(h, PH);
        uint8_t m[PW * PH];
        CHECK_INT(tachy_mask_from_tensor(&spec, &t, &pl, view.rotation, view.flip, m, PW),
                  TACHY_OK);
        for (int i = 0; i < PW * PH; i++)
            worst = TACHY_MAX(worst, abs(m[i] - get(f, 0, i % PW, i / PW, 0)));
        CHECK(worst <= 1);
        tachy_preprocess_close(&pre);
        tachy_tensor_free(&t);
    }
    tachy_frame_unref(&f);
}

TEST(bad_arguments_are_refused)
{
    tachy_composite *c;
    CHECK_INT(tachy_composite_open(&c, &(struct tachy_composite_params){.threshold = NAN}),
              TACHY_ERR_INVAL);
    CHECK_INT(tachy_composite_open(&c, &(struct tachy_composite_params){.mode = TACHY_MODE_ALPHA}),
              TACHY_ERR_INVAL);
    CHECK_INT(
        tachy_composite_open(&c, &(struct tachy_composite_params){.mask_format = TACHY_PIX_RGB24}),
        TACHY_ERR_INVAL);
    CHECK_INT(tachy_composite_open(&c, &(struct tachy_composite_params){.isa = "mmx"}),
              TACHY_ERR_UNAVAILABLE);
    CHECK(c == NULL);
    struct tachy_video_info big = {.format = TACHY_PIX_GRAY8, .width = 40000, .height = 2}, o;
    CHECK_INT(tachy_composite_output(
                  &(struct tachy_composite_params){.mode = TACHY_MODE_SIDE_BY_SIDE}, &big, &o),
              TACHY_ERR_LIMIT);
    CHECK_INT(
        tachy_composite_open(&c, &(struct tachy_composite_params){.mode = TACHY_MODE_REPLACE}),
        TACHY_OK);
    tachy_frame *in = noise(TACHY_PIX_NV12, 8, 8), *small = noise(TACHY_PIX_NV12, 6, 8),
                *out = picture(TACHY_PIX_NV12, 8, 8);
    struct tachy_result r = soft_result(8, 8);
    CHECK_INT(tachy_composite_run(c, in, &r, NULL, NULL, out), TACHY_ERR_INVAL);
    CHECK_INT(tachy_composite_run(c, in, &r, NULL, small, out), TACHY_ERR_INVAL);
    CHECK_INT(tachy_composite_run(c, in, &r, NULL, in, small), TACHY_ERR_INVAL);
    tachy_frame *second = tachy_frame_ref(out);
    CHECK_INT(tachy_composite_run(c, in, &r, NULL, in, out), TACHY_ERR_STATE);
    tachy_frame_unref(&second);
    r.mask[0].data = NULL;
    CHECK_INT(tachy_composite_run(c, in, &r, NULL, in, out), TACHY_ERR_INVAL);
    tachy_frame_unref(&in), tachy_frame_unref(&small), tachy_frame_unref(&out);
    tachy_composite_close(&c);
    tachy_composite_close(&c);
}

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

// How far a pixel is from grey, in steps of 8 bits.
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
                double share = soft[y * BIG + x] / 255.0; // behind it the colour is that of the picture
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

TEST_MAIN(TEST_CASE(ramp_is_what_its_definition_says), TEST_CASE(wide_stretch_has_no_steps),
          TEST_CASE(blends_are_rounded_and_unchanged_pixels_exact),
          TEST_CASE(cutout_color_follows_matrix_and_range),
          TEST_CASE(overlay_tints_the_person_only),
          TEST_CASE(side_by_side_has_the_frame_on_the_left),
          TEST_CASE(alpha_keeps_420_samples_and_widens_others),
          TEST_CASE(alpha_as_rgba_follows_the_matrix),
          TEST_CASE(mask_in_yuv_uses_the_range_of_the_stream),
          TEST_CASE(eyes_stay_in_their_regions),
          TEST_CASE(blur_keeps_the_person_and_takes_nothing_of_it),
          TEST_CASE(blur_has_the_radius_it_was_given), TEST_CASE(guide_is_the_mean_of_the_region),
          TEST_CASE(smooth_holds_still_parts_and_follows_motion), TEST_CASE(smooth_follows_what_moves),
          TEST_CASE(refine_moves_the_edge_to_that_of_the_picture),
          TEST_CASE(masks_lie_as_preprocess_turned_the_picture),
          TEST_CASE(json_has_lengths_and_outlines), TEST_CASE(bad_arguments_are_refused),
          TEST_CASE(foreground_colours_have_no_fringe),
          TEST_CASE(despill_takes_the_screens_hue_out_of_edges), TEST_CASE(foreground_of_every_format))
