#pragma once
// Bytes become a graph of a plan: struct fuzz holds both, and build() makes the graph. See fuzz_plan.c.
#include "base/base.h"
#include "plan/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Larger graphs say nothing more and take long.
enum { MOST_NODES = 24, MOST_ELEMENTS = 1 << 14, MOST_WORK = 1 << 20 };

struct fuzz {
    const uint8_t *data;
    size_t size;
    struct tachy_graph *g;
    unsigned seed; // of the numbers
};

static int pick(struct fuzz *f, int n)
{
    if (!f->size)
        return 0;
    f->size--;
    return *f->data++ % n;
}

static float noise(struct fuzz *f)
{
    f->seed = f->seed * 1664525u + 1013904223u;
    return (float)((int)(f->seed >> 24) - 128) / 64;
}

static int64_t odd_size(struct fuzz *f)
{
    static const int64_t odd[] = {0, -1, 1, 2, 3, 7, 17, 64, 65535, 1 << 20, INT32_MAX, INT32_MIN, 1LL << 31,
                                  1LL << 40, INT64_MAX, INT64_MIN};
    return odd[pick(f, TACHY_ARRAY_SIZE(odd))];
}

static float odd_float(struct fuzz *f)
{
    const float odd[] = {0, -1, 1, 0.5f, 6, 3, 1.0f / 6, -2.5f, 1e30f, NAN, INFINITY, -INFINITY, 0.1f};
    return odd[pick(f, TACHY_ARRAY_SIZE(odd))];
}

static struct tachy_value *value(struct fuzz *f, int rank, const int64_t *shape)
{
    return tachy_graph_value(f->g, NULL, TACHY_F32, rank, shape);
}

static struct tachy_value *numbers(struct fuzz *f, int rank, const int64_t *shape)
{
    struct tachy_value *v = value(f, rank, shape);
    int64_t n = tachy_value_elements(v);
    if (n < 0 || n > MOST_ELEMENTS)
        return v; // neither input nor constant: nobody makes it
    float *data = tachy_graph_alloc(f->g, sizeof(*data) * (size_t)TACHY_MAX(n, 1));
    for (int64_t i = 0; i < n; i++)
        data[i] = noise(f);
    v->data = data;
    return v;
}

static struct tachy_value *number(struct fuzz *f, float x)
{
    struct tachy_value *v = numbers(f, 0, NULL);
    *(float *)(uintptr_t)v->data = x;
    return v;
}

static struct tachy_value *input(struct fuzz *f)
{
    int rank = pick(f, 4) ? 4 : pick(f, 7);
    int64_t shape[TACHY_MAX_RANK];
    for (int i = 0; i < rank; i++)
        shape[i] = pick(f, 64) == 63 ? odd_size(f) : 1 + pick(f, i ? 9 : 2);
    struct tachy_value *v = value(f, rank, shape);
    tachy_graph_add_input(f->g, v);
    return v;
}

// One of the values so far, one of the latest in most cases.
static struct tachy_value *any_of(struct fuzz *f, enum tachy_dtype t)
{
    for (int i = 0; i < 8; i++) {
        int n = f->g->nb_values, back = pick(f, 3) ? pick(f, TACHY_MIN(n, 3)) : pick(f, n);
        if (f->g->values[n - 1 - back]->dtype == t)
            return f->g->values[n - 1 - back];
    }
    return f->g->values[0];
}

static struct tachy_value *any(struct fuzz *f) { return any_of(f, TACHY_F32); }

static struct tachy_value *picture(struct fuzz *f)
{
    for (int i = 0; i < 8; i++) {
        struct tachy_value *v = any(f);
        if (v->rank == 4)
            return v;
    }
    return f->g->values[0];
}

static struct tachy_value *make(struct fuzz *f, enum tachy_plan_op op, const struct tachy_plan_attr *a,
                                struct tachy_value *const *in, int nb_in, struct tachy_value *out)
{
    tachy_graph_node(f->g, NULL, op, "n", a, in, nb_in, out);
    return out;
}

static struct tachy_value *unary_of(struct fuzz *f, enum tachy_plan_act act, float a, float b,
                                    struct tachy_value *x)
{
    struct tachy_plan_attr at = {.act = {act, a, b}};
    int64_t slope[3] = {x->rank == 4 ? x->shape[1] : 1, 1, 1};
    bool prelu = act == TACHY_PLAN_PRELU;
    struct tachy_value *in[2] = {x, prelu ? numbers(f, pick(f, 4) ? 3 : 1, slope) : NULL};
    return make(f, TACHY_OP_UNARY, &at, in, prelu ? 2 : 1, value(f, x->rank, x->shape));
}

