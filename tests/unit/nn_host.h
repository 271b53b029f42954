#pragma once
#include "cuda/nn/kernels.h"

#include "ref/ref_preprocess.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The kernels of networks (cuda/nn/kernels.h) as plain loops on the host, for plans of a GPU over the fake driver, whose
// device memory is the host's: what is tested is everything around the kernels. They do at once what a stream would do
// later. Sums are in double, what is stored is rounded once to its type.

static inline double host_load(cuda_address at, enum tachy_dtype t, int64_t i)
{
    const void *p = (const void *)(uintptr_t)at;
    switch (t) {
    case TACHY_F16: return tachy_ref_float(((const uint16_t *)p)[i]);
    case TACHY_BF16: return tachy_ref_bfloat_float(((const uint16_t *)p)[i]);
    case TACHY_U8: return ((const uint8_t *)p)[i];
    case TACHY_I8: return ((const int8_t *)p)[i];
    case TACHY_I32: return (float)((const int32_t *)p)[i];
    case TACHY_I64: return (float)((const int64_t *)p)[i];
    default: return ((const float *)p)[i];
    }
}

static inline double host_whole(double v, double least, double most)
{
    return v != v ? 0 : trunc(fmin(fmax(v, least), most));
}

static inline void host_store(cuda_address at, enum tachy_dtype t, int64_t i, double v)
{
    void *p = (void *)(uintptr_t)at;
    switch (t) {
    case TACHY_F16: ((uint16_t *)p)[i] = tachy_ref_half((float)v); break;
    case TACHY_BF16: ((uint16_t *)p)[i] = tachy_ref_bfloat((float)v); break;
    case TACHY_U8: ((uint8_t *)p)[i] = (uint8_t)host_whole(v, 0, 255); break;
    case TACHY_I8: ((int8_t *)p)[i] = (int8_t)host_whole(v, -128, 127); break;
    case TACHY_I32: ((int32_t *)p)[i] = (int32_t)host_whole(v, INT32_MIN, INT32_MAX); break;
    case TACHY_I64: ((int64_t *)p)[i] = (int64_t)host_whole(v, -0x1p63, 9223371487098961920.0); break;
    default: ((float *)p)[i] = (float)v; break;
    }
}

static inline double host_act(const struct tachy_nn_act *a, double v, int channel)
{
    struct tachy_act act = {a->kind, a->a, a->b, NULL};
    return tachy_ref_act(&act, v, a->slope ? host_load(a->slope, TACHY_F32, channel) : 0);
}

static inline double host_end(const struct tachy_nn_epilogue *e, enum tachy_dtype t, double v, int n, int y, int x, int c)
{
    const struct tachy_nn_tensor *d = &e->add;
    double add = d->data ? host_load(d->data, t, n * d->image + y * d->row + x * d->pixel + c) : 0;
    return e->add_last ? host_act(&e->act, v, c) + add : host_act(&e->act, v + add, c);
}

static inline double host_taps(const struct tachy_nn_conv *a, bool depthwise, int n, int oy, int ox, int o)
{
    const struct tachy_conv_shape *s = &a->shape;
    int cin = s->cin / s->groups, group = o / (s->cout / s->groups);
    const int planes = a->planes > 1 ? a->planes : 1;
    double sum = a->bias ? host_load(a->bias, TACHY_F32, o) : 0;
    for (int k = 0; k < s->kh * s->kw * planes; k++) {
            const int i = k / planes / s->kw, j = k / planes % s->kw, from = planes > 1 ? n + k % planes - a->before : n;
            int y = oy * s->stride_h - s->pad_top + i * s->dil_h, x = ox * s->stride_w - s->pad_left + j * s->dil_w;
            if (y < 0 || x < 0 || y >= s->h || x >= s->w || from < 0 || (planes > 1 && from >= a->in_planes))
                continue;
            int64_t at = from * a->in.image + y * a->in.row + x * a->in.pixel + group * cin, tap = k;
            for (int c = 0; c < cin; c++) {
                int64_t w = depthwise ? tap * s->cout + o : n * a->weights_image + ((int64_t)o * s->kh * s->kw * planes + tap) * cin + c;
                double by = a->scale ? host_load(a->scale, TACHY_F32, n * a->scale_image + group * cin + c) : 1;
                sum += host_load(a->in.data, a->dtype, at + c) * by * host_load(a->weights, a->dtype, w);
            }
        }
    return sum;
}

// For the upper and the lower half of an image.
enum { HOST_PARTS = 2 };
static int host_depthwise_parts(const struct tachy_nn_conv *a) { return HOST_PARTS; }
static inline void host_sum(const struct tachy_nn_conv *a, int h, int n, int y, int o, double v)
{
    float *to = (float *)(uintptr_t)a->sums + ((int64_t)n * HOST_PARTS + (2 * y >= h)) * a->shape.cout + o;
    *to += (float)v;
}

static inline int host_conv_of(const struct tachy_nn_conv *a, bool depthwise)
{
    const struct tachy_conv_shape *s = &a->shape;
    int h = (s->h + s->pad_top + s->pad_bottom - s->dil_h * (s->kh - 1) - 1) / s->stride_h + 1;
    int w = (s->w + s->pad_left + s->pad_right - s->dil_w * (s->kw - 1) - 1) / s->stride_w + 1;
    bool refused = depthwise ? a->scale || s->groups != s->cin || s->cout != s->cin : a->sums != 0;
    if (a->variant || refused)
        return CUDA_INVALID_VALUE;
    if (a->sums)
        memset((void *)(uintptr_t)a->sums, 0, sizeof(float) * HOST_PARTS * (size_t)s->n * (size_t)s->cout);
    for (int n = 0; n < s->n; n++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++)
                for (int o = 0; o < s->cout; o++) {
                    double v = host_end(&a->epilogue, a->dtype, host_taps(a, depthwise, n, y, x, o), n, y, x, o);
                    host_store(a->out.data, a->dtype, n * a->out.image + y * a->out.row + x * a->out.pixel + o, v);
                    if (a->sums)
                        host_sum(a, h, n, y, o, v);
                }
    return 0;
}
static int host_conv(const struct tachy_nn_conv *a, cuda_stream s) { return host_conv_of(a, false); }
static int host_conv_depthwise(const struct tachy_nn_conv *a, cuda_stream s) { return host_conv_of(a, true); }
static int host_stems, host_smalls; // how often it was taken: by a first convolution, by others

