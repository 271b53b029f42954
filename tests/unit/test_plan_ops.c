#include "graph_build.h"
#include "nn_host.h"
#include "plan/f64.h"

// Operators besides convolutions: a plan's results against float64, on a plain picture and after a convolution
// (channels last), with one thread and with three; the same on a GPU, over the fake driver with the kernels as plain
// loops; their types; refusals.

// Operators may be given channels last.
static struct tachy_value *x;

static struct tachy_value *of_type(enum tachy_dtype t, const struct tachy_value *v)
{
    return tachy_graph_value(g, NULL, t, v->rank, v->shape);
}

static struct tachy_value *compare(enum tachy_plan_binary how, struct tachy_value *a, struct tachy_value *b)
{
    return make(TACHY_OP_BINARY, (struct tachy_plan_attr){.binary = how}, of_type(TACHY_U8, a), a, b, NULL);
}

static struct tachy_value *truth(enum tachy_plan_act act, struct tachy_value *v)
{
    struct tachy_plan_attr a = {.act = {act, 1, 1}};
    return make(TACHY_OP_UNARY, a, of_type(TACHY_U8, v), v, NULL, NULL);
}

static struct tachy_value *whole(int rank, const int64_t *shape, int below)
{
    struct tachy_value *v = tachy_graph_value(g, NULL, TACHY_I64, rank, shape);
    int64_t n = tachy_value_elements(v), *data = tachy_graph_alloc(g, sizeof(*data) * (size_t)n);
    for (int64_t i = 0; i < n; i++)
        data[i] = (int64_t)(seed = seed * 1664525u + 1013904223u) % below;
    return tachy_graph_constant(g, NULL, TACHY_I64, rank, shape, data);
}

static struct tachy_value *renamed(enum tachy_dtype t, struct tachy_value *v)
{
    return make(TACHY_OP_RESHAPE, (struct tachy_plan_attr){0}, of_type(t, v), v, NULL, NULL);
}

static struct tachy_value *spread(void) { return compare(TACHY_PLAN_LESS, x, NUMBERS(6, 1, 7)); }

static struct tachy_value *logic(void)
{
    struct tachy_value *a = compare(TACHY_PLAN_GREATER, x, number(0)), *b = compare(TACHY_PLAN_LESS_EQUAL, x, NUMBERS(5, 1));
    return compare(TACHY_PLAN_OR, compare(TACHY_PLAN_XOR, a, b), truth(TACHY_PLAN_NOT, b));
}

static struct tachy_value *select_of(void)
{
    struct tachy_value *y = like(x);
    return make(TACHY_OP_SELECT, (struct tachy_plan_attr){0}, y, compare(TACHY_PLAN_GREATER, x, number(0.1f)), x,
                NUMBERS(6, 1, 1));
}

static struct tachy_value *functions(void)
{
    struct tachy_value *y = x;
    static const enum tachy_plan_act acts[] = {TACHY_PLAN_SIN, TACHY_PLAN_COS, TACHY_PLAN_ATAN, TACHY_PLAN_SINH,
                                               TACHY_PLAN_ASINH, TACHY_PLAN_SOFTSIGN, TACHY_PLAN_NEG, TACHY_PLAN_TAN};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(acts); i++)
        y = unary(acts[i], y);
    return y;
}

static struct tachy_value *quantised(enum tachy_dtype t, struct tachy_value *v, float zero)
{
    struct tachy_plan_attr a = {.act = {TACHY_PLAN_QUANTIZE, zero, t == TACHY_I8 ? -128 : 0}};
    return make(TACHY_OP_UNARY, a, of_type(t, v), v, NULL, NULL);
}

// Behind a layer with channels last, cut at both ends of its type, and a number again.
static struct tachy_value *levels(void)
{
    struct tachy_plan_attr pool = {.pool = {.kernel = {1, 1}, .stride = {1, 1}}};
    struct tachy_value *wide = binary(TACHY_PLAN_MUL, x, number(256)), *last = like(wide);
    make(TACHY_OP_POOL, pool, last, wide, NULL, NULL);
    struct tachy_value *y = quantised(TACHY_U8, last, 100), *z = quantised(TACHY_I8, last, -3);
    CHECK_INT(y->most, 255);
    return binary(TACHY_PLAN_ADD, renamed(TACHY_F32, y), renamed(TACHY_F32, z));
}

