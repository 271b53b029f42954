// The layers of MediaPipe's selfie segmentation network in their order, run by the kernels of
// src/plan/cpu on one thread, and the same network in ONNX Runtime, in turn in one process.
//
//   build/bench/layers [--isa c|avx2|avx512|neon] [--runs N] [--model selfie.onnx] [--tune]
//                      [--strips N] [--brief]
//
// Printed: milliseconds of each layer (median), GMAC/s and its share of the multiply-add peak
// measured here; the totals (processor time of the thread) and their ratio. Weights are random: what is compared is time, and
// no pass over the graph is made here; the list below is what such passes are to arrive at
// (squeeze-and-excite folded into weights, sums taken while writing, a 1x1 convolution in
// front of a resize). --model: compares with ONNX Runtime, one thread. --tune: each layer with
// the fastest of its variants, timed in the network's order. --strips: where layers follow each
// other on a large picture they run N output rows of the last at a time (0: each layer whole; the
// same bits), so what is between them stays in the cache; the table is of whole layers.
#include "base/base.h"
#include "base/clock.h"
#include "plan/cpu/conv.h"
#include "plan/cpu/deconv.h"
#include "plan/cpu/pool.h"
#include "plan/cpu/resize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tachy/engine.h>

enum { MAX_LAYERS = 96, MAX_RUNS = 2000, FLOATS = 64 * 64 * 72 + 1024 };
// Buffers; SKIP* live until the decoder reads them.
enum { IN, SKIP128, SKIP64, SKIP32, A, B, C, D, R, OUT, BUFFERS };

enum kind { CONV, GATE, RESIZE, DECONV };

struct layer {
    enum kind kind;
    char name[32];
    int in, out, add;
    double macs;
    struct tachy_conv_shape s;
    struct tachy_conv_variant v[TACHY_CONV_VARIANTS_MAX];
    int variants, chosen;
    struct tachy_conv conv[TACHY_CONV_VARIANTS_MAX];
    void *packed[TACHY_CONV_VARIANTS_MAX];
    struct tachy_conv_io io;
    // GATE: mean of one or two tensors' sums, two small products
    struct tachy_conv gate[2];
    void *gate_packed[2];
    const float *sums[2];
    int sums_h[2], sums_w[2];
    float *mean, *hidden, *scale;
    struct tachy_act gate_act[2];
    struct tachy_resize_shape rs;
    struct tachy_resize_io rio;
    void *tables;
    struct tachy_deconv *deconv;
    float *ms;
    double median, best[TACHY_CONV_VARIANTS_MAX];
    int chain; // layers that follow, each reading the one in front of it only
};

static struct layer layers[MAX_LAYERS];
static int count;
static float *buffer[BUFFERS], *window[4];
static void *scratch;
static enum tachy_isa isa;
static const struct tachy_plan_kernels *kernels;

static const struct tachy_act none = {TACHY_ACT_NONE, 0, 0, NULL};
static const struct tachy_act relu = {TACHY_ACT_CLIP, 0, INFINITY, NULL};
static const struct tachy_act hswish = {TACHY_ACT_HSWISH, 1.0f / 6, 0.5f, NULL};
static const struct tachy_act sigmoid = {TACHY_ACT_SIGMOID, 0, 0, NULL};

static void *memory(size_t bytes)
{
    void *p = tachy_aligned_alloc(bytes + 64);
    if (!p) {
        fprintf(stderr, "layers: out of memory\n");
        exit(1);
    }
    return p;
}