static int host_conv_small(const struct tachy_nn_conv *a, cuda_stream s)
{
    const struct tachy_conv_shape *q = &a->shape;
    bool first = a->in.pixel == 4 || a->in.pixel == 8, aligned = a->in.pixel == 4 ? q->stride_w % 2 == 0 : a->in.pixel % 8 == 0 && a->in.data % 16 == 0;
    bool fits = tachy_dtype_size(a->dtype) == 2 && aligned && q->cin <= TACHY_NN_SMALL && q->groups == 1 && q->dil_h == 1 && q->dil_w == 1 &&
                !a->planes && !a->scale && !a->weights_image && !a->sums;
    host_stems += fits && first;
    host_smalls += fits && !first;
    return fits ? host_conv_of(a, false) : CUDA_INVALID_VALUE;
}
static int host_spreads, host_aparts; // how often it was taken, and with taps apart
// Row by row, as the kernel: an output that overwrites an input shows in the result.
static int host_conv_spread(const struct tachy_nn_conv *a)
{
    const struct tachy_conv_shape *s = &a->shape;
    int c = s->cout / 4;
    if (s->stride_h * s->stride_w * s->groups != 1 || s->cout % 256 || a->epilogue.add.data || tachy_dtype_size(a->dtype) != 2)
        return CUDA_INVALID_VALUE;
    for (int i = 0; a->spread_apart && i < s->cout * s->kh * s->kw * s->cin; i++) {
        int x = i / s->cin % s->kw, y = i / s->cin / s->kw % s->kh, side = i / s->cin / s->kw / s->kh / c;
        if ((y == (side < 2 ? s->kh - 1 : 0) || x == (side % 2 ? 0 : s->kw - 1)) && host_load(a->weights, a->dtype, i) != 0)
            return CUDA_INVALID_VALUE;
    }
    host_aparts += a->spread_apart;
    for (int n = 0; n < s->n; n++)
        for (int y = s->h - 1; y >= 0; y--)
            for (int x = s->w - 1; x >= 0; x--)
                for (int o = 0; o < s->cout; o++)
                    host_store(a->spread.data, a->dtype, n * a->spread.image + (2 * y + o / c / 2) * a->spread.row +
                               (2 * x + o / c % 2) * a->spread.pixel + o % c, host_act(&a->epilogue.act, host_taps(a, false, n, y, x, o), o));
    host_spreads++;
    return 0;
}
static int host_own_weights; // convolutions with weights for each image
static int host_padded;      // and with rows of weights that end in zeros, which the loops leave out
static int host_conv_tma(const struct tachy_nn_conv *a, cuda_stream s)
{
    const struct tachy_conv_shape *q = &a->shape;
    if (a->spread.data)
        return host_conv_spread(a);
    bool aligned = (a->in.pixel | a->out.pixel | a->epilogue.add.pixel) % 8 == 0 && (a->in.data | a->out.data | a->epilogue.add.data) % 16 == 0;
    host_own_weights += a->weights_image && !a->variant;
    if (a->weights_image)
        return a->scale ? CUDA_INVALID_VALUE : host_conv_of(a, false);
    if (!aligned || q->cin % 8 == 0 || a->variant || tachy_dtype_size(a->dtype) != 2)
        return CUDA_INVALID_VALUE;
    int64_t rows = (int64_t)q->cout * q->kh * q->kw * (a->planes > 1 ? a->planes : 1), row = (q->cin + 7) / 8 * 8;
    uint16_t *dense = malloc(sizeof(*dense) * (size_t)(rows * q->cin));
    for (int64_t i = 0; i < rows * q->cin; i++)
        dense[i] = ((const uint16_t *)(uintptr_t)a->weights)[i / q->cin * row + i % q->cin];
    struct tachy_nn_conv plain = *a;
    plain.weights = (cuda_address)(uintptr_t)dense;
    int status = host_conv_of(&plain, false);
    free(dense);
    host_padded++;
    return status;
}

