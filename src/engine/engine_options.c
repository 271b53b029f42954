#include "engine/engine_options.h"

#include "base/base.h"
#include "base/options.h"

#include <stdlib.h>
#include <string.h>

const struct tachy_option tachy_model_options[] = {
    {"model.name", "model", 0, TACHY_OPT_STRING, "selfie", .arg = "NAME|FILE", .group = "Model",
     .tune = "selfie-landscape", .tune_changes = true, .verbs = TACHY_VERB_REPLAY | TACHY_VERB_BENCH,
     .help = "a model of the zoo (tachy model list), or an ONNX file with --card; auto (segment): of the installed "
             "ones, the one whose input has the shape of the picture, or of its part with a person"},
    {"model.card", "card", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Model",
     .verbs = TACHY_VERB_MODEL | TACHY_VERB_REPLAY | TACHY_VERB_BENCH, .help = "model card of your own model (JSON)"},
    {"model.dir", "model-dir", 0, TACHY_OPT_STRING, .arg = "DIR", .group = "Model",
     .verbs = TACHY_VERB_MODEL | TACHY_VERB_REPLAY | TACHY_VERB_ENGINE | TACHY_VERB_CURATE,
     .help = "folder of the models; default: $TACHY_MODELS, then the user's data folder"},
    {"model.input_size", "input-size", 0, TACHY_OPT_SIZE, .arg = "WxH", .group = "Model",
     .help = "size of the pictures that the model sees, if it takes other sizes than its card's; in a file also "
             "[width, height]"},
    {"curate.fast_mode", "fast-mode", 0, TACHY_OPT_BOOL, "no", .group = "Model", .verbs = TACHY_VERB_CURATE,
     .help = "a quick look: the smaller network that the card names, or a picture of half the size for networks that take one; "
             "masks: also 8 points along a side; curate: also every third frame unless --every-nth is given"},
    {"model.provider", "provider", 0, TACHY_OPT_STRING, "auto", .arg = "NAME", .group = "Model",
     .verbs = TACHY_VERB_REPLAY | TACHY_VERB_ENGINE | TACHY_VERB_CURATE,
     .help = "what runs the model: tachy (our own plans), cpu (ONNX Runtime's kernels), auto (tachy if it runs the "
             "whole model, else cpu), null, or another provider of ONNX Runtime (docs/models.md)"},
    {"model.strict", "strict", 0, TACHY_OPT_BOOL, "no", .group = "Model", .verbs = TACHY_VERB_REPLAY | TACHY_VERB_CURATE,
     .help = "fail if the provider does not run the whole model"},
    {"model.build_effort", "build-effort", 0, TACHY_OPT_INT, "0", .max = 3, .group = "Model",
     .verbs = TACHY_VERB_REPLAY | TACHY_VERB_ENGINE | TACHY_VERB_CURATE,
     .help = "time that the provider tachy may spend once per model and machine to find the fastest kernels: at most "
             "0, 0.5, 3 or 30 seconds; later runs use the result; default for engine bench: 2"},
    {"model.provider_options", "provider-option", 0, TACHY_OPT_LIST, .arg = "KEY=VALUE", .group = "Model",
     .verbs = TACHY_VERB_REPLAY | TACHY_VERB_ENGINE | TACHY_VERB_CURATE, .help = "option to pass to the provider"},
    {"model.library", "ort-library", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Model",
     .verbs = TACHY_VERB_REPLAY | TACHY_VERB_ENGINE | TACHY_VERB_CURATE,
     .help = "libonnxruntime.so to load; default: searched for"},
    {"model.threads", "engine-threads", 0, TACHY_OPT_INT, "1", .max = TACHY_THREADS_MAX, .group = "Model",
     .tune = "cores", .tune_changes = true, .verbs = TACHY_VERB_REPLAY | TACHY_VERB_CURATE,
     .help = "threads per run of the model; 0: 1"},
    {0},
};

static int copy_text(char **to, const char *text)
{
    *to = text ? strdup(text) : NULL;
    return text && !*to ? TACHY_ERR_NOMEM : TACHY_OK;
}

static bool says(const tachy_settings *s, const char *path, bool what)
{
    return tachy_settings_is_set(s, path) && tachy_settings_bool(s, path) == what;
}

// The text of one of the precisions, which the settings may not outlive.
static const char *precision_named(const char *text)
{
    static const char *const names[] = {"fp32", "tf32", "fp16", "bf16", "int8", "mixed"};
    for (size_t i = 0; text && i < TACHY_ARRAY_SIZE(names); i++)
        if (!strcmp(names[i], text))
            return names[i];
    return NULL;
}

