#include "test.h"

#include "postprocess/focus.h"
#include "postprocess/mask.h"
#include "stage/watch.h"

#include <math.h>
#include <stdlib.h>

// The planner of regions on simulated people, and what joins their masks.

enum { W = 1280, H = 720 };

static struct tachy_focus_box person_at(double x, double y, double w, double h)
{
    return (struct tachy_focus_box){x - w / 2, y - h / 2, x + w / 2, y + h / 2};
}

static bool holds(const struct tachy_rect *r, const struct tachy_focus_box *b)
{
    return r->x <= b->x0 && r->y <= b->y0 && r->x + r->w >= b->x1 && r->y + r->h >= b->y1;
}

static bool equal(const struct tachy_rect *a, const struct tachy_rect *b)
{
    return a->x == b->x && a->y == b->y && a->w == b->w && a->h == b->h;
}

// One frame with this person in it; sets the parts and returns how many. *looks counts.
static int frame(struct tachy_focus *f, const struct tachy_focus_box *person,
                 struct tachy_rect part[TACHY_FOCUS_MOST + 1], int *looks)
{
    if (tachy_focus_due(f)) {
        ++*looks;
        if (f->nb)
            tachy_focus_saw(f, 0, person);
        else
            tachy_focus_found(f, person);
        tachy_focus_looked(f);
    }
    return tachy_focus_parts(f, part);
}

TEST(a_region_rests_while_a_person_sways)
{
    struct tachy_focus f;
    struct tachy_rect part[TACHY_FOCUS_MOST + 1], first;
    int looks = 0;
    tachy_focus_begin(&f, W, H);
    for (int t = 0; t < 200; t++) {
        const struct tachy_focus_box b = person_at(640 + 3 * sin(t * 0.2), 400, 100, 300);
        CHECK_INT(frame(&f, &b, part, &looks), 1);
        first = t ? first : part[0];
        CHECK(equal(&first, &part[0]));
        CHECK(holds(&part[0], &b));
        CHECK(part[0].x % 2 == 0 && part[0].y % 2 == 0);
    }
    CHECK(looks < 25); // they become rare
}

TEST(a_view_keeps_up_with_somebody_who_sways_fast)
{
    struct tachy_focus f;
    struct tachy_rect part[TACHY_FOCUS_MOST + 1];
    int looks = 0;
    tachy_focus_begin(&f, W, H);
    for (int t = 0; t < 100; t++) { // at either end a look finds hardly any movement
        const struct tachy_focus_box b = person_at(640 + 60 * sin(t * 0.3), 400, 330, 400);
        if (f.nb && fabs(b.x0 - f.one[0].person.x0) > 0.08 * 330)
            tachy_focus_hurry(&f);
        CHECK_INT(frame(&f, &b, part, &looks), 1);
        CHECK(holds(&part[0], &b));
    }
    CHECK(looks < 75);
}

TEST(a_change_at_the_edge_brings_a_look)
{
    struct tachy_focus f;
    struct tachy_rect part[TACHY_FOCUS_MOST + 1];
    const struct tachy_focus_box b = person_at(640, 400, 100, 300), there = person_at(665, 400, 100, 300);
    int looks = 0;
    tachy_focus_begin(&f, W, H);
    for (int t = 0; t < 60; t++)
        frame(&f, &b, part, &looks);
    int before = looks;
    while (looks == before) // the next one is far off then
        frame(&f, &b, part, &looks);
    before = looks;
    for (int t = 0; t < 3 && looks == before; t++) {
        tachy_focus_hurry(&f);
        frame(&f, &there, part, &looks);
    }
    CHECK_INT(looks, before + 1);
    CHECK(holds(&part[0], &there));
    // A camera that pans changes every frame: looks that find nobody moved become as rare as without.
    before = looks;
    for (int t = 0; t < 150; t++) {
        tachy_focus_hurry(&f);
        frame(&f, &there, part, &looks);
    }
    CHECK(looks - before < 24);
    CHECK(tachy_focus_sound(&f));
    f.patience = 0;
    CHECK(!tachy_focus_sound(&f));
}

