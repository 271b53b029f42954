// Runs a model's first input, read raw from a file, through an engine and writes the raw first
// output: what the bit comparison with ONNX Runtime's Python package calls. With REPEAT it
// prints the median milliseconds of a run as well.
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <tachy/engine.h>

static void print(void *user, enum tachy_log_level level, const char *msg)
{
    fprintf(stderr, "%s\n", msg);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int transfer(const char *path, struct tachy_tensor *t, int writing)
{
    FILE *f = fopen(path, writing ? "wb" : "rb");
    size_t n = tachy_tensor_bytes(t);
    int ok = f && (writing ? fwrite(t->data, 1, n, f) : fread(t->data, 1, n, f)) == n;
    if (f && fclose(f))
        ok = 0;
    if (!ok)
        fprintf(stderr, "%s: does not have or take the tensor's %zu bytes\n", path, n);
    return ok;
}

static int measure(tachy_engine *e, const struct tachy_tensor *in, struct tachy_tensor *out, int repeat)
{
    double *ms = calloc((size_t)repeat, sizeof(*ms));
    int err = ms ? TACHY_OK : TACHY_ERR_NOMEM;
    for (int i = 0; i < repeat && !err; i++) {
        uint64_t start = tachy_now_ns();
        err = tachy_engine_run(e, in, out);
        ms[i] = (double)(tachy_now_ns() - start) / 1e6;
    }
    if (!err && repeat > 1) {
        qsort(ms, (size_t)repeat, sizeof(*ms), by_value);
        printf("%.4f\n", ms[repeat / 2]);
    }
    free(ms);
    return err;
}

int main(int argc, char **argv)
{
    struct tachy_log log = {.fn = print};
    const struct tachy_io *in, *out;
    tachy_engine *e;
    if (argc < 4) {
        fprintf(stderr, "usage: engine_tool MODEL.onnx IN.raw OUT.raw [THREADS [REPEAT]]\n");
        return 2;
    }
    int threads = argc > 4 ? atoi(argv[4]) : 1, repeat = argc > 5 ? atoi(argv[5]) : 1;
    if (tachy_engine_open(&e, tachy_engine_params(.provider = "cpu", .model_path = argv[1], .batch_max = 1,
                                                  .threads = threads, .log = &log)))
        return 1;
    int n = tachy_engine_inputs(e, &in), m = tachy_engine_outputs(e, &out);
    struct tachy_tensor a = in->spec, b = out->spec;
    int ok = n == 1 && m == 1 && repeat > 0 && !tachy_tensor_alloc(&a) && !tachy_tensor_alloc(&b) &&
             transfer(argv[2], &a, 0) && !measure(e, &a, &b, repeat) && transfer(argv[3], &b, 1);
    tachy_tensor_free(&a);
    tachy_tensor_free(&b);
    tachy_engine_close(&e);
    return !ok;
}
