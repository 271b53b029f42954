#include "report/doctor_gpu.h"

#include "base/base.h"
#include "cuda/kernels.h"
#include "cuda/nvdec.h"
#include "cuda/rates.h"

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

static json_t *device_json(struct tachy_device *d, const struct tachy_log *log)
{
    char driver[80], cc[32], why[256];
    driver_text(d->driver, driver, sizeof(driver));
    snprintf(cc, sizeof(cc), "%d.%d", d->cc_major, d->cc_minor);
    return json_pack("{s:s, s:s, s:I, s:s, s:i, s:I, s:s, s:o, s:o, s:s}", "name", d->name, "driver", driver,
                     "memory_mib", (json_int_t)(d->bytes >> 20), "compute_capability", cc,
                     "multiprocessors", d->sm_count, "l2_mib", (json_int_t)(d->l2_bytes >> 20),
                     "pci", d->pci, "measured", measured_json(d), "decode",
                     decode_json(d, log), "kernels",
                     TACHY_DEF(tachy_cuda_refuses(d, why), "run here"));
}

json_t *doctor_gpus(const struct tachy_log *log)
{
    json_t *list = json_array();
    const struct tachy_cu *cu;
    int count = 0;
    if (tachy_cu_load(&cu, TACHY_LOG_VERBOSE, log) < 0 || cu->device_count(&count))
        return list;
    for (int i = 0; i < count; i++) {
        struct tachy_device d;
        if (tachy_device_describe(&d, cu, i, log) == TACHY_OK)
            json_array_append_new(list, device_json(&d, log));
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
