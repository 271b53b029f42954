#include "plan_cuda.h"

// Convolutions of 1x1 taps and few channels: one step, which reads the parts of a Concat where they lie.

enum { H = 40, W = 36 };

static struct tachy_value *joined(struct tachy_value *const *parts, int n)
{
    struct tachy_value *y = NULL;
    const struct tachy_plan_attr channels = {.axis = 1};
    int64_t c = 0;
    for (int i = 0; i < n; i++)
        c += parts[i]->shape[1];
    y = value(4, SHAPE(parts[0]->shape[0], c, parts[0]->shape[2], parts[0]->shape[3]));
    tachy_graph_node(g, NULL, TACHY_OP_CONCAT, "n", &channels, parts, n, y);
    return y;
}

static struct tachy_value *layer(struct tachy_value *x, int channels) { return unary(TACHY_PLAN_RELU, tame(x, channels, 1, true)); }

// Three pictures, of which two are read elsewhere too, and planes at the end.
static void refiner(void)
{
    begin();
    struct tachy_value *x = input(4, SHAPE(2, 3, H, W)), *a = unary(TACHY_PLAN_RELU, tame(x, 5, 3, true)), *b = tame(a, 4, 3, true);
    tachy_graph_add_output(g, layer(layer(layer(joined((struct tachy_value *[]){x, b, a}, 3), 16), 14), 4));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

// Six layers in a row, whose result a convolution of 3x3 taps reads: two steps.
static void many(void)
{
    begin();
    struct tachy_value *y = unary(TACHY_PLAN_RELU, tame(input(4, SHAPE(2, 3, H, W)), 40, 3, true));
    y = tame(y, 30, 3, true);
    for (int i = 0; i < 6; i++)
        y = layer(y, 32 - 3 * i);
    tachy_graph_add_output(g, tame(y, 4, 3, true));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

// No two layers can be joined here: another node reads the value between two of them, one layer adds a sum, one has too many channels, and
// the last pictures have one pixel.
static void near_misses(void)
{
    begin();
    struct tachy_value *x = tame(input(4, SHAPE(2, 3, H, W)), 8, 3, true), *read = layer(x, 12), *y = layer(read, 12);
    y = binary(TACHY_PLAN_ADD, y, read);
    y = binary(TACHY_PLAN_ADD, tame(y, 12, 1, true), read);
    y = layer(layer(y, 48), 12);
    const struct tachy_plan_attr mean = {.reduce = {TACHY_PLAN_MEAN, {false, false, true, true}}};
    y = make(TACHY_OP_REDUCE, mean, VALUE(2, 12, 1, 1), y, NULL, NULL);
    tachy_graph_add_output(g, tame(layer(layer(y, 8), 12), 4, 1, true));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

// A Concat and one layer, and a Concat that another convolution reads as well.
static void concats(void)
{
    begin();
    struct tachy_value *x = input(4, SHAPE(2, 3, H, W)), *a = tame(x, 6, 3, true), *b = tame(x, 7, 3, true);
    struct tachy_value *y = joined((struct tachy_value *[]){tame(joined((struct tachy_value *[]){a, b}, 2), 9, 1, false), a}, 2);
    tachy_graph_add_output(g, binary(TACHY_PLAN_ADD, tame(tame(y, 9, 1, true), 4, 3, true), tame(y, 4, 3, true)));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

static void check_steps(void (*build)(void), int mlps, int convs, size_t least)
{
    build();
    struct tachy_plan *p = opened(&(struct tachy_plan_params){.precision = TACHY_PLAN_FP16, .kernels = &host_kernels});
    CHECK_INT(steps_of(p, CUDA_MLP), mlps);
    CHECK_INT(steps_of(p, CUDA_CONV), convs);
    for (int i = 0; i < steps(p); i++) {
        const struct cuda_step *s = &((const struct cuda_plan *)p)->steps[i];
        CHECK(s->kind != CUDA_MLP || s->a.mlp.nb_parts * s->a.mlp.nb_layers >= (int)least);
    }
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

TEST(a_concat_layers_and_planes_are_one_step)
{
    check_near(refiner, 2 * 4 * H * W, 1e-6, 5e-3);
    check_steps(refiner, 1, 2, 9);
    refiner();
    struct tachy_plan *p = opened(&(struct tachy_plan_params){.precision = TACHY_PLAN_FP16, .kernels = &host_kernels});
    CHECK_INT(steps_called(p, "Concat"), 0);
    CHECK_INT(steps_called(p, "Transpose"), 1); // the input's layout
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

TEST(a_long_row_is_several_steps)
{
    check_near(many, 2 * 4 * H * W, 1e-6, 8e-3);
    check_steps(many, 2, 3, 2);
}

TEST(what_others_need_is_stored)
{
    check_near(near_misses, 2 * 4, 1e-5, 1e-2);
    check_steps(near_misses, 0, 9, 0);
    check_near(concats, 2 * 4 * H * W, 1e-6, 5e-3);
    check_steps(concats, 1, 5, 2);
}

TEST_MAIN(TEST_CASE(a_concat_layers_and_planes_are_one_step), TEST_CASE(a_long_row_is_several_steps), TEST_CASE(what_others_need_is_stored))
