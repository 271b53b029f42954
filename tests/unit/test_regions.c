#include "test.h"

#include "postprocess/decode.h"
#include "postprocess/overlay.h"
#include "postprocess/text.h"
#include "ref/ref_nms.h"

#include <jansson.h>
#include <math.h>

static uint32_t seed = 1;
static float uniform(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / (1 << 24);
}

static bool near(double a, double b) { return fabs(a - b) < 1e-6 * (1 + fabs(b)); }

TEST(suppression_is_the_twin_s)
{
    enum { N = 200 };
    float box[N][4], score[N];
    int32_t classes[N], kept[N], order[N], want[N];
    for (int turn = 0; turn < 50; turn++) {
        int n = (int)(uniform() * N);
        for (int i = 0; i < n; i++) {
            box[i][0] = uniform() * 100, box[i][1] = uniform() * 100;
            box[i][2] = box[i][0] + uniform() * 40, box[i][3] = box[i][1] + uniform() * 40;
            score[i] = floorf(uniform() * 20) / 20; // many equal ones
            classes[i] = (int32_t)(uniform() * 3);
        }
        float most = uniform();
        int limit = 1 + (int)(uniform() * N);
        const int32_t *of = turn % 2 ? classes : NULL;
        int found = tachy_suppress(kept, box, score, of, n, most, limit, order);
        CHECK_INT(found, tachy_ref_nms(want, box, score, of, n, most, -1, limit));
        CHECK(!memcmp(kept, want, sizeof(*kept) * (size_t)found));
    }
}

// A region goes into a tensor by its view and comes back by the view's map.
TEST(a_region_comes_back_from_its_view)
{
    const struct tachy_preprocess_params p = {.width = 192, .height = 128};
    for (int i = 0; i < 20; i++) {
        struct tachy_region r = {.x = 300 + 100 * uniform(), .y = 200 * uniform(), .w = 20 + 80 * uniform(),
                                 .h = 30 + 90 * uniform(), .angle = 360 * uniform() - 180};
        struct tachy_region whole = {.x = 96, .y = 64, .w = 192, .h = 128};
        struct tachy_view view;
        double map[6];
        tachy_region_view(&r, p.width, p.height, &view);
        CHECK_INT(tachy_preprocess_map(&p, 640, 480, &view, map), TACHY_OK);
        tachy_region_to_frame(&whole, map);
        CHECK(near(whole.x, r.x) && near(whole.y, r.y) && near(whole.w, r.w) && near(whole.h, r.h));
        CHECK(near(whole.angle, r.angle));
        CHECK(near(tachy_region_overlap(&whole, &r), 1));
    }
}

// Positions of a whole picture's corners, rotated and mirrored, with each fit.
TEST(maps_of_views)
{
    struct tachy_preprocess_params p = {.width = 100, .height = 100, .fit = TACHY_FIT_LETTERBOX};
    double m[6];
    CHECK_INT(tachy_preprocess_map(&p, 200, 100, NULL, m), TACHY_OK); // 25 rows above and below
    CHECK(near(m[0] * 100 + m[2], 200) && near(m[4] * 25 + m[5], 0) && near(m[4] * 75 + m[5], 100));
    p.fit = TACHY_FIT_CROP;
    CHECK_INT(tachy_preprocess_map(&p, 200, 100, NULL, m), TACHY_OK);
    CHECK(near(m[2], 50) && near(m[0] * 100 + m[2], 150) && near(m[5], 0));
    p.fit = TACHY_FIT_STRETCH;
    const struct tachy_view turned = {.rotation = 90}, mirrored = {.flip = true};
    CHECK_INT(tachy_preprocess_map(&p, 200, 100, &turned, m), TACHY_OK); // upright's upper left is the lower left
    CHECK(near(m[2], 0) && near(m[5], 100) && near(m[1] * 100 + m[2], 200) && near(m[3] * 100 + m[5], 0));
    CHECK_INT(tachy_preprocess_map(&p, 200, 100, &mirrored, m), TACHY_OK);
    struct tachy_region r = {.x = 10, .y = 20, .w = 4, .h = 6};
    tachy_region_to_frame(&r, m);
    CHECK(near(r.x, 180) && near(r.y, 20) && near(r.w, 8) && near(r.h, 6) && near(r.angle, 0));
    const struct tachy_view empty = {.x = 300};
    CHECK_INT(tachy_preprocess_map(&p, 200, 100, &empty, m), TACHY_ERR_INVAL);
}