static void unary(struct fuzz *f)
{
    enum tachy_plan_act act = (enum tachy_plan_act)(1 + pick(f, TACHY_PLAN_ACTS - 1));
    float a = act == TACHY_PLAN_CLIP ? 0 : 0.25f, b = act == TACHY_PLAN_CLIP ? 6 : 0.5f;
    if (pick(f, 4) == 3)
        a = odd_float(f), b = odd_float(f);
    unary_of(f, act, a, b, any(f));
}

static struct tachy_value *binary_of(struct fuzz *f, enum tachy_plan_binary how, struct tachy_value *x,
                                     struct tachy_value *y)
{
    int64_t shape[TACHY_MAX_RANK];
    int rank = TACHY_MAX(x->rank, y->rank);
    for (int i = 1; i <= rank; i++) {
        int64_t a = i <= x->rank ? x->shape[x->rank - i] : 1, b = i <= y->rank ? y->shape[y->rank - i] : 1;
        shape[rank - i] = a == 1 ? b : a;
    }
    struct tachy_plan_attr at = {.binary = how};
    enum tachy_dtype t = tachy_plan_binary_compares(how) ? TACHY_U8 : TACHY_F32;
    return make(f, TACHY_OP_BINARY, &at, (struct tachy_value *[]){x, y}, 2,
                tachy_graph_value(f->g, NULL, t, rank, shape));
}

static void binary(struct fuzz *f)
{
    enum tachy_plan_binary how = (enum tachy_plan_binary)pick(f, TACHY_PLAN_BINARIES);
    struct tachy_value *x = any(f), *y = NULL;
    int64_t shape[TACHY_MAX_RANK];
    switch (pick(f, 5)) {
    case 0: y = number(f, odd_float(f)); break;
    case 1: y = x; break;
    case 2: y = any(f); break;
    default: // some axes of x
        for (int i = 0; i < x->rank; i++)
            shape[i] = pick(f, 2) ? x->shape[i] : 1;
        y = numbers(f, x->rank, shape);
    }
    bool turned = pick(f, 2);
    binary_of(f, how, turned ? y : x, turned ? x : y);
}

static int64_t slid(int64_t size, int kernel, int stride, int dilation, int pads)
{
    int64_t room = TACHY_CLAMP(size, -1, 1 << 20) + pads - (int64_t)(kernel - 1) * dilation - 1;
    return room < 0 ? -1 : room / stride + 1;
}

static struct tachy_value *conv_of(struct fuzz *f, struct tachy_value *x, int64_t channels, int kernel)
{
    struct tachy_plan_attr a = {.conv = {.groups = 1}};
    int64_t shape[4] = {x->shape[0], channels}, w[4] = {channels, x->shape[1], 0, 0};
    bool depthwise = pick(f, 4) == 3;
    if (depthwise) {
        a.conv.groups = (int)TACHY_CLAMP(x->shape[1], 1, 64);
        shape[1] = w[0] = a.conv.groups * (1 + pick(f, 2));
        w[1] = 1;
    }
    for (int i = 0; i < 2; i++) {
        a.conv.kernel[i] = kernel ? kernel : 1 + pick(f, 5);
        w[2 + i] = a.conv.kernel[i];
        a.conv.stride[i] = kernel ? 1 : 1 + pick(f, 3);
        a.conv.dilation[i] = kernel ? 1 : 1 + pick(f, 2);
        a.conv.pad[i] = kernel ? kernel / 2 : pick(f, 3);
        a.conv.pad[2 + i] = kernel ? kernel / 2 : pick(f, 3);
        shape[2 + i] = slid(x->shape[2 + i], a.conv.kernel[i], a.conv.stride[i], a.conv.dilation[i],
                            a.conv.pad[i] + a.conv.pad[2 + i]);
    }
    struct tachy_value *in[3] = {x, numbers(f, 4, w), pick(f, 2) ? numbers(f, 1, &shape[1]) : NULL};
    return make(f, TACHY_OP_CONV, &a, in, 3, value(f, 4, shape));
}

