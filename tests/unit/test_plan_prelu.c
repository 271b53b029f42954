#include "graph_build.h"

// PRelu out of the sums that exporters write for it: the pass "prelu".

static struct tachy_value *numbers_from(float from, float to) // five channels' factors
{
    struct tachy_value *v = NUMBERS(1, 5, 1, 1);
    for (int i = 0; i < 5; i++)
        ((float *)v->data)[i] = from + (to - from) * (float)i / 4;
    return v;
}

static struct tachy_value *one_minus(const struct tachy_value *a)
{
    struct tachy_value *v = numbers_from(0, 0);
    for (int i = 0; i < 5; i++)
        ((float *)v->data)[i] = 1 - ((const float *)a->data)[i];
    return v;
}

static struct tachy_value *start(void) { return conv(input(4, SHAPE(2, 3, 8, 6)), 5, 3, true); }

// The product of a channel as a depthwise convolution of one tap.
static struct tachy_value *tap(struct tachy_value *x, struct tachy_value *k)
{
    struct tachy_plan_attr a = {.conv = {{1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 5, {0, 0}, 0, 0}};
    struct tachy_value *w = tachy_graph_constant(g, NULL, TACHY_F32, 4, SHAPE(5, 1, 1, 1), k->data);
    return make(TACHY_OP_CONV, a, like(x), x, w, NULL);
}

static struct tachy_value *taps(void) // a x + relu((1 - a) x)
{
    struct tachy_value *x = start(), *a = numbers_from(-0.4f, 0.9f);
    return binary(TACHY_PLAN_ADD, tap(x, a), unary(TACHY_PLAN_RELU, tap(x, one_minus(a))));
}

static struct tachy_value *steep_taps(void) // a x + (1 - a) relu(x)
{
    struct tachy_value *x = start(), *a = numbers_from(-0.5f, 2);
    return binary(TACHY_PLAN_ADD, tap(x, a), tap(unary(TACHY_PLAN_RELU, x), one_minus(a)));
}

static struct tachy_value *two_relus(void) // relu(x) - a relu(-x)
{
    struct tachy_value *x = start(), *a = numbers_from(-0.5f, 2);
    struct tachy_value *minus = unary(TACHY_PLAN_RELU, binary(TACHY_PLAN_MUL, x, number(-1)));
    return binary(TACHY_PLAN_SUB, unary(TACHY_PLAN_RELU, x), binary(TACHY_PLAN_MUL, minus, a));
}

static struct tachy_value *magnitudes(void) // relu(x) + a (x - |x|) / 2
{
    struct tachy_value *x = start(), *a = numbers_from(0.1f, 0.3f);
    struct tachy_value *twice = binary(TACHY_PLAN_SUB, x, unary(TACHY_PLAN_ABS, x));
    return binary(TACHY_PLAN_ADD, unary(TACHY_PLAN_RELU, x),
                  binary(TACHY_PLAN_MUL, binary(TACHY_PLAN_MUL, twice, a), number(0.5f)));
}

static struct tachy_value *smallest(void) // max(x, 0) + a min(x, 0)
{
    struct tachy_value *x = start(), *a = numbers_from(0.1f, 1.5f);
    return binary(TACHY_PLAN_ADD, binary(TACHY_PLAN_MAX, x, number(0)),
                  binary(TACHY_PLAN_MUL, binary(TACHY_PLAN_MIN, x, number(0)), a));
}

static struct tachy_value *largest(void) // max(x, a x)
{
    struct tachy_value *x = start();
    return binary(TACHY_PLAN_MAX, x, binary(TACHY_PLAN_MUL, x, numbers_from(-0.5f, 0.9f)));
}

TEST(forms)
{
    struct tachy_value *(*const form[])(void) = {taps, steep_taps, two_relus, magnitudes, smallest, largest};
    for (size_t i = 0; i < sizeof(form) / sizeof(form[0]); i++) {
        begin();
        tachy_graph_add_output(g, form[i]());
        CHECK_INT(tachy_plan_passes(g, "prelu"), TACHY_OK);
        CHECK_INT(nodes(), 2);
        CHECK(g->last->op == TACHY_OP_UNARY && g->last->attr.act.act == TACHY_PLAN_PRELU);
        CHECK(g->last->in[0] == g->first->out);
        CHECK_INT(tachy_plan_passes(g, "fuse"), TACHY_OK);
        CHECK_INT(nodes(), 1);
        tachy_graph_close(&g);
        same_after_all(form[i]);
    }
}

static void stays(struct tachy_value *y)
{
    tachy_graph_add_output(g, y);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    int before = nodes();
    CHECK_INT(tachy_plan_prelu(g), TACHY_OK);
    CHECK_INT(nodes(), before);
    for (const struct tachy_node *n = g->first; n; n = n->next)
        CHECK(n->attr.act.act != TACHY_PLAN_PRELU);
    tachy_graph_close(&g);
}

// Sums that look like it and are not.
TEST(others_stay)
{
    begin(); // 2 above zero
    struct tachy_value *x = start();
    stays(binary(TACHY_PLAN_ADD, x, unary(TACHY_PLAN_RELU, x)));
    begin(); // not of one value
    x = start();
    struct tachy_value *z = start();
    stays(binary(TACHY_PLAN_ADD, unary(TACHY_PLAN_RELU, x), binary(TACHY_PLAN_MUL, z, number(0.5f))));
    begin(); // a clip that is no line
    x = start();
    stays(binary(TACHY_PLAN_ADD, unary(TACHY_PLAN_CLIP, x), binary(TACHY_PLAN_MUL, x, number(0))));
    begin(); // a factor for each column
    x = start();
    stays(binary(TACHY_PLAN_MAX, x, binary(TACHY_PLAN_MUL, x, NUMBERS(6))));
    begin(); // a bias between
    x = start();
    stays(binary(TACHY_PLAN_ADD, unary(TACHY_PLAN_RELU, x), binary(TACHY_PLAN_ADD, x, NUMBERS(1, 5, 1, 1))));
}

// An intermediate value of the sum with another user is still made.
TEST(used_elsewhere)
{
    begin();
    struct tachy_value *x = start(), *r = unary(TACHY_PLAN_RELU, x);
    struct tachy_value *y = binary(TACHY_PLAN_ADD, r, binary(TACHY_PLAN_MUL, binary(TACHY_PLAN_SUB, x, r), number(0.25f)));
    tachy_graph_add_output(g, y);
    tachy_graph_add_output(g, r);
    CHECK_INT(tachy_plan_passes(g, "prelu"), TACHY_OK);
    CHECK_INT(nodes(), 3);
    CHECK(y->made_by->attr.act.act == TACHY_PLAN_PRELU && r->made_by->attr.act.act == TACHY_PLAN_RELU);
    tachy_graph_close(&g);
}

TEST_MAIN(TEST_CASE(forms), TEST_CASE(others_stay), TEST_CASE(used_elsewhere))
