#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Statistics for comparing runs. Pure functions over arrays that stay the caller's; nothing is logged, and out of memory is
// the only failure (a result of NAN). Safe from any thread. Values are finite. tests/e2e/test_stats.py holds all of them to
// SciPy. docs/compare-runs.md says what they are used for.

// What a test says. p is two-sided.
struct stats_test {
    double statistic; // Wilcoxon: the sum of the positive ranks; Mann-Whitney: U of `a`
    double p;         // 1: no information (all differences are 0)
    double effect;    // rank-biserial correlation, -1..1: > 0 if a, or the differences, are larger
    bool exact;       // p is that of the permutation distribution, ties counted; else a normal approximation
};

// Wilcoxon's signed-rank test of n differences. Zeros are left out (Wilcoxon 1945); tied ranks are averaged. Exact up to
// 100 differences.
struct stats_test stats_wilcoxon(const double *d, size_t n);
// Mann and Whitney's U test (1947) of two independent samples. Exact up to 60 values in all, and up to 200 if a side has at most
// 8; beyond with ties and continuity corrected, and never below the least p of the exact test.
struct stats_test stats_mann_whitney(const double *a, size_t n_a, const double *b, size_t n_b);

// p[] becomes Holm's (1979) adjusted p-values: reject those <= alpha, and a false alarm among all of them is at most as likely.
// False: no memory, p[] is as it was.
bool stats_holm(double *p, size_t n);

struct stats_shift {
    double shift;     // estimate
    double low, high; // its confidence interval
    bool reached;     // false: the sample is too small for `level`, and the interval is the widest there is
};
// Hodges and Lehmann's (1963) estimates: the median of the n (n + 1) / 2 means of two differences, and of the differences
// a - b. The intervals come from the tests' distributions without ties. `level`: 0.95.
struct stats_shift stats_shift_paired(const double *d, size_t n, double level);
struct stats_shift stats_shift_unpaired(const double *a, size_t n_a, const double *b, size_t n_b, double level);

double stats_median(const double *v, size_t n); // NAN of none
double stats_mad(const double *v, size_t n);    // median of |v - median|; NAN of none
// Percentile interval of the median over `draws` resamples; the same `seed` gives the same interval.
struct stats_shift stats_bootstrap_median(const double *v, size_t n, double level, int draws, uint64_t seed);
// The value below which the share `q` of sorted v[] lies, interpolated (type 7 of Hyndman and Fan 1996).
double stats_quantile(const double *sorted, size_t n, double q);
void stats_sort(double *v, size_t n);
