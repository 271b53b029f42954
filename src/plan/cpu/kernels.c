#include "plan/cpu/kernels.h"

#include <stddef.h>

// vec/*.c compiled for each set.
#define DECLARE(isa)                                                                               \
    extern void (*const tachy_tiles_##isa[TACHY_TILE_VECTORS][TACHY_TILE_PIXELS])(                 \
        const struct tachy_tile *t);                                                               \
    extern const struct tachy_dw_kernel tachy_depthwise_##isa[TACHY_DW_KERNELS];                   \
    void tachy_unary_##isa(float *y, const float *x, int n, const struct tachy_act *act);          \
    void tachy_binary_##isa(const struct tachy_binary_row *r);                                     \
    void tachy_lerp_##isa(float *y, const float *a, const float *b, float t, int n);               \
    void tachy_resize_row_##isa(const struct tachy_resize_row *r);                                 \
    void tachy_pool_window_##isa(float *y, const float *x, ptrdiff_t row, ptrdiff_t pixel,         \
                                 int rows, int columns, int channels, float scale);                \
    void tachy_sum_##isa(float *y, const float *x, int count, ptrdiff_t step, int n, float scale); \
    void tachy_softmax_pixel_##isa(float *y, const float *x, int n, bool log);                     \
    void tachy_layer_norm_pixel_##isa(float *y, const float *x, const float *scale,                \
                                      const float *shift, float epsilon, int n);                   \
    void tachy_transpose_##isa(float *y, ptrdiff_t y_step, const float *x, ptrdiff_t x_step,       \
                               int rows, int columns);                                             \
    void tachy_narrow_row_##isa(const struct tachy_narrow_row *r);                                 \
    extern void (*const tachy_winograd_in_##isa[2])(const float *const *x, int channels, float *to,\
                                                    ptrdiff_t step);                               \
    extern void (*const tachy_winograd_out_##isa[2])(const struct tachy_winograd_tile *t);         \
    void tachy_function_##isa(const struct tachy_plan_act_of *f, const float *restrict x,          \
                              float *restrict y, int n);                                           \
    void tachy_enter_##isa(enum tachy_dtype type, const void *x, float *restrict y, int64_t n);    \
    void tachy_leave_##isa(enum tachy_dtype type, const float *restrict x, ptrdiff_t step, void *y,\
                           int64_t at, int64_t n);                                                 \
    double tachy_total_##isa(const float *x, int64_t n);                                           \
    float tachy_most_##isa(const float *x, int64_t n, bool least);                                 \
    float tachy_peak_##isa(int rounds);

#define TABLE(set, name, floats)                                                                   \
    static const struct tachy_plan_kernels kernels_##name = {                                      \
        .isa = set,                                                                                \
        .width = floats,                                                                           \
        .tile = tachy_tiles_##name,                                                                \
        .depthwise = tachy_depthwise_##name,                                                       \
        .unary = tachy_unary_##name,                                                               \
        .binary = tachy_binary_##name,                                                             \
        .lerp = tachy_lerp_##name,                                                                 \
        .resize = tachy_resize_row_##name,                                                         \
        .pool = tachy_pool_window_##name,                                                          \
        .sum = tachy_sum_##name,                                                                   \
        .softmax = tachy_softmax_pixel_##name,                                                     \
        .layer_norm = tachy_layer_norm_pixel_##name,                                               \
        .transpose = tachy_transpose_##name,                                                       \
        .narrow = tachy_narrow_row_##name,                                                         \
        .winograd_in = tachy_winograd_in_##name,                                                   \
        .winograd_out = tachy_winograd_out_##name,                                                 \
        .function = tachy_function_##name,                                                         \
        .enter = tachy_enter_##name,                                                               \
        .leave = tachy_leave_##name,                                                               \
        .total = tachy_total_##name,                                                               \
        .most = tachy_most_##name,                                                                 \
        .peak = tachy_peak_##name,                                                                 \
    };

DECLARE(c)
TABLE(TACHY_ISA_C, c, 4)
#if defined(__x86_64__)
DECLARE(avx2)
DECLARE(avx512)
TABLE(TACHY_ISA_AVX2, avx2, 8)
TABLE(TACHY_ISA_AVX512, avx512, 16)
#elif defined(__aarch64__)
DECLARE(neon)
TABLE(TACHY_ISA_NEON, neon, 4)
#endif

const struct tachy_plan_kernels *tachy_plan_kernels(enum tachy_isa isa)
{
    static const struct tachy_plan_kernels *const all[] = {
        [TACHY_ISA_C] = &kernels_c,
#if defined(__x86_64__)
        [TACHY_ISA_AVX2] = &kernels_avx2,
        [TACHY_ISA_AVX512] = &kernels_avx512,
#elif defined(__aarch64__)
        [TACHY_ISA_NEON] = &kernels_neon,
#endif
    };
    size_t i = (size_t)isa;
    return i < sizeof(all) / sizeof(all[0]) && tachy_cpu_has(isa) ? all[i] : NULL;
}