// Whole numbers: cut, divided, limited, and used as a number again.
static struct tachy_value *numbers_of(void)
{
    struct tachy_plan_attr arg = {.arg = {.axis = 1}}, quotient = {.binary = TACHY_PLAN_DIV};
    struct tachy_value *most = tachy_graph_value(g, NULL, TACHY_I64, 4, SHAPE(2, 1, 5, 7));
    make(TACHY_OP_ARG, arg, most, x, NULL, NULL);
    CHECK_INT(most->most, 5);
    struct tachy_value *half = of_type(TACHY_I64, most), *two = whole(1, SHAPE(1), 3);
    *(int64_t *)two->data = 2;
    make(TACHY_OP_BINARY, quotient, half, most, two, NULL);
    return half;
}

static struct tachy_value *last_smallest(void)
{
    struct tachy_plan_attr arg = {.arg = {.axis = 3, .min = true, .last = true}};
    return make(TACHY_OP_ARG, arg, tachy_graph_value(g, NULL, TACHY_I64, 4, SHAPE(2, 6, 5, 1)), x, NULL, NULL);
}

static struct tachy_value *gather(void)
{
    struct tachy_plan_attr rows = {.axis = 2}, channels = {.axis = 1};
    struct tachy_value *y = make(TACHY_OP_GATHER, rows, VALUE(2, 6, 3, 7), x, whole(1, SHAPE(3), 5), NULL);
    return make(TACHY_OP_GATHER, channels, VALUE(2, 2, 2, 3, 7), y, whole(2, SHAPE(2, 2), 6), NULL);
}

// A single number as the index takes the dimension away, also the first one.
static struct tachy_value *gather_one(void)
{
    struct tachy_plan_attr first = {.axis = 0}, last = {.axis = 2};
    struct tachy_value *y = make(TACHY_OP_GATHER, first, VALUE(6, 5, 7), x, whole(0, SHAPE(1), 2), NULL);
    return make(TACHY_OP_GATHER, last, VALUE(6, 5), y, whole(0, SHAPE(1), 7), NULL);
}

static struct tachy_value *gather_each(void)
{
    struct tachy_plan_attr a = {.axis = 2};
    return make(TACHY_OP_GATHER_EACH, a, VALUE(2, 4, 9, 7), x, whole(4, SHAPE(2, 4, 9, 7), 5), NULL);
}

static struct tachy_value *gather_nd(void)
{
    struct tachy_plan_attr a = {.axis = 1};
    return make(TACHY_OP_GATHER_ND, a, VALUE(2, 8, 7), x, whole(3, SHAPE(2, 8, 2), 5), NULL);
}

static struct tachy_value *below(float limit, struct tachy_value *y, struct tachy_value *otherwise)
{
    struct tachy_value *is = compare(TACHY_PLAN_LESS, x, number(limit));
    return make(TACHY_OP_SELECT, (struct tachy_plan_attr){0}, like(x), is, y, otherwise);
}

static enum tachy_plan_scatter scattered; // what the next two are checked with

// Several writes to one place, in whose order sums are made.
static struct tachy_value *scatter_each(void)
{
    struct tachy_plan_attr a = {.scatter = {2, scattered}};
    struct tachy_value *in[] = {x, whole(4, SHAPE(2, 4, 3, 7), 5), NUMBERS(2, 4, 3, 7)}, *y = like(x);
    return tachy_graph_node(g, NULL, TACHY_OP_SCATTER_EACH, NULL, &a, in, 3, y) ? y : NULL;
}

static struct tachy_value *scatter_nd(void)
{
    struct tachy_plan_attr a = {.scatter = {0, scattered}};
    struct tachy_value *in[] = {x, whole(2, SHAPE(4, 2), 2), NUMBERS(4, 5, 7)}, *y = like(x);
    return tachy_graph_node(g, NULL, TACHY_OP_SCATTER_ND, NULL, &a, in, 3, y) ? y : NULL;
}

// With equal numbers and NaN.
static struct tachy_value *top(int axis, int64_t k, bool min)
{
    struct tachy_plan_attr a = {.arg = {axis, min, false}};
    struct tachy_value *zero = binary(TACHY_PLAN_MUL, x, number(0)), *steps = unary(TACHY_PLAN_ROUND, binary(TACHY_PLAN_MUL, x, number(3)));
    int64_t shape[] = {2, 6, 5, 7};
    shape[axis] = k;
    struct tachy_value *y = tachy_graph_value(g, NULL, TACHY_I64, 4, shape);
    make(TACHY_OP_TOP, a, y, below(-0.8f, binary(TACHY_PLAN_DIV, zero, zero), steps), NULL, NULL);
    CHECK_INT(y->most, x->shape[axis] - 1);
    return y;
}

