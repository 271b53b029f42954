// libFuzzer target: any bytes as a user's ONNX file whose inputs are to be fixed. What comes out must
// be an ONNX file where what went in was one.
#include "fuzz.h"

#include "engine/session.h"
#include "model/onnx.h"

static bool is_onnx(const void *data, size_t size)
{
    struct onnx_info *info = NULL;
    bool is = onnx_read_info(&info, data, size, "fuzz", NULL) == TACHY_OK;
    onnx_info_free(&info);
    return is;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const float three[] = {1, 2, 3};
    static const struct tachy_engine_constant constants[] = {{"w", three, 3}, {"x", three, 1}};
    static const struct tachy_io shapes[] = {{.name = "x", .spec = {.rank = 4, .shape = {1, 8, 8, 3}}},
                                             {.spec = {.rank = 1, .shape = {3}}}};
    uint32_t h = fuzz_hash(data, size);
    struct tachy_session_params p = {.path = fuzz_file(data, size), .batch = h & 1 ? 4 : 0,
                                     .shapes = shapes, .nb_shapes = (int)(h >> 1 & 3) % 3, .constants = constants,
                                     .nb_constants = (int)(h >> 3 & 3) % 3, .settle = true};
    void *fixed = NULL;
    size_t n = 0;
    int err = tachy_session_fix(&fixed, &n, &p, NULL);
    if (err == TACHY_OK && is_onnx(data, size) && !is_onnx(fixed, n))
        abort();
    if (err < 0 && fixed)
        abort();
    free(fixed);
    return 0;
}
