#include "check_nn.h"

#include "base/base.h"
#include "ref/ref_argmax.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// The other kernels of cuda/nn against their twins, which sum in double. float32 sums of values within 1 stay within
// 4e-6 of it for these sizes, fast exponentials within 4e-6 relative; float16 adds half a unit in the last place.
#define KERNELS tachy_nn_kernels()

static void pool(struct check *c)
{
    struct tachy_nn_pool a = {.dtype = nn_floats(c)};
    struct tachy_pool_shape *s = &a.shape;
    *s = (struct tachy_pool_shape){.n = check_range(c, 1, 3), .h = check_range(c, 4, 30), .w = check_range(c, 4, 30),
                                   .c = check_range(c, 0, 1) ? 8 * check_range(c, 1, 9) : check_range(c, 1, 20),
                                   .kh = check_range(c, 1, 4), .kw = check_range(c, 1, 4), .stride_h = check_range(c, 1, 3),
                                   .stride_w = check_range(c, 1, 3), .average = check_range(c, 0, 1), .count_pad = check_range(c, 0, 1)};
    s->pad_top = check_range(c, 0, s->kh - 1), s->pad_left = check_range(c, 0, s->kw - 1);
    s->pad_bottom = check_range(c, 0, s->kh - 1), s->pad_right = check_range(c, 0, s->kw - 1);
    s->out_h = (s->h + s->pad_top + s->pad_bottom - s->kh) / s->stride_h + 1;
    s->out_w = (s->w + s->pad_left + s->pad_right - s->kw) / s->stride_w + 1;
    int more = 8 * check_range(c, 0, 1);
    struct nn_buffer in = nn_random(c, nn_elements(s->n, s->h, s->w, s->c, more), a.dtype, -1, 1);
    struct nn_buffer out = nn_poison(c, nn_elements(s->n, s->out_h, s->out_w, s->c, more), a.dtype);
    in.value[check_range(c, 0, (int)in.n - 1)] = NAN; // stays in every window
    nn_put(c, &in);
    a.in = nn_tensor(&in, s->h, s->w, s->c, more), a.out = nn_tensor(&out, s->out_h, s->out_w, s->c, more);
    check_gpu_launched(c, KERNELS->pool(&a, c->gpu->stream), "pool");
    nn_get(c, &out);
    float *want = malloc(out.n * sizeof(float));
    struct tachy_view from = nn_view(in.value, &a.in, s->n, s->h, s->w, s->c), to = nn_view(want, &a.out, s->n, s->out_h, s->out_w, s->c);
    tachy_ref_pool(s, &from, &to, 0, s->n * s->out_h);
    struct tachy_view got = nn_view(out.value, &a.out, s->n, s->out_h, s->out_w, s->c);
    double worst = nn_worst(&got, &to, nn_rounding(a.dtype));
    check_case(c, worst < 1e-6, "pool %dx%dx%dx%d kernel %dx%d average %d: off by %g", s->n, s->h, s->w, s->c, s->kh, s->kw, s->average, worst);
    free(want), nn_close(c, &in), nn_close(c, &out);
}

// Any four weights and places.
static struct nn_buffer taps(struct check *c, int outputs, int size)
{
    struct nn_buffer b = nn_random(c, (size_t)outputs * 8, TACHY_F32, -0.5f, 0.5f);
    for (int i = 0; i < outputs * 8; i++)
        if (i % 8 > 3)
            b.value[i] = (float)check_range(c, 0, size - 1);
    nn_put(c, &b);
    return b;
}

static void cubic(struct check *c)
{
    struct tachy_nn_cubic a = {.n = check_range(c, 1, 2), .c = check_range(c, 0, 1) ? 8 * check_range(c, 1, 9) : check_range(c, 1, 21),
                               .out_h = check_range(c, 1, 30), .out_w = check_range(c, 1, 30), .dtype = nn_floats(c)};
    int h = check_range(c, 1, 20), w = check_range(c, 1, 20), more = 8 * check_range(c, 0, 1);
    a.out_dtype = check_range(c, 0, 1) ? TACHY_F32 : a.dtype;
    struct nn_buffer in = nn_random(c, nn_elements(a.n, h, w, a.c, more), a.dtype, -1, 1);
    struct nn_buffer out = nn_poison(c, nn_elements(a.n, a.out_h, a.out_w, a.c, more), a.out_dtype);
    struct nn_buffer rows = taps(c, a.out_h, h), columns = taps(c, a.out_w, w);
    a.in = nn_tensor(&in, h, w, a.c, more), a.out = nn_tensor(&out, a.out_h, a.out_w, a.c, more);
    a.rows = rows.at, a.columns = columns.at, a.act = nn_act(c, 0, false);
    check_gpu_launched(c, KERNELS->cubic(&a, c->gpu->stream), "cubic");
    nn_get(c, &out);
    struct tachy_act act = nn_ref_act(&a.act, NULL);
    double worst = 0;
    for (int i = 0; i < a.n * a.out_h * a.out_w * a.c; i++) {
        int k = i % a.c, x = i / a.c % a.out_w, y = i / a.c / a.out_w % a.out_h, n = i / a.c / a.out_w / a.out_h;
        const float *u = &rows.value[8 * y], *v = &columns.value[8 * x];
        double sum = 0;
        for (int t = 0; t < 16; t++)
            sum += (double)u[t / 4] * (double)v[t % 4] *
                   (double)in.value[n * a.in.image + (int)u[4 + t / 4] * a.in.row + (int)v[4 + t % 4] * a.in.pixel + k];
        double want = tachy_ref_act(&act, sum, 0), got = (double)out.value[n * a.out.image + y * a.out.row + x * a.out.pixel + k];
        double off = fabs(got - want) - fabs(want) * nn_rounding(a.out_dtype);
        worst = !(off <= worst) ? off : worst;
    }
    check_case(c, worst < 8e-6, "cubic %dx%dx%dx%d to %dx%d act %d: off by %g", a.n, h, w, a.c, a.out_h, a.out_w, a.act.kind, worst);
    nn_close(c, &in), nn_close(c, &out), nn_close(c, &rows), nn_close(c, &columns);
}

