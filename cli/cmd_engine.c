#include "engine.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MODEL "one model: a name of the zoo or an ONNX file"

int engine_model(const struct cli *c, const char *name, char **path)
{
    tachy_model *m = NULL;
    bool file = tachy_model_is_path(name);
    struct tachy_model_params p = {
        .name = name, .dir = tachy_settings_str(c->settings, "model.dir"), .no_verify = true, .log = &c->log};
    int err = file ? TACHY_OK : tachy_model_open(&m, &p);
    *path = err == TACHY_OK ? strdup(file ? name : tachy_model_path(m)) : NULL;
    tachy_model_close(&m);
    return err == TACHY_OK && !*path ? TACHY_ERR_NOMEM : err;
}

double engine_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

bool engine_on_gpu(const struct cli *c)
{
    char text[256];
    const char *device = tachy_settings_str(c->settings, "gpu.device");
    return !strcmp(device, "auto") ? tachy_gpu_runs(c->settings, text, sizeof(text)) : !strcmp(device, "cuda");
}

struct tachy_engine_params engine_params(const struct cli *c, const char *path, const char **options)
{
    const char *const *given;
    size_t n = tachy_settings_list(c->settings, "model.provider_options", &given);
    for (size_t i = 0; i < n && i < ENGINE_OPTIONS; i++)
        options[i] = given[i];
    options[n < ENGINE_OPTIONS ? n : ENGINE_OPTIONS] = NULL;
    bool effort = tachy_settings_is_set(c->settings, "model.build_effort"); // without it what can be had
    return (struct tachy_engine_params){.model_path = path,
                                        .library = tachy_settings_str(c->settings, "model.library"),
                                        .provider_options = options,
                                        .device = engine_on_gpu(c) ? "cuda" : "cpu",
                                        .gpu = (int)tachy_settings_int(c->settings, "gpu.id"),
                                        .build_effort = effort ? (int)tachy_settings_int(c->settings, "model.build_effort") : 2,
                                        .log = &c->log};
}

// One line about each plan, as a comment: what follows may be compared between two versions.
static void print_plan(const json_t *plan, size_t i)
{
    printf("# plan %zu: %lld nodes as %lld steps, %.1f million multiply-adds, weights %lld KiB, arena %lld KiB, "
           "scratch %lld KiB\n",
           i, int_of(plan, "nodes"), int_of(plan, "steps"), (double)int_of(plan, "multiply_adds") / 1e6,
           int_of(plan, "weights") >> 10, int_of(plan, "arena") >> 10, int_of(plan, "scratch") >> 10);
}

static void print_head(const json_t *e)
{
    long long left = int_of(e, "left"), all = left + int_of(e, "ours");
    size_t plans = json_array_size(json_object_get(e, "plans"));
    char some[32] = "all";
    if (left)
        snprintf(some, sizeof(some), "%lld", all - left);
    printf("# %s: tachy (%s) runs %s of its %lld nodes in %zu plan%s", text_of(e, "model"),
           text_of(e, "provider"), some, all, plans, plans == 1 ? "" : "s");
    if (left)
        printf(", %s the other %lld", text_of(e, "runtime"), left);
    printf("\n");
}

static void print_why(const json_t *e)
{
    size_t i;
    json_t *o;
    print_head(e);
    json_array_foreach(json_object_get(e, "plans"), i, o) print_plan(o, i);
    printf("%-12s %-22s %-40s %s\n", "WHO", "OPERATOR", "NODE", "WHY");
    json_array_foreach(json_object_get(e, "nodes"), i, o)
    {
        char who[32] = "onnxruntime";
        if (json_is_integer(json_object_get(o, "plan")))
            snprintf(who, sizeof(who), "plan %lld", int_of(o, "plan"));
        const char *name = text_of(o, "name"), *why = text_of(o, "why");
        printf("%-12s %-22s %-40s %s\n", who, text_of(o, "op"), *name ? name : "-", *why ? why : "-");
    }
}

static void print_show(const json_t *e)
{
    size_t i;
    json_t *plan;
    print_head(e);
    json_array_foreach(json_object_get(e, "plans"), i, plan)
    {
        print_plan(plan, i);
        fputs(text_of(plan, "graph"), stdout);
    }
}

