#pragma once
#include <stdbool.h>
#include <stddef.h>

// Operations of a plan (src/plan) on NHWC float tensors and their plain twins. The twins sum in double and round once
// at the end; the kernels of src/plan/cpu sum in float, in the order of the taps. They differ by rounding: |kernel -
// twin| <= terms * 2^-24 * the sum of the terms' magnitudes, propagated through the activation.
//
// Everything here trusts its arguments; the code that builds the shapes checks them (tachy_conv_shape_valid() and
// similar functions in src/plan/cpu).

// A tensor of n x h x w pixels of c adjacent floats. Strides in floats, so a view may be a
// slice of channels, rows or columns of a larger tensor. Inputs are read only.
struct tachy_view {
    float *data;
    ptrdiff_t pixel, row, image;
    int n, h, w, c;
};

// Strides of a dense tensor.
static inline struct tachy_view tachy_view_dense(const float *data, int n, int h, int w, int c)
{
    ptrdiff_t row = (ptrdiff_t)w * c;
    return (struct tachy_view){(float *)data, c, row, h * row, n, h, w, c};
}

static inline float *tachy_view_at(const struct tachy_view *v, int n, int y, int x)
{
    return v->data + n * v->image + y * v->row + x * v->pixel;
}

// y = f(x); a and b are the parameters of struct tachy_act.
enum tachy_act_kind {
    TACHY_ACT_NONE = 0,
    TACHY_ACT_CLIP,      // min(max(x, a), b): relu is a 0, b infinity
    TACHY_ACT_HSIGMOID,  // clip(a x + b, 0, 1)
    TACHY_ACT_HSWISH,    // x clip(a x + b, 0, 1); a 1/6, b 1/2 for ONNX's HardSwish
    TACHY_ACT_LEAKY,     // x < 0 ? a x : x
    TACHY_ACT_PRELU,     // x < 0 ? slope[channel] x : x
    TACHY_ACT_SIGMOID,   // 1 / (1 + exp(-x))
    TACHY_ACT_SWISH,     // x sigmoid(a x)
    TACHY_ACT_TANH,
    TACHY_ACT_GELU,      // x / 2 (1 + erf(x / sqrt 2))
    TACHY_ACT_GELU_TANH, // x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
    TACHY_ACT_ELU,       // x < 0 ? a (exp(x) - 1) : x
    TACHY_ACT_SOFTPLUS,  // log(1 + exp(x))
    TACHY_ACT_MISH,      // x tanh(softplus(x))
    TACHY_ACT_ERF,
    TACHY_ACT_EXP,
    TACHY_ACT_SQRT,
    TACHY_ACT_ABS,
    TACHY_ACT_LEVELS,    // the nearest whole number, halves to the even one, within a to b; NaN: a
    TACHY_ACT_COUNT,
};

struct tachy_act {
    enum tachy_act_kind kind;
    float a, b;
    const float *slope; // PRELU only: one for each channel
};

// Applied to an output before it is stored: y = act(x + add), or act(x) + add.
struct tachy_epilogue {
    struct tachy_act act;
    const struct tachy_view *add; // shape of the output; may be the output itself; NULL: none
    bool add_last;                // after the activation
    // Sums of what is stored over each output row: [n * h][c], row by row, overwritten. Their
    // order is fixed, so any number of threads gives the same bits. NULL: not wanted.
    float *sums;
};

// y = epilogue(bias + sum of x * weights); ONNX Conv. Padding counts as zeros.
struct tachy_conv_shape {
    int n, h, w, cin, cout;
    int kh, kw, stride_h, stride_w, dil_h, dil_w;
    int pad_top, pad_left, pad_bottom, pad_right; // negative: the input is cropped
    int groups;
};

static inline int tachy_conv_out_h(const struct tachy_conv_shape *s)
{
    return (s->h + s->pad_top + s->pad_bottom - (s->kh - 1) * s->dil_h - 1) / s->stride_h + 1;
}

static inline int tachy_conv_out_w(const struct tachy_conv_shape *s)
{
    return (s->w + s->pad_left + s->pad_right - (s->kw - 1) * s->dil_w - 1) / s->stride_w + 1;
}

// One run of a convolution.
struct tachy_conv_io {
    struct tachy_view in, out;
    // Each input channel times this first: [cin] for each image, `scale_image` floats apart
    // (0: the same for all). NULL: none.
    const float *scale;
    ptrdiff_t scale_image;
    struct tachy_epilogue epilogue;
};

// `weights` [cout][cin / groups][kh][kw], `bias` [cout] or NULL. Output rows row0..row1-1 of
// n * out_h.
void tachy_ref_conv(const struct tachy_conv_shape *s, const float *weights, const float *bias,
                    const struct tachy_conv_io *io, int row0, int row1);

