#include "report/stats.h"

#include "base/base.h"
#include "base/mix.h"

#include <math.h>
#include <stdlib.h>

enum { EXACT_PAIRS = 100, EXACT_VALUES = 60, EXACT_FEW = 8, EXACT_MANY = 200 };

// Whether all choices of the smaller sample's ranks are counted: few values, or few of one side.
static bool counts_all(size_t n_a, size_t n_b)
{
    size_t n = n_a + n_b;
    return n <= EXACT_VALUES || (n <= EXACT_MANY && TACHY_MIN(n_a, n_b) <= EXACT_FEW);
}

static int by_size(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

void stats_sort(double *v, size_t n) { qsort(v, n, sizeof(*v), by_size); }

double stats_quantile(const double *sorted, size_t n, double q)
{
    double at = q * ((double)n - 1);
    size_t i = (size_t)at;
    if (!n)
        return NAN;
    return i + 1 < n ? sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

static double *sorted_copy(const double *v, size_t n)
{
    double *s = malloc((n + !n) * sizeof(*s));
    if (s) {
        memcpy(s, v, n * sizeof(*s));
        stats_sort(s, n);
    }
    return s;
}

double stats_median(const double *v, size_t n)
{
    double *s = sorted_copy(v, n), m = s ? stats_quantile(s, n, 0.5) : NAN;
    free(s);
    return m;
}

double stats_mad(const double *v, size_t n)
{
    double m = stats_median(v, n), *d = malloc((n + !n) * sizeof(*d)), mad = NAN;
    for (size_t i = 0; d && i < n; i++)
        d[i] = fabs(v[i] - m);
    if (d)
        mad = stats_median(d, n);
    free(d);
    return mad;
}

static double normal_tail(double z) { return 0.5 * erfc(z / M_SQRT2); }

// The z above which (1 - level) / 2 of a normal distribution lie.
static double normal_quantile(double level)
{
    double low = 0, high = 40;
    for (int i = 0; i < 100; i++) {
        double mid = (low + high) / 2;
        *(normal_tail(mid) > (1 - level) / 2 ? &low : &high) = mid;
    }
    return low;
}

// A value and what it belongs to.
struct ranked {
    double v;
    bool own; // a positive difference; a value of `a`
    int rank; // twice the mean rank, so that it is whole
};

static int by_value(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return (x->v > y->v) - (x->v < y->v);
}

// Sorts and ranks; returns the sum of t^3 - t over groups of t equal values.
static double rank(struct ranked *r, size_t n)
{
    double ties = 0;
    qsort(r, n, sizeof(*r), by_value);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && r[end].v == r[i].v; end++)
            ;
        for (size_t k = i; k < end; k++)
            r[k].rank = (int)(i + 1 + end);
        double t = (double)(end - i);
        ties += t * t * t - t;
    }
    return ties;
}

static int own_sum(const struct ranked *r, size_t n)
{
    int sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += r[i].own ? r[i].rank : 0;
    return sum;
}

// Two-sided p of a sum, out of the number of ways (any scale) to reach each sum 0..top.
static double two_sided(const double *ways, int top, int sum)
{
    double below = 0, above = 0, all = 0;
    for (int i = 0; i <= top; i++) {
        all += ways[i];
        below += i <= sum ? ways[i] : 0;
        above += i >= sum ? ways[i] : 0;
    }
    return fmin(1, 2 * fmin(below, above) / all);
}

// Each rank counts with probability 1/2.
static double signed_rank_p(const struct ranked *r, size_t n, int sum)
{
    int top = (int)(n * (n + 1));
    double *ways = calloc((size_t)top + 1, sizeof(*ways));
    if (!ways)
        return NAN;
    ways[0] = 1;
    for (size_t i = 0; i < n; i++)
        for (int s = top; s >= 0; s--)
            ways[s] = (ways[s] + (s >= r[i].rank ? ways[s - r[i].rank] : 0)) / 2;
    double p = two_sided(ways, top, sum);
    free(ways);
    return p;
}

static double signed_rank_normal(size_t n, double ties, double positive)
{
    double k = (double)n, mean = k * (k + 1) / 4, var = k * (k + 1) * (2 * k + 1) / 24 - ties / 48;
    return fmin(1, 2 * normal_tail(fabs(positive - mean) / sqrt(var)));
}

