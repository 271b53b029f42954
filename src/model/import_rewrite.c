#include "model/import.h"

#include "base/base.h"

#include <stdlib.h>

// Rewrites that preserve a network's results (up to rounding) and speed up ONNX Runtime's CPU kernels. That runtime is
// fast with convolutions in blocks of 8 or 16 channels, with a ReLU or a sum fused after them. It is slow if an
// operator without a blocked form lies between them (PRelu, channel Pad, Mul with broadcasting), because both
// neighbours then convert their layout. docs/import.md has the measurements.
//
// Each rewrite changes a node in place, so that its output keeps its users, and appends new nodes that it needs; sort()
// restores the order.

static bool is(const struct onnx_node *n, const char *op) { return n->op && !strcmp(n->op, op); }

static struct onnx_shape *shape(struct onnx_graph *g, int v) { return &g->values[v].shape; }

static const int64_t *ints(struct onnx_node *n, const char *name)
{
    struct onnx_attr *a = onnx_find(n, name);
    return a ? a->ints : NULL;
}

// Turns `n` into another operator with the same output.
static void become(struct onnx_graph *g, struct onnx_node *n, const char *op, int n_in, const int *in)
{
    if (g->err)
        return;
    if (n_in > n->n_in) { // borrow the list of a new node, which is then dropped
        struct onnx_shape s = {0};
        int list[8];
        memcpy(list, in, (size_t)n_in * sizeof(int));
        struct onnx_node *donor = onnx_maker(g, onnx_add(g, op, n_in, list, ONNX_FLOAT, &s));
        if (g->err)
            return;
        n->in = donor->in;
        donor->op = NULL;
    } else {
        memmove(n->in, in, (size_t)n_in * sizeof(int));
    }
    n->op = op;
    n->n_in = n_in;
    n->n_attrs = 0;
}

static void copy_attrs(struct onnx_node *to, const struct onnx_node *from)
{
    to->n_attrs = from->n_attrs;
    memcpy(to->attrs, from->attrs, sizeof(to->attrs));
}

// A convolution of one pixel that looks at no neighbours, with constant weights.
static bool is_pointwise(struct onnx_graph *g, struct onnx_node *n)
{
    if (!is(n, "Conv") || onnx_find(n, "group") || !g->values[n->in[1]].data)
        return false;
    const int64_t *k = ints(n, "kernel_shape"), *s = ints(n, "strides"), *p = ints(n, "pads");
    return k[0] == 1 && k[1] == 1 && s[0] == 1 && s[1] == 1 && !p[0] && !p[1] && !p[2] && !p[3] &&
           (n->n_in < 3 || g->values[n->in[2]].data);
}

static void set_pointwise(struct onnx_node *n)
{
    onnx_set_ints(n, "kernel_shape", 2, (int64_t[]){1, 1});
    onnx_set_ints(n, "strides", 2, (int64_t[]){1, 1});
    onnx_set_ints(n, "pads", 4, (int64_t[]){0, 0, 0, 0});
}

static int add_pointwise(struct onnx_graph *g, int x, const struct onnx_node *like,
                         const struct onnx_shape *s)
{
    int in[3] = {x, like->in[1], like->n_in > 2 ? like->in[2] : 0};
    int y = onnx_add(g, "Conv", like->n_in, in, ONNX_FLOAT, s);
    set_pointwise(onnx_maker(g, y));
    return y;
}

static bool is_bilinear(struct onnx_node *n)
{
    struct onnx_attr *mode = is(n, "Resize") ? onnx_find(n, "mode") : NULL;
    return mode && !strcmp(mode->s, "linear");
}

// conv(resize(x)) = resize(conv(x)): the weights of an interpolation sum to one. Done if the convolution reduces the
// number of channels.
static void commute_resize(struct onnx_graph *g, struct onnx_node *n)
{
    struct onnx_node *r = onnx_maker(g, n->in[0]);
    if (!is_pointwise(g, n) || !is_bilinear(r) || g->values[n->in[0]].users != 1)
        return;
    struct onnx_shape small = *shape(g, r->in[0]), out = *shape(g, n->out[0]);
    if (out.dim[1] >= small.dim[1] || small.dim[2] > out.dim[2] || small.dim[3] > out.dim[3])
        return;
    small.dim[1] = out.dim[1];
    int y = add_pointwise(g, r->in[0], n, &small);
    become(g, n, "Resize", 4, (int[]){y, 0, 0, onnx_ints(g, 4, out.dim)});
    copy_attrs(n, r);
}