// As the kernels, pixel by pixel: an output that overwrites what another pixel reads shows in the result. What is not wanted is not written.
static int host_pairs, host_alone; // how often it was taken, and without the first one's output
static int host_pair(const struct tachy_nn_pair *a, cuda_stream stream)
{
    const struct tachy_nn_conv *f = &a->first, *b = &a->second;
    const struct tachy_conv_shape *s = &f->shape, *t = &b->shape;
    const bool tap = t->kh * t->kw * t->stride_h * t->stride_w * t->groups == 1 && !(t->pad_top | t->pad_left);
    const bool wide = s->kh * s->kw * s->stride_h * s->stride_w == 1 && !(s->pad_top | s->pad_left) && !f->epilogue.add_last;
    const bool few = s->cin <= TACHY_NN_SMALL && s->cout <= TACHY_NN_SMALL_PAIR && t->cout <= TACHY_NN_SMALL_PAIR && s->dil_h * s->dil_w == 1 && !f->planes;
    if (!tap || !(wide || few) || s->groups > 1 || tachy_dtype_size(f->dtype) != 2 || f->scale || b->scale || f->sums || b->sums ||
        b->epilogue.add.data || t->n != s->n || b->in.data != f->out.data || b->in.pixel != f->out.pixel)
        return CUDA_INVALID_VALUE;
    uint16_t *between = calloc((size_t)s->cout, sizeof(*between));
    for (int64_t i = (int64_t)t->n * t->h * t->w - 1; i >= 0; i--) {
        const int n = (int)(i / t->w / t->h), y = (int)(i / t->w % t->h), x = (int)(i % t->w);
        struct tachy_nn_conv second = *b;
        second.in = tachy_nn_dense((cuda_address)(uintptr_t)between, 1, 1, s->cout);
        for (int o = 0; o < s->cout; o++) {
            double v = host_end(&f->epilogue, f->dtype, host_taps(f, false, n, y, x, o), n, y, x, o);
            host_store(second.in.data, f->dtype, o, v);
            if (!a->alone)
                host_store(f->out.data, f->dtype, n * f->out.image + y * f->out.row + x * f->out.pixel + o, v);
        }
        for (int o = 0; o < t->cout; o++)
            host_store(b->out.data, b->dtype, n * b->out.image + y * b->out.row + x * b->out.pixel + o,
                       host_act(&b->epilogue.act, host_taps(&second, false, 0, 0, 0, o), o));
    }
    free(between);
    host_pairs++;
    host_alone += a->alone;
    return 0;
}

// Each layer's values are rounded, as those that are stored.
static int host_mlp(const struct tachy_nn_mlp *a, cuda_stream stream)
{
    double v[2][TACHY_NN_MLP_CHANNELS];
    for (int64_t i = 0; i < (int64_t)a->n * a->h * a->w; i++) {
        const int n = (int)(i / a->w / a->h), y = (int)(i / a->w % a->h), x = (int)(i % a->w);
        int cin = 0;
        for (int p = 0; p < a->nb_parts; p++)
            for (int c = 0; c < a->part[p].channels; c++) {
                const struct tachy_nn_tensor *t = &a->part[p].in;
                v[0][cin++] = host_load(t->data, a->dtype, n * t->image + y * t->row + x * t->pixel + c);
            }
        for (int l = 0; l < a->nb_layers; l++) {
            const struct tachy_nn_mlp_layer *k = &a->layer[l];
            for (int o = 0; o < k->channels; o++) {
                double sum = k->bias ? host_load(k->bias, TACHY_F32, o) : 0;
                for (int c = 0; c < cin; c++)
                    sum += v[l % 2][c] * host_load(k->weights, a->dtype, o * cin + c);
                double *to = &v[1 - l % 2][o];
                *to = host_act(&k->act, sum, o);
                if (l + 1 < a->nb_layers)
                    *to = a->dtype == TACHY_BF16 ? tachy_ref_bfloat_float(tachy_ref_bfloat((float)*to)) : tachy_ref_float(tachy_ref_half((float)*to));
            }
            cin = k->channels;
        }
        for (int o = 0; o < cin; o++)
            host_store(a->out.data, a->out_dtype, n * a->out.image + y * a->out.row + x * a->out.pixel + o * a->out_channel,
                       v[a->nb_layers % 2][o]);
    }
    return 0;
}

static inline double host_binary(int how, double a, double b)
{
    switch ((enum tachy_binary_kind)how) {
    case TACHY_BINARY_ADD: return a + b;
    case TACHY_BINARY_SUB: return a - b;
    case TACHY_BINARY_MUL: return a * b;
    case TACHY_BINARY_DIV: return a / b;
    case TACHY_BINARY_MIN: return a < b || a != a ? a : b;
    case TACHY_BINARY_MAX: return a > b || a != a ? a : b;
    default: return pow(a, b);
    }
}

static inline double host_compare(int how, double a, double b)
{
    double r;
    switch ((enum tachy_nn_compare)how) {
    case TACHY_NN_EQUAL: return a >= b && a <= b;
    case TACHY_NN_LESS: return a < b;
    case TACHY_NN_LESS_EQUAL: return a <= b;
    case TACHY_NN_GREATER: return a > b;
    case TACHY_NN_GREATER_EQUAL: return a >= b;
    case TACHY_NN_AND: return (fabs(a) > 0) && (fabs(b) > 0);
    case TACHY_NN_OR: return (fabs(a) > 0) || (fabs(b) > 0);
    case TACHY_NN_XOR: return (fabs(a) > 0) != (fabs(b) > 0);
    case TACHY_NN_FMOD: return fmod(a, b);
    default: r = fmod(a, b); return fabs(r) > 0 && (r < 0) != (b < 0) ? r + b : r;
    }
}

