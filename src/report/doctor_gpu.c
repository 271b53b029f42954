#include "report/doctor_gpu.h"

#include "base/base.h"
#include "cuda/kernels.h"
#include "cuda/loader.h"
#include "cuda/nvdec.h"
#include "cuda/rates.h"
#include "report/doctor_machine.h"

#include <stdio.h>

// "550.54.15, CUDA 12.4": of the kernel module, and what the driver offers.
static void driver_text(int cuda, char *text, size_t size)
{
    char line[256] = "", *rest = NULL;
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

static json_t *measured_json(const struct tachy_device *d)
{
    struct tachy_gpu_rates r;
    if (!tachy_gpu_rates_cached(&r, d))
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "copy_bytes_per_s", r.copy_bps, "to_host_bytes_per_s",
                     r.to_host_bps, "to_device_bytes_per_s", r.to_device_bps, "fp16_ops_per_s",
                     r.flops[TACHY_RATE_FP16], "tf32_ops_per_s", r.flops[TACHY_RATE_TF32]);
}

// What NVDEC decodes; null where nothing can be said.
static json_t *decode_json(struct tachy_device *d, const struct tachy_log *log)
{
    struct tachy_log quiet = {0}; // what is missing is an answer here, not an error
    const struct tachy_cuvid *cuvid;
    if (tachy_cuvid_load(&cuvid, TACHY_LOG_VERBOSE, log) < 0)
        return json_null();
    json_t *list = json_array();
    for (const struct tachy_nvdec_kind *k = tachy_nvdec_kinds; k->bits; k++) {
        struct tachy_nvdec_caps c;
        if (tachy_nvdec_ask(&c, d, k, &quiet) < 0 || !c.supported)
            continue;
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:i, s:i, s:i, s:i}", "codec", tachy_nvdec_codec_name(k->codec),
                            "chroma", k->chroma == CUVID_420 ? "4:2:0" : "4:4:4", "bits", k->bits,
                            "max_width", c.max_width, "max_height", c.max_height, "engines",
                            c.engines));
    }
    return list;
}

#define ASK(fn, ...) (nvml->fn && nvml->fn(__VA_ARGS__) == NVML_OK)

// Lanes and generation now and at most. An idle link falls back to a lower generation, so only lanes are worth advice.
static json_t *pcie_json(const struct tachy_nvml *nvml, nvml_device g, const char *pci, json_t *advice)
{
    unsigned generation, generation_max, width, width_max;
    if (!ASK(link_generation, g, &generation) || !ASK(link_generation_max, g, &generation_max) || !ASK(link_width, g, &width) ||
        !ASK(link_width_max, g, &width_max))
        return json_null();
    if (width < width_max) {
        char command[96];
        snprintf(command, sizeof(command), "sudo lspci -vv -s %s | grep Lnk", pci);
        doctor_advise(advice, command, "GPU %s has %u of %u PCIe lanes: use another slot", pci, width, width_max);
    }
    return json_pack("{s:i, s:i, s:i, s:i}", "generation", (int)generation, "generation_max", (int)generation_max, "width", (int)width,
                     "width_max", (int)width_max);
}

static json_t *slowed_json(const struct tachy_nvml *nvml, nvml_device g, const char *pci, json_t *advice)
{
    unsigned long long reasons;
    json_t *list = json_array();
    if (!ASK(throttle, g, &reasons))
        return list;
    for (int i = 0; i < NVML_THROTTLE_REASONS; i++)
        if (reasons & NVML_THROTTLE_SLOW & 1u << i)
            json_array_append_new(list, json_string(tachy_nvml_reason(i)));
    if (reasons & NVML_THROTTLE_HEAT)
        doctor_advise(advice, "nvidia-smi -q -d TEMPERATURE,PERFORMANCE", "GPU %s is slowed down by its heat: improve the cooling", pci);
    return list;
}

static json_t *power_json(const struct tachy_nvml *nvml, nvml_device g, const char *pci, json_t *advice, double *full)
{
    unsigned limit, whole;
    *full = ASK(power_default, g, &whole) ? whole / 1000.0 : 0;
    if (!ASK(power_limit, g, &limit))
        return json_null();
    if (limit / 1000.0 < *full) {
        char command[96];
        snprintf(command, sizeof(command), "sudo nvidia-smi -i %s -pl %.0f", pci, *full);
        doctor_advise(advice, command, "the power limit of GPU %s is %.0f of %.0f W", pci, limit / 1000.0, *full);
    }
    return json_real(limit / 1000.0);
}

