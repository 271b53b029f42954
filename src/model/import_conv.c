#include "model/import.h"

#include "base/base.h"

// Convolutions, their transposes and the fully connected layer.

enum { SAME = 0, VALID = 1 }; // Padding of the schema

struct window {
    int stride[2], dilation[2], padding; // [0] vertical, [1] horizontal
    int64_t kernel[2], in[2];
    int64_t out[2], before[2], after[2];
};

// SAME: as many outputs as strides fit; the padding is split evenly, with the odd one at the end (TensorFlow's rule).
static bool place(struct window *w)
{
    for (int i = 0; i < 2; i++) {
        int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1, stride = w->stride[i];
        if (w->stride[i] < 1 || w->dilation[i] < 1 || w->kernel[i] < 1 || w->in[i] < 1)
            return false;
        w->before[i] = w->after[i] = 0;
        if (w->padding == SAME) {
            w->out[i] = (w->in[i] + stride - 1) / stride;
            int64_t pad = TACHY_MAX((w->out[i] - 1) * stride + reach - w->in[i], 0);
            w->before[i] = pad / 2;
            w->after[i] = pad - pad / 2;
        } else if (w->padding == VALID) {
            w->out[i] = (w->in[i] - reach) / stride + 1;
            if (w->in[i] < reach)
                return false;
        } else {
            return false;
        }
    }
    return true;
}

static void set_window(struct onnx_node *n, const struct window *w)
{
    onnx_set_ints(n, "kernel_shape", 2, w->kernel);
    onnx_set_ints(n, "strides", 2, (int64_t[]){w->stride[0], w->stride[1]});
    onnx_set_ints(n, "pads", 4, (int64_t[]){w->before[0], w->before[1], w->after[0], w->after[1]});
    if (w->dilation[0] != 1 || w->dilation[1] != 1)
        onnx_set_ints(n, "dilations", 2, (int64_t[]){w->dilation[0], w->dilation[1]});
}

// Shapes and types that every convolution needs of its picture, its kernel and its result.
static bool conv_inputs(const struct import *im, int x, int w)
{
    const struct tflite_tensor *a = import_tensor(im, x), *b = import_tensor(im, w);
    const struct tflite_tensor *o = import_result(im, 0);
    return a && b && o && a->rank == 4 && b->rank == 4 && o->rank == 4 && a->elements &&
           b->elements && import_dtype(a) == ONNX_FLOAT && import_dtype(b) == ONNX_FLOAT;
}

// The bias as a vector of `n`; *out 0 if there is none.
static bool conv_bias(struct import *im, int i, int64_t n, int *out)
{
    const struct tflite_tensor *t = import_tensor(im, i);
    *out = 0;
    if (!t)
        return true;
    if (t->elements != n || import_dtype(t) != ONNX_FLOAT)
        return false;
    *out = onnx_reshape(im->g, import_get(im, i, IMPORT_NATIVE), &(struct onnx_shape){1, {n}});
    return true;
}

static int add_conv(struct import *im, const char *op, const int in[3], const struct onnx_shape *s)
{
    return onnx_add(im->g, op, in[2] ? 3 : 2, in, ONNX_FLOAT, s);
}

// A Pad of zeros around height and width in front of a convolution becomes part of it.
static int take_pad(struct import *im, int x, struct window *w)
{
    struct onnx_node *pad = onnx_maker(im->g, x);
    if (!pad->op || strcmp(pad->op, "Pad") || pad->n_in != 2)
        return x;
    const int64_t *p = im->g->values[pad->in[1]].data;
    for (int i = 0; i < 8; i++)
        if (p[i] < 0 || (i % 4 < 2 && p[i]))
            return x;
    for (int i = 0; i < 2; i++) {
        w->before[i] += p[2 + i];
        w->after[i] += p[6 + i];
    }
    return pad->in[0];
}

static int finish_conv(struct import *im, int weights, int64_t groups, int64_t outputs,
                       struct window *w, int act)
{
    const struct tflite_tensor *x = import_tensor(im, 0);
    w->in[0] = x->shape[1];
    w->in[1] = x->shape[2];
    if (!place(w))
        return import_damaged(im, "its kernel does not fit its input");
    int in[3] = {import_get(im, 0, IMPORT_PLANAR), weights, 0};
    if (!conv_bias(im, 2, outputs, &in[2]))
        return import_damaged(im, "its bias does not fit its kernel");
    if (in[0])
        in[0] = take_pad(im, in[0], w);
    struct onnx_shape s = {4, {x->shape[0], outputs, w->out[0], w->out[1]}};
    int y = add_conv(im, "Conv", in, &s);
    set_window(onnx_maker(im->g, y), w);
    if (groups > 1)
        onnx_set_int(onnx_maker(im->g, y), "group", groups);
    return import_set_act(im, 0, IMPORT_PLANAR, y, act);
}

