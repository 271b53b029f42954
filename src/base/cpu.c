#include "base/cpu.h"

#include "base/base.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const names[] = {"c", "avx2", "avx512", "neon"};

const char *tachy_isa_name(enum tachy_isa isa)
{
    return (size_t)isa < TACHY_ARRAY_SIZE(names) ? names[isa] : "?";
}

int tachy_isa_by_name(const char *name)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++)
        if (!strcmp(names[i], name))
            return (int)i;
    return -1;
}

bool tachy_cpu_has(enum tachy_isa isa)
{
    if (isa == TACHY_ISA_C)
        return true;
#if defined(__x86_64__)
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (isa == TACHY_ISA_AVX2)
        return avx2;
    if (isa == TACHY_ISA_AVX512)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#elif defined(__aarch64__)
    if (isa == TACHY_ISA_NEON)
        return true;
#endif
    return false;
}

static enum tachy_isa best_isa;
static char cpu_name[128] = "unknown";

static void read_cpu_name(void)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    if (!f)
        return;
    char line[256];
    while (fgets(line, sizeof(line), f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon)
            continue;
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(cpu_name, sizeof(cpu_name), "%s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    fclose(f);
}

static void init(void)
{
    static const enum tachy_isa order[] = {TACHY_ISA_AVX512, TACHY_ISA_AVX2, TACHY_ISA_NEON};
    const char *asked = getenv("TACHY_CPU");
    int cap = asked ? tachy_isa_by_name(asked) : -1;
    best_isa = TACHY_ISA_C;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(order); i++) {
        if (!tachy_cpu_has(order[i]) || (cap >= 0 && (int)order[i] > cap))
            continue;
        best_isa = order[i];
        break;
    }
    read_cpu_name();
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

enum tachy_isa tachy_cpu_isa(void)
{
    pthread_once(&once, init);
    return best_isa;
}

const char *tachy_cpu_name(void)
{
    pthread_once(&once, init);
    return cpu_name;
}

// Cores that a cgroup v2 quota leaves, 0 where there is none.
static int quota_cores(void)
{
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (!f)
        return 0;
    long quota = 0, period = 0;
    int n = fscanf(f, "%ld %ld", &quota, &period);
    fclose(f);
    return n == 2 && quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

int tachy_cpu_count(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    int quota = quota_cores();
    if (quota && quota < n)
        n = quota;
    return n > 0 ? n : 1;
}
