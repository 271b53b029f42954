#include "graph_build.h"

#include "base/base.h"
#include "base/cpu.h"

#include <math.h>
#include <pthread.h>

// Each pass on the smallest graph that it changes, and a check that graphs compute the same before and after all
// passes. Before, every node is a separate step, whose kernels tests/check compares with their plain twins;
// tests/e2e/test_provider.py compares whole networks with ONNX Runtime.

static struct tachy_value *hard_swish(void)
{
    struct tachy_value *x = conv(input(4, SHAPE(1, 3, 8, 6)), 5, 3, true);
    struct tachy_value *c = unary(TACHY_PLAN_CLIP, binary(TACHY_PLAN_ADD, x, number(3)));
    return binary(TACHY_PLAN_DIV, binary(TACHY_PLAN_MUL, x, c), number(6));
}

static struct tachy_value *swish_of_hsigmoid(void)
{
    struct tachy_value *x = input(4, SHAPE(1, 3, 8, 6));
    return binary(TACHY_PLAN_MUL, x, unary(TACHY_PLAN_HSIGMOID, x));
}

TEST(activations)
{
    begin();
    tachy_graph_add_output(g, hard_swish());
    CHECK_INT(tachy_plan_passes(g, "activations"), TACHY_OK);
    CHECK_INT(nodes(), 2);
    CHECK(g->last->op == TACHY_OP_UNARY && g->last->attr.act.act == TACHY_PLAN_HSWISH);
    CHECK_INT(tachy_plan_passes(g, "fuse"), TACHY_OK);
    CHECK_INT(nodes(), 1);
    CHECK(g->last->attr.act.act == TACHY_PLAN_HSWISH);
    tachy_graph_close(&g);
    begin();
    tachy_graph_add_output(g, swish_of_hsigmoid());
    CHECK_INT(tachy_plan_activations(g), TACHY_OK);
    CHECK(nodes() == 1 && g->last->attr.act.act == TACHY_PLAN_HSWISH);
    tachy_graph_close(&g);
    same_after_all(hard_swish);
    same_after_all(swish_of_hsigmoid);
}

// Sums that look like it and are not: another constant, another value.
TEST(activations_that_are_none)
{
    begin();
    struct tachy_value *x = input(4, SHAPE(1, 3, 8, 6)), *z = input(4, SHAPE(1, 3, 8, 6));
    struct tachy_value *c = unary(TACHY_PLAN_CLIP, binary(TACHY_PLAN_ADD, x, number(2)));
    tachy_graph_add_output(g, binary(TACHY_PLAN_DIV, binary(TACHY_PLAN_MUL, x, c), number(6)));
    tachy_graph_add_output(g, binary(TACHY_PLAN_MUL, z, unary(TACHY_PLAN_SIGMOID, x)));
    int before = nodes();
    CHECK_INT(tachy_plan_passes(g, "activations"), TACHY_OK);
    CHECK_INT(nodes(), before);
    tachy_graph_close(&g);
}

static struct tachy_value *residual(void)
{
    struct tachy_value *x = conv(input(4, SHAPE(2, 3, 8, 6)), 5, 1, false);
    struct tachy_value *y = binary(TACHY_PLAN_ADD, conv(x, 5, 3, true), NUMBERS(1, 5, 1, 1));
    return unary(TACHY_PLAN_RELU, binary(TACHY_PLAN_ADD, y, x));
}

