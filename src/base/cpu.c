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

// Names of Arm's own processors; others are told by their numbers. From Arm's reference manuals, the
// register MIDR_EL1.
static const char *arm_name(int implementer, int part)
{
    static const struct {
        int part;
        const char *name;
    } arm[] = {{0xd03, "Cortex-A53"}, {0xd05, "Cortex-A55"}, {0xd07, "Cortex-A57"}, {0xd08, "Cortex-A72"},
               {0xd09, "Cortex-A73"}, {0xd0a, "Cortex-A75"}, {0xd0b, "Cortex-A76"}, {0xd0c, "Neoverse-N1"},
               {0xd40, "Neoverse-V1"}, {0xd41, "Cortex-A78"}, {0xd42, "Cortex-A78AE"}, {0xd44, "Cortex-X1"},
               {0xd49, "Neoverse-N2"}, {0xd4f, "Neoverse-V2"}};
    for (size_t i = 0; implementer == 0x41 && i < TACHY_ARRAY_SIZE(arm); i++)
        if (arm[i].part == part)
            return arm[i].name;
    return NULL;
}

// Appends the kind of core unless it was named before: a processor may have several kinds.
static void add_arm(char *to, size_t size, int implementer, int part)
{
    const char *known = arm_name(implementer, part);
    char name[48];
    if (known)
        snprintf(name, sizeof(name), "%s", known);
    else
        snprintf(name, sizeof(name), "AArch64 %02x:%03x", (unsigned)implementer, (unsigned)part);
    for (const char *at = to; (at = strstr(at, name)); at++)
        if (!at[strlen(name)] || !strncmp(at + strlen(name), " + ", 3))
            return;
    size_t used = strlen(to);
    if (used + strlen(name) + 4 <= size)
        snprintf(to + used, size - used, "%s%s", used ? " + " : "", name);
}

// Text after the colon of a line that starts with `key`, NULL for other lines.
static const char *value_of(char *line, const char *key)
{
    char *colon = strchr(line, ':');
    if (strncmp(line, key, strlen(key)) || !colon)
        return NULL;
    colon[strcspn(colon, "\n")] = '\0';
    return colon + 1 + strspn(colon + 1, " ");
}

void tachy_cpu_name_read(FILE *f, char *to, size_t size)
{
    char line[256];
    int implementer = 0;
    to[0] = '\0';
    while (fgets(line, sizeof(line), f)) {
        const char *model = value_of(line, "model name"), *by = value_of(line, "CPU implementer");
        const char *part = value_of(line, "CPU part");
        if (model && *model) {
            snprintf(to, size, "%s", model);
            return;
        }
        implementer = by ? (int)strtol(by, NULL, 0) : implementer;
        if (part)
            add_arm(to, size, implementer, (int)strtol(part, NULL, 0));
    }
    if (!to[0])
        snprintf(to, size, "unknown");
}

static void read_cpu_name(void)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    if (!f)
        return;
    tachy_cpu_name_read(f, cpu_name, sizeof(cpu_name));
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

// Cores that a cgroup v2 quota leaves, 0 if there is none.
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