static void conv(struct fuzz *f) { conv_of(f, picture(f), 1 + pick(f, 20), pick(f, 3) ? 1 + 2 * pick(f, 2) : 0); }

static void deconv(struct fuzz *f)
{
    struct tachy_value *x = picture(f);
    struct tachy_plan_attr a = {.conv = {.groups = pick(f, 3) ? 1 : (int)TACHY_CLAMP(x->shape[1], 1, 8)}};
    int64_t w[4] = {x->shape[1], 1 + pick(f, 9), 0, 0}, shape[4] = {x->shape[0], w[1] * a.conv.groups};
    for (int i = 0; i < 2; i++) {
        w[2 + i] = a.conv.kernel[i] = 1 + pick(f, 4);
        a.conv.stride[i] = 1 + pick(f, 3);
        a.conv.dilation[i] = 1 + pick(f, 8) / 7;
        a.conv.pad[i] = pick(f, 2);
        a.conv.pad[2 + i] = pick(f, 2);
        a.conv.out_pad[i] = pick(f, a.conv.stride[i]);
        shape[2 + i] = (TACHY_CLAMP(x->shape[2 + i], -1, 1 << 20) - 1) * a.conv.stride[i] - a.conv.pad[i] -
                       a.conv.pad[2 + i] + (a.conv.kernel[i] - 1) * a.conv.dilation[i] + 1 + a.conv.out_pad[i];
    }
    struct tachy_value *in[3] = {x, numbers(f, 4, w), pick(f, 2) ? numbers(f, 1, &shape[1]) : NULL};
    make(f, TACHY_OP_DECONV, &a, in, 3, value(f, 4, shape));
}

static void matmul(struct fuzz *f)
{
    struct tachy_value *x = any(f);
    struct tachy_plan_attr a = {.matmul = {.trans_b = pick(f, 2), .alpha = 1}};
    int64_t columns = 1 + pick(f, 20), k = x->rank ? x->shape[x->rank - 1] : 1, shape[TACHY_MAX_RANK] = {1, 1};
    int64_t w[2] = {a.matmul.trans_b ? columns : k, a.matmul.trans_b ? k : columns};
    memcpy(shape, x->shape, sizeof(shape));
    if (x->rank)
        shape[x->rank - 1] = columns;
    struct tachy_value *b = pick(f, 4) ? numbers(f, 2, w) : any(f);
    struct tachy_value *in[3] = {x, b, pick(f, 2) ? numbers(f, 1, &columns) : NULL};
    make(f, TACHY_OP_MATMUL, &a, in, 3, value(f, x->rank, shape));
}

static void concat(struct fuzz *f)
{
    struct tachy_value *x = any(f), *in[4] = {x};
    int n = 1 + pick(f, 3), axis = x->rank ? pick(f, x->rank) : 0;
    int64_t shape[TACHY_MAX_RANK] = {0};
    memcpy(shape, x->shape, sizeof(shape));
    for (int i = 1; i < n; i++) {
        struct tachy_value *y = any(f);
        bool fits = y->rank == x->rank;
        for (int d = 0; d < x->rank && fits; d++)
            fits = d == axis || y->shape[d] == x->shape[d];
        in[i] = fits ? y : x;
        if (x->rank)
            shape[axis] = (int64_t)((uint64_t)shape[axis] + (uint64_t)in[i]->shape[axis]);
    }
    make(f, TACHY_OP_CONCAT, &(struct tachy_plan_attr){.axis = axis}, in, n, value(f, x->rank, shape));
}

static void slice(struct fuzz *f)
{
    struct tachy_value *x = any(f);
    struct tachy_plan_attr a = {0};
    int64_t shape[TACHY_MAX_RANK];
    for (int i = 0; i < TACHY_MAX_RANK; i++)
        a.slice.step[i] = 1;
    for (int i = 0; i < x->rank; i++) {
        int64_t size = TACHY_CLAMP(x->shape[i], 1, 100);
        a.slice.start[i] = pick(f, 2) ? pick(f, (int)size) : 0;
        a.slice.step[i] = 1 + (pick(f, 3) ? 0 : pick(f, 3));
        int64_t left = (size - a.slice.start[i] + a.slice.step[i] - 1) / a.slice.step[i];
        shape[i] = x->shape[i] < 1 ? x->shape[i] : TACHY_MAX(left - pick(f, 3) / 2, 0);
    }
    make(f, TACHY_OP_SLICE, &a, &x, 1, value(f, x->rank, shape));
}

