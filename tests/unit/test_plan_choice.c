#include "graph_build.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/store.h"
#include "plan/cpu/conv.h"

#include <pthread.h>

// Choice of kernels: it changes no bit, a stored choice is reused if and only if it fits, and plans of equal weights
// share them.

enum { SIZE = 20, IN = 3 * SIZE * SIZE, CHANNELS = 40, OUT = CHANNELS * SIZE * SIZE };

static float x[IN], want[OUT];

// Depthwise, with stride or without.
static struct tachy_value *depthwise(struct tachy_value *v, int kernel)
{
    int c = (int)v->shape[1], p = kernel / 2;
    struct tachy_plan_attr a = {.conv = {{kernel, kernel}, {1, 1}, {1, 1}, {p, p, p, p}, c, {0, 0}, 0, 0}};
    return make(TACHY_OP_CONV, a, like(v), v, NUMBERS(c, 1, kernel, kernel), NUMBERS(c));
}

// A squeeze-and-excite scale, which goes into the next convolution's weights.
static struct tachy_value *scaled(struct tachy_value *v)
{
    struct tachy_plan_attr mean = {.reduce = {TACHY_PLAN_MEAN, {false, false, true, true}}};
    struct tachy_value *m = VALUE(v->shape[0], v->shape[1], 1, 1);
    make(TACHY_OP_REDUCE, mean, m, v, NULL, NULL);
    struct tachy_value *s = unary(TACHY_PLAN_SIGMOID, conv(m, (int)v->shape[1], 1, true));
    return make(TACHY_OP_BINARY, (struct tachy_plan_attr){.binary = TACHY_PLAN_MUL}, like(v), v, s, NULL);
}

static void build(void)
{
    begin();
    struct tachy_value *v = unary(TACHY_PLAN_HSWISH, conv(input(4, SHAPE(1, 3, SIZE, SIZE)), CHANNELS, 3, true));
    struct tachy_value *skip = v;
    v = conv(scaled(depthwise(v, 3)), 24, 1, true);
    v = unary(TACHY_PLAN_RELU, conv(v, 72, 1, true));
    v = conv(depthwise(v, 5), CHANNELS, 1, true);
    v = binary(TACHY_PLAN_ADD, v, skip);
    tachy_graph_add_output(g, conv(v, CHANNELS, 3, false));
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
}

static struct tachy_cpu_plan *open_plan(int effort, const char *choice)
{
    struct tachy_cpu_plan *p = NULL;
    build();
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
    CHECK_INT(tachy_cpu_plan_open(&p, g, &(struct tachy_plan_params){.effort = effort, .choice = choice}), TACHY_OK);
    tachy_graph_close(&g);
    return p;
}

static struct tachy_plan_info info_of(const struct tachy_cpu_plan *p)
{
    struct tachy_plan_info i;
    tachy_cpu_plan_info(p, &i);
    return i;
}

static bool same_bits(struct tachy_cpu_plan *p)
{
    static float y[OUT];
    memset(y, 0xee, sizeof(y));
    CHECK_INT(tachy_cpu_plan_run(p, (const float *const[]){x}, (float *const[]){y}), TACHY_OK);
    return !memcmp(y, want, sizeof(y));
}

static void make_reference(void)
{
    struct tachy_cpu_plan *p = open_plan(0, NULL);
    for (int i = 0; i < IN; i++)
        x[i] = noise();
    CHECK_INT(tachy_cpu_plan_run(p, (const float *const[]){x}, (float *const[]){want}), TACHY_OK);
    CHECK(same_bits(p));
    tachy_cpu_plan_close(&p);
}

