#include "check_nn.h"

#include "base/base.h"
#include "cuda/nn/cudnn.h"
#include "cuda/nn/gemm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Convolutions of cuda/nn against tachy_ref_conv(), which sums in double. Inputs are within 1 and weights within 1 /
// sqrt(terms), so sums are about 1 and their float32 rounding stays within 4e-6; activations are within 4e-6 of it.
// float16 and bfloat16 add half a unit in the last place (1 / 2048 and 1 / 256 of the value). Pictures too large for
// the twin are compared with the kernel `conv`, which the twin has checked.

struct conv_case {
    struct tachy_nn_conv a;
    struct nn_buffer in, out, weights, bias, add, slope, scale, sums;
    int out_h, out_w, more;
};

typedef int (*conv_fn)(const struct tachy_nn_conv *a, cuda_stream stream);

// The device's order [cout][kh][kw][cin] (depthwise [kh][kw][c]) as ONNX's.
static float *onnx_weights(const struct conv_case *k, bool depthwise)
{
    const struct tachy_conv_shape *s = &k->a.shape;
    int cin = s->cin / s->groups, taps = s->kh * s->kw;
    float *w = malloc(k->weights.n * sizeof(float));
    for (int o = 0; o < s->cout; o++)
        for (int t = 0; t < taps; t++)
            for (int i = 0; i < cin; i++)
                w[((size_t)o * (size_t)cin + (size_t)i) * (size_t)taps + (size_t)t] =
                    k->weights.value[depthwise ? t * s->cout + o : (o * taps + t) * cin + i];
    return w;
}

static void make(struct check *c, struct conv_case *k, int more, bool add, bool common)
{
    struct tachy_conv_shape *s = &k->a.shape;
    enum tachy_dtype t = k->a.dtype;
    k->more = more, k->out_h = tachy_conv_out_h(s), k->out_w = tachy_conv_out_w(s);
    int terms = s->cin / s->groups * s->kh * s->kw;
    float limit = 1 / sqrtf((float)terms);
    k->in = nn_random(c, nn_elements(s->n, s->h, s->w, s->cin, more), t, -1, 1);
    k->weights = nn_random(c, (size_t)s->cout * (size_t)terms, t, -limit, limit);
    k->bias = nn_random(c, (size_t)s->cout, TACHY_F32, -1, 1);
    k->slope = nn_random(c, (size_t)s->cout, TACHY_F32, -1, 1);
    k->out = nn_poison(c, nn_elements(s->n, k->out_h, k->out_w, s->cout, more), t);
    k->a.in = nn_tensor(&k->in, s->h, s->w, s->cin, more);
    k->a.out = nn_tensor(&k->out, k->out_h, k->out_w, s->cout, more);
    k->a.weights = k->weights.at, k->a.bias = check_range(c, 0, 4) ? k->bias.at : 0;
    if (add) {
        k->add = nn_random(c, k->out.n, t, -1, 1);
        k->a.epilogue.add = nn_tensor(&k->add, k->out_h, k->out_w, s->cout, more);
        k->a.epilogue.add_last = check_range(c, 0, 1);
    }
    k->a.epilogue.act = nn_act(c, k->slope.at, common);
}

static void unmake(struct check *c, struct conv_case *k)
{
    struct nn_buffer *all[] = {&k->in, &k->out, &k->weights, &k->bias, &k->add, &k->slope, &k->scale, &k->sums};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++)
        nn_close(c, all[i]);
}

static void against_twin(struct check *c, struct conv_case *k, const char *name, bool depthwise)
{
    const struct tachy_conv_shape *s = &k->a.shape;
    struct tachy_view add = nn_view(k->add.value, &k->a.epilogue.add, s->n, k->out_h, k->out_w, s->cout);
    float *want = malloc(k->out.n * sizeof(float)), *weights = onnx_weights(k, depthwise);
    struct tachy_conv_io io = {.in = nn_view(k->in.value, &k->a.in, s->n, s->h, s->w, s->cin),
                               .out = nn_view(want, &k->a.out, s->n, k->out_h, k->out_w, s->cout),
                               .scale = k->scale.value, .scale_image = k->a.scale_image,
                               .epilogue = {.act = nn_ref_act(&k->a.epilogue.act, k->slope.value),
                                            .add = k->add.at ? &add : NULL, .add_last = k->a.epilogue.add_last}};
    tachy_ref_conv(s, weights, k->a.bias ? k->bias.value : NULL, &io, 0, s->n * k->out_h);
    nn_get(c, &k->out);
    struct tachy_view got = nn_view(k->out.value, &k->a.out, s->n, k->out_h, k->out_w, s->cout);
    double worst = nn_worst(&got, &io.out, nn_rounding(k->a.dtype));
    check_case(c, worst < 8e-6, "%s variant %d: %dx%dx%dx%d to %d, kernel %dx%d stride %d dilation %d pad %d groups %d %s act %d add %d: "
               "off by %g", name, k->a.variant, s->n, s->h, s->w, s->cin, s->cout, s->kh, s->kw, s->stride_h, s->dil_h, s->pad_top,
               s->groups, tachy_dtype_name(k->a.dtype), k->a.epilogue.act.kind, k->add.at != 0, worst);
    free(want), free(weights);
}

static void draw_shape(struct check *c, struct tachy_conv_shape *s, int most)
{
    do {
        int k = check_range(c, 1, 3), d = check_range(c, 1, 3), stride = check_range(c, 1, 2);
        *s = (struct tachy_conv_shape){.n = check_range(c, 1, 3), .h = check_range(c, 1, 20), .w = check_range(c, 1, 20),
                                       .cin = check_range(c, 1, most), .cout = check_range(c, 1, most), .kh = k,
                                       .kw = check_range(c, 0, 3) ? k : check_range(c, 1, 7), .stride_h = stride, .stride_w = stride,
                                       .dil_h = d, .dil_w = check_range(c, 0, 3) ? d : 1, .pad_top = check_range(c, 0, 3),
                                       .pad_left = check_range(c, 0, 3), .pad_bottom = check_range(c, -1, 3),
                                       .pad_right = check_range(c, 0, 3), .groups = 1};
    } while (s->h + s->pad_top + s->pad_bottom <= (s->kh - 1) * s->dil_h || s->w + s->pad_left + s->pad_right <= (s->kw - 1) * s->dil_w);
}

