#include "test.h"

#include "base/base.h"
#include "engine/session.h"
#include "tiny_onnx.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tachy/engine.h>
#include <unistd.h>

// The provider tachy in our own engine: who runs a model, what is said, and the same bits on several
// threads. Results of networks are held to ONNX Runtime's by tests/e2e/test_provider.py.

static char said[1024], told[1024]; // the last message at ERR, at INFO

static void listen(void *user, enum tachy_log_level level, const char *msg)
{
    if (level == TACHY_LOG_ERR)
        snprintf(said, sizeof(said), "%s", msg);
    if (level == TACHY_LOG_INFO)
        snprintf(told, sizeof(told), "%s", msg);
}

static const struct tachy_log logger = {.fn = listen};

#define CHECK_TEXT(where, text)                                                                    \
    do {                                                                                           \
        if (!strstr(where, text)) {                                                                \
            fprintf(stderr, "%s:%d: \"%s\" does not say \"%s\"\n", __FILE__, __LINE__, where, text);\
            test_failures++;                                                                       \
        }                                                                                          \
    } while (0)

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

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
    // Whether all or nothing was wanted makes a difference only where it is nothing.
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
    CHECK_INT(open_model(&e, "tachy", model(true), false, "threads=0"), TACHY_ERR_INVAL);
    CHECK_TEXT(said, "the provider option `threads` is a whole number from 1 to 256");
    CHECK_INT(open_model(&e, "tachy", model(true), false, "speed=high"), TACHY_ERR_INVAL);
    CHECK_TEXT(said, "there is no provider option `speed`; there are threads");
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

// A plugin under any name, ours here: what ONNX Runtime keeps is counted, and an error where it is all.
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

enum { THREADS = 8, RUNS = 4 };

struct job {
    const char *path;
    pthread_barrier_t *start;
    int inside; // threads of a run
    struct tachy_tensor out[RUNS];
};

static void fill(struct tachy_tensor *t, int run)
{
    uint32_t x = 12345u + (uint32_t)run;
    for (int64_t i = 0, n = tachy_tensor_elements(t); i < n; i++) {
        x = x * 1664525u + 1013904223u;
        ((float *)t->data)[i] = (float)(x >> 8) / (float)(1 << 24);
    }
}

static void *run_job(void *arg)
{
    struct job *j = arg;
    tachy_engine *e = NULL;
    const struct tachy_io *in, *out;
    pthread_barrier_wait(j->start);
    if (tachy_engine_open(&e, tachy_engine_params(.provider = "tachy", .model_path = j->path,
                                                  .threads = j->inside)))
        return NULL;
    tachy_engine_inputs(e, &in);
    tachy_engine_outputs(e, &out);
    struct tachy_tensor a = in->spec;
    int err = tachy_tensor_alloc(&a);
    for (int run = 0; run < RUNS && !err; run++) {
        fill(&a, run);
        j->out[run] = out->spec;
        err = tachy_tensor_alloc(&j->out[run]);
        if (!err)
            err = tachy_engine_run(e, &a, &j->out[run]);
    }
    tachy_tensor_free(&a);
    tachy_engine_close(&e);
    return err ? NULL : j;
}

// A network, with nodes that ONNX Runtime keeps or without. Engines on eight threads, some with two threads inside of a run, open together and give the same
// bits.
TEST(threads_agree)
{
    const char *shared = getenv("TACHY_SHARED"), *root = getenv("TACHY_TEST_ROOT");
    char *path = tachy_asprintf("%s%s/models/segment/selfie_segmentation.onnx", shared ? shared : root ? root : "",
                                shared ? "" : "/../shared");
    struct job jobs[THREADS] = {0};
    pthread_t threads[THREADS];
    pthread_barrier_t start;
    if (!path || access(path, R_OK) != 0) {
        printf("skipped: the public selfie model of the shared material is not here\n");
        tachy_free(path);
        return;
    }
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){.path = path, .start = &start, .inside = 1 + i % 2};
        CHECK_INT(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
    }
    bool ok = true;
    for (int i = 0; i < THREADS; i++) {
        void *done;
        pthread_join(threads[i], &done);
        CHECK(done);
        ok = ok && done;
    }
    pthread_barrier_destroy(&start);
    for (int run = 0; run < RUNS && ok; run++) {
        size_t n = tachy_tensor_bytes(&jobs[0].out[run]);
        for (int i = 1; i < THREADS; i++)
            CHECK(!memcmp(jobs[0].out[run].data, jobs[i].out[run].data, n));
        CHECK(!run || memcmp(jobs[0].out[0].data, jobs[0].out[run].data, n));
    }
    for (int i = 0; i < THREADS; i++)
        for (int run = 0; run < RUNS; run++)
            tachy_tensor_free(&jobs[i].out[run]);
    tachy_free(path);
}

int main(void)
{
    static const struct test_case cases[] = {
        TEST_CASE(runs_what_it_takes), TEST_CASE(says_what_it_leaves), TEST_CASE(shares_its_plan),
        TEST_CASE(missing_library),    TEST_CASE(bad_options),         TEST_CASE(free_dimensions),
        TEST_CASE(missing_providers),  TEST_CASE(plugins),             TEST_CASE(threads_agree),
    };
    char *json;
    int err = tachy_engine_library(&json, NULL, &logger);
    tachy_free(json);
    if (err) {
        printf("skipped without ONNX Runtime: %s\n", said);
        return 77;
    }
    snprintf(folder, sizeof(folder), "/tmp/tachy-engine-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    int status = test_run(cases, TACHY_ARRAY_SIZE(cases));
    char *command = tachy_asprintf("rm -rf %s", folder);
    if (command && system(command) != 0)
        fprintf(stderr, "%s stays\n", folder);
    tachy_free(command);
    return status;
}
