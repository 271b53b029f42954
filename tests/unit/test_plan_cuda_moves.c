#include "plan_cuda.h"

// Plans of transformers and volumes on a GPU: steps read through what only moves values, and attention is one step.

// Attention with its batch after the sequence, as PyTorch exports it: queries, keys and values are slices of one
// product.
static void attention(void)
{
    begin();
    const struct tachy_plan_attr none = {0}, product = {.matmul = {.alpha = 1}}, last = {.axis = 3};
    const int perm[] = {1, 2, 0, 3}, across[] = {1, 2, 3, 0};
    struct tachy_value *part[3], *y = make(TACHY_OP_MATMUL, product, value(2, SHAPE(10, 48)), input(2, SHAPE(10, 16)), numbers(2, SHAPE(16, 48)), NULL);
    y = make(TACHY_OP_RESHAPE, none, VALUE(5, 2, 3, 16), y, NULL, NULL);
    y = make(TACHY_OP_TRANSPOSE, (struct tachy_plan_attr){.perm = {2, 0, 1, 3}}, VALUE(3, 5, 2, 16), y, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        struct tachy_plan_attr cut = {.slice = {.start = {i}, .step = {1, 1, 1, 1}}}, turn = none;
        part[i] = make(TACHY_OP_RESHAPE, none, VALUE(5, 2, 2, 8), make(TACHY_OP_SLICE, cut, VALUE(1, 5, 2, 16), y, NULL, NULL), NULL, NULL);
        memcpy(turn.perm, i == 1 ? across : perm, sizeof(perm));
        part[i] = make(TACHY_OP_TRANSPOSE, turn, i == 1 ? VALUE(2, 2, 8, 5) : VALUE(2, 2, 5, 8), part[i], NULL, NULL);
        part[i] = i < 2 ? binary(TACHY_PLAN_MUL, part[i], number(0.6f)) : part[i];
    }
    y = make(TACHY_OP_MATMUL, product, VALUE(2, 2, 5, 5), part[0], part[1], NULL);
    y = make(TACHY_OP_SOFTMAX, last, like(y), y, NULL, NULL);
    y = make(TACHY_OP_MATMUL, product, VALUE(2, 2, 5, 8), y, part[2], NULL);
    y = make(TACHY_OP_TRANSPOSE, (struct tachy_plan_attr){.perm = {2, 0, 1, 3}}, VALUE(5, 2, 2, 8), y, NULL, NULL);
    y = make(TACHY_OP_RESHAPE, none, value(2, SHAPE(10, 16)), y, NULL, NULL);
    tachy_graph_add_output(g, make(TACHY_OP_MATMUL, product, value(2, SHAPE(10, 16)), y, numbers(2, SHAPE(16, 16)), NULL));
}

// Heads out of the input's first rows: `of` matrices of rows by two times 8 columns, rows or, `across`, columns first.
static struct tachy_value *heads(struct tachy_value *x, int of, int rows, bool across)
{
    const struct tachy_plan_attr none = {0}, product = {.matmul = {.alpha = 1}}, first = {.slice = {.step = {1, 1}}};
    struct tachy_plan_attr turn = {.perm = {0, 2, across ? 3 : 1, across ? 1 : 3}};
    struct tachy_value *y = make(TACHY_OP_SLICE, first, value(2, SHAPE(of * rows, 16)), x, NULL, NULL);
    y = make(TACHY_OP_MATMUL, product, value(2, SHAPE(of * rows, 16)), y, numbers(2, SHAPE(16, 16)), NULL);
    y = make(TACHY_OP_RESHAPE, none, VALUE(of, rows, 2, 8), y, NULL, NULL);
    return make(TACHY_OP_TRANSPOSE, turn, across ? VALUE(of, 2, 8, rows) : VALUE(of, 2, rows, 8), y, NULL, NULL);
}

static void attention_of(int queries, int nb_queries, int keys, int nb_keys)
{
    const struct tachy_plan_attr product = {.matmul = {.alpha = 1}}, last = {.axis = 3};
    begin();
    struct tachy_value *x = input(2, SHAPE(27, 16)), *q = heads(x, queries, nb_queries, false), *k = heads(x, keys, nb_keys, true);
    struct tachy_value *y = make(TACHY_OP_MATMUL, product, VALUE(3, 2, nb_queries, nb_keys), q, k, NULL);
    y = make(TACHY_OP_SOFTMAX, last, like(y), y, NULL, NULL);
    tachy_graph_add_output(g, make(TACHY_OP_MATMUL, product, VALUE(3, 2, nb_queries, 8), y, heads(x, keys, nb_keys, false), NULL));
}
static void prompts_to_picture(void) { attention_of(3, 4, 1, 9); }
static void picture_to_prompts(void) { attention_of(1, 9, 3, 4); }