static struct tachy_value *top_channels(void) { return top(1, 4, false); }
static struct tachy_value *top_all(void) { return top(3, 7, true); }
static struct tachy_value *top_one(void) { return top(2, 1, true); }

// Integers of x * 3, of what is beyond every integer at both ends, and of 0 / 0.
static struct tachy_value *beyond(enum tachy_dtype t)
{
    struct tachy_plan_attr cut = {.act = {TACHY_PLAN_TRUNC, 0, 0}};
    struct tachy_value *zero = binary(TACHY_PLAN_MUL, x, number(0)), *far = binary(TACHY_PLAN_MUL, x, number(1e20f));
    struct tachy_value *none = binary(TACHY_PLAN_DIV, zero, zero), *i = of_type(t, x);
    struct tachy_value *y = below(0.3f, binary(TACHY_PLAN_MUL, x, number(3)), below(0.6f, none, far));
    return make(TACHY_OP_UNARY, cut, i, below(-0.5f, far, y), NULL, NULL);
}

static struct tachy_value *cut_i32(void) { return beyond(TACHY_I32); }
static struct tachy_value *cut_i64(void) { return beyond(TACHY_I64); }

// As inside a plan, where a number is used further.
static struct tachy_value *cut_and_back(void) { return renamed(TACHY_F32, beyond(TACHY_I32)); }

// Indices that are computed, and out of range.
static struct tachy_value *followed(void)
{
    struct tachy_plan_attr a = {.axis = 2}, cut = {.act = {TACHY_PLAN_TRUNC, 0, 0}};
    struct tachy_value *far = binary(TACHY_PLAN_MUL, x, number(1e20f)), *i = of_type(TACHY_I32, x);
    make(TACHY_OP_UNARY, cut, i, far, NULL, NULL);
    return make(TACHY_OP_GATHER_EACH, a, like(x), x, i, NULL);
}

static struct tachy_value *product(void)
{
    struct tachy_plan_attr a = {.matmul = {.trans_b = true, .alpha = 0.5f}};
    return make(TACHY_OP_MATMUL, a, VALUE(2, 6, 5, 5), x, x, NULL);
}

static struct tachy_value *product_spread(void)
{
    struct tachy_plan_attr a = {.matmul = {.trans_a = true, .alpha = 1}};
    struct tachy_value *one = VALUE(2, 1, 5, 7);
    struct tachy_plan_attr mean = {.reduce = {TACHY_PLAN_MEAN, {false, true, false, false}}};
    make(TACHY_OP_REDUCE, mean, one, x, NULL, NULL);
    return make(TACHY_OP_MATMUL, a, VALUE(2, 6, 7, 7), one, x, NULL);
}

// A bias and a function after two computed matrices; a constant before a computed one.
static struct tachy_value *product_ended(void)
{
    struct tachy_plan_attr a = {.matmul = {.trans_b = true, .alpha = 1}, .act = {TACHY_PLAN_RELU, 0, 0}}, b = {.matmul = {.alpha = 1}};
    struct tachy_value *y = make(TACHY_OP_MATMUL, a, VALUE(2, 6, 5, 5), x, x, NUMBERS(5));
    return make(TACHY_OP_MATMUL, b, VALUE(2, 6, 3, 5), NUMBERS(6, 3, 5), y, NULL);
}

static struct tachy_value *weights_computed(void)
{
    struct tachy_plan_attr a = {.conv = {{5, 7}, {1, 1}, {1, 1}, {2, 3, 2, 3}, 1, {0, 0}, 0, 0}};
    return make(TACHY_OP_CONV, a, VALUE(2, 2, 5, 7), x, x, NUMBERS(2));
}

static struct tachy_value *layer_norm(void)
{
    struct tachy_plan_attr a = {.norm = {0, 1e-5f}};
    return make(TACHY_OP_LAYER_NORM, a, like(x), x, NUMBERS(7), NUMBERS(7));
}

static struct tachy_value *group_norm(void)
{
    struct tachy_plan_attr a = {.norm = {2, 1e-5f}};
    return make(TACHY_OP_GROUP_NORM, a, like(x), x, NUMBERS(6), NUMBERS(6));
}