// A picture whose c channels are those from `first` on of c + more in each pixel.
struct slice {
    struct nn_buffer buffer;
    struct tachy_nn_tensor t;
    int more, first;
};
static void place_slice(struct slice *p, int h, int w, int c)
{
    p->t = nn_tensor(&p->buffer, h, w, c, p->more);
    p->t.data += (cuda_address)p->first * tachy_dtype_size(p->buffer.dtype);
}
// The whole picture, or one that vectors of 8 or of 4 elements may fit, or one that none fits: of four channels 3..6 of 8.
static struct slice random_slice(struct check *c)
{
    static const int each[][2] = {{0, 0}, {8, 0}, {8, 8}, {4, 4}, {4, 3}, {1, 1}}; // more, first
    const int *p = each[check_range(c, 0, TACHY_ARRAY_SIZE(each) - 1)];
    return (struct slice){.more = p[0], .first = p[1]};
}

static struct tachy_resize_shape random_resize(struct check *c)
{
    int channels[] = {4, check_range(c, 1, 4), 4 * check_range(c, 1, 9), 8 * check_range(c, 1, 9), check_range(c, 1, 21)};
    struct tachy_resize_shape s = {.n = check_range(c, 1, 2), .h = check_range(c, 1, 20), .w = check_range(c, 1, 20),
                                   .c = channels[check_range(c, 0, 4)], .out_h = check_range(c, 1, 40), .out_w = check_range(c, 1, 40),
                                   .kind = check_range(c, 0, 1), .place = check_range(c, 0, 2), .round = check_range(c, 0, 3)};
    switch (check_range(c, 0, 7)) {
    case 0:
    case 1: // places that are whole numbers, which a nearest pixel depends on
        s.h = s.w = 9, s.out_h = s.out_w = 21, s.kind = TACHY_RESIZE_NEAREST, s.place = TACHY_RESIZE_HALF;
        break;
    case 2: s.scale_h = (float)s.out_h / (float)s.h, s.scale_w = (float)s.out_w / (float)s.w; break;
    case 3: s.out_w = check_range(c, 200, 700); break;
    case 4: // more than one row for a thread
        s.n = 1, s.c = check_range(c, 3, 4), s.out_w = check_range(c, 600, 900), s.out_h = check_range(c, 900, 1100);
        break;
    }
    return s;
}

// Values that a kernel has written to a poisoned result.
static size_t written(const struct nn_buffer *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++)
        n += !isnan(b->value[i]);
    return n;
}

// NHWC and planes as results, with what is added, scaled.
static void interpolate(struct check *c)
{
    struct tachy_nn_interpolate a = {.shape = random_resize(c), .dtype = nn_floats(c), .out_channel = 1};
    struct tachy_resize_shape *s = &a.shape;
    bool planes = check_range(c, 0, 3) == 0, add = !planes && check_range(c, 0, 1);
    a.out_dtype = check_range(c, 0, 1) ? TACHY_F32 : a.dtype;
    struct slice in = random_slice(c), out = planes ? (struct slice){0} : random_slice(c), adds = random_slice(c);
    struct nn_buffer scale = nn_random(c, (size_t)(s->n * s->c), TACHY_F32, -1, 1);
    in.buffer = nn_random(c, nn_elements(s->n, s->h, s->w, s->c, in.more), a.dtype, -1, 1);
    adds.buffer = nn_random(c, nn_elements(s->n, s->out_h, s->out_w, s->c, adds.more), a.dtype, -1, 1);
    out.buffer = nn_poison(c, nn_elements(s->n, s->out_h, s->out_w, s->c, out.more), a.out_dtype);
    place_slice(&in, s->h, s->w, s->c), place_slice(&adds, s->out_h, s->out_w, s->c), place_slice(&out, s->out_h, s->out_w, s->c);
    a.in = in.t, a.out = out.t;
    if (planes)
        a.out.pixel = 1, a.out.row = s->out_w, a.out_channel = (int64_t)s->out_h * s->out_w;
    a.epilogue.act = nn_act(c, 0, false);
    if (add)
        a.epilogue.add = adds.t, a.epilogue.add_last = check_range(c, 0, 1), a.add_scale = check_range(c, 0, 1) ? scale.at : 0, a.scale_image = s->c;
    check_gpu_launched(c, KERNELS->interpolate(&a, c->gpu->stream), "interpolate");
    nn_get(c, &out.buffer);
    float *want = malloc(out.buffer.n * sizeof(float)), *got = malloc(out.buffer.n * sizeof(float));
    for (int n = 0; n < s->n; n++) // as NHWC
        for (int k = 0; k < s->c; k++)
            for (int i = 0; i < s->out_h * s->out_w; i++) {
                int64_t to = n * out.t.image + i / s->out_w * out.t.row + i % s->out_w * out.t.pixel + k;
                got[to] = out.buffer.value[planes ? n * a.out.image + k * a.out_channel + i : out.first + to];
            }
    struct tachy_view added = nn_view(adds.buffer.value + adds.first, &adds.t, s->n, s->out_h, s->out_w, s->c);
    struct tachy_resize_io io = {.in = nn_view(in.buffer.value + in.first, &in.t, s->n, s->h, s->w, s->c),
                                 .out = nn_view(want, &out.t, s->n, s->out_h, s->out_w, s->c),
                                 .add_scale = a.add_scale ? scale.value : NULL, .scale_image = s->c,
                                 .epilogue = {.act = nn_ref_act(&a.epilogue.act, NULL), .add = add ? &added : NULL,
                                              .add_last = a.epilogue.add_last}};
    tachy_ref_resize(s, &io, 0, s->n * s->out_h);
    struct tachy_view mine = nn_view(got, &out.t, s->n, s->out_h, s->out_w, s->c);
    double worst = nn_worst(&mine, &io.out, nn_rounding(a.out_dtype));
    bool alone = written(&out.buffer) == (size_t)s->n * (size_t)s->out_h * (size_t)s->out_w * (size_t)s->c; // no neighbour's channels
    check_case(c, worst < 8e-6 && alone, "interpolate %dx%dx%dx%d %s to %dx%d %s kind %d place %d round %d planes %d act %d add %d "
               "slices %d of %d, %d of %d, alone %d: off by %g", s->n, s->h, s->w, s->c, tachy_dtype_name(a.dtype), s->out_h, s->out_w,
               tachy_dtype_name(a.out_dtype), s->kind, s->place, s->round, planes, a.epilogue.act.kind, add, in.first, in.more,
               out.first, out.more, alone, worst);
    free(want), free(got), nn_close(c, &in.buffer), nn_close(c, &out.buffer), nn_close(c, &adds.buffer), nn_close(c, &scale);
}

