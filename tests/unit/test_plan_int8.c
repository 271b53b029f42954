#include "graph_build.h"
#include "nn_host.h"
#include "plan/backend.h"

// The pass `int8`: networks between QuantizeLinear and DequantizeLinear in whole numbers. The CPU's plain loops and a GPU's
// plan over the host's kernels give the same bits; both are within a level of the same network in float32.

// x as the provider reads QuantizeLinear, followed by its DequantizeLinear.
static struct tachy_value *quantise(struct tachy_value *x, float scale, float zero, enum tachy_dtype t)
{
    struct tachy_plan_attr a = {.act = {TACHY_PLAN_QUANTIZE, zero, t == TACHY_I8 ? -128 : 0}};
    struct tachy_value *d = binary(TACHY_PLAN_DIV, x, number(scale));
    return make(TACHY_OP_UNARY, a, tachy_graph_value(g, NULL, t, x->rank, x->shape), d, NULL, NULL);
}
static struct tachy_value *numbers_again(struct tachy_value *q, float scale, float zero)
{
    struct tachy_value *f = make(TACHY_OP_RESHAPE, (struct tachy_plan_attr){0}, like(q), q, NULL, NULL);
    return binary(TACHY_PLAN_MUL, binary(TACHY_PLAN_SUB, f, number(zero)), number(scale));
}
static struct tachy_value *levels(struct tachy_value *x, float scale, float zero, enum tachy_dtype t)
{
    return numbers_again(quantise(x, scale, zero, t), scale, zero);
}

// A constant as the provider folds it: numbers of 8 bits, a scale for each of the first dimension or for all.
static struct tachy_value *weights(bool each, float zero, int rank, const int64_t *shape)
{
    struct tachy_value *v = numbers(rank, shape);
    int64_t n = tachy_value_elements(v), first = each ? shape[0] : 1;
    int8_t *q = tachy_graph_alloc(g, (size_t)n);
    float *scale = tachy_graph_alloc(g, sizeof(float) * (size_t)first), *z = tachy_graph_alloc(g, sizeof(float)), *to = tachy_graph_alloc(g, sizeof(float) * (size_t)n);
    struct tachy_quantised *of = tachy_graph_alloc(g, sizeof(*of));
    *z = zero;
    for (int64_t i = 0; i < first; i++)
        scale[i] = (float)(i % 5 + 3) / 1024;
    for (int64_t i = 0; i < n; i++) {
        q[i] = (int8_t)rintf(noise() * 100);
        to[i] = ((float)q[i] - zero) * scale[each ? i / (n / first) : 0];
    }
    *of = (struct tachy_quantised){tachy_graph_constant(g, NULL, TACHY_I8, rank, shape, q), scale, z, first, 1, 0};
    v->data = to;
    v->quantised = of;
    return v;
}
#define WEIGHTS(each, zero, ...) weights(each, zero, RANK(__VA_ARGS__), SHAPE(__VA_ARGS__))

static struct tachy_value *layer(struct tachy_value *x, int channels, int kernel, int groups, bool each, float zero)
{
    int p = kernel / 2;
    struct tachy_plan_attr a = {.conv = {{kernel, kernel}, {1, 1}, {1, 1}, {p, p, p, p}, groups, {0, 0}, 0, 0}};
    return make(TACHY_OP_CONV, a, VALUE(x->shape[0], channels, x->shape[2], x->shape[3]), x,
                WEIGHTS(each, zero, channels, x->shape[1] / groups, kernel, kernel), NUMBERS(channels));
}

static enum tachy_dtype type; // of activations
static float offset(void) { return type == TACHY_U8 ? 121 : -9; }
static struct tachy_value *start(void) { return levels(input(4, SHAPE(2, 6, 9, 7)), 0.03125f, offset(), type); }