int import_conv_2d(struct import *im)
{
    const struct tflite_op *op = im->op;
    const struct tflite_tensor *x = import_tensor(im, 0), *k = import_tensor(im, 1);
    if (!conv_inputs(im, 0, 1))
        return import_damaged(im, "its inputs are not those of a convolution");
    int64_t channels = x->shape[3], each = k->shape[3];
    if (channels % each || k->shape[0] % (channels / each))
        return import_damaged(im, "its kernel has another number of channels than its input");
    struct window w = {
        .padding = tflite_opt_i8(op, 0, SAME),
        .stride = {tflite_opt_i32(op, 2, 0), tflite_opt_i32(op, 1, 0)},
        .dilation = {tflite_opt_i32(op, 5, 1), tflite_opt_i32(op, 4, 1)},
        .kernel = {k->shape[1], k->shape[2]},
    };
    // O kh kw I -> O I kh kw: the same exchange as N H W C -> N C H W.
    int weights = import_get(im, 1, IMPORT_PLANAR);
    return finish_conv(im, weights, channels / each, k->shape[0], &w, tflite_opt_i8(op, 3, 0));
}

int import_depthwise(struct import *im)
{
    const struct tflite_op *op = im->op;
    const struct tflite_tensor *x = import_tensor(im, 0), *k = import_tensor(im, 1);
    if (!conv_inputs(im, 0, 1))
        return import_damaged(im, "its inputs are not those of a convolution");
    int64_t outputs = k->shape[3];
    if (k->shape[0] != 1 || outputs % x->shape[3])
        return import_damaged(im, "its kernel has another number of channels than its input");
    struct window w = {
        .padding = tflite_opt_i8(op, 0, SAME),
        .stride = {tflite_opt_i32(op, 2, 0), tflite_opt_i32(op, 1, 0)},
        .dilation = {tflite_opt_i32(op, 6, 1), tflite_opt_i32(op, 5, 1)},
        .kernel = {k->shape[1], k->shape[2]},
    };
    // 1 kh kw O -> O 1 kh kw
    int weights = import_get(im, 1, IMPORT_NATIVE);
    if (weights)
        weights = onnx_transpose(im->g, weights, (int[]){3, 0, 1, 2});
    return finish_conv(im, weights, x->shape[3], outputs, &w, tflite_opt_i8(op, 4, 0));
}

// A transposed convolution is the gradient of the convolution from its output to its input,
// which fixes the padding.
static int finish_transpose_conv(struct import *im, int x_input, int bias_input, struct window *w,
                                 int act)
{
    const struct tflite_tensor *x = import_tensor(im, x_input), *k = import_tensor(im, 1);
    const struct tflite_tensor *out = import_result(im, 0);
    if (k->shape[3] != x->shape[3] || out->shape[3] != k->shape[0] || out->shape[0] != x->shape[0])
        return import_damaged(im, "its kernel has another number of channels than its input");
    int64_t extra[2];
    for (int i = 0; i < 2; i++) {
        int64_t in = x->shape[1 + i], full = (in - 1) * w->stride[i] + k->shape[1 + i];
        w->kernel[i] = k->shape[1 + i];
        w->out[i] = out->shape[1 + i];
        int64_t pad = w->padding == SAME ? TACHY_MAX(full - w->out[i], 0) : 0;
        w->before[i] = pad / 2;
        w->after[i] = pad - pad / 2;
        extra[i] = w->out[i] - (full - pad);
        int64_t forward = w->padding == SAME ? (w->out[i] + w->stride[i] - 1) / w->stride[i]
                                             : (w->out[i] - w->kernel[i]) / w->stride[i] + 1;
        if (forward != in || extra[i] < 0 || extra[i] >= w->stride[i])
            return import_damaged(im, "its output does not fit its input and stride");
    }
    int in[3] = {import_get(im, x_input, IMPORT_PLANAR), import_get(im, 1, IMPORT_NATIVE), 0};
    if (!conv_bias(im, bias_input, k->shape[0], &in[2]))
        return import_damaged(im, "its bias does not fit its kernel");
    if (in[1]) // O kh kw I -> I O kh kw
        in[1] = onnx_transpose(im->g, in[1], (int[]){3, 0, 1, 2});
    struct onnx_shape native = import_shape(out), s = import_order(IMPORT_PLANAR, &native);
    int y = add_conv(im, "ConvTranspose", in, &s);
    set_window(onnx_maker(im->g, y), w);
    if (extra[0] || extra[1])
        onnx_set_ints(onnx_maker(im->g, y), "output_padding", 2, extra);
    return import_set_act(im, 0, IMPORT_PLANAR, y, act);
}