static void plain(struct check *c)
{
    struct conv_case k = {.a = {.dtype = nn_floats(c)}};
    struct tachy_conv_shape *s = &k.a.shape;
    draw_shape(c, s, 40);
    if (check_range(c, 0, 2) == 0) {
        s->groups = check_range(c, 1, 6);
        s->cin = s->groups * check_range(c, 1, 9), s->cout = s->groups * check_range(c, 1, 9);
    }
    make(c, &k, check_range(c, 0, 2) * 4, check_range(c, 0, 1), false);
    if (check_range(c, 0, 3) == 0) {
        k.scale = nn_random(c, (size_t)(s->n * s->cin), TACHY_F32, 0, 1);
        k.a.scale = k.scale.at, k.a.scale_image = s->cin;
    }
    check_gpu_launched(c, tachy_nn_kernels()->conv(&k.a, c->gpu->stream), "conv");
    against_twin(c, &k, "conv", false);
    unmake(c, &k);
}

// Sums of the parts, and that they are what is stored.
static void sums_right(struct check *c, struct conv_case *k, int nb_parts)
{
    const struct tachy_conv_shape *s = &k->a.shape;
    nn_get(c, &k->sums);
    double worst = 0;
    for (int n = 0; n < s->n; n++)
        for (int ch = 0; ch < s->cout; ch++) {
            double want = 0, got = 0, size = 0;
            for (int y = 0; y < k->out_h; y++)
                for (int x = 0; x < k->out_w; x++) {
                    double v = (double)k->out.value[n * k->a.out.image + y * k->a.out.row + x * k->a.out.pixel + ch];
                    want += v, size += fabs(v);
                }
            for (int p = 0; p < nb_parts; p++)
                got += (double)k->sums.value[(n * nb_parts + p) * s->cout + ch];
            double off = fabs(got - want) - size * nn_rounding(k->a.dtype);
            worst = !(off <= worst) ? off : worst;
        }
    check_case(c, worst < 1e-4, "depthwise sums of %dx%dx%dx%d in %d parts: off by %g", s->n, k->out_h, k->out_w, s->cout, nb_parts, worst);
}

static void depthwise(struct check *c)
{
    struct conv_case k = {.a = {.dtype = nn_floats(c)}};
    struct tachy_conv_shape *s = &k.a.shape;
    draw_shape(c, s, 40);
    if (check_range(c, 0, 2)) {
        s->kh = s->kw = 3 + 2 * check_range(c, 0, 2);
        s->dil_h = s->dil_w = check_range(c, 0, 2) ? 1 : 2;
        s->pad_top = s->pad_left = s->pad_bottom = s->pad_right = s->kw / 2 * s->dil_w;
        bool large = !check_range(c, 0, 7); // a thread has whole vectors of channels, else quarters
        s->cin = 8 * (large ? 8 : check_range(c, 1, 20)), s->h = large ? 200 : check_range(c, 1, 40), s->w = large ? 150 : check_range(c, 1, 40);
    }
    s->cout = s->groups = s->cin;
    make(c, &k, check_range(c, 0, 2) * 8, check_range(c, 0, 1), false);
    int nb_parts = tachy_nn_kernels()->depthwise_parts(&k.a);
    if (check_range(c, 0, 1)) {
        k.sums = nn_poison(c, (size_t)(s->n * nb_parts * s->cout), TACHY_F32);
        k.a.sums = k.sums.at;
    }
    check_gpu_launched(c, tachy_nn_kernels()->conv_depthwise(&k.a, c->gpu->stream), "conv_depthwise");
    against_twin(c, &k, "conv_depthwise", true);
    if (k.a.sums)
        sums_right(c, &k, nb_parts);
    unmake(c, &k);
}

// Weights for each image.
static void own_weights(struct check *c, struct conv_case *k)
{
    const struct tachy_conv_shape *s = &k->a.shape;
    size_t each = (size_t)(s->cout * s->cin * s->kh * s->kw);
    float limit = 1 / sqrtf((float)(s->cin * s->kh * s->kw));
    nn_close(c, &k->weights);
    k->weights = nn_random(c, each * (size_t)s->n, k->a.dtype, -limit, limit);
    k->a.weights = k->weights.at, k->a.weights_image = (int64_t)each;
}

// By the kernel `conv`, image by image.
static void plain_images(struct check *c, const struct tachy_nn_conv *of, cuda_address out)
{
    for (int n = 0; n < of->shape.n; n++) {
        struct tachy_nn_conv a = *of;
        a.shape.n = 1, a.weights_image = 0;
        a.in.data += (cuda_address)(n * a.in.image * 2);
        a.out.data = out + (cuda_address)(n * a.out.image * 2);
        a.epilogue.add.data += a.epilogue.add.data ? (cuda_address)(n * a.epilogue.add.image * 2) : 0;
        a.weights += (cuda_address)(n * of->weights_image * 2);
        check_gpu_launched(c, tachy_nn_kernels()->conv(&a, c->gpu->stream), "conv");
    }
}

