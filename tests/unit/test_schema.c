#include "test.h"

#include "base/base.h"
#include "base/options.h"
#include "base/settings_priv.h"

#include <tachy/settings.h>
#include <unistd.h>

// The schema of configuration files: several keys for one option, keys whose part is not built
// yet, sections and presets.

static char error[1024], warning[1024];
static int warnings;

static void keep(void *user, enum tachy_log_level level, const char *msg)
{
    if (level == TACHY_LOG_ERR)
        snprintf(error, sizeof(error), "%s", msg);
    warnings += level == TACHY_LOG_WARN;
    if (level == TACHY_LOG_WARN)
        snprintf(warning, sizeof(warning), "%s", msg);
}

static const struct tachy_log test_log = {.fn = keep, .max_level = TACHY_LOG_DEBUG};

static tachy_settings *fresh(void)
{
    tachy_settings *s;
    error[0] = warning[0] = '\0';
    warnings = 0;
    CHECK_INT(tachy_settings_new(&s, &test_log), TACHY_OK);
    return s;
}

static bool said(const char *text, const char *part)
{
    bool found = strstr(text, part) != NULL;
    if (!found)
        fprintf(stderr, "wanted \"%s\" in \"%s\"\n", part, text);
    return found;
}

static char yaml_path[64];

static void write_file(const char *text)
{
    snprintf(yaml_path, sizeof(yaml_path), "test-schema-%ld.yaml", (long)getpid());
    CHECK_INT(tachy_write_file(yaml_path, text, strlen(text), &test_log), TACHY_OK);
}

static int load(tachy_settings *s, const char *text)
{
    write_file(text);
    int err = tachy_settings_load(s, yaml_path);
    unlink(yaml_path);
    return err;
}

static void refused(const char *text, int err, const char *part)
{
    tachy_settings *s = fresh();
    CHECK_INT(load(s, text), err);
    CHECK(said(error, part));
    for (const struct tachy_option *o = tachy_options(); o->path; o++)
        CHECK(!tachy_settings_is_set(s, o->path));
    CHECK_INT(warnings, 0);
    tachy_settings_free(&s);
}

// A key with a value of it that is no row's default.
static const struct {
    const char *key, *value;
} schema[] = {
    {"gpu.precision", "fp16"},
    {"gpu.max_vram_usage", "0.9"},
    {"gpu.memory_fraction", "0.8"},
    {"gpu.cudnn_benchmark", "true"},
    {"gpu.cudnn_deterministic", "true"},
    {"gpu.allow_tf32", "true"},
    {"model.batch_size", "4"},
    {"model.input_size", "256x144"},
    {"model.num_workers", "3"},
    {"model.prefetch_factor", "2"},
    {"processing.num_threads", "8"},
    {"processing.use_multiprocessing", "true"},
    {"processing.max_queue_size", "100"},
    {"processing.chunk_size", "1000"},
    {"processing.enable_caching", "true"},
    {"processing.cache_size_gb", "2.5"},
    {"performance.target_fps", "30"},
    {"performance.max_latency_ms", "60"},
    {"performance.auto_tune", "true"},
    {"performance.frame_skip_enabled", "true"},
    {"performance.frame_skip_threshold", "0.05"},
    {"performance.prefetch_frames", "10"},
    {"performance.gpu_memory_fraction", "0.7"},
    {"performance.clear_cache_interval", "100"},
    {"performance.use_async_capture", "true"},
    {"performance.use_async_output", "true"},
    {"animation.gpu_id", "1"},
    {"animation.batch_size", "2"},
    {"animation.inference_precision", "int8"},
    {"animation.use_half_precision", "true"},
    {"animation.enable_tensorrt", "true"},
    {"tracking.max_num_faces", "2"},
    {"tracking.refine_landmarks", "true"},
    {"tracking.smoothing_window", "5"},
    {"tensorrt.precision.fp16", "true"},
    {"tensorrt.precision.int8", "true"},
    {"batching.dynamic.max_batch_size", "16"},
    {"batching.dynamic.timeout_ms", "5"},
    {"pipeline.stages.decode.threads", "2"},
    {"pipeline.stages.preprocess.cuda_streams", "2"},
    {"pipeline.stages.inference.batch_size", "8"},
    {"pipeline.stages.postprocess.threads", "2"},
    {"dataloader.pin_memory", "true"},
    {"dataloader.persistent_workers", "true"},
    {"debug.profile_performance", "true"},
};

