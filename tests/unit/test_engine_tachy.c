#include "engines.h"

#include "engine/session.h"
#include "tiny_onnx.h"


// The provider tachy in our own engine: which provider runs a model, what is logged, and the same bits on several
// threads. tests/e2e/test_provider.py compares networks' results with ONNX Runtime's.

static const int64_t small[] = {1, 2, 3, 0};

// A model that is one node, of a type that the provider takes (float) or leaves (int64).
static const char *model(bool taken)
{
    const char *path = in_folder(taken ? "add.onnx" : "add64.onnx");
    CHECK(tiny_write(path, "Add", taken ? 1 : 7, small));
    return path;
}

static int open_model(tachy_engine **e, const char *provider, const char *path, bool strict,
                      const char *option)
{
    const char *const options[] = {option, NULL};
    said[0] = told[0] = '\0';
    return tachy_engine_open(e, tachy_engine_params(.provider = provider, .model_path = path, .strict = strict,
                                                    .provider_options = options, .log = &logger));
}

// Runs an engine whose model doubles six floats.
static void check_doubles(tachy_engine *e)
{
    const struct tachy_io *in, *out;
    CHECK_INT(tachy_engine_inputs(e, &in), 1);
    CHECK_INT(tachy_engine_outputs(e, &out), 1);
    struct tachy_tensor a = in->spec, b = out->spec;
    CHECK_INT(tachy_tensor_alloc(&a), TACHY_OK);
    CHECK_INT(tachy_tensor_alloc(&b), TACHY_OK);
    for (int run = 0; run < 3; run++) {
        for (int i = 0; i < 6; i++)
            ((float *)a.data)[i] = (float)(run * 10 + i);
        CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_OK);
        for (int i = 0; i < 6; i++)
            CHECK(((float *)b.data)[i] == 2 * (float)(run * 10 + i));
    }
    tachy_tensor_free(&a);
    tachy_tensor_free(&b);
}

TEST(runs_what_it_takes)
{
    static const char *const names[] = {"tachy", "auto", NULL};
    for (size_t i = 0; i < 3; i++) {
        tachy_engine *e;
        CHECK_INT(open_model(&e, names[i], model(true), i == 1, NULL), TACHY_OK);
        if (!e)
            return;
        CHECK_STR(tachy_engine_provider(e), "tachy");
        CHECK(!strncmp(tachy_engine_version(e), "tachy " TACHY_VERSION " ", 6 + strlen(TACHY_VERSION) + 1));
        CHECK_TEXT(tachy_engine_version(e), ", ONNX Runtime 1.");
        CHECK_STR(told, "");
        check_doubles(e);
        tachy_engine_close(&e);
    }
}

TEST(says_what_it_leaves)
{
    tachy_engine *e, *f;
    CHECK_INT(open_model(&e, "tachy", model(false), false, NULL), TACHY_OK);
    CHECK_STR(tachy_engine_provider(e), "tachy");
    CHECK_TEXT(told, "add64.onnx: ONNX Runtime runs 1 of its 1 nodes");
    CHECK_TEXT(told, "Add");
    CHECK_TEXT(told, "tachy engine why");
    CHECK_INT(open_model(&f, "tachy", model(false), false, NULL), TACHY_OK);
    tachy_engine_close(&f);
    tachy_engine_close(&e);
    CHECK_INT(open_model(&e, "tachy", model(false), true, NULL), TACHY_ERR_UNSUPPORTED);
    CHECK_TEXT(said, "does not run 1 of its 1 nodes: Add");
    CHECK_TEXT(said, "without --strict");
    CHECK_INT(open_model(&e, "auto", model(false), true, NULL), TACHY_ERR_UNSUPPORTED);
    CHECK_TEXT(said, "without --strict");
    CHECK_INT(open_model(&e, "auto", model(false), false, NULL), TACHY_OK);
    CHECK_STR(tachy_engine_provider(e), "cpu");
    CHECK_STR(said, "");
    CHECK_TEXT(told, "ONNX Runtime's own kernels run");
    CHECK_TEXT(told, "does not run 1 of its 1 nodes: Add");
    tachy_engine_close(&e);
}