// A tensor-core kernel's variant on a shape that the twin can do, or on a larger one against `conv`.
static void cores(struct check *c, const char *name, conv_fn run, int variants, bool large)
{
    struct conv_case k = {.a = {.dtype = nn_half(c)}};
    struct tachy_conv_shape *s = &k.a.shape;
    draw_shape(c, s, 8);
    s->cin = 8 * check_range(c, 1, 12), s->cout = 8 * check_range(c, 1, 12);
    if (large) {
        static const int widths[] = {80, 96, 160, 200, 320}; // of tiles that are not multiples of 64 columns
        s->h = check_range(c, 8, 70), s->w = check_range(c, 8, 70), s->cin = 16 * check_range(c, 1, 16), s->cout = 8 * check_range(c, 1, 70);
        int d = check_range(c, 0, 2) ? 1 : check_range(c, 2, 36);
        s->dil_h = s->dil_w = d, s->kh = s->kw = 1 + 2 * check_range(c, 0, 1);
        if (check_range(c, 0, 1)) // and three taps at a time
            s->cout = widths[check_range(c, 0, 4)], s->kh = s->kw = 3, s->stride_h = s->stride_w = 1;
        s->pad_top = s->pad_left = s->pad_bottom = s->pad_right = s->kw / 2 * d;
    }
    make(c, &k, check_range(c, 0, 1) * 8, check_range(c, 0, 1), false);
    if (k.add.at && check_range(c, 0, 2) == 0)
        k.a.epilogue.add.image = 0; // one for all images
    struct nn_buffer plain = nn_poison(c, k.out.n, k.a.dtype), mine = k.out;
    if (large && check_range(c, 0, 2) == 0)
        own_weights(c, &k);
    if (large)
        plain_images(c, &k.a, plain.at);
    nn_get(c, &plain);
    for (k.a.variant = 0; k.a.variant < variants; k.a.variant++) {
        k.out = nn_poison(c, mine.n, k.a.dtype), k.a.out.data = k.out.at;
        int status = run(&k.a, c->gpu->stream);
        if (status != CUDA_INVALID_VALUE) {
            check_gpu_launched(c, status, name);
            if (!large)
                against_twin(c, &k, name, false);
            else {
                nn_get(c, &k.out);
                struct tachy_view got = nn_view(k.out.value, &k.a.out, s->n, k.out_h, k.out_w, s->cout),
                                  want = nn_view(plain.value, &k.a.out, s->n, k.out_h, k.out_w, s->cout);
                double worst = nn_worst(&got, &want, 2 * nn_rounding(k.a.dtype));
                check_case(c, worst < 8e-6, "%s variant %d: %dx%dx%dx%d to %d, kernel %d stride %d dilation %d act %d add %d%s%s: off by %g",
                           name, k.a.variant, s->n, s->h, s->w, s->cin, s->cout, s->kh, s->stride_h, s->dil_h, k.a.epilogue.act.kind,
                           k.add.at != 0, k.a.epilogue.add_last ? " last" : "", k.a.weights_image ? " own weights" : "", worst);
            }
        }
        nn_close(c, &k.out);
    }
    k.out = mine;
    nn_close(c, &plain);
    unmake(c, &k);
}

// Few channels: a first convolution's in pixels of 4 or 8, or in pixels of whole vectors.
static void small(struct check *c)
{
    struct conv_case k = {.a = {.dtype = nn_half(c)}};
    struct tachy_conv_shape *s = &k.a.shape;
    bool first = check_range(c, 0, 1);
    int cin = check_range(c, 1, 100), packed = first ? check_range(c, 1, 2) * 4 : (cin + 7) / 8 * 8 + check_range(c, 0, 1) * 8;
    int stride = packed == 4 ? 2 : check_range(c, 1, 2), most = first ? 7 : 3;
    *s = (struct tachy_conv_shape){.n = check_range(c, 1, 2), .h = check_range(c, 8, 90), .w = check_range(c, 8, 90),
                                   .cin = first ? check_range(c, 1, packed) : cin, .cout = check_range(c, 1, 100), .kh = check_range(c, 1, most),
                                   .kw = check_range(c, 1, most), .stride_h = check_range(c, 1, 2), .stride_w = stride, .dil_h = 1, .dil_w = 1,
                                   .pad_top = check_range(c, 0, 3), .pad_left = check_range(c, 0, 3), .pad_bottom = check_range(c, 0, 3),
                                   .pad_right = check_range(c, 0, 3), .groups = 1};
    make(c, &k, packed - s->cin, check_range(c, 0, 1), true);
    if (check_range(c, 0, 3) == 0)
        k.a.epilogue.act = (struct tachy_nn_act){TACHY_ACT_PRELU, .slope = k.slope.at};
    const int more = check_range(c, 0, 1) * ((8 - s->cout % 8) % 8);
    nn_close(c, &k.out), nn_close(c, &k.in);
    k.out = nn_poison(c, nn_elements(s->n, k.out_h, k.out_w, s->cout, more), k.a.dtype);
    k.a.out = nn_tensor(&k.out, k.out_h, k.out_w, s->cout, more);
    k.a.in.row += (8 - k.a.in.row % 8) % 8, k.a.in.image = k.a.in.row * s->h; // rows begin at vectors
    k.in = nn_random(c, (size_t)(k.a.in.image * s->n), k.a.dtype, -1, 1), k.a.in.data = k.in.at;
    int status = tachy_nn_kernels()->conv_small(&k.a, c->gpu->stream);
    if (!status || first || cin <= 16) // more may not fit into shared memory
        check_gpu_launched(c, status, "conv_small");
    if (!status)
        against_twin(c, &k, "conv_small", false);
    unmake(c, &k);
}

// A tensor with pixels of whole vectors.
static struct tachy_nn_tensor whole_tensor(struct nn_buffer *b, struct check *c, int n, int h, int w, int channels, bool poison)
{
    int pixel = (int)TACHY_ALIGN(channels, 8);
    enum tachy_dtype type = b->dtype;
    nn_close(c, b);
    size_t elements = nn_elements(n, h, w, pixel, 0);
    *b = poison ? nn_poison(c, elements, type) : nn_random(c, elements, type, -1, 1);
    return nn_tensor(b, h, w, pixel, 0);
}

// Channels that do not fill vectors, in pixels that do; what lies between them must not count.
static void odd_channels(struct check *c)
{
    struct conv_case k = {.a = {.dtype = nn_half(c)}};
    struct tachy_conv_shape *s = &k.a.shape;
    draw_shape(c, s, 90);
    make(c, &k, 0, check_range(c, 0, 1), true);
    int rows = s->cout * s->kh * s->kw, row = (int)TACHY_ALIGN(s->cin, 8);
    struct nn_buffer weights = nn_random(c, (size_t)(rows * row), k.a.dtype, 0, 0);
    for (int i = 0; i < rows * s->cin; i++)
        weights.value[i / s->cin * row + i % s->cin] = k.weights.value[i];
    nn_put(c, &weights);
    k.a.in = whole_tensor(&k.in, c, s->n, s->h, s->w, s->cin, false);
    for (size_t i = 0; i < k.in.n; i++) // what another slice of a Concat may have there
        k.in.value[i] = (int)(i % (size_t)row) < s->cin ? k.in.value[i] : NAN;
    nn_put(c, &k.in);
    k.a.out = whole_tensor(&k.out, c, s->n, k.out_h, k.out_w, s->cout, true);
    if (k.add.at)
        k.a.epilogue.add = whole_tensor(&k.add, c, s->n, k.out_h, k.out_w, s->cout, false);
    k.a.weights = weights.at;
    for (k.a.variant = 0; k.a.variant < TACHY_NN_TMA_VARIANTS; k.a.variant++) {
        int status = tachy_nn_kernels()->conv_tma(&k.a, c->gpu->stream);
        if (status == CUDA_INVALID_VALUE)
            continue;
        check_gpu_launched(c, status, "conv_tma");
        against_twin(c, &k, "conv_tma of odd channels", false);
    }
    nn_close(c, &weights);
    unmake(c, &k);
}