// Each is taken, reaches its option, and a part that is not built is never passed over in silence.
TEST(every_key_is_taken)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(schema); i++) {
        const struct tachy_key *key;
        const struct tachy_option *o = tachy_option_by_key(tachy_options(), schema[i].key, &key);
        if (!o)
            fprintf(stderr, "no key %s\n", schema[i].key);
        CHECK(o != NULL);
        if (!o)
            continue;
        char text[128];
        snprintf(text, sizeof(text), "%s: %s\n", schema[i].key, schema[i].value);
        tachy_settings *s = fresh();
        CHECK_INT(load(s, text), TACHY_OK);
        CHECK(tachy_settings_is_set(s, o->path));
        const char *want = key && key->yes ? key->yes : schema[i].value;
        CHECK_STR(tachy_settings_str(s, o->path), want);
        CHECK_INT(warnings, o->planned != NULL);
        CHECK(!o->planned || (said(warning, ".yaml:1: ") && said(warning, schema[i].key) &&
                              said(warning, "has no effect yet: ") && said(warning, o->planned)));
        snprintf(text, sizeof(text), "%s: ~nonsense~\n", schema[i].key);
        tachy_settings_free(&s);
        refused(text, TACHY_ERR_INVAL, schema[i].key);
    }
}

TEST(table_of_keys_is_sound)
{
    size_t n = 0;
    for (const struct tachy_option *o = tachy_options(); o->path; o++) {
        CHECK(!o->planned || (!o->command_only && !o->def && o->planned[0]));
        CHECK(!o->keys || (o->type != TACHY_OPT_LIST && tachy_option_order(o->path) > 0));
        for (const struct tachy_key *k = o->keys; k && k->path; k++, n++) {
            const struct tachy_key *found;
            CHECK(tachy_option_by_key(tachy_options(), k->path, &found) == o && found == k); // unique
            CHECK(!k->yes == !k->no);
            int order = tachy_option_order(k->path);
            CHECK(order > 0);
            CHECK(order != tachy_option_order(o->path) || k->yes); // else the file's order decides
            for (const struct tachy_key *j = o->keys; j < k; j++)
                CHECK(order != tachy_option_order(j->path));
        }
        const struct tachy_option *over = o->over ? tachy_option_find(o->over, NULL) : NULL;
        CHECK(!o->over || (over && over->type == o->type && over->min == o->min &&
                           over->max == o->max));
    }
    CHECK(n > 0 && n <= tachy_option_count(tachy_options())); // as lists of all keys are made for
}

TEST(other_keys_of_an_option)
{
    tachy_settings *s = fresh();
    char origin[80];
    CHECK_INT(load(s, "processing:\n  num_threads: 7\n"), TACHY_OK);
    CHECK_INT(tachy_settings_int(s, "model.num_workers"), 7);
    snprintf(origin, sizeof(origin), "%s:2", yaml_path);
    CHECK_STR(tachy_settings_origin(s, "model.num_workers"), origin);
    CHECK_INT(tachy_settings_set(s, "processing.num_threads", "5", "command line"), TACHY_OK);
    CHECK_INT(tachy_settings_int(s, "model.num_workers"), 5);
    CHECK_INT(tachy_settings_set(s, "processing.num_threads", "x", NULL), TACHY_ERR_INVAL);
    CHECK(said(error, "processing.num_threads: \"x\" is not a whole number from 0 to 1024"));
    CHECK_INT(warnings, 0);

    CHECK_INT(tachy_settings_set(s, "animation.use_half_precision", "no", NULL), TACHY_OK);
    CHECK_STR(tachy_settings_str(s, "animation.inference_precision"), "fp32");
    CHECK_INT(tachy_settings_set(s, "animation.use_half_precision", "on", NULL), TACHY_OK);
    CHECK_STR(tachy_settings_str(s, "animation.inference_precision"), "fp16");
    CHECK_INT(tachy_settings_set(s, "animation.use_half_precision", "fp16", NULL),
              TACHY_ERR_INVAL);
    CHECK(said(error, "animation.use_half_precision: \"fp16\" is not yes or no"));

    int w, h;
    CHECK(!tachy_settings_size(s, "model.input_size", &w, &h) && !w && !h);
    CHECK_INT(tachy_settings_set(s, "model.input_size", "256", NULL), TACHY_OK);
    CHECK(tachy_settings_size(s, "model.input_size", &w, &h) && w == 256 && h == 256);
    CHECK_INT(tachy_settings_set(s, "model.input_size", "320x192", NULL), TACHY_OK);
    CHECK(tachy_settings_size(s, "model.input_size", &w, &h) && w == 320 && h == 192);
    static const char *const bad[] = {"0", "16385", "1x", "x1", "1x2x3", "-1", "1 x 2", "999999"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(bad); i++)
        CHECK_INT(tachy_settings_set(s, "model.input_size", bad[i], NULL), TACHY_ERR_INVAL);
    CHECK(said(error, "is not a size"));
    tachy_settings_free(&s);

    refused("performance: {gpu_memory_fractoin: 1}\n", TACHY_ERR_FORMAT,
            "did you mean performance.gpu_memory_fraction?");
    refused("gpu: {precison: fp16}\n", TACHY_ERR_FORMAT, "did you mean gpu.precision?");
}

