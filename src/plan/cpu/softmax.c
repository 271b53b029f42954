#include "plan/cpu/softmax.h"

void tachy_softmax_run(const struct tachy_plan_kernels *k, const struct tachy_view *in,
                       const struct tachy_view *out, bool log, int row0, int row1)
{
    for (int r = row0; r < row1; r++)
        for (int x = 0; x < in->w; x++)
            k->softmax(tachy_view_at(out, r / in->h, r % in->h, x),
                       tachy_view_at(in, r / in->h, r % in->h, x), in->c, log);
}

void tachy_layer_norm_run(const struct tachy_plan_kernels *k, const struct tachy_view *in,
                          const struct tachy_view *out, const float *scale, const float *shift,
                          float epsilon, int row0, int row1)
{
    for (int r = row0; r < row1; r++)
        for (int x = 0; x < in->w; x++)
            k->layer_norm(tachy_view_at(out, r / in->h, r % in->h, x),
                          tachy_view_at(in, r / in->h, r % in->h, x), scale, shift, epsilon,
                          in->c);
}
