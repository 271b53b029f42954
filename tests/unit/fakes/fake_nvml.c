// NVML without a GPU: sensors show what the test sets.
#include "fake.h"

#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_nvml_gpu state[2];
static int users, failure;
static unsigned gpus = 2;

struct nvml_device_handle {
    int index;
};
static struct nvml_device_handle handles[2] = {{0}, {1}};

static struct fake_nvml_gpu get(nvml_device d)
{
    pthread_mutex_lock(&lock);
    struct fake_nvml_gpu s = state[d->index];
    pthread_mutex_unlock(&lock);
    return s;
}

FAKE_API void fake_nvml_set(int gpu, const struct fake_nvml_gpu *s)
{
    pthread_mutex_lock(&lock);
    state[gpu] = *s;
    pthread_mutex_unlock(&lock);
}

FAKE_API int fake_nvml_users(void) { return users; }
FAKE_API void fake_nvml_list(unsigned n) { gpus = n; }
FAKE_API void fake_nvml_fail(int status) { failure = status; }

FAKE_API int nvmlInit_v2(void)
{
    users += !failure;
    return failure;
}

FAKE_API int nvmlShutdown(void)
{
    users--;
    return 0;
}

// The first GPU is on bus 1, the second on bus 2.
FAKE_API int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, nvml_device *device)
{
    unsigned domain, bus, slot;
    if (sscanf(pci, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return 2;
    *device = &handles[(bus + 1) % 2];
    return bus && bus <= gpus ? 0 : 6; // NVML_ERROR_NOT_FOUND
}

FAKE_API int nvmlDeviceGetName(nvml_device device, char *name, unsigned size)
{
    snprintf(name, size, "Fake GPU %d", device->index);
    return 0;
}

// Up to 8 KiB, which is ended with a 0.
static size_t read_text(const char *folder, const char *name, char text[8193])
{
    char path[64];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, 8192, f) : 0;
    text[n] = '\0';
    if (f)
        fclose(f);
    return n;
}

static int is_child(const char *process)
{
    char text[8193];
    int parent = 0;
    read_text(process, "stat", text);
    const char *name_ends = strrchr(text, ')');
    return name_ends && sscanf(name_ends, ") %*c %d", &parent) == 1 && parent == getpid();
}

static int has_argument(const char *process, const char *word)
{
    char text[8193];
    size_t n = read_text(process, "cmdline", text);
    for (size_t i = 0; i < n; i += strlen(text + i) + 1)
        if (!strcmp(text + i, word))
            return 1;
    return 0;
}

// As if each child with the argument FAKE_NVML_HUNGRY had 900 MiB of the second GPU.
static unsigned long long used_by_processes(void)
{
    const char *word = getenv("FAKE_NVML_HUNGRY");
    unsigned long long all = 0;
    glob_t g = {0};
    if (word && !glob("/proc/[0-9]*", GLOB_NOSORT, NULL, &g))
        for (size_t i = 0; i < g.gl_pathc; i++)
            all += is_child(g.gl_pathv[i]) && has_argument(g.gl_pathv[i], word) ? 900ull << 20 : 0;
    globfree(&g);
    return all;
}

// With FAKE_NVML_OTHERS another program takes 64 MiB more between any two readings.
static unsigned long long used_by_others(void)
{
    static _Atomic int readings;
    return getenv("FAKE_NVML_OTHERS") ? (unsigned long long)(readings++ % 100) << 26 : 0;
}

FAKE_API int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory *memory)
{
    unsigned long long used = get(device).used + (device->index ? used_by_processes() : used_by_others());
    *memory = (struct nvml_memory){16ull << 30, (16ull << 30) - used, used};
    return get(device).used == UINT64_MAX ? 3 : 0; // not supported
}

FAKE_API int nvmlDeviceGetUtilizationRates(nvml_device device, struct nvml_utilization *rates)
{
    *rates = (struct nvml_utilization){get(device).gpu, get(device).memory};
    return 0;
}

FAKE_API int nvmlDeviceGetClockInfo(nvml_device device, int which, unsigned *mhz)
{
    *mhz = which == NVML_CLOCK_OF_SM ? get(device).sm_mhz : get(device).memory_mhz;
    return 0;
}

FAKE_API int nvmlDeviceGetMaxClockInfo(nvml_device device, int which, unsigned *mhz)
{
    *mhz = 1980;
    return 0;
}

FAKE_API int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device device,
                                                       unsigned long long *reasons)
{
    *reasons = get(device).throttle;
    return 0;
}

FAKE_API int nvmlDeviceGetPowerUsage(nvml_device device, unsigned *milliwatt)
{
    *milliwatt = get(device).milliwatt;
    return device->index ? 3 : 0; // not supported
}

FAKE_API int nvmlDeviceGetTotalEnergyConsumption(nvml_device device, unsigned long long *millijoule)
{
    *millijoule = get(device).millijoule;
    return *millijoule == UINT64_MAX ? 3 : 0;
}

FAKE_API int nvmlDeviceGetTemperature(nvml_device device, int sensor, unsigned *c)
{
    *c = get(device).celsius;
    return sensor == NVML_SENSOR_GPU ? 0 : 2;
}

FAKE_API int nvmlDeviceGetEncoderUtilization(nvml_device device, unsigned *percent,
                                             unsigned *period_us)
{
    *percent = get(device).encoder;
    *period_us = 1000;
    return 0;
}

FAKE_API int nvmlDeviceGetDecoderUtilization(nvml_device device, unsigned *percent,
                                             unsigned *period_us)
{
    *percent = get(device).decoder;
    *period_us = 1000;
    return device->index ? 3 : 0;
}
FAKE_API int nvmlDeviceGetPersistenceMode(nvml_device device, int *on)
{
    *on = device->index;
    return 0;
}

FAKE_API int nvmlDeviceGetCurrPcieLinkGeneration(nvml_device device, unsigned *n) { return *n = 1, 0; }

FAKE_API int nvmlDeviceGetMaxPcieLinkGeneration(nvml_device device, unsigned *n) { return *n = 5, 0; }

FAKE_API int nvmlDeviceGetCurrPcieLinkWidth(nvml_device device, unsigned *lanes) { return *lanes = device->index ? 16 : 8, 0; }

FAKE_API int nvmlDeviceGetMaxPcieLinkWidth(nvml_device device, unsigned *lanes) { return *lanes = 16, 0; }

// nvmlDeviceGetEnforcedPowerLimit is left out: old drivers lack a function here and there.
