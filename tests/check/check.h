#pragma once
// The kernel checker: every vector (and later CUDA) version against its plain C twin of
// src/ref on random shapes, strides and values, and both timed by the same code.
//
//   tests/check/tachy_check [--cuda] [--bench | --quick] [--seed N] [NAME...]
//
// --cuda: the kernels of src/cuda on this machine's GPU (check_cuda.h) in place of the CPU's; exit
// status 77 if there is none or they were not compiled. --quick: a tenth of the cases, and of plans
// without the portable set if there is another, for runs under a tool that makes them slow.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct check {
    uint64_t rng;
    bool bench; // time the versions as well and print a table row each
    bool quick;
    int cases, failed;
    struct check_gpu *gpu; // of an operation with `cuda`, else NULL
};

// A checked operation: one file check_<operation>.c defines one `const struct check_op`.
struct check_op {
    const char *name;
    void (*run)(struct check *c);
    bool cuda;
};

// n of the cases that are drawn at random: a tenth with --quick, a twelfth under a sanitizer (TACHY_SANITIZER is set).
int check_times(const struct check *c, int n);
uint64_t check_rand(struct check *c);             // 64 random bits
int check_range(struct check *c, int lo, int hi); // lo..hi, both included
float check_float(struct check *c, float lo, float hi);
// The first of enum tachy_isa that the kernels of plans are checked with.
size_t check_first_set(const struct check *c);
void check_fill(struct check *c, void *dst, size_t bytes); // random bytes

// Memory for a kernel's inputs or outputs, next to an inaccessible page: at random after or before it (base/guard.h),
// so that an access outside ends the program. All bytes are 0xff. `align`: the alignment that the kernel is promised, a
// power of two; if it is larger than 1, the page follows the end of the last such unit. Never NULL; `bytes` may be 0.
// Free with check_free(), which takes NULL.
void *check_alloc(size_t bytes, size_t align);
void check_free(void *p);

// Counts a case; on !ok prints the message once and counts a failure.
void check_case(struct check *c, bool ok, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// Median seconds of one call of fn(arg), over enough calls for about 0.1 s.
double check_time(void (*fn)(void *), void *arg);
// "op  variant  case  microseconds  GB/s  x the C twin" (bytes: that had to move).
void check_row(const char *op, const char *variant, const char *what, double seconds, double bytes,
               double twin_seconds);