// ONNX ConvTranspose: `s` has the sizes of its input, kernel, strides, pads and groups;
// out_h and out_w are its output's (output_padding is part of them). `weights`
// [cin][cout / groups][kh][kw].
struct tachy_deconv_shape {
    struct tachy_conv_shape s;
    int out_h, out_w;
};
void tachy_ref_deconv(const struct tachy_deconv_shape *d, const float *weights, const float *bias,
                      const struct tachy_conv_io *io, int row0, int row1);

// One activation of one value; `slope` for PRELU.
double tachy_ref_act(const struct tachy_act *a, double x, double slope);

// Pooling windows; dilation 1. ONNX's ceil_mode is in out_h, out_w: windows may hang over.
struct tachy_pool_shape {
    int n, h, w, c;
    int kh, kw, stride_h, stride_w, pad_top, pad_left;
    int out_h, out_w;
    bool average; // else the maximum, which ignores padding
    // average: divide by kh * kw of the padded area, else by the pixels inside of the input
    bool count_pad;
    int pad_bottom, pad_right; // count_pad: what is past them is not counted
};
void tachy_ref_pool(const struct tachy_pool_shape *s, const struct tachy_view *in,
                    const struct tachy_view *out, int row0, int row1);

// Mean over all pixels: out [n][c].
void tachy_ref_pool_global(const struct tachy_view *in, float *out);

enum tachy_resize_kind { TACHY_RESIZE_NEAREST, TACHY_RESIZE_LINEAR };
// Mapping of an output pixel to the input, per axis; ONNX's coordinate_transformation_mode.
enum tachy_resize_place { TACHY_RESIZE_HALF, TACHY_RESIZE_ALIGN, TACHY_RESIZE_ASYMMETRIC };
// ONNX's nearest_mode.
enum tachy_resize_round {
    TACHY_ROUND_PREFER_FLOOR,
    TACHY_ROUND_PREFER_CEIL,
    TACHY_ROUND_FLOOR,
    TACHY_ROUND_CEIL,
};

struct tachy_resize_shape {
    int n, h, w, c, out_h, out_w;
    float scale_h, scale_w; // 0: out / in
    enum tachy_resize_kind kind;
    enum tachy_resize_place place;
    enum tachy_resize_round round;
};

// y = epilogue(resize(x) + add_scale * add): with `add_scale` (channels of each image,
// `scale_image` floats apart) what is added is scaled. `act` as in a convolution.
struct tachy_resize_io {
    struct tachy_view in, out;
    const float *add_scale;
    ptrdiff_t scale_image;
    struct tachy_epilogue epilogue;
};
void tachy_ref_resize(const struct tachy_resize_shape *s, const struct tachy_resize_io *io,
                      int row0, int row1);
// Source position of output `o` along an axis, clamped to the input for LINEAR.
double tachy_resize_source(const struct tachy_resize_shape *s, bool vertical, int o);
// Source index of output `o` for NEAREST.
int tachy_resize_nearest(const struct tachy_resize_shape *s, bool vertical, int o);

// y = act(a op b), or with c: act(a op b + c). Each of a, b, c has the output's shape or 1
// along any axis (n, h, w or c).
enum tachy_binary_kind {
    TACHY_BINARY_ADD,
    TACHY_BINARY_SUB,
    TACHY_BINARY_MUL,
    TACHY_BINARY_DIV,
    TACHY_BINARY_MIN,
    TACHY_BINARY_MAX,
    TACHY_BINARY_POW,
    TACHY_BINARY_COUNT,
};
struct tachy_binary_io {
    enum tachy_binary_kind kind;
    struct tachy_act act;
    struct tachy_view a, b, out;
    const struct tachy_view *c; // NULL: none
};
void tachy_ref_binary(const struct tachy_binary_io *io, int row0, int row1);

// Softmax over each pixel's channels; `log` for LogSoftmax. in and out may be the same.
void tachy_ref_softmax(const struct tachy_view *in, const struct tachy_view *out, bool log,
                       int row0, int row1);

// Sum of the softmax of each `n` channels of a pixel, each times its weight; out has c / n channels.
void tachy_ref_softmax_sum(const struct tachy_view *in, const float *weights, int n, const struct tachy_view *out);

// Mean and variance over each pixel's channels taken out, scaled and shifted (ONNX
// LayerNormalization over the last axis). `shift` may be NULL.
void tachy_ref_layer_norm(const struct tachy_view *in, const struct tachy_view *out,
                          const float *scale, const float *shift, float epsilon, int row0,
                          int row1);

// softmax(scale q k^T) v of each matrix, an image's row, whose rows are pixels: q has queries, k and v keys. k->w is at
// most 4096.
enum { TACHY_REF_ATTENTION_KEYS = 4096 };
void tachy_ref_attention(const struct tachy_view *q, const struct tachy_view *k, const struct tachy_view *v,
                         const struct tachy_view *out, float scale);

// y[c * y_step + r] = x[r * x_step + c]; y and x do not overlap.
void tachy_ref_transpose(float *y, ptrdiff_t y_step, const float *x, ptrdiff_t x_step, int rows,
                         int columns);

