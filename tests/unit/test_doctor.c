#include "test.h"

#include "base/base.h"
#include "base/cpu.h"

#include <jansson.h>
#include <stdlib.h>
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

TEST_MAIN(TEST_CASE(says_what_is_here), TEST_CASE(says_what_is_missing))
