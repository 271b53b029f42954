#include "graph_build.h"

// The beginnings and ends of detectors: the passes "focus", "pools" and "heads".

static struct tachy_value *slice(struct tachy_value *x, int row, int column, int step_y, int step_x)
{
    struct tachy_plan_attr a = {.slice = {.start = {0, 0, row, column}, .step = {1, 1, step_y, step_x}}};
    return make(TACHY_OP_SLICE, a,
                VALUE(x->shape[0], x->shape[1], (x->shape[2] - row + step_y - 1) / step_y,
                      (x->shape[3] - column + step_x - 1) / step_x),
                x, NULL, NULL);
}

static struct tachy_value *concat(struct tachy_value *const *in, int nb_in, int axis)
{
    struct tachy_plan_attr a = {.axis = axis};
    struct tachy_value *y = like(in[0]);
    for (int i = 1; i < nb_in; i++)
        y->shape[axis] += in[i]->shape[axis];
    tachy_graph_node(g, NULL, TACHY_OP_CONCAT, "n", &a, in, nb_in, y);
    return y;
}

// YOLOX's order: top left, bottom left, top right, bottom right; slices of one axis or of two.
static struct tachy_value *focus_of(struct tachy_value *x, bool at_once)
{
    struct tachy_value *way[4], *half[2];
    for (int i = 0; i < 2 && !at_once; i++)
        half[i] = slice(x, i, 0, 2, 1);
    for (int i = 0; i < 4; i++)
        way[i] = at_once ? slice(x, i % 2, i / 2, 2, 2) : slice(half[i % 2], 0, i / 2, 1, 2);
    return concat(way, 4, 1);
}

static struct tachy_value *focus_in_two(void)
{
    return unary(TACHY_PLAN_RELU, conv(focus_of(input(4, SHAPE(2, 3, 16, 12)), false), 5, 3, true));
}

static struct tachy_value *focus_at_once(void)
{
    return conv(focus_of(input(4, SHAPE(1, 2, 10, 14)), true), 7, 1, true);
}

TEST(focus)
{
    struct tachy_value *(*const form[])(void) = {focus_in_two, focus_at_once};
    for (int i = 0; i < 2; i++) {
        begin();
        tachy_graph_add_output(g, form[i]());
        CHECK_INT(tachy_plan_focus(g), TACHY_OK);
        CHECK_INT(tachy_graph_verify(g), TACHY_OK);
        CHECK_INT(count(TACHY_OP_SLICE) + count(TACHY_OP_CONCAT), 0);
        CHECK_INT(g->first->attr.conv.kernel[0], i ? 2 : 6);
        CHECK_INT(g->first->attr.conv.stride[1], 2);
        tachy_graph_close(&g);
        same_after_all(form[i]);
    }
}

// One way twice, an odd size, two pictures.
TEST(focus_that_is_none)
{
    for (int i = 0; i < 3; i++) {
        begin();
        struct tachy_value *x = input(4, i == 1 ? SHAPE(1, 3, 9, 12) : SHAPE(1, 3, 8, 12)), *way[4];
        struct tachy_value *z = input(4, x->shape);
        for (int k = 0; k < 4; k++)
            way[k] = slice(i == 2 && k == 3 ? z : x, i == 1 ? 0 : k % 2, i == 0 ? 0 : k / 2, 2, 2);
        tachy_graph_add_output(g, conv(concat(way, 4, 1), 5, 3, true));
        CHECK_INT(tachy_plan_focus(g), TACHY_OK);
        CHECK_INT(tachy_graph_verify(g), TACHY_OK);
        CHECK_INT(count(TACHY_OP_CONCAT), 1);
        tachy_graph_close(&g);
    }
}

static struct tachy_value *flat(struct tachy_value *x)
{
    struct tachy_plan_attr none = {.perm = {0}};
    return make(TACHY_OP_RESHAPE, none, VALUE(x->shape[0], x->shape[1], x->shape[2] * x->shape[3]), x, NULL, NULL);
}

static struct tachy_value *turn(struct tachy_value *x)
{
    struct tachy_plan_attr a = {.perm = {0, 2, 1}};
    return make(TACHY_OP_TRANSPOSE, a, VALUE(x->shape[0], x->shape[2], x->shape[1]), x, NULL, NULL);
}