static double reduced(enum tachy_nn_reduce_kind kind, const float *p, int64_t step, int64_t n)
{
    double sum = kind == TACHY_NN_PROD, most = -INFINITY, least = INFINITY, exps = 0;
    for (int64_t i = 0; i < n; i++) {
        double v = (double)p[i * step];
        most = v > most ? v : most, least = v < least ? v : least, exps += exp(v);
        if (kind == TACHY_NN_PROD)
            sum *= v;
        else
            sum += kind == TACHY_NN_L1 ? fabs(v) : kind == TACHY_NN_L2 || kind == TACHY_NN_SUM_SQUARE ? v * v : v;
    }
    switch (kind) {
    case TACHY_NN_MEAN: return sum / (double)n;
    case TACHY_NN_MAX: return most;
    case TACHY_NN_MIN: return least;
    case TACHY_NN_L2: return sqrt(sum);
    case TACHY_NN_LOG_SUM: return log(sum);
    case TACHY_NN_LOG_SUM_EXP: return log(exps);
    default: return sum;
    }
}

// [outer][n][inner], in either order of n and inner.
static void lay(struct check *c, int64_t outer, int64_t n, int64_t inner, int64_t *o, int64_t *s, int64_t *i)
{
    bool swapped = check_range(c, 0, 1);
    *o = n * inner, *s = swapped ? 1 : inner, *i = swapped ? n : 1;
}

static void reduce(struct check *c)
{
    struct tachy_nn_reduce a = {.outer = check_range(c, 1, 5), .n = check_range(c, 1, check_range(c, 0, 1) ? 40 : 1500),
                                .inner = check_range(c, 0, 2) ? check_range(c, 1, 60) : 1, .kind = check_range(c, 0, TACHY_NN_REDUCES - 1),
                                .dtype = nn_floats(c)};
    a.out_dtype = check_range(c, 0, 1) ? TACHY_F32 : a.dtype != TACHY_F32 ? a.dtype : nn_half(c);
    lay(c, a.outer, a.n, a.inner, &a.in_outer, &a.in_step, &a.in_inner);
    a.out_outer = a.inner, a.out_inner = 1;
    struct nn_buffer in = nn_random(c, (size_t)(a.outer * a.n * a.inner), a.dtype, a.kind == TACHY_NN_LOG_SUM ? 0.1f : -1, 1);
    struct nn_buffer out = nn_poison(c, (size_t)(a.outer * a.inner), a.out_dtype);
    size_t bytes = tachy_nn_reduce_workspace(&a);
    a.in = in.at, a.out = out.at, a.workspace = bytes && check_range(c, 0, 1) ? check_gpu_poison(c, bytes) : 0;
    check_gpu_launched(c, KERNELS->reduce(&a, c->gpu->stream), "reduce");
    nn_get(c, &out);
    double worst = 0;
    for (int64_t k = 0; k < a.outer * a.inner; k++) {
        double want = reduced(a.kind, in.value + k / a.inner * a.in_outer + k % a.inner * a.in_inner, a.in_step, a.n);
        double off = fabs((double)out.value[k] - want) - fabs(want) * (nn_rounding(a.out_dtype) + 2e-5);
        worst = !(off <= worst) ? off : worst;
    }
    check_case(c, worst < 2e-5, "reduce kind %d of %dx%dx%d step %d: off by %g", a.kind, (int)a.outer, (int)a.n, (int)a.inner, (int)a.in_step, worst);
    if (a.workspace)
        check_gpu_free(c, a.workspace);
    nn_close(c, &in), nn_close(c, &out);
}

static void softmax(struct check *c)
{
    bool rows = check_range(c, 0, 1); // whose elements lie side by side, some of them long
    struct tachy_nn_softmax a = {.outer = check_range(c, 1, rows ? 40 : 5), .n = rows ? 2 * check_range(c, 1, check_range(c, 0, 1) ? 40 : 3000) : check_range(c, 1, 150),
                                 .inner = rows ? 1 : check_range(c, 1, 60), .log = check_range(c, 0, 1), .dtype = nn_floats(c)};
    a.out_dtype = check_range(c, 0, 1) ? TACHY_F32 : a.dtype != TACHY_F32 ? a.dtype : nn_half(c);
    lay(c, a.outer, a.n, a.inner, &a.in_outer, &a.in_step, &a.in_inner);
    lay(c, a.outer, a.n, a.inner, &a.out_outer, &a.out_step, &a.out_inner);
    size_t n = (size_t)(a.outer * a.n * a.inner);
    struct nn_buffer in = nn_random(c, n, a.dtype, -20, 20), out = nn_poison(c, n, a.out_dtype);
    a.in = in.at, a.out = out.at;
    check_gpu_launched(c, KERNELS->softmax(&a, c->gpu->stream), "softmax");
    nn_get(c, &out);
    double worst = 0;
    float *row = malloc((size_t)a.n * sizeof(float)), *want = malloc((size_t)a.n * sizeof(float));
    for (int64_t k = 0; k < a.outer * a.inner; k++) {
        for (int64_t i = 0; i < a.n; i++)
            row[i] = in.value[k / a.inner * a.in_outer + k % a.inner * a.in_inner + i * a.in_step];
        struct tachy_view from = tachy_view_dense(row, 1, 1, 1, (int)a.n), to = tachy_view_dense(want, 1, 1, 1, (int)a.n);
        tachy_ref_softmax(&from, &to, a.log, 0, 1);
        for (int64_t i = 0; i < a.n; i++) {
            double got = (double)out.value[k / a.inner * a.out_outer + k % a.inner * a.out_inner + i * a.out_step];
            double off = fabs(got - (double)want[i]) - fabs((double)want[i]) * (nn_rounding(a.out_dtype) + 4e-6);
            worst = !(off <= worst) ? off : worst;
        }
    }
    check_case(c, worst < 1e-6, "softmax %dx%dx%d log %d: off by %g", (int)a.outer, (int)a.n, (int)a.inner, a.log, worst);
    free(row), free(want), nn_close(c, &in), nn_close(c, &out);
}