static struct tachy_value *cubic(void)
{
    struct tachy_plan_attr a = {.resize = {.mode = TACHY_PLAN_CUBIC, .scale = {1.6f, 0.5f}, .cubic = -0.75f}};
    a.act.act = TACHY_PLAN_RELU;
    return make(TACHY_OP_RESIZE, a, VALUE(2, 6, 8, 3), x, NULL, NULL);
}

static struct tachy_value *backwards(void)
{
    struct tachy_plan_attr a = {.slice = {{1, 5, 0, 6}, {-1, -2, 1, -3}}};
    return make(TACHY_OP_SLICE, a, VALUE(2, 3, 5, 3), x, NULL, NULL);
}

static struct tachy_value *reduced(void)
{
    struct tachy_value *y = x;
    for (int i = TACHY_PLAN_PROD; i < TACHY_PLAN_REDUCES; i++) {
        struct tachy_plan_attr a = {.reduce = {(enum tachy_plan_reduce)i, {false, i % 2 > 0, i % 2 == 0, false}}};
        struct tachy_value *r = VALUE(2, i % 2 ? 1 : 6, i % 2 ? 5 : 1, 7);
        make(TACHY_OP_REDUCE, a, r, unary(TACHY_PLAN_SIGMOID, y), NULL, NULL);
        y = binary(TACHY_PLAN_ADD, y, r);
    }
    return y;
}

// More dimensions than a launch has.
static struct tachy_value *many(void)
{
    struct tachy_plan_attr turn = {.perm = {6, 4, 2, 0, 5, 3, 1, 7}}, pad = {.pad = {.value = 0.5f, .before = {1, 0, 0, 0, 0, 0, 0, 1}}};
    struct tachy_value *a = VALUE(2, 2, 3, 5, 7), *b = VALUE(2, 2, 3, 5, 7, 2, 3, 2), *c = VALUE(3, 7, 3, 2, 2, 5, 2, 2);
    make(TACHY_OP_RESHAPE, (struct tachy_plan_attr){0}, a, x, NULL, NULL);
    struct tachy_value *one = VALUE(2, 2, 3, 5, 7, 1, 1, 1);
    make(TACHY_OP_RESHAPE, (struct tachy_plan_attr){0}, one, a, NULL, NULL);
    make(TACHY_OP_BINARY, (struct tachy_plan_attr){.binary = TACHY_PLAN_MUL}, b, one, NUMBERS(7, 2, 3, 2), NULL);
    make(TACHY_OP_TRANSPOSE, turn, c, b, NULL, NULL);
    return make(TACHY_OP_PAD, pad, VALUE(4, 7, 3, 2, 2, 5, 2, 3), c, NULL, NULL);
}

static struct tachy_value *eight(void)
{
    struct tachy_value *a = VALUE(2, 3, 2, 1, 5, 1, 1, 7);
    make(TACHY_OP_RESHAPE, (struct tachy_plan_attr){0}, a, x, NULL, NULL);
    struct tachy_plan_attr add = {.binary = TACHY_PLAN_ADD, .act = {TACHY_PLAN_SIGMOID, 0, 0}};
    return make(TACHY_OP_BINARY, add, VALUE(2, 3, 2, 4, 5, 3, 2, 7), a, NUMBERS(2, 4, 1, 3, 2, 7), NULL);
}

struct grid {
    enum tachy_plan_resize mode;
    enum tachy_plan_outside outside;
    bool align;
};
static struct grid form;

static struct tachy_value *grid(void)
{
    struct tachy_plan_attr a = {.grid = {form.mode, form.outside, form.align}};
    return make(TACHY_OP_GRID_SAMPLE, a, VALUE(2, 6, 4, 3), x, binary(TACHY_PLAN_MUL, NUMBERS(2, 4, 3, 2), number(1.7f)),
                NULL);
}

static struct tachy_value *volume(void)
{
    struct tachy_plan_attr a = {.grid = {form.mode, form.outside, form.align}};
    struct tachy_value *v = VALUE(2, 2, 3, 5, 7);
    make(TACHY_OP_RESHAPE, (struct tachy_plan_attr){0}, v, x, NULL, NULL);
    return make(TACHY_OP_GRID_SAMPLE, a, VALUE(2, 2, 2, 4, 3), v, NUMBERS(2, 2, 4, 3, 3), NULL);
}