static float *random_floats(size_t n, float size)
{
    float *p = memory(n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        p[i] = ((float)rand() / (float)RAND_MAX - 0.5f) * 2 * size;
    return p;
}

static void check(int err)
{
    if (err < 0) {
        fprintf(stderr, "layers: a layer was refused: %s\n", tachy_err_text(err));
        exit(1);
    }
}

static void *pack(const struct tachy_conv *c, const float *w, const float *bias)
{
    void *packed = memory(tachy_conv_packed_size(c));
    struct tachy_conv_weights from = tachy_conv_oihw(&c->s, w, bias);
    tachy_conv_pack(c, &from, packed);
    return packed;
}

static struct layer *add_layer(enum kind kind, int in, int out)
{
    struct layer *l = &layers[count++];
    l->kind = kind, l->in = in, l->out = out;
    l->ms = memory(MAX_RUNS * sizeof(float));
    return l;
}

// k x k convolution of size x size pixels; depthwise where `cout` is 0.
static struct layer *conv(int in, int out, int size, int cin, int cout, int k, int stride,
                          struct tachy_act act)
{
    struct layer *l = add_layer(CONV, in, out);
    int groups = cout ? 1 : cin, o = size / stride, pad = (o - 1) * stride + k - size;
    l->s = (struct tachy_conv_shape){1, size, size, cin, cout ? cout : cin, k, k, stride, stride,
                                     1, 1, pad / 2, pad / 2, pad - pad / 2, pad - pad / 2, groups};
    size_t nw = (size_t)(l->s.cout * (cin / groups) * k * k);
    float *w = random_floats(nw, 1.5f / sqrtf((float)(k * k * cin / groups)));
    float *bias = random_floats((size_t)l->s.cout, 0.1f);
    l->variants = tachy_conv_variants(&l->s, isa, l->v);
    for (int i = 0; i < l->variants; i++) {
        check(tachy_conv_init(&l->conv[i], &l->s, &l->v[i], NULL));
        l->packed[i] = pack(&l->conv[i], w, bias);
    }
    tachy_aligned_free(w), tachy_aligned_free(bias);
    l->io.in = tachy_view_dense(buffer[in], 1, size, size, cin);
    l->io.out = tachy_view_dense(buffer[out], 1, o, o, l->s.cout);
    l->io.epilogue.act = act;
    l->macs = 1.0 * o * o * l->s.cout * (cin / groups) * k * k;
    snprintf(l->name, sizeof(l->name), "%s %dx%d s%d %d-%d", cout ? "conv" : "dw", k, k, stride,
             cin, l->s.cout);
    return l;
}

static struct layer *pw(int in, int out, int size, int cin, int cout, struct tachy_act act)
{
    return conv(in, out, size, cin, cout, 1, 1, act);
}

static void add_to(struct layer *l, int from, bool last)
{
    struct tachy_view *v = memory(sizeof(*v));
    *v = l->io.out;
    v->data = buffer[l->add = from];
    l->io.epilogue.add = v;
    l->io.epilogue.add_last = last;
}

static struct layer *with_sums(struct layer *l)
{
    l->io.epilogue.sums = memory((size_t)l->io.out.h * (size_t)l->io.out.c * sizeof(float));
    return l;
}

static void gate_conv(struct layer *l, int i, int cin, int cout)
{
    struct tachy_conv_shape s = {1, 1, 1, cin, cout, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1};
    struct tachy_conv_variant v[TACHY_CONV_VARIANTS_MAX];
    tachy_conv_variants(&s, isa, v);
    check(tachy_conv_init(&l->gate[i], &s, v, NULL));
    float *w = random_floats((size_t)(cin * cout), 1.5f / sqrtf((float)cin));
    float *bias = random_floats((size_t)cout, 0.1f);
    l->gate_packed[i] = pack(&l->gate[i], w, bias);
    tachy_aligned_free(w), tachy_aligned_free(bias);
}

// The scale of a squeeze-and-excite from the sums of `a` (and `b`); hidden 0: one product.
static const float *gate(const struct layer *a, const struct layer *b, int hidden, int out)
{
    struct layer *l = add_layer(GATE, 0, 0);
    const struct layer *from[2] = {a, b};
    int c = a->io.out.c;
    for (int i = 0; i < 2 && from[i]; i++) {
        l->sums[i] = from[i]->io.epilogue.sums;
        l->sums_h[i] = from[i]->io.out.h, l->sums_w[i] = from[i]->io.out.w;
    }
    l->mean = memory(2 * 256 * sizeof(float));
    l->hidden = memory(256 * sizeof(float));
    l->scale = memory(256 * sizeof(float));
    gate_conv(l, 0, c, hidden ? hidden : out);
    if (hidden)
        gate_conv(l, 1, hidden, out);
    l->gate_act[0] = hidden ? relu : sigmoid;
    l->gate_act[1] = sigmoid;
    l->macs = c * (hidden ? hidden : out) + hidden * out;
    snprintf(l->name, sizeof(l->name), "gate %d-%d-%d", c, hidden, out);
    return l->scale;
}

// Twice the size, plus a skipped tensor times its gate.
static void resize_add(int in, int out, int size, int c, int skip, const float *scale)
{
    struct layer *l = add_layer(RESIZE, in, out);
    l->rs = (struct tachy_resize_shape){.n = 1, .h = size, .w = size, .c = c, .out_h = 2 * size,
                                        .out_w = 2 * size, .kind = TACHY_RESIZE_LINEAR};
    l->rio.in = tachy_view_dense(buffer[in], 1, size, size, c);
    l->rio.out = tachy_view_dense(buffer[out], 1, 2 * size, 2 * size, c);
    struct tachy_view *v = memory(sizeof(*v));
    *v = tachy_view_dense(buffer[skip], 1, 2 * size, 2 * size, c);
    l->rio.epilogue.add = v;
    l->rio.add_scale = scale;
    l->tables = memory(tachy_resize_tables_size(&l->rs));
    tachy_resize_prepare(&l->rs, &l->rio.in, l->tables);
    snprintf(l->name, sizeof(l->name), "resize %d-%d + skip", size, 2 * size);
}

static void head(int in, int out)
{
    struct layer *l = add_layer(DECONV, in, out);
    struct tachy_deconv_shape d = {.s = {1, 128, 128, 16, 1, 2, 2, 2, 2, 1, 1, 0, 0, 0, 0, 1},
                                   .out_h = 256, .out_w = 256};
    l->deconv = memory(sizeof(*l->deconv));
    check(tachy_deconv_init(l->deconv, &d, isa, NULL));
    l->packed[0] = memory(tachy_deconv_packed_size(l->deconv));
    float *w = random_floats(64, 0.4f);
    check(tachy_deconv_pack(l->deconv, w, NULL, l->packed[0]));
    tachy_aligned_free(w);
    l->io.in = tachy_view_dense(buffer[in], 1, 128, 128, 16);
    l->io.out = tachy_view_dense(buffer[out], 1, 256, 256, 1);
    l->io.epilogue.act = sigmoid;
    l->macs = 128.0 * 128 * 16 * 4;
    snprintf(l->name, sizeof(l->name), "deconv 2x2 s2 16-1 sigmoid");
}

static void encoder_32(void)
{
    pw(SKIP64, A, 64, 16, 72, relu)->chain = 2;
    conv(A, B, 64, 72, 0, 3, 2, relu);
    pw(B, R, 32, 72, 24, none);
    pw(R, A, 32, 24, 88, relu)->chain = 2;
    conv(A, B, 32, 88, 0, 3, 1, relu);
}

static void inverted(int e)
{
    pw(R, A, 16, 32, e, hswish);
    struct layer *dw = with_sums(conv(A, B, 16, e, 0, 5, 1, hswish));
    const float *scale = gate(dw, NULL, e / 4, e);
    struct layer *l = pw(B, R, 16, e, 32, none);
    l->io.scale = scale;
    add_to(l, R, false);
}

// A step of the decoder: `small` resized onto the skipped tensor, 1x1 and depthwise 3x3.
static void decode(struct layer *small, struct layer *skip, int skip_buffer, int size, int c)
{
    int from = small->out;
    const float *scale = gate(small, skip, c, c);
    resize_add(from, A, size, c, skip_buffer, scale);
    layers[count - 1].chain = 3; // the 1x1 in front of the next resize, or the head, as well
    pw(A, B, 2 * size, c, c, relu);
    add_to(conv(B, A, 2 * size, c, 0, 3, 1, relu), B, true);
}

static void build(void)
{
    struct layer *stem = with_sums(conv(IN, SKIP128, 256, 3, 16, 3, 2, hswish));
    stem->chain = 2;
    pw(SKIP128, A, 128, 16, 16, relu);
    struct layer *l = with_sums(conv(A, B, 128, 16, 0, 3, 2, relu));
    const float *scale = gate(l, NULL, 8, 16);
    struct layer *s64 = with_sums(pw(B, SKIP64, 64, 16, 16, none));
    s64->io.scale = scale;
    encoder_32();
    struct layer *s32 = with_sums(pw(B, SKIP32, 32, 88, 24, none));
    add_to(s32, R, false);
    pw(SKIP32, A, 32, 24, 96, hswish)->chain = 1;
    l = with_sums(conv(A, B, 32, 96, 0, 5, 2, hswish));
    scale = gate(l, NULL, 24, 96);
    pw(B, R, 16, 96, 32, none)->io.scale = scale;
    for (int i = 0; i < 4; i++)
        inverted(i < 2 ? 128 : 96);
    with_sums(&layers[count - 1]);
    scale = gate(&layers[count - 1], NULL, 0, 128);
    pw(R, A, 16, 32, 128, relu);
    l = with_sums(pw(A, C, 16, 128, 24, none));
    l->io.scale = scale;
    decode(l, s32, SKIP32, 16, 24);
    l = with_sums(pw(A, D, 32, 24, 16, none));
    decode(l, s64, SKIP64, 32, 16);
    l = with_sums(pw(A, C, 64, 16, 16, none)); // in front of the resize
    decode(l, stem, SKIP128, 64, 16);
    head(A, OUT);
}

static void run_gate(const struct layer *l)
{
    int c = l->gate[0].s.cin;
    tachy_pool_mean(kernels, l->sums[0], 1, l->sums_h[0], l->sums_w[0], c, l->mean);
    if (l->sums[1]) {
        tachy_pool_mean(kernels, l->sums[1], 1, l->sums_h[1], l->sums_w[1], c, l->mean + 256);
        for (int i = 0; i < c; i++)
            l->mean[i] += l->mean[256 + i];
    }
    bool two = l->gate_packed[1] != NULL;
    for (int i = 0; i < 1 + two; i++) {
        const struct tachy_conv *g = &l->gate[i];
        const float *in = i ? l->hidden : l->mean;
        struct tachy_conv_io io = {.in = tachy_view_dense(in, 1, 1, 1, g->s.cin),
                                   .epilogue.act = l->gate_act[i]};
        io.out = tachy_view_dense(two && !i ? l->hidden : l->scale, 1, 1, 1, g->s.cout);
        tachy_conv_run(g, l->gate_packed[i], &io, 0, 1, scratch);
    }
}

static int out_rows(const struct layer *l)
{
    return l->kind == CONV ? l->conv[0].out_h : l->kind == RESIZE ? l->rs.out_h : 256;
}

static void run_rows(const struct layer *l, int row0, int row1)
{
    if (l->kind == CONV)
        tachy_conv_run(&l->conv[l->chosen], l->packed[l->chosen], &l->io, row0, row1, scratch);
    else if (l->kind == GATE)
        run_gate(l);
    else if (l->kind == RESIZE)
        tachy_resize_run(kernels, &l->rs, l->tables, &l->rio, row0, row1, scratch);
    else
        tachy_deconv_run(l->deconv, l->packed[0], &l->io, row0, row1, scratch);
}

static void run_layer(const struct layer *l) { run_rows(l, 0, out_rows(l)); }

// Rows of its input that a layer needs for its first `rows` rows.
static int rows_needed(const struct layer *l, int rows)
{
    if (l->kind == DECONV)
        return (rows + 1) / 2;
    return TACHY_MIN(l->s.h, (rows - 1) * l->s.stride_h - l->s.pad_top + l->s.kh);
}

// The first input row that output row `row` needs.
static int first_needed(const struct layer *l, int row)
{
    return l->kind == DECONV ? row / 2 : TACHY_MAX(0, row * l->s.stride_h - l->s.pad_top);
}

static struct tachy_view *view_out(struct layer *l)
{
    return l->kind == RESIZE ? &l->rio.out : &l->io.out;
}

static struct tachy_view *view_in(struct layer *l)
{
    return l->kind == RESIZE ? &l->rio.in : &l->io.in;
}

// Intermediate values of a chain that are not kept lie in a window of a few rows: moves the rows from `first` on that
// are still needed to its start and sets both views.
static void move_window(struct layer *l, int i, int first, int done)
{
    struct tachy_view *out = view_out(l), *in = view_in(l + 1);
    const struct tachy_view *add = (l + 1)->io.epilogue.add;
    float *start = window[i] - first * out->row, *old = out->data;
    bool same = add && add->data == old; // what is added is the layer's input
    if (done > first && old != start)
        memmove(window[i], old + first * out->row,
                (size_t)(done - first) * (size_t)out->row * sizeof(float));
    out->data = in->data = start;
    if (same)
        ((struct tachy_view *)(l + 1)->io.epilogue.add)->data = start;
}

// A layer and those of its chain, `strip` rows of the last one at a time.
static void run_chain(struct layer *l, int strip)
{
    int done[8] = {0}, upto[8], n = l->chain, all = out_rows(l + n);
    for (int end = strip; done[n] < all; end += strip) {
        upto[n] = TACHY_MIN(end, all);
        for (int i = n; i > 0; i--)
            upto[i - 1] = rows_needed(l + i, upto[i]);
        for (int i = 0; i <= n; i++) {
            if (i < n && (l + i)->out > SKIP32)
                move_window(l + i, i, TACHY_MIN(first_needed(l + i + 1, done[i + 1]), done[i]),
                            done[i]);
            if (upto[i] > done[i])
                run_rows(l + i, done[i], upto[i]);
            done[i] = TACHY_MAX(done[i], upto[i]);
        }
    }
}

static double seconds(void) { return (double)tachy_now_ns() * 1e-9; }

static double cpu_seconds(void) { return (double)tachy_thread_cpu_ns() * 1e-9; }

// Milliseconds of processor time: on a busy machine the thread is often put aside.
static double run_whole(int strips)
{
    double start = cpu_seconds();
    for (int i = 0; i < count; i += 1 + (strips > 0 ? layers[i].chain : 0)) {
        if (strips > 0 && layers[i].chain)
            run_chain(&layers[i], strips);
        else
            run_layer(&layers[i]);
    }
    return (cpu_seconds() - start) * 1e3;
}

static void run_timed(int run)
{
    double last = seconds();
    for (int i = 0; i < count; i++) {
        run_layer(&layers[i]);
        double now = seconds();
        layers[i].ms[run] = (float)((now - last) * 1e3);
        last = now;
    }
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double median(float *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), by_value);
    return (double)v[n / 2];
}