static struct tachy_value *pad_of(struct fuzz *f, struct tachy_value *x)
{
    struct tachy_plan_attr a = {.pad = {.value = pick(f, 4) ? 0 : odd_float(f)}};
    int64_t shape[TACHY_MAX_RANK];
    for (int i = 0; i < x->rank; i++) {
        if (i > 1 || !pick(f, 4)) {
            a.pad.before[i] = pick(f, 3);
            a.pad.after[i] = pick(f, 3);
        }
        shape[i] = TACHY_CLAMP(x->shape[i], -1, 1 << 20) + a.pad.before[i] + a.pad.after[i];
    }
    return make(f, TACHY_OP_PAD, &a, &x, 1, value(f, x->rank, shape));
}

static void pad(struct fuzz *f) { pad_of(f, any(f)); }

static struct tachy_value *transpose_of(struct fuzz *f, struct tachy_value *x)
{
    struct tachy_plan_attr a = {0};
    int64_t shape[TACHY_MAX_RANK];
    int form = pick(f, 4), last[4] = {0, 2, 3, 1}, first[4] = {0, 3, 1, 2};
    for (int i = 0; i < x->rank; i++)
        a.perm[i] = i;
    if (x->rank == 4 && form < 2)
        memcpy(a.perm, form ? last : first, sizeof(last));
    for (int i = x->rank - 1; i > 0 && form > 1; i--) {
        int k = pick(f, i + 1), t = a.perm[i];
        a.perm[i] = a.perm[k];
        a.perm[k] = t;
    }
    for (int i = 0; i < x->rank; i++)
        shape[i] = x->shape[a.perm[i]];
    return make(f, TACHY_OP_TRANSPOSE, &a, &x, 1, value(f, x->rank, shape));
}

static void transpose(struct fuzz *f) { transpose_of(f, any(f)); }

// Dimensions joined and torn apart.
static void reshape(struct fuzz *f)
{
    struct tachy_value *x = any(f);
    int64_t shape[TACHY_MAX_RANK], left = TACHY_MAX(tachy_value_elements(x), 0);
    int rank = pick(f, TACHY_MAX_RANK + 1);
    for (int i = 0; i < rank; i++) {
        int64_t part = i + 1 == rank ? left : 1 + pick(f, 6);
        shape[i] = part > 0 && left % part ? 1 : part;
        left = shape[i] > 0 ? left / shape[i] : 0;
    }
    make(f, TACHY_OP_RESHAPE, NULL, &x, 1, value(f, rank, shape));
}

static void expand(struct fuzz *f)
{
    struct tachy_value *x = any(f);
    int more = TACHY_MIN(pick(f, 3) / 2, TACHY_MAX_RANK - x->rank);
    int64_t shape[TACHY_MAX_RANK];
    for (int i = 0; i < x->rank + more; i++)
        shape[i] = i < more || x->shape[i - more] == 1 ? 1 + pick(f, 4) : x->shape[i - more];
    make(f, TACHY_OP_EXPAND, NULL, &x, 1, value(f, x->rank + more, shape));
}

static void resize(struct fuzz *f)
{
    struct tachy_value *x = picture(f);
    struct tachy_plan_attr a = {0};
    int64_t shape[4] = {x->shape[0], x->shape[1]};
    a.resize.mode = (enum tachy_plan_resize)pick(f, 3);
    a.resize.cubic = -0.75f;
    a.resize.coords = (enum tachy_plan_coords)pick(f, 4);
    a.resize.round = pick(f, 4);
    for (int i = 0; i < 2; i++) {
        shape[2 + i] = 1 + pick(f, 16);
        a.resize.scale[i] = (float)shape[2 + i] / (float)x->shape[2 + i];
        if (pick(f, 8) == 7)
            a.resize.scale[i] = odd_float(f);
    }
    make(f, TACHY_OP_RESIZE, &a, &x, 1, value(f, 4, shape));
}

