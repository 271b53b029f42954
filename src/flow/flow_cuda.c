#include "flow/flow_cuda.h"

#include "flow/patch.h"

// The memory: whose turn it is in the searches; then of each pair the levels of the one picture, those of the other, three planes of
// u and v in turns (u, v, u, v, ...), slopes, and the patches' vectors. A level's result is in the first of the three, which the
// next level reads; that begins in the second.

enum { ALIGN = 256 };

static int64_t aligned(int64_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

static int64_t level_floats(int w, int h) { return (int64_t)FLOW_STRIDE(w) * (h + 2 * FLOW_PAD); }

bool flow_cuda_plan(struct flow_cuda *f, int width, int height, int most)
{
    *f = (struct flow_cuda){.width = width, .height = height, .most = most};
    f->levels = flow_levels(width, height, TACHY_FLOW_PICTURE, &f->finest);
    if (!f->levels)
        return false;
    int w = width >> f->finest, h = height >> f->finest;
    int64_t at = 0, pixels = (int64_t)w * h, turns = 1 + (int64_t)most * (h / 16 + 1);
    for (int i = f->finest; i < f->finest + f->levels; i++) {
        f->level[i] = at + (FLOW_PAD * (int64_t)FLOW_STRIDE(width >> i) + FLOW_PAD) * (int64_t)sizeof(float);
        at += aligned(level_floats(width >> i, height >> i) * (int64_t)sizeof(float));
    }
    f->there = at;
    f->u = 2 * at;
    f->v = f->u + pixels * (int64_t)sizeof(float);
    f->plane = aligned(2 * pixels * (int64_t)sizeof(float));
    f->slopes = f->u + 3 * f->plane;
    f->grid = f->slopes + aligned(TACHY_CUDA_FLOW_SLOPES * pixels * (int64_t)sizeof(float));
    f->next = f->grid + aligned((int64_t)(w / 4 + 1) * (h / 4 + 1) * 2 * (int64_t)sizeof(float));
    f->first = (size_t)aligned(turns * (int64_t)sizeof(int32_t));
    f->bytes = f->first + (size_t)most * (size_t)f->next;
    return true;
}

static int pyramids(const struct flow_cuda *f, const struct tachy_cuda_kernels *k, cuda_address pairs, const cuda_address here[],
                    const cuda_address there[], int64_t stride, int count, cuda_stream stream)
{
    struct tachy_cuda_flow_pyramid p = {.in_stride = stride, .next = {f->there, f->next}, .count = 2 * count, .width = f->width, .height = f->height,
                                        .finest = f->finest, .levels = f->finest + f->levels};
    for (int i = f->finest; i < p.levels; i++) {
        p.level[i] = pairs + (cuda_address)f->level[i];
        p.stride[i] = FLOW_STRIDE(f->width >> i);
    }
    for (int i = 0; i < count; i++) {
        p.in[2 * i] = here[i];
        p.in[2 * i + 1] = there[i];
    }
    return k->flow_pyramid(&p, stream);
}

static int one_level(const struct flow_cuda *f, const struct tachy_cuda_kernels *k, cuda_address memory, int i, int count, cuda_stream stream)
{
    cuda_address pairs = memory + f->first, u = pairs + (cuda_address)f->u, v = pairs + (cuda_address)f->v;
    cuda_address plane = (cuda_address)f->plane;
    bool coarsest = i == f->finest + f->levels - 1;
    struct tachy_cuda_flow_search s = {
        .here = pairs + (cuda_address)f->level[i], .there = pairs + (cuda_address)(f->there + f->level[i]),
        .coarse_u = coarsest ? 0 : u, .coarse_v = coarsest ? 0 : v, .grid = pairs + (cuda_address)f->grid,
        .u = u + plane, .v = v + plane, .turns = memory, .next = f->next, .count = count, .width = f->width >> i, .height = f->height >> i,
        .stride = FLOW_STRIDE(f->width >> i), .coarse_width = f->width >> (i + 1), .coarse_height = f->height >> (i + 1)};
    int status = k->flow_search(&s, stream);
    struct tachy_cuda_flow_refine r = {
        .here = s.here, .there = s.there, .u = {u + plane, u, u + 2 * plane}, .v = {v + plane, v, v + 2 * plane},
        .slopes = pairs + (cuda_address)f->slopes, .next = f->next, .count = count, .width = s.width, .height = s.height, .stride = s.stride};
    return status ? status : k->flow_refine(&r, stream);
}

int flow_cuda_run(const struct flow_cuda *f, const struct tachy_cuda_kernels *k, cuda_address memory, const cuda_address here[],
                  const cuda_address there[], int64_t stride, int count, cuda_stream stream)
{
    int status = pyramids(f, k, memory + f->first, here, there, stride, count, stream);
    for (int i = f->finest + f->levels - 1; i >= f->finest && !status; i--)
        status = one_level(f, k, memory, i, count, stream);
    return status;
}