// Planes of a volume as channels of pictures, in k->in.
static void fill_planes(struct check *c, struct conv_case *k, const struct nn_buffer *volume, const struct tachy_nn_conv *a)
{
    const struct tachy_conv_shape *s = &a->shape;
    for (int64_t i = 0; i < (int64_t)k->in.n; i++) {
        const int64_t channel = i % k->a.shape.cin, pixel = i / k->a.shape.cin, plane = pixel / (s->h * s->w) + channel / s->cin - a->before;
        const int64_t from = (plane * s->h * s->w + pixel % (s->h * s->w)) * s->cin + channel % s->cin;
        k->in.value[i] = plane < 0 || plane >= a->in_planes ? 0 : volume->value[from];
    }
    nn_put(c, &k->in);
}

// The planes of a volume where they lie, against `conv` with them side by side.
static void volumes(struct check *c)
{
    struct conv_case k = {.a = {.dtype = nn_half(c)}};
    struct tachy_conv_shape *s = &k.a.shape;
    struct tachy_nn_conv a = {.planes = check_range(c, 2, 4)};
    draw_shape(c, s, 8);
    const int cin = 8 * check_range(c, 1, 12);
    a.before = check_range(c, 0, a.planes - 1), a.in_planes = check_range(c, a.planes, 7);
    s->n = a.in_planes + a.before + check_range(c, 0, a.planes - 1) - a.planes + 1;
    s->cin = a.planes * cin, s->cout = 8 * check_range(c, 1, 12);
    make(c, &k, 0, check_range(c, 0, 1), false);
    struct nn_buffer volume = nn_random(c, nn_elements(a.in_planes, s->h, s->w, cin, 0), k.a.dtype, -1, 1), got;
    const int planes = a.planes, before = a.before, in_planes = a.in_planes;
    a = k.a;
    a.planes = planes, a.before = before, a.in_planes = in_planes, a.shape.cin = cin;
    a.in = nn_tensor(&volume, s->h, s->w, cin, 0);
    fill_planes(c, &k, &volume, &a);
    check_gpu_launched(c, tachy_nn_kernels()->conv(&k.a, c->gpu->stream), "conv");
    nn_get(c, &k.out);
    for (int i = -1; i < TACHY_NN_TMA_VARIANTS; i++) {
        got = nn_poison(c, k.out.n, k.a.dtype);
        a.out.data = got.at, a.variant = TACHY_MAX(i, 0);
        int status = i < 0 ? tachy_nn_kernels()->conv(&a, c->gpu->stream) : tachy_nn_kernels()->conv_tma(&a, c->gpu->stream);
        if (status != CUDA_INVALID_VALUE) {
            check_gpu_launched(c, status, i < 0 ? "conv" : "conv_tma");
            nn_get(c, &got);
            struct tachy_view is = nn_view(got.value, &k.a.out, s->n, k.out_h, k.out_w, s->cout),
                              want = nn_view(k.out.value, &k.a.out, s->n, k.out_h, k.out_w, s->cout);
            double worst = nn_worst(&is, &want, 2 * nn_rounding(k.a.dtype));
            check_case(c, worst < 8e-6, "%s %d of %d planes of %d: %dx%dx%dx%d to %d, kernel %dx%d: off by %g", i < 0 ? "conv" : "conv_tma", i,
                       planes, in_planes, s->n, s->h, s->w, cin, s->cout, s->kh, s->kw, worst);
        }
        nn_close(c, &got);
    }
    nn_close(c, &volume);
    unmake(c, &k);
}

// Weights as spread_apart wants them.
static void keep_apart(struct check *c, struct conv_case *k)
{
    const struct tachy_conv_shape *s = &k->a.shape;
    k->a.spread_apart = 1;
    for (int i = 0; i < (int)k->weights.n; i++) {
        const int x = i / s->cin % s->kw, y = i / s->cin / s->kw % s->kh, side = i / s->cin / s->kw / s->kh / (s->cout / 4);
        if (y == (side < 2 ? s->kh - 1 : 0) || x == (side % 2 ? 0 : s->kw - 1))
            k->weights.value[i] = 0;
    }
    nn_put(c, &k->weights);
}

// Channels as blocks of pixels in a part of a larger picture, against `conv`, whose output is moved here.
static void spreads(struct check *c, bool large)
{
    struct conv_case k = {.a = {.dtype = nn_half(c)}};
    struct tachy_conv_shape *s = &k.a.shape;
    const int most = large ? 70 : 12, side = 64 * check_range(c, 1, 5), more = 8 * check_range(c, 0, 2);
    *s = (struct tachy_conv_shape){.n = check_range(c, 1, 3), .h = check_range(c, 1, most), .w = check_range(c, 1, most),
                                   .cin = 8 * check_range(c, 1, 20), .cout = 4 * side, .kh = 1, .kw = 1, .stride_h = 1, .stride_w = 1,
                                   .dil_h = 1, .dil_w = 1, .groups = 1};
    if (check_range(c, 0, 1)) {
        s->kh = s->kw = check_range(c, 2, 3);
        s->pad_top = s->pad_left = 1, s->pad_bottom = s->pad_right = s->kh - 2; // as many outputs as inputs
    }
    make(c, &k, 0, false, false);
    if (s->kh > 1 && check_range(c, 0, 2))
        keep_apart(c, &k);
    struct nn_buffer got = nn_poison(c, nn_elements(s->n, 2 * s->h, 2 * s->w, side, more), k.a.dtype);
    check_gpu_launched(c, tachy_nn_kernels()->conv(&k.a, c->gpu->stream), "conv");
    nn_get(c, &k.out);
    struct nn_buffer want = nn_poison(c, got.n, k.a.dtype);
    const struct tachy_nn_tensor to = nn_tensor(&got, 2 * s->h, 2 * s->w, side, more);
    for (int64_t i = 0; i < (int64_t)k.out.n; i++) {
        const int64_t o = i % s->cout, x = i / s->cout % s->w, y = i / s->cout / s->w % s->h, n = i / s->cout / s->w / s->h;
        want.value[n * to.image + (2 * y + o / side / 2) * to.row + (2 * x + o / side % 2) * to.pixel + o % side] = k.out.value[i];
    }
    k.a.spread = to;
    for (k.a.variant = 0; k.a.variant < TACHY_NN_TMA_VARIANTS; k.a.variant++) {
        nn_close(c, &got);
        got = nn_poison(c, want.n, k.a.dtype), k.a.spread.data = got.at;
        int status = tachy_nn_kernels()->conv_tma(&k.a, c->gpu->stream);
        check_case(c, !status || k.a.variant != 3, "conv_tma refuses a spread of %d channels", side);
        if (status == CUDA_INVALID_VALUE)
            continue;
        check_gpu_launched(c, status, "conv_tma");
        nn_get(c, &got);
        struct tachy_view is = nn_view(got.value, &to, s->n, 2 * s->h, 2 * s->w, side),
                          of = nn_view(want.value, &to, s->n, 2 * s->h, 2 * s->w, side);
        double worst = nn_worst(&is, &of, 2 * nn_rounding(k.a.dtype));
        bool between = true; // what lies between pixels is another tensor's
        for (size_t i = 0; i < got.n && between; i++)
            between = !isnan(want.value[i]) || isnan(got.value[i]);
        check_case(c, worst < 8e-6 && between, "spread, variant %d: %dx%dx%dx%d to 4 x %d and %d between, kernel %d%s, act %d: off by %g",
                   k.a.variant, s->n, s->h, s->w, s->cin, side, more, s->kh, k.a.spread_apart ? " apart" : "", k.a.epilogue.act.kind, worst);
    }
    nn_close(c, &got), nn_close(c, &want);
    unmake(c, &k);
}

