#include "profile/energy.h"

#include "base/base.h"
#include "cuda/device.h"
#include "profile/system.h"

#include <stdio.h>
#include <stdlib.h>

enum { COUNTERS = 64, ZONES = 16, PATH = 80 };

struct counter {
    char path[PATH]; // of a RAPL zone, in microjoules; "": NVML's of `gpu`, in millijoules
    nvml_device gpu;
    uint64_t last, range; // `range`: it goes on at 0 there; 0: it never does
};

struct tachy_energy_meter {
    char *root;
    const struct tachy_nvml *nvml; // NULL: not in use
    struct counter counter[COUNTERS];
    int n;
    bool failed;
    struct tachy_energy used;
};

static bool read_counter(const struct tachy_energy_meter *m, const struct counter *c, uint64_t *value)
{
    unsigned long long mj = 0;
    if (*c->path) {
        long long uj = tachy_system_number(m->root, c->path);
        *value = (uint64_t)TACHY_MAX(uj, 0);
        return uj >= 0;
    }
    bool ok = m->nvml->energy && m->nvml->energy(c->gpu, &mj) == NVML_OK;
    *value = mj;
    return ok;
}

static bool add_counter(struct tachy_energy_meter *m, struct counter c)
{
    if (m->n == COUNTERS || !read_counter(m, &c, &c.last))
        return false;
    m->counter[m->n++] = c;
    return true;
}

static bool zone_is(const char *root, const char *zone, const char *name)
{
    char path[PATH], text[32] = "";
    snprintf(path, sizeof(path), "%s/name", zone);
    FILE *f = tachy_system_file(root, path);
    bool is = f && fgets(text, sizeof(text), f) && !strncmp(text, name, strlen(name));
    if (f)
        fclose(f);
    return is;
}

static bool add_zone(struct tachy_energy_meter *m, const char *zone)
{
    char path[PATH];
    struct counter c = {0};
    snprintf(path, sizeof(path), "%s/max_energy_range_uj", zone);
    c.range = (uint64_t)TACHY_MAX(tachy_system_number(m->root, path), 0);
    snprintf(c.path, sizeof(c.path), "%s/energy_uj", zone);
    return add_counter(m, c);
}

// Packages and the memory that is counted apart from them. A zone of the whole platform has the packages in it and is left out.
static bool add_cpu(struct tachy_energy_meter *m)
{
    char zone[48];
    bool all = true;
    int before = m->n;
    for (int i = 0; i < ZONES && all; i++) {
        snprintf(zone, sizeof(zone), "/sys/class/powercap/intel-rapl:%d", i);
        if (!zone_is(m->root, zone, "package"))
            continue;
        all = add_zone(m, zone);
        for (int k = 0; k < ZONES && all; k++) {
            snprintf(zone, sizeof(zone), "/sys/class/powercap/intel-rapl:%d:%d", i, k);
            if (zone_is(m->root, zone, "dram"))
                all = add_zone(m, zone);
        }
    }
    if (!all) // part of it says nothing of the whole
        m->n = before;
    return m->n > before;
}

static bool add_gpus(struct tachy_energy_meter *m, const int *gpus, int n, const struct tachy_log *log)
{
    const struct tachy_cu *cu;
    const struct tachy_nvml *nvml;
    if (tachy_cu_load(&cu, TACHY_LOG_VERBOSE, log) < 0 || tachy_nvml_load(&nvml, TACHY_LOG_VERBOSE, log) < 0 || nvml->init() != NVML_OK)
        return false;
    m->nvml = nvml;
    bool all = true;
    for (int i = 0; i < n && all; i++) {
        struct counter c = {0};
        all = tachy_device_nvml(cu, gpus[i], nvml, &c.gpu) && add_counter(m, c);
    }
    return all;
}

struct tachy_energy_meter *tachy_energy_open(const char *root, const int *gpus, int nb_gpus, const struct tachy_log *log)
{
    struct tachy_energy_meter *m = calloc(1, sizeof(*m));
    root = tachy_system_root(root);
    if (!m || !(m->root = strdup(root ? root : ""))) {
        free(m);
        return NULL;
    }
    m->used.gpus = nb_gpus && add_gpus(m, gpus, nb_gpus, log);
    m->used.cpu = add_cpu(m);
    if (nb_gpus ? m->used.gpus : m->used.cpu)
        return m;
    tachy_msg(log, TACHY_LOG_VERBOSE, "energy is not measured: %s cannot be read",
              nb_gpus ? "NVML's counter of a GPU" : "/sys/class/powercap/intel-rapl:*/energy_uj");
    tachy_energy_close(&m);
    return NULL;
}

void tachy_energy_read(struct tachy_energy_meter *m, struct tachy_energy *out)
{
    *out = (struct tachy_energy){0};
    for (int i = 0; m && i < m->n && !m->failed; i++) {
        struct counter *c = &m->counter[i];
        uint64_t now = 0;
        m->failed = !read_counter(m, c, &now) || (now < c->last && !c->range);
        uint64_t more = now >= c->last ? now - c->last : now + c->range - c->last;
        m->used.joules += m->failed ? 0 : (double)more * (*c->path ? 1e-6 : 1e-3);
        c->last = now;
    }
    if (m && !m->failed)
        *out = m->used;
}

void tachy_energy_close(struct tachy_energy_meter **pm)
{
    struct tachy_energy_meter *m = *pm;
    *pm = NULL;
    if (!m)
        return;
    if (m->nvml)
        m->nvml->shutdown();
    free(m->root);
    free(m);
}