TEST(a_state_from_a_file_is_checked)
{
    struct tachy_focus f, bad;
    struct tachy_rect part[TACHY_FOCUS_MOST + 1];
    const struct tachy_focus_box b = person_at(1250, 400, 100, 300); // partly outside the frame
    int looks = 0;
    tachy_focus_begin(&f, W, H);
    CHECK(tachy_focus_sound(&f));
    frame(&f, &b, part, &looks);
    CHECK(tachy_focus_sound(&f));
    bad = f;
    bad.one[0].view.x1 = W + 1;
    CHECK(!tachy_focus_sound(&bad));
    bad = f;
    bad.one[0].goal.y0 = NAN;
    CHECK(!tachy_focus_sound(&bad));
    bad = f;
    bad.one[0].person.x0 = INFINITY;
    CHECK(!tachy_focus_sound(&bad));
    bad = f;
    bad.nb = TACHY_FOCUS_MOST + 1;
    CHECK(!tachy_focus_sound(&bad));
    bad = f;
    memset(&bad.crowd, 7, sizeof(bad.crowd));
    CHECK(!tachy_focus_sound(&bad));
}

TEST(a_region_follows_who_walks)
{
    struct tachy_focus f;
    struct tachy_rect part[TACHY_FOCUS_MOST + 1];
    int looks = 0, cropped = 0;
    tachy_focus_begin(&f, W, H);
    for (int t = 0; t < 200; t++) {
        const struct tachy_focus_box b = person_at(150 + 5 * t, 400, 100, 300);
        CHECK_INT(frame(&f, &b, part, &looks), 1);
        cropped += !holds(&part[0], &b);
        CHECK(part[0].w <= 3 * 100 && part[0].x >= 0 && part[0].x + part[0].w <= W);
    }
    CHECK_INT(cropped, 0);
    CHECK(looks > 40);
}

TEST(a_region_becomes_narrower_slowly_and_wider_at_once)
{
    struct tachy_focus f;
    struct tachy_rect part[TACHY_FOCUS_MOST + 1], before = {0};
    struct tachy_focus_box b = person_at(640, 360, 200, 400);
    int looks = 0;
    tachy_focus_begin(&f, W, H);
    for (int t = 0; t < 120; t++) {
        if (t == 40)
            b = person_at(640, 360, 100, 200);
        frame(&f, &b, part, &looks);
        if (t > 0)
            CHECK(abs(part[0].h - before.h) <= 0.15 * 400 + 16); // no jump
        before = part[0];
    }
    CHECK(part[0].h < 320);
    b = person_at(640, 360, 220, 420);
    for (int t = 0; t < 15; t++)
        frame(&f, &b, part, &looks);
    CHECK(holds(&part[0], &b));
}

TEST(only_a_person_who_fills_the_frame_is_the_whole_frame)
{
    struct tachy_focus f;
    struct tachy_rect part[TACHY_FOCUS_MOST + 1];
    struct tachy_focus_box b = person_at(640, 360, 1200, 700);
    int looks = 0;
    tachy_focus_begin(&f, W, H);
    CHECK_INT(frame(&f, &b, part, &looks), 0);
    CHECK(!tachy_focus_nobody(&f));
    b = person_at(640, 400, 500, 600);
    for (int t = 0; t < 40; t++)
        frame(&f, &b, part, &looks);
    CHECK_INT(frame(&f, &b, part, &looks), 1);
    CHECK(holds(&part[0], &b) && part[0].w < W);
}

TEST(several_people_and_a_crowd_have_the_whole_frame_too)
{
    struct tachy_focus f;
    struct tachy_rect part[TACHY_FOCUS_MOST + 1];
    tachy_focus_begin(&f, W, H);
    CHECK(tachy_focus_due(&f));
    for (int i = 0; i < 2; i++)
        tachy_focus_found(&f, &(struct tachy_focus_box){200 + 400 * i, 300, 300 + 400 * i, 600});
    CHECK(tachy_focus_knows(&f, &(struct tachy_focus_box){210, 310, 290, 590}));
    tachy_focus_looked(&f);
    CHECK_INT(tachy_focus_parts(&f, part), 3);
    CHECK(part[0].w == W && part[0].h == H && part[1].x < part[2].x);
    for (int i = 2; i < 5; i++)
        tachy_focus_found(&f, &(struct tachy_focus_box){20 + 300 * i, 300, 120 + 300 * i, 600});
    CHECK_INT(f.nb, TACHY_FOCUS_MOST);
}