static void pool(struct fuzz *f)
{
    struct tachy_value *x = picture(f);
    struct tachy_plan_attr a = {.pool = {.average = pick(f, 2), .count_padding = pick(f, 2)}};
    int64_t shape[4] = {x->shape[0], x->shape[1]};
    for (int i = 0; i < 2; i++) {
        a.pool.kernel[i] = 1 + pick(f, 4);
        a.pool.stride[i] = 1 + pick(f, 3);
        a.pool.pad[i] = pick(f, 3);
        a.pool.pad[2 + i] = pick(f, 3);
        shape[2 + i] = slid(x->shape[2 + i], a.pool.kernel[i], a.pool.stride[i], 1, a.pool.pad[i] + a.pool.pad[2 + i]);
    }
    make(f, TACHY_OP_POOL, &a, &x, 1, value(f, 4, shape));
}

static struct tachy_value *reduce_of(struct fuzz *f, struct tachy_value *x, enum tachy_plan_reduce how, int axes)
{
    struct tachy_plan_attr a = {.reduce = {.how = how}};
    int64_t shape[TACHY_MAX_RANK];
    for (int i = 0; i < x->rank; i++) {
        a.reduce.axis[i] = axes >> i & 1;
        shape[i] = a.reduce.axis[i] ? 1 : x->shape[i];
    }
    return make(f, TACHY_OP_REDUCE, &a, &x, 1, value(f, x->rank, shape));
}

static void reduce(struct fuzz *f)
{
    enum tachy_plan_reduce how = (enum tachy_plan_reduce)pick(f, TACHY_PLAN_REDUCES);
    reduce_of(f, any(f), how, pick(f, 3) ? 12 : pick(f, 256));
}

static void softmax(struct fuzz *f)
{
    struct tachy_value *x = any(f);
    struct tachy_plan_attr a = {.axis = x->rank ? pick(f, x->rank) : 0, .log = pick(f, 4) == 3};
    struct tachy_value *y = value(f, x->rank, x->shape), *in[] = {x, NULL};
    if (x->rank && !a.log && pick(f, 3) == 2) { // a sum with weights, of all along the axis or of halves
        const int64_t n = x->shape[a.axis] % 2 || pick(f, 2) ? x->shape[a.axis] : x->shape[a.axis] / 2;
        in[1] = n > 0 ? numbers(f, 1, &n) : NULL;
        y->shape[a.axis] = in[1] ? x->shape[a.axis] / n : x->shape[a.axis];
    }
    make(f, TACHY_OP_SOFTMAX, &a, in, in[1] ? 2 : 1, y);
}

static void select_of(struct fuzz *f)
{
    struct tachy_value *x = any(f), *y = pick(f, 2) ? number(f, odd_float(f)) : x;
    struct tachy_value *in[3] = {binary_of(f, TACHY_PLAN_LESS, x, pick(f, 2) ? number(f, 0) : x), x, y};
    if (pick(f, 4) == 3)
        in[0] = any_of(f, TACHY_U8);
    make(f, TACHY_OP_SELECT, NULL, in, 3, value(f, x->rank, x->shape));
}

// Rows that are there, and now and then some that are not.
static void gather(struct fuzz *f)
{
    struct tachy_value *x = any(f);
    struct tachy_plan_attr a = {.axis = x->rank ? pick(f, x->rank) : 0};
    int64_t shape[TACHY_MAX_RANK] = {0}, n = 1 + pick(f, 5), size = x->rank ? x->shape[a.axis] : 1;
    int64_t *index = tachy_graph_alloc(f->g, sizeof(*index) * (size_t)n);
    for (int i = 0; i < n; i++)
        index[i] = pick(f, 16) == 15 ? odd_size(f) : pick(f, (int)TACHY_CLAMP(size, 1, 100));
    memcpy(shape, x->shape, sizeof(shape));
    shape[a.axis] = n;
    struct tachy_value *i = tachy_graph_constant(f->g, NULL, TACHY_I64, 1, &n, index);
    make(f, TACHY_OP_GATHER, &a, (struct tachy_value *[]){x, i}, 2, value(f, x->rank, shape));
}

static struct tachy_value *indices(struct fuzz *f, int rank, const int64_t *shape, int64_t below)
{
    struct tachy_value *v = tachy_graph_value(f->g, NULL, TACHY_I64, rank, shape);
    int64_t n = tachy_value_elements(v);
    if (n < 0 || n > MOST_ELEMENTS)
        return v;
    int64_t *data = tachy_graph_alloc(f->g, sizeof(*data) * (size_t)TACHY_MAX(n, 1)), odd = odd_size(f);
    bool far = !pick(f, 8);
    for (int64_t i = 0; i < n; i++) {
        f->seed = f->seed * 1664525u + 1013904223u;
        data[i] = far && i % 5 == 4 ? odd : (int64_t)(f->seed >> 8) % TACHY_MAX(below, 1);
    }
    return tachy_graph_constant(f->g, NULL, TACHY_I64, rank, shape, data);
}

