// libFuzzer target: any bytes as a user's ONNX file. Its weights are located, its free dimensions named and its inputs fixed; the result must be
// as valid as the input, and must not change if it is fixed again.
#include "fuzz.h"

#include "onnx/file.h"

#include <string.h>

static int on_location(void *user, const char *location)
{
    *(size_t *)user += strlen(location);
    return TACHY_OK;
}

static int on_dim(void *user, const struct onnx_free_dim *d)
{
    *(size_t *)user += strlen(d->input) + strlen(d->name);
    return TACHY_OK;
}

static int walk(const void *data, size_t size)
{
    size_t sum = 0;
    onnx_each_free_dim(data, size, on_dim, &sum);
    return onnx_each_location(data, size, on_location, &sum);
}

static void check_again(const void *fixed, size_t n, const struct onnx_fix *fix)
{
    void *again = NULL;
    size_t m = 0;
    if (onnx_fix_inputs(&again, &m, fixed, n, fix, NULL) != TACHY_OK || m != n || memcmp(again, fixed, n) != 0)
        abort();
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const float three[] = {1, 2, 3};
    static const struct tachy_engine_constant constants[] = {{"w", three, 3}, {"x", three, 1}};
    static const struct tachy_io shapes[] = {{.name = "x", .spec = {.rank = 4, .shape = {1, 8, 8, 3}}},
                                             {.spec = {.rank = 1, .shape = {3}}}};
    uint32_t h = fuzz_hash(data, size);
    struct onnx_fix fix = {.path = "fuzz", .batch = h & 1 ? 4 : 0, .shapes = shapes, .nb_shapes = (int)(h >> 1 & 3) % 3,
                           .constants = constants, .nb_constants = (int)(h >> 3 & 3) % 3};
    void *fixed = NULL;
    size_t n = 0;
    int sound = walk(data, size), err = onnx_fix_inputs(&fixed, &n, data, size, &fix, NULL);
    if (err == TACHY_OK && sound == TACHY_OK && walk(fixed, n) != TACHY_OK)
        abort();
    if (err < 0 && fixed)
        abort();
    if (err == TACHY_OK && !fix.nb_constants)
        check_again(fixed, n, &fix);
    free(fixed);
    return 0;
}
