#include "postprocess/mask_cuda.h"

#include "postprocess/mask_priv.h"

static int what_of(enum tachy_output_meaning m)
{
    return m == TACHY_OUT_LOGIT ? TACHY_CUDA_PROB_SIGMOID
           : m == TACHY_OUT_SOFTMAX ? TACHY_CUDA_PROB_SOFTMAX : TACHY_CUDA_PROB_AS_IS;
}

int tachy_mask_from_tensor_cuda(const struct tachy_mask_spec *spec, const struct tachy_tensor *t,
                                const struct tachy_placement *pl, int rotation, bool flip, const cuda_address dst[],
                                int64_t stride, int count, const struct tachy_cu *cu, cuda_stream stream,
                                const struct tachy_log *log)
{
    struct mask_grid g;
    const struct tachy_cuda_kernels *k = tachy_cuda_kernels();
    if (!k || !mask_grid_of(spec, t, &g) || t->mem != TACHY_DEVICE)
        return TACHY_ERR_MISMATCH;
    struct tachy_rect r = mask_cut((int)g.w, (int)g.h, pl);
    struct mask_turn to = mask_turn_back(rotation, flip, r.w, r.h, (ptrdiff_t)stride);
    int what = what_of(spec->meaning), channel = g.c > 1 ? spec->channel : 0;
    bool one = what != TACHY_CUDA_PROB_SOFTMAX; // only this channel is read
    int64_t first = r.y * g.row + r.x * g.col + (one ? channel * g.chan : 0);
    struct tachy_cuda_prob p = {
        .src = tachy_cu_address(t->data) + (cuda_address)(first * (int64_t)tachy_dtype_size(t->dtype)),
        .row = g.row, .col = g.col, .chan = g.chan, .dst_x = to.x, .dst_y = to.y,
        .width = r.w, .height = r.h, .count = count,
        .next_src = (int64_t)(tachy_tensor_bytes(t) / tachy_dtype_size(t->dtype)),
        .channels = one ? 1 : (int)g.c,
        .channel = one ? 0 : channel, .what = what, .dtype = t->dtype,
    };
    for (int i = 0; i < TACHY_MIN(count, (int)TACHY_CUDA_PROB_EACH); i++)
        p.each[i] = dst[i] + (cuda_address)to.origin;
    return tachy_cu_check(cu, k->prob(&p, stream), log, "the mask's kernel");
}
