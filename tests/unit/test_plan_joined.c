#include "graph_build.h"

// A convolution and the depthwise one after it as one step: the bits of the two separate ones.

struct shape {
    int n, h, w, cin, c;
    int kernel, stride;           // of the first
    int high, wide, step, dilation; // of the depthwise one
    int top, left, bottom, right;
    enum tachy_plan_act act[2];
    bool add[2]; // a tensor is added to the first's and to the second's output
    bool sums;   // the second's rows are summed for a mean
};

static struct tachy_value *activated(struct tachy_value *x, enum tachy_plan_act act)
{
    if (act != TACHY_PLAN_PRELU)
        return act == TACHY_PLAN_NONE ? x : unary(act, x);
    struct tachy_plan_attr a = {.act = {act, 0, 0}};
    return make(TACHY_OP_UNARY, a, like(x), x, NUMBERS(1, x->shape[1], 1, 1), NULL);
}

static struct tachy_value *first(const struct shape *s, struct tachy_value *x)
{
    int p = s->kernel / 2;
    struct tachy_plan_attr a = {
        .conv = {{s->kernel, s->kernel}, {s->stride, s->stride}, {1, 1}, {p, p, p, p}, 1, {0, 0}, 0, 0}};
    int h = (s->h + 2 * p - s->kernel) / s->stride + 1, w = (s->w + 2 * p - s->kernel) / s->stride + 1;
    return make(TACHY_OP_CONV, a, VALUE(s->n, s->c, h, w), x, NUMBERS(s->c, s->cin, s->kernel, s->kernel),
                NUMBERS(s->c));
}

static struct tachy_value *second(const struct shape *s, struct tachy_value *x)
{
    struct tachy_plan_attr a = {.conv = {{s->high, s->wide},
                                         {s->step, s->step},
                                         {s->dilation, s->dilation},
                                         {s->top, s->left, s->bottom, s->right},
                                         s->c,
                                         {0, 0}, 0, 0}};
    int64_t h = (x->shape[2] + s->top + s->bottom - (s->high - 1) * s->dilation - 1) / s->step + 1;
    int64_t w = (x->shape[3] + s->left + s->right - (s->wide - 1) * s->dilation - 1) / s->step + 1;
    return make(TACHY_OP_CONV, a, VALUE(s->n, s->c, h, w), x, NUMBERS(s->c, 1, s->high, s->wide), NUMBERS(s->c));
}

static void build(const struct shape *s)
{
    begin();
    struct tachy_value *x = input(4, SHAPE(s->n, s->cin, s->h, s->w));
    struct tachy_value *other = s->add[0] ? first(s, x) : NULL, *y = first(s, x);
    if (s->add[0])
        y = binary(TACHY_PLAN_ADD, y, other);
    y = activated(y, s->act[0]);
    struct tachy_value *z = second(s, y);
    if (s->add[1])
        z = binary(TACHY_PLAN_ADD, z, second(s, activated(first(s, x), TACHY_PLAN_RELU)));
    z = activated(z, s->act[1]);
    tachy_graph_add_output(g, z);
    if (s->sums) {
        struct tachy_plan_attr mean = {.reduce = {TACHY_PLAN_MEAN, {false, false, true, true}}};
        z = make(TACHY_OP_REDUCE, mean, VALUE(s->n, s->c, 1, 1), z, NULL, NULL);
        tachy_graph_add_output(g, z);
    }
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
}

struct result {
    float *out[2];
    int64_t n[2];
    struct tachy_plan_info info;
    char *choice; // of kernels
};

static struct result run(const struct shape *s, const struct tachy_plan_params *params)
{
    struct result r = {0};
    struct tachy_cpu_plan *p = NULL;
    build(s);
    int64_t nb_in = tachy_value_elements(g->in[0]);
    float *x = calloc((size_t)nb_in, sizeof(*x));
    seed = 99;
    for (int64_t i = 0; i < nb_in; i++)
        x[i] = noise();
    for (int i = 0; i < g->nb_out; i++) {
        r.n[i] = tachy_value_elements(g->out[i]);
        r.out[i] = calloc((size_t)r.n[i], sizeof(float));
    }
    CHECK_INT(tachy_cpu_plan_open(&p, g, params), TACHY_OK);
    tachy_graph_close(&g);
    for (int i = 0; i < 2 && p; i++)
        CHECK_INT(tachy_cpu_plan_run(p, (const float *const[]){x}, r.out), TACHY_OK);
    if (p) {
        tachy_cpu_plan_info(p, &r.info);
        r.choice = tachy_asprintf("%s", tachy_cpu_plan_choice(p));
    }
    tachy_cpu_plan_close(&p);
    free(x);
    return r;
}

