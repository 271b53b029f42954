// What a frame of segment needs beside its picture, where memory runs out: all of it is there or nothing, also
// when it is tried again. The linker brings calls of tachy_aligned_alloc() here.
#include "test.h"

#include "task/segment.h"

static int left; // calls that succeed

void *__real_tachy_aligned_alloc(size_t size);
void *__wrap_tachy_aligned_alloc(size_t size);
void *__wrap_tachy_aligned_alloc(size_t size) { return left-- > 0 ? __real_tachy_aligned_alloc(size) : NULL; }

TEST(an_eye_is_whole_or_none)
{
    struct segment s = {.refine = true};
    for (int fails = 0; fails < 3; fails++) {
        struct segment_eye e = {0};
        left = fails;
        CHECK_INT(segment_ensure_eye(&s, &e, 16, 8), TACHY_ERR_NOMEM);
        CHECK(!e.mask && !e.guide && !e.coefficients);
        left = 3;
        CHECK_INT(segment_ensure_eye(&s, &e, 16, 8), TACHY_OK);
        CHECK(e.mask && e.guide && e.coefficients);
        CHECK_INT(left, 0);
        tachy_aligned_free(e.mask);
        tachy_aligned_free(e.guide);
        tachy_aligned_free(e.coefficients);
    }
}

TEST_MAIN(TEST_CASE(an_eye_is_whole_or_none))