// A tensor that all images share is not repeated: each image reads the one.
TEST(attention_with_one_side_alone)
{
    const struct tachy_plan_params params = {.kernels = &host_kernels, .precision = TACHY_PLAN_FP16};
    void (*const builds[])(void) = {prompts_to_picture, picture_to_prompts};
    for (int i = 0; i < 2; i++) {
        check_near(builds[i], i ? 432 : 192, 0, 5e-3);
        builds[i]();
        struct tachy_plan *p = opened(&params);
        CHECK_INT(steps_of(p, CUDA_ATTENTION), 1);
        CHECK_INT(steps_of(p, CUDA_SOFTMAX) + steps_of(p, CUDA_GEMM), 0);
        tachy_plan_close(&p);
        tachy_graph_close(&g);
    }
}

// Products read queries, keys and values where the first one wrote them. In float16 three of the steps are one.
TEST(attention_in_place)
{
    struct tachy_plan_params params = {.kernels = &host_kernels};
    check_near(attention, 160, 1e-5, 5e-3);
    attention();
    struct tachy_plan *p = opened(&params);
    CHECK_INT(steps(p), 6);
    CHECK_INT(steps_called(p, "Transpose"), 1);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
    attention(); // a Transpose that is an output as well is made
    for (struct tachy_node *n = g->first; n; n = n->next)
        if (n->op == TACHY_OP_TRANSPOSE && n->out->rank == 4 && n->attr.perm[0] == 1)
            tachy_graph_add_output(g, n->out);
    p = opened(&params);
    CHECK_INT(steps_called(p, "Transpose"), 4);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
    attention();
    params.precision = TACHY_PLAN_FP16;
    p = opened(&params);
    CHECK_INT(steps_of(p, CUDA_ATTENTION), 1);
    CHECK_INT(steps_of(p, CUDA_CONV), 2);
    CHECK_INT(steps_of(p, CUDA_SOFTMAX) + steps_of(p, CUDA_GEMM), 0);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

static struct tachy_value *reshape(struct tachy_value *x, int rank, const int64_t *shape)
{
    return make(TACHY_OP_RESHAPE, (struct tachy_plan_attr){0}, value(rank, shape), x, NULL, NULL);
}

static struct tachy_value *turn(struct tachy_value *x, int rank, const int *perm)
{
    struct tachy_plan_attr a = {0};
    int64_t shape[TACHY_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        a.perm[i] = perm[i];
        shape[i] = x->shape[perm[i]];
    }
    return make(TACHY_OP_TRANSPOSE, a, value(rank, shape), x, NULL, NULL);
}

static struct tachy_value *dense(struct tachy_value *x, int columns, bool flat)
{
    const struct tachy_plan_attr a = {.matmul = {.alpha = 1}};
    int64_t k = x->shape[x->rank - 1], shape[3] = {x->shape[0], x->shape[1], columns}, rows[] = {tachy_value_elements(x) / k, k};
    struct tachy_value *w = numbers(2, SHAPE(k, columns)), *bias = numbers(1, SHAPE(columns));
    for (int64_t i = 0; i < k * columns; i++) // as layers have them: no larger results than inputs
        ((float *)(uintptr_t)w->data)[i] /= sqrtf((float)k);
    if (!flat)
        return make(TACHY_OP_MATMUL, a, value(3, shape), x, w, bias);
    return reshape(make(TACHY_OP_MATMUL, a, value(2, SHAPE(rows[0], columns)), reshape(x, 2, rows), w, bias), 3, shape);
}

static struct tachy_value *norm(struct tachy_value *x)
{
    struct tachy_plan_attr a = {.norm = {.epsilon = 1e-6f}};
    int64_t n = x->shape[x->rank - 1];
    return make(TACHY_OP_LAYER_NORM, a, like(x), x, numbers(1, &n), numbers(1, &n));
}

// A vision transformer with one layer, as PyTorch exports it: two pictures of 2x3 patches, two heads of 8.
static void transformer(void)
{
    begin();
    const int planes[] = {0, 2, 1}, rows[] = {1, 0, 2}, parts[] = {2, 0, 1, 3}, heads[] = {1, 2, 0, 3}, keys[] = {1, 2, 3, 0}, back[] = {2, 0, 1, 3};
    const struct tachy_plan_attr patch = {.conv = {{8, 8}, {8, 8}, {1, 1}, {0}, 1, {0}, 0, 0}}, product = {.matmul = {.alpha = 1}};
    struct tachy_value *part[3], *x = make(TACHY_OP_CONV, patch, VALUE(2, 16, 2, 3), input(4, SHAPE(2, 3, 16, 24)), NUMBERS(16, 3, 8, 8), NUMBERS(16));
    x = turn(reshape(x, 3, SHAPE(2, 16, 6)), 3, planes);
    struct tachy_value *y = reshape(dense(turn(norm(x), 3, rows), 48, true), 4, SHAPE(6, 2, 3, 16));
    y = turn(y, 4, parts);
    for (int i = 0; i < 3; i++) {
        struct tachy_plan_attr cut = {.slice = {.start = {i}, .step = {1, 1, 1, 1}}};
        part[i] = make(TACHY_OP_SLICE, cut, VALUE(1, 6, 2, 16), y, NULL, NULL);
        part[i] = turn(reshape(part[i], 4, SHAPE(6, 2, 2, 8)), 4, i == 1 ? keys : heads);
    }
    y = make(TACHY_OP_MATMUL, product, VALUE(2, 2, 6, 6), binary(TACHY_PLAN_MUL, part[0], number(0.35f)), part[1], NULL);
    y = make(TACHY_OP_MATMUL, product, VALUE(2, 2, 6, 8), make(TACHY_OP_SOFTMAX, (struct tachy_plan_attr){.axis = 3}, like(y), y, NULL, NULL), part[2], NULL);
    y = dense(reshape(turn(y, 4, back), 3, SHAPE(6, 2, 16)), 16, true);
    x = binary(TACHY_PLAN_ADD, turn(y, 3, rows), x);
    y = dense(unary(TACHY_PLAN_GELU, dense(norm(x), 64, false)), 16, false);
    tachy_graph_add_output(g, binary(TACHY_PLAN_ADD, x, y));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

// Windows are gathered, then each layer is two norms, four products that add and end in a function, and attention.
TEST(transformer_layer)
{
    const struct tachy_plan_params params = {.precision = TACHY_PLAN_FP16, .kernels = &host_kernels};
    check_near(transformer, 192, 1e-5, 1e-2);
    transformer();
    struct tachy_plan *p = opened(&params);
    CHECK_INT(steps_of(p, CUDA_CONV), 5);
    CHECK_INT(steps_of(p, CUDA_LAYER_NORM), 2);
    CHECK_INT(steps_of(p, CUDA_ATTENTION), 1);
    CHECK_INT(steps_of(p, CUDA_POINTWISE), 2); // the windows, and the output as float32
    CHECK_INT(steps(p), 10);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

static int dice(int n) { return (int)(noise() * 0.499f * (float)n + 0.5f * (float)n) % n; }

static void shuffled(int *perm, int rank)
{
    for (int i = 0; i < rank; i++) {
        int k = dice(i + 1);
        if (k < i)
            perm[i] = perm[k];
        perm[k] = i;
    }
}

// A few random reshapes and transposes.
static struct tachy_value *wandered(struct tachy_value *x)
{
    for (int moves = dice(3); moves > 0; moves--) {
        int64_t shape[5] = {1, 1, 1, 1, 1}, left = tachy_value_elements(x);
        int perm[5], rank = 2 + dice(4);
        for (int64_t prime = 2; left > 1; prime += left % prime != 0)
            for (; left % prime == 0; left /= prime)
                shape[dice(rank)] *= prime;
        x = reshape(x, rank, shape);
        shuffled(perm, rank);
        x = turn(x, rank, perm);
    }
    return x;
}

// A part of x that has this shape.
static struct tachy_value *part_of(struct tachy_value *x, const int64_t *shape)
{
    const int64_t size[] = {shape[0], shape[1], shape[2]};
    int perm[3], back[3], at = dice(3);
    int64_t inner = 1, moved[3], third[3] = {0};
    x = wandered(x);
    while (inner < 6 && tachy_value_elements(x) / 3 % (inner * 2) == 0 && dice(2))
        inner *= 2;
    x = reshape(x, 3, SHAPE(tachy_value_elements(x) / 3 / inner, 3, inner));
    memcpy(third, x->shape, sizeof(third));
    third[1] = 1;
    x = make(TACHY_OP_SLICE, (struct tachy_plan_attr){.slice = {.start = {0, at}, .step = {1, 1, 1}}}, value(3, third), x, NULL, NULL);
    x = wandered(x);
    shuffled(perm, 3);
    for (int i = 0; i < 3; i++) {
        moved[i] = size[perm[i]];
        back[perm[i]] = i;
    }
    return turn(reshape(x, 3, moved), 3, back);
}

static unsigned which; // of the random graphs

static void random_product(void)
{
    begin();
    seed = which;
    const struct tachy_plan_attr product = {.matmul = {.alpha = 0.3f}}, plain = {.matmul = {.alpha = 1}};
    int64_t b = 1 + dice(4), m = 1 + dice(9), k = 8 * (1 + dice(3)), c = 1 + dice(9), w = 8 * (1 + dice(2));
    struct tachy_value *x = input(1, SHAPE(3 * b * (m * k + c * k + c * w))), *in[3], *y;
    const int64_t shape[3][3] = {{b, m, k}, {b, k, c}, {b, c, w}};
    x = unary(TACHY_PLAN_ABS, x); // computed
    for (int64_t i = 0, start = 0; i < 3; i++) {
        int64_t size = 3 * shape[i][0] * shape[i][1] * shape[i][2];
        in[i] = make(TACHY_OP_SLICE, (struct tachy_plan_attr){.slice = {.start = {start}, .step = {1}}}, value(1, &size), x, NULL, NULL);
        in[i] = part_of(in[i], shape[i]);
        start += size;
    }
    y = make(TACHY_OP_MATMUL, product, value(3, SHAPE(b, m, c)), in[0], in[1], NULL);
    if (which % 2)
        y = make(TACHY_OP_SOFTMAX, (struct tachy_plan_attr){.axis = 2}, like(y), y, NULL, NULL);
    y = make(TACHY_OP_MATMUL, plain, value(3, SHAPE(b, m, w)), y, in[2], NULL);
    tachy_graph_add_output(g, which % 3 ? turn(y, 3, (int[]){1, 0, 2}) : y);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

// Operands that random moves take out of one tensor.
TEST(products_of_moved_parts)
{
    int attentions = 0;
    for (which = 1; which <= 60; which++) {
        float *want = expected(random_product), *single = on_gpu(random_product, TACHY_PLAN_FP32), *half = on_gpu(random_product, TACHY_PLAN_FP16);
        random_product();
        int64_t n = tachy_value_elements(g->out[0]);
        struct tachy_plan *p = opened(&(struct tachy_plan_params){.precision = TACHY_PLAN_FP16, .kernels = &host_kernels});
        attentions += steps_of(p, CUDA_ATTENTION);
        tachy_plan_close(&p);
        tachy_graph_close(&g);
        double by[] = {off(single, want, n), off(half, want, n)};
        CHECK(by[0] < 1e-5 && by[1] < 1e-2);
        if (!(by[0] < 1e-5 && by[1] < 1e-2))
            printf("graph %u is off by %g, %g\n", which, by[0], by[1]);
        free(want);
        free(single);
        free(half);
    }
    CHECK_INT(attentions, 30);
}

// 3x3x3 with padding, as the front end reads it (provider/read_volumes.c).
static struct tachy_value *volume_conv(struct tachy_value *x, int cout)
{
    const int64_t c = x->shape[1], d = x->shape[2], h = x->shape[3], w = x->shape[4];
    struct tachy_plan_attr pad = {.pad = {.before = {0, 1}, .after = {0, 1}}}, side = {.axis = 5};
    struct tachy_value *v = turn(x, 5, (int[]){0, 2, 3, 4, 1}), *plane[3];
    v = reshape(make(TACHY_OP_PAD, pad, VALUE(1, d + 2, h, w, c), v, NULL, NULL), 6, SHAPE(1, d + 2, h, w, 1, c));
    for (int i = 0; i < 3; i++) {
        struct tachy_plan_attr slice = {.slice = {{0, i}, {1, 1, 1, 1, 1, 1}}};
        plane[i] = make(TACHY_OP_SLICE, slice, VALUE(1, d, h, w, 1, c), v, NULL, NULL);
    }
    v = make(TACHY_OP_CONCAT, side, VALUE(1, d, h, w, 1, 3 * c), plane[0], plane[1], plane[2]);
    v = conv(turn(reshape(v, 4, SHAPE(d, h, w, 3 * c)), 4, (int[]){0, 3, 1, 2}), cout, 3, true);
    return turn(reshape(turn(v, 4, (int[]){0, 2, 3, 1}), 5, SHAPE(1, d, h, w, cout)), 5, (int[]){0, 4, 1, 2, 3});
}

// As in a network that warps: volumes side by side, shares of channels, and a map of all planes.
static struct tachy_value *warped(void)
{
    struct tachy_plan_attr side = {.axis = 1};
    struct tachy_value *x = input(5, SHAPE(1, 36, 4, 6, 8)), *y = unary(TACHY_PLAN_RELU, volume_conv(x, 40)), *map;
    y = make(TACHY_OP_CONCAT, side, VALUE(1, 72, 4, 6, 8), volume_conv(y, 36), x, NULL);
    map = unary(TACHY_PLAN_SIGMOID, conv(reshape(y, 4, SHAPE(1, 288, 6, 8)), 1, 3, true));
    y = make(TACHY_OP_SOFTMAX, side, VALUE(1, 6, 4, 6, 8), volume_conv(y, 6), NULL, NULL);
    return binary(TACHY_PLAN_MUL, reshape(y, 4, SHAPE(1, 24, 6, 8)), map);
}

static void volumes(void)
{
    begin();
    tachy_graph_add_output(g, warped());
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

TEST(volumes_stay_turned)
{
    same_after_all(warped);
    const struct tachy_plan_params params = {.precision = TACHY_PLAN_FP16, .kernels = &host_kernels};
    check_near(volumes, 24 * 6 * 8, 5e-6, 5e-3);
    volumes();
    struct tachy_plan *p = opened(&params);
    int planes = 0, narrow = 0;
    for (const struct tachy_node *n = g->first; n; n = n->next) {
        planes += n->op == TACHY_OP_CONV && n->attr.conv.planes > 1;
        narrow += n->op == TACHY_OP_CONV && n->out->shape[1] == 1 && n->in[0]->shape[1] > 64;
    }
    CHECK_INT(planes, 4);
    CHECK_INT(narrow, 0);
    CHECK_INT(steps_called(p, "Pad") + steps_called(p, "Slice"), 0);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}
// Two layers around which a volume is added, then two samplings: of what they made, and of few channels that are repeated.
static void sampled(void)
{
    begin();
    struct tachy_value *x = input(5, SHAPE(1, 32, 4, 6, 8)), *y = volume_conv(unary(TACHY_PLAN_RELU, volume_conv(x, 32)), 32), *few, *z;
    y = binary(TACHY_PLAN_ADD, y, x);
    few = turn(turn(y, 5, (int[]){0, 2, 3, 4, 1}), 5, (int[]){0, 4, 1, 2, 3});
    few = make(TACHY_OP_SLICE, (struct tachy_plan_attr){.slice = {{0}, {1, 1, 1, 1, 1}}}, VALUE(1, 4, 4, 6, 8), few, NULL, NULL);
    few = make(TACHY_OP_EXPAND, (struct tachy_plan_attr){0}, VALUE(3, 4, 4, 6, 8), few, NULL, NULL);
    z = make(TACHY_OP_GRID_SAMPLE, (struct tachy_plan_attr){0}, VALUE(3, 4, 2, 5, 7), few, NUMBERS(3, 2, 5, 7, 3), NULL);
    y = make(TACHY_OP_GRID_SAMPLE, (struct tachy_plan_attr){0}, VALUE(1, 32, 2, 5, 7), y, NUMBERS(1, 2, 5, 7, 3), NULL);
    tachy_graph_add_output(g, make(TACHY_OP_CONCAT, (struct tachy_plan_attr){.axis = 1}, VALUE(1, 44, 2, 5, 7), y, reshape(z, 5, SHAPE(1, 12, 2, 5, 7)), NULL));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

TEST(volumes_sampled_where_they_lie)
{
    const int64_t n = 44 * 2 * 5 * 7;
    check_near(sampled, n, 5e-6, 5e-3);
    sampled();
    struct tachy_plan *p = opened(&(struct tachy_plan_params){.precision = TACHY_PLAN_FP16, .kernels = &host_kernels});
    CHECK_INT(steps_called(p, "Binary") + steps_called(p, "Expand") + steps_called(p, "Slice"), 0);
    CHECK_INT(steps_called(p, "Transpose"), 1); // of the input
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

// Kernels of many taps to few channels: all columns of a row, some of them, and all taps, in channels of the first convolution.
static void few(void)
{
    begin();
    struct tachy_value *x = input(4, SHAPE(2, 40, 9, 11)), *y = conv(x, 3, 7, true);
    struct tachy_plan_attr wide = {.conv = {{5, 6}, {1, 1}, {1, 1}, {1, 4, 3, 2}, 1, {0, 0}, 0, 0}, .act = {TACHY_PLAN_RELU, 0, 0}};
    struct tachy_value *z = make(TACHY_OP_CONV, wide, VALUE(2, 20, 9, 12), x, NUMBERS(20, 40, 5, 6), NUMBERS(20));
    y = binary(TACHY_PLAN_ADD, y, make(TACHY_OP_SLICE, (struct tachy_plan_attr){.slice = {{0}, {1, 1, 1, 1}}}, VALUE(2, 3, 9, 11), z, NULL, NULL));
    tachy_graph_add_output(g, binary(TACHY_PLAN_MUL, y, unary(TACHY_PLAN_SIGMOID, conv(x, 1, 5, true))));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

TEST(few_channels)
{
    const int64_t n = 2 * 3 * 9 * 11;
    float *want = expected(few), *single = on_gpu(few, TACHY_PLAN_FP32), *half = on_gpu(few, TACHY_PLAN_FP16);
    CHECK(off(single, want, n) < 5e-6);
    CHECK(off(half, want, n) < 5e-3);
    free(want);
    free(single);
    free(half);
    few();
    struct tachy_plan *p = opened(&(struct tachy_plan_params){.precision = TACHY_PLAN_FP16, .kernels = &host_kernels});
    int taps = 0;
    for (const struct tachy_node *c = g->first; c; c = c->next)
        taps += c->op == TACHY_OP_CONV ? c->attr.conv.kernel[0] * c->attr.conv.kernel[1] : 0;
    CHECK_INT(taps, 7 + 7 + 5 * 2 + 3 + 1 * 5 + 5);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

// Blocks of 2 x 2 pixels beside a skip connection, and alone; and a convolution of pixels that were repeated.
static void doubled(void)
{
    begin();
    struct tachy_value *x = input(4, SHAPE(2, 3, 8, 12)), *skip = unary(TACHY_PLAN_RELU, tame(x, 16, 3, true)), *y, *in[2];
    struct tachy_plan_attr half = {.pool = {.kernel = {2, 2}, .stride = {2, 2}}}, side = {.axis = 1};
    struct tachy_plan_attr twice = {.conv = {{2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}, 1, {0, 0}, 0, 0}};
    in[0] = skip;
    in[1] = make(TACHY_OP_DECONV, twice, VALUE(2, 64, 8, 12), make(TACHY_OP_POOL, half, VALUE(2, 16, 4, 6), skip, NULL, NULL),
                 NUMBERS(16, 64, 2, 2), NUMBERS(64));
    tachy_graph_node(g, NULL, TACHY_OP_CONCAT, "n", &side, in, 2, y = VALUE(2, 80, 8, 12));
    y = unary(TACHY_PLAN_RELU, tame(y, 16, 3, true));
    y = unary(TACHY_PLAN_RELU, make(TACHY_OP_DECONV, twice, VALUE(2, 64, 16, 24), y, NUMBERS(16, 64, 2, 2), NULL));
    struct tachy_plan_attr again = {.resize = {.mode = TACHY_PLAN_NEAREST, .coords = TACHY_PLAN_ASYMMETRIC, .round = 1, .scale = {2, 2}}};
    y = unary(TACHY_PLAN_RELU, tame(make(TACHY_OP_RESIZE, again, VALUE(2, 64, 32, 48), y, NULL, NULL), 64, 3, true));
    tachy_graph_add_output(g, tame(y, 8, 3, true));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

// The convolution writes them where they belong; or it does not, and they are copied.
TEST(pixels_written_by_a_convolution)
{
    const struct tachy_plan_params params = {.precision = TACHY_PLAN_FP16, .kernels = &host_kernels};
    enum { IN = 2 * 3 * 8 * 12, OUT = 2 * 8 * 32 * 48 };
    float *want = expected(doubled), *x = calloc(IN, sizeof(*x)), *y = calloc(OUT, sizeof(*y));
    seed = 99;
    for (int i = 0; i < IN; i++)
        x[i] = 3 * noise();
    for (int together = 0; together < 2; together++) {
        doubled();
        struct tachy_plan *p = opened(&params);
        struct cuda_plan *q = (struct cuda_plan *)p;
        for (int i = 0; i < q->nb_steps; i++)
            if (q->steps[i].pairs) {
                CHECK_INT(q->steps[i + 1].kind, CUDA_POINTWISE);
                q->steps[i].way = (struct cuda_way){together ? CUDA_CONV_PAIR : CUDA_CONV_ANY, 0};
                q->steps[i + 1].way = (struct cuda_way){together ? CUDA_CONV_DONE : CUDA_CONV_ANY, 0};
            }
        host_spreads = host_aparts = 0;
        CHECK_INT(steps_of(p, CUDA_INTERPOLATE), 0);
        CHECK_INT(tachy_plan_cuda.run(p, (const void *const[]){x}, (void *const[]){y}, NULL, NULL), TACHY_OK);
        CHECK_INT(host_spreads, 3 * together);
        CHECK_INT(host_aparts, together);
        CHECK(off(y, want, OUT) < 3e-3);
        memset(y, 0, sizeof(*y) * OUT);
        tachy_plan_close(&p);
        tachy_graph_close(&g);
    }
    free(x), free(y), free(want);
}

// A transposed convolution and a sum with one constant for both images. The sum reads the convolution's channels in place.
static void added(void)
{
    const struct tachy_plan_attr twice = {.conv = {{2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}, 1, {0, 0}, 0, 0}};
    begin();
    struct tachy_value *y = make(TACHY_OP_DECONV, twice, VALUE(2, 64, 16, 24), input(4, SHAPE(2, 16, 8, 12)), NUMBERS(16, 64, 2, 2), NUMBERS(64));
    tachy_graph_add_output(g, tame(binary(TACHY_PLAN_ADD, y, NUMBERS(1, 64, 16, 24)), 8, 3, true));
}

TEST(pixels_that_a_sum_reads)
{
    check_near(added, 2 * 8 * 16 * 24, 1e-5, 3e-3);
    added();
    struct tachy_plan *p = opened(&(struct tachy_plan_params){.precision = TACHY_PLAN_FP16, .kernels = &host_kernels});
    CHECK_INT(steps_of(p, CUDA_POINTWISE), 1); // the sum, which reads them by itself
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

// A Concat of both halves of a value and a convolution of one. The value's own convolution writes into the Concat.
static void halved(void)
{
    begin();
    struct tachy_value *x = unary(TACHY_PLAN_RELU, tame(input(4, SHAPE(2, 3, 8, 6)), 32, 3, true)), *y = VALUE(2, 48, 8, 6), *in[3];
    for (int i = 0; i < 2; i++) {
        struct tachy_plan_attr cut = {.slice = {{0, 16 * i, 0, 0}, {1, 1, 1, 1}}};
        in[i] = make(TACHY_OP_SLICE, cut, VALUE(2, 16, 8, 6), x, NULL, NULL);
    }
    in[2] = unary(TACHY_PLAN_RELU, binary(TACHY_PLAN_ADD, tame(in[1], 16, 3, true), in[1]));
    tachy_graph_node(g, NULL, TACHY_OP_CONCAT, "n", &(struct tachy_plan_attr){.axis = 1}, in, 3, y);
    tachy_graph_add_output(g, tame(y, 8, 1, true));
}

TEST(halves_are_written_in_place)
{
    check_near(halved, 2 * 8 * 8 * 6, 1e-5, 5e-3);
    halved();
    struct tachy_plan *p = opened(&(struct tachy_plan_params){.precision = TACHY_PLAN_FP16, .kernels = &host_kernels});
    CHECK_INT(steps_called(p, "Concat") + steps_called(p, "Slice"), 0);
    CHECK_INT(steps_of(p, CUDA_CONV), 3);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

// Two products read a sum with constant rows, which are the same for each image.
static void placed(void)
{
    begin();
    struct tachy_value *y = binary(TACHY_PLAN_ADD, input(3, SHAPE(3, 10, 16)), NUMBERS(1, 10, 16));
    struct tachy_value *a = dense(y, 8, true);
    tachy_graph_add_output(g, binary(TACHY_PLAN_MUL, a, dense(y, 8, false)));
}

// Images in three dimensions, one of which is 1.
static void placed_deep(void)
{
    begin();
    struct tachy_value *y = binary(TACHY_PLAN_ADD, input(5, SHAPE(3, 1, 2, 5, 16)), NUMBERS(1, 1, 1, 5, 16));
    tachy_graph_add_output(g, dense(reshape(y, 3, SHAPE(6, 5, 16)), 8, false));
}

TEST(sums_of_places_become_biases)
{
    check_near(placed, 240, 1e-5, 5e-3);
    check_near(placed_deep, 240, 1e-5, 5e-3);
    placed_deep();
    struct tachy_plan *deep = opened(&(struct tachy_plan_params){.precision = TACHY_PLAN_FP16, .kernels = &host_kernels});
    CHECK_INT(count(TACHY_OP_BINARY), 0);
    tachy_plan_close(&deep);
    tachy_graph_close(&g);
    placed();
    struct tachy_plan *p = opened(&(struct tachy_plan_params){.precision = TACHY_PLAN_FP16, .kernels = &host_kernels});
    const struct cuda_plan *q = (const struct cuda_plan *)p;
    CHECK_INT(count(TACHY_OP_BINARY), 1); // that of the results
    for (int i = 0; i < q->nb_steps; i++)
        if (q->steps[i].kind == CUDA_CONV) {
            CHECK(q->steps[i].a.conv.epilogue.add.data && !q->steps[i].a.conv.epilogue.add.image && !q->steps[i].a.conv.bias);
            CHECK_INT(q->steps[i].product.batch, 3);
            CHECK_INT(q->steps[i].product.add_next, 0);
        }
    CHECK_INT(steps_of(p, CUDA_CONV), 2);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

// Points of several pictures, summed over points and coordinates, with dimensions of one element between the two.
static void sums(void)
{
    begin();
    struct tachy_plan_attr a = {.reduce = {.how = TACHY_PLAN_SUM, .axis = {[1] = true, [5] = true}}};
    struct tachy_value *x = input(6, SHAPE(2, 5, 1, 1, 1, 3));
    tachy_graph_add_output(g, make(TACHY_OP_REDUCE, a, VALUE(2, 1, 1, 1, 1, 1), x, NULL, NULL));
}

TEST(sums_across_dimensions_of_one)
{
    sums();
    CHECK(!tachy_plan_cuda.refuses(g->first));
    g->in[0]->shape[3] = 4;
    CHECK_STR(tachy_plan_cuda.refuses(g->first), "axes that do not lie side by side");
    tachy_graph_close(&g);
    check_near(sums, 2, 1e-6, 5e-3);
}

// A gated unit's new state, of the sigmoid's second half, as exporters write it.
static void gated(void)
{
    begin();
    struct tachy_value *x = unary(TACHY_PLAN_RELU, conv(input(4, SHAPE(2, 3, 16, 8)), 16, 3, true)), *gates = unary(TACHY_PLAN_SIGMOID, conv(x, 48, 3, true));
    struct tachy_value *h = unary(TACHY_PLAN_RELU, conv(x, 24, 1, true)), *c = unary(TACHY_PLAN_TANH, conv(x, 24, 3, true));
    struct tachy_value *z = make(TACHY_OP_SLICE, (struct tachy_plan_attr){.slice = {.start = {0, 24}, .step = {1, 1, 1, 1}}}, like(h), gates, NULL, NULL);
    struct tachy_value *kept = make(TACHY_OP_BINARY, (struct tachy_plan_attr){.binary = TACHY_PLAN_SUB}, like(h), number(1), z, NULL);
    kept = binary(TACHY_PLAN_MUL, kept, h);
    tachy_graph_add_output(g, conv(binary(TACHY_PLAN_ADD, kept, binary(TACHY_PLAN_MUL, z, c)), 8, 1, true));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

TEST(gated_unit_is_one_launch)
{
    check_near(gated, 2 * 8 * 16 * 8, 1e-6, 5e-3);
    gated();
    struct tachy_plan *p = opened(&(struct tachy_plan_params){.precision = TACHY_PLAN_FP16, .kernels = &host_kernels});
    CHECK_INT(steps_of(p, CUDA_POINTWISE), 1);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

// A detector's end: maps of three sizes side by side, as scores, and further ones in other channels.
static void detector(void)
{
    begin();
    struct tachy_plan_attr half = {.conv = {{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 1, {0, 0}, 0, 0}}, columns = {.axis = 2}, channels = {.axis = 1};
    struct tachy_value *x = unary(TACHY_PLAN_RELU, conv(input(4, SHAPE(2, 3, 16, 8)), 16, 3, true)), *in[2][3], *all[] = {VALUE(2, 80, 168), VALUE(2, 24, 168)};
    struct tachy_value *y = VALUE(2, 104, 168);
    for (int i = 0; i < 3; i++) {
        int64_t h = x->shape[2], w = x->shape[3];
        in[0][i] = reshape(conv(unary(TACHY_PLAN_RELU, conv(x, 24, 3, true)), 80, 1, true), 3, SHAPE(2, 80, h * w));
        in[1][i] = reshape(conv(x, 24, 1, true), 3, SHAPE(2, 24, h * w));
        if (i < 2)
            x = unary(TACHY_PLAN_RELU, make(TACHY_OP_CONV, half, VALUE(2, 16, h / 2, w / 2), x, NUMBERS(16, 16, 3, 3), NULL));
    }
    for (int k = 0; k < 2; k++)
        tachy_graph_node(g, NULL, TACHY_OP_CONCAT, "n", &columns, in[k], 3, all[k]);
    all[0] = unary(TACHY_PLAN_SIGMOID, all[0]);
    tachy_graph_node(g, NULL, TACHY_OP_CONCAT, "n", &channels, all, 2, y);
    tachy_graph_add_output(g, y);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

// Twelve convolutions, of which six write side by side and three end with the function, the input's layout, and a transpose of each part of
// the output.
TEST(maps_side_by_side)
{
    check_near(detector, 2 * 104 * 168, 1e-6, 5e-3);
    detector();
    struct tachy_plan *p = opened(&(struct tachy_plan_params){.precision = TACHY_PLAN_FP16, .kernels = &host_kernels});
    CHECK_INT(steps_of(p, CUDA_CONV), 12);
    CHECK_INT(steps_of(p, CUDA_TRANSPOSE), 3);
    CHECK_INT(((const struct cuda_plan *)p)->nb_steps, 15);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

// The first candidate among conv_tma's tiles on a GPU of 132 multiprocessors, for a 3x3 convolution of eight pictures.
static int first_tile(int hw, int cin, int cout)
{
    struct tachy_gpu gpu = {.device = {.cc_major = 9, .sm_count = 132}};
    struct cuda_plan p = {.gpu = &gpu};
    struct cuda_step s = {.kind = CUDA_CONV, .a.conv = {.dtype = TACHY_F16, .shape = {.n = 8, .h = hw, .w = hw, .cin = cin, .cout = cout, .kh = 3,
                          .kw = 3, .stride_h = 1, .stride_w = 1, .dil_h = 1, .dil_w = 1, .pad_top = 1, .pad_left = 1, .pad_bottom = 1,
                          .pad_right = 1, .groups = 1}}};
    struct cuda_way ways[CUDA_WAYS];
    int n = cuda_ways(&p, &s, ways), seen = 0;
    for (int i = 0; i < n; i++)
        if (ways[i].kernel == CUDA_CONV_TMA)
            seen |= 1 << ways[i].variant;
    CHECK_INT(seen, (1 << TACHY_NN_TMA_VARIANTS) - 1);
    CHECK_INT(ways[0].kernel, CUDA_CONV_TMA);
    return ways[0].variant;
}

TEST(tiles_of_80_and_96_columns)
{
    CHECK_INT(first_tile(80, 80, 80), 19); // 256 pixels, three taps of 32 channels
    CHECK_INT(first_tile(80, 64, 80), 17); // 256 pixels
    CHECK_INT(first_tile(40, 128, 80), 18); // 128 pixels
    CHECK_INT(first_tile(80, 96, 96), 20);
    CHECK_INT(first_tile(160, 64, 64), 16); // those of 64 columns
    CHECK_INT(first_tile(64, 256, 256), 0);
}

TEST_MAIN(TEST_CASE(gated_unit_is_one_launch), TEST_CASE(maps_side_by_side), TEST_CASE(sums_across_dimensions_of_one), TEST_CASE(sums_of_places_become_biases), TEST_CASE(pixels_written_by_a_convolution), TEST_CASE(pixels_that_a_sum_reads), TEST_CASE(halves_are_written_in_place), TEST_CASE(few_channels),
          TEST_CASE(volumes_sampled_where_they_lie),
          TEST_CASE(attention_in_place), TEST_CASE(attention_with_one_side_alone), TEST_CASE(transformer_layer), TEST_CASE(products_of_moved_parts),
          TEST_CASE(volumes_stay_turned), TEST_CASE(tiles_of_80_and_96_columns))
