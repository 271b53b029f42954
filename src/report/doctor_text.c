#include "report/json_text.h"

#include <tachy/doctor.h>

// "a, b, c" of an array of texts.
static void print_list(FILE *f, const char *label, const json_t *list)
{
    size_t i;
    json_t *v;
    fprintf(f, "%-14s%s", label, json_array_size(list) ? "" : "none");
    json_array_foreach(list, i, v) fprintf(f, "%s%s", i ? ", " : "", json_string_value(v));
    fputc('\n', f);
}

static void print_cpu(FILE *f, const json_t *cpu)
{
    fprintf(f, "CPU           %s, %lld cores, kernels for %s\n", report_text(cpu, "name", "unknown"),
            report_int(cpu, "cores"), report_text(cpu, "isa", "c"));
    print_list(f, "  features", json_object_get(cpu, "features"));
}

// "L1 data 32 KiB, L2 unified 1 MiB, L3 unified 32 MiB for 2 cores"
static void print_caches(FILE *f, const json_t *caches)
{
    size_t i;
    json_t *c;
    json_array_foreach(caches, i, c)
    {
        long long kib = report_int(c, "kib"), cores = report_int(c, "cores");
        fprintf(f, "%sL%lld %s %lld %s", i ? ", " : "  caches      ", report_int(c, "level"), report_text(c, "type", "?"),
                kib < 1024 ? kib : kib / 1024, kib < 1024 ? "KiB" : "MiB");
        if (cores > 1)
            fprintf(f, " for %lld cores", cores);
    }
    if (json_array_size(caches))
        fputc('\n', f);
}

static void print_machine(FILE *f, const json_t *m)
{
    const json_t *rate = json_object_get(m, "memory_bytes_per_s"), *celsius = json_object_get(m, "celsius"),
                 *throttled = json_object_get(m, "throttled");
    print_caches(f, json_object_get(m, "caches"));
    if (json_is_number(rate))
        fprintf(f, "  memory      %.1f GB/s read by all cores together\n", json_number_value(rate) * 1e-9);
    fprintf(f, "  governor    %s\n", report_text(m, "governor", "not known"));
    if (json_is_number(celsius))
        fprintf(f, "  temperature %.0f C\n", json_number_value(celsius));
    if (json_is_number(throttled))
        fprintf(f, "  throttled   %lld times since the start\n", (long long)json_integer_value(throttled));
}

static double tera(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key)) * 1e-12;
}

// "hevc 8 bit 4:2:0, 10 bit 4:2:0 up to 8192x8192": one line per codec, whose rows follow each other.
static void print_decode(FILE *f, const json_t *rows)
{
    const char *codec = "";
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *r = json_array_get(rows, i), *next = json_array_get(rows, i + 1);
        const char *name = report_text(r, "codec", "?");
        bool first = strcmp(name, codec) != 0, last = !next || strcmp(name, report_text(next, "codec", "?"));
        if (first)
            fprintf(f, "  %-11s %s ", i ? "" : "NVDEC", name);
        fprintf(f, "%s%lld bit %s", first ? "" : ", ", report_int(r, "bits"), report_text(r, "chroma", "?"));
        if (last)
            fprintf(f, " up to %lldx%lld\n", report_int(r, "max_width"), report_int(r, "max_height"));
        codec = name;
    }
}

static void print_state(FILE *f, const json_t *s)
{
    const json_t *pcie = json_object_get(s, "pcie"), *on = json_object_get(s, "persistence"), *slowed = json_object_get(s, "slowed");
    if (json_is_object(pcie))
        fprintf(f, "  PCIe        generation %lld of %lld, %lld of %lld lanes\n", report_int(pcie, "generation"),
                report_int(pcie, "generation_max"), report_int(pcie, "width"), report_int(pcie, "width_max"));
    if (json_is_number(json_object_get(s, "power_limit_w")))
        fprintf(f, "  power limit %.0f W\n", json_number_value(json_object_get(s, "power_limit_w")));
    if (json_is_boolean(on))
        fprintf(f, "  persistence %s\n", json_is_true(on) ? "on" : "off");
    if (json_is_number(json_object_get(s, "celsius")))
        fprintf(f, "  temperature %lld C\n", report_int(s, "celsius"));
    if (json_array_size(slowed))
        print_list(f, "  slowed by", slowed);
}