static struct tachy_value *plain(void) { return levels(unary(TACHY_PLAN_RELU, layer(start(), 20, 3, 1, true, 0)), 0.0625f, offset(), type); }
static struct tachy_value *function(void) { return levels(unary(TACHY_PLAN_SIGMOID, levels(layer(start(), 7, 1, 1, false, 3), 0.0625f, offset(), type)), 0.00390625f, 0, TACHY_U8); }
static struct tachy_value *swish(void) { return levels(unary(TACHY_PLAN_HSWISH, layer(start(), 5, 3, 1, true, 0)), 0.0625f, offset(), type); }
static struct tachy_value *depthwise(void) { return levels(layer(start(), 6, 3, 6, true, 0), 0.0625f, offset(), type); }
static struct tachy_value *grouped(void) { return levels(layer(start(), 8, 3, 2, true, 0), 0.0625f, offset(), type); }
static struct tachy_value *residual(void)
{
    struct tachy_value *x = start(), *y = levels(layer(x, 6, 3, 1, true, 0), 0.0625f, offset(), type);
    return levels(unary(TACHY_PLAN_RELU, binary(TACHY_PLAN_ADD, x, y)), 0.125f, 0, type);
}
static struct tachy_value *product(void)
{
    struct tachy_value *x = start();
    return levels(binary(TACHY_PLAN_MUL, x, levels(layer(x, 6, 1, 1, false, 0), 0.0625f, offset(), type)), 0.25f, offset(), type);
}
static struct tachy_value *joined(void)
{
    struct tachy_value *x = start(), *y = levels(layer(x, 6, 1, 1, false, 0), 0.0625f, offset(), type);
    struct tachy_plan_attr axis = {.axis = 1}, pool = {.pool = {{2, 2}, {2, 2}, {0, 0, 0, 0}, false, false}};
    y = levels(make(TACHY_OP_CONCAT, axis, VALUE(2, 12, 9, 7), x, y, NULL), 0.0625f, offset(), type);
    return levels(make(TACHY_OP_POOL, pool, VALUE(2, 12, 4, 3), y, NULL, NULL), 0.0625f, offset(), type);
}
static struct tachy_value *end(void) // float32 after the last layer, by a matrix
{
    struct tachy_value *x = levels(input(3, SHAPE(2, 5, 18)), 0.03125f, offset(), type);
    struct tachy_plan_attr a = {.matmul = {.trans_b = true, .alpha = 1}};
    return make(TACHY_OP_MATMUL, a, VALUE(2, 5, 11), x, WEIGHTS(true, 0, 11, 18), NUMBERS(11));
}
static struct tachy_value *mean(void) // what has no whole numbers gets float32
{
    struct tachy_value *x = levels(layer(start(), 6, 3, 1, true, 0), 0.0625f, offset(), type);
    struct tachy_plan_attr a = {.reduce = {TACHY_PLAN_MEAN, {false, false, true, true}}};
    return make(TACHY_OP_REDUCE, a, VALUE(2, 6, 1, 1), x, NULL, NULL);
}

static float *run_by(const struct plan_backend *b, const struct tachy_plan_params *params, const float *x)
{
    struct tachy_plan *p = NULL;
    struct tachy_graph *copy = NULL;
    float *y = calloc((size_t)tachy_value_elements(g->out[0]), sizeof(*y));
    CHECK_INT(tachy_graph_copy(&copy, g, false), TACHY_OK);
    CHECK_INT(tachy_plan_run_passes(copy, b->passes(params), NULL), TACHY_OK);
    CHECK_INT(b->open(&p, copy, params), TACHY_OK);
    CHECK_INT(b->run(p, (const void *const[]){x}, (void *const[]){y}, NULL, NULL), TACHY_OK);
    tachy_plan_close(&p);
    tachy_graph_close(&copy);
    return y;
}

// Allowed difference of the two forms in levels: one for each intermediate rounding. `half`: non-integer values are
// float16 on a GPU.
static void check_one(struct tachy_value *(*build)(void), float step, double many, bool half)
{
    begin();
    tachy_graph_add_output(g, build());
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    int64_t n = tachy_value_elements(g->in[0]), nb = tachy_value_elements(g->out[0]);
    float *x = calloc((size_t)n, sizeof(*x));
    for (int64_t i = 0; i < n; i++)
        x[i] = 3 * noise();
    const struct tachy_plan_params whole = {.precision = TACHY_PLAN_INT8}, gpu = {.precision = TACHY_PLAN_INT8, .kernels = &host_kernels, .effort = build == plain};
    int before = host_convs_int8;
    float *want = run_by(&tachy_plan_cpu, &(struct tachy_plan_params){0}, x), *got = run_by(&tachy_plan_cpu, &whole, x),
          *there = run_by(&tachy_plan_cuda, &gpu, x), most = 0;
    CHECK(host_convs_int8 > before);
    for (int64_t i = 0; i < nb; i++) {
        CHECK(fabs((double)got[i] - (double)want[i]) <= many * (double)step);
        CHECK(fabs((double)got[i] - (double)there[i]) <= (half ? fabs((double)got[i]) / 1000 + 1e-4 : 0));
        most = fmaxf(most, fabsf(got[i]));
    }
    CHECK(most > 4 * step);
    free(x), free(want), free(got), free(there);
    tachy_graph_close(&g);
}