static inline double host_unary(const struct tachy_nn_step *s, double x)
{
    const double a = (double)s->a, b = (double)s->b;
    switch ((enum tachy_nn_unary)s->what) {
    case TACHY_NN_NEG: return -x;
    case TACHY_NN_LOG: return log(x);
    case TACHY_NN_SIN: return sin(x);
    case TACHY_NN_COS: return cos(x);
    case TACHY_NN_TAN: return tan(x);
    case TACHY_NN_ASIN: return asin(x);
    case TACHY_NN_ACOS: return acos(x);
    case TACHY_NN_ATAN: return atan(x);
    case TACHY_NN_SINH: return sinh(x);
    case TACHY_NN_COSH: return cosh(x);
    case TACHY_NN_ASINH: return asinh(x);
    case TACHY_NN_ACOSH: return acosh(x);
    case TACHY_NN_ATANH: return atanh(x);
    case TACHY_NN_FLOOR: return floor(x);
    case TACHY_NN_CEIL: return ceil(x);
    case TACHY_NN_ROUND: return rint(x);
    case TACHY_NN_RECIPROCAL: return 1 / x;
    case TACHY_NN_SOFTSIGN: return x / (1 + fabs(x));
    case TACHY_NN_THRESHOLD: return x > a ? x : 0;
    case TACHY_NN_SHRINK: return x < -a ? x + b : x > a ? x - b : 0;
    case TACHY_NN_IS_NAN: return x != x;
    case TACHY_NN_IS_INF: return isinf(x) && (x < 0 ? a > 0 : b > 0);
    case TACHY_NN_QUANTIZE: return fmin(fmax(rint(x) + a, b), b + 255);
    case TACHY_NN_SIGN: return x > 0 ? 1 : x < 0 ? -1 : x;
    case TACHY_NN_TRUNC: return x != x ? a : fmin(fmax(trunc(x), a), b);
    case TACHY_NN_TRUTH: return !(x >= 0 && x <= 0);
    case TACHY_NN_NOT: return x >= 0 && x <= 0;
    default: return NAN;
    }
}

static inline double host_chain(const struct tachy_nn_pointwise *p, const double *in)
{
    double v = in[0];
    for (int i = 0; i < p->nb_steps; i++) {
        const struct tachy_nn_step *s = &p->steps[i];
        struct tachy_nn_act act = {(enum tachy_act_kind)s->what, s->a, s->b, 0};
        switch ((enum tachy_nn_step_kind)s->kind) {
        case TACHY_NN_BINARY: v = host_binary(s->what, v, in[s->operand]); break;
        case TACHY_NN_ACT: v = host_act(&act, v, 0); break;
        case TACHY_NN_UNARY: v = host_unary(s, v); break;
        case TACHY_NN_COMPARE: v = host_compare(s->what, v, in[s->operand]); break;
        case TACHY_NN_PRELU: v = v < 0 ? in[s->operand] * v : v; break;
        case TACHY_NN_SELECT: v = fabs(v) > 0 || v != v ? in[s->operand] : in[s->operand + 1]; break;
        default: v = NAN; break;
        }
        v = (double)(float)v;
    }
    return v;
}

// Offset of element `i` of `shape` in an operand.
static inline int64_t host_at(const int64_t *shape, const struct tachy_nn_operand *o, int64_t i)
{
    int64_t at = 0;
    for (int d = TACHY_NN_RANK - 1; d >= 0; i /= shape[d], d--)
        at += i % shape[d] * o->stride[d];
    return at;
}

static inline int64_t host_count(const int64_t *shape)
{
    int64_t n = 1;
    for (int d = 0; d < TACHY_NN_RANK; d++)
        n *= shape[d];
    return n;
}

static int host_pointwise(const struct tachy_nn_pointwise *p, cuda_stream stream)
{
    for (int64_t i = 0; i < host_count(p->shape); i++) {
        double in[TACHY_NN_OPERANDS];
        int64_t to = host_at(p->shape, &p->out, i);
        for (int k = 0; k < p->nb_in; k++)
            in[k] = host_load(p->in[k].data, p->in[k].dtype, host_at(p->shape, &p->in[k], i));
        if (!p->nb_steps && p->in[0].dtype == p->out.dtype) {
            size_t size = tachy_dtype_size(p->out.dtype);
            int64_t from = host_at(p->shape, &p->in[0], i);
            memcpy((char *)(uintptr_t)p->out.data + to * (int64_t)size, (char *)(uintptr_t)p->in[0].data + from * (int64_t)size, size);
        } else {
            host_store(p->out.data, p->out.dtype, to, host_chain(p, in));
        }
    }
    return 0;
}

static int host_fill(const struct tachy_nn_fill *f, cuda_stream stream)
{
    for (int64_t i = 0; i < host_count(f->shape); i++)
        host_store(f->out.data, f->out.dtype, host_at(f->shape, &f->out, i), (double)f->value);
    return 0;
}

static inline double host_window(const struct tachy_nn_pool *a, int n, int oy, int ox, int c)
{
    const struct tachy_pool_shape *s = &a->shape;
    double v = s->average ? 0 : -INFINITY;
    int count = 0;
    for (int i = 0; i < s->kh; i++)
        for (int j = 0; j < s->kw; j++) {
            int y = oy * s->stride_h - s->pad_top + i, x = ox * s->stride_w - s->pad_left + j;
            bool inside = y >= 0 && x >= 0 && y < s->h && x < s->w;
            bool padded = s->count_pad && y < s->h + s->pad_bottom && x < s->w + s->pad_right;
            double in = inside ? host_load(a->in.data, a->dtype, n * a->in.image + y * a->in.row + x * a->in.pixel + c) : 0;
            count += inside || padded;
            if (inside)
                v = s->average ? v + in : in > v || in != in ? in : v;
        }
    return s->average ? v / count : v;
}

static int host_pool(const struct tachy_nn_pool *a, cuda_stream stream)
{
    const struct tachy_pool_shape *s = &a->shape;
    for (int n = 0; n < s->n; n++)
        for (int y = 0; y < s->out_h; y++)
            for (int x = 0; x < s->out_w; x++)
                for (int c = 0; c < s->c; c++)
                    host_store(a->out.data, a->dtype, n * a->out.image + y * a->out.row + x * a->out.pixel + c,
                               host_window(a, n, y, x, c));
    return 0;
}

