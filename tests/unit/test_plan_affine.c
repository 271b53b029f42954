#include "graph_build.h"

// Products and sums with constants: the pass "affine".

static struct tachy_value *picture(void) { return unary(TACHY_PLAN_TANH, input(4, SHAPE(2, 6, 8, 10))); }

static struct tachy_value *chain(void) // (1 - ((x - 2) 3 + 0.5)) / 4
{
    struct tachy_value *x = binary(TACHY_PLAN_MUL, binary(TACHY_PLAN_SUB, picture(), number(2)), number(3));
    struct tachy_value *one = number(1), *y = binary(TACHY_PLAN_ADD, x, number(0.5f));
    y = make(TACHY_OP_BINARY, (struct tachy_plan_attr){.binary = TACHY_PLAN_SUB}, like(y), one, y, NULL);
    return binary(TACHY_PLAN_DIV, y, number(4));
}

static struct tachy_value *norm_behind(void) // a batch normalisation that is left
{
    struct tachy_value *y = conv(picture(), 5, 3, true);
    y = binary(TACHY_PLAN_MUL, y, NUMBERS(5, 1, 1));
    return unary(TACHY_PLAN_RELU, binary(TACHY_PLAN_ADD, y, NUMBERS(1, 5, 1, 1)));
}

static struct tachy_value *norm_in_front(void) // no padding: the shift goes in as well
{
    struct tachy_value *x = binary(TACHY_PLAN_MUL, picture(), NUMBERS(1, 6, 1, 1));
    x = binary(TACHY_PLAN_ADD, x, NUMBERS(6, 1, 1));
    struct tachy_plan_attr a = {.conv = {{2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}, 2, {0, 0}, 0, 0}};
    return make(TACHY_OP_CONV, a, VALUE(2, 4, 4, 5), x, NUMBERS(4, 3, 2, 2), NUMBERS(4));
}

static struct tachy_value *taps(void) // depthwise convolutions of one tap, around a PRelu
{
    struct tachy_plan_attr tap = {.conv = {{1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 6, {0, 0}, 0, 0}};
    struct tachy_plan_attr prelu = {.act = {TACHY_PLAN_PRELU, 0, 0}};
    struct tachy_value *x = picture();
    x = make(TACHY_OP_CONV, tap, like(x), x, NUMBERS(6, 1, 1, 1), NULL);
    x = binary(TACHY_PLAN_ADD, x, NUMBERS(6, 1, 1));
    x = make(TACHY_OP_UNARY, prelu, like(x), x, NUMBERS(1, 6, 1, 1), NULL);
    x = make(TACHY_OP_CONV, tap, like(x), x, NUMBERS(6, 1, 1, 1), NUMBERS(6));
    return conv(x, 4, 1, false);
}

static struct tachy_value *nothing(void)
{
    struct tachy_value *x = binary(TACHY_PLAN_SUB, binary(TACHY_PLAN_MUL, picture(), number(1)), number(0));
    struct tachy_value *zeros = NUMBERS(1, 1, 1, 10); // the same everywhere, whatever its shape
    memset((float *)zeros->data, 0, 10 * sizeof(float));
    return unary(TACHY_PLAN_ABS, binary(TACHY_PLAN_ADD, x, zeros));
}

TEST(forms)
{
    static const struct {
        struct tachy_value *(*build)(void);
        int nodes; // left of it, with what makes the picture
    } form[] = {{chain, 3}, {norm_behind, 3}, {norm_in_front, 2}, {taps, 4}, {nothing, 2}};
    for (size_t i = 0; i < sizeof(form) / sizeof(form[0]); i++) {
        begin();
        tachy_graph_add_output(g, form[i].build());
        CHECK_INT(tachy_plan_affine(g), TACHY_OK);
        CHECK_INT(tachy_graph_verify(g), TACHY_OK);
        CHECK_INT(nodes(), form[i].nodes);
        tachy_graph_close(&g);
        same_after_all(form[i].build);
    }
}

static void stays(struct tachy_value *y)
{
    tachy_graph_add_output(g, y);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    int before = nodes();
    CHECK_INT(tachy_plan_affine(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(nodes(), before);
    tachy_graph_close(&g);
}

TEST(others_stay)
{
    begin(); // the border's zeros are not shifted
    stays(conv(binary(TACHY_PLAN_ADD, picture(), number(1)), 5, 3, true));
    begin(); // another factor for each column
    stays(conv(binary(TACHY_PLAN_MUL, picture(), NUMBERS(10)), 5, 3, true));
    begin(); // a product and a sum, as few as can be
    stays(binary(TACHY_PLAN_ADD, binary(TACHY_PLAN_MUL, picture(), NUMBERS(6, 1, 1)), NUMBERS(6, 1, 1)));
    begin(); // no such number
    stays(binary(TACHY_PLAN_MUL, binary(TACHY_PLAN_MUL, picture(), number(1e30f)), number(1e30f)));
    begin(); // an activation between
    struct tachy_value *y = conv(picture(), 5, 3, true);
    y->made_by->attr.act.act = TACHY_PLAN_RELU;
    stays(binary(TACHY_PLAN_MUL, y, number(3)));
    begin(); // used unchanged
    struct tachy_value *x = picture(), *z = binary(TACHY_PLAN_MUL, x, number(3));
    tachy_graph_add_output(g, z);
    stays(conv(z, 5, 3, true));
}

TEST_MAIN(TEST_CASE(forms), TEST_CASE(others_stay))
