#include "test.h"

#include "postprocess/calm.h"
#include "stage/stages.h"
#include "stage/track.h"

#include <math.h>
#include <stdlib.h>

static const struct tachy_follow_params params = {
    .most = 2, .every = 5, .followed = {.scale_x = 1.5, .scale_y = 1.5, .square = true},
    .detected = {.scale_x = 1.5, .scale_y = 1.5, .square = true}};

static struct tachy_region at(double x, double y)
{
    return (struct tachy_region){.x = x, .y = y, .w = 40, .h = 50, .score = 0.9f, .track = -1};
}

// A network's output for a face at (x, y): corners of its box.
static bool see(struct tachy_follow *f, const struct tachy_follow_params *p, int i, double x, double y, float score,
                struct tachy_region *r, struct tachy_point points[2])
{
    points[0] = (struct tachy_point){(float)x - 20, (float)y - 25, 0, 1};
    points[1] = (struct tachy_point){(float)x + 20, (float)y + 25, 0, 1};
    *r = (struct tachy_region){.score = score, .points = points, .nb_points = 2, .track = -1};
    return tachy_follow_update(f, p, i, r);
}

TEST(a_thing_keeps_its_number)
{
    struct tachy_follow f = {0};
    struct tachy_region r, found[2] = {at(100, 100), at(300, 100)};
    struct tachy_point points[2];
    CHECK(tachy_follow_wants_detector(&f, &params));
    tachy_follow_detected(&f, &params, found, 2);
    CHECK_INT(f.nb, 2);
    for (int t = 0; t < 30; t++) {
        CHECK(!tachy_follow_wants_detector(&f, &params)); // as many as there may be
        for (int i = 0; i < 2; i++) {
            CHECK(see(&f, &params, i, 100 + 200 * i + 4 * t, 100, 0.9f, &r, points));
            CHECK_INT(r.track, i);
            CHECK(fabs(f.thing[i].crop.w - 75) < 1e-3 && fabs(f.thing[i].crop.x - r.x) < 1e-3);
        }
        tachy_follow_end(&f, &params);
    }
}

TEST(what_is_lost_is_looked_for_at_once)
{
    struct tachy_follow f = {0};
    struct tachy_region r, found[2] = {at(100, 100), at(104, 98)};
    struct tachy_point points[2];
    tachy_follow_detected(&f, &params, found, 2);
    CHECK_INT(f.nb, 1); // both are the same
    CHECK(!see(&f, &params, 0, 100, 100, 0.1f, &r, points));
    tachy_follow_end(&f, &params);
    CHECK_INT(f.nb, 0);
    CHECK(tachy_follow_wants_detector(&f, &params));
    tachy_follow_detected(&f, &params, found, 1);
    CHECK_INT(f.thing[0].id, 1); // a number is never given twice
    tachy_follow_reset(&f);
    CHECK(f.nb == 0 && f.next_id == 2);
}

TEST(a_thing_that_leaves_the_frame_is_lost)
{
    struct tachy_follow_params in_frame = params;
    struct tachy_follow f = {0};
    struct tachy_region r, found = at(590, 240);
    struct tachy_point points[2];
    in_frame.width = 640;
    in_frame.height = 480;
    tachy_follow_detected(&f, &in_frame, &found, 1);
    int seen = 0;
    while (seen < 100 && see(&f, &in_frame, 0, 600 + 10 * seen, 240, 0.9f, &r, points))
        seen++;
    CHECK_INT(seen, 6); // 600 to 650: 10 pixels of it are there
    tachy_follow_end(&f, &in_frame);
    CHECK_INT(f.nb, 0);
    tachy_follow_detected(&f, &in_frame, &found, 1);
    points[0] = (struct tachy_point){-1e6f, -1e6f, 0, 1};
    points[1] = (struct tachy_point){1e6f, 1e6f, 0, 1};
    r = (struct tachy_region){.score = 1, .points = points, .nb_points = 2, .track = -1};
    CHECK(!tachy_follow_update(&f, &in_frame, 0, &r)); // larger than any face
}