// The lengths of distributions, and others. A number is within a few float32 roundings of the sum of weights without signs.
static void softmax_sum(struct check *c)
{
    static const int lengths[] = {1, 2, 16, 17, 32, 1000};
    const int some = check_range(c, 0, 2 * (int)TACHY_ARRAY_SIZE(lengths) - 1);
    struct tachy_nn_softmax a = {.outer = check_range(c, 1, 20), .n = some < (int)TACHY_ARRAY_SIZE(lengths) ? lengths[some] : check_range(c, 1, 150),
                                 .dtype = nn_floats(c)};
    a.inner = check_range(c, 0, 1) ? 1 : check_range(c, 1, check_range(c, 0, 1) ? 60 : a.n > 150 ? 250 : 2500);
    a.pieces = check_range(c, 0, 1) ? 1 : check_range(c, 2, 5);
    a.out_dtype = check_range(c, 0, 1) ? TACHY_F32 : a.dtype != TACHY_F32 ? a.dtype : nn_half(c);
    if (a.pieces == 1) {
        lay(c, a.outer, a.n, a.inner, &a.in_outer, &a.in_step, &a.in_inner);
    } else { // channels last
        a.in_step = 1, a.in_piece = a.n, a.in_inner = a.n * a.pieces + (check_range(c, 0, 1) ? 8 * check_range(c, 0, 3) : 0);
        a.in_outer = a.inner * a.in_inner;
    }
    lay(c, a.outer, a.pieces, a.inner, &a.out_outer, &a.out_piece, &a.out_inner);
    struct nn_buffer in = nn_random(c, (size_t)(a.outer * (a.pieces == 1 ? a.n * a.inner : a.in_outer)), a.dtype, -20, 20), weights = nn_random(c, (size_t)a.n, TACHY_F32, -4, 16);
    struct nn_buffer out = nn_poison(c, (size_t)(a.outer * a.inner * a.pieces), a.out_dtype);
    float *row = malloc((size_t)a.n * sizeof(float)), want = 0;
    double worst = 0;
    const bool none = a.pieces == 1 && !check_range(c, 0, 3); // some have no share, but never the first of all
    for (size_t i = 0; i < in.n && none; i += (size_t)check_range(c, 1, 5))
        in.value[i] = i / (size_t)a.in_step % (size_t)a.n ? -INFINITY : in.value[i];
    nn_put(c, &in);
    a.in = in.at, a.out = out.at, a.weights = weights.at;
    check_gpu_launched(c, KERNELS->softmax(&a, c->gpu->stream), "softmax");
    nn_get(c, &out);
    for (int64_t k = 0; k < a.outer * a.inner * a.pieces; k++) {
        const int64_t piece = k % a.pieces, inner = k / a.pieces % a.inner, outer = k / a.pieces / a.inner;
        for (int64_t i = 0; i < a.n; i++)
            row[i] = in.value[outer * a.in_outer + inner * a.in_inner + piece * a.in_piece + i * a.in_step];
        const struct tachy_view from = tachy_view_dense(row, 1, 1, 1, (int)a.n), to = tachy_view_dense(&want, 1, 1, 1, 1);
        tachy_ref_softmax_sum(&from, weights.value, (int)a.n, &to);
        double off = fabs((double)out.value[outer * a.out_outer + inner * a.out_inner + piece * a.out_piece] - (double)want) - fabs((double)want) * nn_rounding(a.out_dtype);
        worst = !(off <= worst) ? off : worst;
    }
    check_case(c, worst < 16 * 4e-6, "softmax %dx%dx%d step %d, %d pieces, type %d, a sum: off by %g", (int)a.outer, (int)a.n, (int)a.inner, (int)a.in_step, (int)a.pieces, a.dtype, worst);
    free(row), nn_close(c, &in), nn_close(c, &weights), nn_close(c, &out);
}

static void arg(struct check *c)
{
    static const enum tachy_dtype types[] = {TACHY_I64, TACHY_I32, TACHY_U8};
    struct tachy_nn_arg a = {.outer = check_range(c, 1, 5), .n = check_range(c, 1, 150), .inner = check_range(c, 1, 60),
                             .min = check_range(c, 0, 1), .last = check_range(c, 0, 1), .dtype = nn_floats(c),
                             .out_dtype = types[check_range(c, 0, 2)]};
    lay(c, a.outer, a.n, a.inner, &a.in_outer, &a.in_step, &a.in_inner);
    a.out_outer = a.inner, a.out_inner = 1;
    struct nn_buffer in = nn_random(c, (size_t)(a.outer * a.n * a.inner), a.dtype, -1, 1);
    for (size_t i = 0; i < in.n; i++) // equal ones
        in.value[i] = rintf(in.value[i] * 20) / 4;
    nn_put(c, &in);
    struct nn_buffer out = nn_poison(c, (size_t)(a.outer * a.inner), a.out_dtype);
    a.in = in.at, a.out = out.at;
    check_gpu_launched(c, KERNELS->arg(&a, c->gpu->stream), "arg");
    nn_get(c, &out);
    int wrong = 0;
    for (int64_t k = 0; k < a.outer * a.inner; k++) {
        const float *p = in.value + k / a.inner * a.in_outer + k % a.inner * a.in_inner;
        int best = a.min || a.last ? 0 : tachy_ref_argmax(p, a.in_step, (int)a.n);
        for (int i = 1; (a.min || a.last) && i < a.n; i++) {
            float v = p[i * a.in_step], b = p[best * a.in_step];
            best = (a.min ? v < b : v > b) || (a.last && v == b) ? i : best;
        }
        wrong += out.value[k] != (float)best;
    }
    check_case(c, !wrong, "arg %dx%dx%d min %d last %d: %d wrong", (int)a.outer, (int)a.n, (int)a.inner, a.min, a.last, wrong);
    nn_close(c, &in), nn_close(c, &out);
}

// Matrices in one of three orders: one after the other, the rows outermost with a gap, or one after the other by columns.
static struct tachy_nn_matrices lay_matrices(const struct tachy_nn_attention *a, int rows, int columns, int order, int gap)
{
    int64_t row = (int64_t)a->outer * a->inner * columns + gap, one = (int64_t)rows * columns;
    if (order == 1)
        return (struct tachy_nn_matrices){.row = row, .column = 1, .inner = columns, .outer = (int64_t)a->inner * columns};
    return (struct tachy_nn_matrices){.row = order ? 1 : columns, .column = order ? rows : 1, .inner = one, .outer = one * a->inner};
}

struct matrices {
    struct tachy_nn_matrices at;
    struct nn_buffer b;
    struct tachy_view dense; // the same numbers, one matrix after the other
};

static void take_matrices(const struct tachy_nn_attention *a, struct matrices *m, int rows, int columns)
{
    m->dense = tachy_view_dense(malloc(sizeof(float) * (size_t)(a->outer * a->inner * rows * columns)), a->outer, a->inner, rows, columns);
    for (int i = 0; i < a->outer * a->inner * rows * columns; i++) {
        int column = i % columns, row = i / columns % rows, matrix = i / columns / rows;
        m->dense.data[i] = m->b.value[matrix / a->inner * m->at.outer + matrix % a->inner * m->at.inner + row * m->at.row + column * m->at.column];
    }
}