TEST(who_is_lost_is_gone_and_a_cut_forgets_all)
{
    struct tachy_focus f;
    struct tachy_rect part[TACHY_FOCUS_MOST + 1];
    const struct tachy_focus_box b = person_at(300, 400, 100, 300);
    int looks = 0;
    tachy_focus_begin(&f, W, H);
    CHECK(!tachy_focus_nobody(&f)); // nobody has looked
    frame(&f, &b, part, &looks);
    while (!tachy_focus_due(&f))
        tachy_focus_parts(&f, part);
    tachy_focus_looked(&f); // not seen
    CHECK_INT(f.nb, 0);
    CHECK(tachy_focus_nobody(&f));
    CHECK_INT(tachy_focus_parts(&f, part), 0);
    tachy_focus_cut(&f);
    CHECK(tachy_focus_due(&f));
    CHECK(!tachy_focus_nobody(&f));
}

TEST(two_who_meet_share_a_region)
{
    struct tachy_focus f;
    struct tachy_rect part[TACHY_FOCUS_MOST + 1];
    tachy_focus_begin(&f, W, H);
    CHECK(tachy_focus_due(&f));
    tachy_focus_found(&f, &(struct tachy_focus_box){200, 300, 300, 600});
    tachy_focus_found(&f, &(struct tachy_focus_box){500, 300, 600, 600});
    tachy_focus_looked(&f);
    tachy_focus_saw(&f, 0, &(struct tachy_focus_box){350, 300, 450, 600});
    tachy_focus_saw(&f, 1, &(struct tachy_focus_box){380, 300, 480, 600});
    tachy_focus_looked(&f);
    CHECK_INT(f.nb, 1);
    CHECK_INT(tachy_focus_parts(&f, part), 1);
    CHECK(holds(&part[0], &(struct tachy_focus_box){350, 300, 480, 600}));
}

TEST(tiles_cover_the_frame)
{
    struct tachy_focus f;
    struct tachy_focus_box t;
    tachy_focus_begin(&f, W, H);
    CHECK(tachy_focus_tile(&f, 1, 0, &t) && t.x1 == W && t.y1 == H && !tachy_focus_tile(&f, 1, 1, &t));
    for (int level = 2; level < 5; level++) {
        // Whoever is of the level's height or smaller is in one tile as a whole, wherever it is.
        for (int y = 0; y + 0.3 * H / level <= H; y += 7)
            for (int x = 0; x + 0.3 * H / level <= W; x += 7) {
                bool in = false;
                for (int i = 0; tachy_focus_tile(&f, level, i, &t); i++)
                    in |= t.x0 <= x && t.y0 <= y && t.x1 >= x + 0.3 * H / level && t.y1 >= y + 0.3 * H / level;
                CHECK(in);
            }
    }
}

TEST(a_search_keeps_the_best_of_several_people)
{
    struct tachy_focus_search s = {.nb = 0};
    for (int i = 0; i < 20; i++)
        tachy_focus_consider(&s, &(struct tachy_focus_candidate){{0, 0, 100, 200}, 0.9 - 0.001 * i});
    CHECK_INT(s.nb, 2);
    for (int i = 0; i < 9; i++)
        tachy_focus_consider(
            &s, &(struct tachy_focus_candidate){{200 * i + 200, 0, 200 * i + 300, 200}, 0.5 + 0.05 * i});
    CHECK_INT(s.nb, TACHY_FOCUS_CANDIDATES);
    for (int i = 1; i < s.nb; i++)
        CHECK(s.c[i].merit <= s.c[i - 1].merit);
    CHECK(s.c[0].merit == 0.9 && s.c[2].merit == 0.899);
}

