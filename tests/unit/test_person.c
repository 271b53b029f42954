#include "test.h"

#include "base/base.h"
#include "postprocess/person.h"

// Which part of a mask is kept, and that the choice is stable.

enum { W = 120, H = 80 };

static uint8_t mask[W * H];

static void clear(void) { memset(mask, 0, sizeof(mask)); }

// A person of value 200 with a soft edge of 40.
static void add(int x, int y, int w, int h)
{
    for (int j = TACHY_MAX(y - 2, 0); j < TACHY_MIN(y + h + 2, H); j++)
        for (int i = TACHY_MAX(x - 2, 0); i < TACHY_MIN(x + w + 2, W); i++) {
            bool in = i >= x && i < x + w && j >= y && j < y + h;
            mask[j * W + i] = TACHY_MAX(mask[j * W + i], in ? 200 : 40);
        }
}

static int at(int x, int y) { return mask[y * W + x]; }

static struct tachy_buf scratch;

static void keep(struct tachy_person *p, enum tachy_person_rule rule, int nth)
{
    struct tachy_person_choice c = {.rule = rule, .nth = nth};
    CHECK_INT(tachy_person_keep(p, &c, &scratch, mask, W, H, false), TACHY_OK);
}

TEST(each_rule_keeps_its_own_with_the_soft_edge)
{
    static const struct {
        enum tachy_person_rule rule;
        int nth, x; // the one who is kept: at 15, 62 or 100; 0: nobody
    } t[] = {{TACHY_PERSON_LARGEST, 0, 15}, {TACHY_PERSON_CENTER, 0, 62}, {TACHY_PERSON_NTH, 1, 15},
             {TACHY_PERSON_NTH, 2, 62},     {TACHY_PERSON_NTH, 3, 100},   {TACHY_PERSON_NTH, 4, 0}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(t); i++) {
        struct tachy_person p = {0};
        clear();
        add(5, 20, 20, 50), add(55, 30, 14, 20), add(95, 10, 12, 60);
        keep(&p, t[i].rule, t[i].nth);
        static const int xs[] = {15, 62, 100}, edges[] = {4, 54, 94}; // a pixel of each soft edge
        for (int k = 0; k < 3; k++) {
            CHECK_INT(at(xs[k], 40), xs[k] == t[i].x ? 200 : 0);
            CHECK_INT(at(edges[k], 40), xs[k] == t[i].x ? 40 : 0);
        }
    }
}

// Parts that touch at a corner are connected, also if that shows only in a later row: 492 pixels against 450.
TEST(a_fork_is_one_part)
{
    struct tachy_person p = {0};
    clear();
    add(10, 10, 4, 40), add(30, 10, 4, 40), add(10, 50, 24, 3), add(34, 53, 10, 10), add(80, 10, 18, 25);
    keep(&p, TACHY_PERSON_LARGEST, 0);
    CHECK_INT(at(12, 20), 200);
    CHECK_INT(at(32, 20), 200);
    CHECK_INT(at(40, 60), 200);
    CHECK_INT(at(90, 20), 0);
}

// A pale cloud in the middle is nobody; it goes with who is nearest.
TEST(what_is_pale_is_nobody)
{
    struct tachy_person p = {0};
    clear();
    add(5, 20, 20, 50);
    for (int y = 30; y < 50; y++)
        memset(mask + y * W + 50, 100, 20);
    keep(&p, TACHY_PERSON_CENTER, 0);
    CHECK_INT(at(15, 40), 200);
    CHECK_INT(at(60, 40), 100);
}

// The chosen person is kept while walking past somebody larger; the other one takes over only after a second.
TEST(the_chosen_one_is_followed)
{
    struct tachy_person p = {0};
    for (int f = 0; f < 40; f++) {
        clear();
        add(5 + f, 5, 10, 25);       // walks to the right; 250 pixels
        add(90, 40, 20, f < 5 ? 10 : 35); // 200, then 700
        keep(&p, TACHY_PERSON_LARGEST, 0);
        bool walker = f < 5 + 25;
        CHECK_INT(at(10 + f, 15), walker ? 200 : 0);
        CHECK_INT(at(100, 45), walker ? 0 : 200);
    }
}

TEST(a_number_stays_with_its_person)
{
    struct tachy_person p = {0};
    for (int f = 0; f < 60; f++) {
        clear();
        add(5 + f, 5, 10, 25), add(95 - f, 45, 10, 25); // they pass each other
        keep(&p, TACHY_PERSON_NTH, 1);
        CHECK_INT(at(10 + f, 15), 200);
        CHECK_INT(at(100 - f, 60), 0);
    }
}

TEST(nobody_takes_the_place_for_a_moment)
{
    struct tachy_person p = {0};
    for (int f = 0; f < 30; f++) {
        clear();
        if (f < 5)
            add(10, 10, 30, 60);
        add(90, 10, 10, 60);
        keep(&p, TACHY_PERSON_LARGEST, 0);
        CHECK_INT(at(95, 40), f < 5 + 12 ? 0 : 200);
    }
}

TEST(left_is_that_of_the_shown_picture)
{
    static const struct {
        int rotation;
        bool flip;
        int kept; // of those at the left, right, top, bottom of the stored picture: which is furthest left as shown
    } t[] = {{0, false, 0}, {180, false, 1}, {90, false, 3}, {270, false, 2}, {0, true, 1}, {90, true, 2}};
    static const int xs[] = {5, 115, 60, 60}, ys[] = {40, 40, 5, 75};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(t); i++) {
        struct tachy_person p = {0};
        struct tachy_person_choice c = {.rule = TACHY_PERSON_NTH, .nth = 1, .rotation = t[i].rotation, .flip = t[i].flip};
        clear();
        add(2, 36, 8, 8), add(111, 36, 8, 8), add(56, 1, 8, 8), add(56, 71, 8, 8);
        CHECK_INT(tachy_person_keep(&p, &c, &scratch, mask, W, H, false), TACHY_OK);
        for (int k = 0; k < 4; k++)
            CHECK_INT(at(xs[k], ys[k]), k == t[i].kept ? 200 : 0);
    }
    tachy_buf_free(&scratch);
}

TEST_MAIN(TEST_CASE(each_rule_keeps_its_own_with_the_soft_edge), TEST_CASE(a_fork_is_one_part), TEST_CASE(what_is_pale_is_nobody),
          TEST_CASE(the_chosen_one_is_followed), TEST_CASE(a_number_stays_with_its_person),
          TEST_CASE(nobody_takes_the_place_for_a_moment), TEST_CASE(left_is_that_of_the_shown_picture))