static inline double host_sample(const struct tachy_nn_interpolate *a, int n, int oy, int ox, int c)
{
    const struct tachy_resize_shape *s = &a->shape;
    const struct tachy_nn_tensor *t = &a->in;
    int64_t at = n * t->image + c;
    if (s->kind == TACHY_RESIZE_NEAREST)
        return host_load(t->data, a->dtype, at + tachy_resize_nearest(s, true, oy) * t->row +
                                                tachy_resize_nearest(s, false, ox) * t->pixel);
    double y = tachy_resize_source(s, true, oy), x = tachy_resize_source(s, false, ox);
    int y0 = (int)y, x0 = (int)x, y1 = y0 + 1 < s->h ? y0 + 1 : y0, x1 = x0 + 1 < s->w ? x0 + 1 : x0;
    double fy = y - y0, fx = x - x0;
#define TAKE(y, x) host_load(t->data, a->dtype, at + (y) * t->row + (x) * t->pixel)
    return (1 - fy) * ((1 - fx) * TAKE(y0, x0) + fx * TAKE(y0, x1)) + fy * ((1 - fx) * TAKE(y1, x0) + fx * TAKE(y1, x1));
}

static int host_interpolate(const struct tachy_nn_interpolate *a, cuda_stream stream)
{
    const struct tachy_resize_shape *s = &a->shape;
    const struct tachy_nn_tensor *d = &a->epilogue.add;
    for (int n = 0; n < s->n; n++)
        for (int y = 0; y < s->out_h; y++)
            for (int x = 0; x < s->out_w; x++)
                for (int c = 0; c < s->c; c++) {
                    double v = host_sample(a, n, y, x, c);
                    double add = d->data ? host_load(d->data, a->dtype, n * d->image + y * d->row + x * d->pixel + c) : 0;
                    if (a->add_scale)
                        add *= host_load(a->add_scale, TACHY_F32, n * a->scale_image + c);
                    v = a->epilogue.add_last ? host_act(&a->epilogue.act, v, c) + add : host_act(&a->epilogue.act, v + add, c);
                    host_store(a->out.data, a->out_dtype,
                               n * a->out.image + y * a->out.row + x * a->out.pixel + c * a->out_channel, v);
                }
    return 0;
}

static inline double host_reduced(const struct tachy_nn_reduce *a, int64_t at)
{
    enum tachy_nn_reduce_kind k = a->kind;
    double v = k == TACHY_NN_MAX ? -INFINITY : k == TACHY_NN_MIN ? INFINITY : k == TACHY_NN_PROD ? 1 : 0;
    for (int64_t i = 0; i < a->n; i++) {
        double x = host_load(a->in, a->dtype, at + i * a->in_step);
        v = k == TACHY_NN_MAX ? (x > v || x != x ? x : v) : k == TACHY_NN_MIN ? (x < v || x != x ? x : v) :
            k == TACHY_NN_PROD ? v * x : k == TACHY_NN_L1 ? v + fabs(x) :
            k == TACHY_NN_L2 || k == TACHY_NN_SUM_SQUARE ? v + x * x : k == TACHY_NN_LOG_SUM_EXP ? v + exp(x) : v + x;
    }
    return k == TACHY_NN_MEAN ? v / (double)a->n : k == TACHY_NN_L2 ? sqrt(v) :
           k == TACHY_NN_LOG_SUM || k == TACHY_NN_LOG_SUM_EXP ? log(v) : v;
}

static int host_reduce(const struct tachy_nn_reduce *a, cuda_stream stream)
{
    for (int64_t o = 0; o < a->outer; o++)
        for (int64_t i = 0; i < a->inner; i++)
            host_store(a->out, a->out_dtype, o * a->out_outer + i * a->out_inner,
                       host_reduced(a, o * a->in_outer + i * a->in_inner));
    return 0;
}

static int host_arg(const struct tachy_nn_arg *a, cuda_stream stream)
{
    for (int64_t o = 0; o < a->outer; o++)
        for (int64_t i = 0; i < a->inner; i++) {
            int64_t best = 0, from = o * a->in_outer + i * a->in_inner;
            for (int64_t k = 1; k < a->n; k++) {
                double x = host_load(a->in, a->dtype, from + k * a->in_step), y = host_load(a->in, a->dtype, from + best * a->in_step);
                bool better = a->min ? x < y : x > y;
                best = better || (a->last && x >= y && x <= y) ? k : best;
            }
            host_store(a->out, a->out_dtype, o * a->out_outer + i * a->out_inner, (double)best);
        }
    return 0;
}

static int host_softmax_sum(const struct tachy_nn_softmax *a)
{
    float *row = malloc(sizeof(*row) * (size_t)a->n), sum = 0;
    for (int64_t i = 0; i < a->outer * a->inner * a->pieces; i++) {
        const int64_t piece = i % a->pieces, inner = i / a->pieces % a->inner, outer = i / a->pieces / a->inner;
        for (int64_t k = 0; k < a->n; k++)
            row[k] = (float)host_load(a->in, a->dtype, outer * a->in_outer + inner * a->in_inner + piece * a->in_piece + k * a->in_step);
        const struct tachy_view in = tachy_view_dense(row, 1, 1, 1, (int)a->n), out = tachy_view_dense(&sum, 1, 1, 1, 1);
        tachy_ref_softmax_sum(&in, (const float *)(uintptr_t)a->weights, (int)a->n, &out);
        host_store(a->out, a->out_dtype, outer * a->out_outer + inner * a->out_inner + piece * a->out_piece, (double)sum);
    }
    free(row);
    return 0;
}

