#include "graph_build.h"

// Resizes and means over pictures: the passes "resize", "mean" and what "fuse" does to them.

static struct tachy_value *resize(struct tachy_value *x, int by, enum tachy_plan_resize mode)
{
    struct tachy_plan_attr a = {.resize = {.mode = mode, .scale = {(float)by, (float)by}}};
    struct tachy_value *y = VALUE(x->shape[0], x->shape[1], by * x->shape[2], by * x->shape[3]);
    return make(TACHY_OP_RESIZE, a, y, x, NULL, NULL);
}

static struct tachy_value *mean(struct tachy_value *x)
{
    struct tachy_plan_attr a = {.reduce = {TACHY_PLAN_MEAN, {false, false, true, true}}};
    return make(TACHY_OP_REDUCE, a, VALUE(x->shape[0], x->shape[1], 1, 1), x, NULL, NULL);
}

static struct tachy_value *behind_linear(void)
{
    struct tachy_value *x = conv(input(4, SHAPE(2, 3, 5, 4)), 6, 3, true);
    return unary(TACHY_PLAN_RELU, conv(resize(x, 2, TACHY_PLAN_LINEAR), 4, 1, true));
}

static struct tachy_value *behind_nearest(void)
{
    struct tachy_value *x = conv(input(4, SHAPE(2, 3, 5, 4)), 6, 3, true);
    return unary(TACHY_PLAN_RELU, conv(resize(x, 3, TACHY_PLAN_NEAREST), 9, 1, true));
}

TEST(in_front)
{
    struct tachy_value *(*const form[])(void) = {behind_linear, behind_nearest};
    for (int i = 0; i < 2; i++) {
        begin();
        tachy_graph_add_output(g, form[i]());
        CHECK_INT(tachy_plan_resize(g), TACHY_OK);
        CHECK_INT(tachy_graph_verify(g), TACHY_OK);
        CHECK(g->last->prev->op == TACHY_OP_RESIZE && g->last->prev->prev->op == TACHY_OP_CONV);
        CHECK_INT(g->last->prev->prev->out->shape[2], 5);
        tachy_graph_close(&g);
        same_after_all(form[i]);
    }
}