// Every line of a choice with its k-th kernel; *most: kernels of the line with the most.
static char *kth(const char *choice, int k, int *most)
{
    char *text = NULL, name[TACHY_CONV_NAME];
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    fprintf(f, "effort 3\nrun 1 ms, default 2 ms\n");
    for (const char *line = strstr(choice, "\nconv "); line; line = strstr(line + 1, "\nconv ")) {
        struct tachy_conv_shape s;
        struct tachy_conv_variant v[TACHY_CONV_VARIANTS_MAX];
        int scale, nb;
        CHECK_INT(sscanf(line, "\nconv %d %d %d %d %d %d %d, %d %d, %d %d, %d %d %d %d, %d, %d | %d |", &s.n, &s.h, &s.w,
                         &s.cin, &s.cout, &s.kh, &s.kw, &s.stride_h, &s.stride_w, &s.dil_h, &s.dil_w, &s.pad_top,
                         &s.pad_left, &s.pad_bottom, &s.pad_right, &s.groups, &scale, &nb), 18);
        CHECK_INT(tachy_conv_variants(&s, tachy_cpu_isa(), v), nb);
        *most = TACHY_MAX(*most, nb);
        int head = (int)(strrchr(line, '|') - line) + 2;
        const char *end = strchr(line + 1, '\n');
        for (const char *bar = line; (bar = strchr(bar + 1, '|')) && bar < end;)
            head = (int)(bar - line) + 2;
        fprintf(f, "%.*s%s\n", head - 1, line + 1, tachy_conv_variant_name(&v[k % nb], name));
    }
    fclose(f);
    return text;
}

TEST(every_kernel)
{
    make_reference();
    struct tachy_cpu_plan *p = open_plan(0, NULL);
    char *first = tachy_asprintf("%s", tachy_cpu_plan_choice(p));
    tachy_cpu_plan_close(&p);
    int most = 1;
    for (int k = 0; k < most; k++) {
        char *text = kth(first, k, &most);
        p = open_plan(3, text);
        CHECK_INT(info_of(p).effort, 3); // taken, so nothing was timed
        CHECK(info_of(p).choice_seconds == 0.0);
        CHECK(strstr(tachy_cpu_plan_choice(p), strchr(text, 'c')));
        CHECK(same_bits(p));
        tachy_cpu_plan_close(&p);
        free(text);
    }
    CHECK(most > 2);
    tachy_free(first);
}

// Each kernel of a shape has a distinct name, so that a choice can identify it.
TEST(names)
{
    static const struct tachy_conv_shape shapes[] = {
        {1, 20, 20, 24, 72, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1}, {1, 20, 20, 3, 40, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1},
        {1, 20, 20, 72, 72, 5, 5, 1, 1, 1, 1, 2, 2, 2, 2, 72}, {1, 20, 20, 8, 8, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 8},
        {1, 1, 50, 64, 512, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1}, {1, 20, 20, 64, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 4}};
    for (size_t s = 0; s < TACHY_ARRAY_SIZE(shapes); s++) {
        struct tachy_conv_variant v[TACHY_CONV_VARIANTS_MAX];
        char a[TACHY_CONV_NAME], b[TACHY_CONV_NAME];
        int n = tachy_conv_variants(&shapes[s], tachy_cpu_isa(), v);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < i; j++)
                CHECK(strcmp(tachy_conv_variant_name(&v[i], a), tachy_conv_variant_name(&v[j], b)) != 0);
    }
}

TEST(timed_once)
{
    make_reference();
    for (int effort = 1; effort <= 2; effort++) {
        struct tachy_cpu_plan *p = open_plan(effort, NULL), *again = NULL;
        struct tachy_plan_info i = info_of(p);
        CHECK_INT(i.effort, effort);
        CHECK(i.choice_seconds > 0 && i.choice_seconds < 5);
        CHECK(i.run_ms > 0 && i.run_ms <= i.default_run_ms);
        CHECK(same_bits(p));
        again = open_plan(effort, tachy_cpu_plan_choice(p));
        CHECK(info_of(again).choice_seconds == 0.0);
        CHECK_STR(tachy_cpu_plan_choice(again), tachy_cpu_plan_choice(p));
        CHECK(same_bits(again));
        tachy_cpu_plan_close(&again);
        again = open_plan(0, tachy_cpu_plan_choice(p)); // what is known is taken without effort
        CHECK_STR(tachy_cpu_plan_choice(again), tachy_cpu_plan_choice(p));
        tachy_cpu_plan_close(&again);
        again = open_plan(effort + 1, effort == 1 ? tachy_cpu_plan_choice(p) : NULL); // and not for more effort
        CHECK(info_of(again).choice_seconds > 0);
        CHECK_INT(info_of(again).effort, effort + 1);
        tachy_cpu_plan_close(&again);
        tachy_cpu_plan_close(&p);
    }
}