struct stats_test stats_wilcoxon(const double *d, size_t n)
{
    struct stats_test t = {.p = 1, .exact = true};
    struct ranked *r = malloc((n + !n) * sizeof(*r));
    size_t m = 0;
    for (size_t i = 0; r && i < n; i++)
        if (d[i] != 0)
            r[m++] = (struct ranked){fabs(d[i]), d[i] > 0, 0};
    if (!r)
        t.p = NAN;
    if (m) {
        double ties = rank(r, m), all = (double)m * (double)(m + 1) / 2;
        int sum = own_sum(r, m);
        t.exact = m <= EXACT_PAIRS;
        t.statistic = sum / 2.0;
        t.p = t.exact ? signed_rank_p(r, m, sum) : signed_rank_normal(m, ties, t.statistic);
        t.effect = 2 * t.statistic / all - 1;
    }
    free(r);
    return t;
}

// Any n_a of all ranks may be those of a.
static double rank_sum_p(const struct ranked *r, size_t n, size_t n_a, int sum)
{
    int top = (int)(n * (n + 1));
    double *ways = calloc((n_a + 1) * ((size_t)top + 1), sizeof(*ways)); // [taken][sum]
    if (!ways)
        return NAN;
    size_t width = (size_t)top + 1;
    ways[0] = 1;
    for (size_t i = 0; i < n; i++)
        for (size_t k = TACHY_MIN(i + 1, n_a); k > 0; k--)
            for (int s = top; s >= r[i].rank; s--)
                ways[k * width + (size_t)s] += ways[(k - 1) * width + (size_t)(s - r[i].rank)];
    double p = two_sided(&ways[n_a * width], top, sum);
    free(ways);
    return p;
}

static double rank_sum_normal(double n_a, double n_b, double ties, double u)
{
    double n = n_a + n_b, sd = sqrt(n_a * n_b / 12 * (n + 1 - ties / (n * (n - 1))));
    double least = 2 * exp(lgamma(n_a + 1) + lgamma(n_b + 1) - lgamma(n + 1)); // of the exact test: one of all choices
    return sd > 0 ? fmax(least, fmin(1, 2 * normal_tail((fabs(u - n_a * n_b / 2) - 0.5) / sd))) : 1;
}

struct stats_test stats_mann_whitney(const double *a, size_t n_a, const double *b, size_t n_b)
{
    struct stats_test t = {.p = 1, .exact = true};
    size_t n = n_a + n_b;
    struct ranked *r = malloc((n + !n) * sizeof(*r));
    if (!r)
        t.p = NAN;
    if (r && n_a && n_b) {
        for (size_t i = 0; i < n; i++)
            r[i] = (struct ranked){i < n_a ? a[i] : b[i - n_a], i < n_a, 0};
        double x = (double)n_a, y = (double)n_b, ties = rank(r, n);
        int sum = own_sum(r, n);
        bool smaller = n_a <= n_b;
        t.exact = counts_all(n_a, n_b);
        t.statistic = sum / 2.0 - x * (x + 1) / 2;
        t.p = t.exact ? rank_sum_p(r, n, smaller ? n_a : n_b, smaller ? sum : (int)(n * (n + 1)) - sum)
                      : rank_sum_normal(x, y, ties, t.statistic);
        t.effect = 2 * t.statistic / (x * y) - 1;
    }
    free(r);
    return t;
}

struct indexed {
    double p;
    size_t at;
};

static int by_p(const void *a, const void *b)
{
    const struct indexed *x = a, *y = b;
    return (x->p > y->p) - (x->p < y->p);
}

bool stats_holm(double *p, size_t n)
{
    struct indexed *s = malloc((n + !n) * sizeof(*s));
    double least = 0;
    for (size_t i = 0; s && i < n; i++)
        s[i] = (struct indexed){p[i], i};
    if (s)
        qsort(s, n, sizeof(*s), by_p);
    for (size_t i = 0; s && i < n; i++) {
        least = fmax(least, fmin(1, s[i].p * (double)(n - i)));
        p[s[i].at] = least;
    }
    free(s);
    return s != NULL;
}

// The smallest sum whose probability to be at most that is at least (1 - level) / 2.
static size_t lower_sum(const double *ways, int top, double level)
{
    double all = 0, below = 0;
    int s = 0;
    for (int i = 0; i <= top; i++)
        all += ways[i];
    for (; s <= top; s++)
        if ((below += ways[s]) >= (1 - level) / 2 * all)
            break;
    return (size_t)s;
}