TEST(a_free_place_is_filled_now_and_then)
{
    struct tachy_follow f = {0};
    struct tachy_region r, found[2] = {at(300, 100), at(100, 100)};
    struct tachy_point points[2];
    int asked = 0;
    tachy_follow_detected(&f, &params, found + 1, 1);
    for (int t = 0; t < 20; t++) {
        if (tachy_follow_wants_detector(&f, &params)) {
            asked++;
            tachy_follow_detected(&f, &params, found + 1, 1);
        }
        CHECK_INT(f.nb, 1);
        CHECK(see(&f, &params, 0, 100, 100, 0.9f, &r, points));
        tachy_follow_end(&f, &params);
    }
    CHECK_INT(asked, 3);
    tachy_follow_detected(&f, &params, found, 2);
    CHECK_INT(f.nb, 2);
    // The second walks behind the first: the younger track is dropped.
    CHECK(see(&f, &params, 0, 100, 100, 0.9f, &r, points) && see(&f, &params, 1, 101, 100, 0.9f, &r, points));
    tachy_follow_end(&f, &params);
    CHECK(f.nb == 1 && f.thing[0].id == 0);
}

static double noise(void)
{
    static uint32_t seed = 7;
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / (1 << 23) - 1;
}

static const struct tachy_one_euro filter = {.min_cutoff = 1, .beta = 30};

// A face that the network sees at (x, y), 0.04 s after the previous frame; returns its filtered position.
static struct tachy_region calmed(struct tachy_calm *c, int64_t id, double x, double y, struct tachy_point points[2])
{
    points[0] = (struct tachy_point){(float)x - 20, (float)y - 25, 0, 1};
    points[1] = (struct tachy_point){(float)x + 20, (float)y + 25, 0, 1};
    struct tachy_region r = {.x = x, .y = y, .w = 40, .h = 50, .points = points, .nb_points = 2, .track = id};
    CHECK_INT(tachy_calm_run(c, &filter, &r, 1, 0.04), TACHY_OK);
    return r;
}

// Still points tremble less; moving ones lag by less than a frame at 2 Hz.
TEST(points_are_calmed)
{
    struct tachy_calm c = {0};
    struct tachy_point points[2];
    double sum = 0, lag = 0;
    for (int t = 0; t < 200; t++) {
        double x = calmed(&c, 0, 100 + 0.25 * noise(), 100, points).x;
        if (t > 20)
            sum += fabs(x - 100);
    }
    CHECK(sum / 179 < 0.5 * 0.125); // the noise's mean is 0.125
    for (int t = 0; t < 100; t++) {
        double x = 100 + 20 * sin(2 * 3.14159265 * 2 * t * 0.04), before = 100 + 20 * sin(2 * 3.14159265 * 2 * (t - 1) * 0.04);
        double is = calmed(&c, 0, x, 100, points).x;
        if (t > 20 && fabs(x - before) > 4)
            lag = fmax(lag, (x - is) / (x - before));
    }
    CHECK(lag < 1);
    tachy_calm_free(&c);
}

// Points of one number do not affect another's, and a number that was away starts afresh.
TEST(each_number_is_calmed_by_itself)
{
    struct tachy_calm c = {0};
    struct tachy_point points[2];
    CHECK(calmed(&c, 0, 100, 100, points).x == 100);
    CHECK(calmed(&c, 1, 300, 100, points).x == 300);
    CHECK(calmed(&c, 1, 310, 100, points).x < 310);
    CHECK(calmed(&c, 0, 110, 100, points).x == 110);
    CHECK_INT(tachy_calm_run(&c, &filter, NULL, 0, 0.04), TACHY_OK);
    CHECK_INT(c.nb, 0);
    tachy_calm_free(&c);
}

