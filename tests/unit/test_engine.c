#include "engines.h"

#include "base/clock.h"
#include "engine/engine_ort.h"
#include "tiny_onnx.h"

// Tensors of a spec, free extents set to `extent`.
static struct tachy_tensor tensor(const struct tachy_tensor *spec, int64_t extent)
{
    struct tachy_tensor t = *spec;
    for (int i = 0; i < t.rank; i++)
        if (t.shape[i] < 0)
            t.shape[i] = extent;
    CHECK_INT(tachy_tensor_alloc(&t), TACHY_OK);
    return t;
}

TEST(null_pretends)
{
    tachy_engine *e;
    const struct tachy_io *in, *out;
    CHECK_INT(tachy_engine_open(&e, tachy_engine_params(.provider = "null", .log = &logger,
                                                        .null_shape_in = {1, 3, 8, 16},
                                                        .null_shape_out = {1, 8, 16})),
              TACHY_OK);
    CHECK_INT(tachy_engine_inputs(e, &in), 1);
    CHECK_INT(tachy_engine_outputs(e, &out), 1);
    CHECK_INT(in->spec.rank, 4);
    CHECK_INT(in->spec.shape[3], 16);
    CHECK_INT(out->spec.rank, 3);
    CHECK_STR(tachy_engine_provider(e), "null");
    struct tachy_tensor a = tensor(&in->spec, 1), b = tensor(&out->spec, 1);
    memset(b.data, 1, tachy_tensor_bytes(&b));
    CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_OK);
    for (int i = 0; i < 8 * 16; i++)
        CHECK(((float *)b.data)[i] == 0);

    a.shape[3] = 15;
    CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_ERR_MISMATCH);
    CHECK_TEXT(said, "`input`");
    CHECK_TEXT(said, "1x3x8x16 float32");
    CHECK_TEXT(said, "1x3x8x15 float32");
    a.shape[3] = 16;
    a.rank = 100;
    CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_ERR_MISMATCH);
    a.rank = 4;
    a.dtype = TACHY_U8;
    CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_ERR_MISMATCH);
    CHECK_TEXT(said, "uint8");
    a.dtype = TACHY_F32;
    a.stride[0] = a.stride[1] = a.stride[2] = 1000, a.stride[3] = 1;
    CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_ERR_INVAL);
    CHECK_TEXT(said, "dense");
    a.stride[0] = 384, a.stride[1] = 128, a.stride[2] = 16;
    CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_OK);
    a.mem = TACHY_DEVICE; // which only this one takes
    CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_OK);
    a.mem = TACHY_HOST;
    tachy_tensor_free(&a);
    CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_ERR_INVAL);
    tachy_tensor_free(&b);
    tachy_engine_close(&e);
    CHECK(!e);
    tachy_engine_close(&e);
}

TEST(null_fails_and_takes_time)
{
    tachy_engine *e;
    const char *const options[] = {"fail_every=3", "cost_us=2000", NULL};
    CHECK_INT(tachy_engine_open(&e, tachy_engine_params(.provider = "null", .log = &logger,
                                                        .provider_options = options)),
              TACHY_OK);
    const struct tachy_io *in, *out;
    tachy_engine_inputs(e, &in);
    tachy_engine_outputs(e, &out);
    struct tachy_tensor a = tensor(&in->spec, 1), b = tensor(&out->spec, 1);
    for (int i = 1; i <= 6; i++) {
        uint64_t start = tachy_now_ns();
        int err = tachy_engine_run(e, &a, &b);
        CHECK_INT(err, i % 3 ? TACHY_OK : TACHY_ERR_EXTERNAL);
        CHECK(err || tachy_now_ns() - start >= 2000000);
    }
    CHECK_TEXT(said, "fail_every=3");
    tachy_tensor_free(&a);
    tachy_tensor_free(&b);
    tachy_engine_close(&e);
}

static int open_with(const char *provider, const char *path, const char *option, const char *library)
{
    tachy_engine *e = (void *)1;
    const char *const options[] = {option, NULL};
    said[0] = '\0';
    int err = tachy_engine_open(&e, tachy_engine_params(.provider = provider, .model_path = path,
                                                        .provider_options = options,
                                                        .library = library, .log = &logger));
    CHECK(err == TACHY_OK ? e != NULL : e == NULL && said[0]);
    tachy_engine_close(&e);
    return err;
}