// Engines of a model share the plan, and ONNX Runtime's session goes once the plan is there.
TEST(shares_its_plan)
{
    const struct tachy_ep_table *table;
    char *library;
    CHECK_INT(tachy_ep_find(&library, &table, NULL, &logger), TACHY_OK);
    struct tachy_ep ep = {.name = "tachy", .library = library, .table = table};
    struct tachy_session_params p = {.path = model(true), .threads = 1, .batch = 1, .arena = true, .ep = &ep}, q = p;
    struct tachy_session *a, *b, *c;
    q.ep = NULL;
    CHECK_INT(tachy_session_open(&a, NULL, &p, &logger), TACHY_OK);
    CHECK_INT(tachy_session_open(&b, NULL, &p, &logger), TACHY_OK);
    CHECK_INT(tachy_session_open(&c, NULL, &q, &logger), TACHY_OK);
    CHECK(a == b && a != c);
    CHECK(a->plan && !a->session);
    CHECK(c->session && !c->plan);
    // Requiring the whole model matters only if some nodes are left to ONNX Runtime.
    struct tachy_ep whole = ep;
    whole.whole = true;
    p.ep = &whole;
    tachy_session_close(&b);
    CHECK_INT(tachy_session_open(&b, NULL, &p, &logger), TACHY_OK);
    CHECK(a == b);
    tachy_session_close(&a);
    p.path = model(false);
    CHECK_INT(tachy_session_open(&a, NULL, &p, &logger), TACHY_OK);
    p.ep = &ep;
    struct tachy_session *d;
    CHECK_INT(tachy_session_open(&d, NULL, &p, &logger), TACHY_OK);
    CHECK(a != d && a->nb_left == 1 && d->nb_left == 1);
    tachy_session_close(&d);
    tachy_session_close(&a);
    tachy_session_close(&b);
    tachy_session_close(&c);
    free(library);
}

TEST(missing_library)
{
    tachy_engine *e;
    char text[300];
    CHECK_INT(open_model(&e, "tachy", model(true), false, "library=/nowhere/ep.so"), TACHY_ERR_UNAVAILABLE);
    CHECK_TEXT(said, "libtachy_ep.so was not found");
    CHECK_TEXT(said, "(tried /nowhere/ep.so)");
    snprintf(text, sizeof(text), "library=%s", in_folder("text.so"));
    FILE *f = fopen(in_folder("text.so"), "w");
    CHECK(f && fputs("no library", f) >= 0 && fclose(f) == 0);
    CHECK_INT(open_model(&e, "tachy", model(true), false, text), TACHY_ERR_UNAVAILABLE);
    CHECK_TEXT(said, "text.so: ");
    CHECK_TEXT(said, "file too short");
    CHECK_INT(open_model(&e, "tachy", model(true), false, "library=libm.so.6"), TACHY_ERR_UNAVAILABLE);
    char *before = tachy_asprintf("%s", getenv("TACHY_EP") ? getenv("TACHY_EP") : "");
    setenv("TACHY_EP", "/nowhere/else.so", 1);
    CHECK_INT(open_model(&e, "tachy", model(true), false, NULL), TACHY_ERR_UNAVAILABLE);
    CHECK_TEXT(said, "(tried /nowhere/else.so)");
    CHECK_INT(open_model(&e, NULL, model(true), false, NULL), TACHY_OK);
    CHECK_STR(tachy_engine_provider(e), "cpu");
    CHECK_TEXT(told, "libtachy_ep.so was not found");
    tachy_engine_close(&e);
    CHECK_INT(open_model(&e, NULL, model(true), true, NULL), TACHY_ERR_UNAVAILABLE);
    setenv("TACHY_EP", before, 1);
    tachy_free(before);
}

TEST(bad_options)
{
    tachy_engine *e;
    CHECK_INT(open_model(&e, "tachy", model(true), false, "threads=-1"), TACHY_ERR_INVAL);
    CHECK_TEXT(said, "the provider option `threads` is a whole number from 0 to 256");
    CHECK_INT(open_model(&e, "tachy", model(true), false, "speed=high"), TACHY_ERR_INVAL);
    CHECK_TEXT(said, "there is no provider option `speed`; there are device, ");
    CHECK_INT(open_model(&e, "tachy", model(true), false, "speed"), TACHY_ERR_INVAL);
    CHECK_INT(open_model(&e, "tachy", model(true), false, "arena=2"), TACHY_ERR_INVAL);
    CHECK_INT(open_model(&e, "tachy", model(true), false, "threads=2"), TACHY_OK);
    check_doubles(e);
    tachy_engine_close(&e);
}