static struct tachy_value *behind(bool last, struct tachy_value *(*build)(void))
{
    x = input(4, SHAPE(2, 6, 5, 7));
    x = last ? conv(x, 6, 3, true) : x;
    return build();
}

// Numbers of the output's type.
static double at(const struct tachy_value *v, const void *data, int64_t i)
{
    struct tachy_value like_it = *v;
    like_it.data = data;
    return tachy_constant_at(&like_it, i);
}

static void run(const float *in, void *out, int threads, enum tachy_guard guard)
{
    struct tachy_cpu_plan *p = NULL;
    struct tachy_plan_params params = {.threads = threads, .guard = guard};
    CHECK_INT(tachy_cpu_plan_open(&p, g, &params), TACHY_OK);
    if (p)
        CHECK_INT(tachy_cpu_plan_run(p, (const float *const[]){in}, (float *const[]){out}), TACHY_OK);
    tachy_cpu_plan_close(&p);
}

// NaN if one of two numbers is.
static double error_of(const struct tachy_value *v, const void *got, const double *want)
{
    double norm = 0, error = 0;
    for (int64_t i = 0; i < tachy_value_elements(v); i++) {
        double a = at(v, got, i), d = a - want[i];
        if (a == want[i] || (isnan(a) && isnan(want[i])))
            d = 0;
        norm += isfinite(want[i]) ? want[i] * want[i] : 0;
        error += d * d;
    }
    return error == 0 ? 0 : sqrt(error / norm);
}

#ifdef TACHY_TEST_NO_GPU // neither a GPU nor the driver of fakes/
static bool refused_on_gpu(void) { return true; }
static void on_gpu(struct tachy_value *(*build)(void), bool last, const float *in, const double *want, double limit) {}
#else
static bool refused_on_gpu(void)
{
    for (const struct tachy_node *n = g->first; n; n = n->next)
        if (tachy_plan_cuda.refuses(n))
            return true;
    return false;
}

// The graph as a plan of a GPU, before any pass. float16 only has to run.
static void on_gpu(struct tachy_value *(*build)(void), bool last, const float *in, const double *want, double limit)
{
    for (int half = 0; half < 2; half++) {
        const struct tachy_plan_params params = {.precision = half ? TACHY_PLAN_FP16 : TACHY_PLAN_FP32, .kernels = &host_kernels};
        struct tachy_plan *p = NULL;
        begin();
        tachy_graph_add_output(g, behind(last, build));
        const struct tachy_value *y = g->out[0];
        void *got = calloc((size_t)tachy_value_elements(y), tachy_dtype_size(y->dtype));
        CHECK(!refused_on_gpu());
        CHECK_INT(tachy_plan_run_passes(g, tachy_plan_cuda.passes(&params), NULL), TACHY_OK);
        CHECK_INT(tachy_plan_cuda.open(&p, g, &params), TACHY_OK);
        for (int i = 0; i < 2 && p; i++) // the second run finds the first one's arena
            CHECK_INT(tachy_plan_cuda.run(p, (const void *const[]){in}, (void *const[]){got}, NULL, NULL), TACHY_OK);
        CHECK(half || error_of(g->out[0], got, want) <= (g->out[0]->dtype == TACHY_F32 ? limit : 0));
        tachy_plan_close(&p);
        free(got);
        tachy_graph_close(&g);
    }
}
#endif

// The back ends that run a graph.
enum where { BOTH, CPU_ALONE };
// `limit`: of the L2 norm of the difference over that of the result; whole numbers are exact.
static void checked_on(enum where where, struct tachy_value *(*build)(void), double limit)
{
    for (int last = 0; last < 2; last++) {
        struct tachy_f64 *f = NULL;
        float in[2 * 6 * 5 * 7];
        begin();
        tachy_graph_add_output(g, behind(last, build));
        const struct tachy_value *y = g->out[0];
        size_t n = (size_t)tachy_value_elements(y), size = n * tachy_dtype_size(y->dtype);
        double *want = calloc(n, sizeof(*want));
        void *got = calloc(1, size), *again = calloc(1, size);
        for (int i = 0; i < 2 * 6 * 5 * 7; i++)
            in[i] = noise();
        CHECK_INT(tachy_graph_verify(g), TACHY_OK);
        CHECK_INT(tachy_f64_open(&f, g, (const void *const[]){in}, false), TACHY_OK);
        memcpy(want, tachy_f64_value(f, y), n * sizeof(*want));
        tachy_f64_close(&f);
        CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
        run(in, got, 1, TACHY_GUARD_NONE);
        for (enum tachy_guard guard = TACHY_GUARD_NONE; guard <= TACHY_GUARD_BEGIN; guard++) {
            run(in, again, 3, guard);
            CHECK(!memcmp(got, again, size));
        }
        CHECK(error_of(g->out[0], got, want) <= (g->out[0]->dtype == TACHY_F32 ? limit : 0));
        tachy_graph_close(&g);
        if (where == BOTH)
            on_gpu(build, last, in, want, limit);
        free(want);
        free(got);
        free(again);
    }
}

