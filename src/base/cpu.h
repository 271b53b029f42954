#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

// Features that this processor and this process may use.

enum tachy_isa { TACHY_ISA_C = 0, TACHY_ISA_AVX2, TACHY_ISA_AVX512, TACHY_ISA_NEON };

#if defined(__x86_64__)
#define TACHY_TARGET_AVX2 __attribute__((target("avx2,fma,f16c")))
#define TACHY_TARGET_AVX512 \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")))
#endif

// Best instruction set that runs here. TACHY_CPU=c|avx2|avx512|neon lowers it (read once; it
// never raises it).
enum tachy_isa tachy_cpu_isa(void);

// Defines FN_best(p): FN(p), an always_inline function of one pointer, compiled for the best instruction set that runs here.
#if defined(__x86_64__)
#define TACHY_CPU_BEST(FN, TYPE) \
    TACHY_TARGET_AVX2 static void FN##_avx2(TYPE p) { FN(p); } \
    TACHY_TARGET_AVX512 static void FN##_avx512(TYPE p) { FN(p); } \
    static void FN##_best(TYPE p) \
    { \
        enum tachy_isa isa = tachy_cpu_isa(); \
        if (isa == TACHY_ISA_AVX512) \
            FN##_avx512(p); \
        else if (isa == TACHY_ISA_AVX2) \
            FN##_avx2(p); \
        else \
            FN(p); \
    }
#else
#define TACHY_CPU_BEST(FN, TYPE) static void FN##_best(TYPE p) { FN(p); }
#endif
bool tachy_cpu_has(enum tachy_isa isa);
const char *tachy_isa_name(enum tachy_isa isa);   // "c", "avx2", ...
int tachy_isa_by_name(const char *name);          // -1: unknown

// Cores this process may run on (affinity and cgroup quota counted), at least 1.
int tachy_cpu_count(void);
// "AMD EPYC 9B14", on AArch64 its kinds of cores ("Cortex-A55 + Cortex-A76", those without a known name
// as "AArch64 61:022", implementer and part), or "unknown". Static memory. Thread-safe.
const char *tachy_cpu_name(void);
// As above, from a text like /proc/cpuinfo; `size` is at least 1; the name is truncated to it.
void tachy_cpu_name_read(FILE *f, char *to, size_t size);