TEST(same_as_float)
{
    for (int i = 0; i < 2; i++) {
        type = i ? TACHY_I8 : TACHY_U8;
        check_one(plain, 0.0625f, 1.001, false);
        check_one(function, 0.00390625f, 6, false); // a level in front of the function
        check_one(swish, 0.0625f, 1.001, false);
        check_one(depthwise, 0.0625f, 1.001, false);
        check_one(grouped, 0.0625f, 1.001, false);
        check_one(residual, 0.125f, 1.001, false);
        check_one(product, 0.25f, 2.001, false);
        check_one(joined, 0.0625f, 1.001, false);
        check_one(end, 0.01f, 0.1, true);
        check_one(mean, 0.0625f, 0.2, true);
    }
}

static int nb_after(struct tachy_value *(*build)(void), enum tachy_plan_op op)
{
    begin();
    tachy_graph_add_output(g, build());
    CHECK_INT(tachy_plan_int8(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    int n = count(op);
    tachy_graph_close(&g);
    return n;
}

static struct tachy_value *wide(void) // weights that are no numbers of 8 bits once their zero point is off
{
    return levels(layer(start(), 20, 3, 1, true, 120), 0.0625f, offset(), type);
}

TEST(what_it_makes)
{
    type = TACHY_U8;
    CHECK_INT(nb_after(plain, TACHY_OP_CONV), 0);
    CHECK_INT(nb_after(residual, TACHY_OP_BINARY_INT8), 0); // it is the convolution's end
    CHECK_INT(nb_after(product, TACHY_OP_BINARY_INT8), 1);
    CHECK_INT(nb_after(function, TACHY_OP_TABLE), 2); // one for the function, one for the result's numbers
    CHECK_INT(nb_after(end, TACHY_OP_CONV_INT8), 1);
    CHECK_INT(nb_after(wide, TACHY_OP_CONV), 1);
}

static struct tachy_value *chain(void)
{
    struct tachy_value *x = unary(TACHY_PLAN_TANH, input(4, SHAPE(2, 3, 8, 6)));
    return binary(TACHY_PLAN_MAX, unary(TACHY_PLAN_EXP, binary(TACHY_PLAN_MIN, x, number(0.5f))), number(0.75f));
}
static struct tachy_value *forked(void) // the first value is read twice, once by the launch behind
{
    struct tachy_value *x = unary(TACHY_PLAN_TANH, input(4, SHAPE(2, 3, 8, 6)));
    return binary(TACHY_PLAN_SUB, unary(TACHY_PLAN_EXP, x), x);
}

// Functions, and what is done with one other value, are part of the launch in front.
TEST(chains)
{
    struct tachy_value *(*const of[])(void) = {chain, forked};
    static const int nb_steps[] = {1, 2};
    const struct tachy_plan_params gpu = {.kernels = &host_kernels};
    for (int k = 0; k < 2; k++) {
        begin();
        tachy_graph_add_output(g, of[k]());
        float x[2 * 3 * 8 * 6];
        for (size_t i = 0; i < TACHY_ARRAY_SIZE(x); i++)
            x[i] = 3 * noise();
        float *want = run_by(&tachy_plan_cpu, &(struct tachy_plan_params){0}, x), *got = run_by(&tachy_plan_cuda, &gpu, x);
        for (size_t i = 0; i < TACHY_ARRAY_SIZE(x); i++)
            CHECK(fabsf(got[i] - want[i]) < 1e-5f);
        struct tachy_plan *p = NULL;
        struct tachy_plan_info info;
        CHECK_INT(tachy_plan_run_passes(g, tachy_plan_cuda.passes(&gpu), NULL), TACHY_OK);
        CHECK_INT(tachy_plan_cuda.open(&p, g, &gpu), TACHY_OK);
        tachy_plan_cuda.info(p, &info);
        CHECK_INT(info.steps, nb_steps[k]);
        tachy_plan_close(&p);
        free(want), free(got);
        tachy_graph_close(&g);
    }
}

TEST_MAIN(TEST_CASE(same_as_float), TEST_CASE(what_it_makes), TEST_CASE(chains))