// Providers of ONNX Runtime's by name: this build of it has none but its own.
TEST(missing_providers)
{
    static const char *const rows[][2] = {
        {"openvino", "libonnxruntime_providers_openvino.so"}, {"tensorrt", "libonnxruntime_providers_tensorrt.so"},
        {"cuda-ort", "libonnxruntime_providers_cuda.so"},     {"migraphx", "libonnxruntime_providers_migraphx.so"},
        {"coreml", "CoreMLExecutionProvider"},                {"dml", "DMLExecutionProvider"},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(rows); i++) {
        tachy_engine *e;
        char text[64];
        int err = open_model(&e, rows[i][0], model(true), false, NULL);
        if (!err) { // a build that has it
            tachy_engine_close(&e);
            continue;
        }
        CHECK_INT(err, TACHY_ERR_UNAVAILABLE);
        snprintf(text, sizeof(text), "provider %s: ", rows[i][0]);
        CHECK_TEXT(said, text);
        CHECK_TEXT(said, rows[i][1]);
        CHECK_TEXT(said, "CPUExecutionProvider");
        CHECK_STR(told, "");
    }
}

// A plugin under any name, here ours: nodes left to ONNX Runtime are counted, and it is an error if all are.
TEST(plugins)
{
    char *library;
    const struct tachy_ep_table *table;
    CHECK_INT(tachy_ep_find(&library, &table, NULL, &logger), TACHY_OK);
    char *option = tachy_asprintf("library=%s", library);
    tachy_engine *e;
    CHECK_INT(open_model(&e, "mine", model(true), true, option), TACHY_OK);
    if (e) {
        CHECK_STR(tachy_engine_provider(e), "mine");
        CHECK(!strncmp(tachy_engine_version(e), "mine, ONNX Runtime 1.", 21));
        check_doubles(e);
    }
    tachy_engine_close(&e);
    CHECK_INT(open_model(&e, "mine", model(false), false, option), TACHY_ERR_UNSUPPORTED);
    CHECK_TEXT(said, "add64.onnx: the provider mine runs none of its nodes");
    CHECK_INT(open_model(&e, "mine", model(true), false, "library=/nowhere/ep.so"), TACHY_ERR_UNAVAILABLE);
    CHECK_TEXT(said, "provider mine: /nowhere/ep.so cannot be loaded");
    CHECK_INT(open_model(&e, "mine", model(true), false, "library=libm.so.6"), TACHY_ERR_UNAVAILABLE);
    tachy_free(option);
    free(library);
}

// A plan has fixed shapes: free dimensions are given when the engine is opened, the batch is 1 otherwise.
TEST(free_dimensions)
{
    static const int64_t dims[] = {-1, 4, -1, 0};
    struct tachy_io shape = {.spec = {.rank = 3, .shape = {-1, -1, 5}}};
    const struct tachy_io *in, *out;
    tachy_engine *e;
    const char *path = in_folder("free.onnx");
    CHECK(tiny_write(path, "Add", 1, dims));
    CHECK_INT(open_model(&e, "auto", path, false, NULL), TACHY_OK);
    CHECK_STR(tachy_engine_provider(e), "cpu");
    CHECK_TEXT(told, "unknown shape");
    tachy_engine_close(&e);
    for (int batch = 0; batch <= 3; batch += 3) {
        CHECK_INT(tachy_engine_open(&e, tachy_engine_params(.provider = "tachy", .model_path = path, .strict = true,
                                                            .shapes = &shape, .nb_shapes = 1,
                                                            .batch_max = batch, .log = &logger)),
                  TACHY_OK);
        if (!e)
            return;
        tachy_engine_inputs(e, &in);
        tachy_engine_outputs(e, &out);
        const int64_t want[] = {TACHY_DEF(batch, 1), 4, 5};
        for (int i = 0; i < 3; i++)
            CHECK(in->spec.shape[i] == want[i] && out->spec.shape[i] == want[i]);
        tachy_engine_close(&e);
    }
}

// Engines that are opened together, every second one with two threads inside a run.
TEST(threads_agree)
{
    char *path = shared_selfie();
    if (path)
        check_threads("tachy", path, 2);
    tachy_free(path);
}

int main(void)
{
    static const struct test_case cases[] = {
        TEST_CASE(runs_what_it_takes), TEST_CASE(says_what_it_leaves), TEST_CASE(shares_its_plan),
        TEST_CASE(missing_library),    TEST_CASE(bad_options),         TEST_CASE(free_dimensions),
        TEST_CASE(missing_providers),  TEST_CASE(plugins),             TEST_CASE(threads_agree),
    };
    if (!have_runtime())
        return 77;
    return run_in_folder(cases, TACHY_ARRAY_SIZE(cases));
}