// An index for each element that is gathered or written.
static void pick_each(struct fuzz *f)
{
    struct tachy_value *x = any(f), *in[3] = {x};
    int axis = x->rank ? pick(f, x->rank) : 0;
    int64_t shape[TACHY_MAX_RANK] = {0}, below = x->rank ? TACHY_CLAMP(x->shape[axis], 1, 100) : 1;
    for (int i = 0; i < x->rank; i++)
        shape[i] = i == axis ? 1 + pick(f, 6) : TACHY_MAX(TACHY_MAX(x->shape[i], 1) - pick(f, 3) / 2, 1);
    in[1] = indices(f, x->rank, shape, below);
    if (pick(f, 2)) {
        struct tachy_plan_attr a = {.axis = axis};
        make(f, TACHY_OP_GATHER_EACH, &a, in, 2, value(f, x->rank, shape));
    } else {
        struct tachy_plan_attr a = {.scatter = {axis, (enum tachy_plan_scatter)pick(f, TACHY_PLAN_SCATTERS)}};
        in[2] = numbers(f, x->rank, shape);
        make(f, TACHY_OP_SCATTER_EACH, &a, in, 3, value(f, x->rank, x->shape));
    }
}

// Lines of indices, each for the first dimensions.
static void pick_lines(struct fuzz *f)
{
    struct tachy_value *x = any(f), *in[3] = {x};
    int deep = x->rank ? 1 + pick(f, x->rank) : 1, rank = TACHY_MAX(x->rank - deep, 0) + 1;
    int64_t shape[TACHY_MAX_RANK] = {1 + pick(f, 5)}, lines[2] = {shape[0], deep}, below = 100;
    for (int i = 0; i < x->rank; i++) {
        if (i < deep)
            below = TACHY_MIN(below, x->shape[i]);
        else
            shape[1 + i - deep] = x->shape[i];
    }
    in[1] = indices(f, 2, lines, below);
    if (pick(f, 2)) {
        make(f, TACHY_OP_GATHER_ND, NULL, in, 2, value(f, rank, shape));
    } else {
        struct tachy_plan_attr a = {.scatter = {0, (enum tachy_plan_scatter)pick(f, TACHY_PLAN_SCATTERS)}};
        in[2] = numbers(f, rank, shape);
        make(f, TACHY_OP_SCATTER_ND, &a, in, 3, value(f, x->rank, x->shape));
    }
}

// Only of inputs: rounding may reorder computed values.
static void top(struct fuzz *f)
{
    struct tachy_value *x = f->g->in[0];
    struct tachy_plan_attr a = {.arg = {x->rank ? pick(f, x->rank) : 0, pick(f, 2), false}};
    int64_t shape[TACHY_MAX_RANK] = {0};
    memcpy(shape, x->shape, sizeof(shape));
    if (x->rank)
        shape[a.arg.axis] = 1 + pick(f, (int)TACHY_CLAMP(x->shape[a.arg.axis], 1, 100));
    make(f, TACHY_OP_TOP, &a, &x, 1, tachy_graph_value(f->g, NULL, TACHY_I64, x->rank, shape));
}

static void arg(struct fuzz *f)
{
    struct tachy_value *x = any(f);
    struct tachy_plan_attr a = {.arg = {x->rank ? pick(f, x->rank) : 0, pick(f, 2), pick(f, 2)}};
    int64_t shape[TACHY_MAX_RANK];
    memcpy(shape, x->shape, sizeof(shape));
    shape[a.arg.axis] = 1;
    make(f, TACHY_OP_ARG, &a, &x, 1, tachy_graph_value(f->g, NULL, TACHY_I64, x->rank, shape));
}

static void norm(struct fuzz *f)
{
    struct tachy_value *x = any(f);
    bool layer = pick(f, 2);
    int64_t c = x->rank ? x->shape[layer || x->rank < 2 ? x->rank - 1 : 1] : 1;
    struct tachy_plan_attr a = {.norm = {pick(f, 2) ? 1 : (int)TACHY_CLAMP(c, 1, 64), 1e-2f}};
    struct tachy_value *in[3] = {x, numbers(f, 1, &c), numbers(f, 1, &c)};
    make(f, layer ? TACHY_OP_LAYER_NORM : TACHY_OP_GROUP_NORM, &a, in, 3, value(f, x->rank, x->shape));
}