static int host_softmax(const struct tachy_nn_softmax *a, cuda_stream stream)
{
    if (a->weights)
        return host_softmax_sum(a);
    for (int64_t o = 0; o < a->outer; o++)
        for (int64_t i = 0; i < a->inner; i++) {
            int64_t from = o * a->in_outer + i * a->in_inner, to = o * a->out_outer + i * a->out_inner;
            double top = -INFINITY, sum = 0;
            for (int64_t k = 0; k < a->n; k++)
                top = fmax(top, host_load(a->in, a->dtype, from + k * a->in_step));
            for (int64_t k = 0; k < a->n; k++)
                sum += exp(host_load(a->in, a->dtype, from + k * a->in_step) - top);
            for (int64_t k = 0; k < a->n; k++) {
                double x = host_load(a->in, a->dtype, from + k * a->in_step) - top;
                host_store(a->out, a->out_dtype, to + k * a->out_step, a->log ? x - log(sum) : exp(x) / sum);
            }
        }
    return 0;
}

static int host_attention(const struct tachy_nn_attention *a, cuda_stream stream)
{
    const struct tachy_nn_matrices *m[] = {&a->q, &a->k, &a->v, &a->out};
    const int rows[] = {a->queries, a->keys, a->keys, a->queries}, columns[] = {a->depth, a->depth, a->width, a->width};
    struct tachy_view v[4];
    for (int i = 0; i < 4; i++)
        v[i] = tachy_view_dense(malloc(sizeof(float) * (size_t)(a->outer * a->inner * rows[i] * columns[i])), a->outer, a->inner, rows[i], columns[i]);
    for (int i = 0; i < 4; i++) {
        if (i == 3)
            tachy_ref_attention(&v[0], &v[1], &v[2], &v[3], a->scale);
        for (int k = 0; k < a->outer * a->inner * rows[i] * columns[i]; k++) {
            int column = k % columns[i], row = k / columns[i] % rows[i], matrix = k / columns[i] / rows[i];
            int64_t at = matrix / a->inner * m[i]->outer + matrix % a->inner * m[i]->inner + row * m[i]->row + column * m[i]->column;
            if (i < 3)
                v[i].data[k] = (float)host_load(m[i]->data, a->dtype, at);
            else
                host_store(m[i]->data, a->dtype, at, (double)v[i].data[k]);
        }
    }
    for (int i = 0; i < 4; i++)
        free(v[i].data);
    return 0;
}

static int host_layer_norm(const struct tachy_nn_layer_norm *a, cuda_stream stream)
{
    double *x = malloc(sizeof(*x) * (size_t)a->n);
    for (int64_t r = 0; x && r < a->rows; r++) {
        double mean = 0, var = 0;
        for (int i = 0; i < a->n; i++) {
            x[i] = host_load(a->in, a->dtype, r * a->in_row + i);
            x[i] += a->add ? host_load(a->add, a->dtype, r % a->add_rows * a->add_row + i) : 0;
            mean += x[i] / a->n;
        }
        for (int i = 0; i < a->n; i++)
            var += pow(x[i] - mean, 2) / a->n;
        for (int i = 0; i < a->n; i++) {
            double v = (x[i] - mean) / sqrt(var + (double)a->epsilon), shift = a->shift ? host_load(a->shift, TACHY_F32, i) : 0;
            host_store(a->out, a->dtype, r * a->out_row + i, host_act(&a->act, v * (a->scale ? host_load(a->scale, TACHY_F32, i) : 1) + shift, i));
        }
    }
    free(x);
    return 0;
}

static inline double host_mean(const struct tachy_nn_means *of, int n, int c)
{
    double sum = 0;
    for (int p = 0; p < of->n; p++)
        sum += host_load(of->data, of->dtype, n * of->image + p * of->step + c);
    return sum * (double)of->share;
}
// Row `row` of one of its layers, over `v`.
static inline double host_row(const struct tachy_nn_squeeze *a, cuda_address w, cuda_address bias, int row, const double *v, int n)
{
    double sum = bias ? host_load(bias, TACHY_F32, row) : 0;
    for (int i = 0; i < n; i++)
        sum += v[i] * host_load(w, a->dtype, (int64_t)row * n + i);
    return sum;
}
static int host_squeezes; // how often it had two pictures
static int host_squeeze(const struct tachy_nn_squeeze *a, cuda_stream stream)
{
    static double v[4096], second[4096], unit[4096];
    host_squeezes += a->of[1].data != 0;
    for (int n = 0; n < a->n; n++) {
        for (int c = 0; c < a->of[1].c; c++)
            second[c] = host_mean(&a->of[1], n, c);
        for (int c = 0; c < a->of[0].c; c++)
            v[c] = host_mean(&a->of[0], n, c) + (a->w0 ? host_row(a, a->w0, a->bias0, c, second, a->of[1].c) : a->of[1].data ? second[c] : 0);
        for (int h = 0; h < a->hidden; h++)
            unit[h] = a->w1 ? host_act(&a->act1, host_row(a, a->w1, a->bias1, h, v, a->of[0].c), h) : v[h];
        for (int c = 0; c < a->c; c++) {
            double scale = host_act(&a->act2, host_row(a, a->w2, a->bias2, c, unit, a->hidden), c);
            host_store(a->scale, TACHY_F32, (int64_t)n * a->c + c, scale);
            for (int64_t r = 0; r < a->rows; r++)
                host_store(a->scaled, a->dtype, (n * a->rows + r) * a->c + c, host_load(a->weights, a->dtype, r * a->c + c) * scale);
        }
    }
    return 0;
}

// The position that index `i` of a gather or scatter addresses.
static inline int64_t host_number(int64_t k, int64_t size)
{
    k += k < 0 ? size : 0;
    return k < 0 ? 0 : k < size ? k : size - 1;
}

static inline int64_t host_place(const struct tachy_nn_index *a, int64_t i)
{
    int64_t place = host_at(a->shape, &a->table, i), from = host_at(a->shape, &a->index, i);
    for (int d = 0; d < a->deep; d++)
        place += host_number((int64_t)host_load(a->index.data, a->index.dtype, from + d * a->next), a->size[d]) * a->step[d];
    if (a->also.data)
        place += host_number((int64_t)host_load(a->also.data, a->also.dtype, host_at(a->shape, &a->also, i)), a->also_size) * a->also_step;
    return place;
}