// The rank of the lower end among the sorted Walsh averages, from 1; 0: the sample is too small.
static size_t paired_rank(size_t n, double level)
{
    int top = (int)(n * (n + 1) / 2);
    double k = (double)n, mean = k * (k + 1) / 4;
    double *ways = n <= EXACT_PAIRS ? calloc((size_t)top + 1, sizeof(*ways)) : NULL;
    if (!ways)
        return (size_t)fmax(0, mean - normal_quantile(level) * sqrt(k * (k + 1) * (2 * k + 1) / 24));
    ways[0] = 1;
    for (int i = 1; i <= (int)n; i++)
        for (int s = top; s >= 0; s--)
            ways[s] = (ways[s] + (s >= i ? ways[s - i] : 0)) / 2;
    size_t q = lower_sum(ways, top, level);
    free(ways);
    return q;
}

static size_t unpaired_rank(size_t n_a, size_t n_b, double level)
{
    size_t n = n_a + n_b, top = n_a * n_b, width = top + 1;
    double x = (double)n_a, y = (double)n_b, mean = x * y / 2;
    double *ways = n <= EXACT_VALUES ? calloc((n_a + 1) * width, sizeof(*ways)) : NULL;
    if (!ways)
        return (size_t)fmax(0, mean - normal_quantile(level) * sqrt(x * y * (x + y + 1) / 12));
    ways[0] = 1;
    // The i-th value of all is one of a: it stands above i - k values of b, if k - 1 of a came before.
    for (size_t i = 0; i < n; i++)
        for (size_t k = TACHY_MIN(i + 1, n_a); k > 0; k--)
            for (size_t s = top + 1; i + 1 >= k && s-- > i + 1 - k;)
                ways[k * width + s] += ways[(k - 1) * width + s - (i + 1 - k)];
    size_t q = lower_sum(&ways[n_a * width], (int)top, level);
    free(ways);
    return q;
}

// Of the values v[n], which it frees.
static struct stats_shift interval(double *v, size_t n, size_t rank_low)
{
    struct stats_shift s = {NAN, NAN, NAN, false};
    if (v && n) {
        stats_sort(v, n);
        size_t low = TACHY_CLAMP(rank_low, 1, (n + 1) / 2) - 1;
        s = (struct stats_shift){stats_quantile(v, n, 0.5), v[low], v[n - 1 - low], rank_low > 0};
    }
    free(v);
    return s;
}

struct stats_shift stats_shift_paired(const double *d, size_t n, double level)
{
    size_t m = 0;
    double *v = malloc((n * (n + 1) / 2 + !n) * sizeof(*v));
    for (size_t i = 0; v && i < n; i++)
        for (size_t k = i; k < n; k++)
            v[m++] = (d[i] + d[k]) / 2;
    return interval(v, m, n ? paired_rank(n, level) : 0);
}

struct stats_shift stats_shift_unpaired(const double *a, size_t n_a, const double *b, size_t n_b, double level)
{
    size_t m = 0;
    double *v = malloc((n_a * n_b + 1) * sizeof(*v));
    for (size_t i = 0; v && i < n_a; i++)
        for (size_t k = 0; k < n_b; k++)
            v[m++] = a[i] - b[k];
    return interval(v, m, m ? unpaired_rank(n_a, n_b, level) : 0);
}

struct stats_shift stats_bootstrap_median(const double *v, size_t n, double level, int draws, uint64_t seed)
{
    struct stats_shift s = {stats_median(v, n), NAN, NAN, n > 1};
    double *medians = malloc((size_t)draws * sizeof(*medians)), *sample = malloc((n + !n) * sizeof(*sample));
    for (int i = 0; medians && sample && n && i < draws; i++) {
        for (size_t k = 0; k < n; k++) {
            seed = tachy_mix(seed, &k, sizeof(k));
            sample[k] = v[seed % n];
        }
        medians[i] = stats_median(sample, n);
    }
    if (medians && sample && n) {
        stats_sort(medians, (size_t)draws);
        s.low = stats_quantile(medians, (size_t)draws, (1 - level) / 2);
        s.high = stats_quantile(medians, (size_t)draws, (1 + level) / 2);
    }
    free(medians);
    free(sample);
    return s;
}