// The second convolution of a pair, whose input is the first one's output.
static void make_second(struct check *c, struct conv_case *k, const struct conv_case *first, int cout)
{
    *k = (struct conv_case){.a = {.dtype = first->a.dtype}};
    k->a.shape = (struct tachy_conv_shape){.n = first->a.shape.n, .h = first->out_h, .w = first->out_w, .cin = first->a.shape.cout, .cout = cout,
                                           .kh = 1, .kw = 1, .stride_h = 1, .stride_w = 1, .dil_h = 1, .dil_w = 1, .groups = 1};
    make(c, k, 0, false, true);
    nn_close(c, &k->in);
    k->a.in = first->a.out;
}

static void same_as(struct check *c, const struct conv_case *k, const struct nn_buffer *got, const struct nn_buffer *want, const char *which)
{
    const struct tachy_conv_shape *s = &k->a.shape;
    struct tachy_view of = nn_view(got->value, &k->a.out, s->n, k->out_h, k->out_w, s->cout), to = nn_view(want->value, &k->a.out, s->n, k->out_h, k->out_w, s->cout);
    double worst = nn_worst(&of, &to, 2 * nn_rounding(k->a.dtype));
    check_case(c, worst < 8e-6, "pair, %s: %dx%dx%dx%d to %d, act %d add %d: off by %g", which, s->n, s->h, s->w, s->cin, s->cout,
               k->a.epilogue.act.kind, k->add.at != 0, worst);
}

// Two convolutions in one kernel against `conv`, the second on what the first gave: `few` channels or 1x1 taps.
static void pairs(struct check *c, bool large, bool few)
{
    static const int widths[] = {64, 128, 256};
    struct conv_case k = {.a = {.dtype = nn_half(c)}}, l;
    struct tachy_conv_shape *s = &k.a.shape;
    const int most = large ? 70 : 12, taps = few ? check_range(c, 1, 3) : 1, cin = few ? 8 * check_range(c, 1, 5) : widths[check_range(c, 0, 2)];
    *s = (struct tachy_conv_shape){.n = check_range(c, 1, 3), .h = check_range(c, taps, most), .w = check_range(c, taps, most), .cin = cin,
                                   .cout = few ? check_range(c, 1, 64) : 64 * check_range(c, 1, 9), .kh = taps, .kw = taps,
                                   .stride_h = few ? check_range(c, 1, 2) : 1, .stride_w = few ? check_range(c, 1, 2) : 1, .dil_h = 1, .dil_w = 1,
                                   .pad_top = taps / 2, .pad_left = taps / 2, .pad_bottom = taps / 2, .pad_right = taps / 2, .groups = 1};
    make(c, &k, 0, check_range(c, 0, 2), true);
    k.a.epilogue.add_last = few && check_range(c, 0, 1);
    make_second(c, &l, &k, few ? check_range(c, 1, 64) : widths[check_range(c, 0, 2)]);
    struct nn_buffer first = nn_poison(c, k.out.n, k.a.dtype), second = nn_poison(c, l.out.n, k.a.dtype);
    struct tachy_nn_pair a = {k.a, l.a, few && check_range(c, 0, 1)};
    int status = tachy_nn_kernels()->pair(&a, c->gpu->stream);
    check_gpu_launched(c, few && cin > 16 ? 0 : status, "pair"); // more may not fit into shared memory
    a.second.out.data = second.at;
    if (a.alone && !status) { // what it would store
        a.alone = false;
        check_gpu_launched(c, tachy_nn_kernels()->pair(&a, c->gpu->stream), "pair");
    }
    a.first.out.data = first.at;
    check_gpu_launched(c, tachy_nn_kernels()->conv(&a.first, c->gpu->stream), "conv");
    check_gpu_launched(c, tachy_nn_kernels()->conv(&a.second, c->gpu->stream), "conv");
    nn_get(c, &k.out), nn_get(c, &l.out), nn_get(c, &first), nn_get(c, &second);
    if (!status)
        same_as(c, &k, &k.out, &first, "first"), same_as(c, &l, &l.out, &second, "second");
    nn_close(c, &first), nn_close(c, &second);
    unmake(c, &k), unmake(c, &l);
}

// cuDNN's engines, each as it is opened, with the bias in the tensors' type.
enum { ENGINES = 8, WORKSPACE = 32 << 20 };
struct engines {
    struct tachy_nn_cudnn_conv *of;
    struct tachy_nn_cudnn_io io;
    struct nn_buffer bias;
    int n;
};