static int host_gather(const struct tachy_nn_index *a, cuda_stream stream)
{
    for (int64_t i = 0; i < host_count(a->shape); i++)
        host_store(a->list.data, a->list.dtype, host_at(a->shape, &a->list, i),
                   host_load(a->table.data, a->table.dtype, host_place(a, i)));
    return 0;
}

static int host_scatter(const struct tachy_nn_index *a, cuda_stream stream)
{
    for (int64_t i = 0; i < host_count(a->shape); i++) {
        int64_t to = host_place(a, i);
        double y = host_load(a->table.data, a->table.dtype, to);
        double v = host_load(a->list.data, a->list.dtype, host_at(a->shape, &a->list, i));
        switch (a->how) {
        case TACHY_NN_SCATTER_SET: break;
        case TACHY_NN_SCATTER_ADD: v = y + v; break;
        case TACHY_NN_SCATTER_MUL: v = y * v; break;
        case TACHY_NN_SCATTER_MAX: v = y != y || y > v ? y : v; break;
        case TACHY_NN_SCATTER_MIN: v = y != y || y < v ? y : v; break;
        }
        host_store(a->table.data, a->table.dtype, to, v);
    }
    return 0;
}

static int host_top(const struct tachy_nn_top *a, cuda_stream stream)
{
    for (int64_t line = 0; line < a->outer * a->inner; line++) {
        int64_t in = line / a->inner * a->in_outer + line % a->inner * a->in_inner;
        int64_t out = line / a->inner * a->out_outer + line % a->inner * a->out_inner;
        for (int64_t i = 0; i < a->n; i++) {
            double v = (a->min ? -1 : 1) * host_load(a->in, a->dtype, in + i * a->in_step);
            int64_t before = 0;
            for (int64_t j = 0; j < a->n; j++) {
                double u = (a->min ? -1 : 1) * host_load(a->in, a->dtype, in + j * a->in_step);
                before += v != v ? u >= u || j < i : u > v || (u >= v && j < i);
            }
            if (before < a->k)
                host_store(a->out, TACHY_I64, out + before * a->out_step, (double)i);
        }
    }
    return 0;
}

static int host_transpose(const struct tachy_nn_transpose *a, cuda_stream stream)
{
    for (int b = 0; b < a->batch; b++)
        for (int r = 0; r < (a->padded_rows > a->rows ? a->padded_rows : a->rows); r++)
            for (int c = 0; c < a->columns; c++)
                host_store(a->out, a->out_dtype, b * a->out_batch + c * a->out_row + r,
                           r < a->rows ? host_load(a->in, a->in_dtype, b * a->in_batch + r * a->in_row + c * (a->in_column ? a->in_column : 1)) : 0);
    return 0;
}

static int host_grid_sample(const struct tachy_cuda_grid_sample *a, cuda_stream stream)
{
    int64_t positions = (int64_t)a->out[0] * a->out[1] * (a->dims == 3 ? a->out[2] : 1);
    for (int64_t i = 0; i < positions * a->count; i++) {
        struct tachy_grid_taps t[3] = {{.n = 1, .weight = {1}}, {.n = 1, .weight = {1}}, {.n = 1, .weight = {1}}};
        int64_t at = i % positions, k = i / positions, to = k * a->next_dst;
        for (int d = 0; d < a->dims; d++) {
            const struct tachy_grid_axis axis = {a->mode, a->outside, a->align, a->size[d]};
            tachy_ref_grid_axis(&axis, (float)host_load(a->grid, TACHY_F32, k * a->next_grid + at * a->dims + d), &t[d]);
        }
        for (int64_t d = 0, rest = at; d < a->dims; rest /= a->out[d], d++)
            to += rest % a->out[d] * a->step_dst[d];
        for (int c = 0; c < a->channels; c++) {
            double sum = 0;
            for (int j = 0; j < t[0].n * t[1].n * t[2].n; j++) {
                const int p[3] = {j % t[0].n, j / t[0].n % t[1].n, j / t[0].n / t[1].n};
                double w = 1;
                int64_t from = k * a->next_src + c * a->chan_src;
                for (int d = 0; d < a->dims; d++) {
                    w *= t[d].index[p[d]] < 0 ? 0 : (double)t[d].weight[p[d]];
                    from += t[d].index[p[d]] * a->step_src[d];
                }
                if (w < 0 || w > 0)
                    sum += w * host_load(a->src, a->dtype, from);
            }
            host_store(a->dst, a->dtype, to + c * a->chan_dst, sum);
        }
    }
    return 0;
}

static int host_cubic(const struct tachy_nn_cubic *a, cuda_stream stream)
{
    for (int64_t i = 0; i < (int64_t)a->n * a->out_h * a->out_w * a->c; i++) {
        int64_t c = i % a->c, x = i / a->c % a->out_w, y = i / a->c / a->out_w % a->out_h, n = i / a->c / a->out_w / a->out_h;
        double sum = 0;
        for (int k = 0; k < 16; k++) {
            int64_t row = (int64_t)host_load(a->rows, TACHY_F32, 8 * y + 4 + k / 4);
            int64_t pixel = (int64_t)host_load(a->columns, TACHY_F32, 8 * x + 4 + k % 4);
            sum += host_load(a->rows, TACHY_F32, 8 * y + k / 4) * host_load(a->columns, TACHY_F32, 8 * x + k % 4) *
                   host_load(a->in.data, a->dtype, n * a->in.image + row * a->in.row + pixel * a->in.pixel + c);
        }
        host_store(a->out.data, a->out_dtype, n * a->out.image + y * a->out.row + x * a->out.pixel + c, host_act(&a->act, sum, (int)c));
    }
    return 0;
}

