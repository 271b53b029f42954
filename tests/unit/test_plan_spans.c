#include "base/base.h"
#include "plan/spans.h"
#include "test.h"

// Places in an arena: what a search through all values finds.

enum { VALUES = 400, TIMES = 150 };

struct value {
    int first, last;
    size_t at, size;
};

static size_t naive(const struct value *placed, int n, const struct value *v)
{
    size_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < n; i++) {
            const struct value *o = &placed[i];
            bool meet = o->first <= v->last && v->first <= o->last && o->at < at + v->size && at < o->at + o->size;
            at = meet ? o->at + o->size : at;
            moved = moved || meet;
        }
    }
    return at;
}

static unsigned next(unsigned *seed) { return *seed = *seed * 1664525u + 1013904223u, *seed >> 8; }

static void compare(unsigned seed, int times, unsigned longest, bool equal)
{
    struct value v[VALUES];
    struct plan_spans s;
    CHECK_INT(plan_spans_open(&s, times), TACHY_OK);
    for (int i = 0; i < VALUES; i++) {
        v[i].first = (int)(next(&seed) % (unsigned)times);
        v[i].last = TACHY_MIN(v[i].first + (int)(next(&seed) % longest), times - 1);
        v[i].size = equal ? 16 : 16 * (1 + (size_t)(VALUES - i) / 9 + next(&seed) % 5);
        v[i].at = plan_spans_lowest(&s, v[i].first, v[i].last, v[i].size);
        CHECK_INT(v[i].at, naive(v, i, &v[i]));
        CHECK_INT(plan_spans_take(&s, v[i].first, v[i].last, v[i].at, v[i].size), TACHY_OK);
    }
    plan_spans_close(&s);
}

TEST(lowest_place)
{
    for (unsigned seed = 1; seed <= 10; seed++) {
        compare(seed, TIMES, 3, true);
        compare(seed, TIMES, 40, false);
        compare(seed, TIMES, TIMES, false);
        compare(seed, 1, 2, false);
    }
}

TEST(nothing_is_taken)
{
    struct plan_spans s;
    CHECK_INT(plan_spans_open(&s, 5), TACHY_OK);
    CHECK_INT(plan_spans_take(&s, 0, 4, 0, 0), TACHY_OK);
    CHECK_INT(plan_spans_lowest(&s, 0, 4, 32), 0);
    plan_spans_close(&s);
}

TEST_MAIN(TEST_CASE(lowest_place), TEST_CASE(nothing_is_taken))
