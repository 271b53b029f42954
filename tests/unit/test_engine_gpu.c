#include "engines.h"

#include "cuda/gpu.h"
#include "engine/engine_ops.h"
#include "fakes/fake.h"
#include "fakes/symbol.h"
#include "tiny_onnx.h"

// The provider tachy on a GPU in our own engine: over a driver without a GPU and with kernels that are plain loops, the
// library is otherwise the one that is installed. Whole networks there: tests/gpu/run.

enum { ELEMENTS = 6 };
static const int64_t small[] = {1, 2, 3, 0};

static const char *model(bool taken)
{
    const char *path = in_folder(taken ? "add.onnx" : "add64.onnx");
    CHECK(tiny_write(path, "Add", taken ? 1 : 7, small));
    return path;
}

static int open_with(tachy_engine **e, struct tachy_engine_params p)
{
    p.log = &logger;
    said[0] = told[0] = '\0';
    return tachy_engine_open(e, &p);
}

#define OPEN(e, ...) open_with(e, (struct tachy_engine_params){__VA_ARGS__})

static void check_doubles(tachy_engine *e, struct tachy_gpu *gpu)
{
    const struct tachy_io *in, *out;
    CHECK_INT(tachy_engine_inputs(e, &in), 1);
    CHECK_INT(tachy_engine_outputs(e, &out), 1);
    struct tachy_tensor a = in->spec, b = out->spec;
    float x[ELEMENTS], y[ELEMENTS];
    a.data = x;
    b.data = y;
    if (gpu) {
        a.mem = b.mem = TACHY_DEVICE;
        CHECK_INT(tachy_gpu_alloc(gpu, sizeof(x), &a.data, NULL), TACHY_OK);
        CHECK_INT(tachy_gpu_alloc(gpu, sizeof(y), &b.data, NULL), TACHY_OK);
    }
    for (int run = 0; run < 4; run++) { // the second is captured, if the driver can
        for (int i = 0; i < ELEMENTS; i++)
            ((float *)a.data)[i] = (float)(run * 10 + i);
        CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_OK);
        for (int i = 0; i < ELEMENTS; i++)
            CHECK(((float *)b.data)[i] == 2 * (float)(run * 10 + i));
    }
    if (gpu) {
        struct tachy_tensor host = a;
        host.data = x;
        host.mem = TACHY_HOST;
        CHECK_INT(tachy_engine_run(e, &host, &b), TACHY_ERR_INVAL);
        CHECK_TEXT(said, "all on the host or all on the GPU");
        tachy_gpu_free(gpu, a.data);
        tachy_gpu_free(gpu, b.data);
    }
}

TEST(host_tensors)
{
    static const char *const names[] = {"tachy", "auto", NULL}, *const precisions[] = {"fp32", "tf32", "fp16", "bf16", "mixed", NULL};
    for (int i = 0; i < 18; i++) {
        tachy_engine *e;
        char on[40];
        const char *precision = precisions[i % 6];
        CHECK_INT(OPEN(&e, .provider = names[i / 6], .model_path = model(true), .device = "cuda", .precision = precision), TACHY_OK);
        if (!e)
            return;
        snprintf(on, sizeof(on), " on Fake GPU, %s, ONNX", precision && strcmp(precision, "mixed") != 0 ? precision : "fp16");
        CHECK_TEXT(tachy_engine_version(e), on);
        CHECK_STR(tachy_engine_provider(e), "tachy");
        CHECK(!tachy_engine_on_device(e));
        check_doubles(e, NULL);
        tachy_engine_close(&e);
    }
}

