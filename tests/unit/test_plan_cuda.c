#include "base/clock.h"
#include "fakes/fake.h"
#include "fakes/symbol.h"
#include "plan_cuda.h"
#include "turn_lanes.h"

// Plans of convolutional networks on a GPU: what becomes an address, which steps are left, what their kernels and memory
// are, float16 and what the passes for it keep as float32. test_plan_cuda_moves.c has those of transformers.

static struct tachy_value *mean(struct tachy_value *x)
{
    struct tachy_plan_attr a = {.reduce = {.how = TACHY_PLAN_MEAN, .axis = {[2] = true, [3] = true}}};
    return make(TACHY_OP_REDUCE, a, VALUE(x->shape[0], x->shape[1], 1, 1), x, NULL, NULL);
}

static struct tachy_value *resized(struct tachy_value *x, int h, int w)
{
    struct tachy_plan_attr a = {.resize = {.mode = TACHY_PLAN_LINEAR, .scale = {(float)h / (float)x->shape[2],
                                                                                (float)w / (float)x->shape[3]}}};
    return make(TACHY_OP_RESIZE, a, VALUE(x->shape[0], x->shape[1], h, w), x, NULL, NULL);
}

// The end of DeepLabV3: branches side by side, a mean that is blown up among them, and a larger picture of the classes.
static void branches(void)
{
    begin();
    struct tachy_value *x = unary(TACHY_PLAN_RELU, conv(input(4, SHAPE(2, 3, 8, 8)), 16, 3, true)), *in[5];
    struct tachy_plan_attr side = {.axis = 1};
    in[0] = unary(TACHY_PLAN_RELU, conv(x, 8, 1, true));
    in[1] = unary(TACHY_PLAN_RELU, conv(x, 8, 3, true));
    in[2] = unary(TACHY_PLAN_RELU, conv(x, 8, 3, false));
    in[3] = conv(x, 8, 1, false);
    in[4] = resized(unary(TACHY_PLAN_RELU, conv(mean(x), 8, 1, true)), 8, 8);
    struct tachy_value *y = VALUE(2, 40, 8, 8);
    tachy_graph_node(g, NULL, TACHY_OP_CONCAT, "n", &side, in, 5, y);
    y = conv(unary(TACHY_PLAN_RELU, conv(y, 16, 1, true)), 5, 1, true);
    tachy_graph_add_output(g, resized(y, 32, 32));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

TEST(what_becomes_an_address)
{
    const struct tachy_plan_params params = {.precision = TACHY_PLAN_FP16, .kernels = &host_kernels};
    branches();
    struct tachy_plan *p = opened(&params);
    CHECK_INT(steps_called(p, "Concat"), 0);
    CHECK_INT(steps_called(p, "Conv"), 8);
    CHECK_INT(steps_called(p, "Resize"), 2);
    CHECK_INT(steps_called(p, "Transpose"), 1); // the input; the output's planes are the resize's
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

// A network whose values pass through every kind of step that mixes types: softmax, a mean, sums that grow, a scale.
static void mixed(void)
{
    begin();
    struct tachy_value *x = input(4, SHAPE(2, 3, 12, 10)), *y, *s;
    struct tachy_plan_attr soft = {.axis = 1}, pool = {.pool = {.kernel = {2, 2}, .stride = {2, 2}}};
    struct tachy_plan_attr sums = {.reduce = {.how = TACHY_PLAN_L2, .axis = {[2] = true, [3] = true}}};
    y = unary(TACHY_PLAN_HSWISH, conv(x, 16, 3, true));
    s = unary(TACHY_PLAN_SIGMOID, conv(mean(y), 16, 1, true));
    y = binary(TACHY_PLAN_MUL, y, s);
    y = binary(TACHY_PLAN_ADD, conv(y, 16, 3, true), y);
    y = binary(TACHY_PLAN_DIV, y, make(TACHY_OP_REDUCE, sums, VALUE(2, 16, 1, 1), y, NULL, NULL));
    y = make(TACHY_OP_POOL, pool, VALUE(2, 16, 6, 5), y, NULL, NULL);
    y = make(TACHY_OP_SOFTMAX, soft, VALUE(2, 7, 6, 5), conv(y, 7, 1, true), NULL, NULL);
    tachy_graph_add_output(g, resized(y, 12, 10));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

static struct tachy_value *depthwise(struct tachy_value *x)
{
    int c = (int)x->shape[1];
    struct tachy_plan_attr a = {.conv = {{3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, c, {0, 0}, 0, 0}};
    struct tachy_value *y = VALUE(x->shape[0], c, x->shape[2], x->shape[3]);
    struct tachy_value *b = NUMBERS(c);
    return make(TACHY_OP_CONV, a, y, x, NUMBERS(c, 1, 3, 3), b);
}

static struct tachy_value *squeezed(struct tachy_value *x, int hidden)
{
    struct tachy_value *s = unary(TACHY_PLAN_RELU, conv(mean(x), hidden, 1, true));
    return binary(TACHY_PLAN_MUL, x, unary(TACHY_PLAN_SIGMOID, conv(s, (int)x->shape[1], 1, true)));
}

// Squeeze-and-excite after a depthwise convolution, of a picture that another node makes, of one layer and from another
// picture's means; and a scale that is none.
static void squeezes(void)
{
    begin();
    struct tachy_value *x = unary(TACHY_PLAN_RELU, conv(input(4, SHAPE(2, 3, 12, 10)), 16, 3, true)), *y, *s;
    y = conv(squeezed(unary(TACHY_PLAN_HSWISH, depthwise(x)), 8), 16, 1, true);
    y = binary(TACHY_PLAN_ADD, y, x);
    y = conv(squeezed(depthwise(conv(y, 24, 1, true)), 8), 16, 1, false);
    y = conv(squeezed(unary(TACHY_PLAN_RELU, conv(y, 16, 1, true)), 4), 8, 3, true);
    y = conv(binary(TACHY_PLAN_MUL, y, unary(TACHY_PLAN_SIGMOID, conv(mean(x), 8, 1, true))), 8, 1, true);
    x = unary(TACHY_PLAN_RELU, conv(x, 16, 1, true));
    s = unary(TACHY_PLAN_SIGMOID, conv(conv(mean(x), 4, 1, true), 8, 1, true)); // means of 16 channels for 8
    y = conv(binary(TACHY_PLAN_MUL, y, s), 9, 1, true);
    y = conv(binary(TACHY_PLAN_MUL, y, conv(unary(TACHY_PLAN_TANH, mean(y)), 9, 1, true)), 7, 1, true);
    tachy_graph_add_output(g, resized(y, 12, 10));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

TEST(squeeze_and_excite)
{
    const struct tachy_plan_params params = {.precision = TACHY_PLAN_FP16, .kernels = &host_kernels};
    squeezes();
    host_own_weights = 0;
    struct tachy_plan *p = opened(&params);
    CHECK_INT(steps_called(p, "Binary"), 0);
    // Means are of what a depthwise convolution sums, or of the picture itself; the last scale is no squeeze's.
    CHECK_INT(steps_of(p, CUDA_REDUCE), 1);
    CHECK_INT(steps_of(p, CUDA_SQUEEZE), 5);
    CHECK_INT(steps_of(p, CUDA_CONV), 12 + 1);
    CHECK(host_own_weights >= 5);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

// The decoder of a segmentation network: the larger picture is scaled by the means of both and added to the upsampled
// smaller one; then the same from the means of one through a convolution. If a step makes the mean of a picture, no
// later node uses it.
static void gates(void)
{
    begin();
    struct tachy_value *x = unary(TACHY_PLAN_RELU, conv(input(4, SHAPE(2, 3, 12, 10)), 16, 3, true)), *small, *s, *y;
    struct tachy_value *gone = unary(TACHY_PLAN_RELU, conv(x, 16, 3, true));
    small = conv(make(TACHY_OP_POOL, (struct tachy_plan_attr){.pool = {.kernel = {2, 2}, .stride = {2, 2}}}, VALUE(2, 16, 6, 5), gone,
                      NULL, NULL), 16, 1, true);
    s = binary(TACHY_PLAN_ADD, mean(gone), mean(small));
    s = unary(TACHY_PLAN_SIGMOID, conv(unary(TACHY_PLAN_RELU, conv(s, 8, 1, true)), 16, 1, true));
    y = conv(binary(TACHY_PLAN_ADD, resized(small, 12, 10), binary(TACHY_PLAN_MUL, x, s)), 16, 1, true);
    s = binary(TACHY_PLAN_ADD, mean(x), conv(mean(y), 16, 1, true));
    s = unary(TACHY_PLAN_SIGMOID, conv(unary(TACHY_PLAN_RELU, conv(s, 16, 1, true)), 16, 1, true));
    small = unary(TACHY_PLAN_RELU, conv(make(TACHY_OP_POOL, (struct tachy_plan_attr){.pool = {.kernel = {2, 2}, .stride = {2, 2}}},
                                             VALUE(2, 16, 6, 5), y, NULL, NULL), 16, 3, true));
    y = binary(TACHY_PLAN_ADD, resized(small, 12, 10), binary(TACHY_PLAN_MUL, x, s));
    tachy_graph_add_output(g, conv(y, 7, 1, true));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

TEST(gates_of_a_decoder)
{
    for (int half = 0; half < 2; half++) {
        const struct tachy_plan_params params = {.precision = half ? TACHY_PLAN_FP16 : TACHY_PLAN_FP32, .kernels = &host_kernels};
        gates();
        struct tachy_plan *p = opened(&params);
        CHECK_INT(steps_of(p, CUDA_SQUEEZE), 2);
        CHECK_INT(steps_of(p, CUDA_REDUCE), 0);
        tachy_plan_close(&p);
        tachy_graph_close(&g);
    }
}

// Channels that do not fill vectors: a Concat of 40, 16 and 3, of 24 and 3; convolutions from 59, 27 and 3 channels.
static void odd(void)
{
    begin();
    struct tachy_value *x = input(4, SHAPE(2, 3, 8, 8)), *in[3], *y = VALUE(2, 59, 8, 8), *z = VALUE(2, 27, 8, 8);
    struct tachy_plan_attr side = {.axis = 1}, pool = {.pool = {.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1, 1, 1}, .average = true}};
    struct tachy_value *a = unary(TACHY_PLAN_RELU, conv(x, 16, 3, true)), *small = make(TACHY_OP_POOL, pool, VALUE(2, 3, 8, 8), x, NULL, NULL);
    in[0] = unary(TACHY_PLAN_RELU, conv(a, 40, 1, true));
    in[1] = binary(TACHY_PLAN_ADD, conv(a, 16, 1, true), a);
    in[2] = small;
    tachy_graph_node(g, NULL, TACHY_OP_CONCAT, "n", &side, in, 3, y);
    in[0] = unary(TACHY_PLAN_RELU, conv(y, 24, 3, true));
    in[1] = small;
    tachy_graph_node(g, NULL, TACHY_OP_CONCAT, "n", &side, in, 2, z);
    y = binary(TACHY_PLAN_ADD, conv(unary(TACHY_PLAN_RELU, conv(z, 11, 1, true)), 11, 3, true), conv(z, 11, 1, true));
    tachy_graph_add_output(g, resized(conv(y, 7, 1, true), 12, 10));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

TEST(odd_channels)
{
    const struct tachy_plan_params params = {.precision = TACHY_PLAN_FP16, .kernels = &host_kernels};
    odd();
    host_padded = host_smalls = 0;
    struct tachy_plan *p = opened(&params);
    CHECK_INT(steps_called(p, "Concat"), 1); // three channels lie in one of them
    CHECK(host_padded >= 1 && host_padded + host_smalls >= 4); // each of them may run on tensor cores
    const struct cuda_plan *q = (const struct cuda_plan *)p;
    for (int i = 0; i < q->nb_steps; i++)
        if (q->steps[i].kind == CUDA_CONV && q->steps[i].a.conv.shape.cin > 4)
            CHECK((q->steps[i].a.conv.in.pixel | q->steps[i].a.conv.out.pixel) % 8 == 0);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

// Runs a plan with its lanes in several orders and compares the results. All runs but the first are captured.
static void check_orders(void (*build)(void), int in, int out)
{
    float *x = calloc((size_t)in, sizeof(*x)), *y = calloc((size_t)out, sizeof(*y)), *want = expected(build);
    build();
    struct tachy_plan *p = opened(&(struct tachy_plan_params){.precision = TACHY_PLAN_FP16, .kernels = &host_kernels});
    seed = 99;
    for (int i = 0; i < in; i++)
        x[i] = 3 * noise();
    for (int i = 0; i < 4; i++) {
        memset(y, 0, sizeof(*y) * (size_t)out);
        CHECK_INT(tachy_plan_cuda.run(p, (const void *const[]){x}, (void *const[]){y}, NULL, NULL), TACHY_OK);
        CHECK(off(y, want, out) < 3e-3);
        CHECK(turn_lanes((struct cuda_plan *)p, i % 2) > 0);
    }
    tachy_plan_close(&p);
    tachy_graph_close(&g);
    free(x), free(y), free(want);
}

// The second layers write in a part of one tensor, while the other branch may still have to read what both begin with.
static void late(void)
{
    begin();
    struct tachy_value *x = unary(TACHY_PLAN_RELU, tame(input(4, SHAPE(2, 3, 8, 8)), 16, 3, true)), *part[2];
    for (int i = 0; i < 2; i++)
        part[i] = unary(TACHY_PLAN_RELU, tame(x, 16, 3, true));
    for (int i = 0; i < 2; i++)
        part[i] = unary(TACHY_PLAN_RELU, tame(part[i], 16, 3, true));
    x = make(TACHY_OP_CONCAT, (struct tachy_plan_attr){.axis = 1}, VALUE(2, 32, 8, 8), part[0], part[1], NULL);
    tachy_graph_add_output(g, tame(x, 5, 1, true));
}

TEST(branches_side_by_side)
{
    branches();
    struct tachy_plan *p = opened(&(struct tachy_plan_params){.precision = TACHY_PLAN_FP16, .kernels = &host_kernels});
    const struct cuda_plan *q = (const struct cuda_plan *)p;
    int lanes = 0, region = 0;
    for (int i = 0; i < q->nb_steps; i++) {
        lanes |= 1 << q->steps[i].lane.lane;
        region += q->steps[i].lane.region > 0;
    }
    CHECK_INT(lanes, (1 << CUDA_LANES) - 1);
    CHECK_INT(region, 4 + 3); // four convolutions; the mean, its convolution and what blows it up
    CHECK_INT(q->nb_lanes, CUDA_LANES);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
    check_orders(branches, 2 * 3 * 8 * 8, 2 * 5 * 32 * 32);
    check_orders(late, 2 * 3 * 8 * 8, 2 * 5 * 8 * 8);
}

// Two short branches meet while a long one runs, and what follows them is beside it as well.
static void meeting(void)
{
    begin();
    struct tachy_value *x = unary(TACHY_PLAN_RELU, tame(input(4, SHAPE(2, 3, 6, 5)), 16, 3, true)), *y = x, *part[2];
    for (int i = 0; i < 6; i++)
        y = unary(TACHY_PLAN_RELU, tame(y, 16, 3, true));
    for (int i = 0; i < 2; i++)
        part[i] = unary(TACHY_PLAN_RELU, tame(x, 8, 3, true));
    x = make(TACHY_OP_CONCAT, (struct tachy_plan_attr){.axis = 1}, like(x), part[0], part[1], NULL);
    x = unary(TACHY_PLAN_RELU, tame(x, 16, 3, true));
    tachy_graph_add_output(g, make(TACHY_OP_CONCAT, (struct tachy_plan_attr){.axis = 1}, VALUE(2, 32, 6, 5), x, y, NULL));
}

TEST(branches_that_meet)
{
    check_orders(meeting, 2 * 3 * 6 * 5, 2 * 32 * 6 * 5);
    meeting();
    struct tachy_plan *p = opened(&(struct tachy_plan_params){.precision = TACHY_PLAN_FP16, .kernels = &host_kernels});
    const struct cuda_plan *q = (const struct cuda_plan *)p;
    int lanes[CUDA_LANES] = {0};
    for (int i = 0; i < q->nb_steps; i++)
        lanes[q->steps[i].lane.lane] += q->steps[i].lane.region == 1;
    CHECK_INT(lanes[0], 6);
    CHECK_INT(lanes[1], 3);
    CHECK(q->arena + 3 * 2048 <= q->values); // of the long branch's five values two are there at a time
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

// Bottlenecks: a 1x1 convolution with a sum in front of the next one's first; of three in a row two are a pair.
static void bottlenecks(void)
{
    begin();
    struct tachy_value *x = unary(TACHY_PLAN_RELU, tame(input(4, SHAPE(2, 3, 6, 5)), 64, 3, true)), *y;
    for (int i = 0; i < 2; i++) {
        y = unary(TACHY_PLAN_RELU, tame(x, 64, 1, true));
        y = unary(TACHY_PLAN_RELU, tame(y, 64, 3, true));
        x = unary(TACHY_PLAN_RELU, binary(TACHY_PLAN_ADD, tame(y, 64, 1, true), x));
    }
    y = tame(unary(TACHY_PLAN_RELU, tame(x, 128, 1, false)), 64, 1, true);
    y = binary(TACHY_PLAN_ADD, y, x);
    tachy_graph_add_output(g, tame(tame(y, 7, 1, true), 7, 3, true));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

// 3x3 taps and few channels in front of 1x1 taps; another one reads what the second pair has between them.
static void few_channels(void)
{
    begin();
    struct tachy_value *y = unary(TACHY_PLAN_RELU, tame(input(4, SHAPE(2, 3, 6, 5)), 16, 3, true));
    y = unary(TACHY_PLAN_RELU, tame(unary(TACHY_PLAN_RELU, tame(y, 24, 3, true)), 12, 1, true));
    y = unary(TACHY_PLAN_RELU, tame(y, 16, 3, true));
    struct tachy_value *one = tame(y, 7, 1, true);
    tachy_graph_add_output(g, binary(TACHY_PLAN_ADD, one, tame(y, 7, 3, true)));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

// All pairs run by one kernel each give what a processor gives: `pairs` of them, `alone` without what lies between.
static void check_pairs(void (*build)(void), int pairs, int alone)
{
    enum { IN = 2 * 3 * 6 * 5, OUT = 2 * 7 * 6 * 5 };
    float *x = calloc(IN, sizeof(*x)), *y = calloc(OUT, sizeof(*y)), *want = expected(build);
    build();
    struct tachy_plan *p = opened(&(struct tachy_plan_params){.precision = TACHY_PLAN_FP16, .kernels = &host_kernels});
    struct cuda_plan *q = (struct cuda_plan *)p;
    for (int i = 0; i < q->nb_steps; i++)
        if (q->steps[i].pairs) {
            q->steps[i].way = (struct cuda_way){CUDA_CONV_PAIR, 0};
            q->steps[i + 1].way = (struct cuda_way){CUDA_CONV_DONE, 0};
        }
    seed = 99;
    for (int i = 0; i < IN; i++)
        x[i] = 3 * noise();
    host_pairs = host_alone = 0;
    CHECK_INT(tachy_plan_cuda.run(p, (const void *const[]){x}, (void *const[]){y}, NULL, NULL), TACHY_OK);
    CHECK_INT(host_pairs, pairs);
    CHECK_INT(host_alone, alone);
    CHECK(off(y, want, OUT) < 5e-3);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
    free(x), free(y), free(want);
}

TEST(pairs_of_convolutions)
{
    check_pairs(bottlenecks, 4, 1);
    check_pairs(few_channels, 2, 1);
}

// A picture with its channels last, which the first convolution reads as one of one channel.
static void pixels(void)
{
    begin();
    struct tachy_plan_attr wide = {.conv = {{3, 9}, {2, 6}, {1, 1}, {0, 3, 1, 0}, 1, {0, 0}, 0, 0}};
    struct tachy_value *x = input(4, SHAPE(2, 24, 20, 3)), *b;
    x = make(TACHY_OP_RESHAPE, (struct tachy_plan_attr){0}, VALUE(2, 1, 24, 60), x, NULL, NULL);
    b = NUMBERS(16);
    x = unary(TACHY_PLAN_RELU, make(TACHY_OP_CONV, wide, VALUE(2, 16, 12, 10), x, NUMBERS(16, 1, 3, 9), b));
    tachy_graph_add_output(g, tame(x, 7, 3, true));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

// The end of a network that makes a picture: its edges mirrored, then many channels become few.
static void last_picture(void)
{
    static const int64_t rows[] = {1, 0, 1, 2, 3, 4, 3}, columns[] = {2, 1, 0, 1, 2, 3, 2, 1};
    const struct tachy_plan_attr along_rows = {.axis = 2}, along_columns = {.axis = 3};
    begin();
    struct tachy_value *y = conv(input(4, SHAPE(2, 16, 5, 4)), 16, 1, true);
    struct tachy_value *row = tachy_graph_constant(g, NULL, TACHY_I64, 1, SHAPE(7), rows), *column = tachy_graph_constant(g, NULL, TACHY_I64, 1, SHAPE(8), columns);
    y = make(TACHY_OP_GATHER, along_rows, VALUE(2, 16, 7, 4), y, row, NULL);
    y = make(TACHY_OP_GATHER, along_columns, VALUE(2, 16, 7, 8), y, column, NULL);
    tachy_graph_add_output(g, unary(TACHY_PLAN_SIGMOID, conv(y, 3, 3, true)));
}

TEST(mirrored_edges_are_one_launch)
{
    const struct tachy_plan_params params = {.precision = TACHY_PLAN_FP16, .kernels = &host_kernels};
    check_near(last_picture, 2 * 3 * 7 * 8, 0, 3e-3);
    last_picture();
    struct tachy_plan *p = opened(&params);
    CHECK_INT(steps_of(p, CUDA_GATHER), 1);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

TEST(pixels_of_a_first_convolution)
{
    const struct tachy_plan_params params = {.precision = TACHY_PLAN_FP16, .kernels = &host_kernels};
    pixels();
    host_stems = 0;
    struct tachy_plan *p = opened(&params);
    CHECK_INT(host_stems, 1);
    CHECK_INT(steps_of(p, CUDA_TRANSPOSE), 2); // the picture's and the output's
    CHECK_INT(steps(p), 2 + 2);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

// Batch normalisations in front of convolutions with padding: one of each number per channel, one for all, only a shift; strides,
// dilation and padding that differ by side; a slope of PRelu, and a sum which leaves no room for the constant.
static void normalised(void)
{
    begin();
    struct tachy_value *x = input(4, SHAPE(2, 8, 12, 10)), *y, *slope = NUMBERS(1, 16, 1, 1);
    struct tachy_plan_attr uneven = {.conv = {{3, 2}, {2, 1}, {1, 2}, {2, 1, 0, 2}, 1, {0, 0}, 0, 0}};
    struct tachy_plan_attr prelu = {.act = {TACHY_PLAN_PRELU, 0, 0}};
    y = conv(binary(TACHY_PLAN_ADD, binary(TACHY_PLAN_MUL, x, NUMBERS(1, 8, 1, 1)), NUMBERS(1, 8, 1, 1)), 16, 3, true);
    y = make(TACHY_OP_UNARY, prelu, like(y), y, slope, NULL);
    struct tachy_value *shifted = binary(TACHY_PLAN_ADD, y, NUMBERS(1, 16, 1, 1)), *weights = NUMBERS(16, 16, 3, 2);
    y = make(TACHY_OP_CONV, uneven, VALUE(2, 16, 6, 11), shifted, weights, NULL);
    y = unary(TACHY_PLAN_RELU, y);
    y = conv(binary(TACHY_PLAN_MUL, binary(TACHY_PLAN_ADD, y, number(0.5f)), number(0.25f)), 16, 3, false);
    tachy_graph_add_output(g, unary(TACHY_PLAN_RELU, y));
}

TEST(shifts_before_padding)
{
    const struct tachy_plan_params params = {.precision = TACHY_PLAN_FP16, .kernels = &host_kernels};
    float *want = expected(normalised), *single = on_gpu(normalised, TACHY_PLAN_FP32), *half = on_gpu(normalised, TACHY_PLAN_FP16);
    CHECK(off(single, want, 2 * 16 * 6 * 11) < 1e-6);
    CHECK(off(half, want, 2 * 16 * 6 * 11) < 3e-3);
    normalised();
    struct tachy_plan *p = opened(&params);
    CHECK_INT(steps_of(p, CUDA_CONV), 3);
    CHECK_INT(steps(p), 3 + 2); // the ends are turned
    const struct cuda_plan *q = (const struct cuda_plan *)p;
    for (int i = 0; i < q->nb_steps; i++)
        if (q->steps[i].kind == CUDA_CONV) {
            CHECK(q->steps[i].a.conv.epilogue.add.data);
            CHECK_INT(q->steps[i].a.conv.epilogue.add.image, 0);
        }
    tachy_plan_close(&p);
    tachy_graph_close(&g);
    free(want);
    free(single);
    free(half);
}

// Decoders: a transposed convolution beside a skip connection, one that nobody joins, and one of other strides than its kernel.
static void upsampled(void)
{
    begin();
    struct tachy_value *x = input(4, SHAPE(2, 3, 12, 16)), *skip = unary(TACHY_PLAN_RELU, conv(x, 16, 3, true)), *small, *y, *in[2];
    struct tachy_plan_attr half = {.pool = {.kernel = {2, 2}, .stride = {2, 2}}}, side = {.axis = 1};
    struct tachy_plan_attr twice = {.conv = {{2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}, 1, {0, 0}, 0, 0}};
    struct tachy_plan_attr thrice = {.conv = {{3, 2}, {3, 2}, {1, 1}, {0, 0, 0, 0}, 1, {0, 0}, 0, 0}};
    small = unary(TACHY_PLAN_RELU, conv(make(TACHY_OP_POOL, half, VALUE(2, 16, 6, 8), skip, NULL, NULL), 24, 3, true));
    in[0] = skip, y = NUMBERS(24, 8, 2, 2);
    in[1] = make(TACHY_OP_DECONV, twice, VALUE(2, 8, 12, 16), small, y, NUMBERS(8));
    tachy_graph_node(g, NULL, TACHY_OP_CONCAT, "n", &side, in, 2, y = VALUE(2, 24, 12, 16));
    y = unary(TACHY_PLAN_RELU, conv(y, 16, 3, true));
    y = make(TACHY_OP_DECONV, thrice, VALUE(2, 8, 36, 32), y, NUMBERS(16, 8, 3, 2), NULL);
    tachy_graph_add_output(g, conv(y, 8, 3, true));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

TEST(pixels_that_were_channels)
{
    const struct tachy_plan_params params = {.precision = TACHY_PLAN_FP16, .kernels = &host_kernels};
    check_near(upsampled, 2 * 8 * 36 * 32, 1e-6, 3e-3);
    upsampled();
    struct tachy_plan *p = opened(&params);
    CHECK_INT(steps_called(p, "Concat"), 0);
    CHECK_INT(steps_of(p, CUDA_POINTWISE), 2); // each moves once
    CHECK_INT(steps(p), 2 + 6 + 1 + 2); // ends, convolutions, the pool
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

TEST(precision)
{
    void (*const builds[])(void) = {branches, mixed, squeezes, gates, odd, pixels};
    host_stems = 0;
    for (int i = 0; i < 6; i++) {
        float *want = expected(builds[i]), *single = on_gpu(builds[i], TACHY_PLAN_FP32), *half = on_gpu(builds[i], TACHY_PLAN_FP16),
              *bfloat = on_gpu(builds[i], TACHY_PLAN_BF16);
        int64_t n = i ? 2 * 7 * 12 * 10 : 2 * 5 * 32 * 32;
        CHECK(off(single, want, n) < (i == 2 ? 3e-6 : 1e-6)); // the last is deeper
        CHECK(off(half, want, n) < 3e-3 && off(half, want, n) > 1e-6); // half of 2^-11 a value and some
        CHECK(off(bfloat, want, n) < 2.4e-2 && off(bfloat, want, n) > off(half, want, n)); // 2^-8
        free(bfloat);
        free(want);
        free(single);
        free(half);
    }
    CHECK(host_stems >= 4); // the first convolutions, of three channels
}

// A picture that is added to a resized one times a scale by channel, which a convolution makes.
static void scaled(void)
{
    begin();
    struct tachy_value *x = input(4, SHAPE(2, 3, 8, 8)), *small, *s, *big;
    big = unary(TACHY_PLAN_RELU, conv(x, 8, 3, true));
    small = conv(make(TACHY_OP_POOL, (struct tachy_plan_attr){.pool = {.kernel = {2, 2}, .stride = {2, 2}}}, VALUE(2, 8, 4, 4),
                      big, NULL, NULL), 8, 1, true);
    s = unary(TACHY_PLAN_SIGMOID, conv(mean(big), 8, 1, true));
    tachy_graph_add_output(g, conv(binary(TACHY_PLAN_ADD, resized(small, 8, 8), binary(TACHY_PLAN_MUL, big, s)), 4, 3, true));
}

TEST(scale_by_channel)
{
    float *want = expected(scaled), *half = on_gpu(scaled, TACHY_PLAN_FP16);
    scaled();
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
    bool found = false;
    for (const struct tachy_node *n = g->first; n; n = n->next)
        found = found || (n->op == TACHY_OP_RESIZE && n->nb_in == 3 && n->in[2]);
    CHECK(found); // the case that is meant
    CHECK(off(half, want, 2 * 4 * 8 * 8) < 3e-3);
    tachy_graph_close(&g);
    free(want);
    free(half);
}

// Group normalisation after a convolution, and of a volume, which is instance normalisation with one group per channel.
static void grouped(void)
{
    begin();
    struct tachy_plan_attr two = {.norm = {2, 1e-3f}}, each = {.norm = {6, 1e-5f}};
    struct tachy_value *x = conv(input(4, SHAPE(2, 3, 8, 7)), 6, 3, true), *in[] = {x, NUMBERS(6), NUMBERS(6)}, *y = like(x);
    tachy_graph_node(g, NULL, TACHY_OP_GROUP_NORM, "n", &two, in, 3, y);
    in[0] = make(TACHY_OP_RESHAPE, (struct tachy_plan_attr){0}, VALUE(2, 6, 2, 4, 7), unary(TACHY_PLAN_RELU, y), NULL, NULL);
    in[1] = NUMBERS(6);
    y = like(in[0]);
    tachy_graph_node(g, NULL, TACHY_OP_GROUP_NORM, "n", &each, in, 3, y);
    tachy_graph_add_output(g, y);
}

TEST(groups)
{
    check_near(grouped, 2 * 6 * 8 * 7, 5e-6, 3e-3);
    grouped();
    for (const struct tachy_node *n = g->first; n; n = n->next)
        CHECK(!tachy_plan_cuda.refuses(n));
    tachy_graph_close(&g);
}

// Graphs after the GPU passes compute the same on a CPU, which does not round to float16.
TEST(half_on_a_cpu)
{
    const struct tachy_plan_params params = {.precision = TACHY_PLAN_FP16};
    float *want = expected(mixed);
    mixed();
    CHECK_INT(tachy_plan_run_passes(g, tachy_plan_cuda.passes(&params), NULL), TACHY_OK);
    int halves = 0;
    for (const struct tachy_node *n = g->first; n; n = n->next) {
        halves += n->out->dtype == TACHY_F16;
        CHECK(n->op != TACHY_OP_REDUCE || n->attr.reduce.how != TACHY_PLAN_L2 || n->out->dtype == TACHY_F32);
    }
    CHECK(halves >= 8);
    CHECK_INT(g->out[0]->dtype, TACHY_F32);
    float *got = results();
    CHECK(off(got, want, 2 * 7 * 12 * 10) < 1e-6);
    tachy_graph_close(&g);
    free(want);
    free(got);
}

// With any nodes left in float32, types fit: the result is that of the float32 plan except rounding.
TEST(some_nodes_single)
{
    void (*const builds[])(void) = {branches, mixed, scaled};
    const struct tachy_plan_params single = {.kernels = &host_kernels};
    for (int i = 0; i < 30; i++) {
        bool keep[64];
        float *want = expected(builds[i % 3]), *x, *y;
        builds[i % 3]();
        CHECK_INT(tachy_plan_run_passes(g, tachy_plan_cuda.passes(&single), NULL), TACHY_OK);
        seed = (unsigned)i;
        for (int k = 0; k < 64; k++)
            keep[k] = noise() > 0;
        CHECK_INT(tachy_plan_half_but(g, TACHY_F16, keep), TACHY_OK);
        struct tachy_plan *p = NULL;
        CHECK_INT(tachy_plan_cuda.open(&p, g, &single), TACHY_OK);
        int64_t nb_in = tachy_value_elements(g->in[0]), nb_out = tachy_value_elements(g->out[0]);
        x = calloc((size_t)nb_in, sizeof(*x));
        y = calloc((size_t)nb_out, sizeof(*y));
        seed = 99;
        for (int64_t k = 0; k < nb_in; k++)
            x[k] = 3 * noise();
        if (p)
            CHECK_INT(tachy_plan_cuda.run(p, (const void *const[]){x}, (void *const[]){y}, NULL, NULL), TACHY_OK);
        CHECK(off(y, want, nb_out) < 3e-3);
        tachy_plan_close(&p);
        tachy_graph_close(&g);
        free(want);
        free(x);
        free(y);
    }
}

// Between ordinary layers, one whose values float16 does not hold, and one whose weights are too small for it.
static void overflows(void)
{
    begin();
    struct tachy_value *y = unary(TACHY_PLAN_RELU, conv(input(4, SHAPE(1, 3, 10, 10)), 16, 3, true));
    y = unary(TACHY_PLAN_SIGMOID, conv(y, 16, 3, true));
    y = unary(TACHY_PLAN_RELU, binary(TACHY_PLAN_MUL, conv(y, 16, 3, false), number(1e6f)));
    y = unary(TACHY_PLAN_SIGMOID, conv(binary(TACHY_PLAN_MUL, y, number(1e-6f)), 16, 3, true));
    for (int i = 0; i < 5; i++)
        y = unary(TACHY_PLAN_RELU, conv(y, 16, 3, true));
    tachy_graph_add_output(g, y);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

static struct tachy_plan *open_mixed(void (*build)(void), const char *choice, struct tachy_plan_info *info)
{
    const struct tachy_plan_params params = {.precision = TACHY_PLAN_MIXED, .kernels = &host_kernels, .choice = choice,
                                             .deterministic = true}; // no limit of time
    build();
    struct tachy_plan *p = opened(&params);
    if (p)
        tachy_plan_cuda.info(p, info);
    tachy_graph_close(&g);
    return p;
}

TEST(precision_by_error)
{
    struct tachy_plan_info info, again;
    struct tachy_plan *p = open_mixed(mixed, NULL, &info), *q;
    CHECK_INT(info.precision, TACHY_PLAN_FP16); // all of it
    CHECK(info.single == 0 && info.noise_error > 0 && info.noise_error < 1e-2 && info.picture_error < 1e-2);
    tachy_plan_close(&p);

    float *want = expected(overflows), *half = on_gpu(overflows, TACHY_PLAN_FP16), *got = on_gpu(overflows, TACHY_PLAN_MIXED);
    CHECK(!(off(half, want, 1600) < 1e-2));
    CHECK(off(got, want, 1600) < 1e-2 && off(got, want, 1600) > 1e-6);
    p = open_mixed(overflows, NULL, &info);
    CHECK_INT(info.precision, TACHY_PLAN_MIXED);
    CHECK(info.single >= 1 && info.single <= 4 && info.noise_error <= 1e-2 && info.picture_error <= 1e-2);
    if (p) { // what is stored with the plan is not looked for again
        CHECK(!strncmp(tachy_plan_cuda.choice(p), "mixed ", 6));
        q = open_mixed(overflows, tachy_plan_cuda.choice(p), &again);
        CHECK(again.single == info.single && again.choice_seconds == 0 && info.choice_seconds > 0);
        CHECK(q && !strcmp(tachy_plan_cuda.choice(q), tachy_plan_cuda.choice(p)));
        tachy_plan_close(&q);
        q = open_mixed(mixed, tachy_plan_cuda.choice(p), &again); // of another graph: as if there were none
        CHECK(again.single == 0 && again.choice_seconds > 0);
        tachy_plan_close(&q);
    }
    tachy_plan_close(&p);
    free(want);
    free(half);
    free(got);
}

// A batch normalisation that no convolution takes, and the sum of three parts of one picture.
static void sums_of_parts(void)
{
    begin();
    struct tachy_value *x = conv(input(4, SHAPE(2, 3, 6, 5)), 24, 3, true), *part[3], *in[] = {x};
    for (int i = 0; i < 3; i++) {
        struct tachy_plan_attr a = {.slice = {.start = {0, 8 * i, 0, 0}, .step = {1, 1, 1, 1}}};
        tachy_graph_node(g, NULL, TACHY_OP_SLICE, "n", &a, in, 1, part[i] = VALUE(2, 8, 6, 5));
    }
    struct tachy_value *y = binary(TACHY_PLAN_ADD, part[2], binary(TACHY_PLAN_ADD, part[0], part[1]));
    y = unary(TACHY_PLAN_SIGMOID, y);
    y = binary(TACHY_PLAN_ADD, binary(TACHY_PLAN_MUL, y, NUMBERS(1, 8, 1, 1)), NUMBERS(1, 8, 1, 1));
    tachy_graph_add_output(g, binary(TACHY_PLAN_ADD, conv(y, 8, 3, true), y)); // two readers, so it stays
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

TEST(sums_share_launches)
{
    const struct tachy_plan_params params = {.precision = TACHY_PLAN_FP16, .kernels = &host_kernels};
    check_near(sums_of_parts, 2 * 8 * 6 * 5, 0, 3e-3);
    sums_of_parts();
    struct tachy_plan *p = opened(&params);
    CHECK_INT(steps_called(p, "Binary") + steps_called(p, "Unary"), 1);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
}

static int launches; // of convolutions

static int counted_conv(const struct tachy_nn_conv *c, cuda_stream stream)
{
    launches++;
    return host_kernels.conv(c, stream);
}

static struct tachy_plan *open_known(const char *choice, struct tachy_plan_info *info)
{
    struct tachy_nn_kernels counted = host_kernels;
    counted.conv = counted_conv;
    const struct tachy_plan_params params = {.precision = TACHY_PLAN_FP16, .kernels = &counted, .choice = choice, .effort = 1};
    branches();
    launches = 0;
    struct tachy_plan *p = opened(&params);
    if (p)
        tachy_plan_cuda.info(p, info);
    tachy_graph_close(&g);
    return p;
}

TEST(known_kernels)
{
    struct tachy_plan_info info, again;
    struct tachy_plan *p = open_known(NULL, &info), *q;
    if (!p)
        return;
    char *text = strdup(tachy_plan_cuda.choice(p));
    int shapes = -1; // the first line is none
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        shapes++;
    CHECK(info.effort == 1 && info.choice_seconds > 0 && shapes > 3 && launches > 4 * shapes);
    q = open_known(text, &again); // each once, as a trial; one may have another kernel than this
    CHECK(again.effort == 1 && again.choice_seconds == 0);
    CHECK(launches > 0 && launches <= shapes);
    tachy_plan_close(&q);
    text[strlen("cuda 1 effort ")] = '0'; // chosen with too little
    q = open_known(text, &again);
    CHECK(again.effort == 1 && again.choice_seconds > 0);
    tachy_plan_close(&q);
    text[strlen("cuda 1 effort ")] = '2';
    q = open_known(text, &again);
    CHECK(again.effort == 2 && again.choice_seconds == 0);
    tachy_plan_close(&q);
    text[strcspn(text, "\n") + 1] ^= 3; // the first shape is another
    q = open_known(text, &again);
    CHECK(again.effort == 1 && again.choice_seconds > 0);
    tachy_plan_close(&q);
    tachy_plan_close(&p);
    free(text);
}

enum { SIDE = 600, PIXELS = SIDE * SIDE };

// An arena of 1.4 MiB, as the input and the output have.
static struct tachy_plan *large(int memory_limit, int want)
{
    const struct tachy_plan_params params = {.kernels = &host_kernels, .memory_limit = memory_limit};
    struct tachy_plan *p = NULL;
    begin();
    struct tachy_value *x = input(2, SHAPE(SIDE, SIDE));
    tachy_graph_add_output(g, binary(TACHY_PLAN_ADD, unary(TACHY_PLAN_EXP, x), x));
    CHECK_INT(tachy_plan_run_passes(g, tachy_plan_cuda.passes(&params), NULL), TACHY_OK);
    CHECK_INT(tachy_plan_cuda.open(&p, g, &params), want);
    tachy_graph_close(&g);
    return p;
}

// The fake driver copies nothing as large as these tensors.
static void *run_often(void *plan)
{
    float *in = calloc(PIXELS, sizeof(*in)), *out = calloc(PIXELS, sizeof(*out));
    for (int k = 0; k < 3; k++)
        CHECK_INT(tachy_plan_cuda.run(plan, (const void *const[]){in}, (void *const[]){out}, NULL, NULL), TACHY_OK);
    free(in);
    free(out);
    return NULL;
}

// Queues runs on two streams, the first of which is busy for so long; returns whether it still was at the end.
static bool queue_beside_busy(struct cuda_plan *p, void *memory, uint64_t ns)
{
    const struct tachy_cu *cu = p->gpu->device.cu;
    int (*launch)(cuda_stream, uint64_t) = (int (*)(cuda_stream, uint64_t))fake_symbol("libcuda.so.1", "fake_cuda_launch");
    uint64_t (*busy)(cuda_stream) = (uint64_t (*)(cuda_stream))fake_symbol("libcuda.so.1", "fake_cuda_busy");
    cuda_stream stream[2] = {NULL};
    for (int i = 0; i < 2; i++) {
        CHECK_INT(cu->stream_create(&stream[i], CUDA_STREAM_OWN_ORDER), CUDA_OK);
        if (!i)
            launch(stream[i], ns);
        void *const out[] = {(float *)memory + PIXELS};
        CHECK_INT(tachy_plan_cuda.queue(&p->base, (const void *const[]){memory}, out, stream[i]), TACHY_OK);
    }
    bool was = busy(stream[0]) > tachy_now_ns();
    for (int i = 0; i < 2; i++) {
        CHECK_INT(cu->stream_wait(stream[i]), CUDA_OK);
        cu->stream_destroy(stream[i]);
    }
    return was;
}

// The number of workspaces that two runs take, one of which is queued while the other waits for its stream.
static int queued(struct tachy_plan *plan)
{
    struct cuda_plan *p = (struct cuda_plan *)plan;
    void *memory = NULL;
    CHECK_INT(tachy_device_enter(&p->gpu->device, NULL), TACHY_OK);
    CHECK_INT(tachy_gpu_alloc(p->gpu, 2 * PIXELS * sizeof(float), &memory, NULL), TACHY_OK);
    for (uint64_t ns = 500000000; !queue_beside_busy(p, memory, ns); ns *= 2) // this thread may be held up for long
        ;
    tachy_gpu_free(p->gpu, memory);
    tachy_device_leave(&p->gpu->device);
    return p->nb_workspaces;
}

TEST(memory_limit)
{
    CHECK(!large(4, TACHY_ERR_NOMEM));
    struct tachy_plan *p = large(5, TACHY_OK); // one run
    CHECK_INT(queued(p), 1);
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        CHECK_INT(pthread_create(&thread[i], NULL, run_often, p), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    CHECK_INT(((struct cuda_plan *)p)->nb_workspaces, 1);
    CHECK(((struct cuda_plan *)p)->held <= 5 << 20);
    tachy_plan_close(&p);
    p = large(0, TACHY_OK);
    CHECK_INT(queued(p), 2);
    tachy_plan_close(&p);
}
TEST_MAIN(TEST_CASE(memory_limit), TEST_CASE(some_nodes_single), TEST_CASE(precision_by_error), TEST_CASE(known_kernels),
          TEST_CASE(sums_share_launches), TEST_CASE(what_becomes_an_address), TEST_CASE(squeeze_and_excite),
          TEST_CASE(gates_of_a_decoder), TEST_CASE(odd_channels), TEST_CASE(mirrored_edges_are_one_launch), TEST_CASE(pixels_of_a_first_convolution), TEST_CASE(shifts_before_padding), TEST_CASE(pixels_that_were_channels),
          TEST_CASE(pairs_of_convolutions), TEST_CASE(branches_side_by_side), TEST_CASE(branches_that_meet), TEST_CASE(precision), TEST_CASE(scale_by_channel),
          TEST_CASE(groups), TEST_CASE(half_on_a_cpu))