// As for a face: the line from eye to eye is horizontal in the crop.
TEST(a_crop_turns_with_its_points)
{
    struct tachy_point eyes[2] = {{100, 100, 0, 1}, {100, 150, 0, 1}};
    struct tachy_region r = {.x = 100, .y = 120, .w = 40, .h = 60, .points = eyes, .nb_points = 2};
    tachy_region_crop(&r, &(struct tachy_crop){.from = 0, .to = 1, .scale_x = 1.5, .scale_y = 1.5, .square = true});
    CHECK(near(r.angle, 90) && near(r.w, 90) && near(r.h, 90));
    r.angle = 90;
    tachy_region_crop(&r, &(struct tachy_crop){.shift_y = -0.5}); // up, which is to the right here
    CHECK(near(r.x, 145) && near(r.y, 120));
    tachy_region_crop(&r, &(struct tachy_crop){.from = 1, .to = 7}); // no such point
    CHECK(near(r.angle, 90));
}

// Two lists as another process receives them, after the originals are gone. Truncated bytes are refused at every
// length.
TEST(lists_as_bytes)
{
    struct tachy_regions from[2] = {{0}}, to[2] = {{0}};
    char label[] = "cup", name[] = "tea";
    const uint8_t pixels[6] = {1, 2, 0, 3, 4, 0};
    const float vector[3] = {0.5f, -1, 2};
    const struct tachy_named value = {name, 0.25};
    const struct tachy_point point[2] = {{1, 2, 3, 0.5f}, {4, 5, 6, 1}};
    const struct tachy_region r[2] = {{.x = 1.5, .track = 7, .label = label, .points = point, .nb_points = 2,
                                       .embedding = vector, .nb_embedding = 3, .values = &value, .nb_values = 1,
                                       .mask = {pixels, 2, 2, 3, {0, 0, 2, 2}}},
                                      {.score = 0.5f}};
    void *data;
    size_t size;
    CHECK_INT(tachy_regions_copy(&from[1], r, 2), TACHY_OK);
    label[0] = name[0] = 'x';
    CHECK_INT(tachy_regions_save(from, 2, &data, &size), TACHY_OK);
    for (int i = 0; i < 2; i++)
        tachy_regions_free(&from[i]);
    for (size_t n = 0; n < size; n++) {
        void *cut = malloc(n + 1); // of its extent, for AddressSanitizer
        memcpy(cut, data, n);
        CHECK_INT(tachy_regions_load(to, 2, cut, n), TACHY_ERR_FORMAT);
        CHECK(!to[0].nb && !to[1].nb);
        free(cut);
    }
    CHECK_INT(tachy_regions_load(to, 2, data, size), TACHY_OK);
    free(data);
    CHECK(to[0].nb == 0 && to[1].nb == 2);
    const struct tachy_region *a = &to[1].v[0];
    CHECK(a->x == 1.5 && a->track == 7 && to[1].v[1].score == 0.5f && !to[1].v[1].label && !to[1].v[1].points);
    CHECK_STR(a->label, "cup");
    CHECK_STR(a->values[0].name, "tea");
    CHECK(a->values[0].value == 0.25 && !memcmp(a->points, point, sizeof(point)) && a->embedding[2] == 2);
    CHECK(a->mask.stride == 2 && a->mask.data[1] == 2 && a->mask.data[3] == 4);
    for (int i = 0; i < 2; i++)
        tachy_regions_free(&to[i]);
}

TEST(lists_keep_what_regions_point_to)
{
    struct tachy_regions a = {0}, b = {0};
    uint8_t pixels[6] = {1, 2, 0, 3, 4, 0};
    for (int turn = 0; turn < 3; turn++) {
        tachy_regions_clear(&a);
        tachy_regions_clear(&b);
        for (int i = 0; i < 100; i++) {
            struct tachy_region *r = tachy_regions_add(&a);
            struct tachy_point *p = tachy_regions_alloc(&a, 500 * sizeof(*p));
            CHECK(r && p);
            memset(p, i, 500 * sizeof(*p));
            r->points = p;
            r->nb_points = 500;
            r->mask = (struct tachy_mask){pixels, 2, 2, 3, {0, 0, 2, 2}};
        }
        CHECK_INT(tachy_regions_copy(&b, a.v, a.nb), TACHY_OK);
        CHECK_INT(b.nb, 100);
        for (int i = 0; i < 100; i++) {
            CHECK(b.v[i].points != a.v[i].points &&
                  !memcmp(b.v[i].points, a.v[i].points, 500 * sizeof(struct tachy_point)));
            CHECK(b.v[i].mask.stride == 2 && b.v[i].mask.data[2] == 3 && b.v[i].mask.data[3] == 4);
        }
    }
    tachy_regions_free(&a);
    tachy_regions_free(&b);
}