TEST(bad_parameters)
{
    tachy_engine *e;
    CHECK_INT(open_with("fast", "x.onnx", NULL, NULL), TACHY_ERR_INVAL);
    CHECK_TEXT(said, "--provider fast is not known");
    CHECK_INT(open_with("tachi", "x.onnx", NULL, NULL), TACHY_ERR_INVAL);
    CHECK_TEXT(said, "did you mean tachy?");
    CHECK_INT(open_with("null", NULL, "speed=3", NULL), TACHY_ERR_INVAL);
    CHECK_TEXT(said, "cost_us=..., sleep_us=..., sleep_ns=..., transfer_us=..., fail_every=...");
    CHECK_INT(open_with("null", NULL, "cost_us=-1", NULL), TACHY_ERR_INVAL);
    CHECK_INT(open_with("null", NULL, "cost_us=9x", NULL), TACHY_ERR_INVAL);
    CHECK_INT(open_with("null", NULL, "cost_us", NULL), TACHY_ERR_INVAL);
    CHECK_INT(open_with("cpu", NULL, NULL, NULL), TACHY_ERR_INVAL);
    CHECK_TEXT(said, "model_path");
    CHECK_INT(open_with(NULL, in_folder("none.onnx"), NULL, NULL), TACHY_ERR_NOT_FOUND);
    CHECK_TEXT(said, "none.onnx");
    CHECK_INT(open_with("auto", folder, NULL, NULL), TACHY_ERR_INVAL);
    CHECK_INT(tachy_engine_open(&e, tachy_engine_params(.provider = "null", .batch_max = 257)),
              TACHY_ERR_INVAL);
    CHECK_INT(tachy_engine_open(&e, tachy_engine_params(.provider = "null", .threads = -1)),
              TACHY_ERR_INVAL);
    CHECK_INT(tachy_engine_open(&e, tachy_engine_params(.provider = "null",
                                                        .null_shape_in = {1, -4, 4, 3})),
              TACHY_ERR_INVAL);
}

TEST(bad_libraries)
{
    static const int64_t dims[] = {1, 2, 0};
    char model[256], text[256];
    snprintf(model, sizeof(model), "%s", in_folder("tiny.onnx"));
    CHECK(tiny_write(model, "Add", 1, dims));
    CHECK_INT(open_with("cpu", model, NULL, "/nowhere/libonnxruntime.so"), TACHY_ERR_UNAVAILABLE);
    CHECK_TEXT(said, "/nowhere/libonnxruntime.so");
    CHECK_TEXT(said, "./tools/setup");
    CHECK_INT(open_with("auto", model, NULL, "libm.so.6"), TACHY_ERR_UNAVAILABLE);
    CHECK_TEXT(said, "libm.so.6 is not ONNX Runtime");
    const char *old = getenv("TACHY_TEST_OLD_ORT");
    if (old) {
        CHECK_INT(open_with("cpu", model, NULL, old), TACHY_ERR_UNAVAILABLE);
        CHECK_TEXT(said, "is ONNX Runtime 1.17.1, and ONNX Runtime 1.23 or newer is needed");
    }
    snprintf(text, sizeof(text), "%s", in_folder("text.so"));
    FILE *f = fopen(text, "w");
    CHECK(f && fputs("no library", f) >= 0 && fclose(f) == 0);
    CHECK_INT(open_with("cpu", model, NULL, text), TACHY_ERR_UNAVAILABLE);
    CHECK_TEXT(said, "text.so: file too short");

    setenv("TACHY_ORT", "/nowhere/else.so", 1);
    CHECK_INT(open_with("cpu", model, NULL, NULL), TACHY_ERR_UNAVAILABLE);
    CHECK_TEXT(said, "/nowhere/else.so");
    unsetenv("TACHY_ORT");
}

