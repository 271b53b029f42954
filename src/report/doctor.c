#include <tachy/doctor.h>

#include "base/base.h"
#include "base/cpu.h"
#include "report/doctor_gpu.h"
#include "report/doctor_machine.h"

#include <jansson.h>
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
#include <libswscale/swscale.h>
#include <stdio.h>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#include <tachy/engine.h>
#include <tachy/model.h>

static json_t *features(void)
{
    json_t *list = json_array();
#if defined(__x86_64__)
#define FEATURE(name)                                                                              \
    if (__builtin_cpu_supports(name))                                                              \
    json_array_append_new(list, json_string(name))
    FEATURE("sse4.2");
    FEATURE("avx");
    FEATURE("avx2");
    FEATURE("fma");
    FEATURE("avx512f");
    FEATURE("avx512bw");
    FEATURE("avx512vl");
    FEATURE("avx512dq");
    FEATURE("avx512vnni");
#undef FEATURE
#elif defined(__aarch64__)
    static const struct {
        unsigned long bit;
        const char *name;
    } bits[] = {{HWCAP_ASIMD, "neon"}, {HWCAP_ASIMDHP, "fp16"}, {HWCAP_ASIMDDP, "dotprod"},
                {HWCAP_SVE, "sve"}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(bits); i++)
        if (getauxval(AT_HWCAP) & bits[i].bit)
            json_array_append_new(list, json_string(bits[i].name));
#endif
    return list;
}

static json_t *cpu_json(void)
{
    return json_pack("{s:s, s:i, s:s, s:o}", "name", tachy_cpu_name(), "cores", tachy_cpu_count(),
                     "isa", tachy_isa_name(tachy_cpu_isa()), "features", features());
}

static void add_missing(json_t *missing, const char *what, const char *command)
{
    json_array_append_new(missing, json_pack("{s:s, s:s}", "what", what, "command", command));
}

static void set_version(json_t *o, const char *name, unsigned v)
{
    char text[40];
    snprintf(text, sizeof(text), "%u.%u.%u", AV_VERSION_MAJOR(v), AV_VERSION_MINOR(v),
             AV_VERSION_MICRO(v));
    json_object_set_new(o, name, json_string(text));
}

static json_t *ffmpeg_json(json_t *missing)
{
    // The defaults of the containers, and what the masks and alpha modes write; the main job
    // needs the first.
    static const char *const names[] = {"libx264", "libx265", "libvpx-vp9", "prores_ks", "ffv1",
                                        "png",     "aac",     "libopus",    "mov_text",  "webvtt"};
    json_t *o = json_object(), *encoders = json_object();
    set_version(o, "libavcodec", avcodec_version());
    set_version(o, "libavformat", avformat_version());
    set_version(o, "libavutil", avutil_version());
    set_version(o, "libswscale", swscale_version());
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++) {
        bool present = avcodec_find_encoder_by_name(names[i]) != NULL;
        json_object_set_new(encoders, names[i], json_boolean(present));
        if (!present && i == 0)
            add_missing(missing, "FFmpeg's encoder libx264", "apt-get install libavcodec-extra");
    }
    json_object_set_new(o, "encoders", encoders);
    return o;
}

static json_t *runtime_json(json_t *missing)
{
    char *text = NULL;
    // A missing library is an answer here, not an error.
    json_t *o = tachy_engine_library(&text, NULL, NULL) == TACHY_OK ? json_loads(text, 0, NULL) : NULL;
    tachy_free(text);
    if (o && json_is_null(json_object_get(o, "tachy")))
        add_missing(missing, "our provider's libtachy_ep.so", "meson install -C build");
    if (o)
        return o;
    add_missing(missing, "ONNX Runtime 1.23 or newer", "./tools/setup");
    return json_null();
}

static json_t *models_json(json_t *missing)
{
    char *text = NULL;
    json_t *zoo = tachy_model_list(&text, NULL, NULL) == TACHY_OK ? json_loads(text, 0, NULL) : NULL;
    json_t *list = json_array(), *card;
    size_t i;
    bool any = false;
    json_array_foreach(zoo, i, card) {
        json_t *o = json_object();
        static const char *const keys[] = {"name", "present", "path"};
        for (size_t k = 0; k < TACHY_ARRAY_SIZE(keys); k++)
            json_object_set(o, keys[k], json_object_get(card, keys[k]));
        any = any || json_is_true(json_object_get(card, "present"));
        json_array_append_new(list, o);
    }
    if (!any)
        add_missing(missing, "a model", "tachy model pull selfie");
    json_decref(zoo);
    tachy_free(text);
    return list;
}

int tachy_doctor(char **json, const struct tachy_log *log)
{
    if (!TACHY_CHECK(log, json))
        return TACHY_ERR_INVAL;
    *json = NULL;
    json_t *root = json_object(), *missing = json_array(), *advice = json_array();
    json_object_set_new(root, "tachy", json_string(tachy_version()));
    json_object_set_new(root, "cpu", cpu_json());
    json_object_set_new(root, "machine", doctor_machine("/sys", advice));
    json_object_set_new(root, "gpu", doctor_gpus(advice, log));
    json_object_set_new(root, "cuda", doctor_cuda(log));
    json_object_set_new(root, "ffmpeg", ffmpeg_json(missing));
    json_object_set_new(root, "onnxruntime", runtime_json(missing));
    json_object_set_new(root, "models", models_json(missing));
    json_object_set_new(root, "missing", missing);
    json_object_set_new(root, "advice", advice);
    *json = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(root);
    return *json ? TACHY_OK : TACHY_ERR_NOMEM;
}
