#include "plan/cpu/elementwise.h"
#include "plan/cpu/plan_parts.h"
#include "plan/cpu/pool.h"
#include "plan/cpu/resize.h"
#include "plan/cpu/softmax.h"

// Steps that are one call of a kernel.

struct tachy_view plan_at(const struct plan_ref *ref, const struct plan_run *r)
{
    struct tachy_view v = ref->v;
    v.data = ref->base == NO_BASE ? NULL : r->base[ref->base] + ref->offset;
    return v;
}

static float *weights_of(const struct plan_step *s, const struct plan_run *r)
{
    return r->base[BASE_WEIGHTS] + s->weights;
}

static struct tachy_act act_of(const struct plan_step *s, const struct plan_run *r)
{
    struct tachy_act a = s->act;
    a.slope = s->slope < 0 ? NULL : r->base[BASE_WEIGHTS] + s->slope;
    return a;
}

struct tachy_conv_io plan_conv_io(const struct plan_step *s, const struct plan_run *r, struct tachy_view *add)
{
    struct tachy_conv_io io = {.in = plan_at(&s->in, r), .out = plan_at(&s->out, r)};
    *add = plan_at(&s->add, r);
    io.epilogue.act = act_of(s, r);
    io.epilogue.sums = plan_at(&s->sums, r).data;
    io.epilogue.add = add->data ? add : NULL;
    io.epilogue.add_last = s->add_last;
    io.scale = plan_at(&s->scale, r).data;
    io.scale_image = s->scale.v.image;
    return io;
}

void plan_run_conv(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct tachy_view add;
    struct tachy_conv_io io = plan_conv_io(s, r, &add);
    tachy_conv_run(&s->conv, s->packed, &io, row0, row1, r->base[BASE_SCRATCH]);
}

void plan_run_narrow(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct tachy_view add;
    struct tachy_conv_io io = plan_conv_io(s, r, &add);
    tachy_narrow_run(&s->narrow, s->packed, &io, row0, row1, r->base[BASE_SCRATCH]);
}

void plan_run_winograd(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct tachy_view add;
    struct tachy_conv_io io = plan_conv_io(s, r, &add);
    tachy_winograd_run(&s->winograd, s->packed, &io, row0, row1, r->base[BASE_SCRATCH]);
}

void plan_run_deconv(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct tachy_view add;
    struct tachy_conv_io io = plan_conv_io(s, r, &add);
    tachy_deconv_run(s->deconv, s->packed, &io, row0, row1, r->base[BASE_SCRATCH]);
}

void plan_run_unary(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct tachy_view in = plan_at(&s->in, r), out = plan_at(&s->out, r);
    struct tachy_act act = act_of(s, r);
    tachy_unary_run(s->k, &act, &in, &out, row0, row1);
}

void plan_run_binary(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct tachy_binary_io io = {s->binary, act_of(s, r), plan_at(&s->in, r), plan_at(&s->in2, r),
                                 plan_at(&s->out, r), NULL};
    tachy_binary_run(s->k, &io, row0, row1);
}

void plan_run_pool(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct tachy_view in = plan_at(&s->in, r), out = plan_at(&s->out, r);
    tachy_pool_run(s->k, &s->pool, &in, &out, row0, row1);
}

void plan_run_mean(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct tachy_view in = plan_at(&s->in, r), out = plan_at(&s->out, r);
    float *sums = plan_at(&s->sums, r).data;
    if (!sums) {
        sums = r->base[BASE_SCRATCH];
        tachy_pool_rows(s->k, &in, sums, 0, in.n * in.h);
    }
    tachy_pool_mean(s->k, sums, in.n, in.h, in.w, in.c, out.data);
}

void plan_run_resize(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct tachy_view add = plan_at(&s->add, r);
    struct tachy_resize_io io = {.in = plan_at(&s->in, r), .out = plan_at(&s->out, r)};
    io.epilogue.act = act_of(s, r);
    io.epilogue.sums = plan_at(&s->sums, r).data;
    io.epilogue.add = add.data ? &add : NULL;
    io.epilogue.add_last = s->add_last;
    io.add_scale = plan_at(&s->scale, r).data;
    io.scale_image = s->scale.v.image;
    tachy_resize_run(s->k, &s->resize, weights_of(s, r), &io, row0, row1,
                     r->base[BASE_SCRATCH]);
}

void plan_run_softmax(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct tachy_view in = plan_at(&s->in, r), out = plan_at(&s->out, r);
    tachy_softmax_run(s->k, &in, &out, s->log, row0, row1);
}
