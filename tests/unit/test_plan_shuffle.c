#include "graph_build.h"

// Depth to space and its like, written for channels last: the pass "shuffle".

static struct tachy_value *move(enum tachy_plan_op op, struct tachy_value *x, const int *perm, int rank,
                                const int64_t *shape)
{
    struct tachy_plan_attr a = {.perm = {0}};
    for (int i = 0; perm && i < rank; i++)
        a.perm[i] = perm[i];
    return make(op, a, value(rank, shape), x, NULL, NULL);
}

// 1x1 convolutions around it: the layout matters between them.
static struct tachy_value *between(int channels, int rank, const int64_t *split, const int *perm,
                                   const int64_t *turned, const int64_t *joined)
{
    struct tachy_value *x = conv(input(4, SHAPE(2, 3, 4, 6)), channels, 1, true);
    x = move(TACHY_OP_RESHAPE, x, NULL, rank, split);
    x = move(TACHY_OP_TRANSPOSE, x, perm, rank, turned);
    return conv(move(TACHY_OP_RESHAPE, x, NULL, 4, joined), 5, 1, true);
}

#define PERM(...) (int[]){__VA_ARGS__}

static struct tachy_value *depth_to_space(void) // ONNX's DCR
{
    return between(20, 6, SHAPE(2, 2, 2, 5, 4, 6), PERM(0, 3, 4, 1, 5, 2), SHAPE(2, 5, 4, 2, 6, 2),
                   SHAPE(2, 5, 8, 12));
}

static struct tachy_value *pixel_shuffle(void) // CRD
{
    return between(20, 6, SHAPE(2, 5, 2, 2, 4, 6), PERM(0, 1, 4, 2, 5, 3), SHAPE(2, 5, 4, 2, 6, 2),
                   SHAPE(2, 5, 8, 12));
}

static struct tachy_value *space_to_depth(void)
{
    return between(5, 6, SHAPE(2, 5, 2, 2, 3, 2), PERM(0, 3, 5, 1, 2, 4), SHAPE(2, 2, 2, 5, 2, 3),
                   SHAPE(2, 20, 2, 3));
}

static struct tachy_value *channel_shuffle(void)
{
    return between(6, 5, SHAPE(2, 2, 3, 4, 6), PERM(0, 2, 1, 3, 4), SHAPE(2, 3, 2, 4, 6), SHAPE(2, 6, 4, 6));
}

// Space to batches of a picture that gets its channels last on the way, as converters write dilation.
static struct tachy_value *space_to_batch(void)
{
    struct tachy_value *x = conv(input(4, SHAPE(2, 3, 4, 6)), 5, 1, true);
    x = move(TACHY_OP_RESHAPE, x, NULL, 6, SHAPE(2, 5, 2, 2, 3, 2));
    x = move(TACHY_OP_TRANSPOSE, x, PERM(3, 5, 0, 2, 4, 1), 6, SHAPE(2, 2, 2, 2, 3, 5));
    x = move(TACHY_OP_RESHAPE, x, NULL, 4, SHAPE(8, 2, 3, 5));
    return conv(move(TACHY_OP_TRANSPOSE, x, PERM(0, 3, 1, 2), 4, SHAPE(8, 5, 2, 3)), 5, 1, true);
}

TEST(batches)
{
    struct tachy_cpu_plan *p = NULL;
    struct tachy_plan_info info;
    begin();
    tachy_graph_add_output(g, space_to_batch());
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
    CHECK_INT(tachy_cpu_plan_open(&p, g, NULL), TACHY_OK);
    tachy_cpu_plan_info(p, &info);
    CHECK_INT(info.steps, 5); // the layout of input and output, two convolutions, one move
    tachy_cpu_plan_close(&p);
    tachy_graph_close(&g);
    same_after_all(space_to_batch);
}

TEST(forms)
{
    struct tachy_value *(*const form[])(void) = {depth_to_space, pixel_shuffle, space_to_depth, channel_shuffle};
    for (size_t i = 0; i < sizeof(form) / sizeof(form[0]); i++) {
        struct tachy_cpu_plan *p = NULL;
        struct tachy_plan_info info;
        begin();
        tachy_graph_add_output(g, form[i]());
        CHECK_INT(tachy_plan_shuffle(g), TACHY_OK);
        CHECK_INT(tachy_graph_verify(g), TACHY_OK);
        CHECK_INT(count(TACHY_OP_TRANSPOSE), 3);
        CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
        CHECK_INT(tachy_cpu_plan_open(&p, g, NULL), TACHY_OK);
        tachy_cpu_plan_info(p, &info);
        CHECK_INT(info.steps, 5); // the layout of input and output, two convolutions, one move
        tachy_cpu_plan_close(&p);
        tachy_graph_close(&g);
        same_after_all(form[i]);
    }
}

// The same between pictures that have their channels last stays unchanged.
TEST(channels_last_already)
{
    begin();
    struct tachy_value *x = input(4, SHAPE(2, 4, 6, 20));
    x = move(TACHY_OP_RESHAPE, x, NULL, 6, SHAPE(2, 4, 6, 2, 2, 5));
    x = move(TACHY_OP_TRANSPOSE, x, PERM(0, 1, 3, 2, 4, 5), 6, SHAPE(2, 4, 2, 6, 2, 5));
    tachy_graph_add_output(g, move(TACHY_OP_RESHAPE, x, NULL, 4, SHAPE(2, 8, 12, 5)));
    CHECK_INT(tachy_plan_shuffle(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(nodes(), 3);
    tachy_graph_close(&g);
}

// Dimensions that are pieces of two axes and pieces that are used elsewhere stay.
TEST(others_stay)
{
    for (int i = 0; i < 3; i++) {
        begin();
        struct tachy_value *x = input(4, i == 1 ? SHAPE(2, 4, 6, 20) : SHAPE(2, 20, 4, 6));
        if (i == 1)
            x = move(TACHY_OP_TRANSPOSE, input(4, SHAPE(2, 20, 4, 6)), PERM(0, 2, 3, 1), 4, SHAPE(2, 4, 6, 20));
        struct tachy_value *s = i == 0   ? move(TACHY_OP_RESHAPE, x, NULL, 3, SHAPE(2, 40, 12))
                                : i == 1 ? move(TACHY_OP_RESHAPE, x, NULL, 3, SHAPE(8, 6, 20))
                                         : move(TACHY_OP_RESHAPE, x, NULL, 5, SHAPE(2, 4, 5, 4, 6));
        struct tachy_value *t = i == 0   ? move(TACHY_OP_TRANSPOSE, s, PERM(0, 2, 1), 3, SHAPE(2, 12, 40))
                                : i == 1 ? move(TACHY_OP_TRANSPOSE, s, PERM(0, 2, 1), 3, SHAPE(8, 20, 6))
                                         : move(TACHY_OP_TRANSPOSE, s, PERM(0, 2, 1, 3, 4), 5, SHAPE(2, 5, 4, 4, 6));
        tachy_graph_add_output(g, move(TACHY_OP_RESHAPE, t, NULL, 4, i == 1 ? SHAPE(2, 4, 20, 6) : SHAPE(2, 20, 4, 6)));
        if (i == 2)
            tachy_graph_add_output(g, t);
        int before = nodes();
        CHECK_INT(tachy_plan_shuffle(g), TACHY_OK);
        CHECK_INT(tachy_graph_verify(g), TACHY_OK);
        CHECK_INT(nodes(), before);
        tachy_graph_close(&g);
    }
}

TEST_MAIN(TEST_CASE(forms), TEST_CASE(batches), TEST_CASE(channels_last_already), TEST_CASE(others_stay))