TEST(planned_is_said_once)
{
    static const struct tachy_option table[] = {
        {"task.later", "later", .type = TACHY_OPT_INT, .max = 9, .group = "Task", .help = "-", .verbs = 1, .planned = "it is not built"},
        {0},
    };
    tachy_settings *s;
    warnings = 0;
    CHECK_INT(tachy_settings_new_of(&s, table, &test_log), TACHY_OK);
    CHECK_INT(tachy_settings_set(s, "task.later", "10", "command line"), TACHY_ERR_INVAL);
    CHECK_INT(warnings, 0); // nothing of what is refused
    CHECK_INT(tachy_settings_set(s, "task.later", "1", "command line"), TACHY_OK);
    CHECK_INT(tachy_settings_set(s, "task.later", "2", "command line"), TACHY_OK);
    CHECK_INT(warnings, 1);
    CHECK(said(warning, " has no effect yet: it is not built"));
    CHECK_INT(tachy_settings_int(s, "task.later"), 2);
    tachy_settings_free(&s);
}

TEST(animation_stands_in)
{
    tachy_settings *s = fresh();
    CHECK_INT(load(s, "gpu: {id: 0}\nanimation: {gpu_id: 1, use_half_precision: yes, enable_tensorrt: yes, batch_size: 4}\n"), TACHY_OK);
    CHECK_INT(tachy_settings_int(s, "gpu.id"), 0);
    CHECK_INT(tachy_settings_for(s, "track"), TACHY_OK);
    CHECK_INT(tachy_settings_int(s, "gpu.id"), 0);
    CHECK_INT(tachy_settings_for(s, "animate"), TACHY_OK); // the task's name
    CHECK_INT(tachy_settings_int(s, "gpu.id"), 1);
    CHECK_INT(tachy_settings_int(s, "model.batch_size"), 4);
    CHECK_STR(tachy_settings_str(s, "gpu.precision"), "fp16");
    CHECK_STR(tachy_settings_str(s, "model.provider"), "tensorrt");
    CHECK_INT(tachy_settings_set(s, "gpu-id", "2", "command line"), TACHY_OK);
    CHECK_INT(tachy_settings_int(s, "gpu.id"), 2); // the command line is a higher place
    CHECK_INT(warnings, 0);
    tachy_settings_free(&s);
}

TEST(conflicts)
{
    refused("animation:\n  use_half_precision: yes\n  inference_precision: fp32\n",
            TACHY_ERR_FORMAT,
            ".yaml:3: animation.inference_precision contradicts animation.use_half_precision in "
            "line 2; both set the same option");
    tachy_settings *s = fresh();
    CHECK_INT(load(s, "animation: {use_half_precision: yes, inference_precision: fp16}\n"),
              TACHY_OK);
    CHECK_INT(load(s, "animation: {use_half_precision: no, inference_precision: null}\n"),
              TACHY_OK);
    CHECK_STR(tachy_settings_str(s, "animation.inference_precision"), "fp32");
    tachy_settings_free(&s);
}