static void print_gpu(FILE *f, const json_t *g)
{
    const json_t *m = json_object_get(g, "measured");
    fprintf(f, "GPU           %s, driver %s, %lld MiB\n", report_text(g, "name", "unknown"),
            report_text(g, "driver", "unknown"), report_int(g, "memory_mib"));
    fprintf(f, "  compute     %s, %lld multiprocessors, L2 %lld MiB\n",
            report_text(g, "compute_capability", "unknown"), report_int(g, "multiprocessors"), report_int(g, "l2_mib"));
    if (json_is_object(m))
        fprintf(f, "  measured    copy %.2f TB/s, matmul fp16 %.0f, tf32 %.0f TFLOP/s\n",
                tera(m, "copy_bytes_per_s"), tera(m, "fp16_ops_per_s"), tera(m, "tf32_ops_per_s"));
    print_state(f, json_object_get(g, "state"));
    fprintf(f, "  kernels     %s\n", report_text(g, "kernels", "unknown"));
    print_decode(f, json_object_get(g, "decode"));
}

static void print_gpus(FILE *f, const json_t *gpus, json_t *libraries)
{
    size_t i;
    json_t *v;
    const char *key;
    if (!json_array_size(gpus))
        fputs("GPU           none found\n", f);
    json_array_foreach(gpus, i, v) print_gpu(f, v);
    json_object_foreach(libraries, key, v)
        fprintf(f, "  %-11s %s\n", key, json_is_string(v) ? json_string_value(v) : "(missing)");
}

static void print_ffmpeg(FILE *f, json_t *ffmpeg)
{
    const char *key;
    json_t *v;
    fputs("FFmpeg       ", f);
    json_object_foreach(ffmpeg, key, v) if (json_is_string(v))
        fprintf(f, " %s %s", key, json_string_value(v));
    fputs("\n  encoders    ", f);
    json_object_foreach(json_object_get(ffmpeg, "encoders"), key, v)
        fprintf(f, " %s%s", key, json_is_true(v) ? "" : " (missing)");
    fputc('\n', f);
}

static void print_runtime(FILE *f, const json_t *ort)
{
    if (!json_is_object(ort)) {
        fputs("ONNX Runtime  not found\n", f);
        return;
    }
    fprintf(f, "ONNX Runtime  %s (%s)\n", report_text(ort, "version", "unknown"),
            report_text(ort, "path", "found by the system"));
    print_list(f, "  providers", json_object_get(ort, "providers"));
    const json_t *own = json_object_get(ort, "tachy");
    if (json_is_object(own))
        fprintf(f, "  tachy       %s (%s)\n", report_text(own, "version", "?"), report_text(own, "path", "?"));
    else
        fputs("  tachy       libtachy_ep.so not found\n", f);
}

static void print_models(FILE *f, const json_t *models)
{
    size_t i;
    json_t *m;
    json_array_foreach(models, i, m)
    {
        bool present = json_is_true(json_object_get(m, "present"));
        fprintf(f, "%-13s %-20s %s\n", i ? "" : "models", report_text(m, "name", "?"),
                present ? report_text(m, "path", "present") : "not here");
    }
}

// Each thing with its command.
static void print_commands(FILE *f, const char *title, const json_t *list)
{
    size_t i;
    json_t *m;
    if (json_array_size(list))
        fprintf(f, "\n%s:\n", title);
    json_array_foreach(list, i, m)
        fprintf(f, "  %s\n      %s\n", report_text(m, "what", "?"), report_text(m, "command", ""));
}

static void print_all(FILE *f, json_t *r)
{
    fprintf(f, "tachy         %s\n", report_text(r, "tachy", tachy_version()));
    print_cpu(f, json_object_get(r, "cpu"));
    print_machine(f, json_object_get(r, "machine"));
    print_gpus(f, json_object_get(r, "gpu"), json_object_get(r, "cuda"));
    print_ffmpeg(f, json_object_get(r, "ffmpeg"));
    print_runtime(f, json_object_get(r, "onnxruntime"));
    print_models(f, json_object_get(r, "models"));
    print_commands(f, "Missing", json_object_get(r, "missing"));
    print_commands(f, "Makes runs slower", json_object_get(r, "advice"));
    if (!json_array_size(json_object_get(r, "missing")))
        fputs("\nAll required components found.\n", f);
}

int tachy_doctor_text(char **text, const char *json) { return report_as_text(text, json, print_all); }