static void tune(int runs)
{
    for (int v = 0; v < TACHY_CONV_VARIANTS_MAX; v++) {
        for (int i = 0; i < count; i++)
            layers[i].chosen = TACHY_MIN(v, TACHY_MAX(layers[i].variants - 1, 0));
        for (int r = 0; r < runs; r++)
            run_timed(r);
        for (int i = 0; i < count; i++)
            layers[i].best[v] = v < layers[i].variants ? median(layers[i].ms, runs) : INFINITY;
    }
    for (int i = 0; i < count; i++)
        for (int v = layers[i].chosen = 0; v < layers[i].variants; v++)
            if (layers[i].best[v] < layers[i].best[layers[i].chosen])
                layers[i].chosen = v;
}

// Peak GMAC/s from registers: the best of several tries.
static double peak(void)
{
    double best = 1e9;
    volatile float sink;
    for (int i = 0; i < 20; i++) {
        double t = seconds();
        sink = kernels->peak(100000);
        best = TACHY_MIN(best, seconds() - t);
    }
    (void)sink;
    return 24e5 * kernels->width / best * 1e-9;
}

struct ort {
    tachy_engine *engine;
    struct tachy_tensor in, out;
};

static struct ort open_ort(const char *model)
{
    struct ort o = {0};
    check(tachy_engine_open(&o.engine, tachy_engine_params(.provider = "cpu", .model_path = model,
                                                           .threads = 1)));
    const struct tachy_io *in, *out;
    tachy_engine_inputs(o.engine, &in);
    tachy_engine_outputs(o.engine, &out);
    o.in = in->spec, o.out = out->spec;
    o.in.data = buffer[IN];
    o.out.data = memory(256 * 256 * 2 * sizeof(float));
    for (int i = 0; i < 4; i++) {
        o.in.shape[i] = o.in.shape[i] < 0 ? 1 : o.in.shape[i];
        o.out.shape[i] = o.out.shape[i] < 0 ? 1 : o.out.shape[i];
    }
    return o;
}