// The keys of other programs stand in where gpu.precision, or --build-effort, is not given.
static int read_precision(struct tachy_engine_setup *e, const tachy_settings *s)
{
    const char *asked = precision_named(tachy_settings_str(s, "gpu.precision")), *provider = tachy_settings_str(s, "model.provider");
    bool trt = provider && !strcmp(provider, "tensorrt");
    if (tachy_settings_bool(s, "gpu.fp16") && asked && strcmp(asked, "fp16") != 0)
        return tachy_fail(tachy_settings_log(s), TACHY_ERR_INVAL, "--fp16 and --precision %s contradict each other: give one of them",
                          asked);
    if (!asked && tachy_settings_bool(s, "gpu.fp16"))
        asked = "fp16";
    if (asked && !strcmp(asked, "tf32") && says(s, "gpu.allow_tf32", false))
        return tachy_fail(tachy_settings_log(s), TACHY_ERR_INVAL, "--precision tf32 and gpu.allow_tf32: no contradict each other: "
                          "leave one of them out");
    bool there = !strcmp(tachy_settings_str(s, "gpu.device"), "cuda") || trt || (provider && !strcmp(provider, "cuda-ort"));
    if (asked && !there && strcmp(asked, "fp32") != 0 && !tachy_settings_by_name(s, "gpu.precision") &&
        !tachy_settings_by_name(s, "gpu.fp16")) { // a file that serves machines with a GPU, too
        tachy_msg(tachy_settings_log(s), TACHY_LOG_INFO, "gpu.precision %s (%s) has no effect: the model runs on the CPU, which "
                  "computes in fp32", asked, tachy_settings_origin(s, "gpu.precision"));
        asked = NULL;
    }
    if (!asked && trt && says(s, "tensorrt.precision.int8", true))
        asked = "int8";
    else if (!asked && trt && says(s, "tensorrt.precision.fp16", true))
        asked = "fp16";
    else if (!asked && tachy_settings_is_set(s, "gpu.allow_tf32") && provider && !strcmp(provider, "cuda-ort"))
        asked = tachy_settings_bool(s, "gpu.allow_tf32") ? "tf32" : "fp32";
    e->precision = asked;
    e->deterministic = tachy_settings_bool(s, "gpu.cudnn_deterministic");
    if (!tachy_settings_is_set(s, "model.build_effort") && says(s, "gpu.cudnn_benchmark", true) &&
        !strcmp(tachy_settings_str(s, "gpu.device"), "cuda"))
        e->build_effort = 2;
    return TACHY_OK;
}

int tachy_engine_setup_read(struct tachy_engine_setup *e, const tachy_settings *s)
{
    const char *const *options;
    size_t n = tachy_settings_list(s, "model.provider_options", &options);
    e->build_effort = (int)tachy_settings_int(s, "model.build_effort");
    e->strict = tachy_settings_bool(s, "model.strict");
    e->threads = (int)tachy_settings_int(s, "model.threads");
    e->provider_options = calloc(n + 1, sizeof(*e->provider_options));
    int err = e->provider_options ? read_precision(e, s) : TACHY_ERR_NOMEM;
    for (size_t i = 0; i < n && err == TACHY_OK; i++)
        err = copy_text(&e->provider_options[i], options[i]);
    if (err == TACHY_OK)
        err = copy_text(&e->provider, tachy_settings_str(s, "model.provider"));
    return err == TACHY_OK ? copy_text(&e->library, tachy_settings_str(s, "model.library")) : err;
}

void tachy_engine_setup_free(struct tachy_engine_setup *e)
{
    for (size_t i = 0; e->provider_options && e->provider_options[i]; i++)
        free(e->provider_options[i]);
    free(e->provider_options);
    free(e->provider);
    free(e->library);
    *e = (struct tachy_engine_setup){0};
}

struct tachy_engine_params tachy_engine_setup_params(const struct tachy_engine_setup *e)
{
    return (struct tachy_engine_params){
        .provider = e->provider,
        .library = e->library,
        .provider_options = (const char *const *)e->provider_options,
        .threads = e->threads,
        .build_effort = e->build_effort,
        .strict = e->strict,
        .precision = e->precision,
        .device = e->device,
        .gpu = e->gpu,
        .gpu_stream = e->gpu_stream,
        .deterministic = e->deterministic,
    };
}
