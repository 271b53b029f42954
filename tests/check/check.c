#include "check_cuda.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OP(name) extern const struct check_op check_##name;
#include "ops.inc"
#undef OP

// Named twice, an operation would be checked twice: this does not compile then.
enum {
#define OP(name) OP_##name,
#include "ops.inc"
#undef OP
};

static const struct check_op *const ops[] = {
#define OP(name) &check_##name,
#include "ops.inc"
#undef OP
};

uint64_t check_rand(struct check *c)
{
    // splitmix64, https://prng.di.unimi.it/splitmix64.c (public domain algorithm)
    uint64_t z = (c->rng += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int check_range(struct check *c, int lo, int hi)
{
    return lo + (int)(check_rand(c) % (uint64_t)(hi - lo + 1));
}

float check_float(struct check *c, float lo, float hi)
{
    return lo + (hi - lo) * (float)(check_rand(c) >> 40) / 16777215.0f;
}

size_t check_first_set(const struct check *c)
{
    return c->quick && tachy_cpu_isa() != TACHY_ISA_C ? TACHY_ISA_C + 1 : TACHY_ISA_C;
}

int check_times(const struct check *c, int n)
{
    int part = c->quick ? 10 : getenv("TACHY_SANITIZER") ? 12 : 1;
    return (n + part - 1) / part;
}

void check_fill(struct check *c, void *dst, size_t bytes)
{
    for (uint8_t *p = dst; bytes > 0;) {
        uint64_t v = check_rand(c);
        size_t n = TACHY_MIN(bytes, sizeof(v));
        memcpy(p, &v, n);
        p += n;
        bytes -= n;
    }
}

static struct check sides = {.rng = 0}; // separate random numbers: cases do not depend on addresses

void *check_alloc(size_t bytes, size_t align)
{
    // Timed kernels always have the same.
    bool end = !sides.bench && check_range(&sides, 0, 1);
    void *p = tachy_guard_alloc(bytes, align, end ? TACHY_GUARD_END : TACHY_GUARD_BEGIN);
    if (p)
        return p;
    fprintf(stderr, "no memory for %zu bytes\n", bytes);
    exit(1);
}

void check_free(void *p) { tachy_guard_free(p); }

void check_case(struct check *c, bool ok, const char *fmt, ...)
{
    c->cases++;
    if (ok)
        return;
    if (c->failed++ < 10) {
        va_list ap;
        va_start(ap, fmt);
        fprintf(stderr, "FAIL ");
        vfprintf(stderr, fmt, ap);
        fputc('\n', stderr);
        va_end(ap);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double check_time(void (*fn)(void *), void *arg)
{
    enum { RUNS = 15 };
    double t[RUNS];
    uint64_t start = tachy_now_ns();
    fn(arg);
    uint64_t once = tachy_now_ns() - start + 1;
    int loops = (int)TACHY_CLAMP(100000000u / RUNS / once, 1u, 100000u);
    for (int r = 0; r < RUNS; r++) {
        start = tachy_now_ns();
        for (int i = 0; i < loops; i++)
            fn(arg);
        t[r] = (double)(tachy_now_ns() - start) * 1e-9 / loops;
    }
    qsort(t, RUNS, sizeof(t[0]), by_value);
    return t[RUNS / 2];
}

void check_row(const char *op, const char *variant, const char *what, double seconds, double bytes,
               double twin_seconds)
{
    printf("%-24s %-8s %-34s %10.1f us %8.2f GB/s %6.2fx\n", op, variant, what, seconds * 1e6,
           bytes / seconds * 1e-9, twin_seconds / seconds);
}

static bool wanted(const char *name, int argc, char **argv)
{
    bool any = false;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' || !strcmp(argv[i - 1], "--seed"))
            continue;
        any = true;
        if (!strcmp(argv[i], name))
            return true;
    }
    return !any;
}

int main(int argc, char **argv)
{
    uint64_t seed = tachy_now_ns();
    bool bench = false, quick = false, cuda = false;
    struct check_gpu gpu = {0};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--bench"))
            bench = true;
        if (!strcmp(argv[i], "--quick"))
            quick = true;
        if (!strcmp(argv[i], "--cuda"))
            cuda = true;
        if (!strcmp(argv[i], "--seed") && i + 1 < argc)
            seed = strtoull(argv[i + 1], NULL, 0);
    }
    if (cuda && !check_gpu_open(&gpu))
        return 77;
    sides = (struct check){.rng = seed, .bench = bench};
    setvbuf(stdout, NULL, _IOLBF, 0); // a kernel that leaves its memory ends the program: earlier output must survive
    printf("seed %llu, %s\n", (unsigned long long)seed, cuda ? gpu.device.name : tachy_isa_name(tachy_cpu_isa()));
    int failed = 0;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(ops); i++) {
        if (ops[i]->cuda != cuda || !wanted(ops[i]->name, argc, argv))
            continue;
        struct check c = {.rng = seed, .bench = bench, .quick = quick, .gpu = cuda ? &gpu : NULL};
        ops[i]->run(&c);
        printf("%-24s %d cases, %d failed\n", ops[i]->name, c.cases, c.failed);
        failed += c.failed;
    }
    check_gpu_close(&gpu);
    return failed ? 1 : 0;
}
