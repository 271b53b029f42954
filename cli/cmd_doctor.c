#include "cli.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <tachy/doctor.h>

// "a, b, c" of an array of texts, as columns of the page allow.
static void print_list(const char *label, const json_t *list)
{
    char *text = NULL;
    size_t size = 0, i;
    json_t *v;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return;
    json_array_foreach(list, i, v) fprintf(f, "%s%s", i ? ", " : "", json_string_value(v));
    fclose(f);
    int at = printf("%-14s", label);
    text_wrap(stdout, size ? text : "none", at, 14, terminal_width(stdout));
    putchar('\n');
    free(text);
}

static void print_cpu(const json_t *cpu)
{
    printf("CPU           %s, %lld cores, kernels for %s\n", text_or(cpu, "name", "unknown"),
           int_of(cpu, "cores"), text_or(cpu, "isa", "c"));
    print_list("  features", json_object_get(cpu, "features"));
}

static double tera(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key)) * 1e-12;
}

// "hevc 8 bit 4:2:0, 10 bit 4:2:0 up to 8192x8192": a line a codec; its rows follow each other.
static void print_decode(const json_t *rows)
{
    const char *codec = "";
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *r = json_array_get(rows, i), *next = json_array_get(rows, i + 1);
        const char *name = text_or(r, "codec", "?");
        bool first = strcmp(name, codec) != 0, last = !next || strcmp(name, text_or(next, "codec", "?"));
        if (first)
            printf("  %-11s %s ", i ? "" : "NVDEC", name);
        printf("%s%lld bit %s", first ? "" : ", ", int_of(r, "bits"),
               text_or(r, "chroma", "?"));
        if (last)
            printf(" up to %lldx%lld\n", int_of(r, "max_width"),
                   int_of(r, "max_height"));
        codec = name;
    }
}

static void print_gpu(const json_t *g)
{
    const json_t *m = json_object_get(g, "measured");
    printf("GPU           %s, driver %s, %lld MiB\n", text_or(g, "name", "unknown"),
           text_or(g, "driver", "unknown"),
           int_of(g, "memory_mib"));
    printf("  compute     %s, %lld multiprocessors, L2 %lld MiB\n",
           text_or(g, "compute_capability", "unknown"),
           int_of(g, "multiprocessors"),
           int_of(g, "l2_mib"));
    if (json_is_object(m))
        printf("  measured    copy %.2f TB/s, matmul fp16 %.0f, tf32 %.0f TFLOP/s\n",
               tera(m, "copy_bytes_per_s"), tera(m, "fp16_ops_per_s"), tera(m, "tf32_ops_per_s"));
    printf("  kernels     %s\n", text_or(g, "kernels", "unknown"));
    print_decode(json_object_get(g, "decode"));
}

static void print_gpus(const json_t *gpus, json_t *libraries)
{
    size_t i;
    json_t *v;
    const char *key;
    if (!json_array_size(gpus))
        puts("GPU           none found");
    json_array_foreach(gpus, i, v) print_gpu(v);
    json_object_foreach(libraries, key, v)
        printf("  %-11s %s\n", key, json_is_string(v) ? json_string_value(v) : "(missing)");
}

static void print_ffmpeg(json_t *ffmpeg)
{
    const char *key;
    json_t *v;
    fputs("FFmpeg       ", stdout);
    json_object_foreach(ffmpeg, key, v) if (json_is_string(v))
        printf(" %s %s", key, json_string_value(v));
    fputs("\n  encoders    ", stdout);
    json_object_foreach(json_object_get(ffmpeg, "encoders"), key, v)
        printf(" %s%s", key, json_is_true(v) ? "" : " (missing)");
    putchar('\n');
}

static void print_runtime(const json_t *ort)
{
    if (!json_is_object(ort)) {
        puts("ONNX Runtime  not found");
        return;
    }
    printf("ONNX Runtime  %s (%s)\n", text_or(ort, "version", "unknown"),
           text_or(ort, "path", "found by the system"));
    print_list("  providers", json_object_get(ort, "providers"));
    const json_t *own = json_object_get(ort, "tachy");
    if (json_is_object(own))
        printf("  tachy       %s (%s)\n", text_or(own, "version", "?"), text_or(own, "path", "?"));
    else
        puts("  tachy       libtachy_ep.so not found");
}

static void print_models(const json_t *models)
{
    size_t i;
    json_t *m;
    json_array_foreach(models, i, m)
    {
        bool present = json_is_true(json_object_get(m, "present"));
        printf("%-13s %-20s %s\n", i ? "" : "models", text_or(m, "name", "?"),
               present ? text_or(m, "path", "present") : "not here");
    }
}

// Each thing that is missing, with the command that brings it.
static void print_missing(const json_t *missing)
{
    size_t i;
    json_t *m;
    if (!json_array_size(missing)) {
        puts("\nEverything that is needed is here.");
        return;
    }
    puts("\nMissing:");
    json_array_foreach(missing, i, m)
        printf("  %s\n      %s\n", text_or(m, "what", "?"), text_or(m, "command", ""));
}

static int get_report(const struct tachy_log *log, char **text, json_t **report)
{
    *text = NULL;
    *report = NULL;
    int err = tachy_doctor(text, log);
    if (err < 0)
        return err;
    *report = json_loads(*text, 0, NULL);
    if (*report)
        return TACHY_OK;
    tachy_free(*text);
    *text = NULL;
    return TACHY_ERR_NOMEM;
}

static int run_doctor(struct cli *c)
{
    char *text;
    json_t *r;
    const char *json = tachy_settings_str(c->settings, "run.json");
    int err = get_report(&c->log, &text, &r);
    if (err < 0)
        return message_failed(err);
    json_t *missing = json_object_get(r, "missing");
    int status = json_array_size(missing) ? STATUS_FAILED : STATUS_OK;
    if (json) {
        err = write_text(json, text);
        if (err < 0)
            status = message_failed(err);
    } else {
        printf("tachy         %s\n", text_or(r, "tachy", tachy_version()));
        print_cpu(json_object_get(r, "cpu"));
        print_gpus(json_object_get(r, "gpu"), json_object_get(r, "cuda"));
        print_ffmpeg(json_object_get(r, "ffmpeg"));
        print_runtime(json_object_get(r, "onnxruntime"));
        print_models(json_object_get(r, "models"));
        print_missing(missing);
    }
    json_decref(r);
    tachy_free(text);
    return status;
}

int print_version(void)
{
    char *text;
    json_t *r, *v;
    const char *key;
    printf("tachy %s\n", tachy_version());
    if (get_report(NULL, &text, &r) < 0)
        return STATUS_OK;
    json_object_foreach(json_object_get(r, "ffmpeg"), key, v) if (json_is_string(v))
        printf("%s %s\n", key, json_string_value(v));
    const json_t *ort = json_object_get(r, "onnxruntime");
    printf("ONNX Runtime %s\n",
           json_is_object(ort) ? text_or(ort, "version", "unknown") : "not found");
    json_decref(r);
    tachy_free(text);
    return STATUS_OK;
}

const struct verb verb_doctor = {
    .name = "doctor",
    .usage = "[options]",
    .summary = "say what this machine offers, and what is missing",
    .details =
        "Prints CPU features, GPU and driver if any, FFmpeg, ONNX Runtime and its providers, and "
        "the models that are present. For each thing that is missing it names the command that "
        "brings it. Exit status 0: all that is needed is here; 1: something is missing.",
    .options = TACHY_VERB_DOCTOR,
    .examples = EXAMPLES({"tachy doctor --json", "the same for programs"}),
    .run = run_doctor,
};