// The run is queued on the caller's stream, and nothing waits for it.
TEST(device_tensors)
{
    struct tachy_gpu *gpu;
    tachy_engine *e;
    struct fake_cuda_counts *counts = ((struct fake_cuda_counts * (*)(void)) fake_symbol("libcuda.so.1", "fake_cuda_count"))();
    CHECK_INT(tachy_gpu_open(&gpu, 0, NULL, NULL), TACHY_OK);
    CHECK_INT(OPEN(&e, .model_path = model(true), .gpu_stream = gpu->stream), TACHY_OK);
    if (e) {
        CHECK(tachy_engine_on_device(e));
        CHECK(tachy_engine_stream(e) == gpu->stream);
        int waits = counts->waits;
        check_doubles(e, gpu);
        CHECK_INT(counts->waits, waits);
    }
    tachy_engine_close(&e);
    tachy_gpu_unref(&gpu);
}

// A call of the driver that fails in a run: its words are logged, and what was being done; then runs go on. A capture that fails is
// no failure of the run.
TEST(failing_runs)
{
    struct tachy_gpu *gpu;
    tachy_engine *e;
    int (*fail_at)(int, int, int) = (int (*)(int, int, int))fake_symbol("libcuda.so.1", "fake_cuda_fail_at");
    CHECK_INT(tachy_gpu_open(&gpu, 0, NULL, NULL), TACHY_OK);
    CHECK_INT(OPEN(&e, .model_path = model(true), .gpu_stream = gpu->stream), TACHY_OK);
    if (!e)
        return;
    check_doubles(e, gpu);
    const struct tachy_io *in, *out;
    tachy_engine_inputs(e, &in);
    tachy_engine_outputs(e, &out);
    struct tachy_tensor a = in->spec, b = out->spec;
    a.mem = b.mem = TACHY_DEVICE;
    CHECK_INT(tachy_gpu_alloc(gpu, ELEMENTS * sizeof(float), &a.data, NULL), TACHY_OK);
    CHECK_INT(tachy_gpu_alloc(gpu, ELEMENTS * sizeof(float), &b.data, NULL), TACHY_OK);
    memset(a.data, 0, ELEMENTS * sizeof(float));
    for (int i = 0; i < 2; i++)
        CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_OK);
    fail_at(0, 700, FAKE_INSIDE); // the beginning of a capture
    CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_OK);
    fail_at(1, 700, FAKE_INSIDE);
    CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_ERR_EXTERNAL);
    CHECK_TEXT(said, "marking a run's end: a fake failure (");
    CHECK_TEXT(said, "; its capture as a graph failed before: ");
    CHECK_TEXT(said, "--device cpu");
    fail_at(-1, 0, FAKE_ONCE);
    CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_OK);
    tachy_gpu_free(gpu, a.data);
    tachy_gpu_free(gpu, b.data);
    tachy_engine_close(&e);
    tachy_gpu_unref(&gpu);
}

// An unavailable precision is refused, not replaced.
TEST(refused_precisions)
{
    static const struct {
        const char *provider, *device, *precision, *says;
    } all[] = {{"tachy", "cuda", "fp8", "precision fp8 is not built; the provider tachy has fp32|tf32|fp16|bf16|int8|mixed"},
               {"tachy", "cuda", "int8", "precision int8 needs a network with QuantizeLinear"},
               {"tachy", "cpu", "fp16", "needs the model on a GPU (--device cuda)"},
               {NULL, NULL, "mixed", "needs the model on a GPU"},
               {"cpu", "cuda", "fp16", "the CPU, which computes in fp32"}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++) {
        tachy_engine *e;
        CHECK_INT(OPEN(&e, .provider = all[i].provider, .model_path = model(true), .device = all[i].device,
                       .precision = all[i].precision), TACHY_ERR_UNSUPPORTED);
        CHECK_TEXT(said, all[i].says);
        CHECK(!e);
    }
    tachy_engine *e;
    CHECK_INT(OPEN(&e, .provider = "cpu", .model_path = model(true), .precision = "fp32"), TACHY_OK);
    tachy_engine_close(&e);
}