static struct tachy_value *heads(void)
{
    struct tachy_value *x = conv(input(4, SHAPE(2, 3, 8, 6)), 5, 3, true), *in[2] = {flat(x), NULL};
    struct tachy_plan_attr a = {.conv = {{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 1, {0, 0}, 0, 0}};
    in[1] = flat(make(TACHY_OP_CONV, a, VALUE(2, 5, 4, 3), x, NUMBERS(5, 5, 3, 3), NULL));
    return turn(concat(in, 2, 2));
}

static struct tachy_value *head(void)
{
    return unary(TACHY_PLAN_SIGMOID, turn(flat(conv(input(4, SHAPE(2, 3, 8, 6)), 5, 3, true))));
}

// Maps of two sizes, each made of two parts, side by side, then a function of all numbers.
static struct tachy_value *maps(void)
{
    struct tachy_value *x = conv(input(4, SHAPE(2, 3, 8, 6)), 5, 3, true), *in[2];
    struct tachy_plan_attr a = {.conv = {{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 1, {0, 0}, 0, 0}};
    for (int i = 0; i < 2; i++) {
        struct tachy_value *part[2] = {conv(x, 8, 1, true), conv(x, 16, 3, true)};
        in[i] = flat(concat(part, 2, 1));
        x = i ? x : make(TACHY_OP_CONV, a, VALUE(2, 5, 4, 3), x, NUMBERS(5, 5, 3, 3), NULL);
    }
    return unary(TACHY_PLAN_SIGMOID, concat(in, 2, 2));
}

TEST(maps_of_several_sizes)
{
    struct tachy_cpu_plan *p = NULL;
    struct tachy_plan_info info;
    begin();
    tachy_graph_add_output(g, maps());
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
    CHECK_INT(count(TACHY_OP_UNARY), 1); // parts are side by side once more, which a function does not pass
    CHECK_INT(tachy_cpu_plan_open(&p, g, NULL), TACHY_OK);
    tachy_cpu_plan_info(p, &info);
    CHECK_INT(info.steps, 9); // layouts of the input and the output, six convolutions, the function
    tachy_cpu_plan_close(&p);
    tachy_graph_close(&g);
    same_after_all(maps);
}

TEST(heads_are_turned_first)
{
    struct tachy_cpu_plan *p = NULL;
    struct tachy_plan_info info;
    begin();
    tachy_graph_add_output(g, heads());
    CHECK_INT(tachy_plan_heads(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK(g->last->op == TACHY_OP_RESHAPE && g->last->prev->op == TACHY_OP_TRANSPOSE);
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
    CHECK_INT(tachy_cpu_plan_open(&p, g, NULL), TACHY_OK);
    tachy_cpu_plan_info(p, &info);
    CHECK_INT(info.steps, 4); // the input's layout, two convolutions, the second writing in place, a copy of what two read
    tachy_cpu_plan_close(&p);
    tachy_graph_close(&g);
    same_after_all(heads);
    same_after_all(head);
}

static struct tachy_value *largest(struct tachy_value *x, int size, int pad)
{
    struct tachy_plan_attr a = {
        .pool = {.kernel = {size, size}, .stride = {1, 1}, .pad = {pad, pad, pad, pad}}};
    int64_t less = size - 1 - 2 * pad;
    return make(TACHY_OP_POOL, a, VALUE(x->shape[0], x->shape[1], x->shape[2] - less, x->shape[3] - less), x,
                NULL, NULL);
}

static struct tachy_value *pyramid_of(bool largest_first)
{
    struct tachy_value *x = conv(input(4, SHAPE(2, 3, 8, 6)), 5, 3, true), *in[4] = {x};
    for (int i = 1; i < 4; i++) {
        int k = largest_first ? 4 - i : i;
        in[k] = largest(x, 1 + 4 * k, 2 * k);
    }
    return conv(concat(in, 4, 1), 4, 1, true);
}

static struct tachy_value *tiles(struct tachy_value *x, int size)
{
    struct tachy_plan_attr a = {.pool = {.kernel = {size, size}, .stride = {size, size}, .average = true}};
    return make(TACHY_OP_POOL, a, VALUE(x->shape[0], x->shape[1], x->shape[2] / size, x->shape[3] / size), x, NULL, NULL);
}

// Tiles of 8, 2, 3 and 4 pixels, each read in another size.
static struct tachy_value *small_pictures(void)
{
    static const int sizes[] = {8, 2, 3, 4};
    struct tachy_value *x = input(4, SHAPE(2, 3, 48, 24)), *all = NULL;
    for (int i = 0; i < 4; i++) {
        struct tachy_value *y = conv(tiles(x, sizes[i]), 5, 1, true);
        y = make(TACHY_OP_REDUCE, (struct tachy_plan_attr){.reduce = {.how = TACHY_PLAN_MEAN, .axis = {[2] = true, [3] = true}}}, VALUE(2, 5, 1, 1),
                 unary(TACHY_PLAN_TANH, y), NULL, NULL);
        all = all ? binary(TACHY_PLAN_ADD, all, y) : y;
    }
    return all;
}

TEST(tiles_of_tiles)
{
    int small = 0;
    begin();
    tachy_graph_add_output(g, small_pictures());
    CHECK_INT(tachy_plan_pools(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(count(TACHY_OP_POOL), 4);
    for (const struct tachy_node *n = g->first; n; n = n->next)
        small += n->op == TACHY_OP_POOL && n->attr.pool.kernel[0] == 2 && n->attr.pool.stride[1] == 2;
    CHECK_INT(small, 3);
    tachy_graph_close(&g);
    same_after_all(small_pictures);
}

static struct tachy_value *pyramid(void) { return pyramid_of(false); }
static struct tachy_value *pyramid_upside_down(void) { return pyramid_of(true); }

TEST(pools)
{
    struct tachy_value *(*const form[])(void) = {pyramid, pyramid_upside_down};
    for (int i = 0; i < 2; i++) {
        begin();
        tachy_graph_add_output(g, form[i]());
        CHECK_INT(tachy_plan_pools(g), TACHY_OK);
        CHECK_INT(tachy_graph_verify(g), TACHY_OK);
        CHECK_INT(count(TACHY_OP_POOL), 3);
        for (const struct tachy_node *n = g->first; n; n = n->next)
            if (n->op == TACHY_OP_POOL)
                CHECK_INT(n->attr.pool.kernel[0], 5);
        tachy_graph_close(&g);
        same_after_all(form[i]);
    }
    begin(); // without padding it is another size
    struct tachy_value *x = input(4, SHAPE(1, 3, 9, 8)), *y = largest(x, 5, 0);
    tachy_graph_add_output(g, largest(x, 3, 1));
    tachy_graph_add_output(g, y);
    CHECK_INT(tachy_plan_pools(g), TACHY_OK);
    CHECK_INT(g->first->attr.pool.kernel[0], 5);
    tachy_graph_close(&g);
}

TEST_MAIN(TEST_CASE(pools), TEST_CASE(tiles_of_tiles), TEST_CASE(focus), TEST_CASE(focus_that_is_none), TEST_CASE(heads_are_turned_first), TEST_CASE(maps_of_several_sizes))