int import_transpose_conv(struct import *im)
{
    const struct tflite_op *op = im->op;
    struct window w = {
        .padding = tflite_opt_i8(op, 0, SAME),
        .stride = {tflite_opt_i32(op, 2, 0), tflite_opt_i32(op, 1, 0)},
        .dilation = {1, 1},
    };
    if (!conv_inputs(im, 2, 1) || w.stride[0] < 1 || w.stride[1] < 1 || w.padding < SAME ||
        w.padding > VALID)
        return import_damaged(im, "its inputs are not those of a transposed convolution");
    return finish_transpose_conv(im, 2, 3, &w, tflite_opt_i8(op, 3, 0));
}

// MediaPipe's Convolution2DTransposeBias: its options are three 32-bit words, padding (1 same,
// 2 valid), horizontal stride, vertical stride.
int import_transpose_conv_bias(struct import *im)
{
    int v[3];
    if (im->op->raw_size < 12 || !conv_inputs(im, 0, 1))
        return import_damaged(im, "its inputs are not those of a transposed convolution");
    for (int i = 0; i < 3; i++) {
        const uint8_t *p = im->op->raw + 4 * i;
        v[i] = p[2] || p[3] ? 0 : p[0] | p[1] << 8;
    }
    struct window w = {.padding = v[0] - 1, .stride = {v[2], v[1]}, .dilation = {1, 1}};
    if (v[0] < 1 || v[0] > 2 || v[1] < 1 || v[2] < 1)
        return import_damaged(im, "its padding or stride is out of range");
    return finish_transpose_conv(im, 0, 2, &w, 0);
}

int import_fully_connected(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0), *k = import_tensor(im, 1);
    const struct tflite_tensor *out = import_result(im, 0);
    if (!x || !k || !out || k->rank != 2 || !k->shape[1] || x->elements % k->shape[1] ||
        import_dtype(x) != ONNX_FLOAT || import_dtype(k) != ONNX_FLOAT)
        return import_damaged(im, "its weights do not fit its input");
    if (tflite_opt_i8(im->op, 1, 0))
        return import_unsupported(im, "its weights are shuffled");
    int64_t rows = x->elements / k->shape[1], n = k->shape[0];
    if (rows * n != out->elements)
        return import_damaged(im, "its output does not fit its weights");
    struct onnx_shape flat = {2, {rows, k->shape[1]}}, s = {2, {rows, n}}, want = import_shape(out);
    int v = import_get(im, 0, IMPORT_NATIVE);
    int in[3] = {v ? onnx_reshape(im->g, v, &flat) : 0, import_get(im, 1, IMPORT_NATIVE), 0};
    if (!conv_bias(im, 2, n, &in[2]))
        return import_damaged(im, "its bias does not fit its weights");
    int y = add_conv(im, "Gemm", in, &s);
    onnx_set_int(onnx_maker(im->g, y), "transB", 1);
    return import_set_act(im, 0, IMPORT_NATIVE, onnx_reshape(im->g, y, &want),
                          tflite_opt_i8(im->op, 0, 0));
}

int import_pool(struct import *im)
{
    const struct tflite_op *op = im->op;
    const struct tflite_tensor *x = import_tensor(im, 0);
    bool average = op->code == TFLITE_AVERAGE_POOL_2D;
    if (!x || x->rank != 4 || !x->elements || import_dtype(x) != ONNX_FLOAT)
        return import_damaged(im, "its input is not a picture of numbers");
    struct window w = {
        .padding = tflite_opt_i8(op, 0, SAME),
        .stride = {tflite_opt_i32(op, 2, 0), tflite_opt_i32(op, 1, 0)},
        .kernel = {tflite_opt_i32(op, 4, 0), tflite_opt_i32(op, 3, 0)},
        .in = {x->shape[1], x->shape[2]},
        .dilation = {1, 1},
    };
    if (!place(&w))
        return import_damaged(im, "its window does not fit its input");
    bool global = w.kernel[0] == w.in[0] && w.kernel[1] == w.in[1] && w.out[0] == 1 &&
                  w.out[1] == 1 && !w.before[0] && !w.before[1] && !w.after[0] && !w.after[1];
    struct onnx_shape s = {4, {x->shape[0], x->shape[3], w.out[0], w.out[1]}};
    const char *name = average ? (global ? "GlobalAveragePool" : "AveragePool")
                               : (global ? "GlobalMaxPool" : "MaxPool");
    int in = import_get(im, 0, IMPORT_PLANAR);
    int y = onnx_add(im->g, name, 1, &in, ONNX_FLOAT, &s);
    if (!global)
        set_window(onnx_maker(im->g, y), &w); // averages leave out the padding in both formats
    return import_set_act(im, 0, IMPORT_PLANAR, y, tflite_opt_i8(op, 5, 0));
}