static int host_product(const struct tachy_nn_gemm_shape *s, const struct tachy_nn_gemm_io *io, cuda_stream stream)
{
    if (s->bias || s->add || s->act)
        return CUDA_INVALID_VALUE;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t i = 0; i < s->m; i++)
            for (int64_t j = 0; j < s->n; j++) {
                double sum = 0;
                for (int64_t k = 0; k < s->k; k++)
                    sum += host_load(io->x, s->dtype, b * s->x_next + (s->x_by_columns ? k * s->x_row + i : i * s->x_row + k)) *
                           host_load(io->w, s->dtype, b * s->w_next + (s->w_by_rows ? k * s->w_row + j : j * s->w_row + k));
                host_store(io->y, s->dtype, b * s->y_next + i * s->y_row + j, sum * (s->alpha != 0 ? (double)s->alpha : 1));
            }
    return 0;
}

// Levels by the twin's own end; sums and places are loops of their own.
static int host_convs_int8; // how often it was taken
static int host_conv_int8(const struct tachy_nn_conv_int8 *a, cuda_stream stream)
{
    const struct tachy_conv_shape *s = &a->shape;
    int h = tachy_conv_out_h(s), w = tachy_conv_out_w(s), cin = s->cin / s->groups, cout = s->cout / s->groups;
    bool depthwise = tachy_nn_int8_depthwise(s);
    int64_t line = tachy_nn_int8_row(cin * s->kh * s->kw);
    if (a->variant > TACHY_NN_INT8_TILES || (a->variant && s->groups > 1))
        return CUDA_INVALID_VALUE;
    host_convs_int8++;
    for (int64_t i = 0; i < (int64_t)s->n * h * w * s->cout; i++) {
        int o = (int)(i % s->cout), x = (int)(i / s->cout % w), y = (int)(i / s->cout / w % h), n = (int)(i / s->cout / w / h);
        int32_t sum = ((const int32_t *)(uintptr_t)a->bias)[o];
        for (int t = 0; t < cin * s->kh * s->kw; t++) {
            int c = t % cin, tap = t / cin, iy = y * s->stride_h - s->pad_top + tap / s->kw * s->dil_h,
                ix = x * s->stride_w - s->pad_left + tap % s->kw * s->dil_w;
            bool inside = iy >= 0 && ix >= 0 && iy < s->h && ix < s->w;
            int64_t at = n * a->in.image + iy * a->in.row + ix * a->in.pixel + o / cout * cin + c;
            double q = inside ? host_load(a->in.data, a->in_dtype, at) : a->in_zero;
            sum += ((int32_t)q - tachy_nn_int8_less(a->in_dtype)) * (int32_t)host_load(a->weights, TACHY_I8, depthwise ? (int64_t)tap * s->cout + o : o * line + t);
        }
        int64_t more = n * a->add.image + y * a->add.row + x * a->add.pixel + o;
        float v = (float)sum * ((const float *)(uintptr_t)a->multiplier)[o];
        v = tachy_ref_int8_end(&a->end, v, a->end.adds ? (float)host_load(a->add.data, a->add_dtype, more) : 0);
        host_store(a->out.data, a->out_dtype, n * a->out.image + y * a->out.row + x * a->out.pixel + o, (double)v);
    }
    return 0;
}

static int host_int8(const struct tachy_nn_int8 *a, cuda_stream stream)
{
    struct tachy_int8_end e = a->end;
    for (int64_t i = 0; i < (int64_t)a->n * a->h * a->w * a->c; i++) {
        int c = (int)(i % a->c), x = (int)(i / a->c % a->w), y = (int)(i / a->c / a->w % a->h), n = (int)(i / a->c / a->w / a->h);
        const struct tachy_nn_tensor *of[] = {&a->a, &a->b, &a->out};
        int64_t at[3];
        for (int k = 0; k < 3; k++)
            at[k] = n * of[k]->image + y * of[k]->row + x * of[k]->pixel + c;
        float u = (float)host_load(a->a.data, a->a_dtype, at[0]);
        if (a->table) {
            host_store(a->out.data, a->out_dtype, at[2], host_load(a->table, a->out_dtype, (int)u & 255));
            continue;
        }
        float one[3] = {u, (float)host_load(a->b.data, a->b_dtype, at[1])};
        struct tachy_view v[3];
        for (int k = 0; k < 3; k++)
            v[k] = tachy_view_dense(&one[k], 1, 1, 1, 1);
        tachy_ref_binary_int8(&e, a->times, &v[0], &v[1], &v[2], 0, 1);
        host_store(a->out.data, a->out_dtype, at[2], (double)one[2]);
    }
    return 0;
}

static const struct tachy_nn_kernels host_kernels = {
    .arg = host_arg, .attention = host_attention, .conv = host_conv, .conv_depthwise = host_conv_depthwise, .conv_int8 = host_conv_int8, .conv_small = host_conv_small, .conv_tma = host_conv_tma, .cubic = host_cubic, .fill = host_fill,
    .gather = host_gather, .grid_sample = host_grid_sample, .int8 = host_int8, .interpolate = host_interpolate, .layer_norm = host_layer_norm, .mlp = host_mlp, .pair = host_pair, .pointwise = host_pointwise, .pool = host_pool,
    .reduce = host_reduce, .softmax = host_softmax, .scatter = host_scatter, .squeeze = host_squeeze,
    .top = host_top, .transpose = host_transpose,
    .depthwise_parts = host_depthwise_parts, .product = host_product,
};
