// Memory of a segment frame besides its picture, when memory runs out: it gets all of it or none, also on a retry. The
// linker redirects calls of tachy_aligned_alloc() here.
#include "test.h"

#include "stage/mask.h"

static int left; // calls that succeed

void *__real_tachy_aligned_alloc(size_t size);
void *__wrap_tachy_aligned_alloc(size_t size);
void *__wrap_tachy_aligned_alloc(size_t size) { return left-- > 0 ? __real_tachy_aligned_alloc(size) : NULL; }

TEST(a_mask_is_whole_or_none)
{
    const struct tachy_masks m = {.guided = true};
    for (int fails = 0; fails < 2; fails++) {
        struct tachy_mask_eye e = {0};
        left = fails;
        CHECK_INT(tachy_mask_room(&m, &e, 16, 8), TACHY_ERR_NOMEM);
        CHECK(!e.mask && !e.guide);
        left = 2;
        CHECK_INT(tachy_mask_room(&m, &e, 16, 8), TACHY_OK);
        CHECK(e.mask && e.guide);
        CHECK_INT(left, 0);
        tachy_aligned_free(e.mask);
        tachy_aligned_free(e.guide);
    }
}

TEST_MAIN(TEST_CASE(a_mask_is_whole_or_none))
