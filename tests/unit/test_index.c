#include "base/base.h"
#include "base/index.h"
#include "test.h"

static bool is(const void *user, const void *key, int number)
{
    return ((const int *)user)[number] == *(const int *)key;
}

// `few`: many keys share a hash.
static void fill(uint64_t few)
{
    enum { KEYS = 5000 };
    static int keys[KEYS];
    struct tachy_index x = {0};
    int none = -1;
    CHECK_INT(tachy_index_find(&x, 0, is, keys, &none), -1);
    for (int i = 0; i < KEYS; i++) {
        keys[i] = 3 * i;
        CHECK_INT(tachy_index_add(&x, (uint64_t)keys[i] % few << 40 | (uint64_t)keys[i] % few, i), TACHY_OK);
    }
    for (int i = 0; i < KEYS; i++) {
        uint64_t hash = (uint64_t)keys[i] % few << 40 | (uint64_t)keys[i] % few;
        int other = keys[i] + 1;
        CHECK_INT(tachy_index_find(&x, hash, is, keys, &keys[i]), i);
        CHECK_INT(tachy_index_find(&x, hash, is, keys, &other), -1);
    }
    tachy_index_free(&x);
    CHECK_INT(tachy_index_find(&x, 0, is, keys, &keys[0]), -1);
}

TEST(all_are_found)
{
    fill(1 << 30);
    fill(100);
}

TEST_MAIN(TEST_CASE(all_are_found))
