#include "report/doctor_machine.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/team.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tachy/doctor.h>

// The part of /sys that says how fast the machine may be; Linux's documentation, admin-guide and ABI/stable/sysfs-devices-system-cpu.

// One line of a small file without its end; false: it cannot be read.
__attribute__((format(printf, 3, 4))) static bool read_line(char *line, int size, const char *fmt, ...)
{
    char path[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(path, sizeof(path), fmt, args);
    va_end(args);
    FILE *f = fopen(path, "re");
    bool read = f && fgets(line, size, f);
    if (f)
        fclose(f);
    if (read)
        line[strcspn(line, "\n")] = '\0';
    return read;
}

void doctor_advise(json_t *advice, const char *command, const char *fmt, ...)
{
    char what[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    json_array_append_new(advice, json_pack("{s:s, s:s}", "what", what, "command", command));
}

// Numbers of a list such as "0-3,8-11".
static int count_list(const char *text)
{
    int n = 0, first, last, used;
    for (; sscanf(text, "%d%n", &first, &used) == 1; text += used + (text[used] == ',')) {
        last = first;
        int more;
        if (text[used] == '-' && sscanf(text + used + 1, "%d%n", &last, &more) == 1)
            used += more + 1;
        n += TACHY_MAX(last - first, 0) + 1;
    }
    return n;
}

// Of the first core: its own, and those that it shares.
static json_t *caches_json(const char *sys)
{
    json_t *list = json_array();
    char level[16], type[32], size[32], cores[256];
    for (int i = 0; i < 16; i++) {
        char base[256];
        snprintf(base, sizeof(base), "%s/devices/system/cpu/cpu0/cache/index%d", sys, i);
        if (!read_line(level, sizeof(level), "%s/level", base) || !read_line(type, sizeof(type), "%s/type", base) ||
            !read_line(size, sizeof(size), "%s/size", base) || !read_line(cores, sizeof(cores), "%s/shared_cpu_list", base))
            break;
        type[0] |= 0x20; // "Data"
        long kib = strtol(size, NULL, 10) * (strchr(size, 'M') ? 1024 : 1);
        json_array_append_new(list, json_pack("{s:i, s:s, s:I, s:i}", "level", atoi(level), "type", type, "kib", (json_int_t)kib,
                                              "cores", count_list(cores)));
    }
    return list;
}

static json_t *governor_json(const char *sys, json_t *advice)
{
    char governor[64];
    if (!read_line(governor, sizeof(governor), "%s/devices/system/cpu/cpu0/cpufreq/scaling_governor", sys))
        return json_null();
    if (strcmp(governor, "performance") != 0)
        doctor_advise(advice, "sudo cpupower frequency-set -g performance",
                      "the CPU governor is %.40s: clocks rise late when a run begins", governor);
    return json_string(governor);
}

// The hottest of the kernel's zones, in degrees.
static json_t *celsius_json(const char *sys)
{
    char line[32];
    long most = 0;
    for (int i = 0; i < 64 && read_line(line, sizeof(line), "%s/class/thermal/thermal_zone%d/temp", sys, i); i++)
        most = TACHY_MAX(most, strtol(line, NULL, 10));
    return most > 0 ? json_real((double)most / 1000) : json_null();
}

static json_t *throttled_json(const char *sys, json_t *advice)
{
    char line[32];
    long long n = 0;
    int core = 0;
    for (; read_line(line, sizeof(line), "%s/devices/system/cpu/cpu%d/thermal_throttle/core_throttle_count", sys, core); core++)
        n += strtoll(line, NULL, 10);
    if (!core)
        return json_null();
    if (n)
        doctor_advise(advice, "sensors", "cores slowed down %lld times because of their heat since the start: improve the cooling", n);
    return json_integer(n);
}

json_t *doctor_machine(const char *sys, json_t *advice)
{
    json_t *governor = governor_json(sys, advice), *throttled = throttled_json(sys, advice); // advice in this order
    return json_pack("{s:o, s:o, s:o, s:o}", "caches", caches_json(sys), "governor", governor, "celsius", celsius_json(sys), "throttled",
                     throttled);
}

// ---- Memory bandwidth ----

struct stream {
    const uint64_t *data;
    size_t n; // of each thread
    uint64_t sum[256];
};

static void read_part(void *user, int thread, int piece)
{
    struct stream *s = user;
    const uint64_t *at = s->data + (size_t)piece * s->n;
    uint64_t sum[8] = {0};
    for (size_t i = 0; i + 8 <= s->n; i += 8)
        for (int k = 0; k < 8; k++)
            sum[k] += at[i + (size_t)k];
    for (int k = 0; k < 8; k++)
        s->sum[piece] += sum[k];
}

double tachy_doctor_bandwidth(void)
{
    enum { ROUNDS = 5 };
    const size_t bytes = (size_t)192 << 20; // more than caches hold
    int threads = TACHY_MIN(tachy_cpu_count(), 256);
    uint64_t *data = tachy_aligned_alloc(bytes);
    struct tachy_team *team = threads > 1 ? tachy_team_open(threads) : NULL;
    double best = 0;
    if (data && (team || threads == 1)) {
        memset(data, 1, bytes);
        struct stream s = {.data = data, .n = bytes / sizeof(*data) / (size_t)threads};
        for (int r = 0; r < ROUNDS; r++) {
            uint64_t start = tachy_now_ns();
            if (team)
                tachy_team_run(team, read_part, &s);
            else
                read_part(&s, 0, 0);
            double rate = (double)(s.n * (size_t)threads * sizeof(*data)) * 1e9 / (double)(tachy_now_ns() - start + 1);
            best = TACHY_MAX(best, rate);
        }
        volatile uint64_t sink = s.sum[0]; // what was read must have been read
        (void)sink;
    }
    tachy_team_close(team);
    tachy_aligned_free(data);
    return best;
}