static int print(const struct cli *c, const char *json, void (*text)(const json_t *e))
{
    json_t *e = json_loads(json, 0, NULL);
    if (!e || tachy_settings_str(c->settings, "run.json"))
        return cli_write_json(c, e);
    text(e);
    json_decref(e);
    return TACHY_OK;
}

static int explain(struct cli *c, const char *model, const char *after, void (*text)(const json_t *e))
{
    const char *options[ENGINE_OPTIONS + 1];
    char *path = NULL, *json = NULL;
    int err = engine_model(c, model, &path);
    if (err == TACHY_OK) {
        struct tachy_engine_params p = engine_params(c, path, options);
        p.build_effort = 0;
        p.precision = tachy_settings_str(c->settings, "engine.precision");
        err = tachy_engine_explain(&json, &p, after);
    }
    if (err == TACHY_OK)
        err = print(c, json, text);
    tachy_free(json);
    free(path);
    return err;
}

static int engine_why(struct cli *c, const char *model) { return explain(c, model, NULL, print_why); }

static int engine_show(struct cli *c, const char *model)
{
    const char *after = tachy_settings_str(c->settings, "engine.after");
    return explain(c, model, after ? after : "", print_show);
}

static const struct word words[] = {
    {"why", .one = engine_why, .single = true, .needs = MODEL},
    {"show", .one = engine_show, .single = true, .needs = MODEL},
    {"bench", .together = engine_bench, .needs = "models: names of the zoo or ONNX files"},
    {"build", .together = engine_build, .needs = "models: names of the zoo or ONNX files"},
    {"ls", .all = engine_ls},
    {"gc", .all = engine_gc},
    {0},
};

static int run_engine(struct cli *c)
{
    if (tachy_settings_is_set(c->settings, "engine.after") && (!c->n_args || strcmp(c->args[0], "show")))
        return message_usage("--after belongs to tachy engine show");
    return cli_run_word(c, words, NULL);
}

const struct verb verb_engine = {
    .name = "engine",
    .usage = "why MODEL | show MODEL [--after PASS] | bench MODEL... | build MODEL... | ls | gc",
    .summary = "explain which provider runs each node of a model, print its plan, measure providers, manage the engine store",
    .details =
        "Explains and measures how a model runs, and manages the engine store. MODEL is a name of the zoo (tachy model list) or an ONNX "
        "file.\n\n"
        "why lists the model's nodes after ONNX Runtime's first passes. For each node it prints the plan of the provider tachy that runs "
        "it, or why ONNX Runtime runs it.\n\n"
        "show prints the graph of each plan, one node per line: as compiled, or with --after as it is after one of the passes. --after none "
        "prints the graph as read. An unknown name lists the passes.\n\n"
        "bench measures each provider with each batch size and number of threads. The combinations take turns, 30 ms each, for --rounds "
        "rounds. It prints the median and minimum time per run, the spread (interquartile range over median), images per second, GFLOP/s, "
        "their share of the cores' measured peak, the memory that a process gains, and the error: the L2 norm of the difference from a "
        "double-precision reference, relative to the reference, for the worst output. Inputs look like pictures and are the same every "
        "time.\n\n"
        "On a GPU (--device cuda, or auto if the kernels run on the GPU) bench takes --precision fp32,mixed. It times consecutive runs "
        "without copies of the tensors. The error is that against fp32 on a picture, on noise, and on frames of --input VIDEO.\n\n"
        "build compiles plans for each --batch and --precision, times the candidate kernels (--build-effort 2 by default) and stores the "
        "choice, so that later runs start with the fastest ones.\n\n"
        "ls lists the engine store: the networks and machines for which the fastest kernels are known. gc removes entries that are damaged, "
        "outdated or long unused; with --all, every entry. Removed entries are measured again when needed. --provider-option store=DIR "
        "selects another folder.",
    .words = "why|show|bench|build|ls|gc",
    .options = TACHY_VERB_ENGINE,
    .examples = EXAMPLES(
        {"tachy engine why net.onnx", "which provider runs each node, and why"},
        {"tachy engine show selfie --after fuse", "the graph after one pass"},
        {"tachy engine bench selfie --provider tachy,cpu --batch 1,4 --threads 1,2 --json=bench.json",
         "measure every combination"},
        {"tachy engine build selfie --device cuda --batch 1,8", "find the fastest kernels before the first run"},
        {"tachy engine gc --unused-days 30", "make the store smaller"}),
    .run = run_engine,
};