// Sums are exact but for float32's rounding; the shares of the values are rounded to the type, and so is the result.
static void attention(struct check *c)
{
    struct tachy_nn_attention a = {.outer = check_range(c, 1, 3), .inner = check_range(c, 1, 4), .queries = check_range(c, 1, 150),
                                   .keys = check_range(c, 1, check_range(c, 0, 1) ? 64 : 300), .dtype = nn_half(c)};
    int each = check_range(c, 0, 2) ? 8 : 1, most = (check_range(c, 0, 2) ? TACHY_NN_ATTENTION_DEPTH : 32) / each;
    a.queries = check_range(c, 0, 2) ? a.queries : check_range(c, 1, 16), a.keys = check_range(c, 0, 2) ? a.keys : check_range(c, 1, 20);
    a.depth = each * check_range(c, 1, most), a.width = each * check_range(c, 1, most);
    a.scale = check_float(c, 0.05f, 1) / sqrtf((float)a.depth);
    const int rows[] = {a.queries, a.keys, a.keys, a.queries}, columns[] = {a.depth, a.depth, a.width, a.width};
    struct matrices m[4];
    struct tachy_nn_matrices *const to[] = {&a.q, &a.k, &a.v, &a.out};
    for (int i = 0; i < 4; i++) {
        m[i].at = lay_matrices(&a, rows[i], columns[i], check_range(c, 0, i < 3 ? 2 : 1), each * check_range(c, 0, 2));
        size_t n = (size_t)(TACHY_MAX(m[i].at.row * rows[i], m[i].at.outer * a.outer));
        m[i].b = i < 3 ? nn_random(c, n, a.dtype, i < 2 ? -2 : -1, i < 2 ? 2 : 1) : nn_poison(c, n, a.dtype);
        m[i].at.data = m[i].b.at;
        m[i].at.outer = i < 3 && check_range(c, 0, 2) == 0 ? 0 : m[i].at.outer; // one for all
        *to[i] = m[i].at;
    }
    check_gpu_launched(c, KERNELS->attention(&a, c->gpu->stream), "attention");
    nn_get(c, &m[3].b);
    for (int i = 0; i < 4; i++)
        take_matrices(&a, &m[i], rows[i], columns[i]);
    struct tachy_view want = tachy_view_dense(malloc(sizeof(float) * (size_t)(a.outer * a.inner * a.queries * a.width)), a.outer, a.inner, a.queries, a.width);
    tachy_ref_attention(&m[0].dense, &m[1].dense, &m[2].dense, &want, a.scale);
    double worst = nn_worst(&m[3].dense, &want, nn_rounding(a.dtype));
    check_case(c, worst < nn_rounding(a.dtype) + 2e-5, "attention %dx%d of %d by %d, depth %d, width %d: off by %g", a.outer, a.inner, a.queries, a.keys,
               a.depth, a.width, worst);
    free(want.data);
    for (int i = 0; i < 4; i++)
        free(m[i].dense.data), nn_close(c, &m[i].b);
}

// Operand `k` of a chain, dense in the order of its dimensions or with the first two swapped, perhaps repeated along some.
static struct nn_buffer lay_operand(struct check *c, const struct tachy_nn_pointwise *p, struct tachy_nn_operand *o, int k)
{
    const int order[2][4] = {{5, 4, 3, 2}, {5, 4, 2, 3}}, way = k >= 0 ? check_range(c, 0, 1) : 0;
    int64_t n = 1;
    for (int i = 0; i < 4; i++) {
        int d = order[way][i];
        bool repeats = k > 0 && check_range(c, 0, 4) == 0;
        o->stride[d] = repeats ? 0 : n;
        n *= repeats ? 1 : p->shape[d];
    }
    struct nn_buffer b = k < 0 ? nn_poison(c, (size_t)n, o->dtype) : nn_random(c, (size_t)n, o->dtype, -2, 2);
    o->data = b.at;
    return b;
}

static int64_t place_of(const struct tachy_nn_pointwise *p, const struct tachy_nn_operand *o, int64_t i)
{
    int64_t at = 0;
    for (int d = TACHY_NN_RANK - 1; d >= 0; i /= p->shape[d], d--)
        at += i % p->shape[d] * o->stride[d];
    return at;
}

// Sums and products of up to three operands, a function, and what was kept before it.
static void pointwise(struct check *c)
{
    const bool large = check_range(c, 0, 19) == 0; // what a thread has several vectors of
    const enum tachy_dtype t = large ? nn_half(c) : nn_floats(c);
    const int inner = check_range(c, 0, 2) ? 8 * check_range(c, 1, 6) : check_range(c, 1, 30);
    struct tachy_nn_pointwise p = {.shape = {1, 1, check_range(c, 1, 5), check_range(c, 1, 6), check_range(c, 1, 9), inner},
                                   .nb_in = check_range(c, 1, 3), .out.dtype = t};
    if (large)
        p.shape[2] = check_range(c, 4, 7), p.shape[3] = 35, p.shape[4] = check_range(c, 940, 970), p.shape[5] = 32;
    struct nn_buffer in[3], out = lay_operand(c, &p, &p.out, -1);
    for (int k = 0; k < p.nb_in; k++) {
        p.in[k].dtype = (large && k < 2) || check_range(c, 0, 4) ? t : TACHY_F32;
        in[k] = lay_operand(c, &p, &p.in[k], k);
        if (k)
            p.steps[p.nb_steps++] = (struct tachy_nn_step){TACHY_NN_BINARY, check_range(c, 0, 1) ? TACHY_BINARY_ADD : TACHY_BINARY_MUL, (unsigned char)k, 0, 0};
    }
    const bool kept = check_range(c, 0, 1);
    if (kept)
        p.steps[p.nb_steps++] = (struct tachy_nn_step){.kind = TACHY_NN_KEEP};
    p.steps[p.nb_steps++] = (struct tachy_nn_step){.kind = TACHY_NN_ACT, .what = TACHY_ACT_SIGMOID};
    if (kept)
        p.steps[p.nb_steps++] = (struct tachy_nn_step){TACHY_NN_BINARY, TACHY_BINARY_MUL, TACHY_NN_KEPT, 0, 0};
    check_gpu_launched(c, KERNELS->pointwise(&p, c->gpu->stream), "pointwise");
    nn_get(c, &out);
    struct tachy_view got = tachy_view_dense(out.value, 1, 1, 1, (int)out.n), want = tachy_view_dense(malloc(out.n * sizeof(float)), 1, 1, 1, (int)out.n);
    for (size_t i = 0; i < out.n; i++) {
        float v = in[0].value[place_of(&p, &p.in[0], (int64_t)i)];
        for (int k = 1; k < p.nb_in; k++) {
            float o = in[k].value[place_of(&p, &p.in[k], (int64_t)i)];
            v = p.steps[k - 1].what == TACHY_BINARY_ADD ? v + o : v * o;
        }
        float s = 1 / (1 + expf(-v));
        want.data[i] = kept ? s * v : s;
    }
    double worst = nn_worst(&got, &want, nn_rounding(t) + 4e-6);
    check_case(c, worst < 1e-5, "pointwise %dx%dx%dx%d of %d, kept %d: off by %g", (int)p.shape[2], (int)p.shape[3], (int)p.shape[4], (int)p.shape[5], p.nb_in, kept, worst);
    free(want.data), nn_close(c, &out);
    for (int k = 0; k < p.nb_in; k++)
        nn_close(c, &in[k]);
}

