#include "plan_cuda.h"

// Expected values of softmaxes as detectors' boxes have them: the pass "expectation" and its steps on a processor and on a GPU.

static const struct tachy_plan_attr none = {.perm = {0}};

// 1, 2, 3, ...
static struct tachy_value *counted(int rank, const int64_t *shape)
{
    struct tachy_value *v = numbers(rank, shape);
    for (int64_t i = 0; i < tachy_value_elements(v); i++)
        ((float *)v->data)[i] = (float)(i + 1);
    return v;
}

static struct tachy_value *softmax(struct tachy_value *x, int axis) { return make(TACHY_OP_SOFTMAX, (struct tachy_plan_attr){.axis = axis}, like(x), x, NULL, NULL); }

static struct tachy_value *reduce(enum tachy_plan_reduce how, struct tachy_value *x, int axis)
{
    struct tachy_plan_attr a = {.reduce = {.how = how}};
    struct tachy_value *y = like(x);
    a.reduce.axis[axis] = true;
    y->shape[axis] = 1;
    return make(TACHY_OP_REDUCE, a, y, x, NULL, NULL);
}

static struct tachy_value *reshape(struct tachy_value *x, struct tachy_value *to) { return make(TACHY_OP_RESHAPE, none, to, x, NULL, NULL); }