// Merges two consecutive pointwise convolutions if that needs fewer products.
static void merge_pointwise(struct onnx_graph *g, struct onnx_node *n)
{
    struct onnx_node *f = onnx_maker(g, n->in[0]);
    if (!is_pointwise(g, n) || !is_pointwise(g, f) || g->values[n->in[0]].users != 1)
        return;
    int64_t in = shape(g, f->in[0])->dim[1], mid = shape(g, n->in[0])->dim[1];
    int64_t out = shape(g, n->out[0])->dim[1];
    if (in * out > in * mid + mid * out)
        return;
    int w = onnx_const(g, ONNX_FLOAT, &(struct onnx_shape){4, {out, in, 1, 1}});
    int b = onnx_const(g, ONNX_FLOAT, &(struct onnx_shape){1, {out}});
    if (!w || !b)
        return;
    const float *w1 = g->values[f->in[1]].data, *w2 = g->values[n->in[1]].data;
    const float *b1 = f->n_in > 2 ? g->values[f->in[2]].data : NULL;
    const float *b2 = n->n_in > 2 ? g->values[n->in[2]].data : NULL;
    float *wo = g->values[w].data, *bo = g->values[b].data;
    for (int64_t o = 0; o < out; o++) {
        double bias = b2 ? b2[o] : 0;
        for (int64_t m = 0; b1 && m < mid; m++)
            bias += (double)w2[o * mid + m] * b1[m];
        bo[o] = (float)bias;
        for (int64_t i = 0; i < in; i++) {
            double sum = 0;
            for (int64_t m = 0; m < mid; m++)
                sum += (double)w2[o * mid + m] * w1[m * in + i];
            wo[o * in + i] = (float)sum;
        }
    }
    become(g, n, "Conv", 3, (int[]){f->in[0], w, b});
    set_pointwise(n);
}

// True if every source pixel has the same total weight in a resized picture: so for interpolation about pixel centres
// by integer factors, including the edges.
static bool keeps_mean(struct onnx_graph *g, struct onnx_node *r)
{
    if (!is_bilinear(r))
        return false;
    const struct onnx_shape *a = shape(g, r->in[0]), *b = shape(g, r->out[0]);
    return !strcmp(onnx_find(r, "coordinate_transformation_mode")->s, "half_pixel") &&
           b->dim[2] % a->dim[2] == 0 && b->dim[3] % a->dim[3] == 0;
}

static int mean_of(struct onnx_graph *g, int v)
{
    struct onnx_node *n = onnx_maker(g, v);
    struct onnx_shape s = {4, {shape(g, v)->dim[0], shape(g, v)->dim[1], 1, 1}};
    if (keeps_mean(g, n))
        return mean_of(g, n->in[0]);
    if (is_pointwise(g, n) && keeps_mean(g, onnx_maker(g, n->in[0])))
        return add_pointwise(g, mean_of(g, n->in[0]), n, &s);
    return onnx_add(g, "GlobalAveragePool", 1, &v, ONNX_FLOAT, &s);
}

// mean(a + b) = mean(a) + mean(b), if the sum itself has no other use.
static void split_mean(struct onnx_graph *g, struct onnx_node *n)
{
    struct onnx_node *sum = onnx_maker(g, n->in[0]);
    if (!is(n, "GlobalAveragePool") || !is(sum, "Add") || g->values[n->in[0]].users != 1 ||
        shape(g, sum->in[0])->rank != 4 || g->values[sum->in[0]].data || g->values[sum->in[1]].data ||
        !onnx_same_shape(shape(g, sum->in[0]), shape(g, sum->in[1])))
        return;
    int a = mean_of(g, sum->in[0]), b = mean_of(g, sum->in[1]);
    become(g, n, "Add", 2, (int[]){a, b}); // n has one input: become() finds room
}

