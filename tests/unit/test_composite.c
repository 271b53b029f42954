#include "composite_frames.h"

#include "postprocess/alpha.h"

#include <math.h>
#include <tachy/preprocess.h>

// The guarantees of composite, from its definitions; tests/check compares the vector versions with their twins.

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

TEST_MAIN(TEST_CASE(ramp_is_what_its_definition_says), TEST_CASE(wide_stretch_has_no_steps),
          TEST_CASE(blends_are_rounded_and_unchanged_pixels_exact), TEST_CASE(cutout_color_follows_matrix_and_range),
          TEST_CASE(overlay_tints_the_person_only), TEST_CASE(side_by_side_has_the_frame_on_the_left),
          TEST_CASE(alpha_keeps_420_samples_and_widens_others), TEST_CASE(alpha_as_rgba_follows_the_matrix),
          TEST_CASE(mask_in_yuv_uses_the_range_of_the_stream), TEST_CASE(eyes_stay_in_their_regions),
          TEST_CASE(blur_keeps_the_person_and_takes_nothing_of_it), TEST_CASE(blur_has_the_radius_it_was_given),
          TEST_CASE(json_has_lengths_and_outlines), TEST_CASE(masks_lie_as_preprocess_turned_the_picture),
          TEST_CASE(bad_arguments_are_refused))