TEST(fuse)
{
    begin();
    tachy_graph_add_output(g, residual());
    CHECK_INT(tachy_plan_fuse(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(nodes(), 2);
    CHECK(g->last->nb_in == 4 && g->last->in[3] == g->first->out && !g->last->attr.act_before_add);
    CHECK(g->last->attr.act.act == TACHY_PLAN_RELU);
    tachy_graph_close(&g);
    same_after_all(residual);
}

// Values with other users stay.
TEST(fuse_keeps_what_is_used)
{
    begin();
    struct tachy_value *x = conv(input(4, SHAPE(1, 3, 8, 6)), 5, 3, true);
    tachy_graph_add_output(g, unary(TACHY_PLAN_RELU, x));
    tachy_graph_add_output(g, x);
    CHECK_INT(tachy_plan_passes(g, "fuse"), TACHY_OK);
    CHECK_INT(nodes(), 2);
    tachy_graph_close(&g);
}

static struct tachy_value *scaled(void)
{
    struct tachy_value *x = conv(input(4, SHAPE(2, 3, 8, 6)), 5, 3, true);
    struct tachy_plan_attr mean = {.reduce = {TACHY_PLAN_MEAN, {false, false, true, true}}};
    struct tachy_value *s = make(TACHY_OP_REDUCE, mean, VALUE(2, 5, 1, 1), x, NULL, NULL);
    return conv(binary(TACHY_PLAN_MUL, x, unary(TACHY_PLAN_SIGMOID, s)), 4, 1, true);
}

TEST(scale)
{
    begin();
    tachy_graph_add_output(g, scaled());
    CHECK_INT(tachy_plan_scale(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(count(TACHY_OP_BINARY), 0);
    CHECK(g->last->nb_in == 5 && g->last->in[4]);
    tachy_graph_close(&g);
    same_after_all(scaled);
}

static struct tachy_value *framed(void)
{
    struct tachy_value *x = input(4, SHAPE(1, 3, 8, 6));
    struct tachy_plan_attr pad = {.pad = {.before = {0, 0, 1, 2}, .after = {0, 0, 3, 0}}};
    return conv(make(TACHY_OP_PAD, pad, VALUE(1, 3, 12, 8), x, NULL, NULL), 4, 3, true);
}

TEST(pad)
{
    begin();
    tachy_graph_add_output(g, framed());
    CHECK_INT(tachy_plan_pad(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(nodes(), 1);
    CHECK(!memcmp(g->first->attr.conv.pad, (int[]){2, 3, 4, 1}, 4 * sizeof(int)));
    tachy_graph_close(&g);
    same_after_all(framed);
}

static struct tachy_value *turned(void)
{
    struct tachy_value *x = conv(input(4, SHAPE(1, 3, 8, 6)), 4, 3, true);
    struct tachy_plan_attr last = {.perm = {0, 2, 3, 1}}, first = {.perm = {0, 3, 1, 2}};
    struct tachy_value *y = make(TACHY_OP_TRANSPOSE, last, VALUE(1, 8, 6, 4), x, NULL, NULL);
    return conv(make(TACHY_OP_TRANSPOSE, first, VALUE(1, 4, 8, 6), y, NULL, NULL), 4, 3, true);
}

TEST(moves)
{
    begin();
    tachy_graph_add_output(g, turned());
    CHECK_INT(tachy_plan_moves(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(nodes(), 2);
    tachy_graph_close(&g);
    same_after_all(turned);
    begin(); // a slice of everything, and one that is not
    struct tachy_value *x = input(4, SHAPE(1, 3, 8, 6));
    struct tachy_plan_attr all = {.slice = {.step = {1, 1, 1, 1}}}, back = {.slice = {{0, 2, 0, 0}, {1, -1, 1, 1}}};
    struct tachy_value *y = make(TACHY_OP_SLICE, all, like(x), x, NULL, NULL);
    tachy_graph_add_output(g, unary(TACHY_PLAN_RELU, make(TACHY_OP_SLICE, back, like(y), y, NULL, NULL)));
    CHECK_INT(tachy_plan_moves(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(nodes(), 2);
    tachy_graph_close(&g);
}

// A block of YOLO: a Concat of both halves of a value and a convolution of one; and a Concat of the halves in the other order.
static struct tachy_value *halved(void)
{
    struct tachy_value *x = unary(TACHY_PLAN_RELU, conv(input(4, SHAPE(2, 3, 8, 6)), 16, 3, true)), *half[2], *y, *z, *in[3];
    for (int i = 0; i < 2; i++) {
        struct tachy_plan_attr cut = {.slice = {{0, 8 * i, 0, 0}, {1, 1, 1, 1}}};
        half[i] = make(TACHY_OP_SLICE, cut, VALUE(2, 8, 8, 6), x, NULL, NULL);
    }
    in[0] = half[0], in[1] = half[1], in[2] = unary(TACHY_PLAN_RELU, conv(half[1], 8, 3, true));
    const struct tachy_plan_attr side = {.axis = 1};
    tachy_graph_node(g, NULL, TACHY_OP_CONCAT, "n", &side, in, 3, y = VALUE(2, 24, 8, 6));
    in[0] = half[1], in[1] = half[0];
    tachy_graph_node(g, NULL, TACHY_OP_CONCAT, "n", &side, in, 2, z = VALUE(2, 16, 8, 6));
    return binary(TACHY_PLAN_ADD, conv(y, 5, 1, true), conv(z, 5, 1, true));
}

TEST(parts_side_by_side)
{
    begin();
    tachy_graph_add_output(g, halved());
    CHECK_INT(tachy_plan_moves(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(count(TACHY_OP_SLICE), 2); // for the convolution and the exchanged halves
    for (const struct tachy_node *n = g->first; n; n = n->next)
        CHECK(n->op != TACHY_OP_CONCAT || (n->nb_in == 2 && (n->out->shape[1] == 24) == (n->in[0]->made_by->op != TACHY_OP_SLICE)));
    tachy_graph_close(&g);
    same_after_all(halved);
}

TEST(common_and_dead)
{
    begin();
    struct tachy_value *x = input(4, SHAPE(1, 3, 8, 6)), *a = unary(TACHY_PLAN_TANH, x);
    struct tachy_value *b = unary(TACHY_PLAN_TANH, x);
    unary(TACHY_PLAN_EXP, x); // for nobody
    tachy_graph_add_output(g, binary(TACHY_PLAN_ADD, a, b));
    CHECK_INT(tachy_plan_common(g), TACHY_OK);
    CHECK_INT(nodes(), 3);
    CHECK(g->last->in[0] == g->last->in[1]);
    CHECK_INT(tachy_plan_dead(g), TACHY_OK);
    CHECK_INT(nodes(), 2);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(tachy_plan_passes(g, "no such pass"), TACHY_ERR_NOT_FOUND);
    tachy_graph_close(&g);
}

static struct tachy_value *joined(void)
{
    struct tachy_value *x = conv(input(4, SHAPE(2, 3, 8, 6)), 4, 3, true);
    struct tachy_value *a = unary(TACHY_PLAN_TANH, x), *b = conv(x, 3, 1, true), *c = VALUE(2, 7, 8, 6);
    make(TACHY_OP_CONCAT, (struct tachy_plan_attr){.axis = 1}, c, a, b, NULL);
    struct tachy_plan_attr cut = {.slice = {.start = {0, 2, 1, 0}, .step = {1, 1, 1, 1}}};
    return conv(make(TACHY_OP_SLICE, cut, VALUE(2, 4, 6, 6), c, NULL, NULL), 5, 3, true);
}

// Layout changes at the ends only, and no step for Concat and Slice.
TEST(layout_and_addresses)
{
    struct tachy_cpu_plan *p = NULL;
    struct tachy_plan_info info;
    begin();
    tachy_graph_add_output(g, joined());
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
    CHECK_INT(count(TACHY_OP_TRANSPOSE), 2);
    CHECK_INT(tachy_cpu_plan_open(&p, g, NULL), TACHY_OK);
    tachy_cpu_plan_info(p, &info);
    CHECK_INT(info.nodes, 8);
    CHECK_INT(info.steps, 6); // two of which change the layout
    CHECK(info.arena < info.values);
    tachy_cpu_plan_close(&p);
    tachy_graph_close(&g);
    same_after_all(joined);
}

struct runner {
    struct tachy_cpu_plan *plan;  // of all
    struct tachy_graph *own;      // one that only this test compiles
    struct tachy_plan_params params;
    const float *x, *want;
    bool same;
};

enum { THREADS = 16, RUNS = 8, OUT = 2 * 5 * 6 * 6, IN = 2 * 3 * 8 * 6 };

static void *run_many(void *arg)
{
    struct runner *r = arg;
    struct tachy_cpu_plan *own = NULL;
    float y[OUT];
    r->same = tachy_cpu_plan_open(&own, r->own, &r->params) == TACHY_OK;
    for (int i = 0; i < RUNS && r->same; i++)
        if (tachy_cpu_plan_run(i & 1 ? own : r->plan, &r->x, (float *const[]){y}) != TACHY_OK ||
            memcmp(y, r->want, sizeof(y)))
            r->same = false;
    tachy_cpu_plan_close(&own);
    return NULL;
}

// One plan that many threads run, and plans of the same weights that each opens: the same bits.
TEST(threads)
{
    struct tachy_cpu_plan *p = NULL;
    struct runner r[THREADS] = {0};
    pthread_t thread[THREADS];
    float x[IN], want[OUT];
    const float *in = x;
    begin();
    tachy_graph_add_output(g, joined());
    CHECK_INT(tachy_value_elements(g->out[0]), OUT);
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
    CHECK_INT(tachy_cpu_plan_open(&p, g, NULL), TACHY_OK);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(tachy_graph_copy(&r[i].own, g, true), TACHY_OK);
    tachy_graph_close(&g); // the plan has copied what it needs
    for (int i = 0; i < IN; i++)
        x[i] = noise();
    CHECK_INT(tachy_cpu_plan_run(p, &in, (float *const[]){want}), TACHY_OK);
    for (int i = 0; i < THREADS; i++) {
        r[i] = (struct runner){p, r[i].own, {.threads = 1 + i % 3}, x, want, false};
        CHECK_INT(pthread_create(&thread[i], NULL, run_many, &r[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        CHECK(r[i].same);
        tachy_graph_close(&r[i].own);
    }
    tachy_cpu_plan_close(&p);
}

TEST(refused)
{
    struct tachy_cpu_plan *p = NULL;
    begin();
    struct tachy_value *x = input(4, SHAPE(1, 3, 8, 6)), *w = input(4, SHAPE(3, 4, 1, 1));
    struct tachy_plan_attr a = {.conv = {{1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1, {0, 0}, 0, 0}};
    tachy_graph_add_output(g, make(TACHY_OP_DECONV, a, VALUE(1, 4, 8, 6), x, w, NULL));
    CHECK_STR(tachy_cpu_refuses(g->first), "weights that are not constant");
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
    CHECK_INT(tachy_cpu_plan_open(&p, g, NULL), TACHY_ERR_UNSUPPORTED);
    CHECK(!p);
    tachy_graph_close(&g);
}

static struct tachy_value *depth_turned(struct tachy_value *x, bool last)
{
    const int64_t *s = x->shape;
    struct tachy_plan_attr a = {.perm = {0, last ? 2 : 4, last ? 3 : 1, last ? 4 : 2, last ? 1 : 3}};
    return make(TACHY_OP_TRANSPOSE, a, last ? VALUE(s[0], s[2], s[3], s[4], s[1]) : VALUE(s[0], s[4], s[1], s[2], s[3]), x, NULL, NULL);
}

// A volume's layers with channels last, each between two Transposes: a function between two layers, and sums around two.
static struct tachy_value *volumes(void)
{
    struct tachy_value *x = input(5, SHAPE(1, 4, 3, 5, 2)), *w = NUMBERS(4, 4);
    for (int i = 0; i < 2; i++) {
        struct tachy_value *y = x;
        for (int k = 0; k < 2; k++) {
            struct tachy_value *z = depth_turned(y, true);
            y = depth_turned(make(TACHY_OP_MATMUL, (struct tachy_plan_attr){.matmul.alpha = 1}, like(z), z, w, NULL), false);
            y = k ? y : unary(TACHY_PLAN_SIGMOID, y);
        }
        x = binary(TACHY_PLAN_ADD, x, y);
    }
    return unary(TACHY_PLAN_RELU, depth_turned(x, true));
}

TEST(functions_between_transposes)
{
    int transposes = 0;
    begin();
    tachy_graph_add_output(g, volumes());
    CHECK_INT(tachy_plan_moves(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    for (const struct tachy_node *n = g->first; n; n = n->next)
        transposes += n->op == TACHY_OP_TRANSPOSE;
    CHECK_INT(transposes, 1); // of the input
    tachy_graph_close(&g);
    same_after_all(volumes);
    begin(); // what is used elsewhere too, or is not turned back, stays
    struct tachy_value *y = depth_turned(input(5, SHAPE(1, 4, 3, 5, 2)), false), *z = unary(TACHY_PLAN_SIGMOID, y);
    tachy_graph_add_output(g, z);
    tachy_graph_add_output(g, unary(TACHY_PLAN_RELU, depth_turned(z, false)));
    CHECK_INT(tachy_plan_moves(g), TACHY_OK);
    CHECK(z->made_by && z->made_by->in[0] == y);
    tachy_graph_close(&g);
}

TEST_MAIN(TEST_CASE(activations), TEST_CASE(activations_that_are_none), TEST_CASE(fuse),
          TEST_CASE(fuse_keeps_what_is_used), TEST_CASE(scale), TEST_CASE(pad), TEST_CASE(moves), TEST_CASE(functions_between_transposes),
          TEST_CASE(parts_side_by_side), TEST_CASE(common_and_dead), TEST_CASE(layout_and_addresses), TEST_CASE(threads),
          TEST_CASE(refused))
