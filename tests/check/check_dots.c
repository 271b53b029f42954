#include "check.h"

#include "cluster/dots.h"

#include <math.h>

// Dot products of a few vectors with many: each instruction set against the sums in double.

enum { ROWS = TACHY_DOTS_ROWS, LANES = TACHY_DOTS_LANES };

static const char *const isas[] = {"c", "avx2", "avx512", "neon"};

static void one(struct check *c, const char *name, int n)
{
    tachy_dots *dots = tachy_dots_for(name);
    float *a = check_alloc((size_t)n * ROWS * sizeof(*a), 4), *b = check_alloc((size_t)n * LANES * sizeof(*b), 64);
    float *out = check_alloc(ROWS * LANES * sizeof(*out), 4);
    for (int i = 0; i < n * ROWS; i++)
        a[i] = check_float(c, -2, 2);
    for (int i = 0; i < n * LANES; i++)
        b[i] = check_float(c, -2, 2);
    if (dots)
        dots(a, b, n, out);
    for (int i = 0; i < ROWS * LANES && dots; i++) {
        double sum = 0, all = 0;
        for (int k = 0; k < n; k++) {
            double p = (double)a[k * ROWS + i / LANES] * (double)b[k * LANES + i % LANES];
            sum += p;
            all += fabs(p);
        }
        double error = fabs((double)out[i] - sum);
        check_case(c, error <= (n + 1) * 0x1p-24 * all, "dots %s n %d, %d: off by %g of %g", name, n, i, error, all);
    }
    check_free(a);
    check_free(b);
    check_free(out);
}

struct timing {
    tachy_dots *dots;
    const float *a, *b;
    float out[ROWS * LANES];
};

static void call(void *arg)
{
    struct timing *t = arg;
    t->dots(t->a, t->b, 512, t->out);
}

static void bench(void)
{
    static float a[512 * ROWS];
    static _Alignas(64) float b[512 * LANES];
    double twin = 0;
    for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++) {
        struct timing t = {tachy_dots_for(isas[i]), a, b, {0}};
        double s = t.dots ? check_time(call, &t) : 0;
        twin = i ? twin : s;
        if (t.dots)
            check_row("dots", isas[i], "512", s, sizeof(a) + sizeof(b), twin);
    }
}

static void run(struct check *c)
{
    for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++)
        for (int k = check_times(c, 60); k; k--)
            one(c, isas[i], check_range(c, 0, 3) ? check_range(c, 0, 300) : 512);
    if (c->bench)
        bench();
}

const struct check_op check_dots = {.name = "dots", .run = run};