TEST(a_mask_has_a_box_without_specks)
{
    enum { N = 256 };
    static uint8_t mask[N * N];
    struct tachy_focus_box b;
    double sharp;
    memset(mask, 0, sizeof(mask));
    CHECK(!tachy_focus_mask_box(mask, N, N, &b, &sharp));
    for (int y = 64; y < 192; y++)
        memset(&mask[y * N + 32], 255, 96);
    mask[250 * N + 250] = 255;
    CHECK(tachy_focus_mask_box(mask, N, N, &b, &sharp));
    CHECK(b.x0 == 32 && b.y0 == 64 && b.x1 == 128 && b.y1 == 192);
    CHECK(sharp > 0.99);
    for (int y = 64; y < 192; y++)
        memset(&mask[y * N + 32], 140, 96);
    CHECK(tachy_focus_mask_box(mask, N, N, &b, &sharp));
    CHECK(sharp < 0.01);
}

// ---- A picture that shows nobody

// A grey frame with noise of a camera, and a lighter box in it.
static void picture(struct tachy_signature *s, const struct tachy_rect *box)
{
    static uint8_t luma[W * H];
    const tachy_frame f = {.format = TACHY_PIX_GRAY8, .width = W, .height = H, .data = {luma}, .stride = {W}};
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            bool in = x >= box->x && y >= box->y && x < box->x + box->w && y < box->y + box->h;
            luma[y * W + x] = (uint8_t)(100 + rand() % 11 + (in ? 40 : 0));
        }
    CHECK_INT(tachy_signature_make(s, &f, NULL), TACHY_OK);
}

TEST(an_empty_picture_is_searched_where_it_changes)
{
    const struct tachy_rect none = {0}, people[] = {{600, 300, 40, 120}, {1240, 640, 40, 80}, {0, 0, 30, 90}};
    struct tachy_watch w = {.x0 = 0};
    struct tachy_signature now;
    struct tachy_focus_box b;
    picture(&now, &none);
    CHECK(tachy_watch_see(&w, &now) == 1); // nothing was known
    CHECK(!tachy_watch_part(&w, W, H, &b)); // all of it
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(people); i++) {
        const struct tachy_rect *p = &people[i];
        picture(&now, &none);
        w.seen = now;
        picture(&now, &none);
        CHECK(tachy_watch_see(&w, &now) == 0);
        picture(&now, p);
        CHECK(tachy_watch_see(&w, &now) > 0);
        w.seen = now;
        CHECK(tachy_watch_see(&w, &now) == 0); // but nobody has looked there yet
        CHECK(tachy_watch_part(&w, W, H, &b));
        CHECK(b.x0 >= 0 && b.y0 >= 0 && b.x1 <= W && b.y1 <= H);
        CHECK(b.x0 <= p->x && b.y0 <= p->y && b.x1 >= p->x + p->w && b.y1 >= p->y + p->h);
        CHECK(b.x1 - b.x0 < 2.5 * 120 && b.y1 - b.y0 < 2.5 * 120);
        CHECK(!tachy_watch_part(&w, W, H, &b)); // now they have
    }
}

TEST(a_watch_from_a_file_is_checked)
{
    struct tachy_watch w;
    struct tachy_signature now;
    struct tachy_focus_box b;
    memset(&w, 0x7f, sizeof(w));
    tachy_watch_check(&w);
    picture(&now, &(struct tachy_rect){0});
    tachy_watch_see(&w, &now);
    if (tachy_watch_part(&w, W, H, &b))
        CHECK(b.x0 >= 0 && b.y0 >= 0 && b.x1 <= W && b.y1 <= H);
}

// ---- Joined masks