// If none is installed, every place that was tried is named.
TEST(search_order)
{
    char *deps = tachy_asprintf("%s", getenv("TACHY_DEPS") ? getenv("TACHY_DEPS") : ""), *json;
    setenv("TACHY_DEPS", folder, 1);
    setenv("XDG_DATA_HOME", folder, 1);
    int err = tachy_engine_library(&json, NULL, &logger);
    if (err) {
        CHECK_INT(err, TACHY_ERR_UNAVAILABLE);
        CHECK(strstr(said, in_folder("lib/libonnxruntime.so,")));
        CHECK(strstr(said, in_folder("tachy/lib/libonnxruntime.so,")));
        CHECK_TEXT(said, ", libonnxruntime.so.1, libonnxruntime.so)");
    } else {
        printf("skipped: this system has its own ONNX Runtime\n");
    }
    tachy_free(json);
    setenv("TACHY_DEPS", deps, 1);
    tachy_free(deps);
}

TEST(cpu_adds)
{
    static const int64_t dims[] = {1, 2, 3, 0};
    if (!have_runtime())
        return;
    CHECK(tiny_write(in_folder("add.onnx"), "Add", 1, dims));
    tachy_engine *e;
    CHECK_INT(tachy_engine_open(&e, tachy_engine_params(.provider = "cpu", .model_path = in_folder("add.onnx"),
                                                        .log = &logger)),
              TACHY_OK);
    if (!e)
        return;
    const struct tachy_io *in, *out;
    CHECK_INT(tachy_engine_inputs(e, &in), 1);
    CHECK_INT(tachy_engine_outputs(e, &out), 1);
    CHECK_STR(in->name, "picture");
    CHECK_STR(out->name, "mask");
    CHECK_STR(tachy_engine_provider(e), "cpu");
    CHECK(!strncmp(tachy_engine_version(e), "ONNX Runtime 1.", 15));
    CHECK_INT(in->spec.rank, 3);
    CHECK_INT(in->spec.dtype, TACHY_F32);
    // Two sets of buffers in turn: the bindings follow the addresses.
    struct tachy_tensor a[2] = {tensor(&in->spec, 1), tensor(&in->spec, 1)};
    struct tachy_tensor b[2] = {tensor(&out->spec, 1), tensor(&out->spec, 1)};
    a[0].mem = TACHY_DEVICE;
    CHECK_INT(tachy_engine_run(e, a, b), TACHY_ERR_INVAL);
    CHECK_TEXT(said, "in host memory");
    a[0].mem = TACHY_HOST;
    for (int run = 0; run < 6; run++) {
        struct tachy_tensor *x = &a[run % 2], *y = &b[run / 2 % 2];
        for (int i = 0; i < 6; i++)
            ((float *)x->data)[i] = (float)(run * 10 + i);
        CHECK_INT(tachy_engine_run(e, x, y), TACHY_OK);
        for (int i = 0; i < 6; i++)
            CHECK(((float *)y->data)[i] == 2 * (float)(run * 10 + i));
    }
    for (int i = 0; i < 2; i++) {
        tachy_tensor_free(&a[i]);
        tachy_tensor_free(&b[i]);
    }
    tachy_engine_close(&e);
}

// The memory that a GPU's tensors are bound in is the engine's; here it is one that every build of ONNX Runtime has.
TEST(tensors_are_bound_where_they_lie)
{
    static const int64_t dims[] = {1, 2, 3, 0};
    if (!have_runtime())
        return;
    tachy_engine *e;
    const struct tachy_io *in, *out;
    CHECK(tiny_write(in_folder("place.onnx"), "Add", 1, dims));
    CHECK_INT(tachy_engine_open(&e, tachy_engine_params(.provider = "cpu", .model_path = in_folder("place.onnx"),
                                                        .log = &logger)),
              TACHY_OK);
    if (!e)
        return;
    tachy_engine_inputs(e, &in);
    tachy_engine_outputs(e, &out);
    struct tachy_tensor a = tensor(&in->spec, 1), b[2] = {tensor(&out->spec, 1), tensor(&out->spec, 1)};
    float *x = a.data, *y[2] = {b[0].data, b[1].data};
    for (int i = 0; i < 6; i++)
        x[i] = (float)i;
    a.mem = b[0].mem = TACHY_DEVICE;
    CHECK_INT(tachy_engine_run(e, &a, &b[0]), TACHY_ERR_INVAL);
    CHECK_INT(tachy_ort_engine_use_device(e, (void *)e->priv, "No such memory", 0), TACHY_ERR_INVAL);
    CHECK_TEXT(said, "cannot lie in GPU 0's memory");
    CHECK(!tachy_engine_on_device(e) && !tachy_engine_stream(e));
    CHECK_INT(tachy_ort_engine_use_device(e, (void *)e->priv, "Cpu", 0), TACHY_OK);
    CHECK(tachy_engine_on_device(e));
    CHECK_INT(tachy_engine_run(e, &a, &b[0]), TACHY_OK);
    CHECK(y[0][1] == 2 && y[0][5] == 10);
    x[1] = 7; // the same addresses: nothing is bound again
    CHECK_INT(tachy_engine_run(e, &a, &b[0]), TACHY_OK);
    CHECK(y[0][1] == 14);
    CHECK_INT(tachy_engine_run(e, &a, &b[1]), TACHY_OK); // an output on the host
    CHECK(y[1][1] == 14 && y[1][5] == 10);
    a.mem = b[0].mem = TACHY_HOST;
    tachy_engine_close(&e);
    tachy_tensor_free(&a);
    tachy_tensor_free(&b[0]);
    tachy_tensor_free(&b[1]);
    CHECK(tachy_engine_takes_stream("cuda-ort") && !tachy_engine_takes_stream("cpu"));
    CHECK(!tachy_engine_takes_stream("openvino") && tachy_engine_takes_stream(NULL)); // NULL: auto
}