static void checked(struct tachy_value *(*build)(void), double limit) { checked_on(BOTH, build, limit); }
// A GPU leaves it to ONNX Runtime.
static void checked_on_cpu(struct tachy_value *(*build)(void), double limit)
{
    begin();
    tachy_graph_add_output(g, behind(false, build));
    CHECK(refused_on_gpu());
    tachy_graph_close(&g);
    checked_on(CPU_ALONE, build, limit);
}

TEST(elements)
{
    checked(spread, 0);
    checked(logic, 0);
    checked(select_of, 2e-6);
    checked(functions, 2e-6);
    checked(reduced, 2e-6);
    checked(eight, 2e-6);
    checked(many, 2e-6);
}

TEST(indices)
{
    checked(numbers_of, 0);
    checked(levels, 2e-6);
    checked(last_smallest, 0);
    checked(gather, 2e-6);
    checked(gather_one, 2e-6);
    checked(gather_each, 2e-6);
    checked(gather_nd, 2e-6);
    for (scattered = 0; scattered < TACHY_PLAN_SCATTERS; scattered++) {
        checked(scatter_each, 2e-6);
        checked(scatter_nd, 2e-6);
    }
    checked(top_channels, 0);
    checked(top_all, 0);
    checked(top_one, 0);
    checked(cut_i32, 0);
    checked(cut_i64, 0);
    checked(cut_and_back, 0);
    checked(followed, 2e-6);
    checked(backwards, 2e-6);
}

TEST(products)
{
    checked(product, 2e-6);
    checked(product_spread, 2e-6);
    checked(product_ended, 2e-6);
    checked_on_cpu(weights_computed, 2e-6);
}

TEST(norms_and_samples)
{
    checked(layer_norm, 4e-6); // a mean is taken away
    checked(group_norm, 4e-6);
    checked(cubic, 2e-6);
    for (int i = 0; i < 18; i++) {
        form = (struct grid){(enum tachy_plan_resize)(i % 3), (enum tachy_plan_outside)(i / 3 % 3), i >= 9};
        checked(grid, 1e-5); // positions are rounded to float32
        if (form.mode != TACHY_PLAN_CUBIC)
            checked(volume, 1e-5);
    }
}

static void wrong(const char *why, struct tachy_value *y)
{
    CHECK_STR(tachy_node_wrong(y->made_by), why);
}