// A gate for each channel (squeeze-and-excite) is spread over the picture first: the product of
// two pictures has a blocked form.
static void spread_gate(struct onnx_graph *g, struct onnx_node *n)
{
    if (!is(n, "Mul") || shape(g, n->out[0])->rank != 4 || g->values[n->out[0]].dtype != ONNX_FLOAT)
        return;
    struct onnx_shape out = *shape(g, n->out[0]);
    for (int i = 0; i < 2; i++) {
        const struct onnx_shape *s = shape(g, n->in[i]), *other = shape(g, n->in[!i]);
        if (g->values[n->in[i]].data || s->rank != 4 || s->dim[2] != 1 || s->dim[3] != 1 ||
            s->dim[1] != out.dim[1] || s->dim[0] != out.dim[0] || out.dim[2] * out.dim[3] == 1 ||
            !onnx_same_shape(other, &out))
            continue;
        int in[4] = {n->in[i], 0, 0, onnx_ints(g, 4, out.dim)};
        int y = onnx_add(g, "Resize", 4, in, ONNX_FLOAT, &out);
        struct onnx_node *r = onnx_maker(g, y);
        onnx_set_string(r, "coordinate_transformation_mode", "asymmetric");
        onnx_set_string(r, "mode", "nearest");
        onnx_set_string(r, "nearest_mode", "floor");
        n->in[i] = y;
        return;
    }
}

// The first convolution reads the N H W C picture as one channel of height H and width W * C:
// a kernel kh x kw over C channels is one of kh x (kw * C) with C times the horizontal stride,
// and nothing is transposed.
static void flatten_stem(struct onnx_graph *g, struct onnx_node *n)
{
    struct onnx_node *t = is(n, "Conv") ? onnx_maker(g, n->in[0]) : NULL;
    if (!t || !is(t, "Transpose") || g->values[n->in[0]].users != 1 || onnx_find(n, "group") ||
        onnx_find(n, "dilations") || !g->values[n->in[1]].data || shape(g, n->in[0])->rank != 4)
        return;
    const int64_t *perm = ints(t, "perm");
    struct onnx_shape x = *shape(g, t->in[0]), w = *shape(g, n->in[1]);
    if (perm[1] != 3 || perm[2] != 1 || x.dim[3] > 4 || g->values[t->in[0]].dtype != ONNX_FLOAT)
        return;
    int64_t c = x.dim[3], k[2], s[2], p[4];
    memcpy(k, ints(n, "kernel_shape"), sizeof(k));
    memcpy(s, ints(n, "strides"), sizeof(s));
    memcpy(p, ints(n, "pads"), sizeof(p));
    int native = onnx_transpose(g, n->in[1], (int[]){0, 2, 3, 1});
    int weights = onnx_reshape(g, native, &(struct onnx_shape){4, {w.dim[0], 1, k[0], k[1] * c}});
    int row = onnx_reshape(g, t->in[0], &(struct onnx_shape){4, {x.dim[0], 1, x.dim[1], x.dim[2] * c}});
    n->in[0] = row;
    n->in[1] = weights;
    onnx_set_ints(n, "kernel_shape", 2, (int64_t[]){k[0], k[1] * c});
    onnx_set_ints(n, "strides", 2, (int64_t[]){s[0], s[1] * c});
    onnx_set_ints(n, "pads", 4, (int64_t[]){p[0], p[1] * c, p[2], p[3] * c});
}

// A depthwise convolution of one pixel: channel i times scale[i] * by + add.
static int scale_channels(struct onnx_graph *g, int x, const float *scale, bool one, float by, float add)
{
    struct onnx_shape s = *shape(g, x);
    int w = onnx_const(g, ONNX_FLOAT, &(struct onnx_shape){4, {s.dim[1], 1, 1, 1}});
    for (int64_t i = 0; w && i < s.dim[1]; i++)
        ((float *)g->values[w].data)[i] = scale[one ? 0 : i] * by + add;
    int y = onnx_add(g, "Conv", 2, (int[]){x, w}, ONNX_FLOAT, &s);
    set_pointwise(onnx_maker(g, y));
    onnx_set_int(onnx_maker(g, y), "group", s.dim[1]);
    return y;
}

// prelu(x) = a x + relu((1 - a) x) if no slope a is above one, else a x + (1 - a) relu(x): two or three blocked
// operators that fuse, instead of one that is not blocked.
static void split_prelu(struct onnx_graph *g, struct onnx_node *n)
{
    if (!is(n, "PRelu") || shape(g, n->in[0])->rank != 4 || !g->values[n->in[1]].data)
        return;
    struct onnx_shape s = *shape(g, n->in[0]);
    int64_t slopes = onnx_elements(shape(g, n->in[1]));
    bool one = slopes == 1;
    const struct onnx_shape *a = shape(g, n->in[1]);
    bool by_channel = a->rank == 4 && slopes == s.dim[1] && a->dim[1] == slopes;
    if (s.dim[1] % 8 || s.dim[2] * s.dim[3] < 4 || (!one && !by_channel))
        return;
    const float *slope = g->values[n->in[1]].data;
    bool steep = false;
    for (int64_t i = 0; i < slopes; i++)
        steep |= !(slope[i] <= 1);
    int x = n->in[0], rest;
    if (steep)
        rest = scale_channels(g, onnx_unary(g, "Relu", x), slope, one, -1, 1);
    else
        rest = onnx_unary(g, "Relu", scale_channels(g, x, slope, one, -1, 1));
    int line = scale_channels(g, x, slope, one, 1, 0);
    become(g, n, "Add", 2, (int[]){line, rest});
}

