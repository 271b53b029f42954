#include "test.h"

#include "postprocess/despeckle.h"

#include <stdlib.h>

// --despeckle without look-ahead; tests/e2e/test_despeckle.py covers the rest.

enum { W = 60, H = 40, FRAMES = 4 };

// A person, and a square of 4 x 4 of this value.
static void draw(uint8_t *mask, int x0, int y0, int value)
{
    memset(mask, 0, W * H);
    for (int y = 8; y < H; y++)
        memset(mask + y * W + 20, 255, 20);
    for (int i = 0; i < 16; i++)
        mask[(y0 + i / 4) * W + x0 + i % 4] = (uint8_t)value;
}

// Returns from which frame on the square is seen.
static int shown_from(int x0, int y0, int value)
{
    uint8_t mask[W * H];
    tachy_despeckle *d;
    int first = -1;
    CHECK_INT(tachy_despeckle_open(&d, W, H, FRAMES), TACHY_OK);
    for (int i = 0; i < 12; i++) {
        draw(mask, 28, 20, 255);
        if (i >= 2)
            draw(mask, x0, y0, value);
        int at = mask[y0 * W + x0], without = x0 >= 20 && x0 < 40 ? 255 : 0;
        tachy_despeckle_live(d, mask, i == 0);
        CHECK(mask[30 * W + 30] == 255 && mask[5 * W + 10] == 0);
        CHECK(mask[y0 * W + x0] == at || mask[y0 * W + x0] == without);
        if (i >= 2 && mask[y0 * W + x0] == value && first < 0)
            first = i - 2;
        CHECK(first < 0 || mask[y0 * W + x0] == value); // and stays
    }
    tachy_despeckle_close(&d);
    return first;
}

TEST(live_what_appears_waits)
{
    CHECK_INT(shown_from(5, 20, 255), FRAMES - 1);
    CHECK_INT(shown_from(5, 20, 90), FRAMES - 1);
    CHECK_INT(shown_from(28, 20, 0), FRAMES - 1); // a hole
    CHECK_INT(shown_from(0, 20, 255), 0);         // at the border people come in
}

TEST(a_state_goes_on)
{
    uint8_t mask[2][W * H];
    tachy_despeckle *d, *other;
    CHECK_INT(tachy_despeckle_open(&d, W, H, FRAMES), TACHY_OK);
    CHECK_INT(tachy_despeckle_open(&other, W, H, FRAMES), TACHY_OK);
    size_t n = tachy_despeckle_state_size(d);
    uint8_t *state = malloc(n);
    for (int i = 0; i < 10; i++) {
        draw(mask[0], 5, 20, i >= 2 ? 255 : 0);
        memcpy(mask[1], mask[0], W * H);
        tachy_despeckle_save(d, state);
        tachy_despeckle_live(d, mask[0], false);
        CHECK_INT(tachy_despeckle_load(other, state, n), TACHY_OK);
        tachy_despeckle_live(other, mask[1], false);
        CHECK(!memcmp(mask[0], mask[1], W * H));
    }
    CHECK_INT(tachy_despeckle_load(other, state, n - 1), TACHY_ERR_FORMAT);
    state[1] = FRAMES + 1;
    CHECK_INT(tachy_despeckle_load(other, state, n), TACHY_ERR_FORMAT);
    free(state);
    tachy_despeckle_close(&d);
    tachy_despeckle_close(&other);
    CHECK_INT(tachy_despeckle_open(&d, W, H, 1), TACHY_ERR_INVAL);
    CHECK(!d);
}

TEST_MAIN(TEST_CASE(live_what_appears_waits), TEST_CASE(a_state_goes_on))