// States that were saved in the middle go on as those that were not, to the same points.
TEST(a_saved_state_goes_on)
{
    struct tachy_calm one = {0}, other = {0};
    struct tachy_point a[2], b[2];
    void *data;
    size_t size;
    for (int t = 0; t < 10; t++)
        calmed(&one, 7, 100 + 3 * t, 100, a);
    CHECK_INT(tachy_calm_save(&one, &data, &size), TACHY_OK);
    CHECK_INT(tachy_calm_load(&other, data, size), TACHY_OK);
    calmed(&one, 7, 140, 110, a);
    calmed(&other, 7, 140, 110, b);
    CHECK(!memcmp(a, b, sizeof(a)));
    tachy_calm_free(&other);
    for (size_t n = 0; n < size; n += 1 + n / 3) { // cut off anywhere, or too long
        CHECK_INT(tachy_calm_load(&other, data, n), TACHY_ERR_FORMAT);
        CHECK_INT(other.nb, 0);
    }
    ((struct tachy_calm *)data)->nb = 0;
    CHECK_INT(tachy_calm_load(&other, data, size), TACHY_ERR_FORMAT);
    ((struct tachy_calm *)data)->nb = TACHY_MAX_FOLLOWED + 1;
    CHECK_INT(tachy_calm_load(&other, data, size), TACHY_ERR_FORMAT);
    ((struct tachy_calm *)data)->nb = 1;
    ((struct tachy_calm *)data)->thing[0].nb_points = -1;
    CHECK_INT(tachy_calm_load(&other, data, size), TACHY_ERR_FORMAT);
    free(data);
    tachy_calm_free(&one);
}

TEST(a_saved_track_goes_on)
{
    struct tachy_follow f = {.next_id = 9}, other = {0};
    struct tachy_region found[2] = {at(100, 100), at(300, 100)};
    void *data;
    size_t size;
    tachy_follow_detected(&f, &params, found, 2);
    const struct tachy_stage stage = {.ops = &tachy_stage_track};
    CHECK_INT(tachy_stage_state_save(&stage, &f, &data, &size), TACHY_OK);
    CHECK_INT(tachy_stage_state_load(&stage, &other, data, size), TACHY_OK);
    CHECK(!memcmp(&f, &other, sizeof(f)));
    CHECK_INT(tachy_stage_state_load(&stage, &other, data, size - 1), TACHY_ERR_FORMAT);
    for (int nb = -1; nb <= TACHY_MAX_FOLLOWED + 1; nb += TACHY_MAX_FOLLOWED + 2) {
        ((struct tachy_follow *)data)->nb = nb;
        CHECK_INT(tachy_stage_state_load(&stage, &other, data, size), TACHY_ERR_FORMAT);
    }
    free(data);
}

// Unreported points define the next crop: the square around the first, with the second on its edge.
TEST(points_that_are_not_told_place_the_crop)
{
    struct tachy_follow_params p = params;
    struct tachy_follow f = {0};
    struct tachy_region found = at(100, 100);
    p.told = 2;
    p.followed = (struct tachy_crop){.from = 2, .to = 3, .angle = -90, .around = true, .scale_x = 1.25, .scale_y = 1.25};
    tachy_follow_detected(&f, &p, &found, 1);
    struct tachy_point points[4] = {{90, 80, 0, 1}, {110, 140, 0, 1}, {100, 120, 0, 1}, {140, 120, 0, 1}}; // it lies, head to the right
    struct tachy_region r = {.score = 1, .points = points, .nb_points = 4, .track = -1};
    CHECK(tachy_follow_update(&f, &p, 0, &r));
    CHECK_INT(r.nb_points, 2);
    CHECK(fabs(r.x - 100) < 1e-3 && fabs(r.y - 110) < 1e-3 && fabs(r.w - 20) < 1e-3 && fabs(r.h - 60) < 1e-3);
    const struct tachy_region *crop = &f.thing[0].crop;
    CHECK(fabs(crop->x - 100) < 1e-3 && fabs(crop->y - 120) < 1e-3 && fabs(crop->w - 100) < 1e-3 && fabs(crop->h - 100) < 1e-3);
    CHECK(fabs(crop->angle - 90) < 1e-3);
}

TEST_MAIN(TEST_CASE(a_thing_keeps_its_number), TEST_CASE(what_is_lost_is_looked_for_at_once),
          TEST_CASE(a_thing_that_leaves_the_frame_is_lost), TEST_CASE(a_free_place_is_filled_now_and_then), TEST_CASE(points_are_calmed),
          TEST_CASE(each_number_is_calmed_by_itself), TEST_CASE(a_saved_state_goes_on), TEST_CASE(a_saved_track_goes_on),
          TEST_CASE(points_that_are_not_told_place_the_crop))