static void release(struct result *r)
{
    for (int i = 0; i < 2; i++)
        free(r->out[i]);
    tachy_free(r->choice);
}

static bool equal(const struct result *a, const struct result *b)
{
    for (int i = 0; i < 2; i++)
        if (a->n[i] != b->n[i] || (a->n[i] && memcmp(a->out[i], b->out[i], (size_t)a->n[i] * sizeof(float))))
            return false;
    return true;
}

// True if the value in between takes no memory.
static bool is_joined(const struct result *joined, const struct result *apart)
{
    return joined->info.values < apart->info.values;
}

static const struct tachy_plan_params apart_params = {.apart = 1};

static void compare(const struct shape *s)
{
    struct result apart = run(s, &apart_params);
    struct tachy_plan_params ways[] = {{.threads = 1}, {.threads = 2}, {.threads = 5}, {.effort = 1}, {.effort = 1, .threads = 3}};
    enum { NB = TACHY_ARRAY_SIZE(ways), CHOOSES = NB - 2 };
    char *choice = NULL;
    for (int i = 0; i < NB; i++) {
        ways[i].choice = choice; // kernels are timed once
        struct result joined = run(s, &ways[i]);
        CHECK(equal(&joined, &apart));
        CHECK(is_joined(&joined, &apart));
        CHECK((joined.info.choice_seconds > 0) == (i == CHOOSES));
        if (i == CHOOSES) {
            choice = joined.choice;
            joined.choice = NULL;
        }
        release(&joined);
    }
    tachy_free(choice);
    release(&apart);
}

#define ACTS(a, b) {TACHY_PLAN_##a, TACHY_PLAN_##b}

TEST(the_bits_of_two_steps)
{
    static const struct shape shapes[] = {
        {1, 40, 44, 8, 40, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1, ACTS(RELU, RELU), {0, 0}, false},
        {1, 41, 37, 5, 97, 1, 1, 3, 3, 2, 1, 1, 1, 1, 1, ACTS(HSWISH, NONE), {0, 0}, true},
        {1, 100, 104, 3, 32, 3, 2, 3, 3, 1, 1, 1, 1, 1, 1, ACTS(CLIP, HSWISH), {0, 0}, true}, // a stem
        {2, 17, 19, 24, 211, 1, 1, 5, 5, 1, 1, 2, 2, 2, 2, ACTS(SWISH, SIGMOID), {0, 1}, true},
        {3, 16, 16, 16, 96, 1, 1, 5, 5, 2, 1, 1, 1, 2, 2, ACTS(PRELU, PRELU), {1, 0}, false},
        {1, 9, 200, 12, 100, 1, 1, 3, 3, 1, 2, 2, 2, 2, 2, ACTS(RELU, CLIP), {0, 0}, false}, // dilated
        {1, 150, 12, 4, 48, 1, 1, 7, 3, 3, 1, 0, 1, 0, 0, ACTS(NONE, RELU), {1, 1}, false},
        {1, 5, 300, 20, 130, 1, 1, 3, 3, 1, 1, 9, 1, 12, 1, ACTS(RELU, NONE), {0, 0}, true}, // rows of only padding
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(shapes); i++)
        compare(&shapes[i]);
}

// Too small, read by another node as well, or with a special kernel: two steps.
TEST(what_stays_apart)
{
    static const struct shape small = {1, 8, 8, 8, 16, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1, ACTS(RELU, RELU), {0, 0}, false};
    struct result one = run(&small, NULL), two = run(&small, &apart_params);
    CHECK(equal(&one, &two));
    CHECK(!is_joined(&one, &two));
    release(&one);
    release(&two);
    begin();
    struct shape s = {1, 48, 48, 8, 40, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1, ACTS(NONE, NONE), {0, 0}, false};
    struct tachy_value *y = first(&s, input(4, SHAPE(1, 8, 48, 48)));
    tachy_graph_add_output(g, binary(TACHY_PLAN_ADD, second(&s, y), y));
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
    struct tachy_cpu_plan *p = NULL;
    struct tachy_plan_info info;
    CHECK_INT(tachy_cpu_plan_open(&p, g, NULL), TACHY_OK);
    tachy_cpu_plan_info(p, &info);
    CHECK(info.values >= 48 * 48 * 40 * sizeof(float));
    tachy_cpu_plan_close(&p);
    tachy_graph_close(&g);
}

TEST_MAIN(TEST_CASE(the_bits_of_two_steps), TEST_CASE(what_stays_apart))