static void layer_norm(struct check *c)
{
    const bool wide = check_range(c, 0, 2) == 0, whole = wide || check_range(c, 0, 1); // rows that a block has; vectors
    const bool many = !wide && check_range(c, 0, 19) == 0;                             // of few elements: threads have several vectors
    struct tachy_nn_layer_norm a = {.rows = many ? check_range(c, 140000, 150000) : check_range(c, 1, wide ? 5 : 40), .n = many ? 2 * check_range(c, 1, 24) : wide ? 8 * check_range(c, 500, 2000) : whole ? 2 * check_range(c, 1, check_range(c, 0, 1) ? 60 : 1500) : check_range(c, 1, 300),
                                    .epsilon = 1e-5f, .dtype = nn_floats(c)};
    a.in_row = a.n + (whole ? 8 * check_range(c, 0, 1) : check_range(c, 0, 3)), a.out_row = a.n;
    struct nn_buffer in = nn_random(c, (size_t)(a.in_row * a.rows), a.dtype, -1, 3), out = nn_poison(c, (size_t)(a.n * a.rows), a.dtype);
    struct nn_buffer scale = nn_random(c, (size_t)a.n, TACHY_F32, -1, 1), shift = nn_random(c, (size_t)a.n, TACHY_F32, -1, 1);
    a.in = in.at, a.out = out.at, a.scale = check_range(c, 0, 2) ? scale.at : 0, a.shift = check_range(c, 0, 1) ? shift.at : 0;
    a.add_rows = check_range(c, 0, 1) ? check_range(c, 1, (int)a.rows) : 0, a.add_row = a.n;
    struct nn_buffer add = nn_random(c, (size_t)(a.add_row * TACHY_MAX(a.add_rows, 1)), a.dtype, -1, 1);
    a.add = a.add_rows ? add.at : 0;
    a.act.kind = check_range(c, 0, 1) ? TACHY_ACT_NONE : TACHY_ACT_GELU;
    check_gpu_launched(c, KERNELS->layer_norm(&a, c->gpu->stream), "layer_norm");
    nn_get(c, &out);
    float *want = malloc(out.n * sizeof(float));
    for (int i = 0; i < a.n && !a.scale; i++)
        scale.value[i] = 1;
    for (int64_t i = 0; a.add && i < a.in_row * a.rows; i++)
        in.value[i] += i % a.in_row < a.n ? add.value[i / a.in_row % a.add_rows * a.add_row + i % a.in_row] : 0;
    struct tachy_view from = {in.value, a.in_row, a.in_row, a.in_row * a.rows, 1, (int)a.rows, 1, a.n};
    struct tachy_view to = {want, a.n, a.n, a.n * a.rows, 1, (int)a.rows, 1, a.n}, got = to;
    tachy_ref_layer_norm(&from, &to, scale.value, a.shift ? shift.value : NULL, a.epsilon, 0, (int)a.rows);
    got.data = out.value;
    const struct tachy_act act = {.kind = a.act.kind};
    for (size_t i = 0; i < out.n; i++)
        want[i] = (float)tachy_ref_act(&act, want[i], 0);
    double worst = nn_worst(&got, &to, nn_rounding(a.dtype) + 4e-6);
    check_case(c, worst < 1e-5, "layer_norm %dx%d plus %d rows, act %d: off by %g", (int)a.rows, a.n, (int)a.add_rows, a.act.kind, worst);
    free(want), nn_close(c, &in), nn_close(c, &out), nn_close(c, &scale), nn_close(c, &shift), nn_close(c, &add);
}

// Random means: partial sums, or a picture of floats, perhaps with a gap after its channels.
static struct nn_buffer draw_means(struct check *c, struct tachy_nn_means *of, int images, int channels)
{
    bool picture = check_range(c, 0, 1);
    int gap = check_range(c, 0, 2) ? 0 : check_range(c, 1, 8);
    *of = (struct tachy_nn_means){.step = channels + gap, .n = picture ? check_range(c, 1, 3000) : check_range(c, 1, 5), .c = channels,
                                  .dtype = picture ? nn_floats(c) : TACHY_F32};
    of->image = of->step * of->n, of->share = 1 / (float)(picture ? of->n : 10 * of->n);
    struct nn_buffer b = nn_random(c, (size_t)(of->image * images), of->dtype, -10, 10);
    of->data = b.at;
    return b;
}

static double mean_at(const struct tachy_nn_means *of, const struct nn_buffer *b, int image, int channel)
{
    double sum = 0;
    for (int p = 0; p < of->n; p++)
        sum += (double)b->value[image * of->image + p * of->step + channel];
    return sum * (double)of->share;
}

static double row_at(const struct nn_buffer *w, const struct nn_buffer *bias, bool biased, int row, const double *v, int n)
{
    double sum = biased ? (double)bias->value[row] : 0;
    for (int i = 0; i < n; i++)
        sum += (double)w->value[row * n + i] * v[i];
    return sum;
}