static double run_ort(struct ort *o)
{
    double start = cpu_seconds();
    check(tachy_engine_run(o->engine, &o->in, &o->out));
    return (cpu_seconds() - start) * 1e3;
}

static void print_layers(int runs, double most)
{
    double sum = 0, macs = 0, kinds[4] = {0};
    for (int i = 0; i < count; i++) {
        struct layer *l = &layers[i];
        l->median = median(l->ms, runs);
        double rate = l->macs / l->median * 1e-6;
        printf("%-28s %4d %8.4f ms %6.1f GMAC/s %4.0f %%", l->name,
               l->kind == RESIZE ? l->rio.out.h : l->kind == GATE ? 1 : l->io.out.h, l->median,
               rate, 100 * rate / most);
        const struct tachy_conv_variant *v = &l->v[l->chosen];
        if (l->kind == CONV)
            printf("  %s %dx%d block %d", tachy_isa_name(v->isa), v->vectors, v->pixels, v->block);
        printf("\n");
        sum += l->median, macs += l->macs;
        kinds[l->kind != CONV ? 3 : l->conv[0].dw ? 1 : l->s.kh == 1 ? 0 : 2] += l->median;
    }
    printf("1x1 %.3f ms, depthwise %.3f, stem %.3f, gates, resizes and head %.3f; "
           "sum %.3f ms, %.1f million MAC\n",
           kinds[0], kinds[1], kinds[2], kinds[3], sum, macs * 1e-6);
}

