#include "test.h"

#include "profile/hist.h"

// Quantiles against a sorted copy of the same random durations.
static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

TEST(quantiles_are_within_a_bucket)
{
    enum { N = 20000 };
    static struct tachy_hist h;
    uint64_t *v = malloc(N * sizeof(*v));
    srand(7);
    for (int i = 0; i < N; i++) {
        v[i] = (uint64_t)rand() % (1ull << (4 + rand() % 30));
        tachy_hist_add(&h, v[i]);
    }
    qsort(v, N, sizeof(*v), by_value);
    static const double qs[] = {0.01, 0.5, 0.9, 0.95, 0.99, 1.0};
    for (size_t i = 0; i < sizeof(qs) / sizeof(qs[0]); i++) {
        double exact = (double)v[(int)(qs[i] * N + 0.999999) - 1],
               got = tachy_hist_quantile(&h, qs[i]);
        CHECK(got >= exact * 0.968 - 1 && got <= exact * 1.032 + 1);
    }
    free(v);
}

TEST(empty_and_extreme_durations)
{
    static struct tachy_hist h, sum;
    CHECK(tachy_hist_quantile(&h, 0.5) == 0);
    tachy_hist_add(&h, 0);
    tachy_hist_add(&h, UINT64_MAX);
    CHECK(tachy_hist_quantile(&h, 0.5) == 0);
    CHECK(tachy_hist_quantile(&h, 1.0) > 1e11);
    tachy_hist_merge(&sum, &h);
    tachy_hist_merge(&sum, &h);
    tachy_hist_add(&sum, 1000);
    CHECK(tachy_hist_quantile(&sum, 0.4) == 0);
    CHECK(tachy_hist_quantile(&sum, 0.6) > 960 && tachy_hist_quantile(&sum, 0.6) < 1040);
}

TEST_MAIN(TEST_CASE(quantiles_are_within_a_bucket), TEST_CASE(empty_and_extreme_durations))
