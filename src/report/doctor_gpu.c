#include "report/doctor_gpu.h"

#include "base/base.h"

#include <dlfcn.h>
#include <stdio.h>

// The few calls of the CUDA driver API that name a device; they create no context. Every one
// returns 0 for success.
struct driver {
    int (*init)(unsigned flags);
    int (*version)(int *version);
    int (*count)(int *count);
    int (*get)(int *device, int ordinal);
    int (*name)(char *name, int size, int device);
    int (*memory)(size_t *bytes, int device);
};

static bool load(struct driver *d, void *lib)
{
    *(void **)&d->init = dlsym(lib, "cuInit");
    *(void **)&d->version = dlsym(lib, "cuDriverGetVersion");
    *(void **)&d->count = dlsym(lib, "cuDeviceGetCount");
    *(void **)&d->get = dlsym(lib, "cuDeviceGet");
    *(void **)&d->name = dlsym(lib, "cuDeviceGetName");
    *(void **)&d->memory = dlsym(lib, "cuDeviceTotalMem_v2");
    return d->init && d->version && d->count && d->get && d->name && d->memory;
}

// "550.54.15" of the kernel module, else the CUDA version that the driver offers.
static void driver_text(const struct driver *d, char *text, size_t size)
{
    char line[256] = "", *rest = NULL;
    int cuda = 0;
    d->version(&cuda);
    snprintf(text, size, "CUDA %d.%d", cuda / 1000, cuda % 1000 / 10);
    FILE *f = fopen("/proc/driver/nvidia/version", "re");
    if (!f)
        return;
    // "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build ..."
    char *word = fgets(line, sizeof(line), f) ? strtok_r(line, " \t\n", &rest) : NULL;
    while (word && (strspn(word, "0123456789.") != strlen(word) || !strchr(word, '.')))
        word = strtok_r(NULL, " \t\n", &rest);
    if (word)
        snprintf(text, size, "%s, CUDA %d.%d", word, cuda / 1000, cuda % 1000 / 10);
    fclose(f);
}

static void add_devices(json_t *list, const struct driver *d)
{
    char driver[80], name[256] = "";
    int count = 0, device;
    size_t bytes;
    if (d->init(0) || d->count(&count))
        return;
    driver_text(d, driver, sizeof(driver));
    for (int i = 0; i < count; i++) {
        if (d->get(&device, i) || d->name(name, sizeof(name), device) || d->memory(&bytes, device))
            continue;
        json_array_append_new(list, json_pack("{s:s, s:s, s:I}", "name", name, "driver", driver,
                                              "memory_mib", (json_int_t)(bytes >> 20)));
    }
}

json_t *doctor_gpus(const struct tachy_log *log)
{
    json_t *list = json_array();
    struct driver d;
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (lib && load(&d, lib))
        add_devices(list, &d);
    else
        tachy_msg(log, TACHY_LOG_VERBOSE, "no NVIDIA driver (libcuda.so.1)");
    // The library stays loaded: others in the process may have been given it as well.
    return list;
}