static json_t *persistence_json(const struct tachy_nvml *nvml, nvml_device g, const char *pci, json_t *advice)
{
    int on;
    if (!ASK(persistence, g, &on))
        return json_null();
    if (!on) {
        char command[96];
        snprintf(command, sizeof(command), "sudo nvidia-smi -i %s -pm 1", pci);
        doctor_advise(advice, command, "persistence mode of GPU %s is off: the driver starts it anew for each run", pci);
    }
    return json_boolean(on);
}

// How the driver has set a GPU up; null without NVML.
static json_t *state_json(const char *pci, json_t *advice)
{
    const struct tachy_nvml *nvml;
    struct tachy_log quiet = {0};
    nvml_device g;
    unsigned celsius;
    json_t *o = json_null();
    if (!*pci || tachy_nvml_load(&nvml, TACHY_LOG_VERBOSE, &quiet) < 0 || nvml->init() != NVML_OK)
        return o;
    if (ASK(by_pci, pci, &g)) {
        double full;
        json_t *link = pcie_json(nvml, g, pci, advice), *on = persistence_json(nvml, g, pci, advice),
               *limit = power_json(nvml, g, pci, advice, &full), *slowed = slowed_json(nvml, g, pci, advice);
        o = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "pcie", link, "persistence", on, "power_limit_w", limit, "power_default_w",
                      full > 0 ? json_real(full) : json_null(), "celsius",
                      ASK(temperature, g, NVML_SENSOR_GPU, &celsius) ? json_integer(celsius) : json_null(), "slowed", slowed);
    }
    nvml->shutdown();
    return o;
}

static json_t *device_json(struct tachy_device *d, json_t *advice, const struct tachy_log *log)
{
    char driver[80], cc[32], why[256];
    driver_text(d->driver, driver, sizeof(driver));
    snprintf(cc, sizeof(cc), "%d.%d", d->cc_major, d->cc_minor);
    return json_pack("{s:s, s:s, s:I, s:s, s:i, s:I, s:s, s:o, s:o, s:o, s:s}", "name", d->name, "driver", driver,
                     "memory_mib", (json_int_t)(d->bytes >> 20), "compute_capability", cc,
                     "multiprocessors", d->sm_count, "l2_mib", (json_int_t)(d->l2_bytes >> 20),
                     "pci", d->pci, "measured", measured_json(d), "state", state_json(d->pci, advice), "decode",
                     decode_json(d, log), "kernels",
                     TACHY_DEF(tachy_cuda_refuses(d, why), "run here"));
}

json_t *doctor_gpus(json_t *advice, const struct tachy_log *log)
{
    json_t *list = json_array();
    const struct tachy_cu *cu;
    int count = 0;
    if (tachy_cu_load(&cu, TACHY_LOG_VERBOSE, log) < 0 || cu->device_count(&count))
        return list;
    for (int i = 0; i < count; i++) {
        struct tachy_device d;
        if (tachy_device_describe(&d, cu, i, log) == TACHY_OK)
            json_array_append_new(list, device_json(&d, advice, log));
        tachy_device_close(&d);
    }
    return list;
}

json_t *doctor_cuda(const struct tachy_log *log)
{
    static const char *const names[] = {"cuda", "nvml", "cupti", "cublas", "nvcuvid"};
    const struct tachy_cu *cu;
    const struct tachy_nvml *nvml;
    const struct tachy_cupti *cupti;
    const struct tachy_cublas *cublas;
    const struct tachy_cuvid *cuvid;
    if (tachy_cu_load(&cu, TACHY_LOG_VERBOSE, log) < 0)
        return json_null();
    // What is missing is an answer here, not an error.
    tachy_nvml_load(&nvml, TACHY_LOG_VERBOSE, log);
    tachy_cupti_load(&cupti, TACHY_LOG_VERBOSE, log);
    tachy_cublas_load(&cublas, TACHY_LOG_VERBOSE, log);
    tachy_cuvid_load(&cuvid, TACHY_LOG_VERBOSE, log);
    json_t *o = json_object();
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++) {
        const char *path = tachy_cuda_library_path(names[i]);
        json_object_set_new(o, names[i], path ? json_string(path) : json_null());
    }
    return o;
}