// Maps of two sizes with channels for four distributions, side by side: [2][4 bins][60].
static struct tachy_value *boxes(int bins)
{
    struct tachy_value *x = conv(input(4, SHAPE(2, 3, 8, 6)), 4 * bins, 3, true), *y;
    struct tachy_plan_attr a = {.conv = {{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 1, {0, 0}, 0, 0}};
    y = make(TACHY_OP_CONV, a, VALUE(2, 4 * bins, 4, 3), x, NUMBERS(4 * bins, 4 * bins, 3, 3), NULL);
    x = reshape(x, VALUE(2, 4 * bins, 48)), y = reshape(y, VALUE(2, 4 * bins, 12));
    return make(TACHY_OP_CONCAT, (struct tachy_plan_attr){.axis = 2}, VALUE(2, 4 * bins, 60), x, y, NULL);
}

// Maps of two sizes as above, whose channels for boxes and for kinds come from two convolutions: [2][boxes + kinds][60].
static struct tachy_value *boxes_beside(int boxes, int kinds)
{
    struct tachy_value *x = conv(input(4, SHAPE(2, 3, 8, 6)), 8, 3, true), *map[2];
    struct tachy_plan_attr a = {.conv = {{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 1, {0, 0}, 0, 0}}, side = {.axis = 1};
    for (int i = 0; i < 2; i++) {
        int64_t h = x->shape[2], w = x->shape[3];
        map[i] = make(TACHY_OP_CONCAT, side, VALUE(2, boxes + kinds, h, w), conv(x, boxes, 1, true), conv(x, kinds, 1, true), NULL);
        map[i] = reshape(map[i], VALUE(2, boxes + kinds, h * w));
        x = i ? x : make(TACHY_OP_CONV, a, VALUE(2, 8, 4, 3), x, NUMBERS(8, 8, 3, 3), NULL);
    }
    return make(TACHY_OP_CONCAT, (struct tachy_plan_attr){.axis = 2}, VALUE(2, boxes + kinds, 60), map[0], map[1], NULL);
}

// (view(b, 4, bins, n).softmax(2) * weights).sum(2)
static struct tachy_value *sum_of(struct tachy_value *x, int bins)
{
    int64_t n = x->shape[2];
    struct tachy_value *y = softmax(reshape(x, VALUE(2, 4, bins, n)), 2);
    y = binary(TACHY_PLAN_MUL, y, counted(4, SHAPE(1, 1, bins, 1)));
    return reshape(reduce(TACHY_PLAN_SUM, y, 2), VALUE(2, 4, n));
}

// view(b, 4, bins, n).transpose(2, 1).softmax(1), then a convolution to one channel.
static struct tachy_value *conv_of(struct tachy_value *x, int bins, int channels, bool bias)
{
    int64_t n = x->shape[2];
    struct tachy_value *y = make(TACHY_OP_TRANSPOSE, (struct tachy_plan_attr){.perm = {0, 2, 1, 3}}, VALUE(2, bins, 4, n),
                                 reshape(x, VALUE(2, 4, bins, n)), NULL, NULL);
    struct tachy_plan_attr a = {.conv = {{1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1, {0, 0}, 0, 0}};
    y = make(TACHY_OP_CONV, a, VALUE(2, channels, 4, n), softmax(y, 1), counted(4, SHAPE(channels, bins, 1, 1)), bias ? NUMBERS(channels) : NULL);
    return reshape(y, VALUE(2, 4 * channels, n));
}

static struct tachy_value *sums(void) { return sum_of(boxes(16), 16); }
static struct tachy_value *convs(void) { return conv_of(boxes(16), 16, 1, false); }
static struct tachy_value *sums_of_17(void) { return sum_of(boxes(17), 17); }
static struct tachy_value *sums_of_1(void) { return sum_of(boxes(1), 1); }
static struct tachy_value *planes(void) { return sum_of(input(3, SHAPE(2, 64, 150)), 16); }
static struct tachy_value *turned_planes(void) { return conv_of(input(3, SHAPE(2, 64, 150)), 16, 1, false); }

// Over the last axis, the weights on the left; the axis is none that was cut.
static struct tachy_value *last(void)
{
    struct tachy_value *x = softmax(input(3, SHAPE(3, 5, 70)), 2);
    return reduce(TACHY_PLAN_SUM, make(TACHY_OP_BINARY, (struct tachy_plan_attr){.binary = TACHY_PLAN_MUL}, like(x), counted(1, SHAPE(70)), x, NULL), 2);
}

TEST(forms)
{
    static const struct {
        struct tachy_value *(*build)(void);
        int axis;
    } form[] = {{sums, 1}, {convs, 1}, {sums_of_17, 1}, {sums_of_1, 1}, {planes, 1}, {turned_planes, 1}, {last, 2}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(form); i++) {
        begin();
        tachy_graph_add_output(g, form[i].build());
        CHECK_INT(tachy_plan_expectation(g), TACHY_OK);
        CHECK_INT(tachy_graph_verify(g), TACHY_OK);
        CHECK_INT(count(TACHY_OP_REDUCE) + count(TACHY_OP_BINARY) + count(TACHY_OP_TRANSPOSE), 0);
        CHECK_INT(count(TACHY_OP_SOFTMAX), 1);
        const struct tachy_node *n = g->first;
        while (n && n->op != TACHY_OP_SOFTMAX)
            n = n->next;
        CHECK(n && n->nb_in == 2 && n->attr.axis == form[i].axis);
        tachy_graph_close(&g);
        same_after_all(form[i].build);
    }
}

static void stays(struct tachy_value *y)
{
    tachy_graph_add_output(g, y);
    int before = nodes();
    CHECK_INT(tachy_plan_expectation(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(nodes(), before);
    tachy_graph_close(&g);
}

static struct tachy_value *shares(void)
{
    begin();
    return softmax(input(4, SHAPE(2, 4, 16, 16)), 2);
}

TEST(others_stay)
{
    struct tachy_value *y = shares(), *by = counted(4, SHAPE(1, 1, 16, 1));
    stays(reduce(TACHY_PLAN_SUM, binary(TACHY_PLAN_MUL, y, input(4, SHAPE(1, 1, 16, 1))), 2)); // weights that are computed
    y = shares(), by = counted(4, SHAPE(1, 1, 1, 16)); // of another axis
    stays(reduce(TACHY_PLAN_SUM, binary(TACHY_PLAN_MUL, y, by), 2));
    y = shares(), by = counted(4, SHAPE(1, 1, 16, 1)); // a sum over another axis
    stays(reduce(TACHY_PLAN_SUM, binary(TACHY_PLAN_MUL, y, by), 3));
    y = shares(), by = counted(4, SHAPE(1, 1, 16, 1));
    stays(reduce(TACHY_PLAN_MEAN, binary(TACHY_PLAN_MUL, y, by), 2));
    y = shares(), by = counted(4, SHAPE(1, 1, 16, 1));
    stays(reduce(TACHY_PLAN_SUM, binary(TACHY_PLAN_ADD, y, by), 2));
    y = shares(), by = counted(4, SHAPE(1, 4, 16, 1)); // weights of each side
    stays(reduce(TACHY_PLAN_SUM, binary(TACHY_PLAN_MUL, y, by), 2));
    y = shares(), by = counted(4, SHAPE(1, 1, 16, 1));
    tachy_graph_add_output(g, y); // the softmax is read as well
    stays(reduce(TACHY_PLAN_SUM, binary(TACHY_PLAN_MUL, y, by), 2));
    y = shares(), by = counted(4, SHAPE(1, 1, 16, 1));
    y->made_by->attr.log = true;
    stays(reduce(TACHY_PLAN_SUM, binary(TACHY_PLAN_MUL, y, by), 2));
    begin();
    stays(conv_of(input(3, SHAPE(2, 64, 9)), 16, 2, false));
    begin();
    stays(conv_of(input(3, SHAPE(2, 64, 9)), 16, 1, true));
}

// A Transpose that also moves other axes stays, and a cut that is none of the axis in front.
TEST(moves_that_stay)
{
    begin();
    struct tachy_value *y = softmax(make(TACHY_OP_TRANSPOSE, (struct tachy_plan_attr){.perm = {1, 0, 2}}, VALUE(5, 3, 7), input(3, SHAPE(3, 5, 7)), NULL, NULL), 2);
    tachy_graph_add_output(g, reduce(TACHY_PLAN_SUM, binary(TACHY_PLAN_MUL, y, counted(1, SHAPE(7))), 2));
    CHECK_INT(tachy_plan_expectation(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(count(TACHY_OP_TRANSPOSE), 1);
    CHECK_INT(g->last->nb_in, 2);
    tachy_graph_close(&g);
    begin();
    y = softmax(reshape(input(2, SHAPE(4, 30)), VALUE(8, 5, 3)), 1);
    tachy_graph_add_output(g, reduce(TACHY_PLAN_SUM, binary(TACHY_PLAN_MUL, y, counted(2, SHAPE(5, 1))), 1));
    CHECK_INT(tachy_plan_expectation(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(count(TACHY_OP_RESHAPE), 1);
    CHECK_INT(g->last->out->shape[1], 1);
    tachy_graph_close(&g);
}

// The end of a detector: boxes beside scores, as one output.
static void detector(bool as_conv)
{
    begin();
    struct tachy_value *x = boxes(16), *box = as_conv ? conv_of(x, 16, 1, false) : sum_of(x, 16);
    struct tachy_value *map = x->made_by->in[0]->made_by->in[0], *kinds = reshape(conv(map, 5, 1, true), VALUE(2, 5, 48));
    struct tachy_value *few = reshape(conv(x->made_by->in[1]->made_by->in[0], 5, 1, true), VALUE(2, 5, 12));
    kinds = make(TACHY_OP_CONCAT, (struct tachy_plan_attr){.axis = 2}, VALUE(2, 5, 60), kinds, few, NULL);
    tachy_graph_add_output(g, make(TACHY_OP_CONCAT, (struct tachy_plan_attr){.axis = 1}, VALUE(2, 9, 60), box, unary(TACHY_PLAN_SIGMOID, kinds), NULL));
}
static void with_sum(void) { detector(false); }
static void with_conv(void) { detector(true); }
// As Ultralytics exports it: maps with channels of boxes and of kinds, side by side, then cut.
static void cut_maps(void)
{
    begin();
    struct tachy_value *x = boxes_beside(64, 5), *part[2];
    for (int i = 0; i < 2; i++) {
        struct tachy_plan_attr a = {.slice = {.start = {0, i ? 64 : 0, 0}, .step = {1, 1, 1}}};
        part[i] = make(TACHY_OP_SLICE, a, VALUE(2, i ? 5 : 64, 60), x, NULL, NULL);
    }
    tachy_graph_add_output(g, make(TACHY_OP_CONCAT, (struct tachy_plan_attr){.axis = 1}, VALUE(2, 9, 60), conv_of(part[0], 16, 1, false),
                                   unary(TACHY_PLAN_SIGMOID, part[1]), NULL));
}
static void of_planes(void)
{
    begin();
    tachy_graph_add_output(g, planes());
}

// The sums go from channels that lie last, also from some of more, to planes.
TEST(on_a_gpu)
{
    const struct tachy_plan_params params = {.kernels = &host_kernels, .precision = TACHY_PLAN_FP16};
    void (*const builds[])(void) = {with_sum, with_conv, cut_maps};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(builds); i++) {
        check_near(builds[i], 2 * 9 * 60, 1e-5, 5e-3);
        builds[i]();
        struct tachy_plan *p = opened(&params);
        CHECK_INT(steps_of(p, CUDA_SOFTMAX), 1);
        CHECK_INT(steps_of(p, CUDA_REDUCE) + steps_called(p, "Binary") + steps_called(p, "Reshape"), 0);
        CHECK_INT(steps_called(p, "Transpose"), 2); // of the input, and of the kinds
        tachy_plan_close(&p);
        tachy_graph_close(&g);
    }
    check_near(of_planes, 2 * 4 * 150, 1e-5, 5e-3);
}

TEST_MAIN(TEST_CASE(forms), TEST_CASE(others_stay), TEST_CASE(moves_that_stay), TEST_CASE(on_a_gpu))
