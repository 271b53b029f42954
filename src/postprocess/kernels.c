#include "postprocess/kernels.h"

#include "base/base.h"

#include <pthread.h>

static const struct tachy_post_kernels twins = {
    .isa = TACHY_ISA_C,
    .lerp_u8 = tachy_ref_lerp_u8,
    .lerp_i16 = tachy_ref_lerp_i16,
    .stretch = tachy_ref_stretch,
    .curve = tachy_ref_curve,
    .alpha = tachy_ref_alpha,
    .narrow8 = tachy_ref_narrow8,
    .narrow16 = tachy_ref_narrow16,
    .blend8 = tachy_ref_blend8,
    .blend16 = tachy_ref_blend16,
    .scale = tachy_ref_scale,
    .halve = tachy_ref_halve,
    .spread = tachy_ref_spread,
    .count = tachy_ref_count,
    .weight = tachy_ref_weight,
    .gather8 = tachy_ref_gather8,
    .gather16 = tachy_ref_gather16,
    .gather_weight = tachy_ref_gather_weight,
    .box3_row = tachy_ref_box3_row,
    .box3_cols = tachy_ref_box3_cols,
    .divide = tachy_ref_divide,
    .lerp_f32 = tachy_ref_lerp_f32,
    .refine = tachy_ref_refine,
    .key_share = tachy_ref_key_share,
    .prob = tachy_ref_prob,
    .exp_sum = tachy_ref_exp_sum,
    .recip = tachy_ref_recip,
};

static struct tachy_post_kernels tables[4];

// Written once, read-only afterwards.
static void fill_tables(void)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(tables); i++) {
        tables[i] = twins;
        tables[i].isa = (enum tachy_isa)i;
    }
#if defined(__x86_64__)
    tachy_post_init_avx2(&tables[TACHY_ISA_AVX2]);
    tachy_post_init_avx2(&tables[TACHY_ISA_AVX512]);
    tachy_post_init_avx512(&tables[TACHY_ISA_AVX512]);
#elif defined(__aarch64__)
    tachy_post_init_neon(&tables[TACHY_ISA_NEON]);
#endif
}

const struct tachy_post_kernels *tachy_post_kernels(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_tables);
    int isa = name ? tachy_isa_by_name(name) : (int)tachy_cpu_isa();
    if (isa < 0 || !tachy_cpu_has((enum tachy_isa)isa))
        return NULL;
    return &tables[isa];
}