static uint64_t output_bits(void)
{
    uint64_t h = 14695981039346656037u;
    for (int i = 0; i < 256 * 256; i++) {
        uint32_t u;
        memcpy(&u, buffer[OUT] + i, 4);
        h = (h ^ u) * 1099511628211u;
    }
    return h;
}

static void reset_inputs(struct layer *l)
{
    view_in(l)->data = buffer[l->in];
    if (l->kind == CONV && l->io.epilogue.add)
        ((struct tachy_view *)l->io.epilogue.add)->data = buffer[l->add];
}

static const char *option(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return i + 1 < argc ? argv[i + 1] : "";
    return NULL;
}

int main(int argc, char **argv)
{
    const char *set = option(argc, argv, "--isa"), *n = option(argc, argv, "--runs");
    const char *model = option(argc, argv, "--model");
    isa = set ? (enum tachy_isa)tachy_isa_by_name(set) : tachy_cpu_isa();
    kernels = tachy_plan_kernels(isa);
    const char *rows = option(argc, argv, "--strips");
    int strips = rows ? atoi(rows) : 8;
    int runs = TACHY_CLAMP(n ? atoi(n) : 300, 3, MAX_RUNS);
    if (!kernels) {
        fprintf(stderr, "layers: --isa %s does not run here\n", set);
        return 77;
    }
    for (int i = 0; i < BUFFERS; i++)
        buffer[i] = random_floats(FLOATS, 1);
    for (int i = 0; i < 4; i++)
        window[i] = random_floats(FLOATS, 1);
    scratch = memory(1 << 20);
    build();
    if (option(argc, argv, "--tune"))
        tune(40);
    struct ort ort = {0};
    if (model)
        ort = open_ort(model);
    float *ours = memory(MAX_RUNS * 4), *theirs = memory(MAX_RUNS * 4);
    float *ratio = memory(MAX_RUNS * 4);
    for (int r = -5; r < runs; r++) {
        int at = TACHY_MAX(r, 0);
        theirs[at] = model ? (float)run_ort(&ort) : 0;
        run_whole(strips); // ONNX Runtime has filled the caches with its own
        ours[at] = (float)run_whole(strips);
        ratio[at] = ours[at] / theirs[at];
    }
    uint64_t bits = output_bits();
    for (int i = 0; i < count; i++) // back from the windows
        view_out(&layers[i])->data = buffer[layers[i].out], reset_inputs(&layers[i]);
    for (int r = 0; r < runs; r++)
        run_timed(r);
    if (bits != output_bits()) {
        fprintf(stderr, "layers: strips give other bits than whole layers\n");
        return 1;
    }
    double most = peak();
    if (!option(argc, argv, "--brief"))
        print_layers(runs, most);
    printf("%s, %s: %.3f ms (median of %d), peak %.1f GMAC/s\n", tachy_cpu_name(),
           tachy_isa_name(isa), median(ours, runs), runs, most);
    if (model)
        printf("%s: %.3f ms; ours is %.3f of it (median of the pairs)\n",
               tachy_engine_version(ort.engine), median(theirs, runs), median(ratio, runs));
    tachy_engine_close(&ort.engine);
    return 0;
}
