#include "profile/system.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_CORES = 16 };

const char *tachy_system_root(const char *root) { return root ? root : getenv("TACHY_SYSROOT"); }

FILE *tachy_system_file(const char *root, const char *path)
{
    char full[512];
    int n = snprintf(full, sizeof(full), "%s%s", root ? root : "", path);
    return n > 0 && (size_t)n < sizeof(full) ? fopen(full, "re") : NULL;
}

long long tachy_system_number(const char *root, const char *path)
{
    long long v;
    FILE *f = tachy_system_file(root, path);
    if (!f || fscanf(f, "%lld", &v) != 1)
        v = -1;
    if (f)
        fclose(f);
    return v;
}

// "full avg10=0.00 avg60=0.00 avg300=0.00 total=123": the total.
static bool pressure(const char *root, const char *path, uint64_t *us)
{
    char line[256];
    unsigned long long total;
    bool found = false;
    FILE *f = tachy_system_file(root, path);
    while (f && !found && fgets(line, sizeof(line), f)) {
        found = sscanf(line, "full avg10=%*f avg60=%*f avg300=%*f total=%llu", &total) == 1;
        if (found)
            *us = total;
    }
    if (f)
        fclose(f);
    return found;
}

// The control group's own pressure, so that other programs' does not count.
static void read_stall(struct tachy_system *s, const char *root)
{
    char line[256], path[384];
    FILE *f = tachy_system_file(root, "/proc/self/cgroup");
    bool found = false;
    while (f && !found && fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4))
            continue;
        snprintf(path, sizeof(path), "/sys/fs/cgroup/%s/memory.pressure", line + 4);
        found = pressure(root, path, &s->memory_stall_us);
    }
    if (f)
        fclose(f);
    if (!found)
        pressure(root, "/proc/pressure/memory", &s->memory_stall_us);
}

// The first line of /proc/stat is of all cores, one more for each follows.
static void read_cpu(struct tachy_system *s, const char *root)
{
    char line[512];
    unsigned long long user, nice, system, irq, soft, steal;
    long hz = sysconf(_SC_CLK_TCK);
    FILE *f = tachy_system_file(root, "/proc/stat");
    while (f && fgets(line, sizeof(line), f) && !strncmp(line, "cpu", 3)) {
        if (line[3] != ' ')
            s->cores++;
        else if (sscanf(line + 4, "%llu %llu %llu %*u %*u %llu %llu %llu", &user, &nice, &system,
                        &irq, &soft, &steal) == 6)
            s->cpu_ms = (user + nice + system + irq + soft + steal) * 1000 / (uint64_t)hz;
    }
    if (f)
        fclose(f);
}

static void read_clocks(struct tachy_system *s, const char *root)
{
    static const char base[] = "/sys/devices/system/cpu/cpu%d/%s";
    char path[128];
    double now = 0, max = 0;
    int cores = 0;
    for (int i = 0; i < TACHY_MIN(s->cores, MAX_CORES); i++) {
        snprintf(path, sizeof(path), base, i, "thermal_throttle/core_throttle_count");
        long long n = tachy_system_number(root, path);
        s->throttled += TACHY_MAX(n, 0);
        snprintf(path, sizeof(path), base, i, "cpufreq/scaling_cur_freq");
        long long khz = tachy_system_number(root, path);
        snprintf(path, sizeof(path), base, i, "cpufreq/cpuinfo_max_freq");
        long long most = tachy_system_number(root, path);
        if (khz <= 0 || most <= 0)
            continue;
        now += (double)khz * 1e-3;
        max += (double)most * 1e-3;
        cores++;
    }
    s->clock_mhz = cores ? now / cores : 0;
    s->clock_max_mhz = cores ? max / cores : 0;
}

void tachy_system_read(struct tachy_system *s, const char *root)
{
    struct rusage u;
    root = tachy_system_root(root);
    memset(s, 0, sizeof(*s));
    read_stall(s, root);
    read_cpu(s, root);
    read_clocks(s, root);
    if (getrusage(RUSAGE_SELF, &u) == 0)
        s->major_faults = u.ru_majflt;
}

double tachy_peak_memory_mib(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    long kib = u.ru_maxrss; // cannot be reset as VmHWM can
    char line[128];
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "VmHWM: %ld kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return (double)kib / 1024;
}

int64_t tachy_resident_memory(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%*s %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

void tachy_forget_peak_memory(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "we");
    if (!f)
        return;
    fputs("5", f);
    fclose(f);
}
