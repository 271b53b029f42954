#include "plan/graph.h"
#include "test.h"

#include <math.h>

// The graph that plans are made from: building, changing, printing, and what verify refuses.

static const struct tachy_log *quiet;
static char last[512];

static void keep(void *user, enum tachy_log_level level, const char *text)
{
    snprintf(last, sizeof(last), "%s", text);
}

static const struct tachy_log log_last = {.fn = keep};

#define SHAPE(...) (int64_t[]){__VA_ARGS__}
#define RANK(...) ((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#define VALUE(g, name, ...) tachy_graph_value(g, name, TACHY_F32, RANK(__VA_ARGS__), SHAPE(__VA_ARGS__))

static const float weights[64];

struct net {
    struct tachy_graph *g;
    struct tachy_value *x, *w, *c, *y;
    struct tachy_node *conv, *relu;
};

// x -> Conv 3x3 stride 2 -> relu -> output
static struct net small(const struct tachy_log *log)
{
    struct net n;
    CHECK_INT(tachy_graph_open(&n.g, log), TACHY_OK);
    n.x = VALUE(n.g, "x", 1, 2, 8, 8);
    n.w = tachy_graph_constant(n.g, "w", TACHY_F32, 4, SHAPE(3, 2, 3, 3), weights);
    n.c = VALUE(n.g, "c", 1, 3, 4, 4);
    n.y = VALUE(n.g, "y", 1, 3, 4, 4);
    tachy_graph_add_input(n.g, n.x);
    struct tachy_plan_attr conv = {.conv = {.kernel = {3, 3}, .stride = {2, 2}, .dilation = {1, 1},
                                            .pad = {1, 1, 1, 1}, .groups = 1}};
    struct tachy_plan_attr relu = {.act = {.act = TACHY_PLAN_RELU}};
    n.conv = tachy_graph_node(n.g, NULL, TACHY_OP_CONV, "first", &conv, (struct tachy_value *[]){n.x, n.w}, 2, n.c);
    n.relu = tachy_graph_node(n.g, NULL, TACHY_OP_UNARY, "second", &relu, &n.c, 1, n.y);
    tachy_graph_add_output(n.g, n.y);
    return n;
}

TEST(builds_and_prints)
{
    struct net n = small(quiet);
    CHECK_INT(tachy_graph_verify(n.g), TACHY_OK);
    char *text = tachy_graph_print(n.g);
    CHECK_STR(text, "%0 x f32[1x2x8x8] = input\n"
                    "%2 first f32[1x3x4x4] = Conv(%0, wf32[3x2x3x3]) kernel 3,3 stride 2,2 pad 1,1,1,1\n"
                    "%3 second f32[1x3x4x4] = Unary(%2) relu\n"
                    "output %3 y\n");
    tachy_free(text);
    CHECK(tachy_value_user(n.c) == n.relu);
    CHECK(!tachy_value_user(n.y)); // the graph's output
    tachy_graph_close(&n.g);
    CHECK(!n.g);
}

TEST(changes)
{
    struct net n = small(quiet);
    // The activation goes into the convolution: the node after it goes.
    n.conv->attr.act.act = TACHY_PLAN_RELU;
    tachy_graph_replace(n.g, n.y, n.c);
    tachy_graph_remove(n.g, n.relu);
    CHECK_INT(tachy_graph_verify(n.g), TACHY_OK);
    CHECK(n.g->last == n.conv && n.g->first == n.conv && n.g->out[0] == n.c);
    CHECK_INT(n.c->uses, 1);
    // A node in front of another.
    struct tachy_value *p = VALUE(n.g, "p", 1, 2, 8, 8);
    struct tachy_plan_attr neg = {.act = {.act = TACHY_PLAN_NEG}};
    tachy_graph_node(n.g, n.conv, TACHY_OP_UNARY, NULL, &neg, &n.x, 1, p);
    tachy_node_set_input(n.conv, 0, p);
    CHECK_INT(tachy_graph_verify(n.g), TACHY_OK);
    CHECK(n.g->first->op == TACHY_OP_UNARY);
    tachy_graph_close(&n.g);
}

TEST(grows)
{
    struct tachy_graph *g;
    CHECK_INT(tachy_graph_open(&g, quiet), TACHY_OK);
    struct tachy_value *v = VALUE(g, "x", 4);
    tachy_graph_add_input(g, v);
    struct tachy_plan_attr a = {.act = {.act = TACHY_PLAN_TANH}};
    for (int i = 0; i < 1000; i++) {
        struct tachy_value *next = VALUE(g, NULL, 4);
        CHECK(tachy_graph_node(g, NULL, TACHY_OP_UNARY, "n", &a, &v, 1, next));
        v = next;
    }
    tachy_graph_add_output(g, v);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(g->nb_values, 1001);
    tachy_graph_close(&g);
}

// Each breaks one promise; verify must name the node or the value.
static void expect(struct net *n, const char *why)
{
    CHECK_INT(tachy_graph_verify(n->g), TACHY_ERR_INVAL);
    CHECK(strstr(last, why));
    if (!strstr(last, why))
        fprintf(stderr, "said: %s\n", last);
    tachy_graph_close(&n->g);
}

TEST(refuses)
{
    struct net n = small(&log_last);
    n.c->shape[2] = 5;
    expect(&n, "Conv first: an output of another size");
    n = small(&log_last);
    n.conv->attr.conv.groups = 2;
    expect(&n, "channels, groups");
    n = small(&log_last);
    n.conv->attr.conv.stride[0] = 0;
    expect(&n, "another size");
    n = small(&log_last);
    n.y->shape[1] = -1;
    expect(&n, "negative or too large");
    n = small(&log_last);
    n.c->uses++;
    expect(&n, "value %2 has 1 uses, not 2");
    n = small(&log_last);
    tachy_node_set_input(n.conv, 0, n.y); // a circle
    expect(&n, "not made before");
    n = small(&log_last);
    n.conv->nb_in = 1;
    expect(&n, "number of inputs");
    n = small(&log_last);
    tachy_node_set_input(n.conv, 1, NULL);
    expect(&n, "must be there");
    n = small(&log_last);
    n.relu->attr.act.act = TACHY_PLAN_NONE;
    expect(&n, "does nothing");
    n = small(&log_last);
    n.relu->attr.act = (struct tachy_plan_act_of){TACHY_PLAN_LEVELS, 0, NAN};
    expect(&n, "levels from more to less");
    n = small(&log_last);
    n.relu->op = TACHY_OP_COUNT;
    expect(&n, "number of inputs");
    n = small(&log_last);
    n.y->rank = 3;
    expect(&n, "another shape");
    n = small(&log_last);
    n.g->last = n.conv;
    expect(&n, "broken list");
}

TEST_MAIN(TEST_CASE(builds_and_prints), TEST_CASE(changes), TEST_CASE(grows), TEST_CASE(refuses))