TEST(cpu_free_dimensions)
{
    static const int64_t dims[] = {-1, 4, -1, 0};
    if (!have_runtime())
        return;
    CHECK(tiny_write(in_folder("free.onnx"), "Add", 1, dims));
    tachy_engine *e;
    const struct tachy_io *in, *out;
    CHECK_INT(tachy_engine_open(&e, tachy_engine_params(.provider = "cpu", .model_path = in_folder("free.onnx"),
                                                        .log = &logger)),
              TACHY_OK);
    tachy_engine_inputs(e, &in);
    CHECK_INT(in->spec.shape[0], -1);
    CHECK_INT(in->spec.shape[2], -1);
    struct tachy_tensor a = tensor(&in->spec, 2), b = tensor(&in->spec, 2), c = tensor(&in->spec, 3);
    memset(a.data, 0, tachy_tensor_bytes(&a));
    memset(c.data, 0, tachy_tensor_bytes(&c));
    CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_OK);
    // The first run has fixed them.
    CHECK_INT(tachy_engine_run(e, &c, &b), TACHY_ERR_MISMATCH);
    CHECK_TEXT(said, "is 2x4x2 float32, the tensor given is 3x4x3 float32");
    CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_OK);
    tachy_engine_close(&e);

    // An output whose shape is not what the run makes: ONNX Runtime's own text.
    CHECK_INT(tachy_engine_open(&e, tachy_engine_params(.provider = "cpu", .model_path = in_folder("free.onnx"),
                                                        .log = &logger)),
              TACHY_OK);
    CHECK_INT(tachy_engine_run(e, &a, &c), TACHY_ERR_EXTERNAL);
    CHECK_TEXT(said, "free.onnx: the run failed: ONNX Runtime says: ");
    CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_OK);
    tachy_engine_close(&e);

    // batch_max fixes the leading one, of inputs and outputs.
    CHECK_INT(tachy_engine_open(&e, tachy_engine_params(.provider = "cpu", .model_path = in_folder("free.onnx"),
                                                        .batch_max = 5, .log = &logger)),
              TACHY_OK);
    tachy_engine_inputs(e, &in);
    tachy_engine_outputs(e, &out);
    CHECK_INT(in->spec.shape[0], 5);
    CHECK_INT(out->spec.shape[0], 5);
    CHECK_INT(in->spec.shape[2], -1);
    CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_ERR_MISMATCH);
    tachy_engine_close(&e);
    tachy_tensor_free(&a);
    tachy_tensor_free(&b);
    tachy_tensor_free(&c);
}

