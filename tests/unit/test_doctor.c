#include "test.h"

#include "base/base.h"
#include "base/cpu.h"
#include "report/doctor_machine.h"

#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tachy/doctor.h>

static json_t *ask(void)
{
    char *text;
    CHECK_INT(tachy_doctor(&text, NULL), TACHY_OK);
    json_t *o = text ? json_loads(text, 0, NULL) : NULL;
    CHECK(o);
    tachy_free(text);
    return o;
}

static bool is_missing(json_t *doctor, const char *what)
{
    size_t i;
    json_t *m;
    json_array_foreach(json_object_get(doctor, "missing"), i, m) {
        CHECK(json_string_length(json_object_get(m, "command")) > 0);
        if (strstr(json_string_value(json_object_get(m, "what")), what))
            return true;
    }
    return false;
}

TEST(says_what_is_here)
{
    json_t *o = ask(), *cpu = json_object_get(o, "cpu"), *ffmpeg = json_object_get(o, "ffmpeg");
    CHECK_STR(json_string_value(json_object_get(o, "tachy")), tachy_version());
    CHECK_INT(json_integer_value(json_object_get(cpu, "cores")), tachy_cpu_count());
    CHECK_STR(json_string_value(json_object_get(cpu, "isa")), tachy_isa_name(tachy_cpu_isa()));
    CHECK(json_is_array(json_object_get(cpu, "features")));
    CHECK(json_is_array(json_object_get(o, "gpu")));
    static const char *const libs[] = {"libavcodec", "libavformat", "libavutil", "libswscale"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(libs); i++) {
        const char *v = json_string_value(json_object_get(ffmpeg, libs[i]));
        int a, b, c;
        CHECK(v && sscanf(v, "%d.%d.%d", &a, &b, &c) == 3 && a > 0);
    }
    json_t *ffv1 = json_object_get(json_object_get(ffmpeg, "encoders"), "ffv1");
    CHECK(json_is_true(ffv1)); // is in every build of FFmpeg
    json_t *runtime = json_object_get(o, "onnxruntime");
    CHECK(json_is_null(runtime) == is_missing(o, "ONNX Runtime"));
    CHECK(json_is_null(runtime) || json_string_length(json_object_get(runtime, "version")) >= 6);
    CHECK(json_array_size(json_object_get(o, "models")) >= 2);
    json_decref(o);
}

TEST(as_text)
{
    char *json = NULL, *text = NULL;
    CHECK_INT(tachy_doctor(&json, NULL), TACHY_OK);
    CHECK_INT(tachy_doctor_text(&text, json), TACHY_OK);
    CHECK(strstr(text, "CPU  ") && strstr(text, "libavcodec") && strstr(text, "selfie"));
    tachy_free(text);
    tachy_free(json);
    CHECK_INT(tachy_doctor_text(&text, "{"), TACHY_ERR_FORMAT);
    CHECK(!text);
}

TEST(says_what_is_missing)
{
    setenv("TACHY_ORT", "/nowhere/libonnxruntime.so", 1);
    setenv("TACHY_MODELS", "/nowhere/models", 1);
    json_t *o = ask();
    CHECK(json_is_null(json_object_get(o, "onnxruntime")));
    CHECK(is_missing(o, "ONNX Runtime"));
    CHECK(is_missing(o, "a model"));
    json_t *first = json_array_get(json_object_get(o, "models"), 0);
    CHECK_STR(json_string_value(json_object_get(first, "path")), "/nowhere/models/selfie.onnx");
    CHECK(json_is_false(json_object_get(first, "present")));
    json_decref(o);
}

