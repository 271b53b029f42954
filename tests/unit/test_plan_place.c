#include "graph_build.h"

// Values that lie within a larger one: Pad and Slice by address. Convolutions that are a Pad: the pass "pad".

static struct tachy_value *pad(struct tachy_value *x, const int64_t *before, const int64_t *after, float with)
{
    struct tachy_plan_attr a = {.pad = {.value = with}};
    int64_t shape[4];
    for (int i = 0; i < 4; i++) {
        a.pad.before[i] = before[i];
        a.pad.after[i] = after[i];
        shape[i] = before[i] + x->shape[i] + after[i];
    }
    return make(TACHY_OP_PAD, a, value(4, shape), x, NULL, NULL);
}

// More channels for a sum, as in a network that becomes wider; the widened tensor has another reader.
static struct tachy_value *wider(void)
{
    struct tachy_value *x = unary(TACHY_PLAN_RELU, conv(input(4, SHAPE(2, 3, 7, 9)), 13, 3, true));
    struct tachy_value *y = pad(x, SHAPE(0, 0, 0, 0), SHAPE(0, 4, 0, 0), 0);
    return binary(TACHY_PLAN_ADD, conv(x, 17, 3, true), y);
}

// The same as importers write it: a convolution with ones on its diagonal.
static struct tachy_value *ones(void)
{
    struct tachy_value *x = unary(TACHY_PLAN_RELU, conv(input(4, SHAPE(2, 3, 7, 9)), 13, 3, true));
    struct tachy_value *y = conv(x, 17, 1, false);
    float *w = (float *)y->made_by->in[1]->data;
    for (int i = 0; i < 17 * 13; i++)
        w[i] = i / 13 == i % 13;
    return binary(TACHY_PLAN_ADD, conv(x, 17, 3, true), y);
}

TEST(widening)
{
    begin();
    struct tachy_value *y = ones();
    tachy_graph_add_output(g, y);
    CHECK_INT(tachy_plan_pad(g), TACHY_OK);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(count(TACHY_OP_PAD), 1);
    tachy_graph_close(&g);
    begin(); // one weight that is not
    y = ones();
    ((float *)y->made_by->in[1]->made_by->in[1]->data)[13] = 0.5f;
    tachy_graph_add_output(g, y);
    CHECK_INT(tachy_plan_pad(g), TACHY_OK);
    CHECK_INT(count(TACHY_OP_PAD), 0);
    tachy_graph_close(&g);
}

// On all sides, with something else than zeros, of what is no convolution.
static struct tachy_value *framed(void)
{
    struct tachy_plan_attr pool = {.pool = {.kernel = {2, 2}, .stride = {1, 1}}};
    struct tachy_value *x = conv(input(4, SHAPE(2, 3, 7, 9)), 5, 1, true);
    x = make(TACHY_OP_POOL, pool, VALUE(2, 5, 6, 8), x, NULL, NULL);
    x = pad(x, SHAPE(1, 2, 0, 3), SHAPE(0, 1, 2, 1), -1.5f);
    return unary(TACHY_PLAN_TANH, conv(x, 4, 3, true));
}

// Within a Concat, which lies within nothing.
static struct tachy_value *joined(void)
{
    struct tachy_value *x = conv(input(4, SHAPE(1, 3, 7, 9)), 5, 1, true), *z = conv(x, 3, 1, true);
    struct tachy_value *p = pad(unary(TACHY_PLAN_TANH, x), SHAPE(0, 1, 0, 0), SHAPE(0, 1, 0, 0), 2);
    return conv(make(TACHY_OP_CONCAT, (struct tachy_plan_attr){.axis = 1}, VALUE(1, 10, 7, 9), p, z, NULL), 4, 1, true);
}

TEST(pads)
{
    struct tachy_value *(*const form[])(void) = {wider, ones, framed, joined};
    for (size_t i = 0; i < sizeof(form) / sizeof(form[0]); i++)
        same_after_all(form[i]);
}

// The padded value takes no memory of its own: the arena is no larger than without it.
TEST(takes_no_place)
{
    struct tachy_cpu_plan *p = NULL;
    struct tachy_plan_info info;
    begin();
    tachy_graph_add_output(g, wider());
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
    CHECK_INT(tachy_cpu_plan_open(&p, g, NULL), TACHY_OK);
    tachy_cpu_plan_info(p, &info);
    size_t pixels = 2 * 7 * 9; // input, padded value, sum; each rounded up to 16 floats
    CHECK_INT(info.values, sizeof(float) * (TACHY_ALIGN(pixels * 3, 16) + 2 * TACHY_ALIGN(pixels * 17, 16)));
    tachy_cpu_plan_close(&p);
    tachy_graph_close(&g);
}

// Queries, keys and values of attention, as exporters cut them out of one product.
static struct tachy_value *thirds(int axis)
{
    struct tachy_value *x = unary(TACHY_PLAN_RELU, input(3, (int64_t[]){3, 3, 48})), *third[3];
    for (int i = 0; i < 3; i++) {
        struct tachy_plan_attr cut = {.slice = {.step = {1, 1, 1}}};
        int64_t shape[] = {3, 3, 48};
        cut.slice.start[axis] = i;
        shape[axis] = 1;
        third[i] = make(TACHY_OP_SLICE, cut, value(3, shape), x, NULL, NULL);
    }
    return binary(TACHY_PLAN_ADD, binary(TACHY_PLAN_MUL, third[0], third[1]), third[2]);
}

static struct tachy_value *rows(void) { return thirds(0); }
static struct tachy_value *between(void) { return thirds(1); }

static size_t place_of(struct tachy_value *(*build)(void))
{
    struct tachy_cpu_plan *p = NULL;
    struct tachy_plan_info info;
    begin();
    tachy_graph_add_output(g, build());
    CHECK_INT(tachy_cpu_plan_open(&p, g, NULL), TACHY_OK);
    tachy_cpu_plan_info(p, &info);
    tachy_cpu_plan_close(&p);
    tachy_graph_close(&g);
    return info.values;
}

// Slices of whole rows are the rows; others are copied.
TEST(slices)
{
    same_after_all(rows);
    same_after_all(between);
    CHECK_INT(place_of(rows) + 3 * sizeof(float) * 3 * 48, place_of(between));
}

TEST_MAIN(TEST_CASE(widening), TEST_CASE(pads), TEST_CASE(takes_no_place), TEST_CASE(slices))