// Shapes may vary from run to run, whoever is asked; what the model fixes may not.
TEST(cpu_varying_dimensions)
{
    static const int64_t dims[] = {-1, 4, -1, 0};
    if (!have_runtime())
        return;
    CHECK(tiny_write(in_folder("free.onnx"), "Add", 1, dims));
    const struct tachy_tensor spec = {.dtype = TACHY_F32, .rank = 3, .shape = {-1, 4, -1}};
    struct tachy_tensor a = tensor(&spec, 2), b = tensor(&spec, 2), c = tensor(&spec, 3);
    memset(a.data, 0, tachy_tensor_bytes(&a));
    memset(c.data, 0, tachy_tensor_bytes(&c));
    tachy_engine *e;
    static const char *const providers[] = {"cpu", "tachy", NULL};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(providers); i++) {
        const struct tachy_engine_params p = {.provider = providers[i], .model_path = in_folder("free.onnx"), .varying = true, .log = &logger};
        struct tachy_tensor d = c, odd = c;
        CHECK_INT(tachy_engine_open(&e, &p), TACHY_OK);
        CHECK(!strcmp(tachy_engine_provider(e), "cpu"));
        d.data = tachy_aligned_alloc(tachy_tensor_bytes(&c));
        for (int k = 0; k < 3; k++) {
            CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_OK);
            CHECK_INT(tachy_engine_run(e, &c, &d), TACHY_OK);
        }
        odd.shape[1] = 3;
        CHECK_INT(tachy_engine_run(e, &odd, &d), TACHY_ERR_MISMATCH);
        CHECK_INT(tachy_engine_run(e, &c, &b), TACHY_ERR_EXTERNAL);
        CHECK_INT(tachy_engine_run(e, &c, &d), TACHY_OK);
        tachy_engine_close(&e);
        tachy_aligned_free(d.data);
    }
    CHECK_INT(tachy_engine_open(&e, tachy_engine_params(.model_path = in_folder("free.onnx"), .varying = true, .strict = true, .log = &logger)),
              TACHY_ERR_UNSUPPORTED);
    CHECK_TEXT(said, "--strict");
    tachy_tensor_free(&a);
    tachy_tensor_free(&b);
    tachy_tensor_free(&c);
}

// A model without pretended shapes: its own inputs and outputs, as ONNX Runtime's kernels have them.
TEST(null_after_a_model)
{
    static const int64_t dims[] = {-1, 4, -1, 0};
    const char *const names[] = {"picture", "mask"};
    if (!have_runtime())
        return;
    CHECK(tiny_write(in_folder("after.onnx"), "Add", 1, dims));
    tachy_engine *e;
    const struct tachy_io *io[2];
    const struct tachy_io size = {NULL, {.rank = 3, .shape = {-1, -1, 6}}};
    CHECK_INT(tachy_engine_open(&e, tachy_engine_params(.provider = "null", .model_path = in_folder("after.onnx"), .batch_max = 3,
                                                        .shapes = &size, .nb_shapes = 1, .log = &logger)),
              TACHY_OK);
    CHECK_INT(tachy_engine_inputs(e, &io[0]), 1);
    CHECK_INT(tachy_engine_outputs(e, &io[1]), 1);
    for (int i = 0; i < 2; i++) {
        const struct tachy_tensor *t = &io[i]->spec;
        CHECK_STR(io[i]->name, names[i]);
        CHECK(t->dtype == TACHY_F32 && t->rank == 3 && t->shape[0] == 3 && t->shape[1] == 4 && t->shape[2] == 6);
    }
    struct tachy_tensor a = tensor(&io[0]->spec, 1), b = tensor(&io[1]->spec, 1);
    memset(b.data, 1, tachy_tensor_bytes(&b));
    CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_OK);
    for (int i = 0; i < 3 * 4 * 6; i++)
        CHECK(((float *)b.data)[i] == 0);
    tachy_engine_close(&e);
    tachy_tensor_free(&a);
    tachy_tensor_free(&b);
    CHECK_INT(open_with("null", in_folder("nowhere.onnx"), NULL, NULL), TACHY_ERR_NOT_FOUND);
}

