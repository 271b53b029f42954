#include "check.h"

#include "base/half.h"
#include "ref/ref_dot_half.h"
#include "search/dot_half.h"

#include <math.h>

// Dot products of binary16 with float32: each instruction set against the sum in double.

static const char *const isas[] = {"c", "avx2", "avx512"};

static void one(struct check *c, const char *name, int n)
{
    tachy_dot_half *dot = tachy_dot_half_for(name);
    uint16_t *a = check_alloc((size_t)n * sizeof(*a), 2);
    float *b = check_alloc((size_t)n * sizeof(*b), 4);
    double sum = 0, all = 0;
    for (int i = 0; i < n; i++) {
        a[i] = tachy_float_to_half(check_float(c, -2, 2) * (check_range(c, 0, 20) ? 1 : 0x1p-18f)); // some below normal numbers
        b[i] = check_float(c, -2, 2);
        double p = (double)tachy_half_to_float(a[i]) * (double)b[i];
        sum += p;
        all += fabs(p);
    }
    if (dot) {
        double error = fabs((double)dot(a, b, n) - sum);
        check_case(c, error <= (n + 1) * 0x1p-24 * all, "dot_half %s n %d: off by %g of %g", name, n, error, all);
    }
    check_free(a);
    check_free(b);
}

struct timing {
    tachy_dot_half *dot;
    const uint16_t *a;
    const float *b;
    float sum;
};

static void call(void *arg)
{
    struct timing *t = arg;
    t->sum += t->dot(t->a, t->b, 512);
}

static void bench(void)
{
    static uint16_t a[512];
    static float b[512];
    double twin = 0;
    for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++) {
        struct timing t = {tachy_dot_half_for(isas[i]), a, b, 0};
        double s = t.dot ? check_time(call, &t) : 0;
        twin = i ? twin : s;
        if (t.dot)
            check_row("dot_half", isas[i], "512", s, sizeof(a) + sizeof(b), twin);
    }
}

static void run(struct check *c)
{
    for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++)
        for (int k = check_times(c, 200); k; k--)
            one(c, isas[i], check_range(c, 0, 3) ? check_range(c, 0, 1100) : 512);
    for (uint32_t h = 0; h < 65536; h++) { // there and back
        float f = tachy_half_to_float((uint16_t)h);
        if (!isnan(f) && tachy_float_to_half(f) != h)
            check_case(c, false, "half %04x becomes %a and %04x", h, (double)f, tachy_float_to_half(f));
    }
    check_case(c, tachy_float_to_half(1 + 0x1p-11f) == 0x3c00 && tachy_float_to_half(1 + 0x1.8p-10f) == 0x3c02 &&
                      tachy_float_to_half(65520) == 0x7c00 && tachy_float_to_half(65519) == 0x7bff,
               "halves are not rounded to the nearest");
    if (c->bench)
        bench();
}

const struct check_op check_dot_half = {.name = "dot_half", .run = run};