TEST(types)
{
    struct tachy_plan_attr cut = {.act = {TACHY_PLAN_TRUNC, 0, 0}}, times = {.binary = TACHY_PLAN_MUL};
    begin();
    x = input(4, SHAPE(2, 6, 5, 7));
    wrong("operands of different types", binary(TACHY_PLAN_ADD, x, compare(TACHY_PLAN_LESS, x, number(0))));
    wrong("a type other than truth values", compare(TACHY_PLAN_AND, x, x));
    wrong("a type that does not hold it", renamed(TACHY_I64, x));
    CHECK(!tachy_node_wrong(renamed(TACHY_F32, compare(TACHY_PLAN_LESS, x, number(0)))->made_by));
    CHECK(!tachy_node_wrong(quantised(TACHY_I8, x, 127)->made_by));
    wrong("a zero point outside of its type", quantised(TACHY_U8, x, -1));
    wrong("a zero point outside of its type", quantised(TACHY_I8, x, 0.5f));
    wrong("a type that numbers are not quantised to", quantised(TACHY_I64, x, 0));
    wrong("a type that numbers are not quantised to", quantised(TACHY_U8, compare(TACHY_PLAN_LESS, x, number(0)), 0));
    struct tachy_value *far = of_type(TACHY_I64, x), *i = tachy_graph_value(g, NULL, TACHY_I32, 1, SHAPE(3));
    make(TACHY_OP_UNARY, cut, far, x, NULL, NULL); // any float32 that is whole
    CHECK(!tachy_node_wrong(far->made_by));
    struct tachy_value *square = of_type(TACHY_I64, x);
    wrong("whole numbers that may become too large", make(TACHY_OP_BINARY, times, square, far, far, NULL));
    // A graph's int32 inputs: what rounding to float32 does not change, and what it does.
    struct tachy_plan_attr equal = {.binary = TACHY_PLAN_EQUAL}, plus = {.binary = TACHY_PLAN_ADD};
    struct tachy_value *few = whole(1, SHAPE(3), 1000), *many = whole(1, SHAPE(3), 1000);
    few->dtype = many->dtype = i->dtype = TACHY_I64;
    many->most = TACHY_PLAN_WHOLE;
    CHECK(!tachy_node_wrong(make(TACHY_OP_GATHER, (struct tachy_plan_attr){.axis = 3}, VALUE(2, 6, 5, 3), x, i, NULL)->made_by));
    CHECK(!tachy_node_wrong(renamed(TACHY_F32, i)->made_by));
    CHECK(!tachy_node_wrong(make(TACHY_OP_BINARY, equal, of_type(TACHY_U8, i), i, few, NULL)->made_by));
    wrong("whole numbers that may be too large", make(TACHY_OP_BINARY, equal, of_type(TACHY_U8, i), i, many, NULL));
    wrong("whole numbers that may be too large", make(TACHY_OP_BINARY, equal, of_type(TACHY_U8, i), i, i, NULL));
    wrong("whole numbers that may be too large", make(TACHY_OP_BINARY, plus, of_type(TACHY_I64, i), i, few, NULL));
    tachy_graph_close(&g);
}

TEST(shapes)
{
    begin();
    x = input(4, SHAPE(2, 6, 5, 7));
    struct tachy_plan_attr none = {0}, axis = {.axis = 4}, norm = {.norm = {4, 1e-5f}}, grid_of = {0};
    wrong("an axis that is not there, or an output of another rank",
          make(TACHY_OP_GATHER, axis, like(x), x, whole(1, SHAPE(7), 7), NULL));
    wrong("an output of another shape", make(TACHY_OP_GATHER_EACH, none, VALUE(2, 7, 5, 7), x, whole(4, SHAPE(2, 7, 5, 7), 2), NULL));
    wrong("batches that do not fit",
          make(TACHY_OP_GATHER_ND, (struct tachy_plan_attr){.axis = 1}, VALUE(3, 8, 7), x, whole(3, SHAPE(3, 8, 2), 5), NULL));
    struct tachy_value *scatter[] = {x, whole(2, SHAPE(4, 2), 2), NUMBERS(4, 5, 6)}, *y = like(x);
    tachy_graph_node(g, NULL, TACHY_OP_SCATTER_ND, NULL, &none, scatter, 3, y);
    wrong("updates of another shape", y);
    wrong("an output of another shape",
          make(TACHY_OP_TOP, (struct tachy_plan_attr){.arg = {.axis = 2}},
               tachy_graph_value(g, NULL, TACHY_I64, 4, SHAPE(2, 6, 6, 7)), x, NULL, NULL));
    wrong("groups that do not fit the channels", make(TACHY_OP_GROUP_NORM, norm, like(x), x, NUMBERS(6), NUMBERS(6)));
    wrong("a grid that does not fit", make(TACHY_OP_GRID_SAMPLE, grid_of, VALUE(2, 6, 4, 3), x, NUMBERS(2, 4, 3, 3), NULL));
    wrong("batches that do not fit",
          make(TACHY_OP_MATMUL, (struct tachy_plan_attr){.matmul = {.alpha = 1}}, VALUE(2, 6, 5, 3), x, NUMBERS(5, 7, 3), NULL));
    struct tachy_plan_attr out = {.slice = {{0, 5, 0, 0}, {1, -3, 1, 1}}};
    wrong("a slice that reaches out of its input", make(TACHY_OP_SLICE, out, VALUE(2, 3, 5, 7), x, NULL, NULL));
    tachy_graph_close(&g);
}

TEST_MAIN(TEST_CASE(elements), TEST_CASE(indices), TEST_CASE(products), TEST_CASE(norms_and_samples), TEST_CASE(types),
          TEST_CASE(shapes))