static void open_engines(struct check *c, struct engines *e, struct tachy_nn_cudnn *d, struct conv_case *k)
{
    *e = (struct engines){.bias = nn_random(c, (size_t)k->a.shape.cout, k->a.dtype, -1, 1)};
    for (size_t i = 0; i < e->bias.n; i++)
        k->bias.value[i] = e->bias.value[i];
    e->io = (struct tachy_nn_cudnn_io){e->bias.at, check_gpu_poison(c, WORKSPACE)};
    tachy_nn_cudnn_conv_open(&e->of, d, &k->a, WORKSPACE, ENGINES, &e->n, NULL);
}

static void close_engines(struct check *c, struct engines *e)
{
    tachy_nn_cudnn_conv_close(&e->of);
    check_gpu_free(c, e->io.workspace);
    nn_close(c, &e->bias);
}

// Returns the number of engines that ran.
static int by_cudnn(struct check *c, struct tachy_nn_cudnn *d)
{
    struct conv_case k = {.a = {.dtype = nn_half(c)}};
    struct tachy_conv_shape *s = &k.a.shape;
    struct engines e;
    draw_shape(c, s, 8);
    s->cin = 8 * check_range(c, 1, 12), s->cout = 8 * check_range(c, 1, 12);
    s->pad_bottom = s->pad_top = TACHY_MAX(s->pad_top, s->pad_bottom), s->pad_right = s->pad_left = TACHY_MAX(s->pad_left, s->pad_right);
    make(c, &k, check_range(c, 0, 1) * 8, check_range(c, 0, 1), false);
    if (!tachy_nn_cudnn_takes(&k.a))
        k.a.epilogue.act = (struct tachy_nn_act){TACHY_ACT_CLIP, 0, INFINITY, 0};
    open_engines(c, &e, d, &k);
    struct nn_buffer mine = k.out;
    for (int i = 0; i < e.n; i++) {
        k.out = nn_poison(c, mine.n, k.a.dtype), k.a.out.data = k.out.at, k.a.variant = i;
        check_gpu_launched(c, tachy_nn_cudnn_conv_run(e.of, i, &k.a, &e.io, c->gpu->stream), "cuDNN");
        against_twin(c, &k, "cuDNN", false);
        nn_close(c, &k.out);
    }
    k.out = mine;
    close_engines(c, &e);
    unmake(c, &k);
    return e.n;
}

static void cudnn(struct check *c)
{
    struct tachy_nn_cudnn *d;
    int ran = 0;
    enum { MOST = 40 };
    if (tachy_nn_cudnn_open(&d, NULL) < 0) {
        printf("nn_conv: cuDNN is not here, so its engines are not checked\n");
        return;
    }
    // For some shapes cuDNN names only engines that it would compile, which are left out.
    for (int i = 0; i < check_times(c, MOST) || (!ran && i < MOST); i++)
        ran += by_cudnn(c, d);
    check_case(c, ran, "no engine of cuDNN %d ran", tachy_nn_cudnn_version());
    tachy_nn_cudnn_close(&d);
}

struct timed {
    struct check *c;
    const struct tachy_nn_conv *a;
    conv_fn run;
    const struct tachy_nn_pair *pair;
    const struct tachy_nn_gemm *gemm;
    int algorithm;
    struct tachy_nn_gemm_io io;
    const struct engines *engines;
};
static void launch(void *arg)
{
    struct timed *t = arg;
    cuda_stream stream = t->c->gpu->stream;
    int status = t->gemm      ? tachy_nn_gemm_run(t->gemm, t->algorithm, &t->io, stream)
                 : t->engines ? tachy_nn_cudnn_conv_run(t->engines->of, t->algorithm, t->a, &t->engines->io, stream)
                              : t->run(t->a, stream);
    if (status)
        check_gpu_launched(t->c, status, "a timed convolution");
}

static double flop_of(const struct tachy_conv_shape *s)
{
    return 2.0 * s->n * tachy_conv_out_h(s) * tachy_conv_out_w(s) * s->cout * s->cin / s->groups * s->kh * s->kw;
}
static double bytes_of(const struct conv_case *k)
{
    return 2.0 * (double)(k->in.n + k->out.n + k->add.n + k->weights.n);
}

static void time_kernel(struct check *c, const struct conv_case *k, const char *name, conv_fn run, int variants, const char *what)
{
    struct tachy_nn_conv a = k->a;
    double best = 0;
    int which = -1;
    for (a.variant = 0; a.variant < variants; a.variant++) {
        if (run(&a, c->gpu->stream) != CUDA_OK)
            continue;
        struct timed t = {.c = c, .a = &a, .run = run};
        double seconds = nn_time(c, launch, &t);
        char text[96];
        snprintf(text, sizeof(text), "%s v%d", what, a.variant);
        nn_row(c, name, text, seconds, flop_of(&a.shape), bytes_of(k));
        if (which < 0 || seconds < best)
            best = seconds, which = a.variant;
    }
}

// cuBLASLt's best of eight, and that it is right.
static void time_gemm(struct check *c, struct conv_case *k, const char *what)
{
    enum { MOST = 8 };
    const struct tachy_conv_shape *s = &k->a.shape;
    struct tachy_nn_gemm_shape g = {.m = (int64_t)s->n * s->h * s->w, .n = s->cout, .k = s->cin, .x_row = s->cin, .w_row = s->cin,
                                    .y_row = s->cout, .add_row = s->cout, .batch = 1, .bias = true, .add = k->add.at != 0,
                                    .act = k->a.epilogue.act.kind, .dtype = k->a.dtype};
    struct tachy_nn_gemm *gemm;
    int n, best = -1;
    double seconds = 0;
    struct nn_buffer bias = nn_random(c, (size_t)s->cout, k->a.dtype, -1, 1), plain = nn_poison(c, k->out.n, k->a.dtype);
    for (size_t i = 0; i < bias.n; i++)
        k->bias.value[i] = bias.value[i];
    c->gpu->cu->copy_to_device(k->bias.at, k->bias.value, bias.n * sizeof(float));
    check_case(c, tachy_nn_gemm_open(&gemm, &g, WORKSPACE, MOST, &n, NULL) == TACHY_OK, "cuBLASLt has nothing for %s", what);
    struct timed t = {.c = c, .gemm = gemm, .io = {k->in.at, k->weights.at, bias.at, k->add.at, k->out.at, check_gpu_poison(c, WORKSPACE)}};
    for (t.algorithm = 0; gemm && t.algorithm < n; t.algorithm++) {
        double each = nn_time(c, launch, &t);
        if (best < 0 || each < seconds)
            seconds = each, best = t.algorithm;
    }
    struct tachy_nn_conv a = k->a;
    a.out.data = plain.at, a.epilogue.add_last = false;
    check_gpu_launched(c, tachy_nn_kernels()->conv(&a, c->gpu->stream), "conv");
    t.algorithm = best;
    if (gemm)
        launch(&t);
    nn_get(c, &plain), nn_get(c, &k->out);
    struct tachy_view got = nn_view(k->out.value, &a.out, s->n, s->h, s->w, s->cout), want = nn_view(plain.value, &a.out, s->n, s->h, s->w, s->cout);
    double worst = nn_worst(&got, &want, 2 * nn_rounding(k->a.dtype));
    check_case(c, worst < 8e-6, "cuBLASLt %s: off by %g", what, worst);
    char text[96];
    snprintf(text, sizeof(text), "%s cuBLASLt %d of %d", what, best, n);
    nn_row(c, "gemm", text, seconds, flop_of(s), bytes_of(k));
    check_gpu_free(c, t.io.workspace);
    tachy_nn_gemm_close(&gemm);
    nn_close(c, &bias), nn_close(c, &plain);
}

