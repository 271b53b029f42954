#include "test.h"

#include "task/batch_auto.h"

#include <tachy/common.h>

// The search for --batch auto over made-up networks.

struct network {
    int fits;    // largest batch
    double call; // ms of a run besides its pictures
    double from; // pictures after which a picture costs twice
    int err, trials, largest;
};

static int trial(void *user, int batch, double *ms)
{
    struct network *n = user;
    n->trials++;
    n->largest = batch > n->largest ? batch : n->largest;
    if (batch > n->fits)
        return n->err;
    *ms = n->call / batch + (batch > n->from ? 2 : 1);
    return TACHY_OK;
}

TEST(finds_the_edge_of_memory)
{
    struct network n = {.fits = 100, .call = 1000, .from = 1e9, .err = TACHY_ERR_NOMEM};
    int best;
    CHECK_INT(tachy_batch_find(256, trial, &n, &best), TACHY_OK);
    CHECK(best > 88 && best <= 100);
    CHECK_INT(n.largest, 128); // out of memory once while doubling, then inside the interval
    CHECK(n.trials < 14);
    for (n = (struct network){.fits = 1, .call = 1000, .from = 1e9, .err = TACHY_ERR_NOMEM}; n.fits <= 256; n.fits++) {
        CHECK_INT(tachy_batch_find(256, trial, &n, &best), TACHY_OK);
        CHECK(best <= n.fits && best >= n.fits - (n.fits > 16 ? n.fits / 6 : 2));
    }
}

TEST(takes_the_smallest_that_is_as_quick)
{
    int best;
    struct network flat = {.fits = 256, .call = 0, .from = 1e9}, gains = {.fits = 256, .call = 1, .from = 1e9},
                   slower = {.fits = 256, .call = 1, .from = 8};
    CHECK_INT(tachy_batch_find(256, trial, &flat, &best), TACHY_OK);
    CHECK_INT(best, 1);
    CHECK_INT(tachy_batch_find(256, trial, &gains, &best), TACHY_OK);
    CHECK_INT(best, 32); // 1/32 of a run's cost is left: 3 %
    CHECK_INT(tachy_batch_find(256, trial, &slower, &best), TACHY_OK);
    CHECK_INT(best, 8);
    CHECK_INT(slower.largest, 16);
}

TEST(ends_with_other_errors)
{
    int best;
    struct network none = {.fits = 0, .err = TACHY_ERR_FORMAT}, later = {.fits = 2, .call = 1, .from = 1e9, .err = TACHY_ERR_EXTERNAL},
                   alone = {.fits = 1, .call = 1, .from = 1e9, .err = TACHY_ERR_MISMATCH};
    CHECK_INT(tachy_batch_find(256, trial, &none, &best), TACHY_ERR_FORMAT);
    CHECK_INT(tachy_batch_find(256, trial, &later, &best), TACHY_ERR_EXTERNAL);
    CHECK_INT(tachy_batch_find(256, trial, &alone, &best), TACHY_OK);
    CHECK_INT(best, 1);
}

TEST_MAIN(TEST_CASE(finds_the_edge_of_memory), TEST_CASE(takes_the_smallest_that_is_as_quick), TEST_CASE(ends_with_other_errors))
