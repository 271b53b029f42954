#include "cuda/asked.h"

#include "base/base.h"
#include "cuda/device.h"

#include <stdio.h>
#include <stdlib.h>

static bool says(const tachy_settings *s, const char *path, const char *word)
{
    const char *text = tachy_settings_str(s, path);
    return text && !strcmp(text, word);
}

// The command line has priority over a file.
static int which_option(const tachy_settings *s, bool *several, const struct tachy_log *log)
{
    bool ids = tachy_settings_is_set(s, "gpu.ids"), id = tachy_settings_is_set(s, "gpu.id");
    bool typed_ids = !strcmp(tachy_settings_origin(s, "gpu.ids"), "command line"),
         typed_id = !strcmp(tachy_settings_origin(s, "gpu.id"), "command line");
    *several = ids && (!id || typed_ids);
    if (ids && id && typed_ids == typed_id)
        return tachy_fail(log, TACHY_ERR_INVAL, "--gpus (gpu.ids) and --gpu-id (gpu.id) both say which GPU is used: give one of them");
    return TACHY_OK;
}

static int add(int ids[TACHY_MAX_GPUS], int *n, long id, const struct tachy_log *log)
{
    for (int i = 0; i < *n; i++)
        if (ids[i] == id)
            return tachy_fail(log, TACHY_ERR_INVAL, "--gpus: GPU %ld is named twice", id);
    ids[(*n)++] = (int)id;
    return TACHY_OK;
}

// Numbers with commas between them.
static int parse(const char *text, int ids[TACHY_MAX_GPUS], int *n, const struct tachy_log *log)
{
    const char *at = text;
    for (;;) {
        char *end = NULL;
        bool digit = *at >= '0' && *at <= '9';
        long id = digit ? strtol(at, &end, 10) : 0;
        if (!digit || (*end && *end != ',') || id >= TACHY_MAX_GPUS)
            return tachy_fail(log, TACHY_ERR_INVAL, "--gpus %s: it takes numbers of GPUs from 0 to %d with commas between them "
                              "(0,1), or all", text, TACHY_MAX_GPUS - 1);
        int err = add(ids, n, id, log);
        if (err < 0 || !*end)
            return err;
        at = end + 1;
    }
}

static int count(int *n, const struct tachy_log *log)
{
    const struct tachy_cu *cu;
    int err = tachy_cu_load(&cu, TACHY_LOG_ERR, log);
    if (err == TACHY_OK)
        err = tachy_cu_check(cu, cu->device_count(n), log, "GPUs cannot be counted");
    if (err == TACHY_OK && !*n)
        err = tachy_fail(log, TACHY_ERR_UNAVAILABLE, "the driver counts no GPU");
    return err;
}

static int first_asked(const tachy_settings *s)
{
    const char *ids = s ? tachy_settings_str(s, "gpu.ids") : NULL;
    return !s ? 0 : ids ? atoi(ids) : (int)tachy_settings_int(s, "gpu.id"); // "all" begins with 0
}

bool tachy_gpu_runs(const tachy_settings *s, char *text, size_t size)
{
    const struct tachy_cu *cu;
    struct tachy_device d;
    char why[256];
    int n = 0;
    text = size ? text : NULL;
    if (tachy_cu_load(&cu, TACHY_LOG_VERBOSE, NULL) < 0 || cu->device_count(&n) || n <= first_asked(s)) {
        snprintf(text, text ? size : 0, "%s", n ? "the driver does not count the GPU that is named" : "there is no NVIDIA GPU with its driver here");
        return false;
    }
    bool known = tachy_device_describe(&d, cu, first_asked(s), NULL) == TACHY_OK;
    bool runs = known && !tachy_cuda_refuses(&d, why);
    snprintf(text, text ? size : 0, "%s", runs ? d.name : known ? why : "the driver does not say what GPU there is");
    return runs;
}

// The driver is asked only if something uses them.
static int list(const tachy_settings *s, bool used, int ids[TACHY_MAX_GPUS], int *n, const struct tachy_log *log)
{
    bool several, all = says(s, "gpu.ids", "all");
    int there = 0, err = which_option(s, &several, log);
    *n = 0;
    if (err == TACHY_OK && several && !all)
        err = parse(tachy_settings_str(s, "gpu.ids"), ids, n, log);
    if (err < 0)
        return err;
    if (!used) {
        *n = 0;
        return TACHY_OK;
    }
    if (!several)
        err = add(ids, n, (long)tachy_settings_int(s, "gpu.id"), log);
    if (err == TACHY_OK)
        err = count(&there, log);
    for (int i = 0; i < *n && err == TACHY_OK; i++)
        if (ids[i] >= there)
            err = tachy_fail(log, TACHY_ERR_INVAL, "%s: there is no GPU %d: the driver counts %d",
                             several ? "--gpus" : "--gpu-id", ids[i], there);
    for (int i = 0; all && i < TACHY_MIN(there, TACHY_MAX_GPUS) && err == TACHY_OK; i++)
        err = add(ids, n, i, log);
    return err;
}

int tachy_gpus_named(const tachy_settings *s, int ids[TACHY_MAX_GPUS], int *n, const struct tachy_log *log)
{
    return list(s, true, ids, n, log);
}

int tachy_gpus_asked(const tachy_settings *s, int ids[TACHY_MAX_GPUS], int *n, const struct tachy_log *log)
{
    if (!TACHY_CHECK(log, s && ids && n))
        return TACHY_ERR_INVAL;
    return list(s, says(s, "gpu.device", "cuda") || says(s, "pipeline.stages.decode.device", "nvdec"), ids, n, log);
}