TEST(cpu_refuses)
{
    static const int64_t dims[] = {1, 2, 0}, deep[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
    if (!have_runtime())
        return;
    char path[256];
    snprintf(path, sizeof(path), "%s", in_folder("bad.onnx"));
    FILE *f = fopen(path, "w");
    CHECK(f && fputs("this is not ONNX", f) >= 0 && fclose(f) == 0);
    CHECK_INT(open_with("cpu", path, NULL, NULL), TACHY_ERR_FORMAT);
    CHECK_TEXT(said, "bad.onnx: is no ONNX model, or it is damaged");
    CHECK_INT(truncate(path, 0), 0);
    CHECK(open_with("cpu", path, NULL, NULL) < 0);
    CHECK(tiny_write(path, "NoSuchOperator", 1, dims));
    CHECK(open_with("cpu", path, NULL, NULL) < 0);
    CHECK_TEXT(said, "NoSuchOperator");
    CHECK(tiny_write(path, "Add", 11, dims)); // double
    CHECK_INT(open_with("cpu", path, NULL, NULL), TACHY_ERR_UNSUPPORTED);
    CHECK_TEXT(said, "`picture`");
    CHECK(tiny_write(path, "Add", 1, deep));
    CHECK_INT(open_with("cpu", path, NULL, NULL), TACHY_ERR_UNSUPPORTED);
    CHECK(tiny_write(path, "Add", 7, dims)); // int64
    CHECK_INT(open_with("cpu", path, NULL, NULL), TACHY_OK);
    CHECK_INT(open_with("cpu", path, "arena=2", NULL), TACHY_ERR_INVAL);
    CHECK_INT(open_with("cpu", path, "arena=0", NULL), TACHY_OK);
    CHECK_INT(open_with("cpu", path, "session.disable_prepacking=1", NULL), TACHY_OK);
    CHECK_INT(open_with("cpu", path, "spin=1", NULL), TACHY_ERR_INVAL);
    CHECK_TEXT(said, "arena=...");
}

TEST(sessions_are_shared)
{
    static const int64_t dims[] = {1, 2, 0};
    static const char *const entries[] = {"session.disable_prepacking=1", NULL};
    if (!have_runtime())
        return;
    char path[256];
    snprintf(path, sizeof(path), "%s", in_folder("shared.onnx"));
    CHECK(tiny_write(path, "Add", 1, dims));
    struct tachy_session_params p = {.path = path, .threads = 1, .arena = true}, q = p, r = p;
    struct tachy_session *a, *b, *c, *d, *g;
    q.threads = 2;
    r.entries = entries;
    CHECK_INT(tachy_session_open(&a, NULL, &p, &logger), TACHY_OK);
    CHECK_INT(tachy_session_open(&b, NULL, &p, &logger), TACHY_OK);
    CHECK_INT(tachy_session_open(&c, NULL, &q, &logger), TACHY_OK);
    CHECK_INT(tachy_session_open(&d, NULL, &r, &logger), TACHY_OK);
    CHECK(a == b && a != c && a != d);
    CHECK(a->ort == c->ort);
    // The same name, another file.
    CHECK_INT(unlink(path), 0);
    CHECK(tiny_write(path, "Mul", 1, dims));
    CHECK_INT(tachy_session_open(&g, NULL, &p, &logger), TACHY_OK);
    CHECK(g != a);
    tachy_session_close(&a);
    CHECK(b->session && b->n_in == 1); // the other reference holds it
    tachy_session_close(&b);
    tachy_session_close(&c);
    tachy_session_close(&d);
    tachy_session_close(&g);
    tachy_session_close(&g);
}

// Eight engines on eight threads share a session and give the same bits.
TEST(threads_agree)
{
    static const int64_t dims[] = {1, 64, 64, 3, 0};
    if (!have_runtime())
        return;
    CHECK(tiny_write(in_folder("threads.onnx"), "Mul", 1, dims));
    check_threads("cpu", in_folder("threads.onnx"), 1);
    char *path = shared_selfie();
    if (path)
        check_threads("cpu", path, 1);
    tachy_free(path);
}

int main(void)
{
    static const struct test_case cases[] = {
        TEST_CASE(null_pretends),   TEST_CASE(null_after_a_model), TEST_CASE(null_fails_and_takes_time),
        TEST_CASE(bad_parameters),  TEST_CASE(bad_libraries),   TEST_CASE(search_order), TEST_CASE(cpu_adds),
        TEST_CASE(tensors_are_bound_where_they_lie), TEST_CASE(cpu_free_dimensions), TEST_CASE(cpu_varying_dimensions),
        TEST_CASE(cpu_refuses),     TEST_CASE(sessions_are_shared),       TEST_CASE(threads_agree),
    };
    return run_in_folder(cases, TACHY_ARRAY_SIZE(cases));
}