static void grid(struct fuzz *f)
{
    struct tachy_value *x = picture(f);
    struct tachy_plan_attr a = {.grid = {(enum tachy_plan_resize)pick(f, 3), (enum tachy_plan_outside)pick(f, 3),
                                         pick(f, 2)}};
    int64_t size[4] = {x->shape[0], 1 + pick(f, 6), 1 + pick(f, 6), 2};
    int64_t shape[4] = {x->shape[0], x->shape[1], size[1], size[2]};
    struct tachy_value *g = pick(f, 2) ? numbers(f, 4, size) : picture(f);
    make(f, TACHY_OP_GRID_SAMPLE, &a, (struct tachy_value *[]){x, g}, 2, value(f, 4, shape));
}

// Patterns that passes look for, and near misses.

static void hard_swish(struct fuzz *f)
{
    struct tachy_value *x = any(f), *p = binary_of(f, TACHY_PLAN_ADD, x, number(f, pick(f, 4) ? 3 : 2));
    struct tachy_value *c = unary_of(f, TACHY_PLAN_CLIP, 0, pick(f, 4) ? 6 : 5, p);
    struct tachy_value *s = pick(f, 2) ? binary_of(f, TACHY_PLAN_MUL, c, number(f, 1.0f / 6))
                                       : binary_of(f, TACHY_PLAN_DIV, c, number(f, 6));
    if (pick(f, 2))
        binary_of(f, TACHY_PLAN_MUL, pick(f, 4) ? x : any(f), s);
    else
        binary_of(f, TACHY_PLAN_DIV, binary_of(f, TACHY_PLAN_MUL, c, pick(f, 4) ? x : any(f)), number(f, 6));
}

static void swish(struct fuzz *f)
{
    struct tachy_value *x = any(f);
    binary_of(f, TACHY_PLAN_MUL, x, unary_of(f, TACHY_PLAN_SIGMOID, 0, 0, pick(f, 4) ? x : any(f)));
}

static void excite(struct fuzz *f)
{
    struct tachy_value *x = picture(f), *s = reduce_of(f, x, TACHY_PLAN_MEAN, 12);
    if (pick(f, 2))
        s = conv_of(f, s, x->shape[1] > 0 && x->shape[1] < 64 ? x->shape[1] : 3, 1);
    s = binary_of(f, TACHY_PLAN_MUL, x, unary_of(f, TACHY_PLAN_SIGMOID, 0, 0, s));
    if (pick(f, 4))
        s = conv_of(f, s, 1 + pick(f, 4), 1);
    if (pick(f, 2))
        binary_of(f, TACHY_PLAN_ADD, s, any(f));
}

static void residual(struct fuzz *f)
{
    struct tachy_value *x = picture(f), *y = pick(f, 2) ? pad_of(f, x) : x;
    y = conv_of(f, y, y->shape[1] > 0 && y->shape[1] < 64 ? y->shape[1] : 3, pick(f, 2) ? 3 : 1);
    if (pick(f, 2))
        y = unary_of(f, TACHY_PLAN_RELU, 0, 0, y);
    y = binary_of(f, TACHY_PLAN_ADD, y, pick(f, 4) ? x : y);
    if (pick(f, 2))
        unary_of(f, TACHY_PLAN_LEAKY, 0.5f, 0, y);
}

static void turned(struct fuzz *f)
{
    struct tachy_value *x = transpose_of(f, any(f));
    if (pick(f, 2))
        x = unary_of(f, TACHY_PLAN_TANH, 0, 0, x);
    transpose_of(f, x);
}

static void prelu(struct fuzz *f)
{
    struct tachy_value *x = picture(f), *r = unary_of(f, TACHY_PLAN_RELU, 0, 0, x);
    int64_t shape[3] = {x->shape[1], 1, 1};
    struct tachy_value *n = binary_of(f, TACHY_PLAN_MUL, x, number(f, -1));
    n = unary_of(f, TACHY_PLAN_RELU, 0, 0, pick(f, 4) ? n : x);
    n = binary_of(f, TACHY_PLAN_MUL, numbers(f, 3, shape), n);
    binary_of(f, pick(f, 2) ? TACHY_PLAN_ADD : TACHY_PLAN_SUB, r, n);
}