// Every engine.
static void time_cudnn(struct check *c, struct conv_case *k, const char *what)
{
    struct tachy_nn_cudnn *d;
    struct engines e;
    if (tachy_nn_cudnn_open(&d, NULL) < 0)
        return;
    open_engines(c, &e, d, k);
    struct timed t = {.c = c, .a = &k->a, .engines = &e};
    for (t.algorithm = 0; t.algorithm < e.n; t.algorithm++) {
        char text[96];
        snprintf(text, sizeof(text), "%s cuDNN %d", what, t.algorithm);
        nn_row(c, "cudnn", text, nn_time(c, launch, &t), flop_of(&k->a.shape), bytes_of(k));
    }
    close_engines(c, &e);
    tachy_nn_cudnn_close(&d);
}

// Square pictures whose size a stride of 1 keeps.
static struct tachy_conv_shape square(int n, int hw, int cin, int cout, int kernel, int stride, int dilation)
{
    int pad = kernel / 2 * dilation;
    return (struct tachy_conv_shape){.n = n, .h = hw, .w = hw, .cin = cin, .cout = cout, .kh = kernel, .kw = kernel, .stride_h = stride,
                                     .stride_w = stride, .dil_h = dilation, .dil_w = dilation, .pad_top = pad, .pad_left = pad,
                                     .pad_bottom = pad, .pad_right = pad, .groups = 1};
}

static void bench_one(struct check *c, enum tachy_dtype type, int n, int hw, int cin, int cout, int kernel, int stride, int dilation, bool add)
{
    struct conv_case k = {.a = {.shape = square(n, hw, cin, cout, kernel, stride, dilation), .dtype = type}};
    make(c, &k, 0, add, true);
    k.a.bias = k.bias.at, k.a.epilogue.act = (struct tachy_nn_act){TACHY_ACT_CLIP, 0, INFINITY, 0};
    k.a.epilogue.add_last = false;
    char what[64];
    snprintf(what, sizeof(what), "%s %dx%dx%d %d->%d k%d s%d d%d%s", tachy_dtype_name(type), n, hw, hw, cin, cout, kernel, stride, dilation, add ? " add" : "");
    time_kernel(c, &k, "conv_tma", tachy_nn_kernels()->conv_tma, TACHY_NN_TMA_VARIANTS, what);
    time_kernel(c, &k, "conv_small", tachy_nn_kernels()->conv_small, 1, what); // refuses many channels
    if (kernel == 1 && stride == 1)
        time_gemm(c, &k, what);
    time_cudnn(c, &k, what);
    unmake(c, &k);
}

static void launch_pair(void *arg)
{
    struct timed *t = arg;
    check_gpu_launched(t->c, tachy_nn_kernels()->pair(t->pair, t->c->gpu->stream), "a timed pair");
}

static void bench_pair(struct check *c, int n, int hw, int cin, int between, int cout)
{
    struct conv_case k = {.a = {.shape = square(n, hw, cin, between, 1, 1, 1), .dtype = TACHY_F16}}, l;
    make(c, &k, 0, true, true);
    make_second(c, &l, &k, cout);
    k.a.bias = k.bias.at, l.a.bias = l.bias.at, k.a.epilogue.add_last = false;
    k.a.epilogue.act = l.a.epilogue.act = (struct tachy_nn_act){TACHY_ACT_CLIP, 0, INFINITY, 0};
    struct tachy_nn_pair a = {.first = k.a, .second = l.a};
    struct timed t = {.c = c, .pair = &a};
    char what[64];
    snprintf(what, sizeof(what), "%dx%dx%d %d->%d->%d add", n, hw, hw, cin, between, cout);
    nn_row(c, "pair", what, nn_time(c, launch_pair, &t), flop_of(&k.a.shape) + flop_of(&l.a.shape),
           bytes_of(&k) + 2.0 * (double)(l.out.n + l.weights.n));
    unmake(c, &k), unmake(c, &l);
}

static void bench_depthwise(struct check *c, int n, int hw, int channels, int kernel, int stride, int dilation, bool sums)
{
    struct conv_case k = {.a = {.shape = square(n, hw, channels, channels, kernel, stride, dilation), .dtype = TACHY_F16}};
    k.a.shape.groups = channels;
    make(c, &k, 0, false, true);
    k.a.bias = k.bias.at, k.a.epilogue.act = (struct tachy_nn_act){TACHY_ACT_HSWISH, 1.0f / 6, 0.5f, 0};
    if (sums) {
        k.sums = nn_poison(c, (size_t)(n * tachy_nn_kernels()->depthwise_parts(&k.a) * channels), TACHY_F32);
        k.a.sums = k.sums.at;
    }
    char what[64];
    snprintf(what, sizeof(what), "%dx%dx%dx%d k%d s%d d%d%s", n, hw, hw, channels, kernel, stride, dilation, sums ? " sums" : "");
    time_kernel(c, &k, "conv_depthwise", tachy_nn_kernels()->conv_depthwise, 1, what);
    unmake(c, &k);
}