TEST(more_special_section_wins)
{
    static const char *const texts[] = {
        "performance: {gpu_memory_fraction: 0.2}\ngpu: {memory_fraction: 0.9}\n"
        "processing: {num_threads: 2}\nmodel: {batch_size: 2, num_workers: 9}\n"
        "batching: {dynamic: {max_batch_size: 4}}\n"
        "pipeline: {stages: {inference: {batch_size: 9}}}\n",
        "pipeline: {stages: {inference: {batch_size: 9}}}\n"
        "batching: {dynamic: {max_batch_size: 4}}\n"
        "model: {batch_size: 2, num_workers: 9}\nprocessing: {num_threads: 2}\n"
        "gpu: {memory_fraction: 0.9}\nperformance: {gpu_memory_fraction: 0.2}\n",
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(texts); i++) {
        tachy_settings *s = fresh();
        CHECK_INT(load(s, texts[i]), TACHY_OK);
        CHECK_INT(tachy_settings_int(s, "model.batch_size"), 9);
        CHECK_INT(tachy_settings_int(s, "model.num_workers"), 9);
        CHECK(tachy_settings_float(s, "gpu.memory_fraction") == 0.9);
        CHECK_INT(warnings, 0);
        // A later file wins over an earlier one, whatever its section; the command line over both.
        CHECK_INT(load(s, "processing: {num_threads: 3}\n"), TACHY_OK);
        CHECK_INT(tachy_settings_int(s, "model.num_workers"), 3);
        CHECK_INT(tachy_settings_set(s, "workers", "4", "command line"), TACHY_OK);
        CHECK_INT(load(s, texts[i]), TACHY_OK);
        CHECK_INT(tachy_settings_int(s, "model.num_workers"), 4);
        tachy_settings_free(&s);
    }
}

TEST(a_task_s_section)
{
    tachy_settings *s = fresh();
    CHECK_INT(load(s, "animation: {batch_size: 8}\nmodel: {batch_size: 2}\n"), TACHY_OK);
    CHECK_INT(tachy_settings_int(s, "model.batch_size"), 2);
    CHECK_INT(tachy_settings_for(s, "segment"), TACHY_OK);
    CHECK_INT(tachy_settings_int(s, "model.batch_size"), 2);
    CHECK_INT(tachy_settings_for(s, "animation"), TACHY_OK);
    CHECK_INT(tachy_settings_int(s, "model.batch_size"), 8);
    CHECK(said(tachy_settings_origin(s, "model.batch_size"), ".yaml:1"));
    CHECK_INT(tachy_settings_int(s, "model.num_workers"), 0);
    CHECK(!tachy_settings_str(s, "gpu.precision")); // not set there
    CHECK_INT(tachy_settings_set(s, "batch", "4", "command line"), TACHY_OK);
    CHECK_INT(tachy_settings_int(s, "model.batch_size"), 4); // the command line is a higher place
    CHECK_INT(tachy_settings_for(s, NULL), TACHY_OK);
    CHECK_INT(tachy_settings_int(s, "animation.batch_size"), 8);
    CHECK_INT(tachy_settings_for(s, "anim"), TACHY_ERR_NOT_FOUND);
    CHECK(said(error, "anim"));
    tachy_settings_free(&s);
}

// A task may have another default than the general one; whoever sets the general one is heard.
TEST(a_task_s_default)
{
    static const struct tachy_option table[] = {
        {"model.name", "model", .type = TACHY_OPT_STRING, .def = "selfie", .group = "Model", .help = "-", .verbs = 1},
        {"find.model", .type = TACHY_OPT_STRING, .def = "face", .over = "model.name", .group = "Find", .help = "-"},
        {0},
    };
    tachy_settings *s, *copy;
    CHECK_INT(tachy_settings_new_of(&s, table, &test_log), TACHY_OK);
    CHECK_STR(tachy_settings_str(s, "model.name"), "selfie");
    CHECK_INT(tachy_settings_for(s, "find"), TACHY_OK);
    CHECK_STR(tachy_settings_str(s, "model.name"), "face");
    CHECK(!tachy_settings_by_name(s, "model.name"));
    CHECK_INT(tachy_settings_set(s, "model", "own", NULL), TACHY_OK);
    CHECK_STR(tachy_settings_str(s, "model.name"), "own");
    CHECK_INT(tachy_settings_copy(&copy, s, &test_log), TACHY_OK);
    CHECK_INT(tachy_settings_set(s, "model", "other", NULL), TACHY_OK);
    CHECK_STR(tachy_settings_str(copy, "model.name"), "own");
    CHECK(tachy_settings_by_name(copy, "model.name"));
    tachy_settings_free(&copy);
    tachy_settings_free(&s);
}

static void use_presets_of_the_project(void)
{
    char dir[1024];
    const char *root = getenv("TACHY_TEST_ROOT");
    snprintf(dir, sizeof(dir), "%s/configs", root ? root : ".");
    setenv("TACHY_CONFIGS", dir, 1);
}