// Every sample of a plane below `rows` that is in [x0, x1) x [y0, y1) changed, and no other.
static bool only_inside(const uint8_t *p, ptrdiff_t stride, int bytes, int comps, int w, int h, int x0, int y0, int x1, int y1)
{
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++) {
            bool in = x >= x0 && x < x1 && y >= y0 && y < y1;
            for (int i = 0; i < comps * bytes && comps < 4; i++)
                if (!in && p[y * stride + (x * comps * bytes + i)] != 0x55)
                    return false;
            if (in && comps < 3 && p[y * stride + x * comps * bytes + bytes - 1] == 0x55)
                return false;
        }
    }
    return true;
}

TEST(an_overlay_in_every_format)
{
    enum { W = 63, H = 41, ROW = 1024 };
    static uint8_t memory[4][ROW * H];
    for (int f = 1; f < TACHY_PIX_COUNT; f++) {
        const struct tachy_pix_desc *d = tachy_pix_desc((enum tachy_pix)f);
        struct tachy_frame_params p = {.format = (enum tachy_pix)f, .width = W, .height = H};
        memset(memory, 0x55, sizeof(memory));
        for (int i = 0; i < d->planes; i++) {
            p.data[i] = memory[i];
            p.stride[i] = ROW;
        }
        tachy_frame *frame = NULL;
        CHECK_INT(tachy_frame_new(&frame, &p), TACHY_OK);
        if (!frame)
            continue;
        struct tachy_shape box = {10, 12, 30, 20, -1, {1, 2, 3}, 255};
        struct tachy_shapes s = {&box, 1, 1};
        tachy_overlay_draw(&s, frame, p.data, p.stride);
        for (int i = 0; i < d->planes && i < 3; i++) {
            bool chroma = !d->rgb && i > 0;
            int sx = chroma ? d->chroma_shift_x : 0, sy = chroma ? d->chroma_shift_y : 0;
            CHECK(only_inside(memory[i], ROW, d->bytes, d->components[i], (W + sx) >> sx, (H + sy) >> sy, 10 >> sx,
                              12 >> sy, 30 >> sx, 20 >> sy));
        }
        tachy_frame_unref(&frame);
    }
}

// A mask without gaps gives a rectangle, also at the picture's edge; nothing outside it changes.
TEST(a_tint_is_a_rectangle)
{
    enum { W = 63, H = 41, ROW = 1024, WIDE = 22, HIGH = 9 };
    static uint8_t drawn[4][ROW * H], tinted[4][ROW * H], mask[WIDE * HIGH];
    memset(mask, 128, sizeof(mask));
    for (int f = 1; f < TACHY_PIX_COUNT; f++) {
        for (int at = 0; at < 2; at++) {
            const struct tachy_pix_desc *d = tachy_pix_desc((enum tachy_pix)f);
            struct tachy_shape box = {at ? W - WIDE : 11, at ? H - HIGH : 13, at ? W : 11 + WIDE, at ? H : 13 + HIGH, -1, {1, 2, 3}, 120};
            tachy_frame head = {.format = (enum tachy_pix)f, .width = W, .height = H};
            uint8_t *planes[2][4];
            ptrdiff_t stride[4] = {ROW, ROW, ROW, ROW};
            for (int i = 0; i < 4; i++) {
                planes[0][i] = drawn[i];
                planes[1][i] = tinted[i];
                for (int k = 0; k < ROW * H; k++)
                    drawn[i][k] = tinted[i][k] = (uint8_t)(d->bytes == 2 ? 0 : k * 7 + i);
            }
            struct tachy_canvas c = tachy_overlay_canvas(&head, planes[0], stride);
            tachy_ref_draw(&c, &box, 1);
            c = tachy_overlay_canvas(&head, planes[1], stride);
            tachy_ref_tint(&c, &box, mask, WIDE);
            CHECK(!memcmp(drawn, tinted, sizeof(drawn)));
        }
    }
}

// Regions with all that can be drawn, also far outside of the picture and without extents.
TEST(an_overlay_of_odd_regions)
{
    static uint8_t pixels[3];
    struct tachy_frame_params p = {.format = TACHY_PIX_RGB24, .width = 1, .height = 1, .data = {pixels}, .stride = {3}};
    struct tachy_point points[3] = {{0, 0, 0, 1}, {1e9f, -1e9f, 0, 1}, {NAN, 0, 0, 1}};
    struct tachy_region r[3] = {
        {.x = 0.5, .y = 0.5, .w = 1, .h = 1, .class_id = 1000, .label = "caf\xc3\xa9", .score = 1, .track = 1LL << 60},
        {.x = 1e9, .y = -1e9, .w = 1e9, .h = 0, .angle = 45, .class_id = -1, .track = -1},
        {.x = NAN, .y = NAN, .w = NAN, .h = NAN, .class_id = -1, .track = -1, .points = points, .nb_points = 3}};
    struct tachy_shapes s = {0};
    tachy_frame *f = NULL;
    CHECK_INT(tachy_frame_new(&f, &p), TACHY_OK);
    CHECK_INT(tachy_overlay_shapes(&s, &(struct tachy_overlay_params){0}, f, r, 3), TACHY_OK);
    tachy_overlay_draw(&s, f, p.data, p.stride);
    CHECK(tachy_overlay_text_width("caf\xc3\xa9", 6) == 22);
    tachy_shapes_free(&s);
    tachy_frame_unref(&f);
}