static void stays(struct tachy_value *y)
{
    tachy_graph_add_output(g, y);
    CHECK_INT(tachy_plan_resize(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    for (const struct tachy_node *n = g->first; n; n = n->next)
        if (n->op == TACHY_OP_RESIZE)
            CHECK(n->next && n->next->op == TACHY_OP_CONV);
    tachy_graph_close(&g);
}

TEST(in_front_only_where_it_pays)
{
    begin(); // more than one tap
    stays(conv(resize(input(4, SHAPE(1, 6, 5, 4)), 2, TACHY_PLAN_LINEAR), 4, 3, true));
    begin(); // a smaller picture comes out
    struct tachy_plan_attr half = {.resize = {.mode = TACHY_PLAN_LINEAR, .scale = {0.5f, 0.5f}}};
    stays(conv(make(TACHY_OP_RESIZE, half, VALUE(1, 6, 4, 5), input(4, SHAPE(1, 6, 8, 10)), NULL, NULL), 4, 1, true));
    begin(); // one channel becomes many
    stays(conv(resize(input(4, SHAPE(1, 1, 5, 4)), 2, TACHY_PLAN_LINEAR), 64, 1, true));
    begin(); // used unchanged
    struct tachy_value *r = resize(input(4, SHAPE(1, 6, 5, 4)), 2, TACHY_PLAN_LINEAR);
    struct tachy_value *y = conv(r, 4, 1, true);
    tachy_graph_add_output(g, r);
    stays(y);
}

// A decoder's step: what was skipped, times its gate, on what is blown up.
static struct tachy_value *gated(void)
{
    struct tachy_value *x = input(4, SHAPE(2, 3, 8, 12)), *skip = conv(x, 5, 3, true);
    struct tachy_plan_attr a = {.conv = {{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 1, {0, 0}, 0, 0}};
    struct tachy_value *small = make(TACHY_OP_CONV, a, VALUE(2, 5, 4, 6), x, NUMBERS(5, 3, 3, 3), NULL);
    struct tachy_value *gate = unary(TACHY_PLAN_SIGMOID, mean(skip));
    struct tachy_value *up = resize(small, 2, TACHY_PLAN_LINEAR);
    return unary(TACHY_PLAN_RELU, binary(TACHY_PLAN_ADD, binary(TACHY_PLAN_MUL, skip, gate), up));
}

static struct tachy_value *act_first(void)
{
    struct tachy_value *x = input(4, SHAPE(2, 3, 4, 6));
    struct tachy_value *up = unary(TACHY_PLAN_TANH, resize(conv(x, 5, 3, true), 2, TACHY_PLAN_LINEAR));
    return binary(TACHY_PLAN_ADD, up, unary(TACHY_PLAN_ABS, resize(conv(x, 5, 1, true), 2, TACHY_PLAN_NEAREST)));
}

TEST(sums)
{
    begin();
    tachy_graph_add_output(g, gated());
    CHECK_INT(tachy_plan_passes(g, "fuse"), TACHY_OK);
    CHECK_INT(count(TACHY_OP_BINARY), 0);
    CHECK(g->last->op == TACHY_OP_RESIZE && g->last->nb_in == 3 && g->last->attr.act.act == TACHY_PLAN_RELU);
    CHECK(!g->last->attr.act_before_add);
    tachy_graph_close(&g);
    same_after_all(gated);
    begin();
    tachy_graph_add_output(g, act_first());
    CHECK_INT(tachy_plan_passes(g, "fuse"), TACHY_OK);
    CHECK_INT(nodes(), 4);
    CHECK(g->last->op == TACHY_OP_RESIZE && g->last->nb_in == 2 && g->last->attr.act_before_add);
    char *text = tachy_graph_print(g);
    CHECK(text && strstr(text, "act-before-add"));
    tachy_free(text);
    tachy_graph_close(&g);
    same_after_all(act_first);
}

static struct tachy_value *mean_of_sum(void)
{
    struct tachy_value *x = input(4, SHAPE(2, 3, 4, 6)), *up = resize(conv(x, 5, 3, true), 2, TACHY_PLAN_LINEAR);
    struct tachy_value *near = resize(conv(x, 5, 1, true), 2, TACHY_PLAN_NEAREST);
    return mean(binary(TACHY_PLAN_ADD, binary(TACHY_PLAN_ADD, up, near), unary(TACHY_PLAN_TANH, up)));
}

TEST(means)
{
    begin();
    tachy_graph_add_output(g, mean_of_sum());
    CHECK_INT(tachy_plan_passes(g, "mean"), TACHY_OK);
    CHECK_INT(count(TACHY_OP_REDUCE), 3);
    CHECK_INT(count(TACHY_OP_BINARY), 2);
    CHECK_INT(count(TACHY_OP_RESIZE), 1); // for tanh
    for (const struct tachy_node *n = g->first; n; n = n->next)
        if (n->op == TACHY_OP_BINARY)
            CHECK_INT(n->out->shape[2] * n->out->shape[3], 1);
    tachy_graph_close(&g);
    same_after_all(mean_of_sum);
}

// A resize whose pixels have no equal shares, and a sum that is needed whole.
TEST(means_that_stay)
{
    begin();
    struct tachy_value *x = input(4, SHAPE(2, 3, 4, 6)), *y = VALUE(2, 3, 8, 12);
    struct tachy_plan_attr corners = {
        .resize = {.mode = TACHY_PLAN_LINEAR, .coords = TACHY_PLAN_ALIGN_CORNERS, .scale = {2, 2}}};
    tachy_graph_add_output(g, mean(make(TACHY_OP_RESIZE, corners, y, x, NULL, NULL)));
    struct tachy_value *sum = binary(TACHY_PLAN_ADD, x, unary(TACHY_PLAN_TANH, x));
    tachy_graph_add_output(g, mean(sum));
    tachy_graph_add_output(g, sum);
    int before = nodes();
    CHECK_INT(tachy_plan_mean(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(nodes(), before);
    CHECK_INT(count(TACHY_OP_RESIZE), 1);
    tachy_graph_close(&g);
}

static struct tachy_value *moved(void)
{
    struct tachy_value *x = conv(input(4, SHAPE(1, 3, 8, 6)), 4, 3, true);
    struct tachy_plan_attr last = {.perm = {0, 2, 3, 1}}, none = {.perm = {0}};
    struct tachy_value *t = make(TACHY_OP_TRANSPOSE, last, VALUE(1, 8, 6, 4), x, NULL, NULL);
    return unary(TACHY_PLAN_SIGMOID, make(TACHY_OP_RESHAPE, none, VALUE(1, 48, 4), t, NULL, NULL));
}

TEST(activation_behind_moves)
{
    begin();
    tachy_graph_add_output(g, moved());
    CHECK_INT(tachy_plan_fuse(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(count(TACHY_OP_UNARY), 0);
    CHECK(g->first->attr.act.act == TACHY_PLAN_SIGMOID);
    tachy_graph_close(&g);
    same_after_all(moved);
}

TEST_MAIN(TEST_CASE(in_front), TEST_CASE(in_front_only_where_it_pays), TEST_CASE(sums), TEST_CASE(means),
          TEST_CASE(means_that_stay), TEST_CASE(activation_behind_moves))