TEST(does_not_fit)
{
    make_reference();
    struct tachy_cpu_plan *p = open_plan(0, NULL);
    const char *text = tachy_cpu_plan_choice(p);
    int most = 1, wrong = 0;
    char *good = kth(text, 1, &most), *second = strstr(strstr(good, "\nconv ") + 1, "\nconv ");
    char *bad[] = {tachy_asprintf("%s", ""), tachy_asprintf("effort 9\nrun 1 ms, default 2 ms\n"),
                   tachy_asprintf("effort 3\nrun 1 ms, default 2 ms\n%s", second + 1), // a shape is missing
                   tachy_asprintf("%.*s avx1024 1x1%s", (int)(second - good), good, second),
                   tachy_asprintf("%.*s", (int)strlen(good) - 5, good), tachy_asprintf("x%s", good)};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(bad); i++) {
        struct tachy_cpu_plan *other = open_plan(0, bad[i]);
        wrong += strcmp(tachy_cpu_plan_choice(other), text) != 0; // the defaults
        wrong += info_of(other).effort != 0 || !same_bits(other);
        tachy_cpu_plan_close(&other);
        tachy_free(bad[i]);
    }
    CHECK_INT(wrong, 0);
    free(good);
    tachy_cpu_plan_close(&p);
}

TEST(shared_weights)
{
    make_reference();
    struct tachy_cpu_plan *a = open_plan(0, NULL), *b = NULL;
    CHECK_INT(info_of(a).shared, 0);
    b = open_plan(0, NULL);
    CHECK(info_of(a).shared > 0 && info_of(a).shared == info_of(b).shared);
    CHECK(info_of(a).shared * 10 > info_of(a).weights * 9);
    CHECK(same_bits(b));
    tachy_cpu_plan_close(&a);
    CHECK_INT(info_of(b).shared, 0);
    CHECK(same_bits(b));
    tachy_cpu_plan_close(&b);
}

static void *open_often(void *arg)
{
    struct tachy_graph *of = arg;
    int *wrong = calloc(1, sizeof(*wrong));
    float *y = malloc(sizeof(want));
    for (int i = 0; i < 10; i++) {
        struct tachy_cpu_plan *p = NULL;
        *wrong += tachy_cpu_plan_open(&p, of, &(struct tachy_plan_params){.effort = i == 5}) != TACHY_OK ||
                  tachy_cpu_plan_run(p, (const float *const[]){x}, (float *const[]){y}) != TACHY_OK ||
                  memcmp(y, want, sizeof(want)) != 0;
        tachy_cpu_plan_close(&p);
    }
    free(y);
    return wrong;
}

// Plans of the same weights come and go on several threads.
TEST(threads)
{
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    make_reference();
    build();
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&thread[i], NULL, open_often, g), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        CHECK_INT(pthread_join(thread[i], &wrong), 0);
        CHECK_INT(*(int *)wrong, 0);
        free(wrong);
    }
    tachy_graph_close(&g);
}

TEST(keys)
{
    char a[TACHY_STORE_KEY + 1], b[TACHY_STORE_KEY + 1];
    build();
    CHECK_INT(tachy_cpu_plan_key(g, a), TACHY_OK);
    CHECK_INT(strspn(a, "0123456789abcdef"), TACHY_STORE_KEY);
    tachy_graph_close(&g);
    build();
    CHECK_INT(tachy_cpu_plan_key(g, b), TACHY_OK);
    CHECK_STR(a, b); // of the same graph, whoever made it
    for (int i = 0; i < g->nb_values; i++) { // any number of any constant counts
        struct tachy_value *v = g->values[i];
        float *data = (float *)(uintptr_t)v->data;
        if (!data)
            continue;
        int64_t at = tachy_value_elements(v) - 1;
        float old = data[at];
        data[at] += 1;
        CHECK_INT(tachy_cpu_plan_key(g, b), TACHY_OK);
        CHECK(strcmp(a, b) != 0);
        data[at] = old;
    }
    tachy_graph_close(&g);
    build();
    g->last->attr.conv.dilation[0] = 2; // and attributes do
    CHECK_INT(tachy_cpu_plan_key(g, b), TACHY_OK);
    CHECK(strcmp(a, b) != 0);
    tachy_graph_close(&g);
}

TEST_MAIN(TEST_CASE(every_kernel), TEST_CASE(names), TEST_CASE(timed_once), TEST_CASE(does_not_fit),
          TEST_CASE(shared_weights), TEST_CASE(threads), TEST_CASE(keys))