// Channels of zeros after the others: a convolution with ones on its diagonal, whose sum with the next convolution is
// fused.
static void pad_channels(struct onnx_graph *g, struct onnx_node *n)
{
    if (!is(n, "Pad") || n->n_in != 2 || shape(g, n->in[0])->rank != 4)
        return;
    const int64_t *p = g->values[n->in[1]].data;
    int64_t c = shape(g, n->in[0])->dim[1], out = c + p[5];
    for (int i = 0; i < 8; i++)
        if (i != 5 && p[i])
            return;
    if (!p[5] || c % 8 || out % 8 || out > 512)
        return;
    int w = onnx_const(g, ONNX_FLOAT, &(struct onnx_shape){4, {out, c, 1, 1}});
    for (int64_t i = 0; w && i < c; i++)
        ((float *)g->values[w].data)[i * c + i] = 1;
    become(g, n, "Conv", 2, (int[]){n->in[0], w});
    set_pointwise(n);
}

// f(x) reshaped = f of reshaped x: the graph's last node then writes its output directly, instead of through a Reshape
// that copies.
static void unary_last(struct onnx_graph *g, struct onnx_node *n)
{
    struct onnx_node *f = is(n, "Reshape") ? onnx_maker(g, n->in[0]) : NULL;
    if (!f || !(is(f, "Sigmoid") || is(f, "Tanh") || is(f, "Relu")) ||
        g->values[f->out[0]].users != 1 || is(onnx_maker(g, f->in[0]), "Conv"))
        return;
    int x = f->in[0], y = onnx_add(g, "Reshape", 2, (int[]){x, n->in[1]}, g->values[x].dtype,
                                   shape(g, n->out[0]));
    become(g, n, f->op, 1, &y);
}

// Nodes in an order in which they can run, as close to the present one as that allows.
static void sort(struct onnx_graph *g)
{
    int n = g->n_nodes, depth = 0, placed = 1;
    int *stack = calloc((size_t)n, sizeof(int)), *next = calloc((size_t)n, sizeof(int));
    struct onnx_node **sorted = calloc((size_t)n, sizeof(*sorted));
    if (!stack || !next || !sorted) {
        g->err = TACHY_ERR_NOMEM;
        goto end;
    }
    // next[i]: input of node i to look at next, -1: placed.
    for (int i = 1; i < n; i++) {
        if (next[i] < 0)
            continue;
        stack[depth++] = i;
        while (depth) {
            int k = stack[depth - 1];
            struct onnx_node *node = g->nodes[k];
            int maker = 0;
            while (!maker && next[k] < node->n_in)
                maker = g->values[node->in[next[k]++]].maker;
            if (maker && next[maker] >= 0) {
                stack[depth++] = maker;
            } else if (!maker) {
                next[k] = -1;
                sorted[placed++] = node;
                depth--;
            }
        }
    }
    memcpy(g->nodes + 1, sorted + 1, (size_t)(n - 1) * sizeof(*sorted));
    for (int i = 1; i < n; i++)
        for (int k = 0; k < g->nodes[i]->n_out; k++)
            g->values[g->nodes[i]->out[k]].maker = i;
end:
    free(stack);
    free(next);
    free(sorted);
}

void import_rewrite(struct onnx_graph *g)
{
    static void (*const rewrites[])(struct onnx_graph *, struct onnx_node *) = {
        commute_resize, merge_pointwise, split_mean,   spread_gate,
        flatten_stem,   split_prelu,     pad_channels, unary_last,
    };
    onnx_prune(g);
    for (size_t r = 0; r < TACHY_ARRAY_SIZE(rewrites) && !g->err; r++) {
        for (int i = 1, n = g->n_nodes; i < n && !g->err; i++) {
            g->origin = g->nodes[i]->origin;
            if (g->nodes[i]->op)
                rewrites[r](g, g->nodes[i]);
        }
        if (!g->err)
            sort(g);
        if (!g->err)
            onnx_prune(g);
    }
}
