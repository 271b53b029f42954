#include "graph_build.h"

// Means of pictures whose rows are summed as they are written: the pass "sums" and its steps.

static struct tachy_value *mean(struct tachy_value *x)
{
    struct tachy_plan_attr a = {.reduce = {TACHY_PLAN_MEAN, {false, false, true, true}}};
    return make(TACHY_OP_REDUCE, a, VALUE(x->shape[0], x->shape[1], 1, 1), x, NULL, NULL);
}

static struct tachy_value *depthwise(struct tachy_value *x)
{
    int c = (int)x->shape[1];
    struct tachy_plan_attr a = {.conv = {{3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, c, {0, 0}, 0, 0}};
    return make(TACHY_OP_CONV, a, like(x), x, NUMBERS(c, 1, 3, 3), NUMBERS(c));
}

// A wide convolution, a depthwise one, a resize with a sum, and a convolution of short rows.
static struct tachy_value *build(void)
{
    struct tachy_value *x = unary(TACHY_PLAN_HSWISH, conv(input(4, SHAPE(2, 3, 56, 50)), 9, 3, true));
    struct tachy_value *d = unary(TACHY_PLAN_RELU, depthwise(x));
    struct tachy_plan_attr half = {.resize = {.mode = TACHY_PLAN_LINEAR, .scale = {0.5f, 0.5f}}};
    struct tachy_value *r = make(TACHY_OP_RESIZE, half, VALUE(2, 9, 28, 25), d, NULL, NULL);
    r = binary(TACHY_PLAN_ADD, unary(TACHY_PLAN_TANH, r), conv(r, 9, 1, true));
    struct tachy_value *s = conv(r, 9, 1, true);
    struct tachy_value *sum = binary(TACHY_PLAN_ADD, mean(x), mean(d));
    return binary(TACHY_PLAN_ADD, sum, binary(TACHY_PLAN_MUL, mean(r), mean(s)));
}

static int marked(void)
{
    int n = 0;
    for (const struct tachy_node *i = g->first; i; i = i->next)
        n += i->attr.row_sums;
    return n;
}

TEST(marks)
{
    begin();
    tachy_graph_add_output(g, build());
    CHECK_INT(tachy_plan_passes(g, "sums"), TACHY_OK);
    CHECK_INT(marked(), 4);
    char *text = tachy_graph_print(g);
    CHECK(text && strstr(text, "row-sums"));
    tachy_free(text);
    for (struct tachy_node *n = g->first; n; n = n->next)
        if (n->op == TACHY_OP_REDUCE) {
            n->attr.row_sums = true;
            CHECK_STR(tachy_node_wrong(n), "row sums, which its operator does not make");
        }
    tachy_graph_close(&g);
    same_after_all(build);
}

// With other means, over channels too, nothing is summed.
TEST(other_means)
{
    begin();
    struct tachy_value *x = conv(input(4, SHAPE(1, 3, 8, 64)), 9, 3, true);
    struct tachy_plan_attr all = {.reduce = {TACHY_PLAN_MEAN, {false, true, true, true}}};
    struct tachy_plan_attr most = {.reduce = {TACHY_PLAN_RMAX, {false, false, true, true}}};
    tachy_graph_add_output(g, make(TACHY_OP_REDUCE, all, VALUE(1, 1, 1, 1), x, NULL, NULL));
    tachy_graph_add_output(g, make(TACHY_OP_REDUCE, most, VALUE(1, 9, 1, 1), x, NULL, NULL));
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
    CHECK_INT(marked(), 0);
    tachy_graph_close(&g);
}

// Rows summed by several threads: the bits of one.
TEST(threads)
{
    enum { IN = 2 * 3 * 56 * 50, OUT = 2 * 9 };
    static float x[IN];
    float want[OUT], got[OUT];
    for (int threads = 1; threads <= 4; threads++) {
        struct tachy_cpu_plan *p = NULL;
        begin();
        tachy_graph_add_output(g, build());
        for (int i = 0; i < IN; i++)
            x[i] = noise();
        CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
        CHECK_INT(tachy_cpu_plan_open(&p, g, &(struct tachy_plan_params){.threads = threads}), TACHY_OK);
        tachy_graph_close(&g);
        const float *in = x;
        for (int i = 0; i < 3 && p; i++) {
            memset(got, 0, sizeof(got));
            CHECK_INT(tachy_cpu_plan_run(p, &in, (float *const[]){threads == 1 ? want : got}), TACHY_OK);
            CHECK(threads == 1 || !memcmp(want, got, sizeof(want)));
        }
        tachy_cpu_plan_close(&p);
    }
}

TEST_MAIN(TEST_CASE(marks), TEST_CASE(other_means), TEST_CASE(threads))
