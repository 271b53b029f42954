#include "graph_build.h"

#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>

// One run on several threads, the plan's own or a caller's helpers: the bits of one thread, whichever steps are split
// and however rows divide, also with several callers at once.

enum { SIZE = 31, CHANNELS = 40 };

static struct tachy_value *pooled(struct tachy_value *x)
{
    struct tachy_plan_attr mean = {.reduce = {TACHY_PLAN_MEAN, {false, false, true, true}}};
    struct tachy_value *m = VALUE(x->shape[0], x->shape[1], 1, 1);
    make(TACHY_OP_REDUCE, mean, m, x, NULL, NULL);
    return binary(TACHY_PLAN_MUL, x, unary(TACHY_PLAN_SIGMOID, conv(m, (int)x->shape[1], 1, true)));
}

static struct tachy_value *resized(struct tachy_value *x, int h, int w)
{
    struct tachy_plan_attr a = {.resize = {
        .mode = TACHY_PLAN_LINEAR,
        .coords = TACHY_PLAN_HALF_PIXEL,
        .scale = {(float)h / (float)x->shape[2], (float)w / (float)x->shape[3]},
    }};
    return make(TACHY_OP_RESIZE, a, VALUE(x->shape[0], x->shape[1], h, w), x, NULL, NULL);
}

// Convolutions of both kinds, a scale, a resize, a product of matrices; two pictures per run.
static void build(void)
{
    begin();
    struct tachy_value *x = conv(input(4, SHAPE(2, 3, SIZE, SIZE)), CHANNELS, 3, true);
    x = unary(TACHY_PLAN_HSWISH, x);
    x = binary(TACHY_PLAN_ADD, conv(pooled(x), CHANNELS, 3, true), x);
    x = conv(resized(unary(TACHY_PLAN_TANH, x), 53, 47), 16, 1, true);
    struct tachy_value *rows = VALUE(2 * 16 * 53, 47), *product = VALUE(2 * 16 * 53, 33);
    make(TACHY_OP_RESHAPE, (struct tachy_plan_attr){0}, rows, x, NULL, NULL);
    make(TACHY_OP_MATMUL, (struct tachy_plan_attr){.matmul = {.alpha = 1}}, product, rows, NUMBERS(47, 33), NULL);
    struct tachy_plan_attr softmax = {.axis = 1};
    tachy_graph_add_output(g, make(TACHY_OP_SOFTMAX, softmax, like(product), product, NULL, NULL));
    tachy_graph_add_output(g, x);
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
}

enum { IN = 2 * 3 * SIZE * SIZE, OUT0 = 2 * 16 * 53 * 33, OUT1 = 2 * 16 * 53 * 47 };

static float x[IN], want[OUT0 + OUT1];

static struct tachy_cpu_plan *open_plan(int threads)
{
    struct tachy_cpu_plan *p = NULL;
    build();
    CHECK_INT(tachy_cpu_plan_open(&p, g, &(struct tachy_plan_params){.threads = threads}), TACHY_OK);
    tachy_graph_close(&g);
    return p;
}

static bool run_by(struct tachy_cpu_plan *p, float *y, const struct tachy_plan_helpers *helpers)
{
    const float *in = x;
    memset(y, 0xee, sizeof(want));
    return tachy_cpu_plan_run_by(p, &in, (float *const[]){y, y + OUT0}, helpers, NULL) == TACHY_OK;
}

static bool run(struct tachy_cpu_plan *p, float *y) { return run_by(p, y, NULL); }

static void make_reference(void)
{
    struct tachy_cpu_plan *p = open_plan(1);
    for (int i = 0; i < IN; i++)
        x[i] = noise();
    CHECK(run(p, want));
    tachy_cpu_plan_close(&p);
}

TEST(same_bits)
{
    static float y[OUT0 + OUT1];
    make_reference();
    for (int threads = 2; threads <= 7; threads += threads == 3 ? 4 : 1) {
        struct tachy_cpu_plan *p = open_plan(threads);
        for (int i = 0; i < 3; i++) {
            CHECK(run(p, y));
            CHECK(!memcmp(y, want, sizeof(want)));
        }
        tachy_cpu_plan_close(&p);
    }
}