static void bench(struct check *c)
{
    for (int hw = 56, channels = 64; hw >= 7; hw /= 2, channels *= 2) // ArcFace's ResNet50 at 112x112
        bench_one(c, TACHY_F16, 8, hw, channels, channels, 3, 1, 1, false);
    for (int hw = 512, channels = 64; hw >= 64; hw /= 2, channels *= 2) // U-Net
        bench_one(c, TACHY_F16, 8, hw, channels, channels, 3, 1, 1, false);
    for (int n = 8; n > 0; n -= 7) {
        bench_pair(c, n, 128, 64, 256, 64);
        bench_pair(c, n, 128, 64, 256, 128);
        bench_pair(c, n, 64, 128, 512, 128);
        bench_pair(c, n, 64, 128, 512, 256);
        bench_pair(c, n, 64, 256, 1024, 256);
    }
    bench_one(c, TACHY_F16, 8, 512, 4, 64, 7, 2, 1, false);
    bench_one(c, TACHY_F16, 8, 512, 4, 16, 3, 2, 1, false);
    bench_one(c, TACHY_F16, 1, 512, 4, 64, 7, 2, 1, false);
    for (int hw = 320, channels = 16; hw >= 40; hw /= 2, channels *= 2) { // YOLOv8n's at 640x640
        bench_one(c, TACHY_F16, 8, hw, channels, channels, 3, 1, 1, false);
        bench_one(c, TACHY_F16, 8, hw, channels, 2 * channels, 3, 2, 1, false);
    }
    for (int hw = 80, cin = 64; hw >= 20; hw /= 2, cin *= 2) { // its heads for 80 classes
        bench_one(c, TACHY_F16, 8, hw, cin, 80, 3, 1, 1, false);
        bench_one(c, TACHY_F16, 8, hw, 80, 80, 3, 1, 1, false);
    }
    bench_one(c, TACHY_F16, 8, 80, 96, 96, 3, 1, 1, false); // YOLOv8m's
    for (int cin = 8; cin <= 16; cin += 8) // over each pixel of 1080p
        bench_one(c, TACHY_F16, 1, 1440, cin, 16, 1, 1, 1, false);
    for (int n = 8; n > 0; n -= 7) { // DeepLabV3-ResNet101's layers at 512x512, batch 8 and 1
        bench_one(c, TACHY_F16, n, 64, 256, 256, 3, 1, 2, false);
        bench_one(c, TACHY_F16, n, 64, 256, 256, 3, 1, 1, false);
        bench_one(c, TACHY_F16, n, 64, 512, 512, 3, 1, 4, false);
        bench_one(c, TACHY_F16, n, 64, 2048, 256, 3, 1, 12, false);
        bench_one(c, TACHY_F16, n, 64, 2048, 256, 3, 1, 24, false);
        bench_one(c, TACHY_F16, n, 64, 2048, 256, 3, 1, 36, false);
        bench_one(c, TACHY_F16, n, 64, 256, 1024, 1, 1, 1, true);
        bench_one(c, TACHY_F16, n, 64, 1024, 256, 1, 1, 1, false);
        bench_one(c, TACHY_F16, n, 64, 512, 2048, 1, 1, 1, true);
        bench_one(c, TACHY_F16, n, 64, 2048, 512, 1, 1, 1, false);
        bench_one(c, TACHY_F16, n, 64, 1280, 256, 1, 1, 1, false);
        bench_one(c, TACHY_F16, n, 128, 64, 64, 3, 1, 1, false);
        bench_one(c, TACHY_F16, n, 128, 64, 256, 1, 1, 1, true);
        bench_one(c, TACHY_F16, n, 128, 256, 64, 1, 1, 1, false);
        bench_one(c, TACHY_F16, n, 128, 128, 128, 3, 2, 1, false);
        bench_one(c, TACHY_F16, n, 64, 128, 128, 3, 1, 1, false);
        bench_one(c, TACHY_F16, n, 64, 128, 512, 1, 1, 1, true);
        bench_one(c, TACHY_F16, n, 64, 512, 128, 1, 1, 1, false);
        bench_one(c, TACHY_F16, n, 128, 256, 512, 1, 2, 1, false);
        bench_one(c, TACHY_BF16, n, 64, 512, 512, 3, 1, 4, false);
        bench_one(c, TACHY_BF16, n, 64, 512, 2048, 1, 1, 1, true);
    }
    bench_one(c, TACHY_F16, 16, 64, 32, 32, 3, 1, 1, false); // planes of volumes, and few channels
    bench_one(c, TACHY_F16, 1, 256, 24, 8, 7, 1, 1, false);
    static const int mobile[][6] = { // MobileNetV3-Large's: side, channels, kernel, stride, dilation, whether sums are wanted
        {256, 16, 3, 1, 1, 0}, {256, 64, 3, 2, 1, 0}, {128, 72, 3, 1, 1, 0}, {128, 72, 5, 2, 1, 1}, {64, 120, 5, 1, 1, 1},
        {64, 240, 3, 2, 1, 0}, {32, 200, 3, 1, 1, 0}, {32, 672, 3, 1, 1, 1}, {32, 960, 5, 1, 1, 1}, {32, 960, 5, 1, 2, 1}};
    for (size_t i = 0; i < 2 * TACHY_ARRAY_SIZE(mobile); i++) {
        const int *m = mobile[i / 2];
        bench_depthwise(c, i % 2 ? 8 : 1, m[0], m[1], m[2], m[3], m[4], m[5]);
    }
}

static void run(struct check *c)
{
    const struct tachy_nn_kernels *k = tachy_nn_kernels();
    for (int i = 0; i < check_times(c, 120); i++)
        plain(c), depthwise(c);
    for (int i = 0; i < check_times(c, 60) && c->gpu->device.cc_major >= 8; i++)
        small(c), pairs(c, true, true);
    if (c->gpu->device.cc_major == 9) {
        for (int i = 0; i < check_times(c, 80); i++)
            cores(c, "conv_tma", k->conv_tma, TACHY_NN_TMA_VARIANTS, i % 2);
        for (int i = 0; i < check_times(c, 40); i++)
            odd_channels(c), volumes(c), pairs(c, i % 4 == 0, false);
        for (int i = 0; i < check_times(c, 20); i++)
            spreads(c, i % 4 == 0);
    }
    cudnn(c);
    if (c->bench)
        bench(c);
}

const struct check_op check_nn_conv = {.name = "nn_conv", .run = run, .cuda = true};