// A model that the GPU does not run as a whole runs on the CPU, and the log has why; not if a precision was asked for.
TEST(falls_back)
{
    tachy_engine *e;
    CHECK_INT(OPEN(&e, .model_path = model(false), .device = "cuda"), TACHY_OK);
    CHECK_TEXT(told, "ONNX Runtime's own kernels run");
    CHECK(e && !tachy_engine_on_device(e));
    tachy_engine_close(&e);
    CHECK_INT(OPEN(&e, .model_path = model(false), .device = "cuda", .precision = "fp16"), TACHY_ERR_UNAVAILABLE);
    CHECK_TEXT(said, "does not run 1 of its 1 nodes");
}

enum { OTHERS = 1 << 30 }; // bytes that other programs hold, as ever
static void others(size_t bytes) { ((void (*)(size_t))fake_symbol("libcuda.so.1", "fake_cuda_others"))(bytes); }

// All that is left is theirs too.
static void take_memory(struct tachy_gpu *gpu)
{
    size_t idle = 0, all = 0;
    CHECK_INT(tachy_device_enter(&gpu->device, NULL), TACHY_OK);
    CHECK_INT(gpu->device.cu->memory_info(&idle, &all), CUDA_OK);
    tachy_device_leave(&gpu->device);
    others(OTHERS + idle);
}

// Memory that other programs hold: a status, and the engine runs again once they have given it back.
TEST(no_memory)
{
    struct tachy_gpu *gpu;
    tachy_engine *e = NULL;
    float x[ELEMENTS] = {1}, y[ELEMENTS];
    CHECK_INT(tachy_gpu_open(&gpu, 0, NULL, NULL), TACHY_OK);
    take_memory(gpu);
    CHECK_INT(OPEN(&e, .model_path = model(true), .provider = "tachy", .device = "cuda"), TACHY_ERR_NOMEM);
    CHECK_TEXT(said, "memory");
    CHECK(!e);
    others(OTHERS);
    CHECK_INT(OPEN(&e, .model_path = model(true), .provider = "tachy", .device = "cuda"), TACHY_OK);
    if (e) {
        const struct tachy_io *in, *out;
        tachy_engine_inputs(e, &in);
        tachy_engine_outputs(e, &out);
        struct tachy_tensor a = in->spec, b = out->spec;
        a.data = x;
        b.data = y;
        take_memory(gpu); // inputs and outputs there come with the first run
        CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_ERR_NOMEM);
        CHECK_TEXT(said, "no memory is left on the GPU");
        others(OTHERS);
        CHECK_INT(tachy_engine_run(e, &a, &b), TACHY_OK);
        CHECK(y[0] == 2);
    }
    tachy_engine_close(&e);
    tachy_gpu_unref(&gpu);
}

// More than the provider may hold: the same status, with what it needs.
TEST(memory_limit)
{
    static const int64_t large[] = {1, 600, 600, 0};
    const char *path = in_folder("large.onnx"), *const one[] = {"memory_limit=1", NULL}, *const three[] = {"memory_limit=3", NULL};
    tachy_engine *e = NULL;
    CHECK(tiny_write(path, "Add", 1, large));
    CHECK_INT(OPEN(&e, .model_path = path, .provider = "tachy", .device = "cuda", .precision = "fp32", .provider_options = one),
              TACHY_ERR_NOMEM);
    CHECK_TEXT(said, "2.7 MiB of a run are more than memory_limit=1 allows");
    CHECK(!e);
    CHECK_INT(OPEN(&e, .model_path = path, .provider = "tachy", .device = "cuda", .precision = "fp32", .provider_options = three),
              TACHY_OK);
    tachy_engine_close(&e);
}

int main(void)
{
    static const struct test_case cases[] = {TEST_CASE(host_tensors), TEST_CASE(device_tensors), TEST_CASE(failing_runs),
                                             TEST_CASE(refused_precisions),
                                             TEST_CASE(falls_back), TEST_CASE(no_memory), TEST_CASE(memory_limit)};
    setenv("TACHY_EP", getenv("TACHY_TEST_EP_HOST"), 1);
    setenv("XDG_CACHE_HOME", "/nonexistent", 1); // no store
    return have_runtime() ? run_in_folder(cases, TACHY_ARRAY_SIZE(cases)) : 77;
}