// Numbers come back bit for bit; names with quotes, breaks and other alphabets too.
TEST(regions_as_text)
{
    const float v[2] = {0.1f, NAN};
    const struct tachy_named named = {"a \"b\"\n", 1e-7};
    const struct tachy_point point = {1.0f / 3, 2e9f, 0, 1};
    const struct tachy_region r = {.x = 0.1, .y = 16777217, .w = 3, .h = 4, .angle = -7.25, .class_id = 2, .score = 0.7f,
                                   .label = "caf\xc3\xa9, \"noir\"", .track = 1LL << 40, .points = &point, .nb_points = 1,
                                   .embedding = v, .nb_embedding = 2, .values = &named, .nb_values = 1};
    struct tachy_text t = {0};
    tachy_regions_json(&t, &(tachy_frame){.id = 5, .pts = -3, .width = 7, .height = 9}, &(struct tachy_result){.regions = &r, .nb_regions = 1}, 0.2);
    json_t *o = json_loads(t.p, 0, NULL), *region = json_array_get(json_object_get(o, "regions"), 0);
    CHECK(json_integer_value(json_object_get(o, "frame")) == 5 && json_integer_value(json_object_get(o, "pts")) == -3);
    CHECK_STR(json_string_value(json_object_get(region, "label")), r.label);
    CHECK(json_integer_value(json_object_get(region, "track")) == r.track);
    CHECK((float)json_number_value(json_object_get(region, "score")) == r.score);
    json_t *box = json_object_get(region, "box"), *spot = json_array_get(json_object_get(region, "points"), 0);
    CHECK((float)json_number_value(json_array_get(box, 0)) == 0.1f && json_number_value(json_array_get(box, 1)) == 16777216);
    CHECK((float)json_number_value(json_array_get(spot, 0)) == point.x);
    CHECK(json_is_null(json_array_get(json_object_get(region, "embedding"), 1)));
    CHECK((float)json_number_value(json_object_get(json_object_get(region, "values"), named.name)) == 1e-7f);
    json_decref(o);
    t.len = 0;
    tachy_regions_csv(&t, &(tachy_frame){.id = 5}, &r, 1, NAN);
    CHECK_STR(t.p, "5,,0,1099511627776,2,\"caf\xc3\xa9, \"\"noir\"\"\",0.7,0.1,16777216,3,4,-7.25,0.33333334 2e+09\n");
    tachy_text_free(&t);
}

// The output of "%g" with the fewest of 6 to 9 digits that give the same float back; integers up to 2^24 without
// exponent.
TEST(numbers_as_text)
{
    struct tachy_text t = {0};
    for (int i = 0; i < 30000; i++) {
        char want[32] = "null";
        float v = (uniform() - 0.5f) * powf(10, floorf(uniform() * 14) - 5);
        v = i % 3 ? v : roundf(v * 100) / 100;
        v = i % 7 ? v : roundf(v / 1e8f * 16777216);
        v = i % 1000 ? v : i % 2000 ? NAN : i % 3000 ? INFINITY : 0;
        bool same = !isfinite(v);
        for (int digits = 6; digits <= 9 && !same; digits++) {
            snprintf(want, sizeof(want), "%.*g", digits, (double)v);
            same = strtof(want, NULL) == v;
        }
        if (fabsf(v) >= 1e6f && fabsf(v) <= 1 << 24 && v == roundf(v))
            snprintf(want, sizeof(want), "%d", (int)v);
        t.len = 0;
        tachy_text_number(&t, v);
        CHECK_STR(t.p, want);
    }
    tachy_text_free(&t);
}

TEST_MAIN(TEST_CASE(suppression_is_the_twin_s), TEST_CASE(a_region_comes_back_from_its_view), TEST_CASE(maps_of_views),
          TEST_CASE(a_crop_turns_with_its_points), TEST_CASE(lists_keep_what_regions_point_to), TEST_CASE(lists_as_bytes),
          TEST_CASE(an_overlay_in_every_format), TEST_CASE(an_overlay_of_odd_regions), TEST_CASE(a_tint_is_a_rectangle),
          TEST_CASE(regions_as_text),
          TEST_CASE(numbers_as_text))