static void squeeze(struct check *c)
{
    enum { W0, W1, W2, B0, B1, B2, W, BETWEEN, SCALE, SCALED, FIRST, SECOND, BUFFERS };
    struct nn_buffer all[BUFFERS] = {0};
    struct tachy_nn_squeeze a = {.n = check_range(c, 1, 3), .c = check_range(c, 1, 600), .rows = check_range(c, 1, 40), .dtype = nn_floats(c)};
    a.act1 = (struct tachy_nn_act){TACHY_ACT_CLIP, 0, INFINITY, 0}, a.act2 = (struct tachy_nn_act){TACHY_ACT_HSIGMOID, 0.2f, 0.5f, 0};
    int round = check_range(c, 0, 1) ? 8 : 1, in = round * check_range(c, 1, 200 / round), in2 = check_range(c, 0, 1) ? in : round * check_range(c, 1, 8);
    bool two = check_range(c, 0, 1), one_layer = check_range(c, 0, 3) == 0;
    a.c += (round - a.c % round) % round;
    a.hidden = one_layer ? in : check_range(c, 1, 120);
    all[FIRST] = draw_means(c, &a.of[0], a.n, in);
    if (two)
        all[SECOND] = draw_means(c, &a.of[1], a.n, in2);
    all[W0] = nn_random(c, (size_t)(in * in2), a.dtype, -0.2f, 0.2f), all[B0] = nn_random(c, (size_t)in, TACHY_F32, -1, 1);
    all[W1] = nn_random(c, (size_t)(a.hidden * in), a.dtype, -0.2f, 0.2f), all[W2] = nn_random(c, (size_t)(a.c * a.hidden), a.dtype, -0.2f, 0.2f);
    all[B1] = nn_random(c, (size_t)a.hidden, TACHY_F32, -1, 1), all[B2] = nn_random(c, (size_t)a.c, TACHY_F32, -1, 1);
    all[W] = nn_random(c, (size_t)(a.rows * a.c), a.dtype, -1, 1);
    all[SCALE] = nn_poison(c, (size_t)(a.n * a.c), TACHY_F32), all[SCALED] = nn_poison(c, (size_t)(a.n * a.rows * a.c), a.dtype);
    bool scales = check_range(c, 0, 2);
    a.w0 = two && (in2 != in || check_range(c, 0, 1)) ? all[W0].at : 0, a.bias0 = all[B0].at;
    a.w1 = one_layer ? 0 : all[W1].at, a.w2 = all[W2].at, a.bias1 = all[B1].at, a.bias2 = check_range(c, 0, 1) ? all[B2].at : 0;
    all[BETWEEN] = nn_poison(c, (size_t)(a.n * a.hidden), TACHY_F32), a.between = check_range(c, 0, 3) ? all[BETWEEN].at : 0;
    a.scale = all[SCALE].at, a.weights = scales ? all[W].at : 0, a.scaled = scales ? all[SCALED].at : 0;
    check_gpu_launched(c, KERNELS->squeeze(&a, c->gpu->stream), "squeeze");
    nn_get(c, &all[SCALE]), nn_get(c, &all[SCALED]);
    double worst = 0, v[200], second[200], unit[200];
    for (int n = 0; n < a.n; n++) {
        for (int k = 0; two && k < in2; k++)
            second[k] = mean_at(&a.of[1], &all[SECOND], n, k);
        for (int k = 0; k < in; k++)
            v[k] = mean_at(&a.of[0], &all[FIRST], n, k) + (a.w0 ? row_at(&all[W0], &all[B0], true, k, second, in2) : two ? second[k] : 0);
        for (int h = 0; h < a.hidden; h++)
            unit[h] = a.w1 ? fmax(row_at(&all[W1], &all[B1], true, h, v, in), 0) : v[h];
        for (int k = 0; k < a.c; k++) {
            double s = row_at(&all[W2], &all[B2], a.bias2, k, unit, a.hidden);
            s = TACHY_CLAMP((double)a.act2.a * s + (double)a.act2.b, 0.0, 1.0);
            double off = fabs((double)all[SCALE].value[n * a.c + k] - s);
            for (int r = 0; r < a.rows && scales; r++) {
                double want = (double)all[W].value[r * a.c + k] * s;
                double each = fabs((double)all[SCALED].value[(n * a.rows + r) * a.c + k] - want) - fabs(want) * nn_rounding(a.dtype);
                off = !(each <= off) ? each : off;
            }
            worst = !(off <= worst) ? off : worst;
        }
    }
    check_case(c, worst < 2e-5, "squeeze of %d, %dx%d and %d, hidden %d to %d, rows %d, layers %d%d: off by %g", a.n, a.of[0].n, in,
               two ? a.of[1].n : 0, a.hidden, a.c, a.rows, a.w0 != 0, a.w1 != 0, worst);
    for (int i = 0; i < BUFFERS; i++)
        nn_close(c, &all[i]);
}

struct timed_reduce {
    struct check *c;
    struct tachy_nn_reduce a;
};
static void launch_reduce(void *arg)
{
    struct timed_reduce *t = arg;
    check_gpu_launched(t->c, KERNELS->reduce(&t->a, t->c->gpu->stream), "reduce");
}

// Global averages of DeepLabV3 and LR-ASPP.
static void bench_reduce(struct check *c)
{
    static const int shapes[][3] = {{8, 4096, 2048}, {8, 4096, 72}, {8, 1024, 672}, {1, 4096, 2048}};
    struct timed_reduce t = {.c = c};
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(shapes); k++) {
        int64_t outer = shapes[k][0], n = shapes[k][1], inner = shapes[k][2];
        t.a = (struct tachy_nn_reduce){.outer = outer, .n = n, .inner = inner, .in_outer = n * inner, .in_step = inner, .in_inner = 1,
                                       .out_outer = inner, .out_inner = 1, .dtype = TACHY_F16, .out_dtype = TACHY_F16};
        size_t bytes = (size_t)(outer * n * inner) * 2;
        t.a.in = check_gpu_poison(c, bytes), t.a.out = check_gpu_poison(c, (size_t)(outer * inner) * 2);
        t.a.workspace = check_gpu_poison(c, tachy_nn_reduce_workspace(&t.a));
        char what[64];
        snprintf(what, sizeof(what), "mean %dx%dx%d f16", shapes[k][0], shapes[k][1], shapes[k][2]);
        nn_row(c, "reduce", what, nn_time(c, launch_reduce, &t), 0, (double)bytes);
        check_gpu_free(c, t.a.in), check_gpu_free(c, t.a.out), check_gpu_free(c, t.a.workspace);
    }
}

struct timed_interpolate {
    struct check *c;
    struct tachy_nn_interpolate a;
};
static void launch_interpolate(void *arg)
{
    struct timed_interpolate *t = arg;
    check_gpu_launched(t->c, KERNELS->interpolate(&t->a, t->c->gpu->stream), "interpolate");
}