// Lines as Linux writes them: x86, Arm's own cores, a core of another maker.
TEST(names_the_processor)
{
    static const char *const texts[][2] = {
        {"processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Other\n", "Some CPU @ 2 GHz"},
        {"processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x1\nCPU part\t: 0xd05\n"
         "processor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd42\nCPU revision\t: 0\n"
         "processor\t: 2\nCPU implementer\t: 0x41\nCPU part\t: 0xd41\n"
         "processor\t: 3\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n",
         "Cortex-A55 + Cortex-A78AE + Cortex-A78"},
        {"CPU implementer\t: 0x61\nCPU part\t: 0x022\n", "AArch64 61:022"},
        {"model name\t:\nFeatures\t: fp asimd\n", "unknown"},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(texts); i++) {
        char name[128], small[12];
        FILE *f = fmemopen((void *)texts[i][0], strlen(texts[i][0]), "r");
        tachy_cpu_name_read(f, name, sizeof(name));
        CHECK_STR(name, texts[i][1]);
        rewind(f);
        tachy_cpu_name_read(f, small, sizeof(small));
        CHECK(strlen(small) < sizeof(small));
        fclose(f);
    }
}

static char sys[64];

// A file of the kernel's, below a folder that stands for /sys.
static void plant(const char *path, const char *text)
{
    char name[512];
    snprintf(name, sizeof(name), "%s/%s", sys, path);
    for (char *c = name + strlen(sys) + 1; (c = strchr(c, '/')); *c++ = '/') {
        *c = '\0';
        mkdir(name, 0700);
    }
    FILE *f = fopen(name, "w");
    CHECK(f && fputs(text, f) >= 0);
    if (f)
        fclose(f);
}

static const char *command_of(const json_t *advice, size_t i)
{
    const char *text = json_string_value(json_object_get(json_array_get(advice, i), "command"));
    return text ? text : "";
}

TEST(says_what_slows_the_machine)
{
    strcpy(sys, "/tmp/tachy-doctor-XXXXXX");
    CHECK(mkdtemp(sys));
    json_t *advice = json_array(), *o = doctor_machine(sys, advice);
    CHECK(json_is_null(json_object_get(o, "governor")) && json_is_null(json_object_get(o, "throttled")) &&
          json_is_null(json_object_get(o, "celsius")));
    CHECK_INT(json_array_size(json_object_get(o, "caches")) + json_array_size(advice), 0);
    json_decref(o);
    static const char *const cache[4][2] = {{"level", "3\n"}, {"type", "Unified\n"}, {"size", "32768K\n"}, {"shared_cpu_list", "0-3,8-11,16\n"}};
    for (int i = 0; i < 4; i++) {
        char path[128];
        snprintf(path, sizeof(path), "devices/system/cpu/cpu0/cache/index0/%s", cache[i][0]);
        plant(path, cache[i][1]);
    }
    plant("devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    plant("devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n");
    plant("devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "4\n");
    plant("class/thermal/thermal_zone0/temp", "41000\n");
    plant("class/thermal/thermal_zone1/temp", "73500\n");
    o = doctor_machine(sys, advice);
    const json_t *c = json_array_get(json_object_get(o, "caches"), 0);
    CHECK_INT(json_integer_value(json_object_get(c, "kib")), 32768);
    CHECK_INT(json_integer_value(json_object_get(c, "cores")), 9);
    CHECK_STR(json_string_value(json_object_get(c, "type")), "unified");
    CHECK(json_real_value(json_object_get(o, "celsius")) == 73.5);
    CHECK_INT(json_integer_value(json_object_get(o, "throttled")), 7);
    CHECK_INT(json_array_size(advice), 2);
    CHECK(strstr(command_of(advice, 0), "cpupower frequency-set -g performance") && strstr(command_of(advice, 1), "sensors"));
    json_decref(o);
    json_decref(advice);
    char command[96];
    snprintf(command, sizeof(command), "rm -r %s", sys);
    CHECK_INT(system(command), 0);
}

TEST(memory_bandwidth)
{
    double rate = tachy_doctor_bandwidth();
    CHECK(rate > 1e8 && rate < 1e13);
}

TEST_MAIN(TEST_CASE(says_what_slows_the_machine), TEST_CASE(memory_bandwidth), TEST_CASE(says_what_is_here), TEST_CASE(as_text), TEST_CASE(says_what_is_missing), TEST_CASE(names_the_processor))
