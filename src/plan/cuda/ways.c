#include "base/base.h"
#include "plan/cuda/parts.h"

// Which kernels are asked to run a convolution, what is thought to be fastest first. A launcher refuses what it cannot
// do, so this is only about what makes no sense to ask.

struct ways {
    struct cuda_way *to;
    int n;
};

static void add(struct ways *w, enum cuda_conv kernel, int variants)
{
    for (int i = 0; i < variants && w->n < CUDA_WAYS; i++)
        w->to[w->n++] = (struct cuda_way){kernel, i};
}

int cuda_ways(const struct cuda_plan *p, const struct cuda_step *s, struct cuda_way to[CUDA_WAYS])
{
    struct ways w = {to, 0};
    const struct tachy_nn_conv *c = &s->a.conv;
    const struct tachy_device *d = &p->gpu->device;
    bool half = c->dtype == TACHY_F16 && !c->scale, whole = c->shape.groups == 1;
    bool hopper = d->cc_major == 9 && d->cc_minor == 0;
    if (s->depthwise)
        add(&w, CUDA_CONV_DEPTHWISE, 1);
    if (s->gemm && c->shape.n * c->shape.h * c->shape.w > 64)
        add(&w, CUDA_CONV_GEMM, s->nb_gemms);
    if (half && whole && hopper && c->shape.cin % 8 == 0)
        add(&w, CUDA_CONV_TMA, TACHY_NN_TMA_VARIANTS);
    if (s->gemm && c->shape.n * c->shape.h * c->shape.w <= 64)
        add(&w, CUDA_CONV_GEMM, s->nb_gemms);
    add(&w, CUDA_CONV_ANY, 1);
    return w.n;
}
