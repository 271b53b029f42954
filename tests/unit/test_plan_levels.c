#include "graph_build.h"

#include "base/cpu.h"
#include "plan/cpu/kernels.h"

// Quantised numbers that become numbers again: the pass "levels", and the activation that it makes.

// QuantizeLinear to U8 or I8 and DequantizeLinear, as the provider reads them.
static struct tachy_value *quantised(struct tachy_value *x, float scale, float zero, float least, enum tachy_dtype t)
{
    struct tachy_value *d = binary(TACHY_PLAN_DIV, x, number(scale));
    struct tachy_plan_attr a = {.act = {TACHY_PLAN_QUANTIZE, zero, least}};
    struct tachy_value *q = make(TACHY_OP_UNARY, a, tachy_graph_value(g, NULL, t, x->rank, x->shape), d, NULL, NULL);
    return make(TACHY_OP_RESHAPE, (struct tachy_plan_attr){0}, like(x), q, NULL, NULL);
}

static struct tachy_value *numbers_of(struct tachy_value *q, float scale, float zero)
{
    return binary(TACHY_PLAN_MUL, zero != 0 ? binary(TACHY_PLAN_SUB, q, number(zero)) : q, number(scale));
}

static struct tachy_value *alone(void)
{
    struct tachy_value *x = input(4, SHAPE(1, 3, 8, 6));
    return numbers_of(quantised(x, 0.25f, 7, 0, TACHY_U8), 0.25f, 7);
}

static struct tachy_value *signed_alone(void)
{
    struct tachy_value *x = input(4, SHAPE(1, 3, 8, 6));
    return numbers_of(quantised(x, 0.0078125f, 0, -128, TACHY_I8), 0.0078125f, 0); // the ends of the type
}

// One rounded value that two nodes read, and one that is rounded twice.
static struct tachy_value *twice(void)
{
    struct tachy_value *q = quantised(input(4, SHAPE(1, 3, 8, 6)), 0.25f, 7, 0, TACHY_U8);
    struct tachy_value *a = numbers_of(q, 0.25f, 7), *b = numbers_of(q, 0.5f, 7);
    return binary(TACHY_PLAN_ADD, a, unary(TACHY_PLAN_ABS, b));
}

static int steps(struct tachy_value *(*build)(void), enum tachy_plan_act act)
{
    int n = 0;
    begin();
    tachy_graph_add_output(g, build());
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
    for (const struct tachy_node *i = g->first; i; i = i->next)
        n += i->attr.act.act == act && i->op != TACHY_OP_TRANSPOSE;
    tachy_graph_close(&g);
    return n;
}

TEST(becomes_an_activation)
{
    struct tachy_value *(*const of[])(void) = {alone, signed_alone, twice};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(of); i++) {
        CHECK_INT(steps(of[i], TACHY_PLAN_QUANTIZE), 0);
        CHECK_INT(steps(of[i], TACHY_PLAN_LEVELS), 1);
        same_after_all(of[i]); // scales are powers of two: no number falls to the other side
    }
}

static struct tachy_value *other_zero(void) // what is taken off is not the zero point
{
    struct tachy_value *x = input(4, SHAPE(1, 3, 8, 6));
    return numbers_of(quantised(x, 0.25f, 7, 0, TACHY_U8), 0.25f, 6);
}

TEST(stays)
{
    CHECK_INT(steps(other_zero, TACHY_PLAN_LEVELS), 0);
    same_after_all(other_zero);
}

static struct tachy_value *layers(void)
{
    struct tachy_value *x = quantised(input(4, SHAPE(1, 3, 8, 6)), 0.02f, 128, 0, TACHY_U8);
    struct tachy_value *y = conv(numbers_of(x, 0.02f, 128), 4, 3, true);
    return numbers_of(quantised(y, 0.03f, 100, 0, TACHY_U8), 0.03f, 100);
}

// Both scales go into the weights, the rounding into the end of the convolution. Each result is a level; a sum near a
// half may go to the next one.
TEST(around_a_convolution)
{
    begin();
    tachy_graph_add_output(g, layers());
    CHECK_INT(tachy_plan_layout(g), TACHY_OK);
    float *before = results();
    tachy_graph_close(&g);
    begin();
    tachy_graph_add_output(g, layers());
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
    for (const struct tachy_node *n = g->first; n; n = n->next)
        if (n->op == TACHY_OP_CONV)
            CHECK_INT(n->attr.act.act, TACHY_PLAN_LEVELS);
    float *after = results();
    int other = 0;
    for (int i = 0; i < 4 * 8 * 6; i++) {
        CHECK(fabsf(after[i] - before[i]) < 0.0301f);
        CHECK(fabsf(after[i] / 0.03f - rintf(after[i] / 0.03f)) < 1e-4f);
        other += fabsf(after[i] - before[i]) > 0.01f;
    }
    CHECK(other <= 1);
    free(before);
    free(after);
    tachy_graph_close(&g);
}

// The kernel in every instruction set: halves, the ends, what is no number.
TEST(kernels)
{
    const float x[] = {-INFINITY, -9, -2.5f, -1.5f, -0.5f, 0.5f, 1.5f, 2.4f, 2.5f, 2.6f, 1e30f, INFINITY, NAN, 4.5f, 3.5f, 5.5f,
                       0.49999997f};
    const float want[] = {-4, -4, -2, -2, 0, 0, 2, 2, 2, 3, 5, 5, -4, 4, 4, 5, 0};
    float y[TACHY_ARRAY_SIZE(x)];
    for (int isa = TACHY_ISA_C; isa <= TACHY_ISA_NEON; isa++) {
        const struct tachy_plan_kernels *k = tachy_plan_kernels((enum tachy_isa)isa);
        if (!k)
            continue;
        k->unary(y, x, (int)TACHY_ARRAY_SIZE(x), &(struct tachy_act){TACHY_ACT_LEVELS, -4, 5, NULL});
        for (size_t i = 0; i < TACHY_ARRAY_SIZE(x); i++)
            CHECK(y[i] == want[i]);
    }
}

TEST_MAIN(TEST_CASE(becomes_an_activation), TEST_CASE(stays), TEST_CASE(around_a_convolution), TEST_CASE(kernels))