enum { HELPERS = 5 };

// Threads that share the pieces of a step.
struct pool {
    int threads; // the caller's among them
    size_t first, last, most; // pieces of the first and the last step, and of the step with the most
    int steps;                // that were shared
    void (*piece)(void *arg, size_t i);
    void *arg;
    size_t n;
    atomic_size_t next;
};

static void *take_pieces(void *arg)
{
    struct pool *pool = arg;
    for (size_t i; (i = atomic_fetch_add(&pool->next, 1)) < pool->n;)
        pool->piece(pool->arg, i);
    return NULL;
}

static void share(void *user, void (*piece)(void *arg, size_t i), void *arg, size_t n)
{
    struct pool *pool = user;
    pthread_t thread[HELPERS];
    pool->piece = piece, pool->arg = arg, pool->n = n;
    atomic_store(&pool->next, 0);
    for (int i = 1; i < pool->threads; i++)
        CHECK_INT(pthread_create(&thread[i], NULL, take_pieces, pool), 0);
    take_pieces(pool);
    for (int i = 1; i < pool->threads; i++)
        pthread_join(thread[i], NULL);
    pool->first = pool->first ? pool->first : n;
    pool->last = n, pool->steps++;
    pool->most = TACHY_MAX(pool->most, n);
}

// Steps have as many pieces as the plan has threads, or fewer if the helpers are fewer.
TEST(helpers_of_the_caller)
{
    static float y[OUT0 + OUT1];
    make_reference();
    for (int threads = 1; threads <= HELPERS; threads += 2) {
        struct tachy_cpu_plan *p = open_plan(HELPERS);
        struct pool pool = {.threads = threads};
        for (int i = 0; i < 3; i++) {
            CHECK(run_by(p, y, &(struct tachy_plan_helpers){share, &pool}));
            CHECK(!memcmp(y, want, sizeof(want)));
        }
        CHECK_INT(pool.first, HELPERS);
        CHECK_INT(pool.most, HELPERS);
        CHECK(pool.last >= 2 && (threads > 1 || pool.last == 2));
        CHECK(run(p, y) && !memcmp(y, want, sizeof(want))); // by threads of its own
        tachy_cpu_plan_close(&p);
    }
}

// If nobody helps, steps stay whole after a while, and some are shared later to see.
TEST(no_helpers)
{
    static float y[OUT0 + OUT1];
    make_reference();
    struct tachy_cpu_plan *p = open_plan(HELPERS);
    struct pool pool = {.threads = 1};
    const struct tachy_plan_helpers helpers = {share, &pool};
    CHECK(run_by(p, y, &helpers));
    int split = pool.steps, runs = 1;
    CHECK(split > 0 && split < 512);
    for (; (runs + 1) * split <= 8192; runs++) {
        CHECK(run_by(p, y, &helpers) && !memcmp(y, want, sizeof(want)));
        CHECK_INT(pool.steps, TACHY_MIN((runs + 1) * split, 512));
    }
    CHECK(run_by(p, y, &helpers));
    CHECK(pool.steps > 512);
    tachy_cpu_plan_close(&p);
}

struct caller {
    struct tachy_cpu_plan *plan;
    float *y;
    int wrong;
};

static void *call_often(void *arg)
{
    struct caller *c = arg;
    for (int i = 0; i < 4; i++)
        c->wrong += !run(c->plan, c->y) || memcmp(c->y, want, sizeof(want));
    return NULL;
}

TEST(several_callers)
{
    struct tachy_cpu_plan *p = open_plan(3);
    struct caller c[3];
    pthread_t thread[3];
    for (int i = 0; i < 3; i++) {
        c[i] = (struct caller){p, malloc(sizeof(want)), 0};
        CHECK_INT(pthread_create(&thread[i], NULL, call_often, &c[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        CHECK_INT(c[i].wrong, 0);
        free(c[i].y);
    }
    tachy_cpu_plan_close(&p);
}

TEST_MAIN(TEST_CASE(same_bits), TEST_CASE(helpers_of_the_caller), TEST_CASE(no_helpers), TEST_CASE(several_callers))
