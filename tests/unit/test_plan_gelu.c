#include "graph_build.h"

// Gelu and Mish out of the operators that exporters write: the pass "gelu".

static struct tachy_value *start(void) { return conv(input(4, SHAPE(2, 3, 8, 6)), 5, 3, true); }

static struct tachy_value *times(struct tachy_value *a, struct tachy_value *b) { return binary(TACHY_PLAN_MUL, a, b); }

static struct tachy_value *erf_part(struct tachy_value *x, bool divide) // 1 + erf(x / sqrt 2)
{
    x = divide ? binary(TACHY_PLAN_DIV, x, number(1.41421356f)) : times(x, number(0.70710678f));
    return binary(TACHY_PLAN_ADD, unary(TACHY_PLAN_ERF, x), number(1));
}

static struct tachy_value *tanh_part(struct tachy_value *x, bool power)
{
    struct tachy_value *cube = power ? binary(TACHY_PLAN_POW, x, number(3)) : times(times(x, x), x);
    x = binary(TACHY_PLAN_ADD, x, times(cube, number(0.044715f)));
    return binary(TACHY_PLAN_ADD, unary(TACHY_PLAN_TANH, times(x, number(0.79788456f))), number(1));
}

static struct tachy_value *half_last(void)
{
    struct tachy_value *x = start();
    return times(times(x, erf_part(x, true)), number(0.5f));
}

static struct tachy_value *half_first(void)
{
    struct tachy_value *x = start();
    return times(times(x, number(0.5f)), erf_part(x, false));
}

static struct tachy_value *half_between(void)
{
    struct tachy_value *x = start();
    return times(x, times(tanh_part(x, true), number(0.5f)));
}

static struct tachy_value *cubes(void)
{
    struct tachy_value *x = start();
    return times(binary(TACHY_PLAN_DIV, x, number(2)), tanh_part(x, false));
}

static struct tachy_value *mish(void)
{
    struct tachy_value *x = start();
    return times(x, unary(TACHY_PLAN_TANH, unary(TACHY_PLAN_SOFTPLUS, x)));
}

TEST(forms)
{
    static const struct {
        struct tachy_value *(*build)(void);
        enum tachy_plan_act act;
    } form[] = {{half_last, TACHY_PLAN_GELU}, {half_first, TACHY_PLAN_GELU}, {half_between, TACHY_PLAN_GELU_TANH},
                {cubes, TACHY_PLAN_GELU_TANH}, {mish, TACHY_PLAN_MISH}};
    for (size_t i = 0; i < sizeof(form) / sizeof(form[0]); i++) {
        begin();
        tachy_graph_add_output(g, form[i].build());
        CHECK_INT(tachy_plan_gelu(g), TACHY_OK);
        CHECK_INT(tachy_graph_verify(g), TACHY_OK);
        CHECK_INT(nodes(), 2);
        CHECK_INT(g->last->attr.act.act, form[i].act);
        CHECK(g->last->in[0] == g->first->out);
        tachy_graph_close(&g);
        same_after_all(form[i].build);
    }
}

static void stays(struct tachy_value *y)
{
    tachy_graph_add_output(g, y);
    int before = nodes();
    CHECK_INT(tachy_plan_gelu(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(nodes(), before);
    tachy_graph_close(&g);
}

// Another constant, another value, a square.
TEST(others_stay)
{
    begin();
    struct tachy_value *x = start();
    stays(times(times(x, number(0.4f)), erf_part(x, true)));
    begin();
    x = start();
    struct tachy_value *z = start();
    stays(times(times(x, number(0.5f)), erf_part(z, true)));
    begin();
    x = start();
    struct tachy_value *u = binary(TACHY_PLAN_ADD, x, times(times(x, x), number(0.044715f)));
    u = binary(TACHY_PLAN_ADD, unary(TACHY_PLAN_TANH, times(u, number(0.79788456f))), number(1));
    stays(times(times(x, u), number(0.5f)));
    begin();
    x = start(), z = start();
    stays(times(x, unary(TACHY_PLAN_TANH, unary(TACHY_PLAN_SOFTPLUS, z))));
}

TEST_MAIN(TEST_CASE(forms), TEST_CASE(others_stay))