TEST(presets)
{
    tachy_settings *s = fresh();
    use_presets_of_the_project();
    CHECK_INT(tachy_settings_set(s, "profile", "quality", "command line"), TACHY_OK);
    CHECK(tachy_settings_bool(s, "segment.refine"));
    CHECK(said(tachy_settings_origin(s, "segment.refine"),
               "preset quality (configs/quality.yaml:"));
    CHECK(tachy_settings_is_set(s, "segment.refine"));
    // Another takes its place whole.
    CHECK_INT(tachy_settings_set(s, "profile", "fast", "command line"), TACHY_OK);
    CHECK(!tachy_settings_bool(s, "segment.refine"));
    CHECK_STR(tachy_settings_str(s, "output.preset"), "ultrafast");
    CHECK_INT(tachy_settings_set(s, "profile", "balanced", "command line"), TACHY_OK);
    CHECK(!tachy_settings_str(s, "output.preset"));
    CHECK_STR(tachy_settings_origin(s, "output.preset"), "default");
    CHECK_INT(tachy_settings_set(s, "profile", "fats", "command line"), TACHY_ERR_INVAL);
    CHECK_STR(tachy_settings_str(s, "run.profile"), "balanced");
    CHECK_INT(warnings, 0);
    tachy_settings_free(&s);
}

TEST(presets_give_way)
{
    tachy_settings *s = fresh();
    use_presets_of_the_project();
    CHECK_INT(tachy_settings_set(s, "preset", "medium", "command line"), TACHY_OK);
    CHECK_INT(load(s, "segment: {refine: no}\nrun: {profile: quality}\n"), TACHY_OK);
    CHECK_STR(tachy_settings_str(s, "output.preset"), "medium");
    CHECK(!tachy_settings_bool(s, "segment.refine"));
    CHECK(said(tachy_settings_origin(s, "segment.refine"), yaml_path));
    CHECK(tachy_settings_float(s, "segment.smooth") > 0); // from the preset that the file names
    CHECK_INT(tachy_settings_set(s, "profile", "fast", "command line"), TACHY_OK);
    CHECK(tachy_settings_float(s, "segment.smooth") == 0);
    CHECK_INT(load(s, "run: {profile: quality}\n"), TACHY_OK); // the command line named one
    CHECK(tachy_settings_float(s, "segment.smooth") == 0);
    CHECK_STR(tachy_settings_str(s, "run.profile"), "fast");
    tachy_settings_free(&s);
}

// A preset's unchanged settings are the defaults, and no preset sets an unimplemented option.
TEST(presets_are_sound)
{
    static const char *const names[] = {"fast", "balanced", "quality"};
    use_presets_of_the_project();
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++) {
        tachy_settings *s = fresh(), *plain = fresh();
        CHECK_INT(tachy_settings_set(s, "profile", names[i], NULL), TACHY_OK);
        for (const struct tachy_option *o = tachy_options(); o->path; o++) {
            const char *a = tachy_settings_str(s, o->path), *b = tachy_settings_str(plain, o->path);
            bool same = a == b || (a && b && !strcmp(a, b));
            CHECK(!o->planned || same);
            CHECK(strcmp(names[i], "balanced") || same || !strcmp(o->path, "run.profile"));
        }
        tachy_settings_free(&s);
        tachy_settings_free(&plain);
    }
}

TEST(broken_presets)
{
    tachy_settings *s = fresh();
    setenv("TACHY_CONFIGS", ".", 1);
    CHECK_INT(tachy_settings_set(s, "profile", "fast", NULL), TACHY_ERR_NOT_FOUND);
    CHECK(said(error, "fast.yaml"));
    CHECK(!tachy_settings_str(s, "run.profile"));
    CHECK_INT(load(s, "run: {profile: quality}\noutput: {crf: 20}\n"), TACHY_ERR_NOT_FOUND);
    CHECK(!tachy_settings_str(s, "output.crf")); // nothing of the file either
    write_file("run: {profile: fast}\n");
    CHECK_INT(tachy_settings_load_as(s, yaml_path, "fast", TACHY_RANK_PRESET), TACHY_ERR_FORMAT);
    CHECK(said(error, ".yaml:1: a preset cannot name another one"));
    unlink(yaml_path);
    tachy_settings_free(&s);
}

TEST_MAIN(TEST_CASE(every_key_is_taken), TEST_CASE(table_of_keys_is_sound),
          TEST_CASE(other_keys_of_an_option), TEST_CASE(planned_is_said_once), TEST_CASE(animation_stands_in),
          TEST_CASE(conflicts), TEST_CASE(more_special_section_wins), TEST_CASE(a_task_s_section),
          TEST_CASE(a_task_s_default),
          TEST_CASE(presets), TEST_CASE(presets_give_way), TEST_CASE(presets_are_sound),
          TEST_CASE(broken_presets))