static void (*const parts[])(struct fuzz *f) = {
    unary, binary, conv, conv, deconv, matmul, concat, slice, pad, transpose, reshape, expand, resize,
    pool, reduce, softmax, select_of, gather, pick_each, pick_lines, top, arg, norm, grid, hard_swish, swish, excite, residual, turned, prelu};

static void spoil_attribute(struct fuzz *f, struct tachy_node *n)
{
    struct tachy_plan_attr *a = &n->attr;
    int i = pick(f, 4), small = (int)TACHY_CLAMP(odd_size(f), INT32_MIN, INT32_MAX);
    int *conv[] = {&a->conv.kernel[i & 1], &a->conv.stride[i & 1], &a->conv.dilation[i & 1], &a->conv.pad[i],
                   &a->conv.groups, &a->conv.out_pad[i & 1]};
    int *pool[] = {&a->pool.kernel[i & 1], &a->pool.stride[i & 1], &a->pool.pad[i]};
    int64_t *slice = i & 1 ? a->slice.start : a->slice.step, *pads = i & 1 ? a->pad.before : a->pad.after;
    switch (n->op) {
    case TACHY_OP_CONV:
    case TACHY_OP_DECONV: *conv[pick(f, TACHY_ARRAY_SIZE(conv))] = small; break;
    case TACHY_OP_POOL: *pool[pick(f, TACHY_ARRAY_SIZE(pool))] = small; break;
    case TACHY_OP_SLICE: slice[pick(f, TACHY_MAX_RANK)] = odd_size(f); break;
    case TACHY_OP_PAD: pads[pick(f, TACHY_MAX_RANK)] = odd_size(f); break;
    case TACHY_OP_TRANSPOSE: a->perm[i] = small; break;
    case TACHY_OP_RESIZE: a->resize.scale[i & 1] = odd_float(f); break;
    case TACHY_OP_GROUP_NORM: a->norm.groups = small; break;
    case TACHY_OP_CONCAT:
    case TACHY_OP_GATHER:
    case TACHY_OP_SOFTMAX: a->axis = small; break;
    case TACHY_OP_ARG: a->arg.axis = small; break;
    default: a->act = (struct tachy_plan_act_of){(enum tachy_plan_act)(unsigned)small, odd_float(f), odd_float(f)};
    }
}

// Defects that a broken front end might produce.
static void spoil(struct fuzz *f)
{
    struct tachy_node *n = f->g->first;
    for (int i = pick(f, MOST_NODES); n && n->next && i > 0; i--)
        n = n->next;
    if (!n)
        return;
    struct tachy_value *v = pick(f, 3) || !n->nb_in || !n->in[0] ? n->out : n->in[0];
    switch (pick(f, 8)) {
    case 0: v->shape[pick(f, TACHY_MAX_RANK)] = odd_size(f); break;
    case 1: v->rank = (int)TACHY_CLAMP(odd_size(f), INT32_MIN, INT32_MAX); break;
    case 2: tachy_node_set_input(n, n->nb_in ? pick(f, n->nb_in) : 0, n->nb_in ? any(f) : NULL); break;
    case 3:
        if (n->nb_in)
            tachy_node_set_input(n, pick(f, n->nb_in), NULL);
        break;
    case 4: v->dtype = (enum tachy_dtype)pick(f, 9); break;
    case 5:
        n->op = (enum tachy_plan_op)pick(f, TACHY_OP_COUNT + 1);
        n->attr = (struct tachy_plan_attr){0};
        break;
    case 6: spoil_attribute(f, n); break;
    default:
        if (n->nb_in && n->in[n->nb_in - 1])
            n->in[n->nb_in - 1]->data = NULL;
    }
}

static void build(struct fuzz *f)
{
    input(f);
    if (pick(f, 2))
        input(f);
    int nodes = 1 + pick(f, 8);
    while (nodes-- > 0)
        parts[pick(f, TACHY_ARRAY_SIZE(parts))](f);
    for (int i = pick(f, 8) - 5; i > 0; i--)
        spoil(f);
    // Everything that nobody uses is an output, as the last one is, and now and then what is used.
    for (struct tachy_node *n = f->g->first; n; n = n->next)
        if (!n->out->uses || !pick(f, 16))
            tachy_graph_add_output(f->g, n->out);
}