// Bilinear, edges repeated, in float64.
static double sampled(const struct tachy_mask *m, double x, double y)
{
    double u = (x - m->region.x) * m->width / m->region.w - 0.5, v = (y - m->region.y) * m->height / m->region.h - 0.5;
    u = u < 0 ? 0 : u > m->width - 1 ? m->width - 1 : u;
    v = v < 0 ? 0 : v > m->height - 1 ? m->height - 1 : v;
    int x0 = (int)u, y0 = (int)v, x1 = x0 + (x0 < m->width - 1), y1 = y0 + (y0 < m->height - 1);
    const uint8_t *a = m->data + y0 * m->stride, *b = m->data + y1 * m->stride;
    u -= x0;
    v -= y0;
    return (a[x0] * (1 - u) + a[x1] * u) * (1 - v) + (b[x0] * (1 - u) + b[x1] * u) * v;
}

static void check_join(int frame_w, int frame_h, const struct tachy_rect *r, int pw, int ph, bool whole)
{
    int w, h;
    tachy_mask_joined_size(frame_w, frame_h, &w, &h);
    CHECK(w <= TACHY_MASK_JOINED && h <= TACHY_MASK_JOINED);
    uint8_t *to = malloc((size_t)w * (size_t)h), *from = malloc((size_t)pw * (size_t)ph);
    memset(to, 77, (size_t)w * (size_t)h);
    for (int i = 0; i < pw * ph; i++)
        from[i] = (uint8_t)(rand() & 255);
    const struct tachy_mask part = {from, pw, ph, pw, *r};
    tachy_mask_join(to, w, h, frame_w, frame_h, &part);
    double sx = (double)frame_w / w, sy = (double)frame_h / h;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            double fx = (x + 0.5) * sx, fy = (y + 0.5) * sy;
            bool in = fx >= r->x && fy >= r->y && fx < r->x + r->w && fy < r->y + r->h;
            double dx = fmin(r->x ? fx - r->x : r->w, r->x + r->w < frame_w ? r->x + r->w - fx : r->w) * 16 / r->w;
            double dy = fmin(r->y ? fy - r->y : r->h, r->y + r->h < frame_h ? r->y + r->h - fy : r->h) * 16 / r->h;
            double weight = in ? fmin(fmin(dx, dy), 1) : 0;
            double want = 77 + weight * (sampled(&part, fx, fy) - 77);
            // Weights are of 1/256 each, of 255 levels.
            CHECK(fabs(to[y * w + x] - want) <= 2.5);
            if (whole)
                CHECK(weight == 1);
        }
    free(to);
    free(from);
}

TEST(parts_are_joined_without_a_seam)
{
    check_join(1280, 720, &(struct tachy_rect){200, 96, 300, 500}, 256, 256, false);
    check_join(1280, 720, &(struct tachy_rect){0, 0, 1280, 720}, 256, 144, true);
    check_join(1279, 719, &(struct tachy_rect){800, 400, 479, 319}, 144, 256, false); // at two edges of the frame
    check_join(64, 48, &(struct tachy_rect){8, 8, 16, 16}, 1, 1, false);
    check_join(3840, 2160, &(struct tachy_rect){0, 1000, 33, 17}, 256, 256, false);
}

TEST_MAIN(TEST_CASE(a_region_rests_while_a_person_sways),
          TEST_CASE(a_view_keeps_up_with_somebody_who_sways_fast),
          TEST_CASE(a_change_at_the_edge_brings_a_look), TEST_CASE(a_state_from_a_file_is_checked),
          TEST_CASE(a_region_follows_who_walks),
          TEST_CASE(a_region_becomes_narrower_slowly_and_wider_at_once),
          TEST_CASE(only_a_person_who_fills_the_frame_is_the_whole_frame),
          TEST_CASE(several_people_and_a_crowd_have_the_whole_frame_too),
          TEST_CASE(who_is_lost_is_gone_and_a_cut_forgets_all),
          TEST_CASE(two_who_meet_share_a_region),
          TEST_CASE(tiles_cover_the_frame),
          TEST_CASE(a_search_keeps_the_best_of_several_people),
          TEST_CASE(a_mask_has_a_box_without_specks),
          TEST_CASE(an_empty_picture_is_searched_where_it_changes),
          TEST_CASE(a_watch_from_a_file_is_checked),
          TEST_CASE(parts_are_joined_without_a_seam))