// DeepLabV3's last resize, the mask of a matting network for its refinement, and a YOLO detector's steps upwards.
static void bench_interpolate(struct check *c)
{
    static const struct {
        struct tachy_resize_shape s;
        bool planes;     // float32
        int more, first; // of a pixel's channels in the output, as in a concatenation
    } all[] = {
        {{8, 64, 64, 21, 512, 512, 0, 0, TACHY_RESIZE_LINEAR, TACHY_RESIZE_HALF, 0}, true, 0, 0},
        {{1, 272, 480, 4, 1088, 1920, 0, 0, TACHY_RESIZE_LINEAR, TACHY_RESIZE_HALF, 0}, false, 0, 0},
        {{1, 272, 480, 4, 1088, 1920, 0, 0, TACHY_RESIZE_LINEAR, TACHY_RESIZE_HALF, 0}, false, 4, 3},
        {{8, 20, 20, 256, 40, 40, 0, 0, TACHY_RESIZE_NEAREST, 0, 0}, false, 0, 0},
        {{8, 40, 40, 128, 80, 80, 0, 0, TACHY_RESIZE_NEAREST, 0, 0}, false, 0, 0},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++) {
        const struct tachy_resize_shape *s = &all[i].s;
        int64_t pixels = (int64_t)s->out_h * s->out_w, inputs = (int64_t)s->n * s->h * s->w * s->c, outputs = s->n * pixels * s->c;
        int size = all[i].planes ? 4 : 2, pixel = s->c + all[i].more;
        cuda_address in = check_gpu_poison(c, (size_t)inputs * 2), out = check_gpu_poison(c, (size_t)(s->n * pixels * pixel * size));
        struct timed_interpolate t = {c, {.shape = *s, .out_channel = 1, .dtype = TACHY_F16, .out_dtype = all[i].planes ? TACHY_F32 : TACHY_F16}};
        t.a.in = tachy_nn_dense(in, s->h, s->w, s->c);
        t.a.out = tachy_nn_dense(out + (cuda_address)(all[i].first * size), s->out_h, s->out_w, pixel);
        if (all[i].planes)
            t.a.out_channel = pixels, t.a.out = (struct tachy_nn_tensor){out, 1, s->out_w, pixels * s->c};
        char what[64];
        snprintf(what, sizeof(what), "%s %d x %dx%d to %dx%d x%d of %d f16%s", s->kind == TACHY_RESIZE_LINEAR ? "linear" : "nearest", s->n, s->h,
                 s->w, s->out_h, s->out_w, s->c, pixel, all[i].planes ? " to f32 planes" : "");
        nn_row(c, "interpolate", what, nn_time(c, launch_interpolate, &t), 0, (double)(inputs * 2 + outputs * size));
        check_gpu_free(c, in), check_gpu_free(c, out);
    }
}

struct timed_attention {
    struct tachy_nn_attention a;
    cuda_stream stream;
};
static void launch_attention(void *arg)
{
    struct timed_attention *t = arg;
    KERNELS->attention(&t->a, t->stream);
}

// Queries, keys and values within one product's result, as in ViT-B/32 and ViT-B/16.
static void bench_attention(struct check *c)
{
    static const int of[][2] = {{8, 50}, {64, 50}, {8, 197}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(of); i++) {
        int n = of[i][0], tokens = of[i][1];
        int64_t row = 3 * 768;
        struct nn_buffer in = nn_random(c, (size_t)(n * tokens * row), TACHY_F16, -1, 1), out = nn_poison(c, (size_t)(n * tokens * 768), TACHY_F16);
        struct timed_attention t = {{.outer = n, .inner = 12, .queries = tokens, .keys = tokens, .depth = 64, .width = 64, .scale = 0.125f,
                                     .dtype = TACHY_F16, .out = {out.at, 768, 1, 64, tokens * 768}}, c->gpu->stream};
        t.a.q = t.a.k = t.a.v = (struct tachy_nn_matrices){in.at, row, 1, 64, tokens * row};
        t.a.k.data += 768 * 2, t.a.v.data += 2 * 768 * 2;
        char what[64];
        snprintf(what, sizeof(what), "%d x 12 heads of 64, %d tokens", n, tokens);
        nn_row(c, "attention", what, nn_time(c, launch_attention, &t), 4.0 * n * 12 * tokens * tokens * 64, 2.0 * n * tokens * 4 * 768);
        nn_close(c, &in), nn_close(c, &out);
    }
}

struct timed_softmax {
    struct tachy_nn_softmax a;
    cuda_stream stream;
};
static void launch_softmax(void *arg)
{
    struct timed_softmax *t = arg;
    KERNELS->softmax(&t->a, t->stream);
}

// Boxes of a detector: four distributions of 16 at 8400 places of 8 pictures, channels last and as planes.
static void bench_softmax_sum(struct check *c)
{
    const int64_t n = 16, places = 8400, rows = 8 * 4 * places;
    struct nn_buffer in = nn_random(c, (size_t)(rows * n), TACHY_F16, -20, 20), out = nn_poison(c, (size_t)rows, TACHY_F32);
    struct nn_buffer weights = nn_random(c, (size_t)n, TACHY_F32, 0, 16);
    for (int planes = 0; planes < 2; planes++) {
        struct timed_softmax t = {{.in = in.at, .out = out.at, .weights = weights.at, .n = n, .inner = places, .out_inner = 1,
                                   .pieces = planes ? 1 : 4, .in_piece = n, .out_piece = places, .dtype = TACHY_F16, .out_dtype = TACHY_F32}, c->gpu->stream};
        t.a.outer = rows / places / t.a.pieces, t.a.in_step = planes ? places : 1, t.a.in_inner = planes ? 1 : 4 * n;
        t.a.in_outer = n * places * t.a.pieces, t.a.out_outer = places * t.a.pieces;
        nn_row(c, "softmax, a sum", planes ? "8x4x16x8400" : "8x8400x4x16", nn_time(c, launch_softmax, &t), 0, 2.0 * rows * n + 4.0 * rows);
    }
    nn_close(c, &in), nn_close(c, &weights), nn_close(c, &out);
}

static void run(struct check *c)
{
    static void (*const each[])(struct check *) = {pool, cubic, interpolate, reduce, softmax, softmax_sum, arg, attention, pointwise, layer_norm, squeeze};
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(each); k++)
        for (int i = 0; i < check_times(c, 80); i++)
            each[k](c);
    if (c->bench)
        bench_reduce(c), bench_interpolate(c), bench_attention(c), bench_softmax_sum(c);
}

const struct check_op check_nn_elements = {.name = "nn_elements", .run = run, .cuda = true};
